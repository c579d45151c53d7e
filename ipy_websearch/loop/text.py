"""Collects the text of an answer as it is written, and puts citation marks where they belong. Pure."""

from __future__ import annotations


class AnswerText:
    """The Markdown so far. Each method returns what a reader should see next ("" for nothing yet).

    Blank space at the end is held back until more text comes, so that a mark stands right behind the words that it
    belongs to. Text of a later step begins a new paragraph.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._held = ""
        self._begin = False

    def __str__(self) -> str:
        return "".join(self._parts).strip()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def step(self) -> None:
        """Say that a new step begins."""
        self._begin, self._held = True, ""

    def write(self, text: str) -> str:
        """Take text in."""
        if self._begin:
            text = text.lstrip()
        body = text.rstrip()
        if not body:
            self._held += text
            return ""
        lead = self._held
        if self._begin:
            lead, self._begin = "\n\n" if self._parts else "", False
        self._held = text[len(body) :]
        return self._show(lead + body)

    def mark(self, marks: str) -> str:
        """Put citation marks behind the last word; the space after it stays after the marks."""
        return self._show(marks) if marks and self._parts else ""

    def _show(self, text: str) -> str:
        self._parts.append(text)
        return text


def no_answer(why: str) -> str:
    """Return the Markdown that stands in the place of an answer."""
    return f"*There is no answer: {why}.*"
