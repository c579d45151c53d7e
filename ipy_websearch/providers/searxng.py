"""SearXNG: a metasearch server of one's own, without keys.

Wire facts: docs.searxng.org, "Search API", read 2026-11, and a server of 2026-08 run for the recordings. It has no parameter
for a number of results or for domains: `site:` goes along in the query, for the engines that know it. When nothing was found
because the engines behind it did not answer, that is a failure and not an empty result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipy_websearch.http.response import HttpResponse, Reason
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import Engine, SearchRequest, with_site_operators
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.text import shorten
from ipy_websearch.usage import Charge

_SAFETY = {"off": 0, "moderate": 1, "strict": 2}


class SearxngProvider(Engine):
    """Asks a SearXNG server, whose address is in SEARXNG_BASE_URL."""

    name = "searxng"
    timeout_s = 15.0
    ignores = ("goggles", "place")
    options = ("categories", "engines", "pageno")
    price = (Charge("searxng", "search"),)  # free by the price table; a prices.toml of the user's may say what a server costs

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search; `score` is SearXNG's own, above 1 where several engines agree.

        Raises:
            ConfigError: SEARXNG_BASE_URL is not set.
            ProviderError: the server refused, failed or could not be reached, or none of its engines answered.
        """
        query, _, notices = self.fitted(request)
        if request.country_code and not request.language:
            notices.append("searxng takes a country only together with a language; ignored")
        if request.freshness and request.freshness not in parsing.PERIODS:
            notices.append("searxng knows the past day, week, month and year, but no range of dates; ignored")
        raw = await self.ask("GET", "/search", params={**_parameters(request, query), **self.chosen})
        silent = shorten(", ".join(map(_silent_engine, parsing.items(raw.get("unresponsive_engines"))[:20])), 200)
        answers = [answer for answer in map(_instant_answer, parsing.items(raw.get("answers"))) if answer]
        if silent and not answers and not parsing.items(raw.get("results")):
            raise self.failure(f"nothing was found because its engines did not answer: {silent}")
        if silent:
            notices.append(f"these engines of searxng did not answer: {silent}")
        results = map(_result, parsing.objects(raw.get("results")))
        return self.answer(request, results, raw, notices, extra={"answers": answers})

    def refusal(self, response: HttpResponse) -> Reason:
        """Return why the server refused; out of the box it serves HTML only, and says no more than 403."""
        if response.status == 403:
            return Reason("the server gives no JSON: add `json` to `search.formats` in its settings.yml", kind="request")
        return super().refusal(response)


def _parameters(request: SearchRequest, query: str) -> dict[str, Any]:
    """Return the parameters of one search."""
    language = request.language
    if language and request.country_code and "-" not in language:
        language = f"{language}-{request.country_code}"
    return parsing.present(
        q=with_site_operators(query, request),
        format="json",
        language=language,
        time_range=parsing.PERIODS.get(request.freshness or ""),
        safesearch=str(_SAFETY[request.safe_search]),
    )


def _silent_engine(entry: Any) -> str:
    """Return "google (CAPTCHA)" for ["google", "CAPTCHA"]."""
    parts = [parsing.text(part, 60) for part in (entry if isinstance(entry, list) else [entry])]
    name, *why = [part for part in parts if part] or ["one without a name"]
    return f"{name} ({why[0]})" if why else name


def _instant_answer(entry: Any) -> str:
    """Return an instant answer: an object since 2025, a string before."""
    return parsing.text(entry.get("answer") if isinstance(entry, dict) else entry)


def _result(item: Mapping[str, Any]) -> SearchResult | None:
    published = parsing.moment(item.get("publishedDate"), item.get("pubdate"))
    return parsing.hit(item.get("title"), item.get("url"), item.get("content"), published, score=item.get("score"))
