"""Shows an answer while it is written: one display that is updated in place, or plain text streamed to a terminal.

A notebook gets at most 10 updates a second; the newest state is never held back longer than that, and the last one replaces
all, so that the saved notebook holds the finished answer alone. A terminal cannot update what it has printed (terminal
IPython prints every update anew), so text, tool calls, sources and costs are written once, in the order in which they come.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

from ipy_websearch.display.answer_text import answer_markdown, answer_text, tail_text
from ipy_websearch.display.answers import Drafts, answer_html, line_text
from ipy_websearch.display.facts import labels
from ipy_websearch.display.markdown import to_plain
from ipy_websearch.display.progress import AnswerView, Item, Prose
from ipy_websearch.events import Event
from ipy_websearch.results import Answer
from ipy_websearch.text import visible

INTERVAL_S = 0.12
"""The least time between two updates; with the last one, which never waits, there are at most 10 in any second."""
_SHARE = 4
"""An update that was hard to render is followed by so many times its own duration, or a hostile text would take the kernel."""


class _Screen(Protocol):
    """Where an answer is shown."""

    def changed(self, items: Sequence[Item]) -> None:
        """The view has taken in an event, which added or changed `items`."""

    def ended(self) -> None:
        """The view has its final state."""


class LiveAnswer:
    """One answer on its way to the reader: `show` each event, then call `finish`, `fail` or `interrupted` once.

    `feedback` 0 shows the result only, 1 tool calls, notices and costs too, 2 every request and reply.
    """

    def __init__(self, shell: Any, question: str, *, feedback: int = 1) -> None:
        self.view = AnswerView(question)
        self._lock = threading.RLock()
        self._ended = False
        self._screen: _Screen
        if is_notebook(shell):
            self._screen = _Notebook(shell, self.view, feedback, self._lock)
        else:
            self._screen = _Terminal(self.view, feedback)

    def show(self, event: Event) -> None:
        """Take in one event of the run; `Finished` does what `finish` does."""
        with self._lock:
            items = self.view.apply(event)
            if self.view.running:
                self._screen.changed(items)
            else:
                self._end()

    def finish(self, answer: Answer) -> None:
        """Show the finished answer, unless it is shown already."""
        with self._lock:
            if not (self._ended and self.view.answer is answer):
                self.view.finish(answer)
                self._end()

    def fail(self, exc: BaseException) -> None:
        """Show what there is of an answer that broke off with `exc`, which is about to be raised."""
        with self._lock:
            self.view.error(exc)
            self._end()

    def interrupted(self, partial: Answer | None = None) -> None:
        """Show what there is of an answer that the user stopped."""
        with self._lock:
            self.view.interrupted(partial)
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._screen.ended()


def is_notebook(shell: Any) -> bool:
    """Say whether the shell's displays can be updated in place, rather than being printed one below the other."""
    if shell is None or any(kind.__name__ == "TerminalInteractiveShell" for kind in type(shell).__mro__):
        return False
    publisher = getattr(shell, "display_pub", None)
    return publisher is not None and type(publisher).__name__ != "DisplayPublisher"  # IPython's own prints text/plain


class _Notebook:
    """Publishes the view under one display id. `lock` guards the view, since a timer sends what was held back."""

    def __init__(self, shell: Any, view: AnswerView, feedback: int, lock: threading.RLock) -> None:
        self._shell = shell
        self._view = view
        self._feedback = feedback
        self._lock: Any = lock
        self._drafts = Drafts()
        self._display_id = uuid.uuid4().hex
        self._sent_at: float | None = None
        self._pause_s = INTERVAL_S
        self._timer: threading.Timer | None = None
        # ipykernel finds the cell that a display belongs to in a context variable, which a timer's thread does not inherit
        self._context = contextvars.copy_context()

    def changed(self, items: Sequence[Item]) -> None:
        due = 0.0 if self._sent_at is None else self._sent_at + self._pause_s - time.monotonic()
        if due <= 0:
            self._send()
        elif self._timer is None:
            self._timer = threading.Timer(due, self._context.run, (self._send_held,))
            self._timer.daemon = True
            try:
                self._timer.start()
            except RuntimeError:  # no thread is to be had; the next event tries again, and the end is shown in any case
                self._timer = None

    def ended(self) -> None:
        view = self._view
        if self._sent_at is None and view.state == "failed" and not view.items and view.answer is None:
            return  # nothing was shown; the error says it all
        self._send()

    def _send_held(self) -> None:
        with self._lock:
            if self._view.running and self._timer is not None:
                self._send()

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        start = time.monotonic()
        bundle = {
            "text/html": answer_html(self._view, feedback=self._feedback, drafts=self._drafts),
            "text/markdown": answer_markdown(self._view, feedback=self._feedback, drafts=self._drafts),
            "text/plain": answer_text(self._view, feedback=self._feedback),
        }
        again = self._sent_at is not None
        self._sent_at = time.monotonic()
        self._pause_s = max(INTERVAL_S, _SHARE * (self._sent_at - start))
        self._shell.display_pub.publish(bundle, {}, transient={"display_id": self._display_id}, update=again)


class _Terminal:
    """Writes to standard output as it comes, and nothing twice."""

    def __init__(self, view: AnswerView, feedback: int) -> None:
        self._view = view
        self._feedback = feedback
        self._labels: list[str] = []
        self._said: set[str] = set()
        self._last = ""  # what was written last: "prose", "line" or nothing
        self._mid_line = False

    def changed(self, items: Sequence[Item]) -> None:
        for item in items:
            if isinstance(item, Prose):
                self._prose(item.text)
            elif item.shown_at(self._feedback):
                self._line(line_text(item))
                self._said.add(item.text)

    def ended(self) -> None:
        view = self._view
        if self._last != "prose" and not any(isinstance(item, Prose) for item in view.items):
            if view.answer is not None:
                self._block(answer_text(view, feedback=self._feedback))
            return
        self._say_labels()
        self._block(tail_text(view, self._feedback, said=self._said))

    def _say_labels(self) -> None:
        new = [label for label in labels(self._view, self._feedback) if label not in self._labels]
        self._labels += new
        self._block("\n".join(new))

    def _prose(self, text: str) -> None:
        text = visible(text)
        if self._last != "prose":
            text = text.lstrip("\n")
            self._write("\n" if self._last else "")
        if text:
            self._write(text)
            self._last = "prose"

    def _line(self, text: str) -> None:
        self._end_line()
        self._write(("\n" if self._last == "prose" else "") + text + "\n")
        self._last = "line"

    def _block(self, text: str) -> None:
        if text:
            self._end_line()
            self._write(("\n" if self._last else "") + to_plain(text) + "\n")
            self._last = "line"

    def _end_line(self) -> None:
        if self._mid_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        if not text:
            return
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:  # a terminal that is not UTF-8
            encoding = sys.stdout.encoding or "ascii"
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
        self._mid_line = not text.endswith("\n")
