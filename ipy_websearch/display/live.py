"""Shows an answer while it is written: one display that is updated in place, or plain text streamed to a terminal.

A notebook gets at most 10 updates a second. The last one replaces all, so that the saved notebook holds the finished answer
alone; between events a clock keeps the line of seconds alive. A terminal cannot update what it has printed (terminal IPython
prints every update anew), so text, tool calls, sources and costs are written once, in the order in which they come.
"""

from __future__ import annotations

import contextvars
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Literal

from ipy_websearch.display.answer import (
    AnswerView,
    Item,
    Line,
    answer_text,
    bundle,
    label_text,
    labels,
    offline_help,
    tail_text,
)
from ipy_websearch.display.formatters import is_terminal
from ipy_websearch.display.text import Terminal, prose
from ipy_websearch.events import Event
from ipy_websearch.results import Answer

INTERVAL_S = 0.12
"""The least time between two updates; with the last one, which never waits, there are at most 10 in any second."""
_CLOCK_S = 1.0
_SHARE = 4
"""An update that was hard to render is followed by so many times its own duration, or a hostile text would take the kernel."""

_WORDS = re.compile(r"(?<=\s)(?=\S)|(?<=\n)")

Spent = Callable[[], Decimal | None]


class LiveAnswer:
    """One answer on its way to the reader: `show` each event, then call `finish` or `stop` once.

    `feedback` 0 shows the result only, 1 tool calls, notices and costs too, 2 every request and reply. `spent` returns the US
    dollars that the answer has cost so far. `introduce` the first offline answer: it says where its passages come from.
    """

    def __init__(
        self, shell: Any, question: str, *, feedback: int = 1, spent: Spent = Decimal, introduce: bool = False
    ) -> None:
        self.view = AnswerView(question, introduce=introduce)
        self._lock = threading.RLock()
        notebook = is_notebook(shell)
        self._screen = _Notebook(shell, self.view, feedback, self._lock, spent) if notebook else _Terminal(self.view, feedback)

    def show(self, event: Event) -> None:
        """Take in one event of the run; `Finished` does what `finish` does."""
        with self._lock:
            items = self.view.apply(event)
            if self.view.running:
                self._screen.changed(items)
            else:
                self._screen.ended()

    def finish(self, answer: Answer) -> None:
        """Show the finished answer, unless it is shown already."""
        with self._lock:
            if self.view.answer is not answer:
                self.view.finish(answer)
                self._screen.ended()

    def stop(self, state: Literal["interrupted", "failed"], partial: Answer | None = None) -> None:
        """Show what there is of an answer that the user stopped, or that broke off with an error about to be raised."""
        with self._lock:
            self.view.finish(partial, state)
            self._screen.ended()


def is_notebook(shell: Any) -> bool:
    """Say whether the shell's displays can be updated in place, rather than being printed one below the other."""
    if shell is None or is_terminal(shell):
        return False
    publisher = getattr(shell, "display_pub", None)
    return publisher is not None and type(publisher).__name__ != "DisplayPublisher"  # IPython's own prints text/plain


class _Notebook:
    """Publishes the view under one display id. `lock` guards the view, since a timer sends what was held back."""

    def __init__(self, shell: Any, view: AnswerView, feedback: int, lock: threading.RLock, spent: Spent) -> None:
        self._shell, self._view, self._feedback, self._lock, self._spent = shell, view, feedback, lock, spent
        self._display_id = uuid.uuid4().hex
        self._sent_at: float | None = None
        self._pause_s = INTERVAL_S
        self._timer: threading.Timer | None = None
        self._due = 0.0
        # ipykernel finds the cell that a display belongs to in a context variable, which a timer's thread does not inherit
        self._context = contextvars.copy_context()

    def changed(self, items: Sequence[Item]) -> None:
        """Show the view now, or as soon as the pause is over."""
        wait = 0.0 if self._sent_at is None else self._sent_at + self._pause_s - time.monotonic()
        if wait <= 0:
            self._send()
        elif self._timer is None or self._due > time.monotonic() + wait:
            self._wake_in(wait)

    def ended(self) -> None:
        """Show the last state; a failure before anything was shown leaves the page to the error."""
        self._stop_timer()
        view = self._view
        if self._sent_at is not None or view.state != "failed" or view.items or view.answer is not None:
            self._send()

    def _wake_in(self, wait_s: float) -> None:
        self._stop_timer()
        self._due = time.monotonic() + wait_s
        # A copy, since two timers may wait for the lock at once, and a context is entered by one at a time.
        self._timer = threading.Timer(wait_s, self._context.copy().run, (self._woken,))
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError:  # no thread is to be had; the next event tries again, and the end is shown in any case
            self._timer = None

    def _woken(self) -> None:
        with self._lock:
            if self._view.running and self._timer is not None:
                self._send()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self) -> None:
        start = time.monotonic()
        forms = bundle(self._view, self._feedback, self._spent())
        again, self._sent_at = self._sent_at is not None, time.monotonic()
        self._pause_s = max(INTERVAL_S, _SHARE * (self._sent_at - start))
        self._shell.display_pub.publish(forms, {}, transient={"display_id": self._display_id}, update=again)
        if self._view.running and self._feedback:
            self._wake_in(max(_CLOCK_S, self._pause_s))


