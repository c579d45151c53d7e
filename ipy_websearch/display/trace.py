"""`%trace`: what each step of an answer cost and took on a timeline, and the JSON that went out and came back, folded.

The overview leaves out of a request what an earlier one had sent already, so that what is new can be seen; one step alone is
shown whole. A `TraceFrame` is a table of steps like any other and shows itself as a trace; it lives here, above the values,
since it knows HTML.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import pandas as pd

from ipy_websearch.display.answer import timeline
from ipy_websearch.display.html import render
from ipy_websearch.display.text import Terminal, cost, count, grid, one_line, seconds
from ipy_websearch.model.requests import without_marks
from ipy_websearch.results import Answer, Step
from ipy_websearch.text import shorten, visible

OVERVIEW_CHARACTERS = 48_000
"""The most that all JSON of an overview takes of a notebook file."""
PART_CHARACTERS = 6_000
"""The most that one request or response takes of it."""
STEP_CHARACTERS = 200_000
"""The most of one step that is shown; `answer.trace` has all of it."""

LONGEST = 20_000
"""Characters of one text; encrypted content and pictures in base64 say nothing beyond."""


class TraceFrame(pd.DataFrame):
    """Steps of an answer as a DataFrame with the columns of `Answer.steps`, shown as a trace; `.view` says what and how.

    What is made from it (`head`, filters, columns) is a plain DataFrame.
    """

    _metadata = ["view"]
    view: TraceView | None = None

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __reduce__(self) -> Any:
        return pd.DataFrame(self).__reduce__()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the trace as HTML and as plain text."""
        return {} if self.view is None else {"text/html": self.view.html(), "text/plain": self.view.text()}


def trace_frame(answer: Answer, step: int | None = None, *, note: str = "", redact: Callable[[str], str] = str) -> TraceFrame:
    """Return the steps of an answer, or the one with number `step` (from 1); `note` is a line under it."""
    steps = answer.steps
    frame = TraceFrame(steps if step is None else steps[steps["n"] == step].reset_index(drop=True))
    frame.view = TraceView(answer, step, note, redact)
    return frame


