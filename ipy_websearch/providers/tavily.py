"""Tavily: a search made for language models, with the passages that fit.

Wire facts: docs.tavily.com, "Tavily Search" and "Credits & pricing", and the tavily-python SDK 0.8.5, read 2026-11. A basic
search is one credit, an advanced one two; the answer reports what was used (`include_usage`), and that is booked. Countries are
named in English, and only taken for the topic "general". `score` is from 0 to 1, comparable within one answer.
"""

from __future__ import annotations

from decimal import Decimal

from ipy_websearch.providers import base
from ipy_websearch.results import Charge

MAX_ALLOWED, MAX_BLOCKED = 300, 150


class TavilyProvider(
    base.Engine,
    name="tavily",
    max_chars=400,
    max_count=20,
    fields={"description": "content"},  # `published_date` is RFC 1123 text, for news only
    billed=("units", "usage.credits"),
    ignores=("goggles", "place", "language", "safe_search"),
    options=(
        *("search_depth", "topic", "chunks_per_source", "include_answer", "include_raw_content", "include_images"),
        *("auto_parameters", "exact_match", "max_age_hours", "include_domains_mode"),
    ),
    # Tavily's own: the plan, or what pays as it goes, is used up.
    refusals=(base.Refusal("43[23]", "credit", "the plan's limit is used up"),),
):
    """Asks Tavily's search."""

    def price_for(self, count: int) -> tuple[Charge, ...]:
        """Return the credits of a search of the chosen depth."""
        return (Charge("tavily", units=Decimal(2 if self.chosen.get("search_depth") == "advanced" else 1), unit="credit"),)

    def parameters(self, request: base.SearchRequest, query: str, count: int, notices: list[str]) -> base.Json:
        """Return the body of one search."""
        country = base.country_name(request.country_code)
        if request.country_code and not country:
            notices.append(f"tavily knows no country {request.country!r}; ignored")
        return base.present(
            query=query,
            max_results=count,
            search_depth="basic",
            include_usage=True,
            time_range=request.period,
            start_date=request.days and request.days[0].isoformat(),
            end_date=request.days and request.days[1].isoformat(),
            include_domains=list(request.allowed_domains[:MAX_ALLOWED]),
            exclude_domains=list(request.blocked_domains[:MAX_BLOCKED]),
            country=country if self.chosen.get("topic", "general") == "general" else "",
        )

    def details(self, raw: base.Json, notices: list[str]) -> base.Json:
        """Return Tavily's own answer where one was asked for."""
        return {"answer": base.text(raw.get("answer"))}
