"""The kept part of a page as Markdown, by markdownify: CommonMark with GitHub's tables.

`plain_formulas` and `plain_code` put formulas and code into a form that everything after them understands; `markdown` renders.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import Any

import markdownify
from lxml import etree

from ipy_websearch.extract.formats import fenced

_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language-|lang-|highlight-source-|highlight-text-|highlight-|brush:\s*|sourceCode\s+|hljs\s+|src-)"
    r"(?:language-|source-|text-)?([A-Za-z][\w+#.-]{0,30})"
)
_NO_LANGUAGE = frozenset(
    "default none text plain plaintext highlight notranslate source hljs copyable wrap wrapper nohighlight unknown code block"
    " sourcecode".split()
)
_LINE_NUMBERS = frozenset(
    "linenos lineno linenodiv linenumber line-number line-numbers gutter blob-num ln-num hljs-ln-numbers"
    " react-code-line-number".split()
)
_TEX = etree.XPath("string(.//annotation[@encoding='application/x-tex'])")
_SHOWN_FORMULAS = etree.XPath(".//span[@class='katex-html']")  # KaTeX's second form of a formula
_LINES = ("br", "div", "li", "p", "tr")
_NOT_IN_DATA = ("table", "blockquote", "h1", "h2", "h3", "h4", "form")
_TABLE_PARTS = ("table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption")
_CELL_CHARACTERS = 800
_MAX_SPAN = 50
_HEAD = "data-ipy-websearch-head"
_STRUCTURE = re.compile(r"(?<=!)\[|(?<=\])[(\[]|<(?=[A-Za-z/!?])")
_BALANCED = re.compile(r"[^()]*+(?:\([^()]*+\)[^()]*+)*+")
_SUPERSCRIPT = str.maketrans("0123456789+-=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ")
_SUBSCRIPT = str.maketrans("0123456789+-=()", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎")


def plain_formulas(body: Any) -> None:
    """Replace formulas by the TeX source that MathML carries, as `$…$`."""
    for formula in list(body.iter("math")):
        source = " ".join(_TEX(formula).split()) or formula.get("alttext")
        if source:
            holder = formula.getparent()
            if holder.tag == "span" and holder.text_content().strip() == formula.text_content().strip():
                formula = holder  # Wikipedia hides it and shows an image of the formula
            formula.tail = f"${source}$" + (formula.tail or "")
            formula.drop_tree()
    for twin in _SHOWN_FORMULAS(body):
        twin.drop_tree()


def plain_code(body: Any) -> None:
    """Reduce each code block to `<pre class="language-x">` with its text; line numbers go, line breaks stay."""
    for element in list(body.iter("td", "span", "div", "pre", "a")):
        numbered = not _LINE_NUMBERS.isdisjoint((element.get("class") or "").lower().split())
        if numbered and not "".join(element.itertext()).strip("0123456789 \t\n\r.:|"):
            element.drop_tree()
    for pre in list(body.iter("pre")):
        language = _language(pre)
        for line in pre.iter(*_LINES):
            is_ended = "".join(line.itertext()).endswith("\n") or (line.tag != "br" and (line.tail or "").startswith("\n"))
            line.tail = ("" if is_ended else "\n") + (line.tail or "")
        text = "".join(pre.itertext()).strip("\n")
        pre.clear(keep_tail=True)
        pre.text = text
        pre.set("class", f"language-{language}")


def _language(pre: Any) -> str:
    """Return the language that a code block, its `<code>` or one of its next two wrappers names, "" when none does."""
    for element in (*pre.iter("code"), pre, *islice(pre.iterancestors("div", "figure", "span"), 2)):
        said = [f"lang-{element.get(name, '')}" for name in ("data-lang", "data-language")]
        for name in _LANGUAGE.findall(" ".join((*said, element.get("class", "")))):
            if name.lower() not in _NO_LANGUAGE:
                return str(name).lower()
    return ""


def markdown(body: Any) -> str:
    """Return `body` as Markdown."""
    for table in reversed(list(body.iter("table"))):
        _complete(table) if _holds_data(table) else _unwrap(table)
    for quote in body.iter("blockquote"):
        if [child.tag for child in quote] in (["div"], ["ul"], ["ol"]) and not (quote.text or "").strip():
            quote.tag = "div"  # docutils indents lists with it
    for inner in list(body.iter("ul", "ol")):
        parent, before = inner.getparent(), inner.getprevious()
        if parent is not None and parent.tag in ("ul", "ol") and before is not None and before.tag == "li":
            before.append(inner)  # a list right in a list belongs to the item before it, as browsers show it
    for numbered in body.iter("ol"):
        for number, item in enumerate(numbered.iterchildren("li"), _number(numbered, "start")):
            item.set("value", str(number))
    return str(_CONVERTER.convert(etree.tostring(body, encoding="unicode", method="html")))


def _rows(table: Any) -> list[list[Any]]:
    """Return the cells of a table's own rows, those of tables within it left out."""
    rows = (row for row in table.iter("tr") if next(row.iterancestors("table")) is table)
    return [[cell for cell in row if cell.tag in ("td", "th")] for row in rows]


