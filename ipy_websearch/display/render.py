"""Renders all our outputs: amounts, dates and addresses as text, text in a terminal, and views in templates.

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
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache, partial
from itertools import starmap, zip_longest
from numbers import Real
from typing import Any, Literal
from urllib.parse import quote

import nh3
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from ipy_websearch.text import duration, plural, shorten, usd, visible

_WEB = re.compile(
    r"(?P<scheme>https?)://(?P<host>[^\s:/?#@\[\]\\]+|\[[^\[\]]*\])(?P<port>(?::\d{0,5})?)(?P<rest>(?:[/?#].*)?)", re.I
)
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_BREAKS = re.compile(r"[\t\n\u2028\u2029]")  # browsers and urlsplit drop the first two silently
_MAILTO = re.compile(r"mailto:[^\s:@]+@[^\s:@]+", re.IGNORECASE)
_KEEP = "/?#:@!$&'()*+,;=%-._~"
MAX_ADDRESS = 4096
_SECOND_LEVEL = {"co", "com", "org", "net", "ac", "gov", "edu"}


def one_line(text: Any) -> str:
    """Return the text on one line, without control, bidirectional and invisible characters."""
    return " ".join(visible(str(text)).split())


def cell(value: Any, width: int = 200) -> str:
    """Return a value of a table as one line of text; a missing one is ""."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():  # a day is one without a time
            return "" if value != value else f"{value:%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")
        case Real():  # a year is not "1,926"
            number = float(value)
            return "" if number != number else f"{number:,.15g}" if abs(number) >= 10_000 else f"{number:.15g}"
        case list() | tuple():
            return shorten(", ".join(cell(item, width) for item in value), width)
    return "" if type(value).__name__ in ("NAType", "NaTType") else shorten(one_line(value), width)


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


# --- addresses ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2048)
def safe_href(url: str) -> str | None:
    """Return the address as printable ASCII without quotes, brackets and backslashes, or None when it is not safe as a link.

    Only http and https with a host and without a user name, and mailto with an address, pass. The result still needs HTML
    escaping (ampersands).
    """
    url = _BREAKS.sub("", visible(url)).strip()
    href, web = quote(url, safe=_KEEP) if _MAILTO.fullmatch(url) else None, _WEB.fullmatch(url)
    if web:
        try:
            host = web["host"] if web["host"].isascii() else web["host"].encode("idna").decode("ascii")
        except UnicodeError:
            return None
        rest = web["port"] + quote(web["rest"], safe=_KEEP)
        href = f"{web['scheme'].lower()}://{host}{rest}" if _HOST.fullmatch(host) else None
    return href if href and len(href) <= MAX_ADDRESS else None  # as it is written: percent codes make it longer


def host_of(url: str) -> str:
    """Return the host of an address without "www.", or the scheme of one that has none ("corpus", "file")."""
    web = _WEB.fullmatch(visible(url).strip())
    return web["host"].lower().removeprefix("www.") if web else url.partition(":")[0]


def site_of(url: str) -> str:
    """Return the name of a site for a chip: "nytimes" for https://www.nytimes.com/x, "bbc" for bbc.co.uk.

    This is the registered name: "evil" for paypal.evil.example.
    """
    host = host_of(url)
    labels = host.split(".")
    if len(labels) < 2 or host.replace(".", "").isdigit():
        return host
    return labels[-3] if len(labels) > 2 and labels[-2] in _SECOND_LEVEL else labels[-2]


def place_of(url: str) -> str:
    """Return the host of an address that is safe as a link, else the whole address, as text."""
    return host_of(url) if safe_href(url) else one_line(url)


