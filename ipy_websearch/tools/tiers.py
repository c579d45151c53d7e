"""The tiers, the five tools of seed 003: two of Brave's (snippets; passages of pages), three of Firecrawl's (a page, a search
with its pages, a site).

Parameters, defaults and bounds are those of the seed. What the user set for the session (country, filter for adult content,
domains) binds the model. A goggle may be given by a name of the catalogue, by its address, or as inline rules.

Firecrawl fetches from its own machines, but the addresses it is sent are under the same law as `web_fetch`: written down by
somebody else, on the public web, in domains that the user allows. For a map that is the site of such an address: it carries no
path and no query, so nothing of what the model knows can be put into it. A page whose own server answered 403 or 404 was billed
like any other and is an error result.

The panel holds everything. The model gets the same in blocks that it can cite, cut only where a single call would fill its
memory, and told so in a field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from ipy_websearch.errors import FetchError, WebSearchError
from ipy_websearch.http.download import allow_from_environment, check_url, shown
from ipy_websearch.providers import base
from ipy_websearch.providers.base import SafeSearch, SearchRequest, host_matches, host_of
from ipy_websearch.providers.brave import BraveProvider, resolve
from ipy_websearch.providers.firecrawl import PUBLISHED, FirecrawlProvider
from ipy_websearch.providers.passages import blocks
from ipy_websearch.results import Charge, Page, SearchResult, SearchResults
from ipy_websearch.text import fenced, plain, plural, short_address, shorten, visible
from ipy_websearch.tools.base import (
    MODEL_CHARACTERS,
    Passage,
    Tool,
    ToolCallable,
    ToolContext,
    ToolOutput,
    as_passage,
    refused,
)
from ipy_websearch.tools.web import (
    REDIRECTED,
    Search,
    comparable,
    is_known,
    judge_address,
    judge_domain,
    search_output,
    unread,
)

# --- Brave ---------------------------------------------------------------------------------------------------------------

_GOGGLE = (
    "A Brave goggle that ranks by source: the name of one (tech: official docs, Stack Overflow, GitHub, MDN; academic: "
    "papers and universities; news: agencies and established papers), the URL of a hosted one, or inline rules"
)


class BraveInput(BaseModel, extra="forbid"):
    """What the two tools of Brave's take alike."""

    query: str = Field(
        min_length=2, description='The search query. Supports operators: "exact", -exclude, site:domain, filetype:pdf'
    )
    freshness: str | SkipJsonSchema[None] = Field(
        None, description="Recency: pd, pw, pm or py (past day, week, month, year), or a range such as 2024-01-01to2024-06-30"
    )
    country: str = Field("US", description="Two-letter country of the results")


class BraveSearchInput(BraveInput):
    """The input of `brave_search`."""

    count: int = Field(5, ge=1, le=20, description="Number of results")
    search_lang: str = Field("en", description="Language of the results (ISO 639-1)")
    safe_search: SafeSearch = Field("moderate", description="Filter for adult content")
    # the name on the wire is `goggles` today; models that know it are understood
    goggles_id: str | SkipJsonSchema[None] = Field(
        None, description=_GOGGLE, validation_alias=AliasChoices("goggles_id", "goggles")
    )


class BraveContextInput(BraveInput):
    """The input of `brave_llm_context`."""

    query: str = Field(min_length=2, description="The search query")
    maximum_number_of_tokens: int = Field(
        8_192, ge=1_024, le=32_768, description="About how many tokens to return: 2048 for a fact, 16384 for detailed research"
    )
    count: int = Field(20, ge=1, le=50, description="Search results to consider")
    context_threshold_mode: Literal["strict", "balanced", "lenient", "disabled"] = Field(
        "balanced", description="How well a passage must fit: strict for facts, lenient for broad research"
    )
    goggles: str | SkipJsonSchema[None] = Field(None, description=_GOGGLE)


