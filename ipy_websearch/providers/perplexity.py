"""Perplexity's Search API: results with long passages of the pages.

Wire facts: docs.perplexity.ai, "Search API", and the perplexityai SDK 0.46.1, read 2026-11. Snippets are Markdown of thousands
of characters: the description is cut, the whole is in `raw`. `date` is the publication, `last_updated` is not. Several queries
gave one list of results each in answers of 2025.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import Engine, SearchRequest
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.usage import Charge

MAX_DOMAINS = 20


class PerplexityProvider(Engine):
    """Asks Perplexity's search (not its models)."""

    name = "perplexity"
    max_count = 20
    ignores = ("goggles", "place", "safe_search")
    options = (
        *("max_tokens", "max_tokens_per_page", "search_context_size", "search_type", "search_mode"),
        *("last_updated_after_filter", "last_updated_before_filter"),
    )
    price = (Charge("perplexity", "search"),)

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search.

        Raises:
            MissingKeyError: PERPLEXITY_API_KEY is not set.
            ProviderError: Perplexity refused, failed or could not be reached.
        """
        query, count, notices = self.fitted(request)
        if (given := len(request.allowed_domains or request.blocked_domains)) > MAX_DOMAINS:
            notices.append(f"perplexity filters by {MAX_DOMAINS} domains, not {given}; results of others are left out here")
        body = {**_body(request, query, count), **self.chosen}
        raw = await self.ask("POST", "/search", json=body, headers={"Authorization": f"Bearer {self.key()}"})
        listed = [part if isinstance(part, list) else [part] for part in parsing.items(raw.get("results"))]
        return self.answer(request, map(_result, parsing.objects(sum(listed, []))), raw, notices)


def _body(request: SearchRequest, query: str, count: int) -> dict[str, Any]:
    """Return the body of one search as far as the request decides it."""
    period = parsing.PERIODS.get(request.freshness or "")
    days = None if period else parsing.date_range(request.freshness)
    domains = [*request.allowed_domains, *(f"-{domain}" for domain in request.blocked_domains)]
    return parsing.present(
        query=query,
        max_results=count,
        search_domain_filter=domains[:MAX_DOMAINS],
        country=request.country_code,
        search_language_filter=[request.language_code] if request.language_code else [],
        search_recency_filter=period,
        search_after_date_filter=days and f"{days[0]:%m/%d/%Y}",
        search_before_date_filter=days and f"{days[1]:%m/%d/%Y}",
    )


def _result(item: Mapping[str, Any]) -> SearchResult | None:
    return parsing.hit(item.get("title"), item.get("url"), item.get("snippet"), parsing.moment(item.get("date")))
