"""Shows an answer while it is written and when it is finished.

`AnswerView` is the visible state of an answer, built from the events of a run or from a finished `Answer`; it is pure. Labels
that qualify the answer (offline, cut short, interrupted, broken off) stand above it.

`live_answer` shows it while it is written. A notebook gets one display, updated at most 10 times a second; the last update
replaces all, so that the saved notebook holds only the finished answer. Between events, a clock updates the line of seconds.
A terminal cannot update what it has printed (terminal IPython prints every update anew), so text, tool calls, sources
and costs are written once, in the order in which they come.
"""

from __future__ import annotations

import contextvars
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

from ipy_websearch import results as ev
from ipy_websearch.display.render import Terminal, View, bundle, cost, iso, render, words
from ipy_websearch.loop.ask import STOPPED
from ipy_websearch.loop.table import TABLE_TOOL
from ipy_websearch.model.offline.passages import LABEL
from ipy_websearch.results import Answer, Citation, Claim, Panel, Step
from ipy_websearch.settings import OFFLINE_MODEL
from ipy_websearch.text import duration, one_line, place_of, safe_href, short_address, shorten, usd, visible

# The most characters of all panels in the footer, so that the notebook stays small.
PANELS_CHARACTERS = 16_000
# The least time between two updates; with the first and the last, which never wait, there are at most 10 in any second.
INTERVAL_S = 0.12
# After an update, the clock pauses for this multiple of its rendering time, or a hostile text would occupy the kernel.
_SHARE = 4
# The verb of a tool call, by the name of the tool, or else of its main field.
_VERBS = {
    "query": "searching",
    "url": "reading",
    "path": "reading research",
    "firecrawl_map": "mapping",
    TABLE_TOOL: "writing the table",
}
_STOPS = {"end_turn": "wrote the answer", "tool_use": "called tools", "pause_turn": "paused", "refusal": "declined to answer"}
# Where a part of a text in Markdown ends: at a blank line, and before the next item of a list.
_BREAK = r"\n\n+|\n(?=[ \t]*(?:[-*+]|\d+\.) )"
# The endings other than a finished answer.
End = Literal["interrupted", "failed"]


@dataclass(slots=True)
class Item:
    """A text of the model (without a glyph), or a line between texts: a tool call (⋯ while it runs, then ✓ or ✗), a remark (·).

    `step` is the number of its model request, `id` the id of its tool call.
    """

    text: str
    glyph: str = ""
    step: int = 0
    id: str = ""


@dataclass(slots=True)
class AnswerView:
    """The visible state of an answer: `apply` takes the events of its run, `finish` its end."""

    items: list[Item] = field(default_factory=list)
    citations: Sequence[Citation] = ()
    model: str = ""
    step: int = 0
    state: Literal["running", "finished", "interrupted", "failed"] = "running"
    answer: Answer | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def text(self) -> str:
        """The answer's Markdown so far."""
        return (self.answer.text if self.answer else "".join(item.text for item in self.items if not item.glyph)).strip()

    @property
    def offline(self) -> bool:
        """Whether the built-in server answers, and no model."""
        return self.answer.offline if self.answer else self.model == OFFLINE_MODEL

    @property
    def calls(self) -> list[Item]:
        """The running tool calls."""
        return [item for item in self.items if item.glyph == "⋯"]

    def apply(self, event: ev.Event) -> list[Item]:
        """Apply an event; return the items that it added or changed (of a text, only the new piece)."""
        match event:
            case ev.ModelRequested(step, model):
                self.step, self.model = step, model
            case ev.TextDelta(text):
                return [self._write(text)]
            case ev.ToolStarted():
                return [self._line(call_words(event.name, event.input), "⋯", event.id)]
            case ev.ToolFinished():
                return [self._ended(event)]
            case ev.Cited(citation):
                self.citations = [*self.citations, citation]
            case ev.Notice(text) if text not in STOPPED.values():  # these are among the labels
                return [self._line(text)]
            case ev.LimitReached(_, detail):
                return [self._line(f"limit reached: {detail.removeprefix('limit reached: ')}")]
            case ev.Retracted():
                self.items = [item for item in self.items if item.step < self.step or item.glyph]  # a notice says why
            case ev.Rewritten(text, citations):
                self.items, self.citations = [item for item in self.items if item.glyph], citations
                return [self._line("the answer was mended"), self._write(text)]
        return []

    def finish(self, answer: Answer | None, end: End | None = None) -> None:
        """Apply the end: the finished answer, or with an `end` as much of it as arrived."""
        self.state = end or ("interrupted" if answer and answer.limit == "interrupted" else "finished")
        for call in self.calls:
            call.glyph, call.text = "✗", f"{call.text} (stopped)"
        if answer is not None:
            self.answer, self.model, self.citations = answer, answer.model, answer.citations

    def _write(self, text: str) -> Item:
        if not self.items or self.items[-1].glyph or self.items[-1].step != self.step:
            self.items.append(Item("", step=self.step))
        self.items[-1].text += text
        return Item(text)

    def _line(self, text: str, glyph: str = "·", of: str = "") -> Item:
        self.items.append(Item(one_line(text), glyph, self.step, of))
        return self.items[-1]

    def _ended(self, event: ev.ToolFinished) -> Item:
        call = next((call for call in self.calls if call.id == event.id), None) or self._line("")
        summary, subject = shorten(one_line(event.summary), 160), call.text.partition(": ")[2]
        about = "" if subject.split("/")[0][:60] in summary else f"{subject} — "
        took = f" ({duration(event.seconds)})" if event.seconds >= 0.05 else ""
        call.glyph, call.text = "✗" if event.is_error else "✓", f"{about}{summary}{took}"
        return call


