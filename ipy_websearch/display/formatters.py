"""Registers how the package's values look in IPython, and takes exactly that back.

They are registered by name and for our own types alone: loading imports neither pandas nor the renderers, which are imported
when the first such value is shown, and values of other libraries never come here. What the user registers for one of our
types and one of its forms goes before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import Any

_HTML = "text/html"
# For each kind of value the module and the name of its view (`answer.answer_view`, which `templates/answer.html` shows), and
# the settings that the view takes, by the names of its arguments.
_KINDS: dict[str, tuple[str, str, dict[str, str]]] = {
    "ipy_websearch.results.Answer": ("answer", "answer", {}),
    "ipy_websearch.results.Panel": ("answer", "panel", {}),
    "ipy_websearch.results.Page": ("tables", "page", {}),
    "ipy_websearch.results.SearchResults": ("tables", "search", {"max_rows": "max_rows"}),
    "ipy_websearch.frames.SearchFrame": ("tables", "search", {"max_rows": "max_rows"}),
    "ipy_websearch.frames.EnrichedFrame": ("tables", "enriched", {}),
    "ipy_websearch.frames.CostFrame": ("cost", "cost", {"budget_usd": "session_budget_usd"}),
    "ipy_websearch.display.trace.TraceFrame": ("trace", "trace", {}),
    "ipy_websearch.frames.WebFrame": ("tables", "frame", {}),
}


def shown(kind: str, types: Collection[str], value: Any) -> dict[str, str]:
    """Return a value in the forms that are wanted; {} where it shows itself as pandas does."""
    from ipy_websearch.display.render import bundle
    from ipy_websearch.display.text import Terminal
    from ipy_websearch.settings import WebSearch, settings_in_force

    module, name, taken = _KINDS[kind]
    settings = settings_in_force() or WebSearch()
    options = {argument: getattr(settings, trait) for argument, trait in taken.items()}
    view = getattr(import_module(f"ipy_websearch.display.{module}"), f"{name}_view")(value, **options)
    return {} if view is None else bundle(name, view, types, Terminal.here())


def _card(kind: str, value: Any) -> str:
    return shown(kind, (_HTML,), value).get(_HTML) or value._repr_html_()


def register(ip: Any) -> ExitStack:
    """Register the displays with an InteractiveShell; closing what is returned takes them back.

    Whole bundles need one formatter. One of HTML for all DataFrames, as Colab has, would go before a bundle, so cards are
    registered with that of HTML as well: when a value is first shown, since to look at the formatters of single forms builds
    all of them, which takes a fifth of the time of loading.
    """
    undo = ExitStack()
    display_formatter = ip.display_formatter

    def forms(kind: str, value: Any) -> dict[str, str]:
        for each in _KINDS:
            _add(undo, display_formatter.formatters[_HTML], each, partial(_card, each))
        return shown(kind, {*display_formatter.active_types} - {_HTML}, value)

    for kind in _KINDS:
        _add(undo, display_formatter.mimebundle_formatter, kind, partial(forms, kind))
    return undo


def _add(undo: ExitStack, formatter: Any, kind: str, show: Callable[[Any], Any]) -> None:
    """Register what shows a kind, unless something does already."""
    if kind not in formatter:
        formatter.for_type(kind, show)
        undo.callback(_take_back, formatter, kind, show)


def _take_back(formatter: Any, kind: str, show: Callable[[Any], Any]) -> None:
    if kind in formatter and formatter.lookup_by_type(kind) is show:  # what others put there since stays
        formatter.pop(kind)
