"""The tool `web_fetch`: the model reads one page, as Markdown, in blocks that it can cite.

Name, parameters and texts are those of seed 002, which the executables share. The page's text is given as data with its source;
nothing of ours is added to it but the fields of the paging (`lines`, `next_offset`).

A page can ask the model to call an address with what it knows in it. So the model reads only addresses that somebody else wrote
down: the question, a search result, a page already read. Anthropic's own web_fetch has the same rule
(`url_not_in_prior_context`; platform.claude.com/docs, "Web fetch tool", read November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import Any

from pydantic import ConfigDict, Field

from ipy_websearch.errors import ConfigError, FetchError, WebSearchError
from ipy_websearch.extract.reader import PageReader
from ipy_websearch.http.address import canonical_url, shown
from ipy_websearch.providers.base import clean_domain
from ipy_websearch.providers.parsing import host_matches
from ipy_websearch.results import Page
from ipy_websearch.tools.addresses import likely_readings
from ipy_websearch.tools.base import Passage, Tool, ToolContext, ToolOutput, blocks, counted, place
from ipy_websearch.tools.inputs import Optional, ToolInput
from ipy_websearch.tools.schemas import FETCH_PARAMETERS, SCHEMAS
from ipy_websearch.usage import Charge

PAGE_LINES = 500
"""Lines that the model gets when it asks for no limit; `next_offset` says where the next ones begin."""
PAGE_CHARACTERS = 40_000
"""Characters that the model gets at once, about 10,000 tokens."""
MOST_ADDRESSES = 10_000
"""Addresses that one page makes known: each is compared at every later call."""

_FREE = Charge("web_fetch", "fetch", Decimal(1), "request", usd=Decimal(0))
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")


def _as_specified(schema: dict[str, Any]) -> None:
    schema.clear()
    schema.update(deepcopy(FETCH_PARAMETERS))


class WebFetchInput(ToolInput):
    """The input; without a limit, an executable gives all lines and the tool at most `PAGE_LINES`."""

    model_config = ConfigDict(extra="ignore", json_schema_extra=_as_specified)

    url: str
    offset: int | Optional = Field(None, ge=1)
    limit: int | Optional = Field(None, ge=1)


def web_fetch_tool(
    reader: PageReader,
    *,
    fresh: bool = False,
    robots: bool = False,
    allowed_domains: tuple[str, ...] = (),
    blocked_domains: tuple[str, ...] = (),
    max_characters: int = PAGE_CHARACTERS,
) -> Tool:
    """Return the tool; it reads only addresses in `ToolContext.known_urls`, inside the domains that are given.

    `fresh` skips the page cache; `robots` obeys each host's robots.txt. Domains are bare host names and mean their subdomains
    too, as in a search. The model gets at most `max_characters` at once.
    """

    async def call(given: WebFetchInput, context: ToolContext) -> ToolOutput:
        try:
            judge_address(given.url, is_known(given.url, context.known_urls), allowed_domains, blocked_domains)
            page = await reader.read(given.url, offset=given.offset or 1, limit=given.limit, fresh=fresh, robots=robots)
            judge_arrival(page.final_url, allowed_domains, blocked_domains)
        except WebSearchError as exc:
            where = place(given.url)
            return ToolOutput(f"{where} was not read", text=failure_text(exc), is_error=True, panel_title=where, error=exc)
        return _output(page, given.offset or 1, given.limit or PAGE_LINES, max_characters)

    description = SCHEMAS["web_fetch"]["description"]
    return Tool("web_fetch", description, WebFetchInput, call, price=(_FREE,), timeout_s=45.0)


# --- which addresses --------------------------------------------------------------------------------------------------


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
    if domain_refused(url, allowed, blocked):
        raise FetchError(f"this domain was not allowed (url_not_allowed): {shown(url)}")


def judge_arrival(url: str, allowed: Collection[str], blocked: Collection[str]) -> None:
    """Check where a page led to.

    Raises:
        FetchError: to a domain that was not allowed.
    """
    if domain_refused(url, allowed, blocked):
        raise FetchError(f"it redirects to a domain that was not allowed: {shown(url)}")


@lru_cache(maxsize=4_096)  # a page may bring thousands of links, and each is compared at every call
def comparable(url: str) -> str:
    """Return an address in the form in which two are compared.

    Scheme and host are lower case and ASCII, a default port, the fragment and a final slash of the path are gone, and
    what has to be escaped is. Path and query are otherwise as they were, so no two that differ in content are equal.
    """
    text = url.strip()
    try:
        text = canonical_url(text)
    except FetchError:
        return text
    path, mark, query = _ESCAPE.sub(lambda match: match[0].upper(), text).partition("?")
    return path.rstrip("/") + mark + query


def is_known(url: str, known: Collection[str]) -> bool:
    """Say whether `url` is one of the known addresses."""
    if url in known:
        return True
    wanted = comparable(url)
    return any(wanted == comparable(candidate) for candidate in known)


def domain_refused(url: str, allowed: Collection[str], blocked: Collection[str]) -> bool:
    """Say whether the host of `url` is outside of the allowed domains (none: all are) or inside a blocked one."""
    place = comparable(url)
    return (bool(allowed) and not host_matches(place, map(_host, allowed))) or host_matches(place, map(_host, blocked))


@lru_cache(maxsize=1_024)
def _host(domain: str) -> str:
    """Return the host of a domain as somebody wrote it: in any script, with a port."""
    try:
        return clean_domain(domain)
    except ConfigError:
        return domain.lower().strip(".")


def failure_text(exc: WebSearchError) -> str:
    """Return a failure in the tool's own words: "Failed to fetch URL: …", "Failed to parse HTML: …"."""
    text = str(exc)
    return text if text.startswith("Failed to parse HTML: ") else f"Failed to fetch URL: {text}"