def brave_search_tool(search: Search, defaults: SearchRequest, *, price: tuple[Charge, ...] = ()) -> Tool:
    """Return the tool; `search` asks Brave, `defaults` holds what the user set and the domains that bind the model."""

    async def find(given: BraveSearchInput, context: ToolContext) -> ToolOutput:
        named = given.model_fields_set
        language = given.search_lang if "search_lang" in named else defaults.language or "en"
        strict = defaults.safe_search == "strict" or "safe_search" not in named
        safe_search = defaults.safe_search if strict else given.safe_search
        request = replace(_request(given, defaults, given.goggles_id), language=language, safe_search=safe_search)
        results = await search(request)
        return _output("brave_search", results, plural(len(results), "result"))

    return _tool(
        "brave_search",
        "Search Brave's independent web index: titles, addresses and snippets, with live data (weather, stocks, sports, "
        "currencies, calculations, definitions) where there is some. The first tool for every question. One call, no further "
        "pages.",
        BraveSearchInput,
        find,
        price,
        20.0,
        routed=True,
    )


def brave_llm_context_tool(provider: BraveProvider, defaults: SearchRequest) -> Tool:
    """Return the tool; `defaults` is as for `brave_search_tool`."""

    async def find(given: BraveContextInput, context: ToolContext) -> ToolOutput:
        request = _request(given, defaults, given.goggles)
        tokens, mode = given.maximum_number_of_tokens, given.context_threshold_mode
        results = await provider.llm_context(request, tokens=tokens, mode=mode)
        shown = sum(len(text) for result in results for text in (result.description, *result.extra_snippets)) // 4
        output = _output("brave_llm_context", results, f"{plural(len(results), 'URL')}, ~{shown:,} tokens")
        passages = tuple(replace(passage, read="page") for passage in output.passages)  # Brave takes them from the pages
        return replace(output, passages=passages)

    return _tool(
        "brave_llm_context",
        "Get passages, tables and code out of the web pages that fit a query, chosen by relevance, with no page to open. For "
        "when the snippets of brave_search are not enough.",
        BraveContextInput,
        find,
        (Charge("brave", "context"),),
        15.0,
    )


def _tool(
    name: str,
    description: str,
    model: type[BaseModel],
    work: ToolCallable,
    price: tuple[Charge, ...],
    timeout_s: float = 35.0,
    *,
    routed: bool = False,
) -> Tool:
    """Return a tool that does `work`; what is refused becomes an output that says so.

    A lost request is booked at `price`; the errors of one that was `routed` say themselves what it costs. The request inside
    has the time of the seed (10 s at Brave, and 5 s more for live data; 30 s at Firecrawl), and ends with a reason.
    """

    async def call(given: Any, context: ToolContext) -> ToolOutput:
        try:
            return await work(given, context)
        except FetchError as exc:
            return unread(given.url, exc)
        except WebSearchError as exc:
            return refused(exc, () if routed else price)

    counts = "query" in model.model_fields
    return Tool(name, description, model, call, counts_as_search=counts, price=price, timeout_s=timeout_s)


def _request(given: BraveSearchInput | BraveContextInput, defaults: SearchRequest, goggle: str | None) -> SearchRequest:
    """Return the request for the model's input; what it left out is as the user set it.

    Raises:
        ConfigError: a value is not of its form, or the goggle is none.
    """
    return replace(
        defaults,
        query=given.query,
        count=given.count,
        freshness=given.freshness or defaults.freshness,
        country=given.country if "country" in given.model_fields_set else defaults.country or "US",
        goggles=(*defaults.goggles, *([resolve(goggle)] if goggle and goggle.strip() else [])),
    )


def _output(tool: str, results: SearchResults, found: str) -> ToolOutput:
    query = shorten(plain(results.query), 80)
    return replace(
        search_output(results),
        summary=f"{found} for '{query}'{' (cached)' if results.cached else ''}",
        panel_title=f"{tool}: {results.query}",
    )


# --- Firecrawl -----------------------------------------------------------------------------------------------------------

# Links of one page, or of one site, that the model gets; the panel has all.
MODEL_LINKS = 200

# Formats that come as one text, with their headings.
_TEXTS = {"markdown": "", "summary": "Summary", "html": "HTML", "rawHtml": "Raw HTML", "screenshot": "Screenshot"}


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
    formats: list[Literal["markdown", "html", "rawHtml", "screenshot", "links", "summary", "images"]] = Field(
        ["markdown", "links"], min_length=1, description="What to return"
    )
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


