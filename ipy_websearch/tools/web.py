"""The tools `web_search` and `web_fetch`, and the pair `web_search_brave` and `web_search_google`.

`web_search` is routed to the chain of engines, failures of one engine passed on to the next. A tool of the pair asks the
engine that it names and no other; the two schemas differ in the name and in the engine's name in the description, in nothing
else (seed 002), so that either can stand in for the other. Domains that the user allowed or blocked bind the model: it may
narrow an allowed list, never widen it.

`web_search` also reads the pages of its first results (`PageReading`), and gives the model their passages in place of the
snippets. A page is read as any other, through the guarded reader, and only where robots.txt allows it. Nothing waits for a slow
page: when the time is over, its result keeps the snippet.

`web_fetch` reads one page, as Markdown, in blocks that can be cited. Name, parameters and texts are those of seed 002, which
the executables share. The page's text is given as data with its source; nothing of ours is added to it but the fields of the
paging (`lines`, `next_offset`). A page can ask the model to call an address with what it knows in it. So the model reads only
addresses that somebody else wrote down: the question, a search result, a page already read. Anthropic's own web_fetch has the
same rule (`url_not_in_prior_context`; platform.claude.com/docs, "Web fetch tool", read November 2026).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote_plus

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from ipy_websearch.errors import ConfigError, FetchError, ProviderError, ReplayError, WebSearchError
from ipy_websearch.http.download import TO_OPEN, parse_url, shown
from ipy_websearch.providers.base import SearchRequest, clean_domain, host_matches, host_of, values
from ipy_websearch.providers.passages import best_passages, blocks, tokens_of
from ipy_websearch.results import Charge, Page, SearchResult, SearchResults
from ipy_websearch.text import plain, plural, short_address, shorten, visible
from ipy_websearch.tools.base import UNREAD, Passage, Tool, ToolContext, ToolOutput, as_passage, refused
from ipy_websearch.tools.schemas import SCHEMAS

if TYPE_CHECKING:
    from ipy_websearch.extract.reader import PageReader

# --- web_search -------------------------------------------------------------------------------------------------------

# What the model reads when no engine answered (seed 000, "Brave API failures").
UNAVAILABLE = "Search unavailable. Please answer from your knowledge."

DESCRIPTION = (
    "Search the web and use the results to inform the answer. Provides up-to-date information beyond your knowledge. "
    "Returns search results with their addresses and text."
)

# Seconds that reading the pages of one search may take in all.
READ_S = 4.0

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
            results = await search(request)
        except (ConfigError, ProviderError) as exc:
            # seed 000's sentence and the reason, or what is wrong with the input
            return refused(exc, text=f"{UNAVAILABLE} ({exc})" if isinstance(exc, ProviderError) else "")
        blocked = tuple(map(clean_domain, given.blocked_domains))  # a request has room for one of the two lists only
        kept = tuple(hit for hit in results if not host_matches(hit.url, blocked))
        results = replace(results, results=kept)
        return await with_pages(results, request, pages) if pages else search_output(results)

    if seed is None:
        return Tool(name, DESCRIPTION, WebSearchInput, call, counts_as_search=True, price=price)
    description, schema = seed["description"], seed["parameters"]
    return Tool(name, description, PairInput, call, counts_as_search=True, price=price, timeout_s=20.0, schema=schema)


def narrowed(defaults: SearchRequest, given: WebSearchInput | PairInput) -> SearchRequest:
    """Return the request for the model's input, within what the user allowed.

    Raises:
        ConfigError: a domain of the input is none.
    """
    allowed, blocked = (tuple(map(clean_domain, names)) for names in (given.allowed_domains, given.blocked_domains))
    if users := defaults.allowed_domains:
        allowed = tuple(domain for domain in allowed if host_matches(f"//{domain}", users)) or users
    elif defaults.blocked_domains:
        allowed, blocked = (), tuple(dict.fromkeys((*defaults.blocked_domains, *blocked)))
    return replace(
        defaults,
        query=given.query,
        freshness=getattr(given, "freshness", None) or defaults.freshness,
        allowed_domains=allowed,
        blocked_domains=() if allowed else blocked,
    )


def search_output(results: SearchResults) -> ToolOutput:
    """Return the output for the results of a search, live data first."""
    hits = f"{plural(len(results), 'result')} from {results.provider}" + (" (cached)" if results.cached else "")
    passages = (*rich_passages(results), *map(as_passage, results))
    return ToolOutput(
        summary=f"{hits} for “{shorten(results.query, 80)}”",
        passages=passages,
        text="" if passages else f"No results found ({results.provider}).",  # the model's query must make no address known
        panel_title=f"{results.provider}: {results.query}",
        panel_data=_as_data(results) if results.body is None else results.body,
        urls=tuple(result.url for result in results),
        charges=results.charges,
        notices=results.notices,
        results=results,
    )


def _as_data(results: SearchResults) -> dict[str, Any]:
    """Return results as plain data for a panel."""
    rows = [
        {name: value.isoformat() if name == "published_date" else value for name, value in asdict(hit).items() if value}
        for hit in (replace(result, score=None) for result in results)
    ]
    return {"query": results.query, "provider": results.provider, "results": rows}


# --- the pages of a search --------------------------------------------------------------------------------------------


async def with_pages(results: SearchResults, request: SearchRequest, pages: PageReading) -> ToolOutput:
    """Return the output for the results of a search with, for the first of them, the passages of their pages that fit the
    query. A result whose page could not be read keeps its snippet, with a note that says why.

    Raises:
        ReplayError: a page is not on the cassette that is replayed.
    """
    hits = [hit for hit in results[: pages.most] if hit.url.lower().startswith(("http://", "https://"))]
    output = search_output(results)
    if not hits:
        return output
    read = await asyncio.gather(*(_read_page(hit.url, request, pages) for hit in hits))
    texts = [
        (hit.title or page.title, page.content) if isinstance(page, Page) else ("", "")
        for hit, page in zip(hits, read, strict=True)
    ]
    chosen: list[tuple[str, ...]] = [()] * len(hits)
    if any(isinstance(page, Page) for page in read):
        chosen = await asyncio.to_thread(best_passages, request.query, texts)  # long pages take a tenth of a second
    facts: list[dict[str, Any]] = []
    instead: dict[str, Passage] = {}
    urls = list(output.urls)
    for hit, page, passages in zip(hits, read, chosen, strict=True):
        if isinstance(page, Page) and passages:
            facts.append({"url": hit.url, "read": "page", "tokens": sum(map(tokens_of, passages)), "cached": page.cached})
            instead[hit.url] = _of_page(hit, page, passages)
            urls += addresses_of_page(page)
        else:
            why = page if isinstance(page, str) else "nothing on it fits the query"
            facts.append({"url": hit.url, "read": "snippet", "why": why})
            instead[hit.url] = replace(as_passage(hit), note=f"{UNREAD}{why}.)")
    body = output.panel_data if results.body is None else results.raw
    return replace(
        output,
        summary=f"{output.summary}; {sum(fact['read'] == 'page' for fact in facts)} of {plural(len(hits), 'page')} read",
        passages=tuple(instead.get(passage.url, passage) for passage in output.passages),
        panel_data={"pages_read": facts, **(body if isinstance(body, Mapping) else {"results": body})},
        urls=tuple(dict.fromkeys(urls)),
        log={"pages": facts},
    )


async def _read_page(url: str, request: SearchRequest, pages: PageReading) -> Page | str:
    """Return a page that may be read automatically, or in words why there is none.

    Raises:
        ReplayError: it is not on the cassette that is replayed.
    """
    allowed, blocked = request.allowed_domains, request.blocked_domains
    try:
        judge_address(url, True, allowed, blocked)
        async with asyncio.timeout(None if pages.exact else READ_S):
            page = await pages.reader().read(url, fresh=pages.fresh, robots=True, timeout_s=READ_S)
        judge_domain(page.final_url, REDIRECTED, allowed, blocked)
    except ReplayError:
        raise
    except TimeoutError:
        return "it took too long"
    except WebSearchError as exc:
        # Without the advice how to open a private address: a page chose this one.
        return shorten(plain(str(exc).partition(TO_OPEN)[0]), 160).rstrip(".")
    except Exception as exc:  # a page must not cost the search
        return f"reading it failed with {type(exc).__name__}"
    return page if page.content.strip() else "there is no text on the page"


def _of_page(hit: SearchResult, page: Page, passages: tuple[str, ...]) -> Passage:
    """Return what the model gets of a result whose page was read."""
    date = hit.published_date or page.published_date
    dated = (f"Published: {date.date().isoformat()}",) if date else ()
    url = hit.url if comparable(page.final_url) == comparable(hit.url) else page.final_url
    return Passage(url, hit.title or page.title, (*passages, *dated), date, "page")


def rich_passages(results: SearchResults) -> list[Passage]:
    """Return the rich result (weather, a stock, a conversion …) that came along with a search, if one did.

    Its source is the page on which Brave shows the same to people.
    """
    import yaml

    entries = [entry for entry in values(results.extra.get("rich"), "results") if isinstance(entry, dict)]
    if not entries:
        return []
    texts = (visible(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=1_000)).strip() for entry in entries)
    kinds = ", ".join(filter(None, dict.fromkeys(plain(entry.get("subtype")) for entry in entries)))
    url = f"https://search.brave.com/search?q={quote_plus(results.query)}"
    return [Passage(url, f"Brave rich result: {kinds or 'data'}", tuple(shorten(text, 8_000) for text in texts))]


# --- web_fetch --------------------------------------------------------------------------------------------------------

# Lines that the model gets when it asks for no limit; `next_offset` says where the next ones begin.
PAGE_LINES = 500
# Characters that the model gets at once, about 10,000 tokens.
PAGE_CHARACTERS = 40_000
# Addresses that one page makes known: each is compared at every later call.
MOST_ADDRESSES = 10_000

_FREE = Charge("web_fetch", "fetch", Decimal(1), "request", usd=Decimal(0))
# Places at which one address is cut; what is known stays a small multiple of the text, however it is written.
MOST_ENDS = 16

_SCHEME = r"(?:https?|corpus|file)://"
_INSIDE = r"[^\s<>\"`{}|\\^]"
# It ends where another begins behind punctuation; one that stands in a path or a query is a part of it.
_ADDRESS = re.compile(rf"(?<![A-Za-z0-9_]){_SCHEME}(?:(?!(?<=[,;'()\[\]]|[^\x00-\x7f]){_SCHEME}){_INSIDE})+", re.IGNORECASE)
_BARE = re.compile(rf"(?<![\w@/.:-])(?:[a-z0-9](?:[a-z0-9-]{{0,61}}[a-z0-9])?\.)+[a-z]{{2,24}}(?:/{_INSIDE}*)?", re.IGNORECASE)
# Thai and its neighbours, Hangul, kana and Han: words follow an address without a blank.
_UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3130-\u318f\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
# Where a bare name may end and another begin: at punctuation of any script, and where a script without blanks goes on.
_BETWEEN = re.compile(rf"[,;'()\[\]]|[^\w\x00-\x7f]|{_UNSPACED}")
# Where an address may end before its end.
_END = re.compile(rf"[,;')\]]|[^\w\x00-\x7f]|(?<=[\x00-\x7f]){_UNSPACED}")
# What stands behind an address and belongs to the sentence or to its Markdown.
_ENDING = ".,;:!?'\"*_(["
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")


class WebFetchInput(BaseModel):
    """The input; without a limit, an executable gives all lines and the tool at most `PAGE_LINES`."""

    url: str
    offset: int = Field(1, ge=1)
    limit: int | None = Field(None, ge=1)


def web_fetch_tool(
    reader: PageReader,
    *,
    fresh: bool = False,
    allowed_domains: tuple[str, ...] = (),
    blocked_domains: tuple[str, ...] = (),
    max_characters: int = PAGE_CHARACTERS,
) -> Tool:
    """Return the tool; it reads only addresses in `ToolContext.known_urls`, inside the domains that are given.

    `fresh` skips the page cache. Domains are bare host names and mean their subdomains too, as in a search. The model gets at
    most `max_characters` at once.
    """

    async def call(given: WebFetchInput, context: ToolContext) -> ToolOutput:
        try:
            judge_address(given.url, is_known(given.url, context.known_urls), allowed_domains, blocked_domains)
            page = await reader.read(given.url, offset=given.offset, limit=given.limit, fresh=fresh)
            judge_domain(page.final_url, REDIRECTED, allowed_domains, blocked_domains)
        except WebSearchError as exc:
            return unread(given.url, exc)
        return _output(page, given.offset, given.limit or PAGE_LINES, max_characters)

    seed = SCHEMAS["web_fetch"]
    return Tool(
        "web_fetch", seed["description"], WebFetchInput, call, price=(_FREE,), timeout_s=45.0, schema=seed["parameters"]
    )


# --- which addresses --------------------------------------------------------------------------------------------------


REDIRECTED = "it redirects to a domain that was not allowed"


def judge_address(url: str, known: bool, allowed: Collection[str], blocked: Collection[str]) -> None:
    """Check that a page may be read.

    Raises:
        FetchError: it may not be; the message names the rule.
    """
    if not known:
        raise FetchError(
            "only addresses from the question, from search results or from pages already read may be fetched "
            f"(url_not_in_prior_context): {shown(url)}"
        )
    judge_domain(url, "this domain was not allowed (url_not_allowed)", allowed, blocked)


def judge_domain(url: str, refusal: str, allowed: Collection[str], blocked: Collection[str]) -> None:
    """Check that the host of `url` is inside of the allowed domains (none: all are) and outside of the blocked ones.

    Raises:
        FetchError: it is not; the message begins with `refusal`.
    """
    inside, outside = ([host_of(f"//{domain}") for domain in domains] for domains in (allowed, blocked))
    host = comparable(url)
    if (allowed and not host_matches(host, inside)) or host_matches(host, outside):
        raise FetchError(f"{refusal}: {shown(url)}")


@lru_cache(maxsize=4_096)  # a page may bring thousands of links, and each is compared at every call
def comparable(url: str) -> str:
    """Return an address in the form in which two are compared.

    Scheme and host are lower case and ASCII, a default port, the fragment and a final slash of the path are gone, and
    what has to be escaped is. Path and query are otherwise as they were, so no two that differ in content are equal.
    """
    try:
        text = parse_url(url).url
    except FetchError:
        return url.strip()
    path, mark, query = _ESCAPE.sub(lambda match: match[0].upper(), text).partition("?")
    return path.rstrip("/") + mark + query


def is_known(url: str, known: Collection[str]) -> bool:
    """Return whether `url` is one of the known addresses."""
    return comparable(url) in map(comparable, known)


def unread(url: str, exc: WebSearchError) -> ToolOutput:
    """Return the output for a page that was not read."""
    where = short_address(url, 80)
    return ToolOutput(f"{where} was not read", text=failure_text(exc), is_error=True, panel_title=where, error=exc)


def failure_text(exc: WebSearchError) -> str:
    """Return a failure in the tool's own words: "Failed to fetch URL: …", "Failed to parse HTML: …"."""
    text = str(exc)
    return text if text.startswith("Failed to parse HTML: ") else f"Failed to fetch URL: {text}"


