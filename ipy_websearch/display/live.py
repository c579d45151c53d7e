"""Shows an answer while it is written: one display that is updated in place, or plain text streamed to a terminal.

A notebook gets at most 10 updates a second. The last one replaces all, so that the saved notebook holds the finished answer
alone; between events a clock keeps the line of seconds alive. A terminal cannot update what it has printed (terminal IPython
prints every update anew), so text, tool calls, sources and costs are written once, in the order in which they come.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Literal

from ipy_websearch.display.answer import AnswerView, Item, Line, answer_view, labels, offline_help
from ipy_websearch.display.formatters import is_terminal
from ipy_websearch.display.render import render
from ipy_websearch.display.text import Terminal, one_line, prose
from ipy_websearch.events import Event
from ipy_websearch.results import Answer

INTERVAL_S = 0.12
"""The least time between two updates; with the last one, which never waits, there are at most 10 in any second."""
_CLOCK_S = 1.0
_SHARE = 4
"""An update that was hard to render is followed by so many times its own duration, or a hostile text would take the kernel."""

Spent = Callable[[], Decimal | None]


class LiveAnswer:
    """One answer on its way to the reader: `show` each event, then call `finish` once.

    `feedback` 0 shows the result only, 1 tool calls, notices and costs too, 2 every request and reply. `spent` returns the US
    dollars that the answer has cost so far. `introduce` the first offline answer: it says where its passages come from.
    """

    def __init__(self, shell: Any, *, feedback: int = 1, spent: Spent = Decimal, introduce: bool = False) -> None:
        self.view = AnswerView(introduce)
        self._screen = _Notebook(shell, self.view, feedback, spent) if is_notebook(shell) else _Terminal(self.view, feedback)

    def show(self, event: Event) -> None:
        """Take in one event of the run; `Finished` does what `finish` does."""
        with self._screen.lock:
            items = self.view.apply(event)
            if self.view.running:
                self._screen.changed(items)
            else:
                self._screen.ended()

    def finish(self, answer: Answer | None, state: Literal["interrupted", "failed"] | None = None) -> None:
        """Show the finished answer, unless it is shown already; with a `state`, what there is of one that was stopped by the
        user, or that broke off with an error about to be raised."""
        with self._screen.lock:
            if state or self.view.answer is not answer:
                self.view.finish(answer, state)
                self._screen.ended()


def is_notebook(shell: Any) -> bool:
    """Say whether the shell's displays can be updated in place, rather than being printed one below the other."""
    if shell is None or is_terminal(shell):
        return False
    publisher = getattr(shell, "display_pub", None)
    return publisher is not None and type(publisher).__name__ != "DisplayPublisher"  # IPython's own prints text/plain


class _Notebook:
    """Publishes the view under one display id. `lock` guards the view, since a thread sends what was held back."""

    def __init__(self, shell: Any, view: AnswerView, feedback: int, spent: Spent) -> None:
        self.lock = threading.RLock()
        self._shell, self._view, self._feedback, self._spent = shell, view, feedback, spent
        self._display_id = uuid.uuid4().hex
        self._sent_at = 0.0
        self._pause_s = 0.0
        self._is_stale = False
        self._over = threading.Event()

    def changed(self, items: Sequence[Item] = ()) -> None:
        """Show the view now, or as soon as the pause is over."""
        self._is_stale = True
        if not self._sent_at:
            # ipykernel finds the cell that a display belongs to in a context variable, which a thread does not inherit
            clock = contextvars.copy_context().run
            threading.Thread(target=clock, args=(self._tick,), name="ipy_websearch display", daemon=True).start()
        if time.monotonic() >= self._sent_at + self._pause_s:
            self._send()

    def ended(self) -> None:
        """Show the last state; a failure before anything was shown leaves the page to the error."""
        self._over.set()
        if self._sent_at or self._view.state != "failed" or self._view.items or self._view.answer is not None:
            self._send()

    def _tick(self) -> None:
        """Show what was held back, and the seconds that pass."""
        while not self._over.wait(INTERVAL_S):
            with self.lock:
                idle_s = time.monotonic() - self._sent_at
                due = self._is_stale or (idle_s >= _CLOCK_S and self._feedback > 0)
                if due and idle_s >= self._pause_s and not self._over.is_set():
                    self._send()

    def _send(self) -> None:
        start = time.monotonic()
        view = answer_view(self._view, feedback=self._feedback, spent=self._spent())
        forms = {"text/html": render("answer", "html", view), "text/plain": render("answer", "text", view)}
        if self._view.answer is not None:
            forms["text/markdown"] = render("answer", "markdown", view)
        is_update, self._sent_at, self._is_stale = self._sent_at > 0, time.monotonic(), False
        self._pause_s = max(INTERVAL_S, _SHARE * (self._sent_at - start))
        self._shell.display_pub.publish(forms, {}, transient={"display_id": self._display_id}, update=is_update)


