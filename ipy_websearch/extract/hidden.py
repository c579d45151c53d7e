"""What a reader of the page would not see, taken out, and what a script would bring into sight, put in its place.

Hidden text is where instructions to a model are smuggled, so it goes, whether an attribute, a style, a colour or a rule of the
page's own style sheet hides it. Exceptions, all seen on many honest pages: React streams content as `<div hidden id="S:0">`
and moves it into the place of `<template id="B:0">`; pages fade in, so that nearly all their text starts with `opacity:0`: a
hidden part stays when it is the bulk of a page of some length; a closed tab stays when a control in sight opens it, and so do
parts that one rule hides by the dozen (see `stylesheet`). Not seen here: colours on pictures, what scripts and the style sheets
of other hosts do.
"""

from __future__ import annotations

from typing import Any

from lxml import etree

from ipy_websearch.extract.css import CLOSED, FADED, NEVER, Color, alike, color, declarations, ground, hiding
from ipy_websearch.extract.stylesheet import StyleSheet
from ipy_websearch.extract.tree import is_short, length, remove

_BULK_CHARACTERS = 2_000
_BULK_SHARE, _CLOSED_SHARE = 0.6, 0.9
_EMPTY_CHARACTERS = 50
_ALL_CHARACTERS = 1_000
_DECORATION_CHARACTERS = 200
_WHITE = (255, 255, 255)
Grounds = dict[Any, Color | None]
_CANDIDATES = etree.XPath(".//*[@style or @hidden or @popover or @aria-hidden or self::font]")


def drop_hidden(body: Any, sheet: StyleSheet) -> None:
    """Remove the hidden parts of `body`, except tabs a reader can open and one that holds most of a page's text."""
    styled = sheet.hidden(body)
    candidates = _CANDIDATES(body)
    if styled:
        marked = {*candidates, *styled}
        candidates = [e for e in body.iterdescendants() if e in marked]
    grounds: Grounds = {}
    hidden = {e: kind for e in candidates if (kind := max(_hiding(e, sheet.bare, grounds), styled.get(e, 0)))}
    if not hidden:
        return
    tabs = _openable(body, hidden)
    total = length(body)
    gone: set[Any] = set()
    for element, kind in hidden.items():
        if element.getparent() in gone or any(a in gone for a in element.iterancestors()) or element in tabs:
            continue
        size = length(element)
        if not _is_the_page(kind, size, total):
            gone.add(element)
            total -= size
    for element in gone:
        remove(element)


def drop_hidden_code(body: Any, sheet: StyleSheet) -> None:
    """Remove the hidden parts of code blocks, whose elements are about to be taken for nothing but text."""
    parts = [e for pre in body.iter("pre", "code") for e in pre.iterdescendants() if e.get("aria-hidden") != "true"]
    styled = sheet.hidden(body) if parts and sheet.rules else {}
    grounds: Grounds = {}
    for element in parts:
        if _hiding(element, sheet.bare, grounds) or styled.get(element):
            remove(element)


def _hiding(element: Any, bare: bool, grounds: Grounds) -> int:
    """Return how an element is hidden by what is written on it (see `css`), 0 when it is not."""
    found = hiding(element.get("style"))
    if found == NEVER or _has_the_ground_s_color(element, bare, grounds):
        return NEVER
    if element.get("popover") is not None or (element.get("hidden") is not None and element.get("hidden") != "until-found"):
        found = CLOSED
    # Screen readers skip it, sighted readers do not: short ones are icons and doubled labels, long ones are text.
    if not found and element.get("aria-hidden") == "true" and is_short(element, _DECORATION_CHARACTERS):
        return CLOSED
    return found


def _has_the_ground_s_color(element: Any, bare: bool, grounds: Grounds) -> bool:
    """Return whether text is coloured like the next background that its elements name; a bare page's is white."""
    style = element.get("style") or ""
    ink = color(declarations(style).get("color", "")) if "color" in style.lower() else None
    if ink is None and element.tag == "font":
        ink = color((element.get("color") or "").lower())
    return ink is not None and alike(ink, _ground_behind(element, bare, grounds))


def _ground_behind(element: Any, bare: bool, grounds: Grounds) -> Color | None:
    """Return the colour behind an element, None when it cannot be told; `grounds` remembers it for its parts."""
    passed: list[Any] = []
    found = _WHITE if bare else None
    for holder in (element, *element.iterancestors()):
        if holder in grounds:
            found = grounds[holder]
            break
        passed.append(holder)
        given = declarations(holder.get("style") or "")
        behind = ground(given) or color((holder.get("bgcolor") or "").lower())
        if behind is not None or "background" in given or "background-image" in given or holder.get("background"):
            found = behind
            break
    grounds.update(dict.fromkeys(passed, found))
    return found


def _is_the_page(kind: int, size: int, total: int) -> bool:
    """Return whether a hidden part of `size` characters is what the page of `total` characters will show.

    A few hidden words on a page of few words are not: short pages are what smuggled instructions are tried on.
    """
    share = _BULK_SHARE if kind == FADED else _CLOSED_SHARE
    if kind != NEVER and size > _BULK_CHARACTERS and size > share * total:
        return True
    return kind != NEVER and size > _ALL_CHARACTERS and total - size < _EMPTY_CHARACTERS


def _openable(body: Any, hidden: dict[Any, int]) -> set[Any]:
    """Return the hidden parts that a reader can open: tabs and folds that a control in sight, with words on it, belongs to.

    ARIA joins the two either way round: `aria-controls` on the control, `aria-labelledby` on the tab panel.
    """
    panels = [e for e, kind in hidden.items() if kind != NEVER and e.get("role") in ("tabpanel", "region")]
    if not panels:
        return set()
    opened: set[str] = set()
    names: set[str] = set()
    for control in body.iter():
        opens = (control.get("aria-controls") or "").split()
        if not (opens or control.get("role") == "tab") or is_short(control, 1):
            continue
        if control not in hidden and not any(a in hidden for a in control.iterancestors()):
            opened.update(opens)
            names.add(control.get("id") or "")
    return {e for e in panels if e.get("id") in opened or _is_labelled(e, names)}


def _is_labelled(panel: Any, names: set[str]) -> bool:
    label = panel.get("aria-labelledby") or ""  # some ids have blanks in them, though they should not
    return bool(label) and panel.get("role") == "tabpanel" and (label in names or not names.isdisjoint(label.split()))


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
