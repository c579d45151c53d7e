"""Renders all our outputs: amounts and dates as text, text in a terminal, and views in templates.

A view is the display data of a value, a dictionary of plain values. It has one template for each form:
`templates/cost.html` and `templates/cost.txt` show the same bill; answers have a `.md` too. In HTML every value is escaped and
the result passes our allow list; in Markdown every value is plain text, unless a filter has made safe Markdown of it; text is
laid out by a `Terminal`, and its values hold no control characters.

A magic's output counts as trusted in Jupyter: nothing sanitises it after us, and a `<script>` in it runs in the user's Lab
(measured with JupyterLab 4.6.6, 2026-11). Styles stand in the elements, since JupyterLab drops `<style>` from notebooks that
it does not trust.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from itertools import zip_longest
from numbers import Real
from typing import Any, Literal

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from ipy_websearch.display import markdown
from ipy_websearch.display.markdown import NO_MATH, STYLES, cleaner
from ipy_websearch.text import duration, host_label, one_line, plural, safe_href, shorten, usd, visible


def cell(value: Any, width: int = 200) -> str:
    """Return a value of a table as one line of text; a missing one is ""."""
    match value:
        case bool():
            return "yes" if value else "no"
        case datetime() if value == value:  # a day is one without a time
            return f"{value:%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")
        case Real():  # a year is not "1,926"
            number = float(value)
            return "" if number != number else f"{number:,.15g}" if abs(number) >= 10_000 else f"{number:.15g}"
        case list() | tuple():
            return shorten(", ".join(cell(item, width) for item in value), width)
    return "" if value is None or type(value).__name__ in ("NAType", "NaTType") else shorten(one_line(value), width)


# --- amounts and dates -------------------------------------------------------------------------------------------


def cost(amount: Decimal | float | None, *, cached: bool = False) -> str:
    """Return what a call cost: an amount, "free", "cached" or "cost unknown"."""
    words = "cached" if cached else usd(amount)
    return {"unknown": "cost unknown", "0 USD": "free"}.get(words, words)


def iso(date: Any) -> str:
    """Return the UTC date as "2026-11-17", "" for None and NaT. Saved output keeps absolute dates, which stay true."""
    if not isinstance(date, datetime) or date != date:
        return ""
    return (date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)).date().isoformat()


# --- the terminal ------------------------------------------------------------------------------------------------

_FENCE = re.compile(r"(^ *```.*?(?:^ *``` *$|\Z))", re.DOTALL | re.MULTILINE)
_BOLD = re.compile(r"`[^`\n]+`|\*\*(?=\S)(.+?)(?<=\S)\*\*|^#{1,6} ([^\n]+)$", re.DOTALL | re.MULTILINE)
_TABLE = re.compile(r"^\|.+\n\|[ :|-]+\n(?:\|.*(?:\n|$))*", re.MULTILINE)
_LINK = re.compile(r"\[([^\[\]\n]+)\]\((https?://[^\s()]+)\)")


@dataclass(frozen=True, slots=True)
class Terminal:
    """Lays out plain text: wrapped to `width` columns, with bold and links; 0 leaves it unchanged."""

    width: int = 0

    @classmethod
    def here(cls) -> Terminal:
        """Return the terminal that standard output goes to; a pipe or a notebook gets unstyled text."""
        return cls(min(shutil.get_terminal_size().columns, 100) if sys.stdout.isatty() else 0)

    def bold(self, text: str) -> str:
        """Return the text in bold."""
        return f"\x1b[1m{text}\x1b[22m" if self.width and text else text

    def link(self, url: str, text: str = "") -> str:
        """Return an address, underlined and clickable (OSC 8) when it is safe; terminals without OSC 8 ignore it."""
        words, href = text or one_line(url), safe_href(url)
        return f"\x1b]8;;{href}\x07\x1b[4m{words}\x1b[24m\x1b]8;;\x07" if self.width and href else words

    def wrap(self, text: str, indent: str = "") -> str:
        """Return lines of at most `width` columns; the text's own line breaks and the indents of its lines stay."""
        if not self.width:
            return textwrap.indent(text, indent)
        return "\n".join(_filled(line, self.width, indent) for line in text.split("\n"))

    def _table(self, found: re.Match[str]) -> str:
        """Return a Markdown table as aligned columns."""
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in found[0].splitlines()]
        numeric = [cell.endswith(":") and not cell.startswith(":") for cell in rows[1]]
        filled = [(row + [""] * len(numeric))[: len(numeric)] for row in (rows[0], *rows[2:])]
        head, *lines = grid(filled, numeric, self.width)
        return "\n".join((head, "─" * max(map(len, (head, *lines))), *lines)) + "\n" * found[0].endswith("\n")

    def markdown(self, text: str) -> str:
        """Return Markdown as a terminal shows it: wrapped, with bold, links and tables as such; code as it is."""
        lines = re.sub("[\u2028\u2029]", "\n", visible(text)).replace("\\[", "[")  # `\[1]` is the model's own, and no citation
        parts = _FENCE.split(lines.strip("\n"))
        for i in range(0, len(parts) if self.width else 0, 2):
            linked = _LINK.sub(lambda m: self.link(m[2], m[1]), self.wrap(_TABLE.sub(self._table, parts[i])))
            parts[i] = _BOLD.sub(lambda m: self.bold(m[1] or m[2]) or m[0], linked)  # m[0] alone is code
        return "".join(parts)


