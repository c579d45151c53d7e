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
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Any

from lxml.etree import XPath, iterwalk, strip_attributes

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Elements that stand within a line of text; every other one, unknown ones included, begins and ends a block.
INLINE = frozenset(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark q ruby rb rt rp s samp small"
    " span strike strong sub sup time tt u var wbr picture source output meter nobr math mi mo mn mrow".split()
)

# What the names of elements, their roles, ids and classes say about the text in them.
_NAVIGATION, _BOILERPLATE, _DOUBTFUL, _COMMENTS = 1, 2, 4, 8
_NAVIGATION_TAGS = frozenset({"nav", "footer", "aside", "menu"})
_NAVIGATION_ROLES = frozenset(
    {"navigation", "contentinfo", "complementary", "banner", "search", "dialog", "alertdialog", "menu", "menubar", "toolbar"}
)
_IN_PART = XPath("boolean(ancestor::main or ancestor::article or ancestor::section or ancestor::*[@role='main'])")
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
_FIRST_MARK = 0x20000
# trafilatura's time grows faster than the page (5 MB take 24 s, measured November 2026): these are judged without it.
_HEAVY_RUNS, _HEAVY_CHARACTERS = 5_000, 2_000_000
_MAX_DEPTH = 300  # markdownify takes three calls a level, trafilatura's time grows with its square
# A block with a larger share of the page's text is not boilerplate, whatever it is called; a cookie bar of fewer characters can
# be much of a short page.
_BOILERPLATE_SHARE, _SMALL_BLOCK = 0.3, 200
# The area is the smallest block with that share of the kept text. In a page of fewer characters, text outside of it is too
# little to be told from content.
_AREA_SHARE, _SMALL_PAGE = 0.9, 1_500
_PROSE_CHARACTERS, _PROSE_LINKED = 80, 0.4  # a run of that length with a smaller share of link text is a paragraph
_MOSTLY_LINKED = 0.6
# trafilatura's choice is weak when it is this short or holds this little prose; it is an article, whatever the page says, when
# it is that long and nearly all prose.
_WEAK_CHARACTERS, _WEAK_PROSE = 500, 0.3
_ARTICLE_CHARACTERS, _ARTICLE_PROSE = 1_500, 0.85
_FORUM_KINDS = frozenset({"discussionforumposting", "qapage"})
_ARTICLE_KINDS = frozenset({"article", "newsarticle", "blogposting", "techarticle", "report"})
_SEMANTIC = frozenset("p li h1 h2 h3 h4 h5 h6 pre blockquote td th dt dd code".split())
# Links in a list of lists are a table of contents, not teasers.
_IN_OUTLINE = XPath("boolean(self::li[descendant::li or ancestor::li])")
_BREAKS = frozenset({"br", "hr", "td", "th"})


@dataclass(slots=True, eq=False)
class _Run:
    """One run: the blocks around it from the body on, its text nodes as (element, "text" or "tail"), the share of link text."""

    blocks: tuple[Any, ...]
    nodes: list[tuple[Any, str]]
    text: str
    linked: float
    flags: int = 0
    keep: bool = False

    @property
    def is_prose(self) -> bool:
        return len(self.text) >= _PROSE_CHARACTERS and self.linked < _PROSE_LINKED

    @property
    def is_chrome(self) -> bool:
        """A menu, a banner or the like, whatever trafilatura says."""
        return bool(self.flags & (_NAVIGATION | _BOILERPLATE) or (self.flags & _DOUBTFUL and self.linked > _MOSTLY_LINKED))


def keep_content(root: Any, *, url: str, kinds: frozenset[str]) -> None:
    """Reduce the body of `root` to its content; a page without any that can be told stays as it is.

    `kinds` are the types that the page claims in its metadata, in lower case.
    """
    body = root.find("body")
    runs = _runs(body)
    sizes = _sizes(runs)
    _flag(runs, sizes, body)
    mains = [b for b in sizes if (b.tag == "main" or b.get("role") == "main") and sizes[b] > 200]
    main = max(mains, key=lambda block: sizes[block], default=None)
    if len(runs) > _HEAVY_RUNS or sizes[body] > _HEAVY_CHARACTERS or kinds & _FORUM_KINDS:
        _keep_area(runs, body if main is None else main, _NAVIGATION | _BOILERPLATE | _DOUBTFUL)
    else:
        _judge(root, runs, url)
        _correct(runs, body, main, kinds)
    if any(run.keep for run in runs):
        _drop_unkept(body, runs)


def _runs(body: Any) -> list[_Run]:
    """Return the runs of a body in document order; raises RecursionError when blocks are nested too deep."""
    runs: list[_Run] = []
    blocks: tuple[Any, ...] = ()
    nodes: list[tuple[Any, str]] = []
    links = linked = 0
    for event, element in iterwalk(body, events=("start", "end")):
        starts = event == "start"
        if element.tag not in INLINE:
            if text := " ".join("".join(getattr(*node) for node in nodes).split()):
                runs.append(_Run(blocks, nodes, text, min(1.0, linked / len(text))))
            nodes, linked = [], 0
            blocks = (*blocks, element) if starts else blocks[:-1]
            if len(blocks) > _MAX_DEPTH:
                raise RecursionError
        elif element.tag == "a" and element.get("href"):
            links += 1 if starts else -1
        where = "text" if starts else "tail"
        if text := getattr(element, where):
            nodes.append((element, where))
            linked += len(text.strip()) if links else 0
    return runs


def _sizes(runs: Iterable[_Run]) -> Counter[Any]:
    """Return the characters in each block that holds text; outer blocks come before inner ones."""
    sizes: Counter[Any] = Counter()
    for run in runs:
        for block in run.blocks:
            sizes[block] += len(run.text)
    return sizes