# --- the page ---------------------------------------------------------------------------------------------------------


def _output(page: Page, offset: int, limit: int, room: int) -> ToolOutput:
    part, is_cut = _for_model(page, limit, room)
    last = offset + part.lines_read - 1
    lines = f"lines {offset:,}–{last:,} of {part.total_lines:,}"
    what = lines if 0 < part.lines_read < part.total_lines else counted(part.lines_read, "line")
    output = ToolOutput(
        f"read {what} of {place(part.final_url)}{' (cached)' if part.cached else ''}",
        panel_title=page.title or place(page.final_url),
        panel_kind="markdown",
        panel_data=page.content,
        urls=addresses_of_page(page),
        charges=(replace(_FREE, cached=page.cached),),
        notices=(f"{place(page.final_url)}: {page.note}",) if page.note else (),
        page=page,
    )
    paragraphs = blocks(part.content)
    if not paragraphs:
        note = f"; note: {page.note}" if page.note else ""
        text = f"content: empty; lines_read: {part.lines_read}; total_lines: {page.total_lines}{note}"
        return replace(output, text=text)
    if is_cut or part.lines_read < part.total_lines:
        cut = f"; line {last} is cut at {room:,} characters" if is_cut else ""
        paragraphs = (*paragraphs, lines + cut + (f"; next_offset: {last + 1}" if last < part.total_lines else ""))
    return replace(output, passages=(Passage(page.final_url, page.title, paragraphs, page.published_date, "page"),))


def addresses_of_page(page: Page) -> tuple[str, ...]:
    """Return the addresses that the page makes known: its own, its links, and what else those of a table or a text may be."""
    others = (reading for link in page.links for readings in likely_readings(link) for reading in readings)
    return tuple(islice(dict.fromkeys((page.final_url, *page.links, *islice(others, MOST_ADDRESSES))), MOST_ADDRESSES))


def _for_model(page: Page, limit: int, most: int) -> tuple[Page, bool]:
    """Return the lines that the model gets, and whether the first of them had to be cut to fit in `most` characters."""
    lines = page.content.split("\n") if page.lines_read else []
    room, kept = most, list[str]()
    for line in lines[:limit]:
        if len(line) > room:
            break
        kept.append(line)
        room -= len(line) + 1
    is_cut = not kept and bool(lines)
    if is_cut:
        kept = [lines[0][:most]]
    return replace(page, content="\n".join(kept), lines_read=len(kept)), is_cut
