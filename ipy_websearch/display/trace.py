"""Shows the steps of an answer: the requests that were sent and the responses that came back.

`%trace` shows the cost and duration of each step on a timeline, and the JSON of requests and responses, folded; of a request,
only the part that no earlier one sent. A single step is shown whole. A widget (`widget.py`) walks a class through the steps
with buttons or arrow keys. All three show the same `step_views`.

A `TraceFrame` is a table of steps that shows itself as a trace; it is defined here, above the values, since it knows HTML.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Any

from ipy_websearch.display.answer import timeline
from ipy_websearch.display.render import View, bundle, cost, words
from ipy_websearch.frames import WebFrame
from ipy_websearch.model.requests import without_marks
from ipy_websearch.money.prices import add_money
from ipy_websearch.results import Answer, Step
from ipy_websearch.text import one_line, plural, shorten, visible

# The most characters of JSON in an overview and a widget, which are stored with the notebook, and in one step; `answer.trace`
# has all.
OVERVIEW_CHARACTERS = 48_000
WIDGET_CHARACTERS = 300_000
STEP_CHARACTERS = 200_000
# The lengths to which texts are cut, tried in turn until all fits. Encrypted content and pictures in base64 say nothing beyond
# the first.
_LONGEST = (20_000, 5_000, 1_000, 200, 50)


class TraceFrame(WebFrame):
    """Steps of an answer as a DataFrame with the columns of `Answer.steps`; `view` is the display data of its trace.

    Frames derived from it (`head`, filters, columns) have no view; pandas shows them.
    """

    view: View | None = None


def trace_view(frame: TraceFrame) -> View | None:
    """Return the display data of a trace."""
    return frame.view


def without_keys(answer: Answer, redact: Callable[[str], str]) -> Answer:
    """Return an answer for the functions below, with the keys in its question and steps removed by `redact`."""
    parts = [(step.detail, step.request, step.response) for step in answer.trace]
    clean = json.loads(redact(json.dumps(parts, ensure_ascii=False, default=str)))
    found = zip(answer.trace, clean, strict=True)
    trace = tuple(replace(step, detail=detail, request=sent, response=got) for step, (detail, sent, got) in found)
    return replace(answer, question=redact(answer.question), trace=trace)


def trace_frame(answer: Answer, step: int = 0, *, note: str = "") -> TraceFrame:
    """Return the steps of an answer, or the one with number `step` (from 1), whole; `note` is a line under it."""
    frame = TraceFrame(answer.steps[step - 1 : step].reset_index(drop=True) if step else answer.steps)
    frame.view = {
        "title": (f"step {step} of {len(answer.trace)} · " if step else "") + shorten(one_line(answer.question), 120),
        "rows": step_views(answer, STEP_CHARACTERS if step else OVERVIEW_CHARACTERS, step),
        "total": "" if step else words("tables", "steps", answer),
        "is_open": step > 0,
        "note": note or ("" if step else "%trace 1 shows the JSON of step 1, %trace --step goes through them one by one"),
    }
    return frame


def step_views(answer: Answer, most: int = OVERVIEW_CHARACTERS, number: int = 0) -> list[View]:
    """Return the rows of the timeline, each with the cost `so_far`, the number of `cached` tokens, and the JSON that was `sent`
    and `got` ("" for none).

    `sent` is the new part of a request; with a `number`, only that step is returned, whole. Texts are shortened until all JSON
    takes about `most` characters.
    """
    rows = list(zip(timeline(answer.trace), answer.trace, requests_news(answer.trace), strict=True))
    if number:
        row, step, _ = rows[number - 1]
        rows = [(row, step, step.request)]
    for longest in _LONGEST:
        bodies = [(_json(request, longest), _json(step.response, longest)) for _, step, request in rows]
        if sum(len(sent) + len(got) for sent, got in bodies) <= most:
            break
    return [
        {
            **row,
            "so_far": cost(add_money(*(done.cost_usd for done in answer.trace[: step.n]))),
            "cached": f"{step.usage.cache_read_tokens:,}" if step.usage.cache_read_tokens else "",
            "sent": sent,
            "got": got,
        }
        for (row, step, _), (sent, got) in zip(rows, bodies, strict=True)
    ]


def _json(value: Any, longest: int) -> str:
    return "" if value is None else json.dumps(_compact(value, longest), indent=2, ensure_ascii=False, default=str)


def _compact(value: Any, longest: int) -> Any:
    """Return a value with mappings and sequences as plain JSON, texts over `longest` characters cut with their length."""
    if isinstance(value, str):
        return visible(value) if len(value) <= longest else f"{visible(value[:longest])}… ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {visible(str(name)): _compact(inner, longest) for name, inner in value.items()}
    return [_compact(inner, longest) for inner in value] if isinstance(value, list | tuple) else value


def requests_news(trace: Sequence[Step]) -> list[Any]:
    """Return the requests of all steps; in place of the parts that the model request before had sent stands a note."""
    models = [step for step in trace if step.kind == "model" and isinstance(step.request, Mapping)]
    before = {step.n: earlier for earlier, step in pairwise(models)}
    return [_news(step.request, before[step.n]) if step.n in before else step.request for step in trace]


def _news(body: Mapping[str, Any], before: Step) -> dict[str, Any]:
    same, new, old = f"as in step {before.n}", without_marks(body), without_marks(before.request)
    repeated = {name: f"… {same}" for name in ("system", "tools") if name in new and new[name] == old.get(name)}
    pairs = zip(new["messages"], old["messages"], strict=False)
    told = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return {**body, **repeated, "messages": [f"… {plural(told, 'message')} {same}", *body["messages"][told:]]}


def trace_widget(answer: Answer, step: int = 1) -> Any:
    """Return a widget that walks through an answer's steps, beginning with number `step`; without anywidget a `TraceFrame`.

    The widget's `step` can be read and set.
    """
    try:
        from ipy_websearch.display.widget import TraceWidget
    except ImportError:
        return trace_frame(answer, note='pip install "ipy_websearch[widget]" makes this a widget to step through')
    view = trace_frame(answer).view or {}
    steps = step_views(answer, WIDGET_CHARACTERS)
    widget = TraceWidget(title=view["title"], steps=steps, step=step, mark=f"ipyws-{uuid.uuid4().hex}")
    widget.page = bundle("trace", view)
    return widget
