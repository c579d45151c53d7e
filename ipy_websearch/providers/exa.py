"""Exa: a search by meaning, with the passages that fit.

Wire facts: exa.ai/docs/reference/search, the OpenAPI description of 2026-04 and exa-py 2.27, read 2026-11, and a recording of
2026-02. Contents are only sent when asked for; text and highlights of ten results are part of the price. Every answer
says what it cost (`costDollars.total`), and that is booked.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import ProviderInfo, SearchRequest
from ipy_websearch.providers.engine import Engine
from ipy_websearch.providers.registry import PROVIDERS
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.usage import Charge

TIMEOUT_S = 20.0
MAX_COUNT = 100
MAX_CHARS = 2_000


class ExaProvider(Engine):
    """Asks Exa's search."""

    name: ClassVar[str] = "exa"
    info: ClassVar[ProviderInfo] = PROVIDERS["exa"]
    price = (Charge("exa", "search"),)
    options: ClassVar[tuple[str, ...]] = (
        *("type", "category", "includeText", "excludeText", "additionalQueries", "startCrawlDate", "endCrawlDate"),
        *("contents", "moderation"),
    )

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search; `score` is None where Exa gives none (its "auto" search).

        Raises:
            MissingKeyError: EXA_API_KEY is not set.
            ProviderError: Exa refused, failed or could not be reached.
        """
        query, notices = self.clipped(request.query, MAX_CHARS)
        count, fewer = self.count(request, MAX_COUNT)
        notices += [*fewer, *self.unsupported(request, "goggles", "place", "language")]
        raw = self.readable(
            await self.http.request_json(
                "POST",
                self.url("/search"),
                provider=self.name,
                json={**exa_body(request, query, count), **self.chosen_options()},
                headers={"x-api-key": self.key()},
                timeout_s=TIMEOUT_S,
                explain=self.explain,
            )
        )
        charge = Charge("exa", "search", usd=_reported_cost(raw))
        return self.answer(
            request, map(_result, parsing.objects(raw.get("results"))), raw=raw, notices=notices, charges=(charge,)
        )


def exa_body(request: SearchRequest, query: str, count: int) -> dict[str, Any]:
    """Return the body of one search as far as the request decides it."""
    body: dict[str, Any] = {
        "query": query,
        "type": "auto",
        "numResults": count,
        "contents": {"highlights": True, "text": {"maxCharacters": parsing.DESCRIPTION_WIDTH}},
    }
    if request.allowed_domains:
        body["includeDomains"] = list(request.allowed_domains)
    if request.blocked_domains:
        body["excludeDomains"] = list(request.blocked_domains)
    if days := parsing.date_range(request.freshness):
        body["startPublishedDate"] = f"{datetime.combine(days[0], time.min, UTC):%Y-%m-%dT%H:%M:%S.000Z}"
        if request.freshness and "to" in request.freshness:
            body["endPublishedDate"] = f"{datetime.combine(days[1], time.max, UTC):%Y-%m-%dT%H:%M:%S.999Z}"
    if (country := request.country.upper()) not in ("", "ALL"):
        body["userLocation"] = {"UK": "GB"}.get(country, country)
    if request.safe_search == "strict":
        body["moderation"] = True
    return body


def _reported_cost(raw: Mapping[str, Any]) -> Decimal | None:
    """Return the dollars that the answer says it cost, None when it does not say."""
    total = parsing.number(parsing.mapping(raw.get("costDollars")).get("total"))
    try:
        return Decimal(str(total)) if total is not None and total >= 0 else None
    except InvalidOperation:
        return None


def _result(item: Mapping[str, Any]) -> SearchResult | None:
    """Return one result: the passages that fit (highlights) where there are some, else the beginning of the text."""
    passages = parsing.snippets(item.get("highlights"), most=parsing.MAX_SNIPPETS + 1)
    return parsing.hit(
        item.get("title"),
        item.get("url"),
        passages[0] if passages else item.get("text") or item.get("summary"),
        parsing.iso_date(item.get("publishedDate")),
        passages[1:],
        item.get("score"),
    )
