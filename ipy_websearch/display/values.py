"""Which renderer shows which kind of value in which form, with the settings in force. Imported when something is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipy_websearch.display import costs, pages, panels, tables
from ipy_websearch.display.answer_text import answer_markdown, answer_text
from ipy_websearch.display.answers import answer_html
from ipy_websearch.settings import WebSearch, settings_in_force

Renderer = Callable[[Any, WebSearch], str | None]


def render(kind: str, form: str, value: Any) -> str | None:
    """Return `value`, which is a `kind`, as "html", "markdown" or "text"; None when it has no such form."""
    return _RENDERERS[kind, form](value, settings_in_force() or WebSearch())


def _searches(form: Callable[..., str | None]) -> Renderer:
    return lambda value, settings: form(value, max_rows=settings.max_rows)


def _answers(form: Callable[..., str]) -> Renderer:
    return lambda value, settings: form(value, feedback=settings.feedback)


def _simple(form: Callable[[Any], str | None]) -> Renderer:
    return lambda value, _: form(value)


def _own(form: Callable[..., str | None]) -> Callable[..., str | None]:
    """Return a form of our frames that falls back on pandas' table, for what is left when columns were taken away."""

    def html(frame: Any, **options: Any) -> str | None:
        text = form(frame, **options)
        return frame._repr_html_() if text is None else text

    return html


_RENDERERS: dict[tuple[str, str], Renderer] = {
    ("Answer", "html"): _answers(answer_html),
    ("Answer", "markdown"): _answers(answer_markdown),
    ("Answer", "text"): _answers(answer_text),
    ("SearchResults", "html"): _searches(tables.search_html),
    ("SearchResults", "markdown"): _searches(tables.search_markdown),
    ("SearchResults", "text"): _searches(tables.search_text),
    ("SearchFrame", "html"): _searches(_own(tables.search_html)),
    ("SearchFrame", "markdown"): _searches(tables.search_markdown),
    ("SearchFrame", "text"): _searches(tables.search_text),
    ("Page", "html"): _simple(pages.page_html),
    ("Page", "markdown"): _simple(pages.page_markdown),
    ("Page", "text"): _simple(pages.page_text),
    ("Panel", "html"): _simple(panels.panel_html),
    ("Panel", "markdown"): _simple(panels.panel_markdown),
    ("Panel", "text"): _simple(panels.panel_text),
    ("CostFrame", "html"): _simple(_own(costs.cost_html)),
    ("CostFrame", "markdown"): lambda value, settings: None,
    ("CostFrame", "text"): _simple(costs.cost_text),
}
