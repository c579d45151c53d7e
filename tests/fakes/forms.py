"""Any value of ours as HTML, Markdown or text, as its display shows it."""

from __future__ import annotations

import re
from typing import Any

from ipy_websearch.display.answer import AnswerView, answer_view, panel_view
from ipy_websearch.display.render import PLAIN, Form, Terminal, render
from ipy_websearch.display.tables import cost_view, enriched_view, page_view, search_view
from ipy_websearch.display.trace import TraceFrame, trace_view
from ipy_websearch.frames import CostFrame, EnrichedFrame, SearchFrame
from ipy_websearch.results import Answer, Page, Panel, SearchResults

VIEWS: dict[type, Any] = {
    **dict.fromkeys((Answer, AnswerView), answer_view),
    **dict.fromkeys((SearchResults, SearchFrame), search_view),
    Panel: panel_view,
    Page: page_view,
    EnrichedFrame: enriched_view,
    CostFrame: cost_view,
    TraceFrame: trace_view,
}


def html_of(value: Any, **options: Any) -> str:
    """Return the HTML of a value, "" when pandas shows it."""
    return _form(value, "html", PLAIN, options)


def markdown_of(value: Any, **options: Any) -> str:
    """Return the Markdown of an answer."""
    return _form(value, "md", PLAIN, options)


def text_of(value: Any, *, terminal: Terminal = PLAIN, **options: Any) -> str:
    """Return the plain text of a value, "" when pandas shows it."""
    return _form(value, "txt", terminal, options)


def unstyled(text: str) -> str:
    """Return what a terminal shows without its bold, its underlines and the addresses of its links."""
    return re.sub(r"\x1b\[(?:1|22|4|24)m|\x1b\]8;;[!-~]*\x07", "", text)


def _form(value: Any, form: Form, terminal: Terminal, options: dict[str, Any]) -> str:
    make = VIEWS[type(value)]
    view = make(value, **options)
    return "" if view is None else render(make.__name__.removesuffix("_view"), form, view, terminal)
