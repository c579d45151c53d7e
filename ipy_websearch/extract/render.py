"""The kept part of a page as Markdown: CommonMark with GitHub's tables, images as their texts, nothing else.

What comes in is clean (see `clean`); what goes out is the page's text and structure. A definition list becomes a list with
its terms in bold, since Markdown has none; a link around a whole card becomes a link on the card's first line.
"""

from __future__ import annotations

import re
from typing import Any

from ipy_websearch.extract.inline import Inline, escape, escape_line_starts, link, tidy, wrapped
from ipy_websearch.extract.table import data_table, is_data
from ipy_websearch.extract.tree import HEADINGS, INLINE

_LEVEL = {tag: level for level, tag in enumerate(HEADINGS, 1)}
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_ITEM = re.compile(r"- |\d+\. ")
_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})", re.MULTILINE)


def markdown(body: Any) -> str:
    """Return `body` as Markdown that ends in a line feed, "" when nothing is in it."""
    inside: set[Any] = set()
    for element in reversed(list(body.iter())):
        if element.tag not in INLINE or element in inside:
            inside.add(element.getparent())
    text = "\n\n".join(_Blocks(inside).of(body)).strip("\n")
    return text + "\n" if text.strip() else ""


class _Blocks:
    """Renders block content; `inside` holds the elements that have blocks in them."""

    def __init__(self, inside: set[Any]) -> None:
        self._inside = inside
        self._inline = Inline(inside)
        self._heading = Inline(inside, plain=True)

    def of(self, element: Any) -> list[str]:
        """Return the blocks in `element`, in order, none empty."""
        blocks: list[str] = []
        line = [escape(element.text)] if element.text else []
        for child in element:
            if child.tag in INLINE and child not in self._inside:
                line.append(self._inline.element(child))
            else:
                self._end_line(line, blocks)
                blocks += self._block(child)
            if child.tail:
                line.append(escape(child.tail))
        self._end_line(line, blocks)
        return blocks

    @staticmethod
    def _end_line(line: list[str], blocks: list[str]) -> None:
        text = tidy("".join(line))
        line.clear()
        if text:
            blocks.append(escape_line_starts(text))

    def _block(self, element: Any) -> list[str]:
        tag = element.tag
        if tag in _LEVEL:
            text = tidy(self._heading.content(element)).replace("  \n", " ")
            return [f"{'#' * _LEVEL[tag]} {text}"] if text else []
        if tag in _LISTS:
            return self._list(element)
        if tag == "pre":
            return _code_block(element)
        if tag == "table":
            return data_table(element, self._inside) if is_data(element) else self.of(element)
        if tag == "dl":
            return self._definitions(element)
        if tag == "blockquote":
            return self._quotation(element)
        if tag == "a":
            return self._card(element)
        if tag == "hr":
            return ["---"]
        if tag in ("summary", "caption", "legend"):
            return [wrapped(b, "**") if "\n" not in b and b[:1] not in "#-|>`[1" else b for b in self.of(element)]
        return self.of(element)

    def _list(self, element: Any) -> list[str]:
        ordered = element.tag == "ol"
        number = _number(element.get("start"), 1)
        items: list[str] = []
        for child in element:
            if child.tag in _LISTS and items:  # a list right in a list belongs to the item before it
                items[-1] += "\n" + _indented("\n\n".join(self._block(child)), "  ", first="  ")
                continue
            blocks = self.of(child) if child.tag == "li" else self._block(child)
            if not blocks:
                continue
            if ordered:
                number = _number(child.get("value"), number)
            mark = f"{number}. " if ordered else "- "
            items.append(_indented(_joined(blocks), " " * len(mark), first=mark))
            number += 1
        return ["\n".join(items)] if items else []

    def _definitions(self, element: Any) -> list[str]:
        items: list[str] = []
        for child in element.iter("dt", "dd"):
            if next(child.iterancestors("dl")) is not element:
                continue
            blocks = self.of(child)
            if not blocks:
                continue
            if child.tag == "dt":
                term = " ".join(blocks[0].split("\n"))
                items.append("- " + (term if "`" in term or "*" in term else wrapped(term, "**")))
            elif not items:
                items.append(_indented(_joined(blocks), "  ", first="- "))
            elif len(blocks) == 1 and "\n" not in items[-1] and "\n" not in blocks[0] and ": " not in items[-1][-2:]:
                items[-1] += f": {blocks[0]}" if items[-1].count(": ") == 0 else f"; {blocks[0]}"
            else:
                items[-1] += "\n\n" + _indented("\n\n".join(blocks), "  ", first="  ")
        return ["\n".join(items)] if items else []

    def _quotation(self, element: Any) -> list[str]:
        blocks = self.of(element)
        parts = [c for c in element.iter() if c.tag in ("p", *_LISTS)]
        # docutils indents with it: what is one in a list's item, or holds nothing but a list, is no quotation
        if element.getparent().tag in ("dd", "li") and [c.tag for c in element] == ["div"]:
            return blocks
        if parts and parts[0].tag in _LISTS and not (element.text or "").strip() and all(b[:1] in "-*1" for b in blocks):
            return blocks
        return [_indented("\n\n".join(blocks), "> ", first="> ")] if blocks else []

    def _card(self, element: Any) -> list[str]:
        blocks = self.of(element)
        address = element.get("href")
        for number, block in enumerate(blocks):
            mark, _, text = block.partition(" ") if block.startswith("#") else ("", "", block)
            if "\n" not in block and "](" not in block and text[:1] not in "-|>`":
                blocks[number] = f"{mark} {link(text, address)}".lstrip()
                break
        return blocks


def _joined(blocks: list[str]) -> str:
    """Return the blocks of a list item: a list right behind the item's line needs no empty line."""
    text = blocks[0]
    for before, block in zip(blocks, blocks[1:], strict=False):
        tight = "\n" not in before and _ITEM.match(block) is not None
        text += ("\n" if tight else "\n\n") + block
    return text


def _indented(text: str, indent: str, *, first: str) -> str:
    lines = text.split("\n")
    return "\n".join([first + lines[0], *((indent + line).rstrip() if not line else indent + line for line in lines[1:])])


def _number(value: str | None, default: int) -> int:
    value = (value or "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 9 else default


def _code_block(element: Any) -> list[str]:
    text = "".join(element.itertext()).strip("\n")
    if not text.strip():
        return []
    code = element.find("code")
    language = (code.get("class") or "").removeprefix("language-") if code is not None else ""
    longest = max((len(m[1]) for m in _FENCE.finditer(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}\n{text}\n{fence}"]
