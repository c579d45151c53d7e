"""Text on one line, as it is: nothing is stripped or decoded but what cannot be seen. Escaping is done where it is written."""

from __future__ import annotations

from ipy_websearch.text import visible


def one_line(text: str) -> str:
    """Return the text with its white space folded and without control, bidirectional and invisible characters."""
    return " ".join(visible(text).split())
