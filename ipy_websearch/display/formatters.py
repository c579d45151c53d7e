"""Registers how the package's values look in IPython, and takes exactly that back.

They are registered by name and for our own types alone: loading imports neither pandas nor the renderers, which are imported
when the first such value is shown, and values of other libraries never come here.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import Any

# For each kind of value the module and the name of its view: `answer.answer_view`, which `templates/answer.html` shows.
_KINDS = {
    "ipy_websearch.results.Answer": ("answer", "answer"),
    "ipy_websearch.results.Panel": ("answer", "panel"),
    "ipy_websearch.results.Page": ("tables", "page"),
    "ipy_websearch.results.SearchResults": ("tables", "search"),
    "ipy_websearch.frames.SearchFrame": ("tables", "search"),
    "ipy_websearch.frames.EnrichedFrame": ("tables", "enriched"),
    "ipy_websearch.frames.CostFrame": ("tables", "cost"),
    "ipy_websearch.display.trace.TraceFrame": ("trace", "trace"),
}


def register(ip: Any) -> ExitStack:
    """Register the displays with an InteractiveShell; closing what is returned takes them back.

    HTML has a formatter of its own, since one that all DataFrames have, as in Colab, would go before a bundle.
    """
    undo, formatters = ExitStack(), ip.display_formatter
    for kind in _KINDS:
        for formatter, show in ((formatters.mimebundle_formatter, _others), (formatters.formatters["text/html"], _html)):
            formatter.for_type(kind, partial(show, kind))
            undo.callback(formatter.pop, kind, None)
    return undo


def _html(kind: str, value: Any) -> str:
    """Return a value as HTML; what has no view shows itself as pandas does."""
    return _shown(kind, value, ["text/html"]).get("text/html") or value._repr_html_()


def _others(kind: str, value: Any) -> dict[str, str]:
    return _shown(kind, value, ["text/plain", "text/markdown"])


def _shown(kind: str, value: Any, types: Collection[str]) -> dict[str, str]:
    from ipy_websearch.display.render import Terminal, bundle

    module, name = _KINDS[kind]
    view = getattr(import_module(f"ipy_websearch.display.{module}"), f"{name}_view")(value)
    return {} if view is None else bundle(name, view, types, Terminal.here())