def call_words(name: str, given: Any) -> str:
    """Return a description of a tool call: "searching: moons of Mars", "reading: example.com/a", "writing the table"."""
    given = given if isinstance(given, Mapping) else {}  # a model can call a tool with anything
    about = next((key for key in ("query", "url", "path") if isinstance(given.get(key), str)), "")
    verb = _VERBS.get(name) or _VERBS.get(about) or f"calling {one_line(name)}"
    subject = short_address(given[about], 80) if about == "url" else given.get(about, "")
    return ": ".join(filter(None, (verb, shorten(one_line(subject), 100))))


# --- the display data of an answer --------------------------------------------------------------------------------


def remarks(doubtful: Sequence[Claim], notices: Sequence[str]) -> list[str]:
    """Return the remarks on an answer: its doubtful sentences, for readers who see no colours, then the notices."""
    found = [(", ".join(claim.missing) or "this", shorten(one_line(claim.sentence), 200)) for claim in doubtful]
    return [f"its source does not say {one_line(missing)}: “{sentence}”" for missing, sentence in found] + [*notices]


def quoted(citations: Sequence[Citation]) -> Iterator[tuple[Citation, list[str], list[str]]]:
    """Yield each source once, by its number, with its details and its distinct passages.

    The details are its host, its date, and how much of it the model read: ["bbc.co.uk", "2026-11-17", "page read"].
    """
    for _, group in groupby(sorted(citations, key=attrgetter("n")), attrgetter("n")):
        source, *others = group
        read = {"page": "page read", "snippet": "snippet"}[source.read] if safe_href(source.url) else ""
        about = [place_of(source.url), *filter(None, (iso(source.published_date), read))]
        passages = dict.fromkeys(shorten(one_line(citation.cited_text), 600) for citation in (source, *others))
        yield source, about, list(filter(None, passages))


def timeline(trace: Sequence[Step]) -> list[dict[str, Any]]:
    """Return a row for each step: its start and its duration in percent of the whole, and its texts.

    Requests follow one another, the calls of one reply begin together.
    """
    began, calls_from, end = list[float](), 0.0, 0.0
    for step in trace:
        began.append(end if step.kind == "model" else calls_from)
        end = max(end, began[-1] + step.milliseconds)
        calls_from = end if step.kind == "model" else calls_from
    rows, percent = [], 100 / (end or 1.0)
    for start, step in zip(began, trace, strict=True):
        left = min(percent * start, 98.5)
        what = one_line(f"{step.name}: {_STOPS.get(step.detail, step.detail)}".strip(": "))
        rows.append(
            {
                "n": step.n,
                "name": one_line(step.name),
                "kind": "error" if step.is_error else step.kind,
                "what": ("✗ " if step.is_error else "") + shorten(what, 90),
                "start": round(left, 1),
                "width": round(min(max(percent * step.milliseconds, 1.0), 100 - left), 1),
                "time": duration(step.milliseconds / 1000),
                "tokens": f"{step.usage.total_input_tokens:,} → {step.usage.output_tokens:,}" if step.kind == "model" else "",
                "cost": cost(step.cost_usd),
            }
        )
    return rows


