"""The last resort: the words of a page, by a tag stripper that takes linear time whatever the page is."""

from __future__ import annotations

import html
import re

from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.scan import TAG
from ipy_websearch.text import visible

MAX_CHARACTERS = 5_300_000
MAX_LINKS = 5_000
_DROPPED = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "textarea", "select"})
_BLOCKS = frozenset(
    "address article aside blockquote br dd div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav"
    " ol option p pre section table tbody td th tr ul".split()
)
_END = {name: re.compile(f"</{name}", re.IGNORECASE) for name in _DROPPED}
_TITLE = re.compile(r"<title[^>]{0,200}+>([^<]{0,1000}+)", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s\"'<>`\\^{}|\[\]]{1,2000}")
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
        links=web_links(text),
        note=f"plain text only: {why}",
    )


def web_links(text: str) -> tuple[str, ...]:
    """Return the http(s) addresses written in `text`, each once, in order, at most `MAX_LINKS`."""
    found: dict[str, None] = {}
    for match in _ADDRESS.finditer(text):
        address = match[0].rstrip(".,;:!?*_~)" if "(" not in match[0] else ".,;:!?*_~")
        found.setdefault(address.replace("&amp;", "&"))
        if len(found) >= MAX_LINKS:
            break
    return tuple(found)


def _pieces(text: str) -> list[str]:
    """Return the text between the tags, line ends where blocks begin and end; what is in scripts and the like is left out."""
    pieces: list[str] = []
    position = 0
    unclosed: set[str] = set()
    while (tag := TAG.search(text, position)) is not None:
        pieces.append(text[position : tag.start()])
        position = tag.end()
        name = (tag["open"] or tag["close"] or "").lower()
        if not name:
            end = text.find("-->", position)
            position = len(text) if end < 0 else end + 3
            continue
        position += text.startswith(">", position)
        if name in _BLOCKS:
            pieces.append("\n")
        elif name in _DROPPED and tag["open"] and name not in unclosed:
            # Looked for once only: to look again behind each of many unclosed ones would take quadratic time.
            end_tag = _END[name].search(text, position)
            if end_tag is None:
                unclosed.add(name)
            position = end_tag.start() if end_tag else len(text) if name in ("script", "style") else position
    pieces.append(text[position:])
    return pieces
