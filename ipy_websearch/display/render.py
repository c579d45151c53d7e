"""What is shown is described once, as a dictionary of plain values, and written by one template for each form of it.

`templates/cost.html` and `templates/cost.txt` show the same bill; answers have a `.md` too. In HTML every value is escaped and
the whole passes our allow list; in Markdown every value is plain text, unless a filter has made harmless Markdown of it; text
is laid out by a `Terminal`, its values are without control characters before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from ipy_websearch.display import markdown
from ipy_websearch.display.html import NO_MATH, STYLES, clean, inline, link, to_html
from ipy_websearch.display.text import PLAIN, Terminal, grid, one_line
from ipy_websearch.text import plural, shorten, visible

Form = Literal["html", "markdown", "text"]
View = dict[str, Any]
"""What a template shows, by names."""

_ENDINGS = {"html": "html", "markdown": "md", "text": "txt"}
_GAP = Markup("\x1e")
"""Stands for one blank line; the control character is in no value."""
_BLANK = re.compile(f"[\n{_GAP}]*{_GAP}[\n{_GAP}]*")


def render(name: str, form: Form, view: View, terminal: Terminal = PLAIN) -> str:
    """Return a view in one of its forms; HTML is one harmless block that mathematics leaves alone."""
    made = fill(name, form, view, terminal)
    if form == "html":
        return clean(f'<div class="{NO_MATH}" style="max-width:62em;line-height:1.5;overflow-wrap:anywhere">{made}</div>')
    return _BLANK.sub("\n\n", made).strip("\n")


def fill(name: str, form: Form, view: View, terminal: Terminal = PLAIN) -> str:
    """Return a template filled with the values of a view."""
    return _environment(form).get_template(f"{name}.{_ENDINGS[form]}").render(view, terminal=terminal)


def has_form(name: str, form: Form) -> bool:
    """Return whether there is a template."""
    return f"{name}.{_ENDINGS[form]}" in _environment(form).list_templates()


@cache
def _environment(form: Form) -> Environment:
    values: dict[Form, Callable[[Any], str]] = {"html": visible, "markdown": markdown.text_markdown, "text": str}
    plain = values[form]
    environment = Environment(
        loader=PackageLoader("ipy_websearch.display"),
        autoescape=form == "html",
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else "" if value is None else plain(str(value)),
    )
    environment.globals.update(STYLES, link=link, grid=grid, gap=_GAP, plural=plural)
    environment.filters.update(inline=inline, one_line=one_line, shorten=shorten, prose=to_html)
    for name in ("to_safe_markdown", "link_markdown", "table_markdown"):
        environment.filters[name] = _marked(getattr(markdown, name))
    return environment


def _marked(make: Callable[..., str]) -> Callable[..., Markup]:
    """Return a function that makes harmless Markdown as one whose results templates leave as they are."""
    return lambda *values: Markup(make(*values))