def _holds_data(table: Any) -> bool:
    """Return whether a table holds rows and columns; a table that merely lays out the page does not."""
    if table.get("role") in ("presentation", "none") or next(table.iterdescendants(*_NOT_IN_DATA), None) is not None:
        return False
    if any("\n" in (pre.text or "").strip() for pre in table.iter("pre")):
        return False
    rows = _rows(table)
    limit = _CELL_CHARACTERS * (5 if next(table.iter("th"), None) is not None else 1)
    return any(len(row) > 1 for row in rows) and all(sum(map(len, cell.itertext())) <= limit for row in rows for cell in row)


def _unwrap(table: Any) -> None:
    for part in table.iter(*_TABLE_PARTS):
        part.tag = "div"


def _complete(table: Any) -> None:
    """Make the first row the head, and put an empty cell wherever one from a row above reaches down.

    So each value stays in its column.
    """
    rows = [cells for cells in _rows(table) if cells]
    rows[0][0].getparent().set(_HEAD, "")
    free_from: Counter[int] = Counter()  # column → the first row that no cell from above reaches
    for number, cells in enumerate(rows):
        column = 0
        for cell in cells:
            while free_from[column] > number:
                cell.addprevious(etree.Element("td"))
                column += 1
            for _ in range(_span(cell, "colspan")):
                free_from[column] = number + _span(cell, "rowspan")
                column += 1


def _span(cell: Any, name: str) -> int:
    return min(_MAX_SPAN, max(1, _number(cell, name)))


def _number(element: Any, name: str) -> int:
    """Return the number that an attribute gives, 1 when it gives none."""
    value = (element.get(name) or "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 6 else 1


class _Converter(markdownify.MarkdownConverter):
    """Text that cannot turn into markup, links around blocks, fenced code with its language, definition lists."""

    def escape(self, text: str, parent_tags: Any) -> str:
        """Return text of the page so that Markdown reads no link, image or HTML into it."""
        return _STRUCTURE.sub(lambda match: "\\" + match[0], text)

    def convert_a(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return a link; of a link around a heading and more, the first line is the link."""
        href, bare = el.get("href"), " ".join(text.split())
        if not href or not bare or "](" in bare or "_noformat" in parent_tags:
            return text
        href = href if _BALANCED.fullmatch(href) else href.replace("(", "%28").replace(")", "%29")
        if "\n" in text.strip():
            first, _, rest = text.strip().partition("\n")
            marks, _, title = first.rpartition("# ")
            return f"\n\n{marks}{'# ' if marks else ''}[{title}]({href})\n{rest}\n\n"
        if bare.count("[") != bare.count("]"):
            bare = re.sub(r"(?<!\\)([\[\]])", r"\\\1", bare)
        return f"{' ' * text[:1].isspace()}[{bare}]({href}){' ' * text[-1:].isspace()}"

    def convert_pre(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return a fenced block; the fence is longer than any in the code."""
        text = el.get_text()
        return f"\n\n{fenced(text, ''.join(el.get('class') or []).removeprefix('language-'))}\n\n" if text.strip() else ""

    def convert_dd(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return the meaning of the term before it; a long one is not indented, so that its blocks stay what they are."""
        text = text.strip()
        return f"\n{text}\n\n" if "\n" in text else f": {text}\n" if text else ""

    def convert_li(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return an item, its further lines indented; markdownify counts those before it each time, which is quadratic."""
        bullet = f"{el.get('value', '1')}. " if el.parent.name == "ol" else "- "
        lines = text.strip().split("\n")
        more = "".join(f"\n{' ' * len(bullet) * bool(line)}{line}" for line in lines[1:])
        return f"{bullet}{lines[0]}{more}\n" if lines[0] else "\n"

    def convert_tr(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return a row, under the head the line that makes a table of it."""
        line = " --- |" * sum(_span(cell, "colspan") for cell in el.children if cell.name) if _HEAD in el.attrs else ""
        return "".join(f"|{part}\n" for part in (text, line) if part)

    def convert_td(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return a cell; `tr` adds the line's first bar."""
        return f" {' '.join(text.split()).replace('|', chr(92) + '|')} |" + " |" * (_span(el, "colspan") - 1)

    convert_th = convert_td

    def convert_sup(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return raised or lowered digits, so that 10 to the power of 6 does not become 106."""
        digits = _SUPERSCRIPT if el.name == "sup" else _SUBSCRIPT
        return text.translate(digits) if all(ord(c) in digits for c in text) else text

    convert_sub = convert_sup


_OPTIONS: Any = {"bs4_options": {"features": "lxml"}, "heading_style": "ATX", "bullets": "-", "autolinks": False}
_CONVERTER = _Converter(**_OPTIONS)
