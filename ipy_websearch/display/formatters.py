"""Registers how the package's values look in IPython, and takes exactly that back.

They are registered by name and for our own types alone: loading imports neither pandas nor the renderers, which are imported
when the first such value is shown, and values of other libraries never come here. What the user registers for one of our
types and one of its forms goes before.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from typing import Any

# For each kind of value the module and the name of its view (`answer.answer_view`, which `templates/answer.html` shows), and
# the settings that the view takes, by the names of its arguments.
_KINDS: dict[str, tuple[str, str, dict[str, str]]] = {
    "ipy_websearch.results.Answer": ("answer", "answer", {"feedback": "feedback"}),
    "ipy_websearch.results.Panel": ("answer", "panel", {}),
    "ipy_websearch.results.Page": ("tables", "page", {}),
    "ipy_websearch.results.SearchResults": ("tables", "search", {"max_rows": "max_rows"}),
    "ipy_websearch.frames.SearchFrame": ("tables", "search", {"max_rows": "max_rows"}),
    "ipy_websearch.frames.EnrichedFrame": ("tables", "enriched", {}),
    "ipy_websearch.frames.CostFrame": ("cost", "cost", {"budget_usd": "session_budget_usd"}),
    "ipy_websearch.display.trace.TraceFrame": ("trace", "trace", {}),
    "ipy_websearch.frames.WebFrame": ("tables", "frame", {}),
}


def shown(kind: str, display_formatter: Any, value: Any) -> dict[str, str]:
    """Return a value in the forms that the shell takes; {} where it shows itself as pandas does."""
    from ipy_websearch.display.render import bundle
    from ipy_websearch.display.text import Terminal
    from ipy_websearch.settings import WebSearch, settings_in_force

    module, name, taken = _KINDS[kind]
    settings = settings_in_force() or WebSearch()
    options = {argument: getattr(settings, trait) for argument, trait in taken.items()}
    view = getattr(import_module(f"ipy_websearch.display.{module}"), f"{name}_view")(value, **options)
    return {} if view is None else bundle(name, view, display_formatter.active_types, Terminal.here())


def register(ip: Any) -> ExitStack:
    """Register the displays with an InteractiveShell; closing what is returned takes them back.

    One formatter of whole bundles is enough: to look at those of single forms would build all of them, which takes a fifth of
    the time of loading.
    """
    undo = ExitStack()
    formatter = ip.display_formatter.mimebundle_formatter
    for kind in _KINDS:
        formatter.for_type(kind, partial(shown, kind, ip.display_formatter))
        undo.callback(_take_back, formatter, kind)
    return undo


def _take_back(formatter: Any, kind: str) -> None:
    with suppress(KeyError):
        formatter.pop(kind)
