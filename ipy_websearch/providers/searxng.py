"""SearXNG: a metasearch server of one's own, without keys.

Wire facts: docs.searxng.org, "Search API", read 2026-11, and a server of 2026-08 run for the recordings. It has no parameter
for a number of results or for domains: `site:` goes along in the query, for the engines that know it. When nothing was
found because the engines behind it did not answer, that is a failure and not an empty result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ipy_websearch.http.response import HttpResponse, Reason
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import ProviderInfo, SearchRequest
from ipy_websearch.providers.engine import Engine, with_site_operators
from ipy_websearch.providers.registry import PROVIDERS
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.text import shorten
from ipy_websearch.usage import Charge

TIMEOUT_S = 15.0
MAX_CHARS = 2_000

_MOST_NAMED, _NAMED_WIDTH = 20, 200
_PERIODS = {"pd": "day", "pw": "week", "pm": "month", "py": "year"}
_SAFETY = {"off": 0, "moderate": 1, "strict": 2}


class SearxngProvider(Engine):
    """Asks a SearXNG server, whose address is in SEARXNG_BASE_URL."""

    name: ClassVar[str] = "searxng"
    info: ClassVar[ProviderInfo] = PROVIDERS["searxng"]
    price = (Charge("searxng", "search"),)  # free by the price table; one's own prices.toml may say what a server costs
    options: ClassVar[tuple[str, ...]] = ("categories", "engines", "pageno")

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search; `score` is SearXNG's own, above 1 where several engines agree.

        Raises:
            ConfigError: SEARXNG_BASE_URL is not set.
            ProviderError: the server refused, failed or could not be reached, or none of its engines answered.
        """
        query, notices = self.clipped(request.query, MAX_CHARS)
        notices += self.unsupported(request, "goggles", "place", *(() if request.language else ("country",)))
        if request.freshness and request.freshness not in _PERIODS:
            notices.append("searxng knows the past day, week, month and year, but no range of dates; ignored")
        raw = self.readable(
            await self.http.request_json(
                "GET",
                self.url("/search"),
                provider=self.name,
                params={**searxng_parameters(request, query), **self.chosen_options()},
                timeout_s=TIMEOUT_S,
                explain=self.explain,
            )
        )
        silent = _silent_engines(parsing.items(raw.get("unresponsive_engines")))
        answers = [answer for answer in map(_answer, parsing.items(raw.get("answers"))) if answer]
        if silent and not answers and not parsing.items(raw.get("results")):
            raise self.failure(f"nothing was found because its engines did not answer: {silent}")
        if silent:
            notices.append(f"of searxng's engines did not answer: {silent}")
        return self.answer(
            request,
            map(_result, parsing.objects(raw.get("results"))),
            raw=raw,
            notices=notices,
            extra={"answers": answers} if answers else None,
            charges=self.price,
        )

    def explain(self, response: HttpResponse) -> Reason:
        """Return why the server refused; out of the box it serves HTML only, and says no more than 403."""
        if response.status == 403:
            return Reason("the server gives no JSON: add `json` to `search.formats` in its settings.yml")
        return super().explain(response)


def searxng_parameters(request: SearchRequest, query: str) -> dict[str, Any]:
    """Return the parameters of one search."""
    language, country = request.language, request.country.upper()
    if language and country not in ("", "ALL") and "-" not in language:
        language = f"{language}-{country}"
    return {
        "q": with_site_operators(query, request),
        "format": "json",
        "language": language or None,
        "time_range": _PERIODS.get(request.freshness or ""),
        "safesearch": _SAFETY[request.safe_search],
    }


def _silent_engines(entries: Sequence[Any]) -> str:
    return shorten(", ".join(map(_silent_engine, entries[:_MOST_NAMED])), _NAMED_WIDTH)


def _silent_engine(entry: Any) -> str:
    """Return "google (CAPTCHA)" for ["google", "CAPTCHA"]."""
    parts = [parsing.text(part, 60) for part in (entry if isinstance(entry, list) else [entry])]
    named = [part for part in parts if part]
    return named[0] + (f" ({named[1]})" if len(named) > 1 else "") if named else "one without a name"


def _answer(entry: Any) -> str:
    """Return an instant answer: an object since 2025, a string before."""
    return parsing.text(entry.get("answer") if isinstance(entry, dict) else entry)


def _result(item: Mapping[str, Any]) -> SearchResult | None:
    return parsing.hit(
        item.get("title"),
        item.get("url"),
        item.get("content"),
        parsing.iso_date(item.get("publishedDate")) or parsing.iso_date(item.get("pubdate")),
        score=item.get("score"),
    )
