"""Firecrawl: search, whole pages as Markdown, and the addresses of a site.

Wire facts: docs.firecrawl.dev, API v2 reference and "Billing", docs repository of 2026-08-21, read 2026-11, and a recording of
2025-10. Booked is what the answer reports (`creditsUsed`), never a formula: recorded answers differ from the price list.
`highlights` is on by default and would turn plain snippets into Markdown, so it is switched off. Self-hosted servers of version
1 give flat lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import Engine, SearchRequest
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.text import visible
from ipy_websearch.usage import Charge

# Firecrawl gives up a little before we do, so that the error is its own and says why.
_SERVER_TIMEOUT_MS = 28_000
_PERIODS = {"pd": "qdr:d", "pw": "qdr:w", "pm": "qdr:m", "py": "qdr:y"}
_SCRAPE = {"formats": ["markdown", "links"], "onlyMainContent": True}


@dataclass(frozen=True, slots=True)
class ScrapedPage:
    """A page as Firecrawl read it.

    `markdown` is the main content, "" when another format was asked for (it is in `raw` then). `status` is that of the page's
    own server (None: not said), and `error` says what is wrong with the page ("" when nothing is): such a page was billed like
    any other.
    """

    url: str
    title: str = ""
    markdown: str = field(default="", repr=False)
    links: tuple[str, ...] = field(default=(), repr=False)
    published_date: datetime | None = None
    status: int | None = None
    error: str = ""
    raw: Any = field(default=None, repr=False, compare=False)
    charges: tuple[Charge, ...] = field(default=(), repr=False)


class FirecrawlProvider(Engine):
    """Asks Firecrawl. As a search engine it gives snippets only; `search_pages` gives pages along with them."""

    name = "firecrawl"
    timeout_s = 30.0
    max_chars, max_count = 500, 100
    ignores = ("goggles", "language", "safe_search")
    options = ("categories", "ignoreInvalidURLs", "location")
    price = (Charge("firecrawl", "search", Decimal(2), "credit"),)

    def price_for(self, count: int) -> tuple[Charge, ...]:
        """Return 2 credits for every 10 results, rounded up."""
        return (Charge("firecrawl", "search", Decimal(2 * -(-count // 10)), "credit"),)

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search, without reading the pages (2 credits for 10 results).

        Raises:
            MissingKeyError: FIRECRAWL_API_KEY is not set.
            ProviderError: Firecrawl refused, failed or could not be reached.
        """
        query, count, notices = self.fitted(request)
        raw = await self._post("/v2/search", {**_body(request, query, count), **self.chosen})
        return self._results(request, raw, notices, self.price[0].units, count)

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

        `request.count` results of each source; `tbs` is a period in Google's form ("qdr:w"), used instead of
        `request.freshness`; `location` a place in words ("San Francisco,California,United States"). 2 credits for 10 results,
        and 1 for each page that was read.

        Raises:
            MissingKeyError, ProviderError: as for `search`.
        """
        query, count, notices = self.fitted(request)
        optional = parsing.present(categories=list(categories), tbs=tbs, location=location)
        body = _body(request, query, count) | {"sources": list(sources), "scrapeOptions": _SCRAPE}
        raw = await self._post("/v2/search", body | optional)
        pages = tuple(page for page in (_scraped_page(item, "") for item in _found(raw)) if page.markdown)
        return self._results(request, raw, notices, Decimal(2 + len(pages)), count * max(1, len(sources))), pages

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
        raw = await self._post("/v2/scrape", body | ({"location": dict(location)} if location else {}))
        data = parsing.mapping(raw.get("data"))
        used = _credits(parsing.mapping(data.get("metadata")), _credits(raw, Decimal(1)))
        return _scraped_page(data, url, raw=raw, charges=(Charge("firecrawl", "fetch", used, "credit"),))

    async def map(
        self,
        url: str,
        *,
        limit: int = 50,
        search: str | None = None,
        include_subdomains: bool = False,
        location: Mapping[str, Any] | None = None,
    ) -> SearchResults:
        """Return the addresses of a site as results, at most `limit` (1 to 5,000), best for `search` first (1 credit).

        Raises:
            MissingKeyError, ProviderError: as for `search`.
        """
        body = {"url": url, "limit": limit, "includeSubdomains": include_subdomains}
        optional = parsing.present(search=search, location=dict(location or {}))
        raw = await self._post("/v2/map", body | optional)
        links = dict[str, SearchResult]()
        for item in parsing.items(raw.get("links")):
            link = _result(item if isinstance(item, dict) else {"url": item})  # servers of version 1 give plain addresses
            if link is not None:
                links.setdefault(link.url, link)
        charge = Charge("firecrawl", "map", _credits(raw, Decimal(1)), "credit")
        return SearchResults(tuple(links.values())[:limit], url, self.name, charges=(charge,), body=dict(raw))

    async def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.key()}"}
        raw = await self.ask("POST", path, json={**body, "timeout": _SERVER_TIMEOUT_MS}, headers=headers)
        if raw.get("success") is False:
            raise self.failure(parsing.text(raw.get("error"), 200) or "it reports a failure without a reason")
        return raw

    def _results(
        self, request: SearchRequest, raw: dict[str, Any], notices: list[str], least: Decimal, most: int
    ) -> SearchResults:
        if warning := parsing.text(raw.get("warning"), 200):
            notices.append(f"firecrawl: {warning}")
        charge = Charge("firecrawl", "search", _credits(raw, least), "credit")
        return self.answer(request, map(_result, _found(raw)), raw, notices, charges=(charge,), most=most)


def _body(request: SearchRequest, query: str, count: int) -> dict[str, Any]:
    """Return the body of one search as far as the request decides it."""
    days = parsing.date_range(request.freshness)
    dates = days and f"cdr:1,cd_min:{days[0]:%m/%d/%Y},cd_max:{days[1]:%m/%d/%Y}"
    near = [request.place.city, request.place.region]
    return {"query": query, "limit": count, "sources": ["web"], "highlights": False} | parsing.present(
        tbs=_PERIODS.get(request.freshness or "", dates),
        includeDomains=list(request.allowed_domains),
        excludeDomains=list(request.blocked_domains),
        country=request.country_code,
        location=any(near) and ",".join(filter(None, [*near, parsing.country_name(request.country_code).title()])),
    )


def _credits(node: Mapping[str, Any], otherwise: Decimal) -> Decimal:
    """Return the credits that an answer reports."""
    used = parsing.amount(node.get("creditsUsed"))
    return otherwise if used is None else used


def _found(raw: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the results of every source."""
    data = raw.get("data")
    listed = [data.get(source) for source in ("web", "news", "images")] if isinstance(data, dict) else [data]
    for results in listed:
        yield from parsing.objects(results)


