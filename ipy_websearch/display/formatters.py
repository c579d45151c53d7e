"""Registers how the package's values look in IPython, and takes exactly that back.

Formatters are registered by name and for our own types alone: loading imports neither pandas nor the renderers, which are
imported when the first such value is shown, and values of other libraries never come here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_KINDS = (
    ("ipy_websearch.results", "Answer"),
    ("ipy_websearch.results", "SearchResults"),
    ("ipy_websearch.results", "Page"),
    ("ipy_websearch.results", "Panel"),
    ("ipy_websearch.frames", "SearchFrame"),
    ("ipy_websearch.frames", "CostFrame"),
    ("ipy_websearch.frames", "EnrichedFrame"),
)
_FORMATS = {"text/html": "html", "text/markdown": "markdown", "text/plain": "text"}
_ATTRIBUTE = "_ipy_websearch_formatters"


def render(kind: str, form: str, value: Any) -> str | None:
    """Return `value`, which is a `kind`, as "html", "markdown" or "text"; None when it has no such form.

    Only answers have Markdown: nbconvert would prefer it to plain text, and no front end that shows HTML asks for it.
    """
    from ipy_websearch.display.text import PLAIN, Terminal
    from ipy_websearch.settings import WebSearch, settings_in_force

    settings = settings_in_force() or WebSearch()
    terminal = Terminal.here() if form == "text" else PLAIN
    match kind, form:
        case "Answer", _:
            from ipy_websearch.display import answer

            forms: dict[str, Callable[[], str]] = {
                "html": lambda: answer.answer_html(value, feedback=settings.feedback),
                "markdown": lambda: answer.answer_markdown(value, feedback=settings.feedback),
                "text": lambda: answer.answer_text(value, feedback=settings.feedback, terminal=terminal),
            }
            return forms[form]()
        case _, "markdown":
            return None
        case "SearchResults" | "SearchFrame", _:
            from ipy_websearch.display import tables

            if form == "text":
                return tables.search_text(value, max_rows=settings.max_rows, terminal=terminal)
            return tables.search_html(value, max_rows=settings.max_rows) or value._repr_html_()
        case "EnrichedFrame", _:
            from ipy_websearch.display import tables

            return (
                tables.enriched_text(value, terminal) if form == "text" else tables.enriched_html(value) or value._repr_html_()
            )
        case "Page", _:
            from ipy_websearch.display import tables

            return tables.page_html(value) if form == "html" else tables.page_text(value, terminal)
        case "Panel", _:
            from ipy_websearch.display import answer

            return answer.panel_html(value) if form == "html" else answer.panel_text(value)
        case _:
            from ipy_websearch.display import cost

            if form == "text":
                return cost.cost_text(value, terminal)
            return cost.cost_html(value, settings.session_budget_usd) or value._repr_html_()


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

    def forget(*_: Any) -> None:
        if printers.get(identity) is forget:
            del printers[identity]
        vars(ip.displayhook).pop("quiet", None)
        if forget in ip.events.callbacks["post_run_cell"]:
            ip.events.unregister("post_run_cell", forget)

    if is_terminal(ip) and _ends_with_ask(ip):  # its prompt "Out[1]:" would stand there with nothing behind it
        ip.displayhook.update_user_ns(value)
        ip.displayhook.quiet = lambda: True
    printers[identity] = forget
    ip.events.register("post_run_cell", forget)


def is_terminal(shell: Any) -> bool:
    """Say whether a shell is IPython in a terminal."""
    return any(kind.__name__ == "TerminalInteractiveShell" for kind in type(shell).__mro__)


def _ends_with_ask(ip: Any) -> bool:
    """Say whether the last statement of the cell that runs is a bare `%ask`, whose value would be shown."""
    lines = ip.history_manager.input_hist_parsed[-1].rstrip().splitlines()
    return bool(lines) and lines[-1].startswith(("get_ipython().run_line_magic('ask'", "get_ipython().run_cell_magic('ask'"))


def _printer(kind: str, form: str) -> Callable[..., Any]:
    def show(value: Any) -> str | None:
        """Return a value in a form, None when it has none: the front end then shows the next one."""
        return render(kind, form, value)

    def pretty(value: Any, printer: Any, cycle: bool) -> None:
        printer.text(render(kind, form, value) or repr(value))

    return pretty if form == "text" else show
