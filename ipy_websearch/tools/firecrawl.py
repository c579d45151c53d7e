"""Firecrawl's three tools: a page (`firecrawl_scrape`), a search with its pages (`firecrawl_search`), a site (`firecrawl_map`).

Parameters, defaults and bounds are those of seed 003. Firecrawl fetches from its own machines, but the addresses it is sent are
under the same law as `web_fetch`: written down by somebody else, on the public web, in domains that the user allows. For a map
that is the site of such an address: it carries no path and no query, so nothing of what the model knows can be put into it. A
page whose own server answered 403 or 404 was billed like any other and is an error result.

The panel holds everything. The model gets the same in blocks that it can cite, cut only where a single call would fill its
memory, and told so in a field.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from ipy_websearch.errors import FetchError, WebSearchError
from ipy_websearch.extract.formats import fenced
from ipy_websearch.http.address import allow_from_environment, check_url, shown
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.firecrawl import FirecrawlProvider, one, published, used
from ipy_websearch.providers.passages import blocks
from ipy_websearch.results import SearchResults
from ipy_websearch.text import plain, plural, shorten, visible
from ipy_websearch.tools.base import (
    MODEL_CHARACTERS,
    Passage,
    Tool,
    ToolContext,
    ToolOutput,
    as_passage,
    place,
    refused,
    whole_text,
)
from ipy_websearch.tools.web_fetch import comparable, failure_text, is_known, judge_address, judge_arrival
from ipy_websearch.usage import Charge

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
_TEXTS = {"markdown": "", "summary": "Summary", "html": "HTML", "rawHtml": "Raw HTML", "screenshot": "Screenshot"}
"""Formats that come as one text, with their headings."""


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


class ScrapeInput(BaseModel, extra="forbid"):
    """The input of `firecrawl_scrape`."""

    url: str = Field(min_length=1, description="The address of the page")
    formats: list[Format] = Field(["markdown", "links"], min_length=1, description="What to return")
    location: Annotated[dict[str, Any] | SkipJsonSchema[None], _LOCATION] = None


class SearchInput(BaseModel, extra="forbid"):
    """The input of `firecrawl_search`."""

    query: str = Field(min_length=2, description="The search query")
    limit: int = Field(3, ge=1, le=10, description="Pages to read, of each source")
    sources: list[Literal["web", "news", "images"]] = Field(["web"], min_length=1, description="Where to search")
    categories: list[Literal["github", "research", "pdf"]] | SkipJsonSchema[None] = Field(
        None, description="Only results of these kinds"
    )
    tbs: str | SkipJsonSchema[None] = Field(
        None, description="Time filter: qdr:h, qdr:d, qdr:w, qdr:m, qdr:y, or cdr:1,cd_min:1/31/2026,cd_max:2/28/2026"
    )
    location: str | SkipJsonSchema[None] = Field(
        None, description="Where to search from, such as Germany or San Francisco,California,United States"
    )


class MapInput(BaseModel, extra="forbid"):
    """The input of `firecrawl_map`."""

    url: str = Field(min_length=1, description="The site's address")
    limit: int = Field(50, ge=1, le=5_000, description="Addresses to return")
    search: str | SkipJsonSchema[None] = Field(None, description="Only addresses that fit these words, the best first")
    include_subdomains: bool = Field(False, description="Whether subdomains belong to the site")
    location: Annotated[dict[str, Any] | SkipJsonSchema[None], _LOCATION] = None


def firecrawl_scrape_tool(engine: FirecrawlProvider, defaults: SearchRequest) -> Tool:
    """Return the tool; `defaults` holds the domains that bind the model."""

    async def read(given: ScrapeInput, context: ToolContext) -> ToolOutput:
        url = _judged(given.url, defaults, is_known(given.url.strip(), context.known_urls))
        body = {**given.model_dump(exclude_none=True), "url": url, "onlyMainContent": True}
        raw = await engine.ask(body, "/v2/scrape")
        page, charges = _Scraped.of(parsing.mapping(raw.get("data")), url), used(raw, 1, "fetch")
        try:
            judge_arrival(page.url, defaults.allowed_domains, defaults.blocked_domains)
        except FetchError as exc:
            return replace(_unread(url, exc), charges=charges)
        return replace(_page_output(page, url), charges=charges)

    return _tool("firecrawl_scrape", SCRAPE_DESCRIPTION, ScrapeInput, read, Charge("firecrawl", "fetch", unit="credit"))


def firecrawl_search_tool(engine: FirecrawlProvider, defaults: SearchRequest) -> Tool:
    """Return the tool; `defaults` holds what the user set and the domains that bind the model."""

    async def search(given: SearchInput, context: ToolContext) -> ToolOutput:
        request = replace(defaults, query=given.query, count=given.limit)
        return _search_output(
            *await engine.search_pages(request, **given.model_dump(exclude={"query", "limit"}, exclude_none=True))
        )

    # Two credits for the search and one for each of the ten pages it may read.
    price = Charge("firecrawl", "search", Decimal(12), "credit")
    return replace(_tool("firecrawl_search", SEARCH_DESCRIPTION, SearchInput, search, price), counts_as_search=True)


def firecrawl_map_tool(engine: FirecrawlProvider, defaults: SearchRequest) -> Tool:
    """Return the tool; `defaults` holds the domains that bind the model."""

    async def list_site(given: MapInput, context: ToolContext) -> ToolOutput:
        url, known = given.url.strip(), context.known_urls
        url = _judged(url, defaults, is_known(url, known) or _is_known_site(url, known))
        body = given.model_dump(exclude_none=True, exclude={"include_subdomains"})
        raw = await engine.ask({**body, "url": url, "includeSubdomains": given.include_subdomains}, "/v2/map")
        return _map_output(raw, url, given.limit)

    return _tool("firecrawl_map", MAP_DESCRIPTION, MapInput, list_site, Charge("firecrawl", "map", unit="credit"))


def _tool(name: str, description: str, model: type[BaseModel], work: Callable[..., Any], price: Charge) -> Tool:
    """Return a tool that does `work`; what is refused becomes an output that says so."""

    async def call(given: Any, context: ToolContext) -> ToolOutput:
        try:
            output: ToolOutput = await work(given, context)
        except FetchError as exc:
            return _unread(given.url.strip(), exc)
        except WebSearchError as exc:
            return refused(exc, (price,))
        return output

    return Tool(name, description, model, call, price=(price,), timeout_s=TIMEOUT_S)


def _judged(url: str, defaults: SearchRequest, known: bool) -> str:
    """Return an address that may be sent to Firecrawl.

    Raises:
        FetchError: it may not; the message names the rule.
    """
    check_url(url.strip(), allow=allow_from_environment())
    judge_address(url.strip(), known, defaults.allowed_domains, defaults.blocked_domains)
    return url.strip()


def _is_known_site(url: str, known: Collection[str]) -> bool:
    """Say whether the address is a bare host that stands in a known address, or the domain above such a host."""
    parts = urlsplit(comparable(url))
    if parts.path.strip("/") or parts.query or not parts.hostname or "." not in parts.hostname:
        return False
    hosts = {urlsplit(comparable(candidate)).hostname or "" for candidate in known}
    return any(host == parts.hostname or host.endswith(f".{parts.hostname}") for host in hosts)


def _unread(url: str, exc: FetchError) -> ToolOutput:
    return ToolOutput(f"{place(url)} was not read", text=failure_text(exc), is_error=True)


@dataclass(frozen=True, slots=True)
class _Scraped:
    """A page as Firecrawl read it.

    `text` is everything that came as text: the Markdown of the main content, then other formats under headings. `error` says
    what is wrong with the page ("" when nothing is); such a page was billed like any other.
    """

    url: str
    title: str
    text: str
    links: tuple[str, ...]
    published_date: datetime | None
    error: str
    metadata: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, data: Mapping[str, Any], asked: str = "") -> _Scraped:
        """Return the page in a scrape's `data` or in an item of a search; `asked` is its address where that does not say."""
        metadata = parsing.mapping(data.get("metadata"))
        addresses = map(parsing.address, (metadata.get("url"), metadata.get("sourceURL"), data.get("url"), asked))
        status = parsing.number(metadata.get("statusCode")) or 0
        texts = [f"## {title}\n\n{text}" if title else text for title, text in _texts(data)]
        links = filter(None, map(parsing.address, parsing.items(data.get("links"))))
        return cls(
            url=next(filter(None, addresses), asked),
            title=one(metadata.get("title")) or one(data.get("title")),
            text="\n\n".join(texts).strip(),
            links=tuple(dict.fromkeys(links)),
            published_date=published(metadata),
            error=one(metadata.get("error")) or (f"the page's server answered {status:.0f}" if status >= 400 else ""),
            metadata=metadata,
        )

    @property
    def panel(self) -> str:
        """The page for its panel: its text, its links, and what is known about it."""
        import yaml

        about = yaml.safe_dump(dict(self.metadata), sort_keys=False, allow_unicode=True) if self.metadata else ""
        parts = [
            self.text,
            "## Links\n\n" + "\n".join(f"- {link}" for link in self.links) if self.links else "",
            f"## Metadata\n\n{fenced(about, 'yaml')}" if about else "",
        ]
        return "\n\n".join(filter(None, parts))


