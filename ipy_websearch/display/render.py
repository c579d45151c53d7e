"""What is shown is described once, as a dictionary of plain values, and written by one template for each form of it.

`templates/cost.html` and `templates/cost.txt` show the same bill; answers have a `.md` too. In HTML every value is escaped and
the whole passes our allow list; in Markdown every value is plain text, unless a filter has made harmless Markdown of it; text
is laid out by a `Terminal`, its values are without control characters before.

A magic's output counts as trusted in Jupyter: nothing sanitises it after us, and a `<script>` in it runs in the user's Lab
(measured with JupyterLab 4.6.6, 2026-11). Styles stand in the elements, since JupyterLab drops `<style>` from notebooks that
it does not trust.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any, Literal

import nh3
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from ipy_websearch.display.text import PLAIN, Terminal, grid, host_of, one_line, safe_href
from ipy_websearch.text import plural, shorten, visible

Form = Literal["html", "markdown", "text"]
# What a template shows, by names.
View = dict[str, Any]

_ENDINGS = {"html": "html", "markdown": "md", "text": "txt"}
# Stands for one blank line; the control character is in no value.
_GAP = Markup("\x1e")
_BLANK = re.compile(f"[\n{_GAP}]*{_GAP}[\n{_GAP}]*")
# Classes that keep MathJax away: two amounts in dollars would otherwise become a formula.
NO_MATH = "tex2jax_ignore mathjax_ignore"

STYLES = {
    "line": "rgba(128,128,128,.35)",
    "pane": "rgba(128,128,128,.14)",
    "amber": "#d98200",
    "doubt": "background-color:#fbdba7;color:#222222",  # JupyterLab drops "inherit" and leaves a mark's text black
    "left": "text-align:left;vertical-align:top",  # JupyterLab drops "start"
    "right": "text-align:right;vertical-align:top;white-space:nowrap",
    "number": "text-align:right;vertical-align:top;white-space:normal",
    "small": "font-size:.85em;opacity:.8",
    "code": "font-size:.85em;white-space:pre-wrap;max-height:24em;overflow:auto;margin:4px 0 8px;padding:6px 10px;"
    "background-color:rgba(128,128,128,.1);border-radius:3px",
    "chip": "font-size:.78em;line-height:1.2;padding:1px 7px;border-radius:9px;text-decoration:none;white-space:nowrap;"
    "background-color:rgba(128,128,128,.16);vertical-align:baseline",
}
_TAGS = set(
    "a b blockquote br code div em h1 h2 h3 h4 h5 h6 hr i li mark ol p pre s small span strong sub sup table tbody td th thead "
    "tr ul details summary".split()
)
_PROPERTIES = set(
    "background-color border border-bottom border-collapse border-left border-radius color display flex flex-wrap font-size "
    "font-weight gap height line-height margin margin-left margin-top max-height max-width min-width opacity overflow "
    "overflow-wrap padding padding-top text-align text-decoration text-overflow vertical-align white-space width".split()
)


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
    values: dict[Form, Callable[[Any], str]] = {"html": visible, "markdown": partial(_marked, "text_markdown"), "text": str}
    plain = values[form]
    environment = Environment(
        loader=PackageLoader("ipy_websearch.display"),
        autoescape=form == "html",
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else "" if value is None else plain(str(value)),
    )
    environment.globals.update(STYLES, link=link, grid=grid, gap=_GAP, plural=plural)
    environment.filters.update(inline=inline, one_line=one_line, shorten=shorten)
    for name in ("to_html", "to_safe_markdown", "link_markdown", "table_markdown"):
        environment.filters[name] = partial(_marked, name)
    return environment


def _marked(name: str, *values: Any) -> Markup:
    """Return the harmless HTML or Markdown that a function of `markdown` makes. Tables do without its parser."""
    return Markup(getattr(import_module("ipy_websearch.display.markdown"), name)(*values))


def inline(text: str) -> Markup:
    """Return one line of text with its `**bold**` and its code as such."""
    bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", str(escape(one_line(text))))
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", bold))


def link(url: str, text: str = "") -> Markup:
    """Return `text`, by default the host, as a link to `url`, or as mere text when the address may not be one."""
    href = safe_href(url)
    label = escape(one_line(text or (host_of(url) if href else url)))
    return Markup(f'<a href="{escape(href)}" style="text-decoration:none">{label}</a>') if href else label


def clean(html: str) -> str:
    """Return HTML with the elements, attributes, styles and addresses of our allow list alone."""
    return _cleaner().clean(html)


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS,
        attributes={"*": {"dir", "style", "title"}, "a": {"href"}, "th": {"colspan"}, "ol": {"start"}, "details": {"open"}},
        allowed_classes={"div": set(NO_MATH.split())},
        filter_style_properties=_PROPERTIES,
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