def answer_view(shown: AnswerView | Answer, *, spent: Decimal | None = Decimal(0), cards: int = 4) -> View:
    """Return the display data of an answer: `spent` is the cost so far, `cards` the number of unfolded sources."""
    view = AnswerView() if isinstance(shown, Answer) else shown
    if isinstance(shown, Answer):
        view.finish(shown)
    answer, labels = view.answer, words("answer", "label_lines", view).splitlines()
    values: View = {"labels": labels, "cited": {c.n: c for c in reversed(view.citations)}, "offline": view.offline}
    if answer is None:
        return values | {
            "parts": [item for item in view.items if item.glyph != "⋯"],
            "status": words("answer", "status_line", view, time.monotonic() - view.began, usd(spent) if spent else ""),
        }
    doubtful = [claim for claim in answer.checked if claim.verdict in ("unsupported", "partly")]
    notices = [notice for notice in answer.notices if notice not in " ".join((*STOPPED.values(), *labels))]
    return values | {
        "parts": [Item(view.text.replace(LABEL, "").strip())],  # that label is among the labels
        "help": words("answer", "help_text", view),
        "sources": list(quoted(view.citations)),
        "cards": cards,
        "doubtful": doubtful,
        "remarks": remarks(doubtful, notices),
        "timeline": timeline(answer.trace),
        "panels": list(map(panel_view, answer.panels)),
        "longest": PANELS_CHARACTERS // max(len(answer.panels), 1),
        "facts": words("answer", "facts_line", answer, len(doubtful), len(notices)),
        "session": usd(answer.session_cost_usd),
    }


def panel_view(panel: Panel) -> View:
    """Return the display data of a whole panel, with a heading such as "P1 · web_search · brave: moons of Mars"."""
    title = shorten(one_line(panel.title), 100)
    named = (panel.id, "" if title.startswith(panel.tool) else one_line(panel.tool), title, "failed" if panel.is_error else "")
    return {"id": panel.id, "heading": " · ".join(filter(None, named)), "content": visible(panel.content).rstrip()}


# --- while it is written ------------------------------------------------------------------------------------------


class LiveAnswer:
    """Follows a run: call `show` with each event, and `finish` when it ends early. `live_answer` returns one that is seen."""

    def __init__(self) -> None:
        self.view = AnswerView()
        self._lock = threading.RLock()  # the clock of a notebook is a thread

    def show(self, event: ev.Event) -> None:
        """Show one event of the run."""
        if isinstance(event, ev.Finished):
            return self.finish(event.answer)
        with self._lock:
            self._changed(self.view.apply(event))

    def finish(self, answer: Answer | None, end: End | None = None) -> None:
        """Show the finished answer; with an `end`, as much as arrived before the user or an error stopped it."""
        with self._lock:
            self.view.finish(answer, end)
            self._ended()

    def _changed(self, items: Sequence[Item]) -> None:
        """Show what an event added or changed."""

    def _ended(self) -> None:
        """Show the last state."""


def is_notebook(shell: Any) -> bool:
    """Return whether the shell can update a display in place, rather than print each update below the last."""
    # IPython's own publisher prints text/plain
    return type(getattr(shell, "display_pub", None)).__name__ not in ("NoneType", "DisplayPublisher")


def live_answer(shell: Any, *, spent: Callable[[], Decimal | None] = Decimal) -> LiveAnswer:
    """Return what shows an answer in this shell while it arrives; `spent` returns its cost so far, in US dollars."""
    return _NotebookAnswer(shell, spent) if is_notebook(shell) else _TerminalAnswer()