def short_address(url: str, width: int = 60) -> str:
    """Return host and path for a line of text: "example.com/docs/a.html"."""
    url = _BREAKS.sub("", visible(url)).strip()
    return shorten(re.sub(r"^[a-zA-Z][a-zA-Z0-9+.-]*://(?:www\.)?", "", url).split("?")[0].split("#")[0].rstrip("/"), width)


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
        fill, lines = partial(textwrap.fill, width=self.width, break_long_words=False, break_on_hyphens=False), []
        for line in text.split("\n"):
            marker = (re.match(r"\s*(?:[-*>] |\d+\. )*", line) or [""])[0]
            inner = re.sub(r"[^\s>]", " ", indent + marker)
            lines.append(fill(line, initial_indent=indent, subsequent_indent=inner))
        return "\n".join(lines)

    def _table(self, found: re.Match[str]) -> str:
        """Return a Markdown table as aligned columns."""
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in found[0].splitlines()]
        numeric = [cell.endswith(":") and not cell.startswith(":") for cell in rows[1]]
        filled = [(row + [""] * len(numeric))[: len(numeric)] for row in (rows[0], *rows[2:])]
        head, *lines = grid(filled, numeric, self.width)
        return "\n".join((head, "─" * max(map(len, (head, *lines))), *lines)) + "\n" * found[0].endswith("\n")

    def markdown(self, text: str) -> str:
        """Return Markdown as a terminal shows it: wrapped, with bold, links and tables as such; code as it is."""
        lines = visible(text).replace("\u2028", "\n").replace("\u2029", "\n")
        parts = _FENCE.split(lines.replace("\\[", "[").strip("\n"))  # `\[1]`: a mark that the model wrote itself is no citation
        for i in range(0, len(parts) if self.width else 0, 2):
            linked = _LINK.sub(lambda m: self.link(m[2], m[1]), self.wrap(_TABLE.sub(self._table, parts[i])))
            parts[i] = _BOLD.sub(lambda m: self.bold(m[1] or m[2]) or m[0], linked)  # m[0] alone is code
        return "".join(parts)


def grid(rows: Sequence[Sequence[Any]], numeric: Sequence[bool] = (), width: int = 0) -> list[str]:
    """Return rows of cells as lines of at most `width` columns (0: 100), numbers to the right; long cells are cut."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    while sum(widths) + 2 * len(widths) - 2 > (width or 100) and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1
    return ["  ".join(starmap(_padded, zip_longest(row, widths, numeric))).rstrip() for row in rows]


def _padded(cell: Any, width: int, is_number: bool | None) -> str:
    text = shorten(str(cell), width)
    return text.rjust(width) if is_number else text.ljust(width)


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
    """Return a view in one of its forms; HTML is one safe block that MathJax leaves alone."""
    made = fill(name, form, view, terminal)
    if form == "html":
        block = f'<div class="{NO_MATH}" style="max-width:62em;line-height:1.5;overflow-wrap:anywhere">{made}</div>'
        return cleaner().clean(block)
    return _BLANK.sub("\n\n", made).strip("\n")


def bundle(name: str, view: View, types: Collection[str] = _TYPES.keys(), terminal: Terminal = PLAIN) -> dict[str, str]:
    """Return a view in its wanted forms, by MIME type.

    Only answers have Markdown: nbconvert would prefer it to plain text, and no front end that shows HTML asks for it.
    """
    forms = {kind: form for kind, form in _TYPES.items() if kind in types and (form != "md" or name == "answer")}
    return {kind: render(name, form, view, terminal) for kind, form in forms.items()}


def fill(name: str, form: Form, view: View, terminal: Terminal = PLAIN) -> str:
    """Return a template filled with the values of a view."""
    return _environment(form).get_template(f"{name}.{form}").render(view, terminal=terminal)


def words(name: str, macro: str, *values: Any) -> str:
    """Return the text of a macro in a text template."""
    return str(getattr(_environment("txt").get_template(f"{name}.txt").module, macro)(*values)).strip()


@cache
def _environment(form: Form) -> Environment:
    from ipy_websearch.display import markdown  # it imports this module

    forms: dict[Form, Callable[[str], str]] = {"html": visible, "md": markdown.text_markdown, "txt": str}
    plain = forms[form]
    environment = Environment(
        loader=PackageLoader("ipy_websearch.display"),
        autoescape=form == "html",
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else "" if value is None else plain(str(value)),
    )
    environment.globals.update(STYLES, link=link, grid=grid, gap=_GAP, plural=plural, cost=cost, duration=duration, usd=usd)
    environment.filters.update(one_line=one_line, shorten=shorten)
    made = ("inline", "to_html", "to_safe_markdown", "link_markdown")
    environment.filters.update({name: getattr(markdown, name) for name in made})
    return environment


def link(url: str, text: str = "") -> Markup:
    """Return `text`, by default the host, as a link to `url`, or as plain text when the address is not safe."""
    href = safe_href(url)
    label = escape(one_line(text or (host_of(url) if href else url)))
    return Markup(f'<a href="{escape(href)}" style="text-decoration:none">{label}</a>') if href else label


@cache
def cleaner() -> nh3.Cleaner:
    """Return the HTML cleaner, which keeps only the elements, attributes, styles and addresses of our allow list."""
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
