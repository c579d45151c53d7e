"""What goes to a model and what comes back.

`%trace`: what each step of an answer cost and took on a timeline, and the JSON that went out and came back, folded.

The overview leaves out of a request what an earlier one had sent already, so that what is new can be seen; one step alone is
shown whole. A `TraceFrame` is a table of steps like any other and shows itself as a trace; it lives here, above the values,
since it knows HTML.

For a class there is a widget (anywidget, the extra `[widget]`): the steps walked through with buttons or arrow keys. It builds
its page from text nodes only. JupyterLab shows nothing in the place of a widget whose state was not saved, so the plain trace
is put out before the widget, which hides it while it lives.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import Any

from ipy_websearch.display.answer import is_notebook, starts, timeline
from ipy_websearch.display.render import View, bundle
from ipy_websearch.display.text import cost, one_line
from ipy_websearch.frames import WebFrame
from ipy_websearch.model.requests import without_marks
from ipy_websearch.results import Answer, Step, Usage
from ipy_websearch.text import duration, plural, shorten, visible

# The most that all JSON of an overview takes of a notebook file.
OVERVIEW_CHARACTERS = 48_000
# The most that one request or response takes of it.
PART_CHARACTERS = 6_000
# The most of one step that is shown; `answer.trace` has all of it.
STEP_CHARACTERS = 200_000
# The most that a widget holds: it is stored with the notebook.
WIDGET_CHARACTERS = 300_000
# Characters of one text; encrypted content and pictures in base64 say nothing beyond.
LONGEST = 20_000

_HINT = "%trace 1 shows the JSON of step 1, %trace --step goes through them one by one"
_INSTALL = 'pip install "ipy_websearch[widget]" makes this a widget to step through'

# Title, JSON, and what has the rest of it.
Fold = tuple[str, str, str]


class TraceFrame(WebFrame):
    """Steps of an answer as a DataFrame with the columns of `Answer.steps`, shown as a trace, which `view` describes.

    What is made from it (`head`, filters, columns) is an ordinary frame.
    """

    _metadata = ["view"]
    view: View | None = None

    @property
    def _constructor(self) -> type[WebFrame]:
        return WebFrame


def trace_view(frame: TraceFrame) -> View | None:
    """Return what is shown of a trace."""
    return frame.view


def without_keys(answer: Answer, redact: Callable[[str], str]) -> Answer:
    """Return an answer whose question and steps `redact` has taken the keys out of, for the functions below."""

    def clean(value: Any) -> Any:
        return json.loads(redact(json.dumps(value, ensure_ascii=False, default=str)))

    parts = ((step, clean([step.detail, step.request, step.response])) for step in answer.trace)
    trace = tuple(replace(step, detail=detail, request=sent, response=got) for step, (detail, sent, got) in parts)
    return replace(answer, question=redact(answer.question), trace=trace)


def trace_frame(answer: Answer, step: int = 0, *, note: str = "") -> TraceFrame:
    """Return the steps of an answer, or the one with number `step` (from 1), whole; `note` is a line under it."""
    steps = answer.steps
    frame = TraceFrame(steps if not step else steps[steps["n"] == step].reset_index(drop=True))
    title = shorten(one_line(answer.question), 120)
    if not step:
        limit = min(PART_CHARACTERS, OVERVIEW_CHARACTERS // max(2 * len(answer.trace), 1))
        parts = zip(answer.trace, requests_news(answer.trace), strict=True)
        folds = [fold for shown, new in parts for fold in _folds(shown, new, limit, f"%trace {shown.n} shows")]
        usage = answer.usage
        cached = f" ({usage.cache_read_tokens:,} read from the cache)" if usage.cache_read_tokens else ""
        tokens = f"{usage.total_input_tokens:,} → {usage.output_tokens:,} tokens{cached}"
        total = f"in all: {duration(answer.seconds)} · {tokens} · {cost(answer.cost_usd)}"
        note = note or (_HINT if answer.trace else "")
        frame.view = {"title": title, "rows": timeline(answer.trace), "folds": folds, "total": total, "note": note}
        return frame
    shown = answer.trace[step - 1]
    folds = _folds(shown, shown.request, STEP_CHARACTERS, "answer.trace has")
    title = f"step {step} of {len(answer.trace)} · {title}"
    rows = timeline(answer.trace)[step - 1 : step]
    frame.view = {"title": title, "rows": rows, "folds": folds, "is_open": True, "note": note}
    return frame


def _folds(step: Step, request: Any, limit: int, more: str) -> list[Fold]:
    """Return the request and the response of a step, as far as there are any, each of at most `limit` characters."""
    found = []
    for name, part in (("request", request), ("response", step.response)):
        if part is not None:
            text = json.dumps(compact(part), indent=2, ensure_ascii=False, default=str)
            rest = f"… {more} all {len(text):,} characters" if len(text) > limit else ""
            found.append((f"{step.n} · {one_line(step.name)} · {name}", text[:limit], rest))
    return found


def compact(value: Any, longest: int = LONGEST) -> Any:
    """Return a value with mappings and sequences as plain JSON, texts over `longest` characters cut with their length."""
    if isinstance(value, str):
        return visible(value) if len(value) <= longest else f"{visible(value[:longest])}… ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {visible(str(name)): compact(inner, longest) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [compact(inner, longest) for inner in value]
    return value


def requests_news(trace: Sequence[Step]) -> list[Any]:
    """Return the requests of all steps, in which what an earlier model request had sent already is only named."""
    found: list[Any] = []
    before: Step | None = None
    for step in trace:
        is_model = step.kind == "model" and isinstance(step.request, Mapping)
        found.append(_news(step.request, before) if is_model and before else step.request)
        before = step if is_model else before
    return found


def _news(body: Mapping[str, Any], before: Step) -> dict[str, Any]:
    same, known = f"as in step {before.n}", before.request
    new, old = without_marks(body), without_marks(known)
    repeated = [name for name in ("system", "tools") if name in new and new[name] == old.get(name)]
    messages, pairs = body.get("messages", ()), zip(new.get("messages", ()), old.get("messages", ()), strict=False)
    told = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    news = {**body, **dict.fromkeys(repeated, f"… {same}")}
    return {**news, "messages": [f"… {plural(told, 'message')} {same}", *messages[told:]]} if told else news


# --- the widget ---------------------------------------------------------------------------------------------------


def trace_widget(answer: Answer, step: int = 1) -> Any:
    """Return a widget that walks through an answer's steps, beginning with number `step`; without anywidget a `TraceFrame`.

    The widget's `step` can be read and set.
    """
    try:
        kind = _widget_class()
    except ImportError:
        return trace_frame(answer, note=_INSTALL)
    title = shorten(one_line(answer.question), 120)
    widget = kind(title=title, steps=step_views(answer), step=step, mark=f"ipyws-{uuid.uuid4().hex}")
    widget.page = bundle("trace", trace_frame(answer).view or {})
    return widget


@cache
def _widget_class() -> Any:
    """Return the widget's class.

    Raises:
        ImportError: anywidget is not installed.
    """
    import anywidget
    import traitlets

    assets = files("ipy_websearch.display") / "assets"

    class TraceWidget(anywidget.AnyWidget):
        """A trace to walk through; `step` is the number of the step that is shown."""

        _esm = (assets / "trace.js").read_text(encoding="utf-8")
        _css = (assets / "trace.css").read_text(encoding="utf-8")
        title: Any = traitlets.Unicode().tag(sync=True)
        steps: Any = traitlets.List().tag(sync=True)
        step: Any = traitlets.Int(1).tag(sync=True)
        mark: Any = traitlets.Unicode().tag(sync=True)
        page: Mapping[str, str]

        @traitlets.validate("step")
        def _within(self, proposal: Mapping[str, Any]) -> int:
            return max(1, min(len(self.steps) or 1, int(proposal["value"])))

        def _ipython_display_(self) -> None:
            """Show the page, and behind it, in a notebook, the view that hides it."""
            from IPython import get_ipython
            from IPython.display import display

            put: Any = display  # it carries no types
            put({**self.page, "text/html": f'<div class="{self.mark}">{self.page["text/html"]}</div>'}, raw=True)
            if is_notebook(get_ipython()):
                shown = self._repr_mimebundle_()
                data, metadata = shown if isinstance(shown, tuple) else (shown or {}, {})
                view = {name: value for name, value in data.items() if name.endswith("widget-view+json")}
                put({**view, "text/plain": "(the same as a widget)"}, metadata=metadata, raw=True)

    return TraceWidget


def step_views(answer: Answer) -> list[dict[str, Any]]:
    """Return each step as JSON: n, kind, name, detail, error, start, ms and until (milliseconds from the question on), tokens
    (pairs of name and count), cost, so_far (tokens and money up to its end), sent and got (what is new of the request, and the
    response, their texts shortened until all fit)."""
    news, longest, text = requests_news(answer.trace), LONGEST, ""
    while not text or (len(text) > WIDGET_CHARACTERS and longest > 50):
        longest //= 2
        bodies = [[compact(sent, longest), compact(s.response, longest)] for s, sent in zip(answer.trace, news, strict=True)]
        text = json.dumps(bodies, ensure_ascii=False, default=str)
    usage, until, known = Usage(), 0.0, Decimal(0)
    views: list[dict[str, Any]] = []
    for step, start, (sent, got) in zip(answer.trace, starts(answer.trace), bodies, strict=True):
        usage, until = usage + step.usage, max(until, start + step.milliseconds)
        known += step.cost_usd or Decimal("NaN" if step.cost_usd is None else 0)
        tokens = {
            "tokens in": step.usage.input_tokens,
            "read from the cache": step.usage.cache_read_tokens,
            "written to the cache": step.usage.cache_write_5m_tokens + step.usage.cache_write_1h_tokens,
            "tokens out": step.usage.output_tokens,
        }
        views.append(
            {
                "n": step.n,
                "kind": step.kind,
                "name": one_line(step.name),
                "detail": shorten(one_line(step.detail), 300),
                "error": step.is_error,
                "start": round(start, 1),
                "ms": round(step.milliseconds, 1),
                "until": round(until, 1),
                "tokens": [[name, f"{count:,}"] for name, count in tokens.items() if count],
                "cost": cost(step.cost_usd),
                "so_far": f"{usage.total_input_tokens:,} → {usage.output_tokens:,} tokens, {cost(known)}",
                "sent": sent,
                "got": got,
            }
        )
    return views
