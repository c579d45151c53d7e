"""Exa: a search by meaning, with the passages that fit.

Wire facts: exa.ai/docs/reference/search, the OpenAPI description of 2026-04 and exa-py 2.27, read 2026-11, and a recording of
2026-02. Contents are only sent when asked for; text and highlights of ten results are part of the price, each further result
costs $0.001. Every answer says what it cost (`costDollars.total`), and that is booked. `score` is missing in its "auto" search.
"""

from __future__ import annotations

from decimal import Decimal
from math import ceil

from ipy_websearch.providers import base
from ipy_websearch.results import Charge


class ExaProvider(
    base.Engine,
    name="exa",
    key_header="x-api-key",
    max_count=100,
    # The passages that fit where there are some, else the beginning of the text.
    fields={"description": "highlights text summary", "extra_snippets": "highlights", "published_date": "publishedDate"},
    billed=("usd", "costDollars.total"),
    ignores=("goggles", "place", "language"),
):
    """Asks Exa's search."""

    def price_for(self, count: int) -> tuple[Charge, ...]:
        """Return the price of a search, once more for every 7 results beyond 10 ($0.007 a search, $0.001 a result)."""
        return (Charge("exa", "search", Decimal(1 + ceil(max(count - 10, 0) / 7))),)

    def parameters(self, request: base.SearchRequest, query: str, count: int, notices: list[str]) -> base.Json:
        """Return the body of one search."""
        days = base.date_range(request.freshness)
        return base.present(
            query=query,
            type="auto",
            numResults=count,
            contents={"highlights": True, "text": {"maxCharacters": base.DESCRIPTION_WIDTH}},
            includeDomains=list(request.allowed_domains),
            excludeDomains=list(request.blocked_domains),
            startPublishedDate=days and f"{days[0]}T00:00:00.000Z",
            endPublishedDate=days and request.days and f"{days[1]}T23:59:59.999Z",
            userLocation=request.country_code,
            moderation=request.safe_search == "strict",
        )
