"""Registers how the package's values look in IPython, and takes exactly that back.

Formatters are registered by name and for our own types alone: loading imports neither pandas nor the renderers, which are
imported when the first such value is shown, and values of other libraries never come here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipy_websearch.display.render import Form

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
_FORMATS: dict[str, Form] = {"text/html": "html", "text/markdown": "markdown", "text/plain": "text"}


def shown(kind: str, form: Form, value: Any) -> str | None:
    """Return a value in one of its forms; None when it has no such form, and the front end shows the next one.

    Only answers have Markdown: nbconvert would prefer it to plain text, and no front end that shows HTML asks for it.
    """
    from ipy_websearch.display.render import has_form, render
    from ipy_websearch.display.text import Terminal
    from ipy_websearch.settings import WebSearch, settings_in_force

    module, name, taken = _KINDS[kind]
    settings = settings_in_force() or WebSearch()
    options = {argument: getattr(settings, trait) for argument, trait in taken.items()}
    view = getattr(import_module(f"ipy_websearch.display.{module}"), f"{name}_view")(value, **options)
    if view is not None and has_form(name, form):
        return render(name, form, view, Terminal.here())
    html = getattr(value, "_repr_html_", None) if form == "html" else None  # a frame shows itself as pandas does
    return html() if html is not None else None


def _pretty(kind: str, value: Any, printer: Any, cycle: bool) -> None:
    printer.text(shown(kind, "text", value) or repr(value))


def register(ip: Any) -> ExitStack:
    """Register the displays with an InteractiveShell; closing what is returned takes them back.

    A display that the user registered for the class itself goes before ours.
    """
    undo = ExitStack()
    for mimetype, form in _FORMATS.items():
        formatter = ip.display_formatter.formatters[mimetype]
        for kind in _KINDS:
            ours = partial(_pretty, kind) if form == "text" else partial(shown, kind, form)
            before = formatter.deferred_printers.get(tuple(kind.rsplit(".", 1)))
            undo.callback(_take_back, formatter, kind, ours, before)
            formatter.for_type(kind, ours)
    return undo


def _take_back(formatter: Any, kind: str, ours: Callable[..., Any], before: Callable[..., Any] | None) -> None:
    """Restore what a formatter had for a kind; what others put there since stays."""
    with suppress(KeyError):
        if formatter.lookup_by_type(kind) is ours:
            formatter.pop(kind)
            if before is not None:
                formatter.for_type(kind, before)
