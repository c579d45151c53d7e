"""Registers the displays of the package's values with IPython, and removes exactly these.

They are registered by name, for our own types only. Loading imports neither pandas nor the renderers: these are imported when
the first such value is shown. Values of other libraries are never passed to us.
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
    """Register the displays with an InteractiveShell; closing the returned stack removes them.

    HTML has its own formatter, since an HTML formatter of all DataFrames, as in Colab, would take precedence over a bundle.
    """
    undo, formatters = ExitStack(), ip.display_formatter
    for kind in _KINDS:
        others = partial(_shown, kind, ("text/plain", "text/markdown"))
        for formatter, show in (
            (formatters.mimebundle_formatter, others),
            (formatters.formatters["text/html"], partial(_html, kind)),
        ):
            formatter.for_type(kind, show)
            undo.callback(formatter.pop, kind, None)
    return undo


def _html(kind: str, value: Any) -> str:
    """Return a value as HTML; one without a view as pandas shows it."""
    return _shown(kind, ("text/html",), value).get("text/html") or value._repr_html_()


def _shown(kind: str, types: Collection[str], value: Any) -> dict[str, str]:
    from ipy_websearch.display.render import Terminal, bundle

    module, name = _KINDS[kind]
    view = getattr(import_module(f"ipy_websearch.display.{module}"), f"{name}_view")(value)
    return {} if view is None else bundle(name, view, types, Terminal.here())