class _NotebookAnswer(LiveAnswer):
    """Publishes the view under one display id: at its first change, then by a clock, and at its end."""

    def __init__(self, shell: Any, spent: Callable[[], Decimal | None]) -> None:
        super().__init__()
        self._shell, self._spent = shell, spent
        self._display_id = uuid.uuid4().hex
        self._sent_at = 0.0
        self._is_stale = False
        self._over = threading.Event()

    def _changed(self, items: Sequence[Item]) -> None:
        """Show the first change at once; the clock shows the others."""
        self._is_stale = True
        if not self._sent_at:
            self._send()
            # ipykernel finds the cell that a display belongs to in a context variable, which a thread does not inherit
            clock = contextvars.copy_context().run
            threading.Thread(target=clock, args=(self._tick,), name="ipy_websearch display", daemon=True).start()

    def _ended(self) -> None:
        """Show the last state, unless the run failed before anything was shown: then the error stands alone."""
        self._over.set()
        if self._sent_at or self.view.state != "failed" or self.view.answer is not None:
            self._send()

    def _tick(self) -> None:
        """Show pending changes, and the passing seconds, until the end."""
        pause_s = INTERVAL_S
        while not self._over.wait(pause_s):
            with self._lock:
                start = time.monotonic()
                if not self._over.is_set() and (self._is_stale or start >= self._sent_at + 1.0):
                    self._send()
                pause_s = max(INTERVAL_S, _SHARE * (time.monotonic() - start))

    def _send(self) -> None:
        types = ("text/html", "text/plain", *(("text/markdown",) if self.view.answer is not None else ()))
        forms = bundle("answer", answer_view(self.view, spent=self._spent()), types)
        is_update = self._sent_at > 0
        self._sent_at = time.monotonic()  # before it is sent: an interrupt meanwhile must not make a second display
        self._is_stale = False
        self._shell.display_pub.publish(forms, {}, transient={"display_id": self._display_id}, update=is_update)


class _TerminalAnswer(LiveAnswer):
    """Writes to standard output as it comes, and nothing twice; text in lines as wide as the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self._terminal = Terminal.here()
        self._rest = ""  # the text that waits: of the paragraph or list item that has not ended
        self._last: Literal["", "line", "text"] = ""

    def _changed(self, items: Sequence[Item]) -> None:
        for item in items:
            if item.glyph:
                self._flush(self._rest)
                self._write(self._terminal.wrap(f"{item.glyph} {item.text}"), "line", gap=self._last == "text")
            else:
                self._flush(*self._split(self._rest + item.text))

    def _ended(self) -> None:
        """Write the sources and costs below the text, or the whole answer when none of its text was streamed."""
        view, shown = self.view, answer_view(self.view)
        streamed = "".join(item.text for item in view.items if not item.glyph).strip()
        if streamed:
            shown["parts"] = [Item(view.text.removeprefix(streamed) if view.answer and view.answer.rows else "")]
            shown["labels"] = [] if view.offline else shown["labels"]  # the text of an offline answer begins with its label
        elif view.answer is None:
            return
        said = [item.text for item in view.items]
        shown["remarks"] = [remark for remark in shown.get("remarks", ()) if one_line(remark) not in said]
        self._flush(self._rest)
        self._write(render("answer", "txt", shown, self._terminal), "text", gap=True)

    def _split(self, text: str) -> tuple[str, str]:
        """Return what can be written of a text, and what waits: finished paragraphs and list items can, and full lines.

        A table, code and open bold wait for their end.
        """
        breaks = (found.start() for found in re.finditer(_BREAK, text))
        end = max((at for at in breaks if text.count("```", 0, at) % 2 == 0), default=0)
        done, rest = text[:end], text[end:]
        if self._terminal.width and "|" not in rest and "```" not in rest:
            full, _, last = self._terminal.wrap(rest).rpartition("\n")
            if full.strip() and last.strip() and full.count("**") % 2 == full.count("`") % 2 == 0:
                return done + full, last + rest[len(rest.rstrip()) :]  # wrapping drops the blanks at the end
        return done, rest

    def _flush(self, text: str, rest: str = "") -> None:
        """Write a text, and keep the rest."""
        self._rest = rest
        self._write(self._terminal.markdown(text), "text", gap=self._last == "line" or text.startswith("\n\n"))

    def _write(self, text: str, kind: Literal["line", "text"], *, gap: bool) -> None:
        if text.strip():
            encoding = sys.stdout.encoding or "utf-8"  # a terminal may not be UTF-8
            print("\n" * (gap and self._last != "") + text.encode(encoding, "replace").decode(encoding), flush=True)
            self._last = kind


def mark_shown(ip: Any, answer: Answer) -> None:
    """Keep the cell from showing as its value an answer that it has shown already.

    IPython restores `sys.displayhook` after each cell.
    """
    hook, show = ip.displayhook, sys.displayhook

    def show_others(value: Any) -> None:
        if value is not answer:
            show(value)
        else:
            hook.update_user_ns(value)
            hook.fill_exec_result(value)

    sys.displayhook = show_others