def _texts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the heading and the text of each format that an answer holds."""
    for name, heading in _TEXTS.items():
        text = data.get(name)
        if isinstance(text, str) and text:
            yield heading, fenced(visible(text), "html") if "tml" in name else visible(text)
    if images := [image for image in map(parsing.address, parsing.items(data.get("images"))) if image]:
        yield "Images", "\n".join(f"- {image}" for image in images)


def _page_output(page: _Scraped, asked: str) -> ToolOutput:
    output = ToolOutput(
        f"scraped {shown(asked)}" + (f" ({shorten(page.title, 80)})" if page.title else ""),
        panel_title=f"firecrawl_scrape: {asked}",
        panel_kind="markdown",
        panel_data=page.panel,
        urls=tuple(dict.fromkeys((page.url, *page.links))),
    )
    if page.error:
        text = f"Failed to fetch URL: {page.error}: {shown(asked)}"
        return replace(output, summary=f"{shown(asked)}: {page.error}", text=text, is_error=True, urls=())
    paragraphs = list(blocks(_cut(page.text, MODEL_CHARACTERS)))
    if page.links:
        more = f"\nlinks: {MODEL_LINKS} of {len(page.links):,}" if len(page.links) > MODEL_LINKS else ""
        paragraphs.append("Links:\n" + "\n".join(f"- {link}" for link in page.links[:MODEL_LINKS]) + more)
    if not paragraphs:
        return replace(output, text=f"content: empty; url: {page.url}")
    return replace(output, passages=(Passage(page.url, page.title, tuple(paragraphs), page.published_date, "page"),))


def _search_output(results: SearchResults, items: Sequence[Mapping[str, Any]]) -> ToolOutput:
    """Return the output of a search with its pages; a result whose page could not be read gives its snippet."""
    pages = {parsing.address(item.get("url")): _Scraped.of(item) for item in items if item.get("markdown")}
    read = {url: page for url, page in pages.items() if not page.error}
    room = MODEL_CHARACTERS // max(1, len(read))
    passages, panel = [], []
    for result in results:
        passage, page = as_passage(result), read.get(result.url)
        if page is not None:
            date = page.published_date or result.published_date
            passage = Passage(result.url, page.title or result.title, blocks(_cut(page.text, room)), date, "page")
        passages += [passage] if passage.paragraphs else []
        body = pages[result.url].panel if result.url in pages else result.description
        panel.append(f"# {result.title or result.url}\n\n{result.url}\n\n{body}".rstrip())
    links = (link for page in read.values() for link in page.links)
    return ToolOutput(
        f"{plural(len(results), 'result')} for '{shorten(plain(results.query), 80)}'",
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


def _map_output(raw: Mapping[str, Any], asked: str, limit: int) -> ToolOutput:
    """Return the output of a map: every address is a line, in blocks of 25. Servers of version 1 give plain addresses."""
    items = [item if isinstance(item, dict) else {"url": item} for item in parsing.items(raw.get("links"))]
    found = {
        link.url: link for item in items if (link := parsing.hit(item.get("title"), item.get("url"), item.get("description")))
    }
    links, site = list(found.values())[:limit], place(asked)
    lines = [
        " — ".join(filter(None, (link.url, shorten(link.title, 100), shorten(link.description, 200))))
        for link in links[:MODEL_LINKS]
    ]
    paragraphs = ["\n".join(lines[n : n + 25]) for n in range(0, len(lines), 25)]
    if len(links) > MODEL_LINKS:
        paragraphs.append(f"addresses: {MODEL_LINKS} of {len(links):,}")
    return ToolOutput(
        f"{plural(len(links), 'URL')} discovered on {site}",
        passages=(Passage(asked, f"Addresses of {site}", tuple(paragraphs)),) if links else (),
        text="" if links else f"No URLs found on {site}.",
        panel_title=f"firecrawl_map: {asked}",
        panel_data=dict(raw),
        urls=tuple(link.url for link in links),
        charges=used(raw, 1, "map"),
    )


def _cut(text: str, room: int) -> str:
    """Return as much of a text as there is room for, in whole lines where that is possible, with a field that says so."""
    if len(text) <= room:
        return text
    end = text.rfind("\n", 0, room)
    kept = text[: end if end > room // 2 else room]
    return f"{kept}\n\ncharacters: {len(kept):,} of {len(text):,}"
