"""An answer as HTML: labels, text with marks, sources, folded panels and steps, one line of facts. Running or finished.

What qualifies an answer (not from Claude, cut short, interrupted, broken off) stands before it at every level of
`feedback`; notices, costs, panels and steps are left out at level 0, every step is unfolded at level 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from ipy_websearch.display import money
from ipy_websearch.display.dates import ago_html
from ipy_websearch.display.facts import OFFLINE, facts, labels, sources, text_of
from ipy_websearch.display.links import host_of, link_html, safe_href
from ipy_websearch.display.markdown import Growing, to_html, wrap
from ipy_websearch.display.markdown_writer import Citations
from ipy_websearch.display.panels import folded_panels
from ipy_websearch.display.progress import AnswerView, Item, Line, Prose
from ipy_websearch.display.style import LEFT, framed
from ipy_websearch.display.words import one_line
from ipy_websearch.results import Answer, Citation, Step
from ipy_websearch.text import shorten, visible

GLYPHS = {"running": "⋯", "done": "✓", "failed": "✗"}
MAX_TABLE_ROWS = 50
_STOPS = {"end_turn": "answered", "tool_use": "called tools", "pause_turn": "paused", "refusal": "declined to answer"}
_PASSAGE = 600
_PASSAGES = 5


class Drafts:
    """Keeps the renderings of a running answer's texts, so that each update renders only what is new."""

    def __init__(self) -> None:
        self._texts: list[Growing] = []

    def of(self, number: int, text: str, citations: Citations) -> Growing:
        """Return the rendering of the text that is number `number` in the answer."""
        while len(self._texts) <= number:
            self._texts.append(Growing())
        self._texts[number].update(text, citations)
        return self._texts[number]


def answer_html(shown: AnswerView | Answer, *, feedback: int = 1, drafts: Drafts | None = None) -> str:
    """Return the answer as HTML; `drafts` of earlier calls make the updates of a running one cheap."""
    view = shown if isinstance(shown, AnswerView) else AnswerView.of(shown)
    top = "".join(_label_html(label) for label in labels(view, feedback))
    if view.answer is None:
        return framed(top, _items_html(view, feedback, drafts or Drafts()), _waiting_html(view))
    answer = view.answer
    body = rows_html(answer) if answer.rows else to_html(text_of(view), view.addresses)
    parts = [top, body, _sources_html(view.citations)]
    if feedback:
        parts += [folded_panels(view.panels), _steps_html(answer.trace, unfolded=feedback > 1), _foot_html(view)]
    return framed(*parts)


def merged(items: Sequence[Item]) -> list[str | list[Line]]:
    """Return items in order, adjacent texts joined and adjacent lines together."""
    found: list[str | list[Line]] = []
    for is_text, group in groupby(items, lambda item: isinstance(item, Prose)):
        if is_text:
            found.append("".join(item.text for item in group))
        else:
            found.append([item for item in group if isinstance(item, Line)])
    return found


def _label_html(label: str) -> str:
    kind = "ipyws-note ipyws-warn" if label == OFFLINE else "ipyws-note"
    return f'<div class="{kind}">{escape(label)}</div>'


def _items_html(view: AnswerView, feedback: int, drafts: Drafts) -> str:
    out: list[str] = []
    for number, part in enumerate(merged(view.lines(feedback))):
        if isinstance(part, str):
            out.append(wrap(drafts.of(number, part, view.addresses).html))
        else:
            lines = "".join(f"<div><small>{escape(line_text(line))}</small></div>" for line in part)
            out.append(f'<div class="ipyws-lines">{lines}</div>')
    return "".join(out)


def line_text(line: Line) -> str:
    """Return a line with the sign of its state."""
    return f"{GLYPHS[line.status]} {line.text}" if line.kind == "tool" else f"· {line.text}"


