"""Which renderer shows which kind of value in which form, with the settings in force. Imported when something is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipy_websearch.config import WebSearch, settings_in_force
from ipy_websearch.display import costs, pages, panels, tables
from ipy_websearch.display.answer_text import answer_markdown, answer_text
from ipy_websearch.display.answers import answer_html
from ipy_websearch.frames import FROM_WEB

Renderer = Callable[[Any, WebSearch], str | None]


def render(kind: str, form: str, value: Any) -> str | None:
    """Return `value`, which is a `kind`, as "html", "markdown" or "text"; None when it has no such form."""
    text = _RENDERERS[kind, form](value, settings_in_force() or WebSearch())
    return value._repr_html_() if text is None and form == "html" and not hasattr(value, "_repr_mimebundle_") else text


def _searches(form: Callable[..., str | None]) -> Renderer:
    return lambda value, settings: form(value, max_rows=settings.max_rows)


def _answers(form: Callable[..., str]) -> Renderer:
    return lambda value, settings: form(value, feedback=settings.feedback)


def _simple(form: Callable[[Any], str | None]) -> Renderer:
    return lambda value, _: form(value)


def _frame_html(frame: Any) -> str | None:
    """Return pandas' own table for a frame with texts from the web, out of MathJax's reach; None for all other frames, and
    for those of other classes that have a form of their own."""
    if hasattr(frame, "_repr_mimebundle_") or (FROM_WEB not in frame.attrs and "report" not in frame.attrs):
        return None
    import pandas as pd

    with pd.option_context("display.html.use_mathjax", False):
        html: str | None = frame._repr_html_()
    return html


_RENDERERS: dict[tuple[str, str], Renderer] = {
    ("Answer", "html"): _answers(answer_html),
    ("Answer", "markdown"): _answers(answer_markdown),
    ("Answer", "text"): _answers(answer_text),
    ("SearchResults", "html"): _searches(tables.search_html),
    ("SearchResults", "markdown"): _searches(tables.search_markdown),
    ("SearchResults", "text"): _searches(tables.search_text),
    ("SearchFrame", "html"): _searches(tables.search_html),
    ("SearchFrame", "markdown"): _searches(tables.search_markdown),
    ("SearchFrame", "text"): _searches(tables.search_text),
    ("Page", "html"): _simple(pages.page_html),
    ("Page", "markdown"): _simple(pages.page_markdown),
    ("Page", "text"): _simple(pages.page_text),
    ("Panel", "html"): _simple(panels.panel_html),
    ("Panel", "markdown"): _simple(panels.panel_markdown),
    ("Panel", "text"): _simple(panels.panel_text),
    ("CostFrame", "html"): _simple(costs.cost_html),
    ("CostFrame", "markdown"): lambda value, settings: None,
    ("DataFrame", "html"): _simple(_frame_html),
    ("CostFrame", "text"): _simple(costs.cost_text),
}
