"""Which text of a page is its content: everything else is taken out of the tree.

A page is read as a sequence of runs, texts that no block boundary breaks: a paragraph, a heading, a table cell, a list item's
own line. trafilatura judges first, on a copy in which every run is marked. It is right about articles and too strict about
documentation, lists, products and threads, where it drops headings, items, code and whole sections. So its choice shows where
the content is: the smallest block that holds nearly all of it, or `<main>`. Runs in that area that nothing speaks against are
kept as well. The rules were measured on the development part of WCXB and checked on its test part and on
article-extraction-benchmark; see tests/benchmarks/RESULTS.md.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lxml.etree import iterwalk

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Elements that stand within a line of text; every other one, unknown ones included, begins and ends a block.
INLINE = frozenset(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark q ruby rb rt rp s samp small"
    " span strike strong sub sup time tt u var wbr picture source output meter nobr math mi mo mn mrow".split()
)

# What the names of elements, their roles, ids and classes say about the text in them.
_NAVIGATION, _BOILERPLATE, _DOUBTFUL, _COMMENTS, _PAGE_MENU = 1, 2, 4, 8, 16
_NAVIGATION_TAGS = frozenset({"nav", "footer", "aside", "menu"})
_NAVIGATION_ROLES = frozenset(
    {"navigation", "contentinfo", "complementary", "banner", "search", "dialog", "alertdialog", "menu", "menubar", "toolbar"}
)
_PARTS = frozenset({"main", "article", "section"})
# The words were chosen by the share of content in the text under them on the development part of WCXB: below 10 % for
# the first set (so that even trafilatura's choice is overruled), below 25 % for the second.
_HINTS = {
    _BOILERPLATE: "consent cookie cookies sponsor sponsored sponsors advert adverts advertisement advertising outbrain taboola"
    " upsell disqus copyright recommend recommended recommendation recommendations newsletter newsletters signup login"
    " feedback share sharing footer signature print trending byline toolbar social socials navigation navbar topbar pager"
    " breadcrumb breadcrumbs sort notice avatar legal disclaimer",
    _DOUBTFUL: "related menu megamenu popular popup dropdown modal overlay nav sidebar author bio carousel button date cta meta"
    " filter filters rating price pagination paginator subscribe subscription tags respond like likes",
    _COMMENTS: "comment comments reply replies respond review reviews",
}
_HINT_WORDS = {flag: frozenset(words.split()) for flag, words in _HINTS.items()}
_ADMONITIONS = frozenset("note tip warning caution danger callout admonition important hint".split())
_WORD = re.compile(r"[a-z]+")
# Utility classes such as Tailwind's "print:mt-3" and "[&>li]:flex" name conditions, not what an element is.
_UTILITY = re.compile(r"\S*[:\[]\S*")

# One character of CJK Extension B marks each run: letters that no page is written in, but letters, so that trafilatura
# keeps them, counts them as one character of text and hands them back with the text it selects.
_FIRST_MARK, _MARKS = 0x20000, 42_000
_MARK = re.compile(f"[{chr(_FIRST_MARK)}-{chr(_FIRST_MARK + _MARKS - 1)}]")
# trafilatura's time grows faster than the page (5 MB take 24 s, measured November 2026): these are judged without it.
_HEAVY_RUNS, _HEAVY_CHARACTERS = 10_000, 2_000_000
_BOILERPLATE_SHARE = 0.3  # of the page's text: what holds more is not boilerplate, whatever it is called
_SMALL_BLOCK = 200  # characters; a cookie bar below that can be much of a short page
_AREA_SHARE = 0.9
_SMALL_PAGE = 1_500  # characters; below it, what lies outside the area is too little to be told from content
_PROSE_CHARACTERS = 80  # a run of that length that is not mostly links is a paragraph
_PROSE_LINKED = 0.4
_MOSTLY_LINKED = 0.6
# trafilatura's choice is weak when it is this short or holds this little prose, and one of several like parts below the
# third; it is an article, whatever the page says, when it is that long and nearly all prose.
_WEAK_CHARACTERS, _WEAK_PROSE = 500, 0.3
_PART_CHARACTERS = 5_000
_ARTICLE_CHARACTERS, _ARTICLE_PROSE = 1_500, 0.85
_FORUM_KINDS = frozenset({"discussionforumposting", "qapage"})
_ARTICLE_KINDS = frozenset({"article", "newsarticle", "blogposting", "techarticle", "report"})
_SEMANTIC = frozenset("p li h1 h2 h3 h4 h5 h6 pre blockquote td th dt dd code".split())
_BREAKS = frozenset({"br", "hr", "td", "th"})


@dataclass(slots=True, eq=False)
class _Block:
    """A block element; those from `number` to `end` stand in it. `size` counts its text."""

    element: Any
    number: int
    parent: Any  # a block; the body's stands for nothing
    flags: int = 0
    end: int = 0
    size: int = 0


@dataclass(slots=True, eq=False)
class _Run:
    """One run: its block, its text nodes as (element, "text" or "tail"), and the share of it that is link text."""

    block: _Block
    nodes: list[tuple[Any, str]]
    text: str
    linked: float
    keep: bool = False

    @property
    def is_prose(self) -> bool:
        return len(self.text) >= _PROSE_CHARACTERS and self.linked < _PROSE_LINKED


def _size(runs: Iterable[_Run]) -> int:
    """Return the characters of those runs that are kept."""
    return sum(len(run.text) for run in runs if run.keep)


class _Content:
    """The runs of a body in document order and the blocks they are in; a block's parent always comes before it."""

    def __init__(self, body: Any) -> None:
        self.body = body
        self.blocks: list[_Block] = []
        self.runs: list[_Run] = []
        self._walk()
        limit = max(_BOILERPLATE_SHARE * self.blocks[0].size, _SMALL_BLOCK)
        for block in self.blocks[1:]:
            excused = _BOILERPLATE | _DOUBTFUL if block.size >= limit else 0
            block.flags = _hints(block.element) & ~excused | block.parent.flags

    def _walk(self) -> None:
        """Find blocks and runs."""
        open_blocks = [_Block(None, -1, None)]
        links = linked = 0
        nodes: list[tuple[Any, str]] = []
        for event, element in iterwalk(self.body, events=("start", "end")):
            starts = event == "start"
            if element.tag not in INLINE:
                self._take(open_blocks[-1], nodes, linked)
                nodes, linked = [], 0
                if starts:
                    self.blocks.append(_Block(element, len(self.blocks), open_blocks[-1]))
                    open_blocks.append(self.blocks[-1])
                else:
                    block = open_blocks.pop()
                    block.end = len(self.blocks)
                    block.parent.size += block.size
            elif element.tag == "a" and element.get("href"):
                links += 1 if starts else -1
            where = "text" if starts else "tail"
            if text := getattr(element, where):
                nodes.append((element, where))
                linked += len(text.strip()) if links else 0

    def _take(self, block: _Block, nodes: list[tuple[Any, str]], linked: int) -> None:
        text = " ".join("".join(getattr(*node) for node in nodes).split())
        if text:
            self.runs.append(_Run(block, nodes, text, min(1.0, linked / len(text))))
            block.size += len(text)

    def inside(self, area: _Block) -> list[_Run]:
        """Return the runs in a block."""
        return [run for run in self.runs if area.number <= run.block.number < area.end]

    def main(self) -> _Block | None:
        """Return the largest block marked as the main one, None when no such block holds text."""
        marked = [b for b in self.blocks if (b.element.tag == "main" or b.element.get("role") == "main") and b.size > 200]
        return max(marked, key=lambda block: block.size, default=None)

    def smallest_area(self) -> _Block:
        """Return the smallest block that holds nearly all the kept text."""
        area = self.blocks[0]
        needed = max(1.0, _AREA_SHARE * _size(self.runs))
        for block in self.blocks:
            if block.parent is area and block.size >= needed and _size(self.inside(block)) >= needed:
                area = block
        return area

    def drop_unkept(self) -> None:
        """Take out of the tree everything but the kept runs and the elements around them."""
        needed = {self.body}
        for run in self.runs:
            for element, where in run.nodes:
                if not run.keep:
                    setattr(element, where, None)
                holder = element if where == "text" else element.getparent()
                while run.keep and holder not in needed:
                    needed.add(holder)
                    holder = holder.getparent()
        for element in reversed(list(self.body.iterdescendants())):
            if element not in needed and not (element.tag in _BREAKS and element.getparent() in needed):
                element.drop_tree()


