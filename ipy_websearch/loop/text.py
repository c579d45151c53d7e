"""Writes an answer's Markdown: text as it comes, marks behind the words that they belong to. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

_OWN_MARK = re.compile(r"(?<!\\)\[(\d{1,4})\](?![(:])")
_MARK_BEGUN = re.compile(r"\[\d{0,4}(?:, ?\d{0,3}){0,5}$")
LOOK_BACK = 1_000
"""Characters of the answer in which the sentence before a mark is looked for."""


class AnswerText:
    """The Markdown so far. Each method returns what a reader should see next ("" for nothing yet).

    Blank space at the end is held back until more text comes, so that a mark stands right behind the words that it belongs to.
    Text of a later step begins a new paragraph. A `[n]` that the model wrote itself is no mark: outside code it is escaped, or
    replaced by what `bind` makes of the text before it and of what was written.
    """

    def __init__(self, bind: Callable[[str, str], str] | None = None) -> None:
        self._bind = bind
        self._step = (0, 0)
        self._parts: list[str] = []
        self._held = ""
        self._begins = False
        self._backticks = 0

    def __str__(self) -> str:
        return "".join([*self._parts, self._held]).strip()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def step(self) -> None:
        """Say that a new step begins."""
        self._begins, self._held = True, ""
        self._step = (len(self._parts), self._backticks)

    def retract(self) -> None:
        """Take back the text of this step."""
        kept, self._backticks = self._step
        del self._parts[kept:]
        self._begins, self._held = True, ""

    def write(self, text: str) -> str:
        """Take text in."""
        if self._begins:
            text = text.lstrip()
        elif self._held.startswith("["):
            text, self._held = self._held + text, ""
        body = text.rstrip()
        body = body[: begun.start()] if (begun := _MARK_BEGUN.search(body)) else body
        if not body:
            self._held += text
            return ""
        lead = self._held
        if self._begins:
            lead, self._begins = "\n\n" if self._parts else "", False
        self._held = text[len(body) :]
        return self._show(lead + self._escaped(body))

    def _escaped(self, text: str) -> str:
        """Return the text with `[n]` as `\\[n]`, except in code; an odd number of backticks so far is code."""
        pieces = text.split("`")
        before = "".join(self._parts)[-LOOK_BACK:] if self._bind else ""
        for i, piece in enumerate(pieces):
            if (self._backticks + i) % 2 == 0:
                pieces[i] = self._bound(before, piece) if self._bind else _OWN_MARK.sub(r"\\[\1]", piece)
            before += pieces[i]
        self._backticks += len(pieces) - 1
        return "`".join(pieces)

    def _bound(self, before: str, text: str) -> str:
        """Return the text with what `bind` makes of each number in brackets."""
        assert self._bind is not None
        done = ""
        for written in re.split(r"(\[\d{1,3}(?:, ?\d{1,3})*\](?![(:]))", text):
            done += self._bind(before + done, written) if written.startswith("[") and written[1:2].isdigit() else written
        return done

    def mark(self, marks: str) -> str:
        """Put citation marks behind the last word; the space after it stays after the marks."""
        if marks and self._held.startswith("["):
            self._show(self._held)
            self._held = ""
        return self._show(marks) if marks and self._parts else ""

    def _show(self, text: str) -> str:
        self._parts.append(text)
        return text