class _Terminal:
    """Writes to standard output as it comes, and nothing twice; text is wrapped word by word."""

    def __init__(self, view: AnswerView, feedback: int) -> None:
        self._view, self._feedback = view, feedback
        self._terminal = Terminal.here()
        self._said: set[str] = set()
        self._last = ""  # what was written last: "prose", "line" or nothing
        self._column = 0
        self._word = ""
        self._bold = False

    def changed(self, items: Sequence[Item]) -> None:
        """Write what was added."""
        for item in items:
            if isinstance(item, Line):
                if item.shown_at(self._feedback):
                    self._block(self._terminal.faint(self._terminal.wrap(str(item))), gap=self._last == "prose")
                    self._said.add(item.text)
            else:
                self._prose(prose(item))

    def ended(self) -> None:
        """Write what stands under the text, or the whole answer when none of its text was streamed."""
        view = self._view
        if not any(isinstance(item, str) for item in view.items):
            if view.answer is not None:
                self._block(answer_text(view, feedback=self._feedback, terminal=self._terminal))
            return
        self._end_prose()
        told = [label for label in labels(view, self._feedback) if not (view.offline and "No model read these" in self._raw())]
        self._block("\n".join(label_text(label, self._terminal) for label in told))
        self._block(self._terminal.markdown(offline_help(view)))
        self._block(tail_text(view, self._feedback, self._terminal, frozenset(self._said)))

    def _raw(self) -> str:
        return "".join(item for item in self._view.items if isinstance(item, str))

    def _prose(self, text: str) -> None:
        if self._last != "prose":
            text = text.lstrip("\n")
            self._write("\n" if self._last and text else "")
        if not text:
            return
        self._last = "prose"
        if not self._terminal.width:
            self._write(text)
            return
        self._word += text
        *whole, self._word = _WORDS.split(self._word)
        while whole:
            if whole[0].startswith("|") and not self._column:  # a table is laid out when its last line has come
                table, gap, rest = "".join((*whole, self._word)).partition("\n\n")
                *whole, self._word = _WORDS.split(rest) if gap else [table]
                self._write(self._terminal.markdown(table) + gap if gap else "")
            else:
                self._write_word(whole.pop(0))

    def _write_word(self, word: str) -> None:
        """Write a word and the white space behind it; `**` switches bold."""
        pieces = word.split("**")
        if self._column and self._column + len("".join(pieces).rstrip()) > self._terminal.width:
            self._write("\n")
        for n, piece in enumerate(pieces):
            if n:
                self._bold = not self._bold
                self._write("\x1b[1m" if self._bold else "\x1b[22m", columns=0)
            self._write(piece)

    def _end_prose(self) -> None:
        if self._word.startswith("|") and not self._column:
            self._write(self._terminal.markdown(self._word))
        elif self._word:
            self._write_word(self._word)
        if self._bold:
            self._write("\x1b[22m", columns=0)
        self._word, self._bold = "", False

    def _block(self, text: str, *, gap: bool = True) -> None:
        if not text:
            return
        self._end_prose()
        self._write("\n" if self._column else "")
        self._write(("\n" if gap and self._last else "") + text + "\n")
        self._last = "line"

    def _write(self, text: str, columns: int | None = None) -> None:
        if not text:
            return
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:  # a terminal that is not UTF-8
            encoding = sys.stdout.encoding or "ascii"
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
        self._column = 0 if text.endswith("\n") else self._column + (len(text) if columns is None else columns)
