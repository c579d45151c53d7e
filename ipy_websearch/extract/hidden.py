"""What a reader of the page would not see, taken out, and what a script would bring into sight, put in its place.

Hidden text is where instructions to a model are smuggled, so it goes. Three exceptions, all seen on many honest pages:
React streams content as `<div hidden id="S:0">` and moves it into the place of `<template id="B:0">`; pages fade in, so that
nearly all their text starts with `opacity:0`: a hidden part stays when it is the bulk of a page of some length; and a closed
tab stays when a control on the page opens it.
"""

from __future__ import annotations

import re
from typing import Any

from ipy_websearch.extract.tree import is_short, length, remove

# What scripts and style sheets take back when a page fades in or opens a part, and what is never shown.
_SHOWN_LATER = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0?\.?0+%?\s*(?:;|!|$))", re.IGNORECASE
)
_NEVER_SHOWN = re.compile(
    r"(?:^|;)\s*(?:font-size\s*:\s*0(?:\.0+)?(?:px|pt|em|rem|%)?\s*(?:;|!|$)"
    r"|(?:left|top|right|text-indent|margin-left)\s*:\s*-\d{3,}"
    r"|clip\s*:\s*rect\(\s*(?:0|1px)|clip-path\s*:\s*(?:inset\(\s*(?:50|100)%|circle\(\s*0)"
    r"|transform\s*:\s*(?:scale\(\s*0\s*\)|translate[xy]?\(\s*-\d{3,}))",
    re.IGNORECASE,
)
_TINY_STYLE = re.compile(r"(?:^|;)\s*(?:max-)?(?:width|height)\s*:\s*[01](?:px)?\s*(?=;|!|$)", re.IGNORECASE)
_BULK_CHARACTERS = 2_000
_BULK_SHARE = 0.6
_EMPTY_CHARACTERS = 50
_ALL_CHARACTERS = 300
_DECORATION_CHARACTERS = 200


def drop_hidden(body: Any) -> None:
    """Remove the hidden parts of `body`, except tabs a reader can open and one that holds most of a page's text."""
    hidden = [e for e in body.iterdescendants() if _is_hidden(e)]
    if not hidden:
        return
    controls = {c for e in body.iter() for c in (e.get("aria-controls") or "").split()}
    total = length(body)
    gone: set[Any] = set()
    for element in hidden:
        if element.getparent() in gone or any(a in gone for a in element.iterancestors()) or _is_tab(element, controls):
            continue
        size = length(element)
        if not _is_the_page(element, size, total):
            gone.add(element)
            total -= size
    for element in gone:
        remove(element)


def _is_hidden(element: Any) -> bool:
    if element.get("hidden") is not None and element.get("hidden") != "until-found":
        return True
    if hiding_style(element.get("style")):
        return True
    # Screen readers skip it, sighted readers do not: short ones are icons and doubled labels, long ones are text.
    return element.get("aria-hidden") == "true" and is_short(element, _DECORATION_CHARACTERS)


def _is_the_page(element: Any, size: int, total: int) -> bool:
    """Return whether a hidden part of `size` characters is what the page of `total` characters will show.

    A few hidden words on a page of few words are not: short pages are what smuggled instructions are tried on.
    """
    if _NEVER_SHOWN.search(element.get("style") or ""):
        return False
    bulk = size > _BULK_CHARACTERS and size > _BULK_SHARE * total
    return bulk or (size > _ALL_CHARACTERS and total - size < _EMPTY_CHARACTERS)


def hiding_style(style: str | None) -> bool:
    """Return whether a `style` attribute hides its element."""
    if not style:
        return False
    return bool(_SHOWN_LATER.search(style) or _NEVER_SHOWN.search(style) or len(_TINY_STYLE.findall(style)) > 1)


def _is_tab(element: Any, controls: set[str]) -> bool:
    """Return whether `element` is a closed tab or fold that a control of the page opens."""
    return element.get("id") in controls and (element.get("role") in ("tabpanel", "region"))


def place_streamed_parts(root: Any) -> None:
    """Move each part that React streamed (`<div hidden id="S:…">`) to where its script would put it.

    The place is `<template id="B:…">` (the fallback shown meanwhile, up to the comment `/$`, goes) or "P:…".
    """
    places = {e.get("id"): e for e in root.iter("template") if (e.get("id") or "").startswith(("B:", "P:"))}
    for part in list(root.iter("div")):
        name = part.get("id") or ""
        if part.get("hidden") is None or not name.startswith("S:"):
            continue
        place = places.pop("B:" + name[2:], None)
        if place is None:
            place = places.pop("P:" + name[2:], None)
        elif place.getparent() is not None:
            _drop_fallback(place)
        if place is None or place.getparent() is None or any(a is part for a in place.iterancestors()):
            continue
        parent = part.getparent()
        tail, part.tail = part.tail, None
        del part.attrib["hidden"]
        place.addnext(part)
        if tail and tail.strip() and parent is not None:
            parent.text = (parent.text or "") + tail


def _drop_fallback(place: Any) -> None:
    place.tail = None
    while (after := place.getnext()) is not None:
        if not isinstance(after.tag, str) and (after.text or "").strip() == "/$":
            return
        after.tail = None
        after.getparent().remove(after)