def keep_content(root: Any, *, url: str, kinds: frozenset[str]) -> None:
    """Reduce the body of `root` to its content; a page without any that can be told stays as it is.

    `kinds` are the types that the page claims in its metadata, in lower case.
    """
    content = _Content(root.find("body"))
    main = content.main()
    is_heavy = len(content.runs) > _HEAVY_RUNS or content.blocks[0].size > _HEAVY_CHARACTERS
    if is_heavy or kinds & _FORUM_KINDS:
        _keep_area(content, main or content.blocks[0], _NAVIGATION | _PAGE_MENU | _BOILERPLATE | _DOUBTFUL)
    else:
        _judge(root, content.runs, url)
        _correct(content, main, kinds)
    if any(run.keep for run in content.runs):
        content.drop_unkept()


def _correct(content: _Content, main: _Block | None, kinds: frozenset[str]) -> None:
    """Mend trafilatura's choice: less of boilerplate, more of the area that it found."""
    area = content.smallest_area()
    kept = [run for run in content.runs if run.keep]
    size = _size(kept)
    prose = _size(run for run in kept if run.is_prose) / max(1, size)
    if size < _PART_CHARACTERS and _is_one_of_several(content, main):
        area = main or content.smallest_area()
    for run in kept:
        flags = run.block.flags  # a menu, a banner or the like is none, whatever trafilatura says
        run.keep = not (flags & (_BOILERPLATE | _PAGE_MENU) or (flags & _DOUBTFUL and run.linked > _MOSTLY_LINKED))
    barred = _NAVIGATION | _PAGE_MENU | _BOILERPLATE | _DOUBTFUL | _COMMENTS
    if size < _WEAK_CHARACTERS or prose < _WEAK_PROSE:
        whole = area if content.blocks[0].size > _SMALL_PAGE else content.blocks[0]
        _keep_area(content, main or whole, barred)
    else:
        article = bool(kinds & _ARTICLE_KINDS) or (size > _ARTICLE_CHARACTERS and prose > _ARTICLE_PROSE)
        _keep_area(content, area, barred, strict=article)
        if article:
            _drop_last_headings(content)


