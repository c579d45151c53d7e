"""Firecrawl: search, whole pages as Markdown, and the addresses of a site.

Wire facts: docs.firecrawl.dev, API v2 reference and "Billing", docs repository of 2026-08-21, read 2026-11, and a recording
of 2025-10. Booked is what the answer reports (`creditsUsed`), never a formula: recorded answers differ from the price list.
`highlights` is on by default and would turn plain snippets into Markdown, so it is switched off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Literal

from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import ProviderInfo, SearchRequest
from ipy_websearch.providers.engine import Engine
from ipy_websearch.providers.firecrawl_pages import ScrapedPage, SiteMap, map_links, scraped_page
from ipy_websearch.providers.place import place_words
from ipy_websearch.providers.registry import PROVIDERS
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.usage import Charge

TIMEOUT_S = 30.0
MAX_CHARS, MAX_COUNT = 500, 100

# Firecrawl gives up a little before we do, so that the error is its own and says why.
_SERVER_TIMEOUT_MS = 28_000
_PERIODS = {"pd": "qdr:d", "pw": "qdr:w", "pm": "qdr:m", "py": "qdr:y"}
_SCRAPE = {"formats": ["markdown", "links"], "onlyMainContent": True}


class FirecrawlProvider(Engine):
    """Asks Firecrawl. As a search engine it gives snippets only; `search_pages` gives pages along with them."""

    name: ClassVar[str] = "firecrawl"
    info: ClassVar[ProviderInfo] = PROVIDERS["firecrawl"]
    price = (Charge("firecrawl", "search", Decimal(2), "credit"),)
    options: ClassVar[tuple[str, ...]] = ("categories", "ignoreInvalidURLs", "location")

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search, without reading the pages (2 credits for 10 results).

        Raises:
            MissingKeyError: FIRECRAWL_API_KEY is not set.
            ProviderError: Firecrawl refused, failed or could not be reached.
        """
        query, notices = self.clipped(request.query, MAX_CHARS)
        count, fewer = self.count(request, MAX_COUNT)
        notices += [*fewer, *self.unsupported(request, "goggles", "language", "safe_search")]
        body = {**firecrawl_body(request, query, count), **self.chosen_options()}
        raw = await self._ask("/v2/search", body)
        return self._answer(request, raw, notices, least=Decimal(2), most=count)

    async def search_pages(
        self,
        request: SearchRequest,
        *,
        sources: Sequence[Literal["web", "news", "images"]] = ("web",),
        categories: Sequence[Literal["github", "research", "pdf"]] = (),
        tbs: str | None = None,
        location: str | None = None,
    ) -> tuple[SearchResults, tuple[ScrapedPage, ...]]:
        """Return the results of one search, and the pages behind them as far as they could be read.

        `request.count` results of each source; `tbs` is a period of Google's ("qdr:w"), in the place of
        `request.freshness`; `location` a place in words ("San Francisco,California,United States"). 2 credits for 10
        results, and 1 for each page that was read.

        Raises:
            MissingKeyError, ProviderError: as for `search`.
        """
        query, notices = self.clipped(request.query, MAX_CHARS)
        count, fewer = self.count(request, MAX_COUNT)
        body = firecrawl_body(request, query, count) | {"sources": list(sources), "scrapeOptions": _SCRAPE}
        optional = {"categories": list(categories), "tbs": tbs, "location": location}
        raw = await self._ask("/v2/search", body | {name: value for name, value in optional.items() if value})
        pages = tuple(page for page in (scraped_page(item, "") for item in _found(raw)) if page.markdown)
        results = self._answer(
            request, raw, [*notices, *fewer], least=Decimal(2 + len(pages)), most=count * max(1, len(sources))
        )
        return results, pages

    async def scrape(
        self, url: str, *, formats: Sequence[str] = ("markdown", "links"), location: Mapping[str, Any] | None = None
    ) -> ScrapedPage:
        """Return one page, without navigation and advertisements (1 credit).

        `formats` are of "markdown", "html", "rawHtml", "links", "summary", "images"; `location` is {"country": "US",
        "languages": ["en"]}. A page whose own server refuses comes back all the same, was billed, and has `error` set.

        Raises:
            MissingKeyError, ProviderError: as for `search`; a page that cannot be had at all is a `ProviderError`.
        """
        body: dict[str, Any] = {"url": url, "formats": list(formats), "onlyMainContent": True}
        raw = await self._ask("/v2/scrape", body | ({"location": dict(location)} if location else {}))
        data = parsing.mapping(raw.get("data"))
        used = _credits(parsing.mapping(data.get("metadata")), _credits(raw, Decimal(1)))
        return scraped_page(data, url, raw=raw, charges=(Charge("firecrawl", "fetch", used, "credit"),))

    async def map(
        self,
        url: str,
        *,
        limit: int = 50,
        search: str | None = None,
        include_subdomains: bool = False,
        location: Mapping[str, Any] | None = None,
    ) -> SiteMap:
        """Return the addresses of a site, at most `limit` (1 to 5,000), best for `search` first (1 credit).

        Raises:
            MissingKeyError, ProviderError: as for `search`.
        """
        body: dict[str, Any] = {"url": url, "limit": limit, "includeSubdomains": include_subdomains}
        optional = {"search": search, "location": dict(location) if location else None}
        raw = await self._ask("/v2/map", body | {name: value for name, value in optional.items() if value})
        charge = Charge("firecrawl", "map", _credits(raw, Decimal(1)), "credit")
        return SiteMap(url, tuple(map_links(raw))[:limit], raw, (charge,))

    async def _ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        raw = self.readable(
            await self.http.request_json(
                "POST",
                self.url(path),
                provider=self.name,
                json={**body, "timeout": _SERVER_TIMEOUT_MS},
                headers={"Authorization": f"Bearer {self.key()}"},
                timeout_s=TIMEOUT_S,
                explain=self.explain,
            )
        )
        if raw.get("success") is False:
            raise self.failure(parsing.text(raw.get("error"), 200) or "it reports a failure without a reason")
        return raw

    def _answer(
        self, request: SearchRequest, raw: dict[str, Any], notices: list[str], *, least: Decimal, most: int
    ) -> SearchResults:
        if warning := parsing.text(raw.get("warning"), 200):
            notices.append(f"firecrawl: {warning}")
        charge = Charge("firecrawl", "search", _credits(raw, least), "credit")
        return self.answer(request, map(_result, _found(raw)), raw=raw, notices=notices, charges=(charge,), most=most)


