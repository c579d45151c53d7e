"""The last resort: the words of a page, by a tag stripper that takes linear time whatever the page is."""

from __future__ import annotations

import html
import re

from ipy_websearch.extract.css import hiding
from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.scan import ATTRIBUTE, TAG
from ipy_websearch.extract.stylesheet import hidden_names
from ipy_websearch.text import visible

MAX_CHARACTERS = 5_300_000
MAX_LINKS = 5_000
_DROPPED = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "textarea", "select"})
_BLOCKS = frozenset(
    "address article aside blockquote br dd div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav"
    " ol option p pre section table tbody td th tr ul".split()
)
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_BULK = 0.1
_END = {name: re.compile(f"</{name}", re.IGNORECASE) for name in _DROPPED}
_STYLE = re.compile(r"<style\b[^>]{0,500}+>", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,200}+>([^<]{0,1000}+)", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s\"'<>`\\^{}|\[\]]{1,2000}")
_SPACE = re.compile(r"[ \t\r\f\v\u00a0]++")
_LINES = re.compile(r"\n\n++")


def plain_text(text: str, why: str) -> Extracted:
    """Return the page's words without any structure; `why` says what kept it from being read properly."""
    text = text[:MAX_CHARACTERS]
    title = _TITLE.search(text)
    shown, everything = _pieces(text)
    words = _words(shown)
    if len(words) < _BULK * sum(len(piece.strip()) for piece in everything):
        words = _words(everything)  # nearly all of it is hidden until a script shows it
    return Extracted(
        markdown=words + "\n" if words else "",
        title=" ".join(visible(html.unescape(title[1])).split()) if title else "",
        links=web_links(text),
        note=f"plain text only: {why}",
    )


def _words(pieces: list[str]) -> str:
    words = _SPACE.sub(" ", visible(html.unescape("".join(pieces)))).replace("\n ", "\n").replace(" \n", "\n")
    return _LINES.sub("\n\n", words).strip()


def web_links(text: str) -> tuple[str, ...]:
    """Return the http(s) addresses written in `text`, each once, in order, at most `MAX_LINKS`."""
    found: dict[str, None] = {}
    for match in _ADDRESS.finditer(text):
        address = match[0].rstrip(".,;:!?*_~)" if "(" not in match[0] else ".,;:!?*_~")
        found.setdefault(address.replace("&amp;", "&"))
        if len(found) >= MAX_LINKS:
            break
    return tuple(found)


def _pieces(text: str) -> tuple[list[str], list[str]]:
    """Return the text between the tags, a line end where a block begins or ends: what is shown of it, and all of it.

    Scripts and the like are in neither.
    """
    shown: list[str] = []
    everything: list[str] = []
    position = 0
    unclosed: set[str] = set()
    names = hidden_names(_styles(text))
    hidden, depth = "", 0  # the name of the hidden element that we are in, and how many of that name are open
    while (tag := TAG.search(text, position)) is not None:
        _add(text[position : tag.start()], shown, everything, bool(hidden))
        position = tag.end()
        name = (tag["open"] or tag["close"] or "").lower()
        if not name:
            end = text.find("-->", position)
            position = len(text) if end < 0 else end + 3
            continue
        position += text.startswith(">", position)
        if name in _BLOCKS:
            _add("\n", shown, everything, bool(hidden))
        if name == hidden:
            depth += 1 if tag["open"] else -1
            hidden = hidden if depth else ""
        elif tag["open"] and not hidden and name not in _VOID and _hides(tag["rest"], names):
            hidden, depth = name, 1
        if name in _DROPPED and tag["open"] and name not in unclosed:
            # Looked for once only: to look again behind each of many unclosed ones would take quadratic time.
            end_tag = _END[name].search(text, position)
            if end_tag is None:
                unclosed.add(name)
            position = end_tag.start() if end_tag else len(text) if name in ("script", "style") else position
    _add(text[position:], shown, everything, bool(hidden))
    return shown, everything


def _add(piece: str, shown: list[str], everything: list[str], hidden: bool) -> None:
    everything.append(piece)
    if not hidden:
        shown.append(piece)


def _styles(text: str) -> str:
    """Return what is in the page's `<style>` elements."""
    found: list[str] = []
    position = 0
    while (start := _STYLE.search(text, position)) is not None and (end := _END["style"].search(text, start.end())) is not None:
        found.append(text[start.end() : end.start()])
        position = end.end()
    return "\n".join(found)


def _hides(attributes: str, names: frozenset[str]) -> bool:
    if not names and "hidden" not in attributes and "style" not in attributes:
        return False
    for attribute in ATTRIBUTE.finditer(attributes):
        name, _, value = attribute[0].partition("=")
        name = name.strip().lower()
        if name == "hidden" or (name == "style" and hiding(value.strip().strip("\"'"))):
            return True
        signs = {"class": ".", "id": "#"}
        if name in signs and not names.isdisjoint(signs[name] + word for word in value.strip().strip("\"'").split()):
            return True
    return False
