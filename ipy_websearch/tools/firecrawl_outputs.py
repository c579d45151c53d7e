"""What the model and the reader get of Firecrawl's pages, searches and site maps. Pure.

The panel holds everything: Markdown as it came, with links and metadata at its end, or the whole answer as YAML. The model
gets the same in blocks that it can cite, cut only where a single call would fill its memory, and told so in a field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ipy_websearch.errors import FetchError
from ipy_websearch.http.address import shown
from ipy_websearch.providers import parsing
from ipy_websearch.providers.firecrawl import ScrapedPage, SiteLink, SiteMap
from ipy_websearch.results import SearchResults
from ipy_websearch.text import shorten, visible
from ipy_websearch.tools.base import Passage, ToolOutput
from ipy_websearch.tools.blocks import blocks
from ipy_websearch.tools.fetch_rules import failure_text
from ipy_websearch.tools.outputs import MODEL_CHARACTERS, counted, for_query, place, whole_text
from ipy_websearch.tools.web_search import as_passage

MODEL_LINKS = 200
"""Links of one page, or of one site, that the model gets; the panel has all."""

_FENCE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)
_TEXTS = {"summary": "Summary", "html": "HTML", "rawHtml": "Raw HTML", "screenshot": "Screenshot"}
"""Formats that come as one text, besides the Markdown, with their headings."""


def unread(url: str, exc: FetchError) -> ToolOutput:
    """Return the output for a page that was not read."""
    return ToolOutput(f"{place(url)} was not read", text=failure_text(exc), is_error=True)


def page_output(page: ScrapedPage, asked: str) -> ToolOutput:
    """Return the output of a scrape."""
    panel = page_markdown(page)
    output = ToolOutput(
        f"scraped {shown(asked)}" + (f" ({shorten(page.title, 80)})" if page.title else ""),
        panel_title=f"firecrawl_scrape: {asked}",
        panel_kind="markdown",
        panel_data=panel,
        urls=tuple(dict.fromkeys((page.url, *page.links))),
        charges=page.charges,
    )
    if page.error:
        text = f"Failed to fetch URL: {page.error}: {shown(asked)}"
        return replace(output, summary=f"{shown(asked)}: {page.error}", text=text, is_error=True, urls=())
    paragraphs = [*blocks(_cut(_body(page), MODEL_CHARACTERS)), *_link_paragraph(page.links)]
    if not paragraphs:
        return replace(output, text=f"content: empty; url: {page.url}")
    passage = Passage(page.url, page.title, tuple(paragraphs), page.published_date)
    return replace(output, passages=(passage,))


def search_output(results: SearchResults, pages: Sequence[ScrapedPage]) -> ToolOutput:
    """Return the output of a search with its pages; a result whose page could not be read gives its snippet."""
    read = {url: page for page in pages if not page.error and (url := _result_url(page))}
    room = MODEL_CHARACTERS // max(1, len(read))
    passages = []
    for result in results:
        passage = as_passage(result)
        if page := read.get(result.url):
            words = blocks(_cut(page.markdown, room))
            passage = Passage(result.url, page.title or result.title, words, page.published_date or result.published_date)
        if passage.paragraphs:
            passages.append(passage)
    return ToolOutput(
        f"{counted(len(results), 'result')} {for_query(results.query)}",
        passages=tuple(passages),
        text=whole_text(passages) or f"No results found for {results.query!r} (firecrawl).",
        panel_title=f"firecrawl_search: {results.query}",
        panel_kind="markdown" if pages else "yaml",
        panel_data=_pages_markdown(results, pages) if pages else results.body,
        urls=tuple(dict.fromkeys((*(r.url for r in results), *(link for page in read.values() for link in page.links)))),
        charges=results.charges,
        notices=results.notices,
        results=results,
    )


def map_output(found: SiteMap) -> ToolOutput:
    """Return the output of a map: every address is a line, in blocks of 25."""
    links = found.links
    lines = [_link_line(link) for link in links[:MODEL_LINKS]]
    paragraphs = ["\n".join(lines[n : n + 25]) for n in range(0, len(lines), 25)]
    if len(links) > MODEL_LINKS:
        paragraphs.append(f"addresses: {MODEL_LINKS} of {len(links):,}")
    site = place(found.url)
    passage = Passage(found.url, f"Addresses of {site}", tuple(paragraphs))
    return ToolOutput(
        f"{counted(len(links), 'URL')} discovered on {site}",
        passages=(passage,) if links else (),
        text="" if links else f"No URLs found on {site}.",
        panel_title=f"firecrawl_map: {found.url}",
        panel_data=found.raw,
        urls=tuple(link.url for link in links),
        charges=found.charges,
    )


def page_markdown(page: ScrapedPage) -> str:
    """Return a page for its panel: the Markdown as it came, then all else that was returned, each under a heading."""
    data = parsing.mapping(page.raw)
    data = parsing.mapping(data.get("data")) or data
    parts = [page.markdown] if page.markdown else []
    for name, heading in _TEXTS.items():
        if isinstance(data.get(name), str) and data[name]:
            parts.append(f"## {heading}\n\n{_fenced(data[name], name) if 'tml' in name.lower() else data[name]}")
    for name in ("links", "images"):
        if entries := [str(entry) for entry in parsing.items(data.get(name))]:
            parts.append(f"## {name.title()}\n\n" + "\n".join(f"- {entry}" for entry in entries))
    if metadata := parsing.mapping(data.get("metadata")):
        parts.append(f"## Metadata\n\n{_fenced(_yaml(metadata), 'yaml')}")
    return "\n\n".join(parts)


def _pages_markdown(results: SearchResults, pages: Sequence[ScrapedPage]) -> str:
    """Return every result under a heading, with its page where there is one."""
    by_url = {_result_url(page): page for page in pages}
    parts = []
    for result in results:
        page = by_url.get(result.url)
        body = page_markdown(page) if page else result.description
        parts.append(f"# {result.title or result.url}\n\n{result.url}\n\n{body}".rstrip())
    return "\n\n---\n\n".join(parts)


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
    return "\n\n".join([*texts, *(["\n".join(images[:MODEL_LINKS])] if images else [])]).strip()


def _cut(text: str, room: int) -> str:
    """Return as much of a text as there is room for, in whole lines where that is possible, with a field that says so."""
    if len(text) <= room:
        return text
    end = text.rfind("\n", 0, room)
    kept = text[: end if end > room // 2 else room]
    return f"{kept}\n\ncharacters: {len(kept):,} of {len(text):,}"


def _link_paragraph(links: Sequence[str]) -> list[str]:
    if not links:
        return []
    more = f"\nlinks: {MODEL_LINKS} of {len(links):,}" if len(links) > MODEL_LINKS else ""
    return ["Links:\n" + "\n".join(f"- {link}" for link in links[:MODEL_LINKS]) + more]


def _link_line(link: SiteLink) -> str:
    return " — ".join(filter(None, (link.url, shorten(link.title, 100), shorten(link.description, 200))))


def _fenced(text: str, language: str) -> str:
    """Return a text as a code block whose fence is longer than any in it."""
    longest = max((len(found) for found in _fences(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language.lower()}\n{text.rstrip()}\n{fence}"


def _fences(text: str) -> Iterable[str]:
    return (match[1] for match in _FENCE.finditer(text))


def _yaml(data: Mapping[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=1_000))