def firecrawl_body(request: SearchRequest, query: str, count: int) -> dict[str, Any]:
    """Return the body of one search as far as the request decides it."""
    body: dict[str, Any] = {"query": query, "limit": count, "sources": ["web"], "highlights": False}
    if request.freshness in _PERIODS:
        body["tbs"] = _PERIODS[request.freshness]
    elif days := parsing.date_range(request.freshness):
        body["tbs"] = f"cdr:1,cd_min:{days[0]:%m/%d/%Y},cd_max:{days[1]:%m/%d/%Y}"
    if request.allowed_domains:
        body["includeDomains"] = list(request.allowed_domains)
    if request.blocked_domains:
        body["excludeDomains"] = list(request.blocked_domains)
    if (country := request.country.upper()) not in ("", "ALL"):
        body["country"] = {"UK": "GB"}.get(country, country)
    if words := place_words(request.place, request.country):
        body["location"] = words
    return body


def _credits(node: Mapping[str, Any], otherwise: Decimal) -> Decimal:
    """Return the credits that an answer reports."""
    used = parsing.number(node.get("creditsUsed"))
    return otherwise if used is None or used < 0 else Decimal(str(used)).normalize() + 0


def _found(raw: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the results of every source; self-hosted servers of version 1 give one flat list."""
    data = raw.get("data")
    if isinstance(data, dict):
        for source in ("web", "news", "images"):
            yield from parsing.objects(data.get(source))
    else:
        yield from parsing.objects(data)


def _result(item: Mapping[str, Any]) -> SearchResult | None:
    """Return one result. `date` of news is "3 months ago", which is no date; a page that was read may have its own."""
    metadata = parsing.mapping(item.get("metadata"))
    published = parsing.first_date(
        *(parsing.iso_date(metadata.get(name)) for name in ("publishedTime", "article:published_time")),
        parsing.iso_date(item.get("date")),
    )
    return parsing.hit(item.get("title"), item.get("url"), item.get("description") or item.get("snippet"), published)