def firecrawl_scrape_tool(provider: FirecrawlProvider, defaults: SearchRequest) -> Tool:
    """Return the tool; `defaults` holds the domains that bind the model."""
    price = (Charge("firecrawl", "fetch", unit="credit"),)

    async def read(given: ScrapeInput, context: ToolContext) -> ToolOutput:
        url = _judged(given.url.strip(), defaults, is_known(given.url, context.known_urls))
        body = {**given.model_dump(exclude_none=True), "url": url, "onlyMainContent": True}
        raw = await provider.ask(body, "/v2/scrape")
        data = provider.part(raw, dict, "data")
        page = _page(data, url)
        try:
            judge_domain(page.final_url, REDIRECTED, defaults.allowed_domains, defaults.blocked_domains)
            output = _page_output(page, data)
        except FetchError as exc:
            output = unread(url, exc)
        return replace(output, charges=provider.charges(raw, price))

    return _tool(
        "firecrawl_scrape",
        "Read one web page in full, JavaScript included, as Markdown with its links. For a known address, when passages are "
        "not enough.",
        ScrapeInput,
        read,
        price,
    )


def firecrawl_search_tool(provider: FirecrawlProvider, defaults: SearchRequest) -> Tool:
    """Return the tool; `defaults` holds what the user set and the domains that bind the model."""

    async def search(given: SearchInput, context: ToolContext) -> ToolOutput:
        request = replace(defaults, query=given.query, count=given.limit)
        options = given.model_dump(exclude={"query", "limit"}, exclude_none=True)
        return _search_output(*await provider.search_pages(request, **options))

    # Two credits for the search and one for each of the ten pages it may read.
    charge = Charge("firecrawl", "search", Decimal(12), "credit")
    return _tool(
        "firecrawl_search",
        "Search the web and read the top results in full, in one call. For when whole pages are needed and no address is "
        "known.",
        SearchInput,
        search,
        (charge,),
    )


def firecrawl_map_tool(provider: FirecrawlProvider, defaults: SearchRequest) -> Tool:
    """Return the tool; `defaults` holds the domains that bind the model."""
    price = (Charge("firecrawl", "map", unit="credit"),)

    async def list_site(given: MapInput, context: ToolContext) -> ToolOutput:
        known = is_known(given.url, context.known_urls) or _is_known_site(given.url, context.known_urls)
        url = _judged(given.url.strip(), defaults, known)
        body = given.model_dump(exclude_none=True, exclude={"include_subdomains"})
        raw = await provider.ask({**body, "url": url, "includeSubdomains": given.include_subdomains}, "/v2/map")
        found = map(provider.result, provider.hits(raw, "links"))
        links = list({link.url: link for link in found if link}.values())[: given.limit]
        return replace(_map_output(links, url), panel_data=raw, charges=provider.charges(raw, price))

    return _tool(
        "firecrawl_map",
        "List the addresses of a site, from its sitemap and what search engines know of it, to explore its structure.",
        MapInput,
        list_site,
        price,
    )


def _judged(url: str, defaults: SearchRequest, known: bool) -> str:
    """Return an address that may be sent to Firecrawl.

    Raises:
        FetchError: it may not; the message names the rule.
    """
    check_url(url, allow=allow_from_environment())
    judge_address(url, known, defaults.allowed_domains, defaults.blocked_domains)
    return url


def _is_known_site(url: str, known: Collection[str]) -> bool:
    """Return whether the address is a bare host that stands in a known address, or the domain above such a host."""
    host = host_of(url.strip())
    is_bare = "." in host and comparable(url).endswith(f"://{host}")
    return is_bare and any(host_matches(candidate, [host]) for candidate in known)


def _page(data: Mapping[str, Any], asked: str = "") -> Page:
    """Return the page in a scrape's `data` or in an item of a search; `asked` is its address where that does not say.

    The content is everything that came as text: the Markdown of the main content, then other formats under headings. `note`
    says what is wrong with the page ("" when nothing is); such a page was billed like any other.
    """
    addresses = map(base.address, base.values(data, "metadata.url metadata.sourceURL url"))
    status = base.number(base.at(data, "metadata.statusCode")) or 0
    text = "\n\n".join(f"## {title}\n\n{text}" if title else text for title, text in _texts(data)).strip()
    lines = text.count("\n") + 1
    return Page(
        url=asked,
        final_url=next(filter(None, addresses), asked),
        title=base.text(base.values(data, "metadata.title title"), 500),
        content=text,
        lines_read=lines,
        total_lines=lines,
        published_date=base.moment(*base.values(data, PUBLISHED)),
        note=base.text(base.at(data, "metadata.error"), 500)
        or (f"the page's server answered {status:.0f}" if status >= 400 else ""),
        links=tuple(dict.fromkeys(filter(None, map(base.address, base.values(data, "links"))))),
    )


