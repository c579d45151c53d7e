"""Google's Custom Search JSON API, over the search engine (`cx`) that the user has made there.

Wire facts: developers.google.com/custom-search/v1, reference and overview, read 2026-11, and recordings of 2024. The service
is closed to new customers and ends on 2027-01-01. It takes key and `cx` in the query string, which therefore is never
shown or logged. At most 10 results come at once; more would be further requests, each billed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ipy_websearch.http.response import HttpResponse, Reason
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import ProviderInfo, SearchRequest
from ipy_websearch.providers.engine import Engine, with_site_operators
from ipy_websearch.providers.registry import PROVIDERS
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.usage import Charge

TIMEOUT_S = 10.0
MAX_COUNT = 10
MAX_CHARS = 2_048

_PERIODS = {"pd": "d1", "pw": "w1", "pm": "m1", "py": "y1"}


class GoogleProvider(Engine):
    """Asks a programmable search engine of Google's."""

    name: ClassVar[str] = "google"
    info: ClassVar[ProviderInfo] = PROVIDERS["google"]
    price = (Charge("google", "search"),)
    options: ClassVar[tuple[str, ...]] = (
        "cr",
        "exactTerms",
        "excludeTerms",
        "fileType",
        "filter",
        "hl",
        "orTerms",
        "rights",
        "sort",
    )

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search.

        Raises:
            MissingKeyError: the key or the engine's id is not set.
            ProviderError: Google refused, failed or could not be reached.
        """
        query, notices = self.clipped(request.query, MAX_CHARS)
        count, fewer = self.count(request, MAX_COUNT)
        notices += [*fewer, *self.unsupported(request, "goggles", "place")]
        keys = {"key": self.key(), "cx": self.keys.require("GOOGLE_SEARCH_ENGINE_ID")}
        raw = self.readable(
            await self.http.request_json(
                "GET",
                self.url("/customsearch/v1"),
                provider=self.name,
                params={**google_parameters(request, query, count), **self.chosen_options(), **keys},
                timeout_s=TIMEOUT_S,
                explain=self.explain,
            )
        )
        if corrected := parsing.text(parsing.mapping(raw.get("spelling")).get("correctedQuery"), 200):
            notices.append(f"google suggests {corrected!r}")
        results = map(_result, parsing.objects(raw.get("items")))  # no "items" at all when nothing was found
        return self.answer(request, results, raw=raw, notices=notices, charges=self.price)

    def explain(self, response: HttpResponse) -> Reason:
        """Return why Google refused; a refused key and a wrong engine id both come as 400."""
        reason = super().explain(response)
        if response.status == 400 and "api key" in reason.text.lower():
            return Reason(f"the key was refused ({reason.text.rstrip('.')}); {self.how_to_set()}")
        if response.status == 400 and "invalid argument" in reason.text.lower():
            return Reason(f"{reason.text.rstrip('.')}; is GOOGLE_SEARCH_ENGINE_ID right?")
        return reason


def google_parameters(request: SearchRequest, query: str, count: int) -> dict[str, Any]:
    """Return the parameters of one search, without the keys."""
    sites = request.allowed_domains or request.blocked_domains
    single = sites[0] if len(sites) == 1 else None
    country = request.country.lower()
    return {
        "q": query if single else with_site_operators(query, request),
        "num": count,
        "siteSearch": single,
        "siteSearchFilter": ("i" if request.allowed_domains else "e") if single else None,
        "gl": None if country in ("", "all") else {"gb": "uk"}.get(country, country),
        "lr": _language(request.language),
        # There is no middle between on and off; off must be asked for.
        "safe": "off" if request.safe_search == "off" else "active",
        **_period(request.freshness),
    }


def _language(code: str) -> str | None:
    """Return the `lr` value of a language: lang_de, and for Chinese one of its two scripts."""
    language, _, region = code.lower().partition("-")
    if language in ("", "all"):
        return None
    if language == "zh":
        return "lang_zh-TW" if region in ("tw", "hk", "hant") else "lang_zh-CN"
    return f"lang_{language}"


def _period(freshness: str | None) -> dict[str, str]:
    if freshness in _PERIODS:
        return {"dateRestrict": _PERIODS[freshness]}
    days = parsing.date_range(freshness)
    return {"sort": f"date:r:{days[0]:%Y%m%d}:{days[1]:%Y%m%d}"} if days else {}


def _result(item: Mapping[str, Any]) -> SearchResult | None:
    """Return one item; its date is the page's own `article:published_time`, else the day its snippet begins with."""
    tags = parsing.objects(parsing.mapping(item.get("pagemap")).get("metatags"))
    published = parsing.first_date(*(parsing.iso_date(tag.get("article:published_time")) for tag in tags))
    snippet = item.get("snippet")
    return parsing.hit(item.get("title"), item.get("link"), snippet, published or parsing.leading_date(snippet))
