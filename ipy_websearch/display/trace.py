"""`%trace`: what each step of an answer cost and took on a timeline, and the JSON that went out and came back, folded.

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
from decimal import Decimal
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import Any

from ipy_websearch.display.answer import is_notebook, starts, timeline
from ipy_websearch.display.render import View, render
from ipy_websearch.display.text import cost, one_line
from ipy_websearch.frames import WebFrame
from ipy_websearch.model.requests import without_marks
from ipy_websearch.results import Answer, Step
from ipy_websearch.text import duration, plural, shorten, visible
from ipy_websearch.usage import Usage

OVERVIEW_CHARACTERS = 48_000
"""The most that all JSON of an overview takes of a notebook file."""
PART_CHARACTERS = 6_000
"""The most that one request or response takes of it."""
STEP_CHARACTERS = 200_000
"""The most of one step that is shown; `answer.trace` has all of it."""
WIDGET_CHARACTERS = 300_000
"""The most that a widget holds: it is stored with the notebook."""
LONGEST = 20_000
"""Characters of one text; encrypted content and pictures in base64 say nothing beyond."""

_HINT = "%trace 1 shows the JSON of step 1, %trace --step goes through them one by one"
_INSTALL = 'pip install "ipy_websearch[widget]" makes this a widget to step through'

Redact = Callable[[str], str]
Fold = tuple[str, str, str]
"""Title, JSON, and what has the rest of it."""


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


def trace_frame(answer: Answer, step: int | None = None, *, note: str = "", redact: Redact = str) -> TraceFrame:
    """Return the steps of an answer, or the one with number `step` (from 1), whole.

    `note` is a line under it, `redact` takes keys out of texts.
    """
    steps = answer.steps
    frame = TraceFrame(steps if step is None else steps[steps["n"] == step].reset_index(drop=True))
    rows = [{**row, "what": redact(row["what"])} for row in timeline(answer.trace) if step in (None, row["n"])]
    title = shorten(redact(one_line(answer.question)), 120)
    frame.view = {"title": title, "rows": rows, "is_open": step is not None, "note": note}
    if step is None:
        hint = _HINT if answer.trace else ""
        frame.view |= {"folds": _overview(answer, redact), "total": _total(answer), "note": note or hint}
    else:
        shown = answer.trace[step - 1]
        folds = _folds(shown, shown.request, STEP_CHARACTERS, redact, "answer.trace has")
        title = f"step {step} of {len(answer.trace)} · {title}"
        frame.view |= {"folds": folds, "title": title}
    return frame


def _total(answer: Answer) -> str:
    usage = answer.usage
    tokens = f"{usage.total_input_tokens:,} → {usage.output_tokens:,} tokens"
    cached = f" ({usage.cache_read_tokens:,} read from the cache)" if usage.cache_read_tokens else ""
    return f"in all: {duration(answer.seconds)} · {tokens}{cached} · {cost(answer.cost_usd)}"


def _overview(answer: Answer, redact: Redact) -> list[Fold]:
    """Return the folds of all steps: each request as far as it is new, and each response."""
    limit = min(PART_CHARACTERS, OVERVIEW_CHARACTERS // max(2 * len(answer.trace), 1))
    news = zip(answer.trace, requests_news(answer.trace), strict=True)
    return [fold for step, request in news for fold in _folds(step, request, limit, redact, f"%trace {step.n} shows")]


def _folds(step: Step, request: Any, limit: int, redact: Redact, more: str) -> list[Fold]:
    """Return the request and the response of a step, as far as there are any, each of at most `limit` characters."""
    found = []
    for name, part in (("request", request), ("response", step.response)):
        if part is not None:
            text = visible(redact(json.dumps(compact(part), indent=2, ensure_ascii=False, default=str)))
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
    repeated = [name for name in ("system", "tools") if name in body and _is_same(body[name], known.get(name))]
    messages, earlier = body.get("messages", ()), known.get("messages", ())
    told = sum(1 for _ in takewhile(lambda pair: _is_same(*pair), zip(messages, earlier, strict=False)))
    news = {**body, **dict.fromkeys(repeated, f"… {same}")}
    return {**news, "messages": [f"… {plural(told, 'message')} {same}", *messages[told:]]} if told else news


def _is_same(one: Any, other: Any) -> bool:
    return bool(without_marks(one) == without_marks(other))


# --- the widget ---------------------------------------------------------------------------------------------------


def trace_widget(answer: Answer, step: int = 1, *, redact: Redact = str) -> Any:
    """Return a widget that walks through an answer's steps, beginning with number `step`; without anywidget a `TraceFrame`.

    `redact` takes keys out of texts. The widget's `step` can be read and set.
    """
    try:
        kind = _widget_class()
    except ImportError:
        return trace_frame(answer, note=_INSTALL, redact=redact)
    title = shorten(redact(one_line(answer.question)), 120)
    widget = kind(title=title, steps=step_views(answer, redact), step=step, mark=f"ipyws-{uuid.uuid4().hex}")
    view = trace_frame(answer, redact=redact).view or {}
    widget.page = {"text/html": render("trace", "html", view), "text/plain": render("trace", "text", view)}
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


def step_views(answer: Answer, redact: Redact = str) -> list[dict[str, Any]]:
    """Return each step as JSON: n, kind, name, detail, error, start, ms and until (milliseconds from the question on), tokens
    (pairs of name and count), cost, so_far (tokens and money up to its end), sent and got (what is new of the request, and the
    response, their texts shortened until all fit)."""
    news, longest, text = requests_news(answer.trace), LONGEST, ""
    while not text or (len(text) > WIDGET_CHARACTERS and longest > 50):
        longest //= 2
        bodies = [[compact(sent, longest), compact(s.response, longest)] for s, sent in zip(answer.trace, news, strict=True)]
        text = redact(json.dumps(bodies, ensure_ascii=False, default=str))
    usage, until = Usage(), 0.0
    known: Decimal | None = Decimal(0)
    views = []
    for step, start, (sent, got) in zip(answer.trace, starts(answer.trace), json.loads(text), strict=True):
        usage, until = usage + step.usage, max(until, start + step.milliseconds)
        known = None if known is None or step.cost_usd is None else known + step.cost_usd
        views.append(
            {
                "n": step.n,
                "kind": step.kind,
                "name": one_line(step.name),
                "detail": shorten(redact(one_line(step.detail)), 300),
                "error": step.is_error,
                "start": round(start, 1),
                "ms": round(step.milliseconds, 1),
                "until": round(until, 1),
                "tokens": _tokens(step.usage) if step.kind == "model" else [],
                "cost": cost(step.cost_usd),
                "so_far": f"{usage.total_input_tokens:,} → {usage.output_tokens:,} tokens, {cost(known)}",
                "sent": sent,
                "got": got,
            }
        )
    return views


def _tokens(usage: Usage) -> list[list[str]]:
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    counts = {
        "tokens in": usage.input_tokens,
        "read from the cache": usage.cache_read_tokens,
        "written to the cache": written,
        "tokens out": usage.output_tokens,
    }
    return [[name, f"{count:,}"] for name, count in counts.items() if count or name.startswith("tokens")]
