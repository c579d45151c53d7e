"""Pages and site maps as Firecrawl answers them. Reading only; `firecrawl` sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ipy_websearch.providers import parsing
from ipy_websearch.text import visible
from ipy_websearch.usage import Charge


@dataclass(frozen=True, slots=True)
class ScrapedPage:
    """A page as Firecrawl read it.

    `markdown` is the main content, "" when another format was asked for (it is in `raw` then). `status` is that of the
    page's own server (None: not said), and `error` says what is wrong with the page ("" when nothing is): such a page was
    billed like any other.
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


@dataclass(frozen=True, slots=True)
class SiteLink:
    """One address of a site, with its title and description where they are known."""

    url: str
    title: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class SiteMap:
    """The addresses that were found on a site."""

    url: str
    links: tuple[SiteLink, ...]
    raw: Any = field(default=None, repr=False, compare=False)
    charges: tuple[Charge, ...] = field(default=(), repr=False)


def scraped_page(data: Mapping[str, Any], asked: str, *, raw: Any = None, charges: tuple[Charge, ...] = ()) -> ScrapedPage:
    """Return a page from a scrape's `data` or from a search result that was read along; `asked` is its address if the
    answer does not say."""
    metadata = parsing.mapping(data.get("metadata"))
    address = (parsing.address(value) for value in (metadata.get("url"), metadata.get("sourceURL"), data.get("url")))
    status = metadata.get("statusCode")
    status = status if isinstance(status, int) and not isinstance(status, bool) else None
    markdown = data.get("markdown")
    links = (parsing.address(link) for link in parsing.items(data.get("links")))
    return ScrapedPage(
        url=next(filter(None, address), asked),
        title=_one(metadata.get("title")) or _one(data.get("title")),
        markdown=visible(markdown).strip() if isinstance(markdown, str) else "",
        links=tuple(dict.fromkeys(filter(None, links))),
        published_date=parsing.first_date(
            *(parsing.iso_date(metadata.get(name)) for name in ("publishedTime", "article:published_time"))
        ),
        status=status,
        error=_error(metadata, status),
        raw=data if raw is None else raw,
        charges=charges,
    )


def _error(metadata: Mapping[str, Any], status: int | None) -> str:
    if said := _one(metadata.get("error")):
        return said
    return f"the page's server answered {status}" if status is not None and status >= 400 else ""


def _one(value: Any) -> str:
    """Return a text that may come as a string or as a list of strings (several tags of one name in a page)."""
    return parsing.text(value[0] if isinstance(value, list) and value else value, 500)


def map_links(raw: Mapping[str, Any]) -> Iterator[SiteLink]:
    """Yield the links of a map: objects, or plain addresses from servers of version 1."""
    seen: set[str] = set()
    for item in parsing.items(raw.get("links")):
        link = item if isinstance(item, dict) else {"url": item}
        url = parsing.address(link.get("url"))
        if url and url not in seen:
            seen.add(url)
            yield SiteLink(url, _one(link.get("title")), _one(link.get("description")))