class TraceView:
    """What a trace shows: the overview of an answer's steps, or one of them whole. `redact` takes keys out of texts."""

    def __init__(self, answer: Answer, step: int | None, note: str, redact: Callable[[str], str]) -> None:
        self.answer, self.number = answer, step
        self._redact = redact
        self._chosen = [s for s in answer.trace if step is None or s.n == step]
        hint = "%trace 1 shows the JSON of step 1, %trace --step goes through them one by one"
        self.note = note or (hint if step is None and answer.trace else "")

    @property
    def title(self) -> str:
        """The question, or which step it is, in one line."""
        question = shorten(self._redact(one_line(self.answer.question)), 120)
        return question if self.number is None else f"step {self.number} of {len(self.answer.trace)} · {question}"

    def html(self) -> str:
        """Return the trace as HTML."""
        total = self._total() if self.number is None else ""
        return render("trace", title=self.title, rows=self._rows(), total=total, folds=self._folds(), note=self.note)

    def text(self) -> str:
        """Return the trace as plain text."""
        rows = [[f"{row['n']}", row["what"], row["time"], row["tokens"], row["cost"]] for row in self._rows()]
        lines = grid(
            [["", "step", "time", "tokens in → out", "cost"], *rows], [False, False, True, True, True], Terminal.here().width
        )
        total = [self._total()] if self.number is None else []
        parts = [f"{name}:\n{text}" for name, text in self._whole()]
        return "\n\n".join(filter(None, (self.title, "\n".join([*lines, *total]), *parts, self.note)))

    def _rows(self) -> list[dict[str, Any]]:
        """Return the rows of the timeline; a step that is shown alone keeps its place on it."""
        rows = timeline(self.answer.trace)
        return [{**row, "what": self._redact(row["what"])} for row in rows if self.number in (None, row["n"])]

    def _total(self) -> str:
        usage, answer = self.answer.usage, self.answer
        tokens = f"{usage.total_input_tokens:,} → {usage.output_tokens:,} tokens"
        cached = f" ({usage.cache_read_tokens:,} read from the cache)" if usage.cache_read_tokens else ""
        return f"in all: {seconds(answer.seconds)} · {tokens}{cached} · {cost(answer.cost_usd)}"

    def _folds(self) -> list[tuple[str, str, str, bool]]:
        """Return (title, JSON, what has the rest, is it open): cut in an overview, whole for one step."""
        if self.number is not None:
            return [_cut(name, text, STEP_CHARACTERS, "answer.trace has", is_open=True) for name, text in self._whole()]
        limit = min(PART_CHARACTERS, OVERVIEW_CHARACTERS // max(2 * len(self._chosen), 1))
        folds = []
        for step, request in zip(self._chosen, requests_news(self.answer.trace), strict=True):
            for name, value in (("request", request), ("response", response_of(self.answer, step))):
                if value is None:
                    continue
                title = f"{step.n} · {one_line(step.name)} · {name}"
                folds.append(_cut(title, self._json(value), limit, f"%trace {step.n} shows"))
        return folds

    def _whole(self) -> list[tuple[str, str]]:
        """Return (name, JSON) of one step's request and response, nothing for an overview."""
        if self.number is None:
            return []
        parts = (("request", step.request, response_of(self.answer, step)) for step in self._chosen)
        return [pair for name, sent, got in parts for pair in ((name, self._json(sent)), ("response", self._json(got)))]

    def _json(self, value: Any) -> str:
        return visible(self._redact(json.dumps(compact(value), indent=2, ensure_ascii=False, default=str)))


def _cut(title: str, text: str, limit: int, more: str, *, is_open: bool = False) -> tuple[str, str, str, bool]:
    rest = f"… {more} all {len(text):,} characters" if len(text) > limit else ""
    return title, text[:limit], rest, is_open


def compact(value: Any) -> Any:
    """Return a value with mappings and sequences as plain JSON, texts over `LONGEST` characters cut with their length."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}… ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {str(name): compact(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [compact(inner) for inner in value]
    return value


def requests_news(trace: Sequence[Step]) -> list[Any]:
    """Return the requests of all steps, in which what an earlier model request had sent already is only named."""
    found: list[Any] = []
    before: Step | None = None
    for step in trace:
        if step.kind == "model" and isinstance(step.request, Mapping):
            found.append(_news(step.request, before) if before else step.request)
            before = step
        else:
            found.append(step.request)
    return found


def _news(body: Mapping[str, Any], before: Step) -> dict[str, Any]:
    same = f"… as in step {before.n}"
    known = before.request
    news = {
        name: same if name in ("system", "tools") and without_marks(value) == without_marks(known.get(name)) else value
        for name, value in body.items()
    }
    messages, earlier = list(body.get("messages", ())), list(known.get("messages", ()))
    pairs = takewhile(lambda pair: without_marks(pair[0]) == without_marks(pair[1]), zip(messages, earlier, strict=False))
    same_messages = sum(1 for _ in pairs)
    if same_messages:
        news["messages"] = [f"… {count(same_messages, 'message')} {same[2:]}", *messages[same_messages:]]
    return news


def response_of(answer: Answer, step: Step) -> Any:
    """Return what a step got: a reply's blocks, or the result of a tool call as the model was given it (None: nothing)."""
    if step.response is not None or step.kind == "model":
        return step.response
    identity = _call_id(answer.trace, step)
    if identity is None:
        return None
    requests = [s.request.get("messages", ()) for s in answer.trace[step.n :] if s.kind == "model" and s.request]
    for block in _results(requests[0] if requests else answer.messages):
        if block.get("tool_use_id") == identity:
            return block
    return None


def _call_id(trace: Sequence[Step], step: Step) -> str | None:
    """Return the id of the call that a tool step ran; equal calls of one reply are told apart by their order."""
    asked = max((s.n for s in trace[: step.n] if s.kind == "model"), default=0)
    reply = trace[asked - 1].response if asked else ()
    calls = [
        b["id"] for b in reply or () if b.get("type") == "tool_use" and (b["name"], b["input"]) == (step.name, step.request)
    ]
    earlier = sum(1 for s in trace[asked : step.n - 1] if (s.name, s.request) == (step.name, step.request))
    return str(calls[earlier]) if earlier < len(calls) else None


def _results(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if isinstance(message["content"], list | tuple):
            yield from (block for block in message["content"] if block.get("type") == "tool_result")
