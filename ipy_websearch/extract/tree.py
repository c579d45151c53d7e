"""What lxml itself does not have: the kinds of HTML elements, and small operations on trees."""

from __future__ import annotations

from typing import Any

# Elements that stand within a line of text; every other one, unknown ones included, begins and ends a block.
INLINE = frozenset(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark q ruby rb rt rp s samp small"
    " span strike strong sub sup time tt u var wbr picture source output meter nobr math mi mo mn mrow".split()
)
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


def remove(element: Any) -> None:
    """Take `element` out of its tree; the text behind it stays."""
    parent = element.getparent()
    if parent is None:
        return
    if element.tail:
        add_text_before(element, element.tail)
    element.tail = None
    parent.remove(element)


def replace_by_text(element: Any, text: str) -> None:
    """Put `text` in the place of `element` and all that is in it."""
    add_text_before(element, text)
    remove(element)


def add_text_before(element: Any, text: str) -> None:
    """Append `text` to what stands right before `element` in its parent."""
    before = element.getprevious()
    if before is not None:
        before.tail = (before.tail or "") + text
    else:
        parent = element.getparent()
        parent.text = (parent.text or "") + text


def length(element: Any) -> int:
    """Return how many characters of text `element` holds, not counting the white space around its text nodes."""
    return sum(len(t.strip()) for t in element.itertext())


def is_short(element: Any, limit: int) -> bool:
    """Return whether `element` holds less than `limit` characters of text, without reading on beyond them."""
    size = 0
    for text in element.itertext():
        size += len(text.strip())
        if size >= limit:
            return False
    return True
