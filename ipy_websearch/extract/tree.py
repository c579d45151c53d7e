"""Small operations on lxml trees that lxml itself does not have."""

from __future__ import annotations

from typing import Any


def remove(element: Any) -> None:
    """Take `element` out of its tree; the text behind it stays."""
    parent = element.getparent()
    if parent is None:
        return
    if element.tail:
        before = element.getprevious()
        if before is None:
            parent.text = (parent.text or "") + element.tail
        else:
            before.tail = (before.tail or "") + element.tail
    element.tail = None
    parent.remove(element)


def length(element: Any) -> int:
    """Return how many characters of text `element` holds, not counting the white space around its text nodes."""
    return sum(len(t.strip()) for t in element.itertext())