def _filled(line: str, width: int, indent: str) -> str:
    """Return a line broken into several, which begin below its text: behind the marks of its list and its quotation."""
    hanging = re.sub(r"[^\s>]", " ", indent + re.sub(r"(\s*(?:[-*>] |\d+\. )*).*", r"\1", line))
    return textwrap.fill(
        line, width, initial_indent=indent, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def grid(rows: Sequence[Sequence[Any]], numeric: Sequence[bool] = (), width: int = 0) -> list[str]:
    """Return rows of cells as lines of at most `width` columns (0: 100), numbers to the right; long cells are cut."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    while sum(widths) + 2 * len(widths) - 2 > (width or 100) and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1
    forms = [f"{'>' if is_number else '<'}{width}" for width, is_number in zip_longest(widths, numeric)]
    return ["  ".join(map(format, map(shorten, map(str, row), widths), forms)).rstrip() for row in rows]


PLAIN = Terminal()

# --- templates -------------------------------------------------------------------------------------------------

# The ending of a form's templates.
Form = Literal["html", "md", "txt"]
# The values of a template, by name.
View = dict[str, Any]

_TYPES: dict[str, Form] = {"text/html": "html", "text/markdown": "md", "text/plain": "txt"}
# Stands for one blank line; the control character is in no value.
_GAP = Markup("\x1e")
_BLANK = re.compile(f"[\n{_GAP}]*{_GAP}[\n{_GAP}]*")


def render(name: str, form: Form, view: View, terminal: Terminal = PLAIN) -> str:
    """Return a view in one of its forms; HTML is one safe block that MathJax leaves alone."""
    made = fill(name, form, view, terminal)
    if form == "html":
        return cleaner().clean(
            f'<div class="{NO_MATH}" style="max-width:62em;line-height:1.5;overflow-wrap:anywhere">{made}</div>'
        )
    return _BLANK.sub("\n\n", made).strip("\n")


def bundle(name: str, view: View, types: Collection[str] = _TYPES.keys(), terminal: Terminal = PLAIN) -> dict[str, str]:
    """Return a view in its wanted forms, by MIME type.

    Only answers have Markdown: nbconvert would prefer it to plain text, and no front end that shows HTML asks for it.
    """
    return {
        kind: render(name, form, view, terminal)
        for kind, form in _TYPES.items()
        if kind in types and (form != "md" or name == "answer")
    }


def fill(name: str, form: Form, view: View, terminal: Terminal = PLAIN) -> str:
    """Return a template filled with the values of a view."""
    return _environment(form).get_template(f"{name}.{form}").render(view, terminal=terminal)


def words(name: str, macro: str, *values: Any) -> str:
    """Return the text of a macro in a text template."""
    return str(getattr(_environment("txt").get_template(f"{name}.txt").module, macro)(*values)).strip()


@cache
def _environment(form: Form) -> Environment:
    plain: Any = {"html": visible, "md": markdown.text_markdown, "txt": str}[form]
    environment = Environment(
        loader=PackageLoader("ipy_websearch.display"),
        autoescape=form == "html",
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else "" if value is None else plain(str(value)),
    )
    environment.globals.update(STYLES, link=link, grid=grid, gap=_GAP, plural=plural, cost=cost, duration=duration, usd=usd)
    made = (markdown.inline, markdown.to_html, markdown.to_safe_markdown, markdown.link_markdown, one_line, shorten)
    environment.filters.update({function.__name__: function for function in made})
    return environment


def link(url: str, text: str = "") -> Markup:
    """Return `text`, by default the host, as a link to `url`, or as plain text when the address is not safe."""
    href = safe_href(url)
    label = escape(one_line(text or (host_label(url) if href else url)))
    return Markup(f'<a href="{escape(href)}" style="text-decoration:none">{label}</a>') if href else label
