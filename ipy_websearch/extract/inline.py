"""The inside of a line as Markdown: links, emphasis, code, and text that must not turn into any of them.

Text of the page is escaped where Markdown would otherwise read structure into it: above all, no text may become a link or
an image, and no text may become HTML.
"""

from __future__ import annotations

import re
from typing import Any

from ipy_websearch.extract.tree import INLINE

_SPACE = re.compile(r"[ \t\n\r\f\v\u00a0]+")
_STRUCTURE = re.compile(r"(?<=!)\[|(?<=\])[(\[]|<(?=[A-Za-z/!?])")
_LINE_START = re.compile(
    r"^(#{1,6}(?= |$)|[-+](?= )|[-=_*]{3,}$|>|`{3,}|~{3,}|\[(?=[^\]\n]*\]\\?:)|\|)|^(\d{1,9})([.)])(?= |$)", re.MULTILINE
)
_STRONG, _EMPHASIS = frozenset({"b", "strong"}), frozenset({"i", "em", "cite", "var", "dfn"})
_CODE, _DELETED = frozenset({"code", "kbd", "samp", "tt"}), frozenset({"del", "s", "strike"})
_SUPERSCRIPT = str.maketrans("0123456789+-=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ")
_SUBSCRIPT = str.maketrans("0123456789+-=()", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎")
BREAK = "  \n"


class Inline:
    """Renders inline content. `plain` drops emphasis, as headings and table heads want it."""

    def __init__(self, blocks_inside: set[Any], *, plain: bool = False) -> None:
        self._blocks_inside = blocks_inside
        self._plain = plain

    def content(self, element: Any) -> str:
        """Return the Markdown of all that is in `element`, white space folded, not stripped."""
        parts = [escape(element.text)] if element.text else []
        for child in element:
            parts.append(self.element(child))
            if child.tail:
                parts.append(escape(child.tail))
        return "".join(parts)

    def element(self, element: Any) -> str:
        """Return the Markdown of one inline element, without the text behind it."""
        tag = element.tag
        if tag == "br":
            return BREAK
        if tag == "img":
            return escape(element.get("alt") or "")
        if tag == "a":
            return link(self.content(element), element.get("href"))
        if tag in _CODE:
            return self._code(element)
        text = self.content(element)
        if tag not in INLINE:
            return f" {text} "  # a block where only a line can stand: in a heading or a table cell
        if self._plain:
            return _script(tag, text)
        if tag in _STRONG:
            return wrapped(text, "**")
        if tag in _EMPHASIS:
            return wrapped(text, "*")
        if tag in _DELETED:
            return wrapped(text, "~~")
        return f"“{text.strip()}”" if tag == "q" else _script(tag, text)

    def _code(self, element: Any) -> str:
        text = _SPACE.sub(" ", "".join(element.itertext()))
        anchors = [a for a in element.iter("a") if a.get("href")]
        code = code_span(text)
        if len(anchors) == 1 and "".join(anchors[0].itertext()).strip() == text.strip():
            return link(code, anchors[0].get("href"))
        return code


def escape(text: str) -> str:
    """Return text of the page so that Markdown reads no link, image or HTML into it; white space is folded."""
    return _STRUCTURE.sub(lambda m: "\\" + m[0], _SPACE.sub(" ", text))


def escape_line_starts(text: str) -> str:
    """Return a paragraph so that none of its lines begins a heading, list, quotation, rule, table or code block."""
    return _LINE_START.sub(lambda m: "\\" + m[1] if m[1] else f"{m[2]}\\{m[3]}", text)


def tidy(text: str) -> str:
    """Return inline Markdown as one paragraph: lines stripped, single blanks, no empty lines."""
    text = text.replace("****", "").replace("~~~~", "")
    lines = (_SPACE.sub(" ", line).strip() for line in text.split(BREAK))
    return BREAK.join(line for line in lines if line)


def wrapped(text: str, mark: str) -> str:
    """Return `text` between marks, white space moved outside them; what is empty or marked already stays as it is."""
    bare = text.strip()
    if not bare or BREAK in bare or (bare.startswith(mark) and bare.endswith(mark)):
        return text
    start = text.index(bare)
    return f"{text[:start]}{mark}{bare}{mark}{text[start + len(bare) :]}"


def code_span(text: str) -> str:
    """Return `text` as inline code, within as many backticks as it takes."""
    bare = text.strip()
    if not bare:
        return text
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", bare)), default=0) + 1)
    pad = " " if bare.startswith("`") or bare.endswith("`") else ""
    start = text.index(bare)
    return f"{text[:start]}{ticks}{pad}{bare}{pad}{ticks}{text[start + len(bare) :]}"


def link(text: str, address: str | None) -> str:
    """Return a link on `text`; without an address or without text there is none."""
    bare = " ".join(text.split())
    if not address or not bare or "](" in bare:
        return text
    if bare.count("[") != bare.count("]"):
        bare = re.sub(r"(?<!\\)([\[\]])", r"\\\1", bare)
    lead, trail = " " * text[:1].isspace(), " " * text[-1:].isspace()
    return f"{lead}[{bare}]({_target(address)}){trail}"


def _target(address: str) -> str:
    address = address.replace("<", "%3C").replace(">", "%3E").replace(" ", "%20").replace("\\", "%5C")
    depth = 0
    for character in address:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
    return address if depth == 0 else address.replace("(", "%28").replace(")", "%29")


def _script(tag: Any, text: str) -> str:
    table = {"sup": _SUPERSCRIPT, "sub": _SUBSCRIPT}.get(tag)
    bare = text.strip()
    if table is None or not bare or not all(ord(c) in table for c in bare):
        return text
    return bare.translate(table)
