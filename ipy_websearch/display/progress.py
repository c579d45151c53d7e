"""The state of an answer as it is shown: built from the events of a run, or from a finished `Answer`. Pure, no output.

`AnswerView` holds what a reader may see at this moment, in the order in which it came: text and, between it, one line for
each tool call. Rendering is `answers`' task, so that a test can ask the view and the renderer apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ipy_websearch import events as ev
from ipy_websearch.display import money
from ipy_websearch.display.links import host_of, short_address
from ipy_websearch.display.words import one_line
from ipy_websearch.results import Answer, Citation, Panel
from ipy_websearch.settings import OFFLINE_MODEL
from ipy_websearch.text import shorten
from ipy_websearch.usage import LimitName

State = Literal["running", "finished", "interrupted", "failed"]


@dataclass(slots=True)
class Prose:
    """Text of the model, as much of it as has come."""

    text: str


@dataclass(slots=True)
class Line:
    """One line on what happens: a tool call (with its `status`), a notice, or, in full detail, a request or reply.

    `subject` are the words by which a tool's summary is known to say what the call was about.
    """

    text: str
    kind: Literal["tool", "notice", "step"]
    status: Literal["running", "done", "failed"] = "done"
    subject: str = ""

    def shown_at(self, feedback: int) -> bool:
        """Whether the line belongs to a level of detail; 0: none does, 1: tool calls and notices, 2: all."""
        return feedback > 1 or (feedback == 1 and self.kind != "step")


Item = Prose | Line


@dataclass(slots=True)
class AnswerView:
    """What is shown of an answer; `apply` takes the run's events, `of` a finished answer."""

    question: str = ""
    items: list[Item] = field(default_factory=list)
    state: State = "running"
    answer: Answer | None = None
    model: str = ""
    limit: LimitName | None = None
    limit_detail: str = ""
    failure: BaseException | None = None
    notices: list[str] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    citations: list[Citation] = field(default_factory=list)
    _calls: dict[str, Line] = field(default_factory=dict)
    _kept: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, answer: Answer) -> AnswerView:
        """Return the view of a finished answer."""
        view = cls(answer.question)
        view.apply(ev.Finished(answer))
        return view

    # --- what there is to show --------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The answer's Markdown: the finished text, or what has come of it."""
        if self.answer is not None:
            return self.answer.text
        return "".join(item.text for item in self.items if isinstance(item, Prose)).strip()

    @property
    def running(self) -> bool:
        """Whether more is to come."""
        return self.state == "running"

    @property
    def offline(self) -> bool:
        """Whether the built-in model answers."""
        return self.answer.offline if self.answer is not None else self.model == OFFLINE_MODEL

    @property
    def addresses(self) -> dict[int, str]:
        """Source number → address, for the marks in the text."""
        return {citation.n: citation.url for citation in reversed(self.citations)}

    @property
    def tools(self) -> list[Line]:
        """The lines of the tool calls, under way and done, in the order in which they began."""
        return [item for item in self.items if isinstance(item, Line) and item.kind == "tool"]

    def lines(self, feedback: int) -> list[Item]:
        """Return text and lines in order, the lines of a level of detail."""
        return [item for item in self.items if isinstance(item, Prose) or item.shown_at(feedback)]

    # --- what happens -----------------------------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> list[Item]:
        """Take an event in; return the items that it added or changed (for a text piece, the piece alone)."""
        match event:
            case ev.TextDelta(text):
                return [self._write(text)]
            case ev.ToolStarted():
                return [self._began(event)]
            case ev.ToolFinished():
                return [self._ended(event)]
            case ev.Notice(text):
                self.notices.append(text)
                return [self._add(Line(one_line(text), "notice"))]
            case ev.LimitReached(limit, detail):
                self.limit, self.limit_detail = limit, detail
                return [self._add(Line(one_line(detail) or f"limit reached: {limit}", "notice"))]
            case ev.Cited(citation):
                self.citations.append(citation)
                return []
            case _:
                return self._stepped(event)

    def _stepped(self, event: ev.Event) -> list[Item]:
        match event:
            case ev.ModelRequested(step, model):
                self.model = model
                self._kept = (len(self.items), len(self.citations))
                final = " (the last one allowed)" if event.final else ""
                return [self._add(Line(f"request {step} to {one_line(model)}{final}", "step"))]
            case ev.ModelResponded():
                return [self._add(Line(_reply_line(event), "step"))]
            case ev.Retracted():
                return self._retract()
            case ev.Finished(answer):
                self.finish(answer)
                return []
            case _:
                return []

    def finish(self, answer: Answer) -> None:
        """Take in the finished answer; the event `Finished` does the same."""
        self._finish(answer, "interrupted" if answer.limit == "interrupted" else "finished")

    def error(self, exc: BaseException) -> None:
        """Note that the run broke off; what `exc.partial` holds is shown."""
        self.failure = exc
        partial = getattr(exc, "partial", None)
        self._finish(partial if isinstance(partial, Answer) else None, "failed")

    def interrupted(self, partial: Answer | None = None) -> None:
        """Note that the user stopped the run; `partial` is the answer so far, with what it cost."""
        self._finish(partial, "interrupted")

    def _finish(self, answer: Answer | None, state: State) -> None:
        self.state = state
        for line in self._calls.values():
            if line.status == "running":
                line.status, line.text = "failed", f"{line.text} (stopped)"
        if answer is None:
            return
        self.answer = answer
        self.model, self.limit = answer.model, answer.limit or self.limit
        self.citations, self.panels = list(answer.citations), list(answer.panels)
        self.notices = list(dict.fromkeys((*answer.notices, *self.notices)))

    def _write(self, text: str) -> Prose:
        if self.items and isinstance(self.items[-1], Prose):
            self.items[-1].text += text
        else:
            self.items.append(Prose(text))
        return Prose(text)

    def _add(self, line: Line) -> Line:
        self.items.append(line)
        return line

    def _began(self, event: ev.ToolStarted) -> Line:
        verb, subject = call_words(event.name, event.input)
        known_by = host_of(event.input["url"]) if verb in ("reading", "mapping") else subject[:60]
        line = Line(f"{verb}: {subject}" if subject else verb, "tool", "running", known_by)
        self._calls[event.id] = line
        return self._add(line)

    def _ended(self, event: ev.ToolFinished) -> Line:
        line = self._calls.get(event.id) or self._add(Line("", "tool"))
        assert isinstance(line, Line)
        summary = shorten(one_line(event.summary), 160)
        line.status = "failed" if event.is_error else "done"
        known = not line.subject or line.subject in summary
        line.text = summary if known else f"{line.text.partition(': ')[2] or line.text} — {summary}"
        if event.seconds >= 0.05:
            line.text += f" ({money.seconds(event.seconds)})"
        if event.panel is not None:
            self.panels.append(event.panel)
        return line

    def _retract(self) -> list[Item]:
        """Drop what the request under way has shown."""
        items, citations = self._kept
        dropped = [item for item in self.items[items:] if isinstance(item, Prose)]
        self.items[items:] = [item for item in self.items[items:] if isinstance(item, Line) and item.kind != "tool"]
        del self.citations[citations:]
        return [self._add(Line("the connection broke; this passage begins anew", "notice"))] if dropped else []