def _panel(page: Page, data: Mapping[str, Any]) -> str:
    """Return a page for its panel: its text, its links, and what is known about it."""
    import yaml

    metadata = data.get("metadata")
    about = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True) if metadata else ""
    links = "## Links\n\n" + "\n".join(f"- {link}" for link in page.links) if page.links else ""
    return "\n\n".join(filter(None, [page.content, links, f"## Metadata\n\n{fenced(about, 'yaml')}" if about else ""]))


def _texts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the heading and the text of each format that an answer holds."""
    for name, heading in _TEXTS.items():
        text = data.get(name)
        if isinstance(text, str) and text:
            yield heading, fenced(visible(text), "html") if "tml" in name else visible(text)
    if images := [image for image in map(base.address, base.values(data, "images")) if image]:
        yield "Images", "\n".join(f"- {image}" for image in images)


def _page_output(page: Page, data: Mapping[str, Any]) -> ToolOutput:
    asked = page.url
    output = ToolOutput(
        f"scraped {shown(asked)}" + (f" ({shorten(page.title, 80)})" if page.title else ""),
        text=f"content: empty; url: {page.final_url}",
        panel_title=f"firecrawl_scrape: {asked}",
        panel_data=_panel(page, data),
        urls=tuple(dict.fromkeys((page.final_url, *page.links))),
    )
    if page.note:
        text = f"Failed to fetch URL: {page.note}: {shown(asked)}"
        return replace(output, summary=f"{shown(asked)}: {page.note}", text=text, is_error=True, urls=())
    paragraphs = blocks(_cut(page.content, MODEL_CHARACTERS))
    if page.links:
        more = f"\nlinks: {MODEL_LINKS} of {len(page.links):,}" if len(page.links) > MODEL_LINKS else ""
        paragraphs = (*paragraphs, "Links:\n" + "\n".join(f"- {link}" for link in page.links[:MODEL_LINKS]) + more)
    passage = Passage(page.final_url, page.title, paragraphs, page.published_date, "page")
    return replace(output, text="", passages=(passage,)) if paragraphs else output


def _search_output(results: SearchResults, items: Sequence[Mapping[str, Any]]) -> ToolOutput:
    """Return the output of a search with its pages; a result whose page could not be read gives its snippet."""
    pages = {base.address(item.get("url")): (_page(item), item) for item in items if item.get("markdown")}
    read = {url: page for url, (page, _) in pages.items() if page.content and not page.note}
    room = MODEL_CHARACTERS // max(1, len(read))
    passages, panel = [], []
    for result in results:
        passage, page = as_passage(result), read.get(result.url)
        if page is not None:
            date = page.published_date or result.published_date
            passage = Passage(result.url, page.title or result.title, blocks(_cut(page.content, room)), date, "page")
        passages.append(passage)
        body = _panel(*pages[result.url]) if result.url in pages else result.description
        panel.append(f"# {result.title or result.url}\n\n{result.url}\n\n{body}".rstrip())
    output = _output("firecrawl_search", results, plural(len(results), "result"))
    return replace(
        output,
        passages=tuple(passages),
        panel_data="\n\n---\n\n".join(panel) if pages else results.body,
        urls=tuple(dict.fromkeys((*output.urls, *(link for page in read.values() for link in page.links)))),
    )


def _map_output(links: Sequence[SearchResult], asked: str) -> ToolOutput:
    """Return the output of a map: every address is a line, in blocks of 25."""
    site = short_address(asked, 80)
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
        urls=tuple(link.url for link in links),
    )


def _cut(text: str, room: int) -> str:
    """Return as much of a text as there is room for, in whole lines where that is possible, with a field that says so."""
    if len(text) <= room:
        return text
    kept = text[:room].rpartition("\n")[0] or text[:room]
    return f"{kept}\n\ncharacters: {len(kept):,} of {len(text):,}"
