"""The last resort: the words of a page, by a tag stripper that takes linear time whatever the page is."""

from __future__ import annotations

import html
import re

from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.text import visible

MAX_CHARACTERS = 5_300_000
_DROPPED = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "textarea", "select"})
_BLOCKS = frozenset(
    "address article aside blockquote br dd div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav"
    " ol option p pre section table tbody td th tr ul".split()
)
_TAG = re.compile(r"<(?:(/?)([a-zA-Z][a-zA-Z0-9:-]*+)(?:[^>\"']++|\"[^\"<]*+\"?+|'[^'<]*+'?+)*+>?+|!--|[!?][^>]*+>?+)")
_TITLE = re.compile(r"<title[^>]{0,200}+>([^<]{0,1000}+)", re.IGNORECASE)
_SPACE = re.compile(r"[ \t\r\f\v\u00a0]++")
_LINES = re.compile(r"\n[ \n]*+\n")


def plain_text(text: str, why: str) -> Extracted:
    """Return the page's words without any structure; `why` says what kept it from being read properly."""
    text = text[:MAX_CHARACTERS]
    title = _TITLE.search(text)
    words = html.unescape("".join(_pieces(text)))
    words = _SPACE.sub(" ", visible(words)).replace("\n ", "\n").replace(" \n", "\n")
    words = _LINES.sub("\n\n", words).strip()
    return Extracted(
        markdown=words + "\n" if words else "",
        title=" ".join(visible(html.unescape(title[1])).split()) if title else "",
        note=f"plain text only: {why}",
    )


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    position = 0
    while (tag := _TAG.search(text, position)) is not None:
        pieces.append(text[position : tag.start()])
        position = tag.end()
        name = (tag[2] or "").lower()
        if tag[0] == "<!--":
            end = text.find("-->", position)
            position = len(text) if end < 0 else end + 3
        elif name in _DROPPED and not tag[1]:
            position = _after(text, name, position)
        elif name in _BLOCKS:
            pieces.append("\n")
    pieces.append(text[position:])
    return pieces


def _after(text: str, name: str, position: int) -> int:
    start = position
    while (at := text.find("</", position)) >= 0:
        if text[at + 2 : at + 2 + len(name)].lower() == name:
            return at
        position = at + 2
    # An element that is never closed would swallow the page (and looking for its end again and again would take
    # quadratic time): scripts and styles do swallow it in a browser too, the others do not.
    return len(text) if name in ("script", "style", "textarea") else start