def _published(*nodes: Mapping[str, Any]) -> datetime | None:
    return parsing.moment(*(node.get(name) for node in nodes for name in ("publishedTime", "article:published_time", "date")))


def _result(item: Mapping[str, Any]) -> SearchResult | None:
    """Return one result. `date` of news is "3 months ago", which is no date; a page that was read may have its own."""
    published = _published(parsing.mapping(item.get("metadata")), item)
    return parsing.hit(_one(item.get("title")), item.get("url"), item.get("description") or item.get("snippet"), published)


def _scraped_page(data: Mapping[str, Any], asked: str, *, raw: Any = None, charges: tuple[Charge, ...] = ()) -> ScrapedPage:
    """Return a page from a scrape's `data`, or from a search result that was read along; `asked` is its address where the
    answer does not say."""
    metadata = parsing.mapping(data.get("metadata"))
    addresses = map(parsing.address, (metadata.get("url"), metadata.get("sourceURL"), data.get("url")))
    status, markdown = metadata.get("statusCode"), data.get("markdown")
    status = status if type(status) is int else None
    refused = f"the page's server answered {status}" if status is not None and status >= 400 else ""
    return ScrapedPage(
        url=next(filter(None, addresses), asked),
        title=_one(metadata.get("title")) or _one(data.get("title")),
        markdown=visible(markdown).strip() if isinstance(markdown, str) else "",
        links=tuple(dict.fromkeys(filter(None, map(parsing.address, parsing.items(data.get("links")))))),
        published_date=_published(metadata),
        status=status,
        error=_one(metadata.get("error")) or refused,
        raw=data if raw is None else raw,
        charges=charges,
    )


def _one(value: Any) -> str:
    """Return a text that may come as a string or as a list of strings (several tags of one name in a page)."""
    return parsing.text(value[0] if isinstance(value, list) and value else value, 500)