def waiting(view: AnswerView) -> str:
    """Return what is waited for when nothing on the page says so, "" otherwise."""
    if not view.running or any(line.status == "running" for line in view.tools):
        return ""
    last = next((item for item in reversed(view.items) if isinstance(item, Prose) or item.kind == "tool"), None)
    asked = "the offline model" if view.offline else one_line(view.model) or "the model"
    return "" if isinstance(last, Prose) else f"⋯ waiting for {asked}"


def _waiting_html(view: AnswerView) -> str:
    words = waiting(view)
    return f"<div><small>{escape(words)}</small></div>" if words else ""


def _sources_html(citations: list[Citation]) -> str:
    found = [_source_html(source, passages) for source, passages in sources(citations)]
    return f'<div class="ipyws-sources">{"".join(found)}</div>' if found else ""


def _source_html(source: Citation, passages: list[str]) -> str:
    host = host_of(source.url) if safe_href(source.url) else visible(source.url)
    about = " · ".join(filter(None, (escape(host), ago_html(source.published_date))))
    title = link_html(source.url, one_line(source.title) or source.url)
    line = f"[{source.n}] {title} <small>{about}</small>"
    if not passages:
        return f"<div>{line}</div>"
    quotes = "".join(f"<blockquote>{escape(shorten(one_line(text), _PASSAGE))}</blockquote>" for text in passages[:_PASSAGES])
    return f"<details><summary>{line}</summary>{quotes}</details>"


def _steps_html(trace: Sequence[Step], *, unfolded: bool) -> str:
    if not trace:
        return ""
    texts, numbers = ("", "step", "what came of it"), ("time", "tokens in → out", "cost")
    head = "".join(f"<th{LEFT}>{name}</th>" for name in texts)
    head += "".join(f'<th class="ipyws-num">{name}</th>' for name in numbers)
    body = "".join(_step_html(step) for step in trace)
    return (
        f"<details{' open' if unfolded else ''}><summary><small>steps</small></summary>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details>"
    )


def _step_html(step: Step) -> str:
    tokens = f"{step.usage.total_input_tokens:,} → {step.usage.output_tokens:,}" if step.kind == "model" else ""
    numbers = (money.seconds(step.milliseconds / 1000), tokens, money.cost(step.cost_usd))
    failed = "✗ " if step.is_error else ""
    detail = _STOPS.get(step.detail, step.detail) if step.kind == "model" else step.detail
    return (
        f'<tr><th>{step.n}</th><td class="ipyws-name"{LEFT}>{escape(one_line(step.name))}</td>'
        f"<td{LEFT}>{failed}{escape(shorten(one_line(detail), 120))}</td>"
        + "".join(f'<td class="ipyws-num">{escape(number)}</td>' for number in numbers)
        + "</tr>"
    )


def _foot_html(view: AnswerView) -> str:
    lines = [one_line(notice) for notice in view.notices]
    if view.answer is not None:
        lines.append(facts(view.answer))
    return f'<div class="ipyws-foot">{"".join(f"<div><small>{escape(line)}</small></div>" for line in lines)}</div>'


def rows_html(answer: Answer) -> str:
    """Return the rows of a structured answer as a table; addresses become links."""
    rows, names = answer.rows or (), list(answer.columns or (answer.rows or ({},))[0])
    head = "".join(f"<th{LEFT}>{escape(one_line(name))}</th>" for name in ("", *names))
    body = "".join(
        f"<tr><th>{i}</th>{''.join(f'<td{LEFT}>{_cell_html(row, name)}</td>' for name in names)}</tr>"
        for i, row in enumerate(rows[:MAX_TABLE_ROWS])
    )
    left = len(rows) - MAX_TABLE_ROWS
    rest = f"<div><small>… {money.count(left, 'more row')}</small></div>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _cell_html(row: Mapping[str, Any], name: str) -> str:
    text = cell_text(row.get(name))
    return link_html(text, host_of(text)) if safe_href(text) else escape(text)


def cell_text(value: Any) -> str:
    """Return a value of a structured answer as one line of text; None is ""."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(cell_text(item) for item in value)
    return shorten(one_line(str(value)), 400)
