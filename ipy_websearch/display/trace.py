"""The trace of an answer: what each step cost and took, and the JSON that went out and came back, folded.

The overview leaves out of a request what an earlier one had sent already, so that what is new can be seen; one step alone is
shown whole. A `TraceFrame` is a table of steps like any other and shows itself as a trace; it lives here, above the values,
since it knows HTML.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import pandas as pd

from ipy_websearch.display import money
from ipy_websearch.display.markdown_writer import fence, text_markdown
from ipy_websearch.display.panels import cut_escaped
from ipy_websearch.display.style import LEFT, framed
from ipy_websearch.display.trace_json import compact, requests_news, response_of
from ipy_websearch.results import Answer, Step
from ipy_websearch.text import plain, shorten, visible

OVERVIEW_BYTES = 64_000
"""The most that all JSON of an overview takes of a notebook file."""
PART_BYTES = 8_000
"""The most that one request or response takes of it."""
STEP_BYTES = 400_000
"""The most of one step that is shown; `answer.trace` has all of it."""

COLUMNS = ("", "step", "what came of it", "ms", "input", "cache read", "cache write", "output", "cost")


NUMBER = ' class="ipyws-num"'


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
        """Return the trace in the three forms that IPython asks for."""
        if self.view is None:
            return {}
        return {"text/html": self.view.html(), "text/markdown": self.view.markdown(), "text/plain": self.view.text()}


def trace_frame(answer: Answer, step: int | None = None, *, note: str = "", redact: Callable[[str], str] = str) -> TraceFrame:
    """Return the steps of an answer, or the one with number `step` (from 1); `note` is a line under it."""
    steps = answer.steps
    frame = TraceFrame(steps if step is None else steps[steps["n"] == step].reset_index(drop=True))
    frame.view = TraceView(answer, step, note, redact)
    return frame


class TraceView:
    """What a trace shows: the overview of an answer's steps, or one of them whole. `redact` takes keys out of texts."""

    def __init__(self, answer: Answer, step: int | None, note: str, redact: Callable[[str], str]) -> None:
        self.answer, self.number, self.note = answer, step, note
        self._redact = redact
        self._chosen = [s for s in answer.trace if step is None or s.n == step]

    @property
    def title(self) -> str:
        """The question, or which step it is, in one line."""
        question = shorten(self._redact(plain(self.answer.question)), 120)
        return question if self.number is None else f"step {self.number} of {len(self.answer.trace)} · {question}"

    def html(self) -> str:
        """Return the trace as HTML."""
        rows = self._rows()
        shown = [
            n for n, name in enumerate(COLUMNS) if not name.startswith("cache") or any(row[n] not in ("", "0") for row in rows)
        ]
        head = "".join(f"<th{LEFT if n < 3 else NUMBER}>{COLUMNS[n]}</th>" for n in shown)
        body = "".join(_row_html([cells[n] for n in shown]) for cells in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        note = f"<div><small>{escape(self.note)}</small></div>" if self.note else ""
        return framed(f"<div><b>{escape(self.title)}</b></div>", table, *self._folds(), note)

    def markdown(self) -> str:
        """Return the trace as harmless Markdown; of one step the beginning of its JSON."""
        lines = [COLUMNS, ["---"] * len(COLUMNS), *self._rows()]
        table = "\n".join(f"| {' | '.join(text_markdown(cell) if cell != '---' else cell for cell in row)} |" for row in lines)
        parts = [f"**{text_markdown(self.title)}**", table]
        for name, text in self._whole():
            cut = f"\n… {len(text) - PART_BYTES:,} more characters" if len(text) > PART_BYTES else ""
            parts += [name, fence(text[:PART_BYTES] + cut, "json")]
        return "\n\n".join(filter(None, (*parts, text_markdown(self.note or self._hint()))))

    def text(self) -> str:
        """Return the trace as plain text."""
        rows = [list(COLUMNS), *self._rows()]
        widths = [max(len(row[n]) for row in rows) for n in range(len(COLUMNS))]
        table = "\n".join(_aligned(row, widths) for row in rows)
        parts = [f"{name}:\n{text}" for name, text in self._whole()]
        return "\n\n".join(filter(None, (self.title, table, *parts, self.note or self._hint())))

    def _hint(self) -> str:
        return "" if self.number is not None or not self._chosen else "%trace 1 shows the JSON of step 1"

    def _rows(self) -> list[list[str]]:
        """Return the cells of the table, with a last row for the sum when there are several steps."""
        rows = [self._cells(step) for step in self._chosen]
        if len(rows) < 2:
            return rows
        tokens = _tokens(sum((step.usage for step in self._chosen[1:]), self._chosen[0].usage))
        spent = f"{self.answer.seconds * 1000:,.0f}"  # not the sum: calls of one reply run at the same time
        return [*rows, ["", "in all", "", spent, *tokens, money.cost(self.answer.cost_usd)]]

    def _cells(self, step: Step) -> list[str]:
        detail = ("✗ " if step.is_error else "") + shorten(self._redact(plain(step.detail)), 100)
        tokens = _tokens(step.usage) if step.kind == "model" else ["", "", "", ""]
        return [str(step.n), plain(step.name), detail, f"{step.milliseconds:,.0f}", *tokens, money.cost(step.cost_usd)]

    def _folds(self) -> list[str]:
        """Return the JSON in HTML: folded and cut in an overview, open and whole for one step."""
        if self.number is not None:
            return [fold(name, text, STEP_BYTES, is_open=True) for name, text in self._whole()]
        limit = min(PART_BYTES, OVERVIEW_BYTES // max(2 * len(self._chosen), 1))
        folds = []
        for step, request in zip(self._chosen, requests_news(self.answer.trace), strict=True):
            for name, value in (("request", request), ("response", response_of(self.answer, step))):
                title = f"{step.n} · {plain(step.name)} · {name}"
                folds.append(fold(title, self._json(value), limit, more=f"%trace {step.n} shows"))
        return folds

    def _whole(self) -> list[tuple[str, str]]:
        """Return (name, JSON) of one step's request and response, nothing for an overview."""
        if self.number is None:
            return []
        parts = (("request", step.request, response_of(self.answer, step)) for step in self._chosen)
        return [pair for name, sent, got in parts for pair in ((name, self._json(sent)), ("response", self._json(got)))]

    def _json(self, value: Any) -> str:
        return visible(self._redact(json.dumps(compact(value), indent=2, ensure_ascii=False, default=str)))


def _tokens(usage: Any) -> list[str]:
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    return [f"{n:,}" for n in (usage.input_tokens, usage.cache_read_tokens, written, usage.output_tokens)]


def _row_html(cells: Sequence[str]) -> str:
    texts = "".join(f"<td{LEFT}>{escape(cell)}</td>" for cell in cells[1:3])
    numbers = "".join(f"<td{NUMBER}>{escape(cell)}</td>" for cell in cells[3:])
    return f"<tr><th>{escape(cells[0])}</th>{texts}{numbers}</tr>"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    texts = [cell.ljust(width) for cell, width in zip(cells[:3], widths[:3], strict=True)]
    numbers = [cell.rjust(width) for cell, width in zip(cells[3:], widths[3:], strict=True)]
    return "  ".join([*texts, *numbers]).rstrip()


def fold(title: str, text: str, limit: int, *, is_open: bool = False, more: str = "answer.trace has") -> str:
    """Return a folded part of an output; over `limit` bytes its beginning, and `more` says what has the rest."""
    body, kept = cut_escaped(text, limit)
    rest = f"\n… <i>{escape(more)} all {len(text):,} characters</i>" if len(kept) < len(text) else ""
    return (
        f"<details{' open' if is_open else ''}><summary><small>{escape(title)}</small></summary>"
        f"<pre>{body}{rest}</pre></details>"
    )