class _Terminal:
    """Writes to standard output as it comes, and nothing twice; text in lines as wide as the terminal."""

    def __init__(self, view: AnswerView, feedback: int) -> None:
        self.lock = threading.RLock()
        self._view, self._feedback = view, feedback
        self._terminal = Terminal.here()
        self._in_prose = False
        self._rest = ""  # of a paragraph
        self._end = ""  # the last two characters written

    def changed(self, items: Sequence[Item]) -> None:
        """Write what was added."""
        for item in items:
            if isinstance(item, str):
                self._prose(prose(item))
            elif item.shown_at(self._feedback):
                self._block(self._terminal.faint(self._terminal.wrap(str(item))), gap=self._in_prose)

    def ended(self) -> None:
        """Write what stands under the text, or the whole answer when none of its text was streamed."""
        view, terminal = self._view, self._terminal
        shown = answer_view(view, feedback=self._feedback)
        streamed = "".join(item for item in view.items if isinstance(item, str))
        if streamed:
            told = [label for label in labels(view) if not (view.offline and "No model read these" in streamed)]
            self._block("\n".join(map(terminal.label, told)))
            self._block(terminal.markdown(offline_help(view)))
            said = {item.text for item in view.items if isinstance(item, Line)}
            rest = [remark for remark in shown.get("remarks", ()) if one_line(remark) not in said]
            self._block(render("tail", "text", {**shown, "remarks": rest}, terminal) if view.answer else "")
        elif view.answer is not None:
            self._block(render("answer", "text", shown, terminal))

    def _prose(self, text: str) -> None:
        """Write the lines that are full; what may still change (the last line, a table, open bold or code) waits."""
        if not self._in_prose:
            text = text.lstrip("\n")
            self._write("\n" if self._end and text else "")
            self._in_prose = bool(text)
        if not self._terminal.width:
            self._write(text)
            return
        whole, gap, self._rest = (self._rest + text).rpartition("\n\n")
        if whole.count("```") % 2:
            whole, self._rest = "", whole + gap + self._rest
        if whole.strip():
            self._write(f"{self._terminal.markdown(whole)}\n\n")
        *lines, last = self._terminal.wrap(self._rest).split("\n")
        full = "\n".join(lines)
        if lines and not set("|`") & set(full) and full.count("**") % 2 == 0:
            self._write(f"{self._terminal.style(full)}\n")
            self._rest = last + self._rest[len(self._rest.rstrip(" ")) :]  # wrapping drops a blank at the end

    def _block(self, text: str, *, gap: bool = True) -> None:
        if not text:
            return
        self._write(self._terminal.markdown(self._rest))
        self._write("\n" if self._end[-1:] not in ("", "\n") else "")
        self._write("\n" if gap and self._end not in ("", "\n\n") else "")
        self._write(text + "\n")
        self._in_prose, self._rest = False, ""

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:  # a terminal that is not UTF-8
            encoding = sys.stdout.encoding or "ascii"
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
        self._end = (self._end + text)[-2:]