# --- addresses in text ------------------------------------------------------------------------------------------------
#
# Where an address ends, text does not say: a comma, an apostrophe or a letter may belong to it ("wiki/Washington,_D.C.") or to
# what stands around it (the next field of a table, "…/a's", "…/a的"). So both readings are known: the whole one, and those cut
# short at such a mark. Each reading is a piece of the text as it stands, from where an address or a host name begins;
# nothing is put together, so whoever did not write the text gains no address that carries something of his choice.


def addresses_in(text: str) -> set[str]:
    """Return the addresses in `text`; a bare "example.com/page" counts as its https and http address."""
    found = explicit_addresses(text)
    rest = _ADDRESS.sub(" ", text)
    for part in (rest, _BETWEEN.sub(" ", rest)):
        for match in _BARE.finditer(part):
            found |= _readings(f"https://{match[0]}") | _readings(f"http://{match[0]}")
    return found


def explicit_addresses(text: str) -> set[str]:
    """Return the full addresses in text that came from the web; bare names in it do not count."""
    return {reading for address in _ADDRESS.finditer(text) for reading in _readings(address[0])}


def addresses_of(message: Mapping[str, Any]) -> set[str]:
    """Return the addresses that a message made known: those a person wrote, and those in the results of tools. An error is none
    of these: it may repeat the address that the model asked for."""
    if message["role"] != "user":
        return set()
    content = message["content"]
    if isinstance(content, str):
        return addresses_in(content)
    found: set[str] = set()
    for block in content:
        found |= addresses_in(block.get("text") or "")
        inner = block.get("content")
        parts = inner if isinstance(inner, list) and not block.get("is_error") else []
        results = [part for part in parts if part.get("type") == "search_result"]
        found.update(result["source"] for result in results)
        for part in (*parts, *(part for result in results for part in result["content"])):
            found |= explicit_addresses(part.get("text") or "")
    return found


