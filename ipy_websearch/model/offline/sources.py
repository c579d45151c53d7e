"""Sources: the pages and hits in a request, whatever form the tool results have.

`search_result` blocks are taken as they are, with their index over the whole request, so that they can be cited. Plain text
is read as the lists that search tools print (numbered hits with an address each), as JSON with results, or as one page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NUMBERED = re.compile(r"^\s*(?:\[?\d{1,2}[\].):]|[-*•])\s+")
_ADDRESS = re.compile(r"https?://[^\s<>()\[\]\"']+[^\s<>()\[\]\"'.,;:]")
_BARE_ADDRESS = re.compile(rf"^\s*(?:[-*•]\s*)?(?:(?:url|link|source)\s*:\s*)?<?({_ADDRESS.pattern})>?\s*$", re.IGNORECASE)
_LINKED = re.compile(
    rf"^\s*(?:\[?\d{{1,2}}[\].):]|[-*•#]+)?\s*(?:\*\*)?\[([^\]]+)\]\(({_ADDRESS.pattern})\)(?:\*\*)?\s*[-–—:]?\s*(.*)$"
)
_LABEL = re.compile(r"^\s*(?:title|description|snippet|text|summary|content)\s*:\s*", re.IGNORECASE)
_TEXT_FIELDS = (
    "description",
    "snippet",
    "content",
    "text",
    "summary",
    "markdown",
    "extra_snippets",
    "highlights",
    "page_content",
)


@dataclass(frozen=True, slots=True)
class Source:
    """One page or hit. `blocks` are its paragraphs; `index` is its place among the request's search results, None when it
    cannot be cited (plain text, or citations switched off)."""

    title: str
    url: str
    blocks: tuple[str, ...]
    index: int | None = None


def from_block(block: Mapping[str, Any], index: int) -> Source:
    """Return the source that a `search_result` block holds."""
    citable = bool((block.get("citations") or {}).get("enabled"))
    texts = tuple(str(part.get("text") or "") for part in block.get("content") or [] if isinstance(part, Mapping))
    return Source(str(block.get("title") or ""), str(block.get("source") or ""), texts, index if citable else None)


def from_text(text: str, *, title: str = "", url: str = "") -> list[Source]:
    """Return the sources that a plain text result holds; one without an address when nothing in it looks like a list."""
    stripped = text.strip()
    if stripped[:1] in "{[":
        try:
            found = list(_from_json(json.loads(stripped), title, url))
        except (ValueError, RecursionError):
            found = []
        if found:
            return found
    return _from_lines(stripped.splitlines(), title, url)


def _from_json(value: Any, title: str, url: str) -> Iterator[Source]:
    if isinstance(value, list):
        for item in value[:50]:
            yield from _from_json(item, title, url)
    elif isinstance(value, Mapping):
        address = next((value[k] for k in ("url", "link", "source", "final_url") if isinstance(value.get(k), str)), "")
        texts = [text for name in _TEXT_FIELDS for text in _strings(value.get(name))]
        if texts:
            yield Source(str(value.get("title") or title), address or url, tuple(texts))
        for item in value.values():
            if isinstance(item, (list, Mapping)):
                yield from _from_json(item, title, url)


def _strings(value: Any) -> Sequence[str]:
    if isinstance(value, str):
        return [value] if value.strip() else []
    return [item for item in value if isinstance(item, str) and item.strip()] if isinstance(value, list) else []


def _from_lines(lines: Sequence[str], title: str, url: str) -> list[Source]:
    """Cut a printed list at its addresses: the line before an address is the title, what follows is the text."""
    found: list[tuple[str, str, list[str]]] = []
    preamble: list[str] = []
    for line in lines:
        into = found[-1][2] if found else preamble
        if address := _BARE_ADDRESS.match(line):
            heading = _LABEL.sub("", _NUMBERED.sub("", into.pop())).strip() if into and into[-1].strip() else ""
            found.append((heading.strip("*# "), address[1], []))
        elif linked := _LINKED.match(line):
            found.append((linked[1], linked[2], [linked[3]] if linked[3] else []))
        else:
            into.append(line)
    if len(found) == 1 and url and len(preamble) > 3:
        found = []  # a page that happens to have an address on a line of its own
    if not found:
        text = "\n".join(lines).strip()
        return [Source(title or _first_heading(lines), url, _paragraphs(text))] if text else []
    return [Source(t or title, u, _paragraphs("\n".join(_LABEL.sub("", line) for line in body))) for t, u, body in found]


def _first_heading(lines: Sequence[str]) -> str:
    return next((line.lstrip("# ").strip() for line in lines if line.startswith("# ")), "")


def _paragraphs(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in re.split(r"\n\s*\n", text) if part.strip())
