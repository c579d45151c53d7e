"""The searches that the model is offered: `web_search`, and the pair `web_search_brave` and `web_search_google`.

`web_search` is routed to the chain of engines, failures of one engine passed on to the next. A tool of the pair asks the
engine that it names and no other; the two schemas differ in the name and in the engine's name in the description, in nothing
else (seed 002), so that either can stand in for the other. Domains that the user allowed or blocked bind the model: it may
narrow an allowed list, never widen it.

`web_search` also reads the pages of its first results (`PageReading`), and gives the model their passages in place of the
snippets. A page is read as any other, through the guarded reader, and only where robots.txt allows it. Nothing waits for a slow
page: when the time is over, its result keeps the snippet.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote_plus

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from ipy_websearch.errors import ConfigError, FetchError, ProviderError, ReplayError, WebSearchError
from ipy_websearch.http.address import TO_OPEN, shown
from ipy_websearch.providers.base import SearchRequest, clean_domain, host_matches
from ipy_websearch.providers.passages import best_passages, tokens_of
from ipy_websearch.results import Page, SearchResult, SearchResults
from ipy_websearch.text import plain, plural, shorten, visible
from ipy_websearch.tools.base import UNREAD, Passage, Tool, ToolContext, ToolOutput, as_passage, refused
from ipy_websearch.tools.schemas import SCHEMAS
from ipy_websearch.tools.web_fetch import addresses_of_page, comparable, judge_address, judge_arrival
from ipy_websearch.usage import Charge

if TYPE_CHECKING:
    from ipy_websearch.extract.reader import PageReader

UNAVAILABLE = "Search unavailable. Please answer from your knowledge."
"""What the model reads when no engine answered (seed 000, "Brave API failures")."""

DESCRIPTION = (
    "Search the web and use the results to inform the answer. Provides up-to-date information beyond your knowledge. "
    "Returns search results with their addresses and text."
)
_RICH_CHARACTERS = 8_000

READ_S = 4.0
"""Seconds that reading the pages of one search may take in all."""
LAST_S = 1.0
"""Seconds that the last page has when all the others have been read."""

Search = Callable[[SearchRequest], Awaitable[SearchResults]]


class WebSearchInput(BaseModel, extra="forbid"):
    """The input of `web_search`."""

    query: str = Field(min_length=2, description="The search query to use: short and specific, a few words")
    freshness: Literal["pd", "pw", "pm", "py"] | SkipJsonSchema[None] = Field(
        None, description="Only pages of the past day (pd), week (pw), month (pm) or year (py)"
    )
    allowed_domains: list[str] = Field([], description="Only include search results from these domains")
    blocked_domains: list[str] = Field([], description="Never include search results from these domains")


class PairInput(BaseModel):
    """The input of either tool of the pair; the schema is that of seed 002, word for word."""

    query: str = Field(min_length=2)
    allowed_domains: list[str] = []
    blocked_domains: list[str] = []


@dataclass(frozen=True, slots=True)
class PageReading:
    """How the pages of a search are read: the first `most` results, by what `reader` gives, at its first use.

    `fresh` skips the page cache. `exact` is for cassettes: each download has `READ_S`, and all are waited for, so that the same
    pages are read whenever it is played.
    """

    reader: Callable[[], PageReader]
    most: int
    fresh: bool = False
    exact: bool = False


def web_search_tool(
    search: Search,
    defaults: SearchRequest,
    *,
    price: tuple[Charge, ...] = (),
    pages: PageReading | None = None,
    name: str = "web_search",
) -> Tool:
    """Return `web_search`, or the tool of the pair that `name` names. `search` runs a request, `defaults` gives all but the
    query (count, country, domains, …). `pages` says how the pages of its first results are read (None: they are not)."""
    seed = SCHEMAS.get(name)

    async def call(given: WebSearchInput | PairInput, context: ToolContext) -> ToolOutput:
        try:
            request = narrowed(defaults, given)
            results = without(await search(request), given.blocked_domains) if seed else await search(request)
        except (ConfigError, ProviderError) as exc:
            return unavailable(exc)
        output = search_output(results)
        if seed and (rich := rich_passage(results)):
            return replace(output, passages=(rich, *output.passages), text="")
        wanted = [hit for hit in results[: pages.most] if hit.url.lower().startswith(_FETCHABLE)] if pages else []
        return with_pages(output, await read_pages(wanted, request, pages)) if pages and wanted else output

    if seed is None:
        return Tool(name, DESCRIPTION, WebSearchInput, call, counts_as_search=True, price=price)
    described = {"description": seed["description"], "schema": seed["parameters"]}
    return Tool(name, input_model=PairInput, call=call, counts_as_search=True, price=price, timeout_s=20.0, **described)


def unavailable(exc: ConfigError | ProviderError) -> ToolOutput:
    """Return the output of a search that failed: seed 000's sentence and the reason, or what is wrong with the input."""
    return refused(exc, text=f"{UNAVAILABLE} ({exc})" if isinstance(exc, ProviderError) else "")