def _flag(runs: list[_Run], sizes: Counter[Any], body: Any) -> None:
    """Set the flags of runs: those of all blocks around them."""
    limit = max(_BOILERPLATE_SHARE * sizes[body], _SMALL_BLOCK)
    flags = {b: _hints(b) & ~(_BOILERPLATE | _DOUBTFUL if size >= limit else 0) for b, size in sizes.items() if b is not body}
    for run in runs:
        for block in run.blocks[1:]:
            run.flags |= flags[block]


def _correct(runs: list[_Run], body: Any, main: Any, kinds: frozenset[str]) -> None:
    """Mend trafilatura's choice: less of boilerplate, more of the area that it found."""
    kept = [run for run in runs if run.keep]
    is_article = bool(kinds & _ARTICLE_KINDS)
    if not is_article:
        _join_parts(runs, main)
    inside = _sizes(run for run in runs if run.keep)
    area = [block for block in inside if inside[block] >= _AREA_SHARE * inside[body]][-1] if inside else body
    for run in kept:
        run.keep = not run.is_chrome
    barred = _NAVIGATION | _BOILERPLATE | _DOUBTFUL | _COMMENTS
    size, prose = _length(kept), _length(run for run in kept if run.is_prose)
    if size < _WEAK_CHARACTERS or prose < _WEAK_PROSE * size:
        whole = area if _length(runs) > _SMALL_PAGE else body
        _keep_area(runs, whole if main is None else main, barred)
    else:
        is_prose = size > _ARTICLE_CHARACTERS and prose > _ARTICLE_PROSE * size
        _keep_area(runs, area, barred, strict=is_article or is_prose)
        _drop_last_headings(runs)


def _length(runs: Iterable[_Run]) -> int:
    return sum(len(run.text) for run in runs)


def _join_parts(runs: list[_Run], main: Any) -> None:
    """Keep all prose of the main part (or of the body) where trafilatura took less than half of it.

    It then took one of several like parts: a page builder's columns, an article cut in two by an advertisement.
    """
    prose = [run for run in runs if run.is_prose and not run.flags and (main is None or main in run.blocks)]
    if 2 * _length(run for run in prose if run.keep) < _length(prose):
        for run in prose:
            run.keep = True


def _keep_area(runs: list[_Run], area: Any, barred: int, *, strict: bool = False) -> None:
    """Keep also the runs in block `area` that no flag in `barred` speaks against; `strict` takes marked-up text alone."""
    for run in runs:
        if area in run.blocks and not run.keep and not run.flags & barred:
            block = run.blocks[-1]
            is_text = block.tag in _SEMANTIC and (run.linked < _MOSTLY_LINKED or _IN_OUTLINE(block))
            run.keep = is_text or not strict


def _drop_last_headings(runs: list[_Run]) -> None:
    """Drop headings that nothing follows, such as "Related stories" at an article's end."""
    kept = (run for run in reversed(runs) if run.keep)
    for run in takewhile(lambda run: run.blocks[-1].tag in HEADINGS, kept):
        run.keep = False


def _drop_unkept(body: Any, runs: list[_Run]) -> None:
    """Take out of the tree everything but the kept runs and the elements around them."""
    needed = set[Any]()  # what holds kept text, and what is around that; a blank in a <span> parts two words
    for run in runs:
        for element, where in run.nodes:
            if run.keep:
                needed.update((element, *element.iterancestors()))
            else:
                setattr(element, where, None)
    for element in reversed(list(body.iterdescendants())):
        if (element.getparent() if element.tag in _BREAKS else element) not in needed:
            element.drop_tree()


def _hints(element: Any) -> int:
    """Return the flags that fit `element` itself (not what it is in)."""
    tag, role, classes = element.tag, element.get("role"), element.get("class") or ""
    # The id of a heading, a section or a term repeats its title: "cookies" is then the subject, not a banner.
    is_titled = tag in HEADINGS or tag in ("section", "dl", "dt", "dd") or "section" in classes
    names = classes if is_titled else f"{classes} {element.get('id') or ''}"
    if tag == "aside" and (role == "note" or not _ADMONITIONS.isdisjoint(_WORD.findall(names.lower()))):
        return 0
    is_page_header = tag == "header" and not _IN_PART(element)
    is_menu = is_page_header or tag in _NAVIGATION_TAGS or role in _NAVIGATION_ROLES
    # The classes of <article> are no hint: blogs name a post's topics in them.
    return _NAVIGATION * is_menu | (0 if tag in ("main", "article") else _named(names[:1000]))


@lru_cache(maxsize=4096)
def _named(names: str) -> int:
    words = set(_WORD.findall(_UTILITY.sub(" ", names.lower())))
    return sum(flag for flag, hinting in _HINT_WORDS.items() if not words.isdisjoint(hinting))


def _judge(root: Any, runs: list[_Run], url: str) -> None:
    """Set `keep` on the runs that trafilatura takes for content."""
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    copy = deepcopy(root)
    strip_attributes(copy, "colspan", "rowspan")  # for which it makes cells, millions of a hostile table
    for number, run in enumerate(_runs(copy.find("body"))):
        node = next(node for node in run.nodes if getattr(*node).strip())
        text = getattr(*node)
        setattr(*node, text.replace(text.strip(), chr(_FIRST_MARK + number) + text.strip(), 1))
    marks = set[str]()
    with suppress(Exception):  # a page that breaks trafilatura is judged by its marked-up area alone
        # `fast` leaves out its comparison with two other extractors, which takes a third of a page's time.
        document = trafilatura.bare_extraction(copy, url=url, include_comments=False, fast=True)
        marks.update(*document.body.itertext())
    for number, run in enumerate(runs):
        run.keep = chr(_FIRST_MARK + number) in marks
