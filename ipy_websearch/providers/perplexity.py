"""Perplexity's Search API: results with long passages of the pages.

Wire facts: docs.perplexity.ai, "Search API", and the perplexityai SDK 0.46.1, read 2026-11. Snippets are Markdown of
thousands of characters: the description is cut, the whole is in `raw`. `date` is the publication, `last_updated` is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import ProviderInfo, SearchRequest
from ipy_websearch.providers.engine import Engine
from ipy_websearch.providers.registry import PROVIDERS
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.usage import Charge

TIMEOUT_S = 20.0
MAX_COUNT, MAX_DOMAINS = 20, 20
MAX_CHARS = 2_000

_PERIODS = {"pd": "day", "pw": "week", "pm": "month", "py": "year"}


class PerplexityProvider(Engine):
    """Asks Perplexity's search (not its models)."""

    name: ClassVar[str] = "perplexity"
    info: ClassVar[ProviderInfo] = PROVIDERS["perplexity"]
    price = (Charge("perplexity", "search"),)
    options: ClassVar[tuple[str, ...]] = (
        *("max_tokens", "max_tokens_per_page", "search_context_size", "search_type", "search_mode"),
        *("last_updated_after_filter", "last_updated_before_filter"),
    )

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search.

        Raises:
            MissingKeyError: PERPLEXITY_API_KEY is not set.
            ProviderError: Perplexity refused, failed or could not be reached.
        """
        query, notices = self.clipped(request.query, MAX_CHARS)
        count, fewer = self.count(request, MAX_COUNT)
        notices += [*fewer, *self.unsupported(request, "goggles", "place", "safe_search")]
        if (given := len(request.allowed_domains or request.blocked_domains)) > MAX_DOMAINS:
            notices.append(f"perplexity filters by {MAX_DOMAINS} domains, not {given}; results of others are left out here")
        raw = self.readable(
            await self.http.request_json(
                "POST",
                self.url("/search"),
                provider=self.name,
                json={**perplexity_body(request, query, count), **self.chosen_options()},
                headers={"Authorization": f"Bearer {self.key()}"},
                timeout_s=TIMEOUT_S,
                explain=self.explain,
            )
        )
        results = map(_result, _flat(raw.get("results")))
        return self.answer(request, results, raw=raw, notices=notices, charges=self.price)


def perplexity_body(request: SearchRequest, query: str, count: int) -> dict[str, Any]:
    """Return the body of one search as far as the request decides it."""
    body: dict[str, Any] = {"query": query, "max_results": count}
    domains = [*request.allowed_domains, *(f"-{domain}" for domain in request.blocked_domains)]
    if domains:
        body["search_domain_filter"] = domains[:MAX_DOMAINS]
    country, language = request.country.upper(), request.language.lower().partition("-")[0]
    if country not in ("", "ALL"):
        body["country"] = {"UK": "GB"}.get(country, country)
    if language not in ("", "all"):
        body["search_language_filter"] = [language]
    if request.freshness in _PERIODS:
        body["search_recency_filter"] = _PERIODS[request.freshness]
    elif days := parsing.date_range(request.freshness):
        body["search_after_date_filter"], body["search_before_date_filter"] = (f"{day:%m/%d/%Y}" for day in days)
    return body


def _flat(results: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the results, also when there is one list for each query."""
    for item in parsing.items(results):
        if isinstance(item, list):
            yield from parsing.objects(item)
        elif isinstance(item, dict):
            yield item


def _result(item: Mapping[str, Any]) -> SearchResult | None:
    return parsing.hit(item.get("title"), item.get("url"), item.get("snippet"), parsing.iso_date(item.get("date")))