def narrowed(defaults: SearchRequest, given: WebSearchInput | PairInput) -> SearchRequest:
    """Return the request for the model's input, within what the user allowed.

    Raises:
        ConfigError: a domain of the input is none.
    """
    allowed = tuple(map(clean_domain, given.allowed_domains))
    blocked = tuple(map(clean_domain, given.blocked_domains))
    if defaults.allowed_domains:
        inside = tuple(d for d in allowed if any(d == a or d.endswith(f".{a}") for a in defaults.allowed_domains))
        allowed, blocked = inside or defaults.allowed_domains, ()
    elif defaults.blocked_domains:
        allowed, blocked = (), tuple(dict.fromkeys((*defaults.blocked_domains, *blocked)))
    elif allowed:
        blocked = ()
    freshness = getattr(given, "freshness", None) or defaults.freshness
    return replace(defaults, query=given.query, freshness=freshness, allowed_domains=allowed, blocked_domains=blocked)


def without(results: SearchResults, domains: list[str]) -> SearchResults:
    """Return the results that are on none of the domains; an engine takes only one of the two lists.

    Raises:
        ConfigError: one of them is no domain.
    """
    blocked = tuple(map(clean_domain, domains))
    return replace(results, results=tuple(hit for hit in results if not host_matches(hit.url, blocked)))


def search_output(results: SearchResults) -> ToolOutput:
    """Return the output for the results of a search."""
    hits = f"{plural(len(results), 'result')} from {results.provider}" + (" (cached)" if results.cached else "")
    return ToolOutput(
        summary=f"{hits} for “{shorten(results.query, 80)}”",
        passages=tuple(passage for result in results if (passage := as_passage(result)).paragraphs),
        text="" if results else f"No results found for {results.query!r} ({results.provider}).",
        panel_title=f"{results.provider}: {results.query}",
        panel_data=_as_data(results) if results.body is None else results.body,
        urls=tuple(result.url for result in results),
        charges=results.charges,
        notices=results.notices,
        results=results,
    )


# --- the pages of a search --------------------------------------------------------------------------------------------

_FETCHABLE = ("http://", "https://")


@dataclass(slots=True)
class PageRead:
    """What came of reading the page of a result: the page, or in words `why` not. `passages` are those that fit the query."""

    hit: SearchResult
    page: Page | None = None
    why: str = "it took too long"
    seconds: float = READ_S
    passages: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """What the panel says of it; it is the same when a cassette is played."""
        cost = {"tokens": sum(map(tokens_of, self.passages))} if self.passages else {"why": self.why}
        return {"url": self.hit.url, "read": "page" if self.passages else "snippet", **cost}

    @property
    def log(self) -> dict[str, Any]:
        """What the trace says of it: also the seconds, and whether the page came from the cache."""
        cached = self.page is not None and self.page.cached
        return {**self.facts, "seconds": round(self.seconds, 2), "cached": cached}


async def read_pages(hits: Sequence[SearchResult], request: SearchRequest, pages: PageReading) -> list[PageRead]:
    """Return what came of reading the pages of these results at the same time, with the passages that fit the query.

    Raises:
        ReplayError: a page is not on the cassette that is replayed.
    """
    began, reads = time.perf_counter(), [PageRead(hit) for hit in hits]

    async def read(one: PageRead) -> None:
        try:
            one.page = await _page(one.hit.url, request, pages)
        except ReplayError:
            raise
        except WebSearchError as exc:
            one.why = _reason(exc, one.hit.url)
        except Exception as exc:  # a page must not cost the search
            one.why = f"reading it failed with {type(exc).__name__}"
        one.seconds = time.perf_counter() - began

    tasks = [asyncio.create_task(read(one)) for one in reads]
    try:
        await (asyncio.gather(*tasks) if pages.exact else _in_time(tasks, reads, began + READ_S))
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for missed in (exc for exc in ended if isinstance(exc, ReplayError)):
        raise missed
    found = [one for one in reads if one.page is not None]
    texts = [(one.hit.title or page.title, page.content) for one in found if (page := one.page)]
    chosen = await asyncio.to_thread(best_passages, request.query, texts)  # long pages take a tenth of a second
    for one, passages in zip(found, chosen, strict=True):
        one.passages, one.why = passages, "" if passages else "nothing on it fits the query"
    return reads