def _readings(address: str) -> set[str]:
    """Return what the address may be: all of it, and cut short where it may end before."""
    ends = (end.start() for end in islice(_END.finditer(address), MOST_ENDS))
    cuts = [address, *(address[:at] for at in ends)]
    return {*cuts, *(cut.rstrip(_ENDING) for cut in cuts)}


# --- the page ---------------------------------------------------------------------------------------------------------


def _output(page: Page, offset: int, limit: int, room: int) -> ToolOutput:
    """Return the lines that the model gets: at most `limit`, in `room` characters; a first line that is longer is cut."""
    lines = page.content.split("\n")[: min(limit, page.lines_read)]
    ends = accumulate(len(line) + 1 for line in lines)
    whole = lines[: sum(end <= room + 1 for end in ends)]
    kept = whole or [line[:room] for line in lines[:1]]
    last = offset + len(kept) - 1
    numbers = f"lines {offset:,}–{last:,} of {page.total_lines:,}"
    what = numbers if 0 < len(kept) < page.total_lines else plural(len(kept), "line")
    output = ToolOutput(
        f"read {what} of {short_address(page.final_url, 80)}{' (cached)' if page.cached else ''}",
        panel_title=page.title or short_address(page.final_url, 80),
        panel_data=page.content,
        urls=addresses_of_page(page),
        charges=(replace(_FREE, cached=page.cached),),
        notices=(f"{short_address(page.final_url, 80)}: {page.note}",) if page.note else (),
        page=page,
    )
    paragraphs = blocks("\n".join(kept))
    if not paragraphs:
        note = f"; note: {page.note}" if page.note else ""
        return replace(output, text=f"content: empty; lines_read: {len(kept)}; total_lines: {page.total_lines}{note}")
    if not whole or len(kept) < page.total_lines:
        cut = "" if whole else f"; line {last} is cut at {room:,} characters"
        paragraphs = (*paragraphs, numbers + cut + (f"; next_offset: {last + 1}" if last < page.total_lines else ""))
    return replace(output, passages=(Passage(page.final_url, page.title, paragraphs, page.published_date, "page"),))


def addresses_of_page(page: Page) -> tuple[str, ...]:
    """Return the addresses that the page makes known: its own, its links, and what else those of a table or a text may be."""
    others = (reading for link in page.links for reading in sorted(explicit_addresses(link)))
    return tuple(islice(dict.fromkeys((page.final_url, *page.links, *islice(others, MOST_ADDRESSES))), MOST_ADDRESSES))
