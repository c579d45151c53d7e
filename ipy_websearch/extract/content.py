"""Which runs of a page are its content.

trafilatura judges first, on a copy in which every run is marked, so that each judgement can be read off run by run. It is
right about articles and too strict about everything else: on documentation, lists, products and threads it drops headings,
items, code and whole sections. So its choice shows where the content is (the smallest block that holds nearly all of it,
or `<main>`), and the runs in that area that nothing speaks against are kept as well. The rules were measured on the
development part of WCXB and checked on its test part and on article-extraction-benchmark; see tests/benchmarks.
"""

from __future__ import annotations

import logging
import re
from copy import deepcopy
from typing import Any

from ipy_websearch.extract.hints import BOILERPLATE, COMMENTS, DOUBTFUL, NAVIGATION, hints
from ipy_websearch.extract.runs import Page, Run
from ipy_websearch.extract.tree import HEADINGS

# One character of CJK Extension B marks each run: letters that no page is written in, but letters, so that trafilatura
# keeps them, counts them as one character of text and hands them back with the text it selects.
_FIRST_MARK = 0x20000
_MARKS = 42_000
_BOILERPLATE_SHARE = 0.3  # of the page's text: what holds more is not boilerplate, whatever it is called
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
_FORUM_ADDRESS = re.compile(
    r"/(?:forums?|threads?|topics?|questions|discussions?|showthread|viewtopic|t)[/.?-]"
    r"|//(?:forums?|discuss(?:ion)?|discourse|boards)\."
)
_FORUM_KINDS = frozenset({"discussionforumposting", "qapage"})
_ARTICLE_KINDS = frozenset({"article", "newsarticle", "blogposting", "techarticle", "report"})
_SEMANTIC = frozenset("p li h1 h2 h3 h4 h5 h6 pre blockquote td th dt dd code".split())


def choose(root: Any, page: Page, *, url: str, kinds: frozenset[str], heavy: bool = False) -> None:
    """Set `keep` on the page's runs; `kinds` are the types the page claims in its metadata, in lower case.

    A `heavy` page is judged without trafilatura, whose time grows faster than the page.
    """
    flags = _inherited_flags(page)
    if heavy or kinds & _FORUM_KINDS or _FORUM_ADDRESS.search(url):
        _keep_area(page, flags, _main_block(page) or 0, NAVIGATION | BOILERPLATE | DOUBTFUL)
        return
    _judge(root, page.runs, url)
    page.count_kept()
    area = _smallest_area(page)
    size, prose = _strength(page.runs)
    main = _main_block(page)
    if size < _PART_CHARACTERS and _widen(page, flags, main):
        area = main if main is not None else _smallest_area(page)
    for run in page.runs:
        run.keep = run.keep and not flags[run.block] & BOILERPLATE
    if size < _WEAK_CHARACTERS or prose < _WEAK_PROSE:
        whole = area if page.blocks[0].size > _SMALL_PAGE else 0
        _keep_area(page, flags, whole if main is None else main, NAVIGATION | BOILERPLATE | DOUBTFUL | COMMENTS)
    else:
        article = bool(kinds & _ARTICLE_KINDS) or (size > _ARTICLE_CHARACTERS and prose > _ARTICLE_PROSE)
        _keep_area(page, flags, area, NAVIGATION | BOILERPLATE | DOUBTFUL | COMMENTS, strict=article)
        if article:
            _drop_dangling_headings(page)


def _widen(page: Page, flags: list[int], main: int | None) -> bool:
    """Return whether trafilatura took less than half of the prose in the main part; without one, keep that prose.

    It then took one of several like parts: a page builder's columns, an article cut in two by an advertisement.
    """
    inside = page.within(main or 0)
    prose = [r for r in page.runs if inside[r.block] and not flags[r.block] and _is_prose(r)]
    kept = sum(len(run.text) for run in prose if run.keep)
    if 2 * kept >= sum(len(run.text) for run in prose):
        return False
    if main is None:
        for run in prose:
            run.keep = True
        page.count_kept()
    return True


