"""Writes an answer's Markdown: text as it comes, marks behind the words that they belong to. Pure.

The marks are the API's citations, or, on platforms without these, the numbers that the model writes behind its sentences:
such a number counts only where the checker finds support for its sentence in that passage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ipy_websearch.citations import SENTENCE_END, CitationBook, check
from ipy_websearch.events import Cited, TextDelta
from ipy_websearch.model.requests import READ_CHARACTERS, plain_results
from ipy_websearch.text import fold
from ipy_websearch.tools.base import Passage

_WRITTEN = re.compile(r"(?<!\\)(\[\d{1,4}(?:, ?\d{1,3})*\])(?!\()")
_BEGUN = re.compile(r"\[\d{0,4}(?:, ?\d{0,3}){0,5}$")
_MARKS = re.compile(r"\\?\[\d{1,3}(?:, ?\d{1,3})*\]")
_WORD = re.compile(r"\w{3,}")
_RANKS = {"supported": 0, "partly": 1}
_UNSUPPORTED, _NEAREST = 2, 3
LOOK_BACK = 1_000
"""Characters of the answer in which the sentence before a mark is looked for."""

Shown = list[Cited | TextDelta]
"""What a reader should see next; a passage that is cited for the first time comes before its mark."""


class AnswerText:
    """The Markdown so far, and the `book` of its sources.

    Blank space at the end is held back until more text comes, so that a mark stands right behind the words that it belongs to.
    Text of a later step begins a new paragraph. A `[n]` that the model wrote itself is, outside code, escaped; where the model
    was `given` passages by number (None: the API gives citations), it becomes a mark if the passage bears its sentence out.
    """

    def __init__(self, book: CitationBook, given: list[Passage] | None) -> None:
        self.book = book
        self.given = given
        self._new: list[Cited] = []
        self._step = (0, 0)
        self._parts: list[str] = []
        self._held = ""
        self._begins = False
        self._backticks = 0

    def __str__(self) -> str:
        return "".join([*self._parts, self._held]).strip()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def anew(self) -> AnswerText:
        """Return the text of another answer from the same passages."""
        return AnswerText(self.book.emptied(), self.given)

    def numbered(self, passages: Sequence[Passage]) -> str:
        """Return passages as text with the numbers, from 1 on in one conversation, that the model may cite them by."""
        self.given = self.given or []
        self.given += passages
        return plain_results(passages, first=len(self.given) - len(passages) + 1, most=READ_CHARACTERS)

    def step(self) -> None:
        """Say that a new step begins."""
        self._begins, self._held = True, ""
        self._step = (len(self._parts), self._backticks)

    def retract(self) -> None:
        """Take back the text of this step."""
        kept, self._backticks = self._step
        del self._parts[kept:]
        self._begins, self._held = True, ""

    def write(self, text: str) -> Shown:
        """Take text in."""
        if self._begins:
            text = text.lstrip()
        elif self._held.startswith("["):
            text, self._held = self._held + text, ""
        body = text.rstrip()
        body = body[: begun.start()] if (begun := _BEGUN.search(body)) else body
        if not body:
            self._held += text
            return []
        lead = self._held
        if self._begins:
            lead, self._begins = "\n\n" if self._parts else "", False
        self._held = text[len(body) :]
        return self._show(lead + self._bound(body))

    def cite(self, block: Mapping[str, Any]) -> Shown:
        """Put the marks of a text block behind its last word; the space after it stays after the marks."""
        marks, new = self.book.bind(block)
        self._new += map(Cited, new)
        if marks and self._held.startswith("["):
            marks, self._held = self._held + marks, ""
        return self._show(marks if self._parts else "")

    def _show(self, text: str) -> Shown:
        shown: Shown = [*self._new]
        self._new = []
        if text:
            self._parts.append(text)
            shown.append(TextDelta(text))
        return shown

    def _bound(self, text: str) -> str:
        """Return the text with what becomes of each number in brackets, except in code, behind an odd backtick."""
        if "[" not in text:
            self._backticks += text.count("`")
            return text
        before, done = "".join(self._parts)[-LOOK_BACK:], ""
        for n, part in enumerate(_WRITTEN.split(text)):
            is_mark = n % 2 == 1 and self._backticks % 2 == 0
            done += self._mark(before + done, part) if is_mark else part
            self._backticks += part.count("`")
        return done

    def _mark(self, before: str, written: str) -> str:
        """Return what stands in the place of `[2]` or `[1, 3]` behind the text `before`: marks, and plain text for numbers
        whose passage does not bear the sentence out."""
        sentence = SENTENCE_END.split(_MARKS.sub("", before).rstrip())[-1].strip(" \t*#>-•") if self.given else ""
        bound = {number: self._cited(sentence, int(number)) for number in re.findall(r"\d+", written)}
        if not any(bound.values()):
            return written if "," in written else f"\\{written}"
        return "".join(dict.fromkeys(f"[{n}]" if n else f"\\[{number}]" for number, n in bound.items()))

    def _cited(self, sentence: str, number: int) -> int | None:
        """Return the source's number in the answer, None when the passage does not bear the sentence out."""
        if not self.given or not 1 <= number <= len(self.given):
            return None
        passage = self.given[number - 1]
        quote = supporting(sentence, passage)
        found = {"type": "search_result_location", "source": passage.url, "title": passage.title, "cited_text": quote}
        cited = self.book.cite(found) if quote else None
        if cited is None:
            return None
        n, citation = cited
        self._new += [Cited(citation)] if citation is not None else []
        return n


def supporting(sentence: str, passage: Passage) -> str:
    """Return the words of a passage that bear a sentence out, "" when it does not: a paragraph, or all of it."""

    def rank(text: str) -> int:
        return _RANKS.get(check(sentence, [text, passage.title]).verdict, _UNSUPPORTED)

    whole = " ".join(passage.paragraphs)
    if rank(whole) == _UNSUPPORTED:
        return ""
    words = set(_WORD.findall(fold(sentence)))
    nearest = sorted(passage.paragraphs, key=lambda text: -len(words.intersection(_WORD.findall(fold(text)))))[:_NEAREST]
    best = min(nearest, key=rank)
    return best if rank(best) != _UNSUPPORTED else whole
