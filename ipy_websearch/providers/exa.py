"""Exa: a search by meaning, with the passages that fit.

Wire facts: exa.ai/docs/reference/search, the OpenAPI description of 2026-04 and exa-py 2.27, read 2026-11, and a recording of
2026-02. Contents are only sent when asked for; text and highlights of ten results are part of the price, each further result
costs $0.001. Every answer says what it cost (`costDollars.total`), and that is booked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import Engine, SearchRequest
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.usage import Charge

INCLUDED_RESULTS, RESULTS_PER_PRICE = 10, 7


class ExaProvider(Engine):
    """Asks Exa's search."""

    name = "exa"
    max_count = 100
    ignores = ("goggles", "place", "language")
    options = (
        *("type", "category", "includeText", "excludeText", "additionalQueries", "startCrawlDate", "endCrawlDate"),
        *("contents", "moderation"),
    )
    price = (Charge("exa", "search"),)

    def price_for(self, count: int) -> tuple[Charge, ...]:
        """Return the price of a search, once more for every 7 results beyond 10 ($0.007 a search, $0.001 a result)."""
        more = -(-max(count - INCLUDED_RESULTS, 0) // RESULTS_PER_PRICE)
        return (replace(self.price[0], units=Decimal(1 + more)),)

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search; `score` is None where Exa gives none (its "auto" search).

        Raises:
            MissingKeyError: EXA_API_KEY is not set.
            ProviderError: Exa refused, failed or could not be reached.
        """
        query, count, notices = self.fitted(request)
        body = {**_body(request, query, count), **self.chosen}
        raw = await self.ask("POST", "/search", json=body, headers={"x-api-key": self.key()})
        charge = Charge("exa", "search", usd=parsing.amount(parsing.at(raw, "costDollars", "total")))
        return self.answer(request, map(_result, parsing.objects(raw.get("results"))), raw, notices, charges=(charge,))


def _body(request: SearchRequest, query: str, count: int) -> dict[str, Any]:
    """Return the body of one search as far as the request decides it."""
    days = parsing.date_range(request.freshness)
    is_range = "to" in (request.freshness or "")
    return parsing.present(
        query=query,
        type="auto",
        numResults=count,
        contents={"highlights": True, "text": {"maxCharacters": parsing.DESCRIPTION_WIDTH}},
        includeDomains=list(request.allowed_domains),
        excludeDomains=list(request.blocked_domains),
        startPublishedDate=days and f"{days[0]}T00:00:00.000Z",
        endPublishedDate=days and is_range and f"{days[1]}T23:59:59.999Z",
        userLocation=request.country_code,
        moderation=request.safe_search == "strict",
    )


def _result(item: Mapping[str, Any]) -> SearchResult | None:
    """Return one result: the passages that fit (highlights) where there are some, else the beginning of the text."""
    passages = parsing.snippets(item.get("highlights"), most=parsing.MAX_SNIPPETS + 1)
    words = passages[0] if passages else item.get("text") or item.get("summary")
    published = parsing.moment(item.get("publishedDate"))
    return parsing.hit(item.get("title"), item.get("url"), words, published, passages[1:], item.get("score"))