def _drop_dangling_headings(page: Page) -> None:
    """Drop headings that nothing follows: "Related stories" at an article's end, linked titles of other articles."""
    kept = [(run, page.blocks[run.block].tag) for run in page.runs if run.keep]
    text_follows = False
    level_of_next = "h0"  # the highest heading since the last text, from the end of the page backwards
    for run, tag in reversed(kept):
        if tag not in HEADINGS:
            text_follows, level_of_next = True, "h9"
        elif level_of_next <= tag and (run.linked > 0.5 or not text_follows):
            run.keep = False
        else:
            level_of_next = tag


def _keep_area(page: Page, flags: list[int], area: int, barred: int, *, strict: bool = False) -> None:
    """Keep also the runs in block `area` that no flag in `barred` speaks against; `strict` takes marked-up text alone."""
    inside = page.within(area)
    said = {run.text for run in page.runs if run.keep and _is_prose(run)}
    for run in page.runs:
        tag = page.blocks[run.block].tag
        if run.keep or not inside[run.block] or flags[run.block] & barred or tag == "figcaption" or run.text in said:
            continue
        run.keep = not strict or (tag in _SEMANTIC and run.linked < _MOSTLY_LINKED)


def _inherited_flags(page: Page) -> list[int]:
    """Return for each block the hints on it and on what it is in; names do not count on a block that is much of the page."""
    limit = _BOILERPLATE_SHARE * page.blocks[0].size
    flags: list[int] = []
    for block in page.blocks:
        own = hints(block.element)
        if block.size >= limit:
            own &= ~(BOILERPLATE | DOUBTFUL)
        flags.append(own | (flags[block.parent] if block.parent >= 0 else 0))
    return flags


def _main_block(page: Page) -> int | None:
    """Return the number of the largest block marked as the main one, None when no such block holds text."""
    mains = [i for i, b in enumerate(page.blocks) if (b.tag == "main" or b.element.get("role") == "main") and b.size > 200]
    return max(mains, key=lambda i: page.blocks[i].size, default=None)


def _smallest_area(page: Page) -> int:
    """Return the number of the smallest block that holds nearly all the kept text."""
    area, needed = 0, _AREA_SHARE * page.blocks[0].kept
    for number, block in enumerate(page.blocks):
        if block.parent == area and needed and block.kept >= needed:
            area = number
    return area


def _strength(runs: list[Run]) -> tuple[int, float]:
    """Return how many characters are kept, and which share of them is prose: long runs that are not links."""
    kept = [run for run in runs if run.keep]
    size = sum(len(run.text) for run in kept)
    return size, sum(len(run.text) for run in kept if _is_prose(run)) / size if size else 0.0


def _is_prose(run: Run) -> bool:
    return len(run.text) >= _PROSE_CHARACTERS and run.linked < _PROSE_LINKED


def _judge(root: Any, runs: list[Run], url: str) -> None:
    """Set `keep` on the runs that trafilatura takes for content."""
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    marked = runs[:_MARKS]
    for number, run in enumerate(marked):
        _mark(run, chr(_FIRST_MARK + number))
    text = ""
    try:
        document = trafilatura.bare_extraction(deepcopy(root), url=url, include_comments=False)
        if document is not None and document.body is not None:
            text = "".join(document.body.itertext())
    except Exception:  # a page that breaks trafilatura is judged by its marked-up area alone
        logging.getLogger(__name__).debug("trafilatura failed", exc_info=True)
    found = {ord(c) - _FIRST_MARK for c in text if _FIRST_MARK <= ord(c) < _FIRST_MARK + _MARKS}
    for number, run in enumerate(marked):
        _unmark(run, chr(_FIRST_MARK + number))
        run.keep = number in found


def _mark(run: Run, mark: str) -> None:
    for element, is_tail in run.nodes:
        text = element.tail if is_tail else element.text
        bare = text.lstrip()
        if bare:
            _set(element, is_tail, text[: len(text) - len(bare)] + mark + bare)
            return


def _unmark(run: Run, mark: str) -> None:
    for element, is_tail in run.nodes:
        text = element.tail if is_tail else element.text
        if text and mark in text:
            _set(element, is_tail, text.replace(mark, "", 1))
            return


def _set(element: Any, is_tail: bool, text: str) -> None:
    if is_tail:
        element.tail = text
    else:
        element.text = text
