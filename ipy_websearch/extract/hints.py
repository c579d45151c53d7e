"""What the names of elements, their roles, ids and classes, say about the text in them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ipy_websearch.extract.tree import HEADINGS

NAVIGATION, BOILERPLATE, DOUBTFUL, COMMENTS = 1, 2, 4, 8

_NAVIGATION_TAGS = frozenset({"nav", "footer", "aside", "menu"})
_NAVIGATION_ROLES = frozenset(
    {"navigation", "contentinfo", "complementary", "banner", "search", "dialog", "alertdialog", "menu", "menubar", "toolbar"}
)
_NEVER_HINTED = frozenset({"body", "main", "html", "article"})
# The words were chosen by how much of the text under them is content on the development part of WCXB: below 10 % for
# the first set (so that even trafilatura's choice is overruled), below 25 % for the second.
_BOILERPLATE = frozenset(
    "consent cookie cookies sponsor sponsored sponsors advert adverts advertisement advertising outbrain taboola upsell disqus"
    " copyright recommend recommended recommendation recommendations newsletter newsletters signup login feedback share"
    " sharing footer signature print trending byline toolbar social socials navigation navbar topbar pager breadcrumb"
    " breadcrumbs sort notice avatar legal disclaimer".split()
)
_DOUBTFUL = frozenset(
    "related menu megamenu popular popup dropdown modal overlay nav sidebar author bio carousel button date cta meta filter"
    " filters rating price pagination paginator subscribe subscription tags respond like likes".split()
)
_COMMENTS = frozenset("comment comments reply replies respond review reviews".split())
_NOTES = frozenset("note tip warning caution danger callout admonition important hint".split())
_WORD = re.compile(r"[a-z]+")
# Utility classes such as Tailwind's "print:mt-3" and "[&>li]:flex" name conditions, not what an element is.
_UTILITY = re.compile(r"\S*[:\[]\S*")
_JOINED = (("sign-up", "signup"), ("log-in", "login"), ("pop-up", "popup"), ("side-bar", "sidebar"), ("sr-only", "notice"))


def hints(element: Any) -> int:
    """Return the flags that fit `element` itself (not what it is in)."""
    tag, role = element.tag, element.get("role")
    names = f"{_own_id(element)} {element.get('class') or ''}"
    if tag == "aside" and (role == "note" or not _NOTES.isdisjoint(_WORD.findall(names.lower()))):
        return 0
    flags = NAVIGATION if tag in _NAVIGATION_TAGS or role in _NAVIGATION_ROLES else 0
    return flags if len(names) == 1 or tag in _NEVER_HINTED else flags | _named(names[:1000])


def _own_id(element: Any) -> str:
    """Return the id of `element`, "" when it repeats a heading: "cookies" is then the subject of a section, not its role."""
    name = element.get("id") or ""
    if not name or element.tag in HEADINGS:
        return ""
    if not _named(name[:1000]):
        return name
    heading = next(element.iter(*HEADINGS), None)
    title = "".join(heading.itertext()).lower() if heading is not None else ""
    return "" if title and all(word in title for word in _WORD.findall(name.lower()) if len(word) > 1) else name


@lru_cache(maxsize=4096)
def _named(names: str) -> int:
    names = _UTILITY.sub(" ", names.lower())
    for written, joined in _JOINED:
        names = names.replace(written, joined)
    words = set(_WORD.findall(names))
    flags = 0
    if not words.isdisjoint(_BOILERPLATE):
        flags |= BOILERPLATE
    if not words.isdisjoint(_DOUBTFUL):
        flags |= DOUBTFUL
    if not words.isdisjoint(_COMMENTS):
        flags |= COMMENTS
    return flags
