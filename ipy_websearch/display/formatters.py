"""Registers how the package's values look in IPython, and takes exactly that back.

Formatters are registered by name and for our own types alone: loading imports neither pandas nor the renderers, which are
imported when the first such value is shown, and values of other libraries never come here.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_KINDS = (
    ("ipy_websearch.results", "Answer"),
    ("ipy_websearch.results", "SearchResults"),
    ("ipy_websearch.results", "Page"),
    ("ipy_websearch.results", "Panel"),
    ("ipy_websearch.frames", "SearchFrame"),
    ("ipy_websearch.frames", "CostFrame"),
)
_FORMATS = {"text/html": "html", "text/markdown": "markdown", "text/plain": "text"}
_ATTRIBUTE = "_ipy_websearch_formatters"


def register(ip: Any) -> None:
    """Register the displays with an InteractiveShell; a second call changes nothing.

    A display that the user registered for the class itself goes before ours.
    """
    if hasattr(ip, _ATTRIBUTE) or ip.display_formatter is None:
        return
    put = []
    for mimetype, form in _FORMATS.items():
        formatter = ip.display_formatter.formatters[mimetype]
        for key in _KINDS:
            ours = _printer(key[1], form)
            put.append((formatter, key, ours, formatter.deferred_printers.get(key)))
            formatter.for_type_by_name(*key, ours)
    setattr(ip, _ATTRIBUTE, put)


def unregister(ip: Any) -> None:
    """Take back what `register` put there and restore what it replaced; what others put there since stays."""
    for formatter, key, ours, before in getattr(ip, _ATTRIBUTE, ()):
        # IPython moves a printer from the name to the class when it first shows a value of it
        places = [(table, kind) for table in (formatter.type_printers, formatter.deferred_printers) for kind in table]
        found = [(table, kind) for table, kind in places if table[kind] is ours]
        for table, kind in found:
            del table[kind]
        if found and before is not None:
            formatter.for_type_by_name(*key, before)
    if hasattr(ip, _ATTRIBUTE):
        delattr(ip, _ATTRIBUTE)


def mark_shown(ip: Any, value: Any) -> None:
    """Say that `value` is on the page already: as the value of the cell that runs now, it is not shown once more."""
    if ip is None or ip.display_formatter is None:
        return
    printers = ip.display_formatter.ipython_display_formatter.singleton_printers
    identity = id(value)

    def show(_: Any) -> None:
        forget()
        if any(kind.__name__ == "TerminalInteractiveShell" for kind in type(ip).__mro__):
            print("<Answer, shown above>")  # its prompt "Out[1]:" is on the screen already

    def forget(*_: Any) -> None:
        if printers.get(identity) is show:
            del printers[identity]
        if forget in ip.events.callbacks["post_run_cell"]:
            ip.events.unregister("post_run_cell", forget)

    printers[identity] = show
    ip.events.register("post_run_cell", forget)


def _printer(kind: str, form: str) -> Callable[..., Any]:
    def render(value: Any) -> str | None:
        """Return a value in a form, None when it has none: the front end then shows the next one."""
        text: str | None = import_module("ipy_websearch.display.values").render(kind, form, value)
        return text

    def pretty(value: Any, printer: Any, cycle: bool) -> None:
        printer.text(render(value) or repr(value))

    return pretty if form == "text" else render
