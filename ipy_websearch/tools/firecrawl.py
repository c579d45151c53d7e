"""Firecrawl's three tools: a page (`firecrawl_scrape`), a search with its pages (`firecrawl_search`), a site (`firecrawl_map`).

Parameters, defaults and bounds are those of seed 003. Firecrawl fetches from its own machines, but what it is sent to is
under the same law as `web_fetch`: only addresses that somebody else wrote down, only the public web, only domains that
the user allows. A page whose own server answered 403 or 404 was billed like any other and is an error result.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ipy_websearch.errors import FetchError, WebSearchError
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.tools.firecrawl_outputs import map_output, page_output, search_output, unread
from ipy_websearch.tools.firecrawl_rules import judge_arrival, judge_page, judge_site
from ipy_websearch.tools.inputs import LOCATION_SCHEMA, Bounded, Location, Optional, ToolInput
from ipy_websearch.tools.kept import Keeper
from ipy_websearch.tools.outputs import refused
from ipy_websearch.usage import Charge

if TYPE_CHECKING:
    from ipy_websearch.providers.firecrawl import FirecrawlProvider

Format = Literal["markdown", "html", "rawHtml", "screenshot", "links", "summary", "images"]
TIMEOUT_S = 35.0
"""Seconds for a call; the request inside has the 30 of the seed, and ends with a reason."""

SCRAPE_DESCRIPTION = (
    "Read one web page in full, JavaScript included, as Markdown with its links. For a known address, when passages are not "
    "enough."
)
SEARCH_DESCRIPTION = (
    "Search the web and read the top results in full, in one call. For when whole pages are needed and no address is known."
)
MAP_DESCRIPTION = "List the addresses of a site, from its sitemap and what search engines know of it, to explore its structure."


class ScrapeInput(ToolInput):
    """What the model gives to `firecrawl_scrape`."""

    url: str = Field(min_length=1, description="The address of the page")
    formats: list[Format] = Field(["markdown", "links"], min_length=1, description="What to return")
    location: Annotated[Location | Optional, LOCATION_SCHEMA] = None


class SearchInput(ToolInput):
    """What the model gives to `firecrawl_search`."""

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
    """What the model gives to `firecrawl_map`."""

    url: str = Field(min_length=1, description="The site's address")
    limit: Annotated[int, Bounded(1, 5_000)] = Field(50, description="Addresses to return")
    search: str | Optional = Field(None, description="Only addresses that fit these words, the best first")
    include_subdomains: bool = Field(False, description="Whether subdomains belong to the site")
    location: Annotated[Location | Optional, LOCATION_SCHEMA] = None


def firecrawl_scrape_tool(engine: FirecrawlProvider, defaults: SearchRequest, keeper: Keeper) -> Tool:
    """Return the tool; `defaults` holds the domains that bind the model, `keeper` what was paid for already."""

    async def call(given: ScrapeInput, context: ToolContext) -> ToolOutput:
        async def make() -> ToolOutput:
            page = await engine.scrape(given.url.strip(), formats=given.formats, location=_plain(given.location))
            try:
                judge_arrival(page.url, defaults)
            except FetchError as exc:
                return replace(unread(given.url, exc), charges=page.charges)
            return page_output(page, given.url.strip())

        try:
            judge_page(given.url, context.known_urls, defaults)
            return await keeper.output("firecrawl_scrape", given, defaults, make)
        except FetchError as exc:
            return unread(given.url, exc)
        except WebSearchError as exc:
            return refused(exc, price)

    price = (Charge("firecrawl", "fetch", unit="credit"),)
    return Tool("firecrawl_scrape", SCRAPE_DESCRIPTION, ScrapeInput, call, price=price, timeout_s=TIMEOUT_S)


def firecrawl_search_tool(engine: FirecrawlProvider, defaults: SearchRequest, keeper: Keeper) -> Tool:
    """Return the tool; `defaults` holds what the user set and the domains that bind the model."""

    async def call(given: SearchInput, context: ToolContext) -> ToolOutput:
        async def make() -> ToolOutput:
            results, pages = await engine.search_pages(
                replace(defaults, query=given.query, count=given.limit),
                sources=given.sources,
                categories=given.categories or (),
                tbs=given.tbs,
                location=given.location,
            )
            return search_output(results, pages)

        try:
            return await keeper.output("firecrawl_search", given, defaults, make)
        except WebSearchError as exc:
            return refused(exc, price)

    # Two credits for the search and one for each of the ten pages it may read.
    price = (Charge("firecrawl", "search", Decimal(12), "credit"),)
    return Tool(
        "firecrawl_search", SEARCH_DESCRIPTION, SearchInput, call, counts_as_search=True, price=price, timeout_s=TIMEOUT_S
    )


def firecrawl_map_tool(engine: FirecrawlProvider, defaults: SearchRequest, keeper: Keeper) -> Tool:
    """Return the tool; `defaults` holds the domains that bind the model, `keeper` what was paid for already."""

    async def call(given: MapInput, context: ToolContext) -> ToolOutput:
        async def make() -> ToolOutput:
            found = await engine.map(
                given.url.strip(),
                limit=given.limit,
                search=given.search,
                include_subdomains=given.include_subdomains,
                location=_plain(given.location),
            )
            return map_output(found)

        try:
            judge_site(given.url, context.known_urls, defaults)
            return await keeper.output("firecrawl_map", given, defaults, make)
        except FetchError as exc:
            return unread(given.url, exc)
        except WebSearchError as exc:
            return refused(exc, price)

    price = (Charge("firecrawl", "map", unit="credit"),)
    return Tool("firecrawl_map", MAP_DESCRIPTION, MapInput, call, price=price, timeout_s=TIMEOUT_S)


def _plain(location: Location | None) -> dict[str, Any] | None:
    return location.model_dump() if location is not None else None
