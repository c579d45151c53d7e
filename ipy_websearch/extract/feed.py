"""XML: RSS and Atom feeds and site maps as Markdown lists, anything else as a code block."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ipy_websearch.extract.about import parse_date
from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.formats import fenced
from ipy_websearch.extract.inline import escape, escape_line_starts, link
from ipy_websearch.extract.plaintext import web_links
from ipy_websearch.text import plain, visible

_MAX_ITEMS = 2_000


def xml_markdown(text: str, url: str) -> Extracted:
    """Return an XML body as Markdown: a feed or site map as its entries, other documents as they are, in a code block."""
    from lxml import etree

    # No entity is resolved and nothing is loaded: billion laughs and file:// entities stay unexpanded.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True, huge_tree=False)
    try:
        root = etree.fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.XMLSyntaxError, ValueError):
        root = None
    entries = list(_entries(root, url))[:_MAX_ITEMS] if root is not None else []
    if root is None or not entries:
        text = visible(text)
        return Extracted(fenced(text, "xml"), links=web_links(text))
    title = _text(_child(root, "channel") if _child(root, "channel") is not None else root, "title")
    parts = [f"# {escape(title)}"] if title else []
    parts += [part for entry in entries for part in entry.parts()]
    links = tuple(dict.fromkeys(entry.address for entry in entries if entry.address))
    return Extracted("\n\n".join(parts) + "\n", title=title, links=links)


class _Entry:
    def __init__(self, title: str, address: str, date: datetime | None, summary: str) -> None:
        self.title, self.address, self.date, self.summary = title, address, date, summary

    def parts(self) -> Iterator[str]:
        yield f"## {link(escape(self.title or self.address), self.address)}"
        if self.date is not None:
            yield self.date.date().isoformat()
        if self.summary:
            yield escape_line_starts(escape(self.summary))


def _entries(root: Any, url: str) -> Iterator[_Entry]:
    for element in root.iter():
        name = _name(element)
        if name in ("item", "entry"):
            when = next((d for n in ("pubdate", "published", "date", "updated") if (d := parse_date(_text(element, n)))), None)
            summary = next((s for n in ("encoded", "content", "description", "summary") if (s := plain(_text(element, n)))), "")
            yield _Entry(plain(_text(element, "title")), _address(element, url), when, summary)
        elif name in ("url", "sitemap") and _child(element, "loc") is not None:
            yield _Entry("", _address(element, url), parse_date(_text(element, "lastmod")), "")


def _address(element: Any, url: str) -> str:
    from ipy_websearch.extract.clean import web_address

    for child in element:
        if _name(child) in ("link", "loc", "guid"):
            href = child.get("href") if child.get("rel", "alternate") == "alternate" else None
            address = web_address(href or "".join(child.itertext()).strip() or "#", url)
            if address and (href or (child.text or "").strip()):
                return address
    return ""


def _name(element: Any) -> str:
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def _child(element: Any, name: str) -> Any:
    return next((child for child in element if _name(child) == name), None)


def _text(element: Any, name: str) -> str:
    child = _child(element, name)
    return visible("".join(child.itertext())).strip() if child is not None else ""
