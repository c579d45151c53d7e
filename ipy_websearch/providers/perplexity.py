"""Perplexity's Search API (not its models): results with long passages of the pages.

Wire facts: docs.perplexity.ai, "Search API", and the perplexityai SDK 0.46.1, read 2026-11. Snippets are Markdown of thousands
of characters: the description is cut, the whole is in `raw`. `date` is the publication, `last_updated` is not.
"""

from __future__ import annotations

from ipy_websearch.providers import base
from ipy_websearch.results import Charge


class PerplexityProvider(
    base.Engine,
    name="perplexity",
    max_count=20,
    fields={"description": "snippet", "published_date": "date"},
    ignores=("goggles", "place", "safe_search"),
    price=(Charge("perplexity", "search"),),
):
    """Asks Perplexity's search."""

    def parameters(self, request: base.SearchRequest, query: str, count: int, notices: list[str]) -> base.Json:
        """Return the body of one search."""
        domains = [*request.allowed_domains, *(f"-{domain}" for domain in request.blocked_domains)]
        days = request.days
        return base.present(
            query=query,
            max_results=count,
            search_domain_filter=domains[:20],  # others are left out of its search, not of the results
            country=request.country_code,
            search_language_filter=[request.language_code] if request.language_code else [],
            search_recency_filter=request.period,
            search_after_date_filter=days and f"{days[0]:%m/%d/%Y}",
            search_before_date_filter=days and f"{days[1]:%m/%d/%Y}",
        )