async def _in_time(tasks: Sequence[asyncio.Task[None]], reads: Sequence[PageRead], deadline: float) -> None:
    """Wait for tasks until `deadline`; the last one has `LAST_S` from the moment when only it is missing."""
    waiting: set[asyncio.Task[None]] = set(tasks)
    while waiting and (left := deadline - time.perf_counter()) > 0:
        last = len(waiting) == 1 and any(one.page is not None for one in reads)
        limit = min(left, LAST_S) if last else left
        done, waiting = await asyncio.wait(waiting, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return


async def _page(url: str, request: SearchRequest, pages: PageReading) -> Page:
    """Return a page that may be read automatically.

    Raises:
        WebSearchError: it may not, or cannot, be read, or there is no text on it.
    """
    allowed, blocked = request.allowed_domains, request.blocked_domains
    judge_address(url, True, allowed, blocked)
    page = await pages.reader().read(url, fresh=pages.fresh, robots=True, timeout_s=READ_S)
    judge_arrival(page.final_url, allowed, blocked)
    if not page.content.strip():
        raise FetchError("there is no text on the page")
    return page


def _reason(exc: WebSearchError, url: str) -> str:
    """Return why a page was not read, in a few words; the address stands beside it."""
    whole = rf"{re.escape(shown(url))}(?![^\s,;:)])"  # not the beginning of another address, as of the host's robots.txt
    said = re.sub(whole, "the page", re.sub(f": {whole}", "", str(exc).partition(TO_OPEN)[0]))
    return shorten(plain(said), 160).rstrip(".")


def with_pages(output: ToolOutput, reads: Sequence[PageRead]) -> ToolOutput:
    """Return a search's output with the passages of the pages that were read; the other results keep their snippets."""
    assert output.results is not None
    by_url = {one.hit.url: one for one in reads}
    passages = [_passage(hit, by_url.get(hit.url)) for hit in output.results]
    known = [addresses_of_page(one.page) for one in reads if one.page is not None and one.passages]
    facts, read = [one.facts for one in reads], sum(1 for one in reads if one.passages)
    body = output.panel_data if output.results.body is None else output.results.raw
    return replace(
        output,
        summary=f"{output.summary}; {read} of {plural(len(reads), 'page')} read",
        passages=tuple(passage for passage in passages if passage.paragraphs),
        panel_data={"pages_read": facts, **(body if isinstance(body, Mapping) else {"results": body})},
        urls=tuple(dict.fromkeys((*output.urls, *(url for urls in known for url in urls)))),
        log={"pages": [one.log for one in reads]},
    )


def _passage(hit: SearchResult, read: PageRead | None) -> Passage:
    """Return what the model gets of a result: passages of its page or, with a word on why, its snippet."""
    snippet = as_passage(hit)
    if read is None:
        return snippet
    if not read.passages or read.page is None:
        return replace(snippet, note=f"{UNREAD}{read.why}.)")
    page = read.page
    date = hit.published_date or page.published_date
    dated = (f"Published: {date.date().isoformat()}",) if date else ()
    moved = comparable(page.final_url) != comparable(hit.url)
    return Passage(page.final_url if moved else hit.url, hit.title or page.title, (*read.passages, *dated), date, "page")


def _as_data(results: SearchResults) -> dict[str, object]:
    """Return results as plain data for a panel."""
    listed = [asdict(replace(result, score=None)) for result in results]
    rows = [
        {name: value.isoformat() if name == "published_date" else value for name, value in row.items() if value}
        for row in listed
    ]
    return {"query": results.query, "provider": results.provider, "results": rows}


def rich_passage(results: SearchResults) -> Passage | None:
    """Return the rich result (weather, a stock, a conversion …) that came along with a search, None without one.

    Its source is the page on which Brave shows the same to people.
    """
    import yaml

    rich = results.extra.get("rich")
    entries = [entry for entry in rich.get("results") or () if isinstance(entry, dict)] if isinstance(rich, dict) else []
    texts = (visible(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=1_000)).strip() for entry in entries)
    paragraphs = tuple(shorten(text, _RICH_CHARACTERS) for text in texts if text)
    if not paragraphs:
        return None
    kinds = ", ".join(filter(None, dict.fromkeys(plain(entry.get("subtype")) for entry in entries)))
    url = f"https://search.brave.com/search?q={quote_plus(results.query)}"
    return Passage(url, f"Brave rich result: {kinds or 'data'}", paragraphs)