def call_words(name: str, given: Any) -> tuple[str, str]:
    """Return (verb, subject) for a tool call: ("searching", "moons of Mars"), ("reading", "example.com/a")."""
    given = given if isinstance(given, Mapping) else {"input": given}  # a model can call a tool with anything
    query, url = given.get("query"), given.get("url")
    if isinstance(query, str):
        return "searching", shorten(one_line(query), 100)
    if isinstance(url, str):
        return "mapping" if name.endswith("_map") else "reading", short_address(url, 80)
    if name == "read_research":
        path = next((value for value in given.values() if isinstance(value, str)), "")
        return "reading research", shorten(one_line(path), 100)
    details = json.dumps(dict(given), ensure_ascii=False, default=str) if given else ""
    return f"calling {one_line(name)}", shorten(one_line(details), 100)


def limit_line(limit: LimitName, detail: str = "") -> str:
    """Return how a limit cut the answer short: "stopped at max_searches = 5: answered from what was found"."""
    if limit == "interrupted":
        return "interrupted: this is what was there"
    what = one_line(detail).removeprefix("limit reached: ").rstrip(".") or {"timeout": "the time limit"}.get(limit, limit)
    return f"stopped at {what}: answered from what was found"


def _reply_line(event: ev.ModelResponded) -> str:
    usage = event.usage
    tokens = f"{usage.total_input_tokens:,} tokens in, {usage.output_tokens:,} out"
    cached = f" ({usage.cache_read_tokens:,} from the cache)" if usage.cache_read_tokens else ""
    return f"reply {event.step}: {tokens}{cached}, {money.seconds(event.seconds)}, {event.stop_reason or 'broken off'}"
