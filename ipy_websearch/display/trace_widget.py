"""The trace for a class: an answer's steps on a timeline, to be walked through with buttons or arrow keys.

With anywidget (the extra `[widget]`) it is a widget whose page is built from text nodes only; without it, in front ends without
widgets and in saved notebooks, the same as a page without scripts, in which each step unfolds. JupyterLab shows nothing in the
place of a widget whose state was not saved, so the page is put out before the widget, which hides it while it lives.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from ipy_websearch.display.live import is_notebook
from ipy_websearch.display.style import framed
from ipy_websearch.display.trace import trace_frame
from ipy_websearch.display.trace_steps import step_views
from ipy_websearch.results import Answer
from ipy_websearch.text import plain, shorten

HTML_CHARACTERS = 100_000
"""The most text that the page without scripts holds: it is stored beside the widget's own values."""

_BARS = (
    "<style>.ipyws.ipyws .ipyws-lane{display:block;min-width:12em;background:var(--jp-layout-color2,rgba(128,128,128,.12))}"
    ".ipyws.ipyws .ipyws-bar{display:block;height:.8em;min-width:3px;background:var(--jp-brand-color1,#1976d2)}"
    ".ipyws.ipyws .ipyws-bar-tool{background:var(--jp-success-color1,#388e3c)}"
    ".ipyws.ipyws .ipyws-bar-error{background:var(--jp-error-color1,#d32f2f)}</style>"
)
_PAGE = 'pip install "ipy_websearch[widget]" makes this a widget to step through'


def trace_widget(answer: Answer, step: int = 1, *, redact: Callable[[str], str] = str) -> Any:
    """Return a widget that walks through an answer's steps, beginning with number `step`; without anywidget a `TracePage`.

    `redact` takes keys out of texts. The widget's `step` can be read and set.
    """
    page = TracePage(answer, redact)
    try:
        kind = _widget_class()
    except ImportError:
        return page
    widget = kind(title=page.title, steps=page.steps, step=step, mark=f"ipyws-{uuid.uuid4().hex}")
    widget.page = page
    return widget


class TracePage:
    """The trace as a page without scripts, as Markdown and as text."""

    def __init__(self, answer: Answer, redact: Callable[[str], str] = str) -> None:
        self.title = shorten(redact(plain(answer.question)), 120)
        self.steps = step_views(answer, redact)
        self._frame = trace_frame(answer, redact=redact)

    def html(self, note: str = _PAGE, mark: str = "") -> str:
        """Return the timeline, and below it each step, folded; a widget finds the page by the class `mark`."""
        whole = max((step["start"] + step["ms"] for step in self.steps), default=0.0)
        rows = "".join(_row_html(step, whole) for step in self.steps)
        texts = sum(len(card["text"]) for step in self.steps for card in (*step["sent"], *step["got"]))
        share = min(1.0, HTML_CHARACTERS / max(texts, 1))
        folds = "".join(_step_html(step, share) for step in self.steps)
        foot = f"<div><small>{escape(note)}</small></div>" if note else ""
        title = f'<div class="{escape(mark)}"><b>{escape(self.title)}</b></div>'
        return framed(_BARS, title, f"<table><tbody>{rows}</tbody></table>", folds, foot)

    def bundle(self, note: str = _PAGE, mark: str = "") -> dict[str, str]:
        """Return the page in the three forms that IPython asks for."""
        return {**self._frame._repr_mimebundle_(), "text/html": self.html(note, mark)}

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self.bundle()


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
        page: TracePage

        @traitlets.validate("step")
        def _within(self, proposal: Mapping[str, Any]) -> int:
            return max(1, min(len(self.steps) or 1, int(proposal["value"])))

        def _repr_mimebundle_(self, **options: Any) -> Any:
            """Return the widget's view, with the page beside it for whoever shows no widgets."""
            shown = super()._repr_mimebundle_(**options)
            data, metadata = shown if isinstance(shown, tuple) else (shown or {}, {})
            return {**data, **self.page.bundle(note="")}, metadata

        def _ipython_display_(self) -> None:
            """Show the page, and behind it, in a notebook, the view that hides it."""
            from IPython import get_ipython
            from IPython.display import display

            put: Any = display  # it carries no types
            put(self.page.bundle("", self.mark), raw=True)
            if is_notebook(get_ipython()):
                data, metadata = self._repr_mimebundle_()
                view = {name: value for name, value in data.items() if name.endswith("widget-view+json")}
                put({**view, "text/plain": "(the same as a widget)"}, metadata=metadata, raw=True)

    return TraceWidget


def _row_html(step: Mapping[str, Any], whole: float) -> str:
    kind = "error" if step["error"] else step["kind"]
    left = min(100 * step["start"] / whole, 99.0) if whole else 0.0
    width = max(100 * step["ms"] / whole, 0.7) if whole else 100.0
    size = f"margin-left:{left:.1f}%;width:{min(width, 100 - left):.1f}%"
    bar = f'<span class="ipyws-bar ipyws-bar-{escape(kind)}" style="{size}"></span>'
    numbers = (f"{step['ms']:,.0f} ms", step["cost"])
    return (
        f"<tr><th>{step['n']}</th><td>{escape(step['name'])}</td>"
        f'<td style="width:50%"><span class="ipyws-lane">{bar}</span></td>'
        + "".join(f'<td class="ipyws-num">{escape(number)}</td>' for number in numbers)
        + "</tr>"
    )


def _step_html(step: Mapping[str, Any], share: float) -> str:
    tokens = [f"{count} {name}" for name, count in step["tokens"]]
    facts = " · ".join((f"{step['n']}", step["name"], f"{step['ms']:,.0f} ms", *tokens, step["cost"]))
    failed = "✗ " if step["error"] else ""
    parts = [f"<div><small>{failed}{escape(step['detail'])}</small></div>"]
    for title, cards in (("out", step["sent"]), ("back", step["got"])):
        parts += [_card_html(title, card, share) for card in cards]
    return f"<details><summary>{escape(facts)}</summary>{''.join(parts)}</details>"


def _card_html(way: str, card: Mapping[str, Any], share: float) -> str:
    text = card["text"][: int(len(card["text"]) * share)]
    left = len(card["text"]) - len(text) + card["more"]
    rest = f"\n… <i>{left:,} more characters</i>" if left else ""
    head = " · ".join(filter(None, (way, card["who"], card["kind"])))
    is_open = " open" if card["open"] and share == 1.0 else ""
    return f"<details{is_open}><summary><small>{escape(head)}</small></summary><pre>{escape(text)}{rest}</pre></details>"
