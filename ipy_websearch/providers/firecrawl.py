"""Firecrawl: a search with or without the pages behind it; `tools.tiers` reads pages and maps sites through `ask`.

Wire facts: docs.firecrawl.dev, API v2 reference and "Billing", docs repository of 2026-08-21, read 2026-11, and a recording of
2025-10. Booked is what the answer reports (`creditsUsed`), never a formula: recorded answers differ from the price list.
`highlights` is on by default and would turn plain snippets into Markdown, so it is switched off.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ipy_websearch.providers import base
from ipy_websearch.results import Charge, SearchResults

# Where a page's date of publication stands. The `date` of news is "3 months ago", which is no date.
PUBLISHED = "metadata.publishedTime metadata.article:published_time metadata.date date"


class FirecrawlProvider(
    base.Engine,
    name="firecrawl",
    path="/v2/search",
    timeout_s=30.0,
    max_chars=500,
    max_count=100,
    fields={"description": "description snippet", "published_date": PUBLISHED},
    billed=("units", "creditsUsed data.metadata.creditsUsed"),  # of a search; of a page
    ignores=("goggles", "place", "language", "safe_search"),
):
    """Asks Firecrawl. As a search engine it gives snippets only; `search_pages` gives pages along with them."""

    def price_for(self, count: int) -> tuple[Charge, ...]:
        """Return 2 credits for every 10 results, rounded up."""
        return (Charge("firecrawl", "search", Decimal(2 * -(-count // 10)), "credit"),)

    async def ask(self, given: Any, path: str = "", **options: Any) -> base.Json:
        """Return the answer of an endpoint, which gives up a little before we do: so the error is its own, and says why."""
        return await super().ask({**given, "timeout": 28_000}, path, **options)

    async def search_pages(self, request: base.SearchRequest, **options: Any) -> tuple[SearchResults, list[base.Json]]:
        """Return the results of one search, and the items they were made of, which hold the pages that could be read.

        `request.count` results of each of `sources`; other `options` are Firecrawl's (`categories`, `tbs` instead of
        `request.freshness`, `location`). 2 credits for 10 results, and 1 for each page that was read.

        Raises:
            MissingKeyError, ProviderError: as for `search`.
        """
        query, count, notices = self.fitted(request)
        raw = await self.ask(
            {
                **self.parameters(request, query, count, notices),
                "scrapeOptions": {"formats": ["markdown", "links"], "onlyMainContent": True},
                **options,
            }
        )
        items = self.hits(raw)
        units = Decimal(2 + sum(bool(item.get("markdown")) for item in items))
        charges = self.charges(raw, (Charge("firecrawl", "search", units, "credit"),))
        most = count * len(options.get("sources", ["web"]))
        return self.answer(request, map(self.result, items), raw, notices, charges=charges, most=most), items

    def parameters(self, request: base.SearchRequest, query: str, count: int, notices: list[str]) -> base.Json:
        """Return the body of one search."""
        days = request.days
        period = request.period and f"qdr:{request.period[0]}"
        return {"query": query, "limit": count, "sources": ["web"], "highlights": False} | base.present(
            tbs=f"cdr:1,cd_min:{days[0]:%m/%d/%Y},cd_max:{days[1]:%m/%d/%Y}" if days else period,
            includeDomains=list(request.allowed_domains),
            excludeDomains=list(request.blocked_domains),
            country=request.country_code,
        )

    def hits(self, raw: base.Json, path: str = "") -> list[base.Json]:
        """Return the results of every source, or those at `path`."""
        if path:
            return super().hits(raw, path)
        found: list[base.Json] = []
        for source in ("web", "news", "images"):
            if self.part(raw, dict, "data").get(source) is not None:
                found += super().hits(raw, f"data.{source}")
        return found
