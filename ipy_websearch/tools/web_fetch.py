"""The tool `web_fetch`: the model reads one page, as Markdown, in blocks that it can cite.

Name, parameters and texts are those of the specification that the executables share. What the page says is given as
data with its source; nothing of ours is added to it but the fields of the paging (`lines`, `next_offset`).
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import islice
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ipy_websearch.errors import FetchError, WebSearchError
from ipy_websearch.extract.reader import PageReader
from ipy_websearch.http.address import shown
from ipy_websearch.results import Page
from ipy_websearch.text import plain, shorten
from ipy_websearch.tools.addresses import likely_readings
from ipy_websearch.tools.base import Passage, Tool, ToolContext, ToolOutput
from ipy_websearch.tools.blocks import blocks
from ipy_websearch.tools.fetch_rules import domain_refused, failure_text, is_known
from ipy_websearch.usage import Charge

DESCRIPTION = (
    "Fetches content from a specified URL and returns it as markdown. Converts HTML to markdown using libxml2. "
    "Supports pagination via offset and limit parameters similar to file_read."
)
PAGE_LINES = 500
"""Lines that the model gets when it asks for no limit; `next_offset` says where the next ones begin."""
PAGE_CHARACTERS = 40_000
"""Characters that the model gets at once, about 10,000 tokens."""
MOST_ADDRESSES = 10_000
"""Addresses that one page makes known: each is compared at every later call."""

_FREE = Charge("web_fetch", "fetch", Decimal(1), "request", usd=Decimal(0))


def _without_defaults(schema: dict[str, Any]) -> None:
    for parameter in schema["properties"].values():
        parameter.pop("default", None)


def _whole_number(description: str) -> WithJsonSchema:
    """Return the schema of a parameter that may be left out; null, which models write for that, is not offered."""
    return WithJsonSchema({"type": "integer", "description": description, "minimum": 1})


class WebFetchInput(BaseModel):
    """What the model gives; without a limit, an executable gives all lines and the tool at most `PAGE_LINES`."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    url: str = Field(description="The URL to fetch content from", json_schema_extra={"format": "uri"})
    offset: Annotated[int | None, Field(ge=1), _whole_number("Line number to start reading from (1-based)")] = None
    limit: Annotated[int | None, Field(ge=1), _whole_number("Maximum number of lines to return")] = None


def web_fetch_tool(
    reader: PageReader,
    *,
    fresh: bool = False,
    bulk: bool = False,
    allowed_domains: tuple[str, ...] = (),
    blocked_domains: tuple[str, ...] = (),
    max_characters: int = PAGE_CHARACTERS,
) -> Tool:
    """Return the tool; it reads only addresses in `ToolContext.known_urls`, inside the domains that are given.

    `fresh` skips the page cache; `bulk` keeps to each host's robots.txt. Domains are bare host names and mean their
    subdomains too, as in a search. The model gets at most `max_characters` at once.
    """

    async def call(given: WebFetchInput, context: ToolContext) -> ToolOutput:
        try:
            _judge(given.url, context, allowed_domains, blocked_domains)
            page = await reader.read(given.url, offset=given.offset or 1, limit=given.limit, fresh=fresh, robots=bulk)
            if domain_refused(page.final_url, allowed_domains, blocked_domains):
                raise FetchError(f"it redirects to a domain that was not allowed: {shown(page.final_url)}")
        except WebSearchError as exc:
            return ToolOutput(
                f"{_place(given.url)} was not read", text=failure_text(exc), is_error=True, panel_title=_place(given.url)
            )
        return _output(page, given.offset or 1, given.limit or PAGE_LINES, max_characters)

    return Tool(
        name="web_fetch",
        description=DESCRIPTION,
        input_model=WebFetchInput,
        call=call,
        price=(_FREE,),
        timeout_s=45.0,
    )


def _judge(url: str, context: ToolContext, allowed: tuple[str, ...], blocked: tuple[str, ...]) -> None:
    if not is_known(url, context.known_urls):
        raise FetchError(
            "only addresses from the question, from search results or from pages already read may be fetched "
            f"(url_not_in_prior_context): {shown(url)}"
        )
    if domain_refused(url, allowed, blocked):
        raise FetchError(f"this domain was not allowed (url_not_allowed): {shown(url)}")


def _output(page: Page, offset: int, limit: int, room: int = PAGE_CHARACTERS) -> ToolOutput:
    part, cut = _for_model(page, limit, room)
    output = ToolOutput(
        _summary(part, offset),
        panel_title=page.title or _place(page.final_url),
        panel_kind="markdown",
        panel_data=page.content,
        urls=_addresses(page),
        charges=(replace(_FREE, cached=page.cached),),
        notices=(f"{_place(page.final_url)}: {page.note}",) if page.note else (),
        page=page,
    )
    paragraphs = blocks(part.content)
    if not paragraphs:
        note = f"; note: {page.note}" if page.note else ""
        text = f"content: empty; lines_read: {part.lines_read}; total_lines: {page.total_lines}{note}"
        return replace(output, text=text)
    fields = _paging(part, offset, room if cut else None)
    paragraphs = (*paragraphs, fields) if fields else paragraphs
    return replace(output, passages=(Passage(page.final_url, page.title, paragraphs, page.published_date),))


def _addresses(page: Page) -> tuple[str, ...]:
    """Return the addresses that the page makes known: its own, its links, and what else those of a table or a text may be."""
    others = (reading for link in page.links for readings in likely_readings(link) for reading in readings)
    return tuple(islice(dict.fromkeys((page.final_url, *page.links, *islice(others, MOST_ADDRESSES))), MOST_ADDRESSES))


def _for_model(page: Page, limit: int, most: int) -> tuple[Page, bool]:
    """Return the lines that the model gets, and whether the last of them had to be cut to fit in `most` characters."""
    lines = page.content.split("\n") if page.lines_read else []
    room, kept = most, []
    for line in lines[:limit]:
        if len(line) > room:
            break
        kept.append(line)
        room -= len(line) + 1
    cut = not kept and bool(lines)
    if cut:
        kept = [lines[0][:most]]
    return replace(page, content="\n".join(kept), lines_read=len(kept)), cut


def _paging(part: Page, offset: int, cut: int | None) -> str:
    """Return the fields of the paging, "" when the model has the whole page; `cut` is how many characters its line has."""
    if part.lines_read == part.total_lines and cut is None:
        return ""
    last = offset + part.lines_read - 1
    text = f"lines {offset:,}–{last:,} of {part.total_lines:,}"
    if cut is not None:
        text += f"; line {last} is cut at {cut:,} characters"
    return f"{text}; next_offset: {last + 1}" if last < part.total_lines else text


def _summary(part: Page, offset: int) -> str:
    what = f"{part.lines_read:,} lines" if part.lines_read != 1 else "1 line"
    if 0 < part.lines_read < part.total_lines:
        what = f"lines {offset:,}–{offset + part.lines_read - 1:,} of {part.total_lines:,}"
    return f"read {what} of {_place(part.final_url)}{' (cached)' if part.cached else ''}"


def _place(url: str) -> str:
    """Return host and path of an address for people, short and printable."""
    try:
        parts = urlsplit(url)
        return shorten(plain(unquote((parts.hostname or parts.netloc) + parts.path)).rstrip("/"), 80) or shown(url)
    except ValueError:
        return shown(url)