def _is_one_of_several(content: _Content, main: _Block | None) -> bool:
    """Return whether trafilatura took less than half of the prose in the main part; without one, keep that prose.

    It then took one of several like parts: a page builder's columns, an article cut in two by an advertisement.
    """
    prose = [run for run in content.inside(main or content.blocks[0]) if run.is_prose and not run.block.flags]
    if 2 * _size(prose) >= sum(len(run.text) for run in prose):
        return False
    for run in prose if main is None else ():
        run.keep = True
    return True


def _keep_area(content: _Content, area: _Block, barred: int, *, strict: bool = False) -> None:
    """Keep also the runs in block `area` that no flag in `barred` speaks against; `strict` takes marked-up text alone."""
    for run in content.inside(area):
        tag = run.block.element.tag
        if not run.keep and not run.block.flags & barred:
            is_text = tag in _SEMANTIC and (run.linked < _MOSTLY_LINKED or _is_in_outline(run.block.element))
            run.keep = not strict or is_text


def _is_in_outline(element: Any) -> bool:
    """Return whether an item is of a list of lists: links in one are a table of contents, not teasers."""
    inner = next(element.iterdescendants("li"), None)
    return element.tag == "li" and (inner is not None or next(element.iterancestors("li"), None) is not None)


def _drop_last_headings(content: _Content) -> None:
    """Drop headings that nothing follows, such as "Related stories" at an article's end."""
    for run in reversed([run for run in content.runs if run.keep]):
        if run.block.element.tag not in HEADINGS:
            return
        run.keep = False


def _hints(element: Any) -> int:
    """Return the flags that fit `element` itself (not what it is in)."""
    tag, role, classes = element.tag, element.get("role"), element.get("class") or ""
    # The id of a heading, a section or a term repeats its title: "cookies" is then the subject, not a banner.
    is_titled = tag in HEADINGS or tag in ("section", "dl", "dt", "dd") or "section" in classes
    names = classes if is_titled else f"{classes} {element.get('id') or ''}"
    if tag == "aside" and (role == "note" or not _ADMONITIONS.isdisjoint(_WORD.findall(names.lower()))):
        return 0
    flags = 0 if tag in ("main", "article") else _named(names[:1000])  # blogs name a post's topics in its classes
    if tag in _NAVIGATION_TAGS or role in _NAVIGATION_ROLES or tag == "header":
        of_page = all(holder.tag not in _PARTS and holder.get("role") != "main" for holder in element.iterancestors())
        flags |= (0 if tag == "header" else _NAVIGATION) | (_PAGE_MENU if of_page else 0)
    return flags


@lru_cache(maxsize=4096)
def _named(names: str) -> int:
    names = _UTILITY.sub(" ", names.lower())
    words = set(_WORD.findall(names))
    return sum(flag for flag, hinting in _HINT_WORDS.items() if not words.isdisjoint(hinting))


def _judge(root: Any, runs: list[_Run], url: str) -> None:
    """Set `keep` on the runs that trafilatura takes for content."""
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    copy = deepcopy(root)
    twins = dict(zip(root.iter(), copy.iter(), strict=True))
    for number, run in enumerate(runs[:_MARKS]):
        element, where = next(node for node in run.nodes if getattr(*node).strip())
        text = getattr(element, where)
        bare = text.lstrip()
        setattr(twins[element], where, text[: len(text) - len(bare)] + chr(_FIRST_MARK + number) + bare)
    text = ""
    try:
        document = trafilatura.bare_extraction(copy, url=url, include_comments=False)
        if document is not None and document.body is not None:
            text = "".join(document.body.itertext())
    except Exception:  # a page that breaks trafilatura is judged by its marked-up area alone
        logging.getLogger(__name__).debug("trafilatura failed", exc_info=True)
    found = {ord(mark) - _FIRST_MARK for mark in _MARK.findall(text)}
    for number, run in enumerate(runs):
        run.keep = number in found
