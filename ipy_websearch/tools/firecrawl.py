"""Firecrawl's three tools: a page (`firecrawl_scrape`), a search with its pages (`firecrawl_search`), a site (`firecrawl_map`).

Parameters, defaults and bounds are those of seed 003. Firecrawl fetches from its own machines, but the addresses it is sent are
under the same law as `web_fetch`: written down by somebody else, on the public web, in domains that the user allows. For a map
that is the site of such an address: it carries no path and no query, so nothing of what the model knows can be put into it. A
page whose own server answered 403 or 404 was billed like any other and is an error result.

The panel holds everything. The model gets the same in blocks that it can cite, cut only where a single call would fill its
memory, and told so in a field.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, WithJsonSchema

from ipy_websearch.errors import FetchError, WebSearchError
from ipy_websearch.extract.formats import fenced
from ipy_websearch.http.address import allow_from_environment, check_url, shown
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.results import SearchResults
from ipy_websearch.text import plain, shorten, visible
from ipy_websearch.tools.base import (
    MODEL_CHARACTERS,
    Passage,
    Tool,
    ToolContext,
    ToolOutput,
    as_passage,
    blocks,
    counted,
    place,
    refused,
    whole_text,
)
from ipy_websearch.tools.inputs import Bounded, Optional, ToolInput
from ipy_websearch.tools.web_fetch import comparable, failure_text, is_known, judge_address, judge_arrival
from ipy_websearch.usage import Charge

if TYPE_CHECKING:
    from ipy_websearch.providers.firecrawl import FirecrawlProvider, ScrapedPage

Format = Literal["markdown", "html", "rawHtml", "screenshot", "links", "summary", "images"]
TIMEOUT_S = 35.0
"""Seconds for a call; the request inside has the 30 of the seed, and ends with a reason."""
MODEL_LINKS = 200
"""Links of one page, or of one site, that the model gets; the panel has all."""

SCRAPE_DESCRIPTION = (
    "Read one web page in full, JavaScript included, as Markdown with its links. For a known address, when passages are not "
    "enough."
)
SEARCH_DESCRIPTION = (
    "Search the web and read the top results in full, in one call. For when whole pages are needed and no address is known."
)
MAP_DESCRIPTION = "List the addresses of a site, from its sitemap and what search engines know of it, to explore its structure."
_TEXTS = {"summary": "Summary", "html": "HTML", "rawHtml": "Raw HTML", "screenshot": "Screenshot"}
"""Formats that come as one text, besides the Markdown, with their headings."""


class Location(BaseModel):
    """A place that a page is read from."""

    country: str = "US"
    languages: list[str] = ["en"]


_LOCATION = WithJsonSchema(
    {
        "type": "object",
        "description": "Where the page is read from, default US and en",
        "properties": {
            "country": {"type": "string", "description": "Two-letter country, such as US"},
            "languages": {"type": "array", "items": {"type": "string"}, "description": "Languages, such as en"},
        },
    }
)


class ScrapeInput(ToolInput):
    """The input of `firecrawl_scrape`."""

    url: str = Field(min_length=1, description="The address of the page")
    formats: list[Format] = Field(["markdown", "links"], min_length=1, description="What to return")
    location: Annotated[Location | Optional, _LOCATION] = None


class SearchInput(ToolInput):
    """The input of `firecrawl_search`."""

    query: str = Field(min_length=2, description="The search query")
    limit: Annotated[int, Bounded(1, 10)] = Field(3, description="Pages to read, of each source")
    sources: list[Literal["web", "news", "images"]] = Field(["web"], min_length=1, description="Where to search")
    categories: list[Literal["github", "research", "pdf"]] | Optional = Field(None, description="Only results of these kinds")
    tbs: str | Optional = Field(
        None, description="Time filter: qdr:h, qdr:d, qdr:w, qdr:m, qdr:y, or cdr:1,cd_min:1/31/2026,cd_max:2/28/2026"
    )
    location: str | Optional = Field(
        None, description="Where to search from, such as Germany or San Francisco,California,United States"
    )


class MapInput(ToolInput):
    """The input of `firecrawl_map`."""

    url: str = Field(min_length=1, description="The site's address")
    limit: Annotated[int, Bounded(1, 5_000)] = Field(50, description="Addresses to return")
    search: str | Optional = Field(None, description="Only addresses that fit these words, the best first")
    include_subdomains: bool = Field(False, description="Whether subdomains belong to the site")
    location: Annotated[Location | Optional, _LOCATION] = None


def firecrawl_scrape_tool(engine: FirecrawlProvider, defaults: SearchRequest) -> Tool:
    """Return the tool; `defaults` holds the domains that bind the model."""
    domains = (defaults.allowed_domains, defaults.blocked_domains)

    async def call(given: ScrapeInput, context: ToolContext) -> ToolOutput:
        url, page = given.url.strip(), None
        try:
            check_url(url, allow=allow_from_environment())
            judge_address(url, is_known(url, context.known_urls), *domains)
            page = await engine.scrape(
                url, formats=given.formats, location=given.location.model_dump() if given.location else None
            )
            judge_arrival(page.url, *domains)
        except FetchError as exc:
            return replace(_unread(url, exc), charges=page.charges if page else ())
        except WebSearchError as exc:
            return refused(exc, price)
        return _page_output(page, url)

    price = (Charge("firecrawl", "fetch", unit="credit"),)
    return Tool("firecrawl_scrape", SCRAPE_DESCRIPTION, ScrapeInput, call, price=price, timeout_s=TIMEOUT_S)


def firecrawl_search_tool(engine: FirecrawlProvider, defaults: SearchRequest) -> Tool:
    """Return the tool; `defaults` holds what the user set and the domains that bind the model."""

    async def call(given: SearchInput, context: ToolContext) -> ToolOutput:
        options: dict[str, Any] = {"sources": given.sources, "categories": given.categories or ()}
        try:
            request = replace(defaults, query=given.query, count=given.limit)
            found = await engine.search_pages(request, tbs=given.tbs, location=given.location, **options)
        except WebSearchError as exc:
            return refused(exc, price)
        return _search_output(*found)

    # Two credits for the search and one for each of the ten pages it may read.
    price = (Charge("firecrawl", "search", Decimal(12), "credit"),)
    return Tool(
        "firecrawl_search", SEARCH_DESCRIPTION, SearchInput, call, counts_as_search=True, price=price, timeout_s=TIMEOUT_S
    )


def firecrawl_map_tool(engine: FirecrawlProvider, defaults: SearchRequest) -> Tool:
    """Return the tool; `defaults` holds the domains that bind the model."""

    async def call(given: MapInput, context: ToolContext) -> ToolOutput:
        url, known = given.url.strip(), context.known_urls
        options: dict[str, Any] = {"search": given.search, "include_subdomains": given.include_subdomains}
        try:
            check_url(url, allow=allow_from_environment())
            is_allowed = is_known(url, known) or _is_known_site(url, known)
            judge_address(url, is_allowed, defaults.allowed_domains, defaults.blocked_domains)
            found = await engine.map(
                url, limit=given.limit, location=given.location.model_dump() if given.location else None, **options
            )
        except FetchError as exc:
            return _unread(url, exc)
        except WebSearchError as exc:
            return refused(exc, price)
        return _map_output(found)

    price = (Charge("firecrawl", "map", unit="credit"),)
    return Tool("firecrawl_map", MAP_DESCRIPTION, MapInput, call, price=price, timeout_s=TIMEOUT_S)


def _is_known_site(url: str, known: Collection[str]) -> bool:
    """Say whether the address is a bare host that stands in a known address, or the domain above such a host."""
    parts = urlsplit(comparable(url))
    if parts.path.strip("/") or parts.query or not parts.hostname or "." not in parts.hostname:
        return False
    hosts = {urlsplit(comparable(candidate)).hostname or "" for candidate in known}
    return any(host == parts.hostname or host.endswith(f".{parts.hostname}") for host in hosts)


def _unread(url: str, exc: FetchError) -> ToolOutput:
    return ToolOutput(f"{place(url)} was not read", text=failure_text(exc), is_error=True)


def _page_output(page: ScrapedPage, asked: str) -> ToolOutput:
    output = ToolOutput(
        f"scraped {shown(asked)}" + (f" ({shorten(page.title, 80)})" if page.title else ""),
        panel_title=f"firecrawl_scrape: {asked}",
        panel_kind="markdown",
        panel_data=_page_markdown(page),
        urls=tuple(dict.fromkeys((page.url, *page.links))),
        charges=page.charges,
    )
    if page.error:
        text = f"Failed to fetch URL: {page.error}: {shown(asked)}"
        return replace(output, summary=f"{shown(asked)}: {page.error}", text=text, is_error=True, urls=())
    paragraphs = list(blocks(_cut(_body(page), MODEL_CHARACTERS)))
    if page.links:
        more = f"\nlinks: {MODEL_LINKS} of {len(page.links):,}" if len(page.links) > MODEL_LINKS else ""
        paragraphs.append("Links:\n" + "\n".join(f"- {link}" for link in page.links[:MODEL_LINKS]) + more)
    if not paragraphs:
        return replace(output, text=f"content: empty; url: {page.url}")
    return replace(output, passages=(Passage(page.url, page.title, tuple(paragraphs), page.published_date, "page"),))


def _search_output(results: SearchResults, pages: Sequence[ScrapedPage]) -> ToolOutput:
    """Return the output of a search with its pages; a result whose page could not be read gives its snippet."""
    by_url = {_result_url(page): page for page in pages}
    read = {url: page for url, page in by_url.items() if not page.error}
    room = MODEL_CHARACTERS // max(1, len(read))
    passages, panel = [], []
    for result in results:
        passage, page = as_passage(result), read.get(result.url)
        if page is not None:
            date = page.published_date or result.published_date
            passage = Passage(result.url, page.title or result.title, blocks(_cut(page.markdown, room)), date, "page")
        passages += [passage] if passage.paragraphs else []
        body = _page_markdown(by_url[result.url]) if result.url in by_url else result.description
        panel.append(f"# {result.title or result.url}\n\n{result.url}\n\n{body}".rstrip())
    links = (link for page in read.values() for link in page.links)
    return ToolOutput(
        f"{counted(len(results), 'result')} for '{shorten(plain(results.query), 80)}'",
        passages=tuple(passages),
        text=whole_text(passages) or f"No results found for {results.query!r} (firecrawl).",
        panel_title=f"firecrawl_search: {results.query}",
        panel_kind="markdown" if pages else "yaml",
        panel_data="\n\n---\n\n".join(panel) if pages else results.body,
        urls=tuple(dict.fromkeys((*(result.url for result in results), *links))),
        charges=results.charges,
        notices=results.notices,
        results=results,
    )


def _map_output(found: SearchResults) -> ToolOutput:
    """Return the output of a map: every address is a line, in blocks of 25."""
    links, site = found.results, place(found.query)
    lines = [
        " — ".join(filter(None, (link.url, shorten(link.title, 100), shorten(link.description, 200))))
        for link in links[:MODEL_LINKS]
    ]
    paragraphs = ["\n".join(lines[n : n + 25]) for n in range(0, len(lines), 25)]
    if len(links) > MODEL_LINKS:
        paragraphs.append(f"addresses: {MODEL_LINKS} of {len(links):,}")
    return ToolOutput(
        f"{counted(len(links), 'URL')} discovered on {site}",
        passages=(Passage(found.query, f"Addresses of {site}", tuple(paragraphs)),) if links else (),
        text="" if links else f"No URLs found on {site}.",
        panel_title=f"firecrawl_map: {found.query}",
        panel_data=found.body,
        urls=tuple(link.url for link in links),
        charges=found.charges,
    )


def _page_markdown(page: ScrapedPage) -> str:
    """Return a page for its panel: the Markdown as it came, then all else that was returned, each under a heading."""
    import yaml

    data = parsing.mapping(page.raw)
    data = parsing.mapping(data.get("data")) or data
    parts = [page.markdown] if page.markdown else []
    for name, heading in _TEXTS.items():
        if isinstance(data.get(name), str) and data[name]:
            parts.append(f"## {heading}\n\n{fenced(data[name], 'html') if 'tml' in name else data[name]}")
    for name in ("links", "images"):
        if entries := [str(entry) for entry in parsing.items(data.get(name))]:
            parts.append(f"## {name.title()}\n\n" + "\n".join(f"- {entry}" for entry in entries))
    if metadata := parsing.mapping(data.get("metadata")):
        parts.append(f"## Metadata\n\n{fenced(yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=True), 'yaml')}")
    return "\n\n".join(parts)


def _result_url(page: ScrapedPage) -> str:
    """Return the address under which a page was found (its own may differ after a redirect)."""
    return parsing.address(parsing.mapping(page.raw).get("url")) or page.url


def _body(page: ScrapedPage) -> str:
    """Return what the model reads of a page: its Markdown, or whatever else was asked for."""
    if page.markdown:
        return page.markdown
    data = parsing.mapping(parsing.mapping(page.raw).get("data"))
    texts = [visible(data[name]) for name in _TEXTS if isinstance(data.get(name), str)]
    images = [address for entry in parsing.items(data.get("images")) if (address := parsing.address(entry))]
    return "\n\n".join([*texts, "\n".join(images[:MODEL_LINKS])]).strip()


def _cut(text: str, room: int) -> str:
    """Return as much of a text as there is room for, in whole lines where that is possible, with a field that says so."""
    if len(text) <= room:
        return text
    end = text.rfind("\n", 0, room)
    kept = text[: end if end > room // 2 else room]
    return f"{kept}\n\ncharacters: {len(kept):,} of {len(text):,}"
