"""Registers how the package's values look in IPython, and takes exactly that back.

The values themselves know nothing of HTML. What is registered are names, so that loading imports neither pandas nor the
renderers; both are imported when the first value is shown.
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
_FRAMES = (("pandas", "DataFrame"), ("pandas.core.frame", "DataFrame"), ("pandas.io.formats.style", "Styler"))
"""What pandas calls its own frames, from version 3 on and before, and styled ones: ours are shown by it, without formulas."""
_FORMATS = {"text/html": "html", "text/markdown": "markdown", "text/plain": "text"}
_ATTRIBUTE = "_ipy_websearch_formatters"

Put = list[tuple[Any, tuple[str, str], Any, Any]]
"""What was registered: formatter, (module, name), what we put, what was there before."""


def register(ip: Any) -> None:
    """Register the displays with an InteractiveShell; a second call changes nothing.

    A display that was registered for the class itself, by the user, goes before ours.
    """
    if getattr(ip, _ATTRIBUTE, None) is not None or ip.display_formatter is None:
        return
    put: Put = []
    for mimetype, form in _FORMATS.items():
        formatter = ip.display_formatter.formatters[mimetype]
        for key in (*_KINDS, *(_FRAMES if form == "html" else ())):
            ours = _printer(key[1], form)
            put.append((formatter, key, ours, formatter.deferred_printers.get(key)))
            formatter.for_type_by_name(*key, ours)
    setattr(ip, _ATTRIBUTE, put)


def unregister(ip: Any) -> None:
    """Take back what `register` put there and restore what it replaced; what others put there since stays."""
    for formatter, key, ours, before in getattr(ip, _ATTRIBUTE, None) or ():
        # IPython moves a name to its class when the first value of it is shown
        moved = [kind for kind, printer in formatter.type_printers.items() if printer is ours]
        for kind in moved:
            del formatter.type_printers[kind]
        waiting = formatter.deferred_printers.get(key) is ours
        if waiting:
            del formatter.deferred_printers[key]
        if before is not None and (moved or waiting):
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
    if form != "text":
        return lambda value: _render(kind, form, value)

    def pretty(value: Any, printer: Any, cycle: bool) -> None:
        text = _render(kind, form, value)
        printer.text(repr(value) if text is None else text)

    return pretty


def _render(kind: str, form: str, value: Any) -> str | None:
    """Return a value in a form, None when it has none: the front end then shows the next one."""
    text: str | None = import_module("ipy_websearch.display.values").render(kind, form, value)
    return text
