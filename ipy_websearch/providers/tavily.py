"""Tavily: a search made for language models, with the passages that fit.

Wire facts: docs.tavily.com, "Tavily Search" and "Credits & pricing", and the tavily-python SDK 0.8.5, read 2026-11. A basic
search is one credit, an advanced one two; what was used is asked for (`include_usage`) and booked.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from ipy_websearch.http.response import HttpResponse, Reason
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import ProviderContext, ProviderInfo, SearchRequest
from ipy_websearch.providers.countries import country_name
from ipy_websearch.providers.engine import Engine
from ipy_websearch.providers.registry import PROVIDERS
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.usage import Charge

TIMEOUT_S = 20.0
MAX_CHARS, MAX_COUNT = 400, 20
MAX_ALLOWED, MAX_BLOCKED = 300, 150

_PERIODS = {"pd": "day", "pw": "week", "pm": "month", "py": "year"}


class TavilyProvider(Engine):
    """Asks Tavily's search."""

    name: ClassVar[str] = "tavily"
    info: ClassVar[ProviderInfo] = PROVIDERS["tavily"]
    price = (Charge("tavily", "search", unit="credit"),)
    options: ClassVar[tuple[str, ...]] = (
        *("search_depth", "topic", "chunks_per_source", "include_answer", "include_raw_content", "include_images"),
        *("auto_parameters", "exact_match", "max_age_hours", "include_domains_mode"),
    )

    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context)
        self.price = (Charge("tavily", "search", _credits({}, context.options), "credit"),)

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search; `score` is Tavily's, from 0 to 1, comparable within one answer.

        Raises:
            MissingKeyError: TAVILY_API_KEY is not set.
            ProviderError: Tavily refused, failed or could not be reached.
        """
        query, notices = self.clipped(request.query, MAX_CHARS)
        count, fewer = self.count(request, MAX_COUNT)
        notices += [*fewer, *self.unsupported(request, "goggles", "place", "language", "safe_search")]
        options = self.chosen_options()
        country = country_name(request.country)
        if request.country and not country:
            notices.append(f"tavily knows no country {request.country!r}; ignored")
        body = {
            **tavily_body(request, query, count),
            **({"country": country} if country and options.get("topic", "general") == "general" else {}),
            **options,
        }
        raw = self.readable(
            await self.http.request_json(
                "POST",
                self.url("/search"),
                provider=self.name,
                json=body,
                headers={"Authorization": f"Bearer {self.key()}"},
                timeout_s=TIMEOUT_S,
                explain=self.explain,
            )
        )
        answer = parsing.text(raw.get("answer"))
        return self.answer(
            request,
            map(_result, parsing.objects(raw.get("results"))),
            raw=raw,
            notices=notices,
            extra={"answer": answer} if answer else None,
            charges=(Charge("tavily", "search", _credits(raw, options), "credit"),),
        )

    def explain(self, response: HttpResponse) -> Reason:
        """Return why Tavily refused; 432 and 433 are its own: the plan, or what pays as it goes, is used up."""
        reason = super().explain(response)
        if response.status in (432, 433):
            return Reason(f"the plan's limit is used up ({reason.text.rstrip('.')})")
        return reason


def tavily_body(request: SearchRequest, query: str, count: int) -> dict[str, Any]:
    """Return the body of one search as far as the request decides it."""
    body: dict[str, Any] = {"query": query, "max_results": count, "search_depth": "basic", "include_usage": True}
    if request.freshness in _PERIODS:
        body["time_range"] = _PERIODS[request.freshness]
    elif days := parsing.date_range(request.freshness):
        body |= {"start_date": days[0].isoformat(), "end_date": days[1].isoformat()}
    if request.allowed_domains:
        body["include_domains"] = list(request.allowed_domains[:MAX_ALLOWED])
    if request.blocked_domains:
        body["exclude_domains"] = list(request.blocked_domains[:MAX_BLOCKED])
    return body


def _credits(raw: Mapping[str, Any], options: Mapping[str, Any]) -> Decimal:
    """Return the credits that the answer reports, else those of the depth that was asked for."""
    used = parsing.number(parsing.mapping(raw.get("usage")).get("credits"))
    if used is not None and used >= 0:
        return Decimal(str(used)).normalize() + 0
    return Decimal(2 if options.get("search_depth") == "advanced" else 1)


def _result(item: Mapping[str, Any]) -> SearchResult | None:
    date = item.get("published_date")  # RFC 1123, for news only
    return parsing.hit(
        item.get("title"),
        item.get("url"),
        item.get("content"),
        parsing.rfc_date(date) or parsing.iso_date(date),
        score=item.get("score"),
    )
