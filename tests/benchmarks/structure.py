"""Which headings, code blocks, table rows, nested list items and links of a page are there as such in its Markdown."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin

KINDS = ("headings", "code blocks", "table rows", "nested items", "links")
Counts = dict[str, tuple[int, int]]

_WORD = re.compile(r"\w+")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)")
_CHROME = ("script", "style", "nav", "footer", "aside", "noscript", "template")


def structure(body: bytes, url: str, reference: str, markdown: str) -> Counts:
    """Return (kept, there) for each kind; "there" is what is in the page's main part and, by its text, in `reference`."""
    from lxml import html

    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    root = html.document_fromstring(body.decode("utf-8", "replace").encode(), parser=parser)
    for element in list(root.iter(*_CHROME)):
        if element.getparent() is not None:
            element.drop_tree()
    mains = root.xpath('//main|//*[@role="main"]')
    scope = max(mains, key=lambda e: len(e.text_content())) if mains else root.find("body")
    text = f" {folded(reference)} "

    def content(words: str) -> bool:
        return bool(words) and f" {words} " in text

    got = _Found(markdown)
    return {
        "headings": _headings(scope, content, got),
        "code blocks": _code(scope, content, got),
        "table rows": _rows(scope, content, got),
        "nested items": _nested(scope, content, got),
        "links": _links(scope, content, got, url),
    }


def folded(text: str) -> str:
    """Return the words of `text` in lower case, one blank between them."""
    return " ".join(_WORD.findall(text.lower()))


class _Found:
    """The structure of a Markdown text."""

    def __init__(self, markdown: str) -> None:
        self.links = {(folded(_LINK.sub(r"\1", text)), address) for text, address in _LINK.findall(markdown)}
        plain = _LINK.sub(r"\1", markdown)
        self.code, lines = _split_code(plain)
        self.headings = {folded(m[1]) for line in lines if (m := re.match(r"[\s>*+-]*(?:\d+\. )?#{1,6} +(.*)", line))}
        self.rows = [folded(line) for line in lines if line.lstrip(" >-").startswith("|")]
        self.nested = [folded(m[1]) for line in lines if (m := re.match(r"(?:\s{2,}|[-*+] )(?:[-*+]|\d+[.)]) +(.*)", line))]


def _split_code(markdown: str) -> tuple[list[str], list[str]]:
    blocks: list[str] = []
    lines: list[str] = []
    fence = ""
    block: list[str] = []
    for line in markdown.split("\n"):
        bare = line.lstrip(" \t>-*+0123456789.")
        mark = re.match(r"`{3,}|~{3,}", bare)
        if fence and bare.rstrip() == fence:
            blocks.append(folded(" ".join(block)))
            fence = ""
        elif fence:
            block.append(line)
        elif mark:
            fence, block = mark[0], []
        else:
            lines.append(line)
    return blocks, lines


def _headings(scope: Any, content: Any, got: _Found) -> tuple[int, int]:
    there = [t for e in scope.iter(*_HEADINGS) if content(t := folded(e.text_content()))]
    return sum(t in got.headings for t in there), len(there)


def _code(scope: Any, content: Any, got: _Found) -> tuple[int, int]:
    texts = (folded(e.text_content()) for e in scope.iter("pre"))
    there = [t for t in texts if len(t) > 8 and content(" ".join(t.split()[:6]))]
    return sum(any(t[:80] in block or (block and block[:80] in t) for block in got.code) for t in there), len(there)


def _rows(scope: Any, content: Any, got: _Found) -> tuple[int, int]:
    there = []
    for row in scope.iter("tr"):
        cells = [t for cell in row if cell.tag in ("td", "th") and (t := folded(cell.text_content()))]
        if len(cells) > 1 and all(map(content, cells)) and next(row.iterdescendants("table"), None) is None:
            there.append(cells)
    return sum(any(all(cell in row for cell in cells) for row in got.rows) for cells in there), len(there)


def _nested(scope: Any, content: Any, got: _Found) -> tuple[int, int]:
    there = []
    for item in scope.iter("li"):
        parts = [item.text or ""]
        for child in item:
            parts += ["" if child.tag in ("ul", "ol") else child.text_content(), child.tail or ""]
        own = folded(" ".join(parts))
        anchor = next(item.iter("a"), None)
        contents = anchor is not None and (anchor.get("href") or "").startswith("#") and folded(anchor.text_content()) == own
        if next(item.iterancestors("li"), None) is not None and len(own) > 3 and content(own) and not contents:
            there.append(own)
    return sum(any(t[:60] in item or (len(item) > 8 and item in t) for item in got.nested) for t in there), len(there)


def _links(scope: Any, content: Any, got: _Found, url: str) -> tuple[int, int]:
    there = []
    for anchor in scope.iter("a"):
        text, href = folded(anchor.text_content()), anchor.get("href")
        block = next(anchor.iterancestors("p", "li", "td", "dd", "dt", "th", "blockquote"), None)
        around = folded(block.text_content()) if block is not None and href and text else ""
        if len(around) >= len(text) + 12 and content(around):
            try:
                address = urljoin(url, href.strip())
            except ValueError:
                continue
            if address.startswith("http"):
                there.append((text, address))
    return sum(pair in got.links for pair in there), len(there)
