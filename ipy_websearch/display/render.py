"""How everything of ours is shown: views filled into templates, and hostile Markdown made harmless.

What is shown is described once, as a dictionary of plain values, and written by one template for each form of it:
`templates/cost.html` and `templates/cost.txt` show the same bill; answers have a `.md` too. In HTML every value is escaped and
the whole passes our allow list; in Markdown every value is plain text, unless a filter has made harmless Markdown of it; text
is laid out by a `Terminal`, its values are without control characters before.

A magic's output counts as trusted in Jupyter: nothing sanitises it after us, and a `<script>` in it runs in the user's Lab
(measured with JupyterLab 4.6.6, 2026-11). Styles stand in the elements, since JupyterLab drops `<style>` from notebooks that
it does not trust.

Markdown of models and pages has one parser, with raw HTML off; images become their alternative text, since an image address
fetches, and can carry data out. It becomes HTML, or Markdown again for files, cells and front ends that render it themselves.
GitHub, VS Code, nbconvert and JupyterLab each have a dialect: what all agree on is used; what one of them could take for HTML,
an image, a link definition, an unchecked link or mathematics is escaped or becomes code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

import nh3
from jinja2 import Environment, PackageLoader
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from markupsafe import Markup, escape

from ipy_websearch.display.text import PLAIN, Terminal, cost, grid, host_of, one_line, place_of, safe_href, site_of
from ipy_websearch.results import Citation, Claim
from ipy_websearch.text import duration, plural, shorten, visible

Form = Literal["html", "markdown", "text"]
# What a template shows, by names.
View = dict[str, Any]

# For each form its templates' ending and its type in Jupyter.
_ENDINGS = {"html": "html", "markdown": "md", "text": "txt"}
_TYPES: dict[str, Form] = {"text/html": "html", "text/markdown": "markdown", "text/plain": "text"}
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


def bundle(name: str, view: View, types: Collection[str] = _TYPES.keys(), terminal: Terminal = PLAIN) -> dict[str, str]:
    """Return a view in each form that it has a template for, by the types of them that are wanted.

    Only answers have Markdown: nbconvert would prefer it to plain text, and no front end that shows HTML asks for it.
    """
    there = _environment("text").list_templates()
    forms = {kind: form for kind, form in _TYPES.items() if kind in types and f"{name}.{_ENDINGS[form]}" in there}
    return {kind: render(name, form, view, terminal) for kind, form in forms.items()}


def fill(name: str, form: Form, view: View, terminal: Terminal = PLAIN) -> str:
    """Return a template filled with the values of a view."""
    return _environment(form).get_template(f"{name}.{_ENDINGS[form]}").render(view, terminal=terminal)


def words(macro: str, *values: Any) -> str:
    """Return what a macro of `words.txt` says, as text."""
    return str(getattr(_environment("text").get_template("words.txt").module, macro)(*values)).strip()


@cache
def _environment(form: Form) -> Environment:
    values: dict[Form, Callable[[str], str]] = {"html": visible, "markdown": text_markdown, "text": str}
    plain = values[form]
    environment = Environment(
        loader=PackageLoader("ipy_websearch.display"),
        autoescape=form == "html",
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else "" if value is None else plain(str(value)),
    )
    environment.globals.update(STYLES, link=link, grid=grid, gap=_GAP, plural=plural, cost=cost)
    environment.filters.update(inline=inline, one_line=one_line, shorten=shorten, duration=duration)
    for make in (to_html, to_safe_markdown, link_markdown):
        environment.filters[make.__name__] = partial(_marked, make)
    return environment


def _marked(make: Callable[..., str], *values: Any) -> Markup:
    return Markup(make(*values))


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


# --- Markdown, to HTML ---------------------------------------------------------------------------------------------

_MARK = re.compile(r"\[(\d{1,4})\]")
_LIKE_A_MARK = re.compile(r"\[\d{1,4}\]|\d{1,2}")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_MAX_CELLS = 40_000  # the header of a table can multiply a short text into megabytes of empty cells
_MAX_GROWTH = 8
_MAX_MARKS = 2_000
_QUOTE = 160

# The cited sources by their numbers.
Sources = Mapping[int, Citation]


class _Definitions(dict[str, Any]):
    """Link definitions of a text; one such as "[1]: https://…" is dropped, or it would rebind a citation mark."""

    def __setitem__(self, label: str, definition: Any) -> None:
        if not label.isdigit():
            super().__setitem__(label, definition)


class _Renderer(RendererHTML):
    """Writes texts with what is doubtful in them, the marks of sources as chips, and code."""

    def text(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Return a text, what belongs to doubtful sentences in amber, and on hover what their sources lack."""
        text, doubts = tokens[idx].content, tokens[idx].meta.get("doubts")
        if doubts is None:
            return str(escape(text))
        runs = groupby(zip(text, doubts, strict=True), itemgetter(1))
        parts = [(why, escape("".join(letter for letter, _ in run))) for why, run in runs]
        return "".join(f'<mark style="{STYLES["doubt"]}" title="{escape(w)}">{part}</mark>' if w else part for w, part in parts)

    def mark(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return _chip(tokens[idx].meta["source"])

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return str(escape(_words(tokens[idx])))

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return _pre(tokens[idx].content)

    text_special, code_block = text, fence


class _Parser(MarkdownIt):
    """CommonMark with tables and strikethrough, without HTML; only addresses that pass `safe_href` are links."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False}, renderer_cls=_Renderer)
        self.enable(["table", "strikethrough"]).disable("text_join")  # it would make marks without a source part of a text
        self.inline.ruler.before("link", "mark", _read_mark)
        self.core.ruler.push("links", _prepare)
        self.core.ruler.push("doubts", _mark_doubts)

    def normalizeLink(self, url: str) -> str:
        return safe_href(url) or ""

    def validateLink(self, url: str) -> bool:
        return bool(url)

    def normalizeLinkText(self, link: str) -> str:
        return link


_parser = cache(_Parser)


def _read_mark(state: Any, silent: bool) -> bool:
    """Make a mark of a known source a token of its own; one without a source is a text that is no part of a sentence."""
    found = _MARK.match(state.src, state.pos)
    if found is None or silent or state.linkLevel:  # silent: a link's text is looked for, and may hold what looks like a mark
        return False
    source = state.env["sources"].get(int(found[1]))
    token = state.push("mark" if source else "text_special", "", 0)
    token.content, token.meta = found[0], {"source": source}
    state.pos = found.end()
    return True


def _prepare(state: Any) -> None:
    """Let texts run the way of their letters, and make links that look like a mark mere text."""
    both_ways = _RIGHT_TO_LEFT.search(state.src)
    for token in state.tokens:
        if both_ways and token.nesting == 1:
            token.attrs["dir"] = "auto"
        if token.type in ("th_open", "td_open"):
            token.attrs.setdefault("style", f"text-align:{'right' if both_ways else 'left'}")  # JupyterLab's own: always right
        children, opened = token.children or [], 0
        for at, child in enumerate(children):
            if child.type == "link_open":
                opened = at
            elif child.type == "link_close" and _LIKE_A_MARK.fullmatch("".join(map(_words, children[opened + 1 : at])).strip()):
                child.hidden = children[opened].hidden = True


def _words(token: Token) -> str:
    """Return the text of a token; that of an image is what is shown in its place."""
    return "".join(map(_words, token.children or ())) or "image" if token.type == "image" else token.content


def _mark_doubts(state: Any) -> None:
    """Note for each letter of a text whether it belongs to a sentence that its sources do not support, and what they lack.

    Sentences are found by their letters and digits, so that emphasis, links, citation marks and the borders of table cells
    within them do not matter.
    """
    claims = state.env.get("claims", ())
    if not claims:
        return
    texts = [text for token in state.tokens for text in token.children or () if text.type in ("text", "code_inline")]
    places = [(letter, text, at) for text in texts for at, char in enumerate(text.content) for letter in _letters(char)]
    letters = "".join(letter for letter, _, _ in places)
    for claim in claims:
        sentence, why = _letters(claim.sentence), f"its source does not say: {', '.join(claim.missing) or 'this'}"
        start = letters.find(sentence)
        found = places[start : start + len(sentence)] if start >= 0 else []
        for text in {id(text): text for _, text, _ in found}.values():
            first, end = found[0][2] if text is found[0][1] else 0, len(text.content)
            if text is found[-1][1]:  # the full stop belongs to the sentence
                end -= len(text.content[found[-1][2] + 1 :].lstrip(".,;:!?)>\"'”’…。！？"))
            text.meta.setdefault("doubts", [""] * len(text.content))[first:end] = [why] * (end - first)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def _pre(text: str) -> str:
    return f'<pre style="{STYLES["code"]}"><code>{escape(text)}</code></pre>\n'


@lru_cache(maxsize=1024)
def _chip(source: Citation) -> str:
    """Return the mark of a source in a text: a chip with its number and site, the quote on hover."""
    quote = f" — “{shorten(one_line(source.cited_text), _QUOTE)}”" if source.cited_text else ""
    href = safe_href(source.url)
    name = site_of(source.url) if href else one_line(source.title)
    title, label = escape(f"{place_of(source.url)}{quote}"), escape(f"{source.n} {shorten(name, 24)}".strip())
    tag, address = ("a", f' href="{escape(href)}"') if href else ("sup", "")  # which is a mark without styles, too
    return f' <{tag}{address} title="{title}" style="{STYLES["chip"]}">{label}</{tag}>'


def _parse(text: str, sources: Sources | None = None, claims: Sequence[Claim] = ()) -> list[Token]:
    """Return the tokens of some Markdown."""
    return _parser().parse(text, {"references": _Definitions(), "sources": sources or {}, "claims": claims})


def _guarded(markdown: str, make: Callable[[str], str], otherwise: Callable[[str], str]) -> str:
    """Return what `make` gives, or the text as code when it breaks the parser or grows out of all proportion.

    The chips of citations, some 500 bytes each, are in proportion.
    """
    text = visible(markdown)
    lines = text.split("\n")
    most = _MAX_GROWTH * len(text) + 60_000 + 600 * min(len(_MARK.findall(text)), _MAX_MARKS)
    with suppress(RecursionError, ValueError, IndexError, KeyError, AttributeError):
        if max(line.count("|") for line in lines) * len(lines) <= _MAX_CELLS and len(made := make(text)) <= most:
            return made
    return otherwise(text)


def to_html(markdown: str, sources: Sources | None = None, claims: Sequence[Claim] = ()) -> str:
    """Return Markdown as harmless HTML; `[n]` becomes the chip of source n, and stays text where there is no such source.

    Sentences that the `claims` doubt are marked in amber.
    """

    def make(text: str) -> str:
        return clean(str(_parser().renderer.render(_parse(text, sources, claims), _parser().options, {})))

    return _guarded(markdown, make, _pre)


# --- Markdown ------------------------------------------------------------------------------------------------------

# Stand for the ends of code and for what encloses the text and the address of a link, until all of a paragraph is known. Values
# hold no control characters.
_CODE, _CODE_END, _LINK, _TO, _LINK_END = "\x02\x03\x04\x05\x06"
_SIGNS = str.maketrans({_LINK: "[", _TO: "](", _LINK_END: ")"})
_IN_LINKS = {"[": "&#91;", "]": "&#93;"}

_MATH = re.compile(r"((?:\$+(?:\w[\w.,%/+-]*\w|\w)?|\\+(?:\w+|[()\[\]{}])?)+)")
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LINKS = re.compile(r"\](?=[(\[:])")
_BLOCK_START = re.compile(r"^( {0,3})(?=[-+](?:[ \t]|$)|#{1,6}(?:[ \t]|$)|>|=+[ \t]*$|-[- \t]*$)", re.MULTILINE)
_NUMBER_START = re.compile(r"^( {0,3}\d{1,9})(?=[.)](?:[ \t]|$))", re.MULTILINE)
_SCHEME, _WWW = re.compile(r"\b(https?|ftp)://", re.IGNORECASE), re.compile(r"\b(www)\.", re.IGNORECASE)
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9+#-]{0,15}")
# Names of fences that GitHub and others draw or typeset instead of showing the code.
_DRAWN = {"math", "mermaid", "geojson", "topojson", "stl", "latex", "tex", "katex"}
_RULES = {"text-align:center": ":-:", "text-align:right": "--:"}


def to_safe_markdown(markdown: str, sources: Sources | None = None) -> str:
    """Return Markdown that says the same as `html.to_html` and is as harmless; `[n]` of a known source becomes a link.

    There is no HTML, no image, no link definition, no unchecked address and no dollar sign outside code.
    """
    return _guarded(markdown, lambda text: _blocks(SyntaxTreeNode(_parse(text, sources)).children), _fence)


def _blocks(nodes: Sequence[SyntaxTreeNode], gap: str = "\n\n") -> str:
    return gap.join(filter(None, map(_block, nodes)))


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "paragraph":
            return _unmarked(_inline(node))
        case "heading":
            text = re.sub(r"(#+)$", r"\\\1", _inline(node).replace("\n", " "))
            return f"{'#' * int(node.tag[1])} {text}".rstrip()
        case "blockquote":
            return "\n".join(f"> {line}".rstrip() for line in _blocks(node.children).split("\n"))
        case "bullet_list" | "ordered_list":
            return _list(node)
        case "table":
            return _table(node)
        case "fence" | "code_block":
            return _fence(node.content, node.info)
        case _:
            return "***"  # a rule; there are no others


def _list(node: SyntaxTreeNode) -> str:
    """Return a list; it is loose, as in the source, when a paragraph of an item is not hidden."""
    loose = any(_needs_gap(child, i) for item in node.children for i, child in enumerate(item.children))
    gap = "\n\n" if loose else "\n"
    items = []
    for n, item in enumerate(node.children, int(node.attrs.get("start", 1))):
        marker = f"{'' if node.type == 'bullet_list' else n}{node.markup} "
        body = marker + _blocks(item.children, gap)
        items.append(re.sub(r"\n(?=[^\n])", "\n" + " " * len(marker), body).rstrip())
    return gap.join(items)


def _needs_gap(node: SyntaxTreeNode, place: int) -> bool:
    """Say whether a block of an item cannot follow a line of text directly: it would be read as part of that."""
    if node.type == "paragraph":
        return not node.hidden
    return place > 0 and (node.type == "table" or int(node.attrs.get("start", 1)) != 1)


def _table(node: SyntaxTreeNode) -> str:
    rows = [row.children for part in node.children for row in part.children]
    rule = [_RULES.get(str(cell.attrs.get("style", "")), "---") for cell in rows[0]]
    head, *lines = ([_inline(cell, in_table=True).replace("\n", " ") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def _unmarked(text: str) -> str:
    """Return a paragraph none of whose lines would begin a list, a heading, a quotation or a rule."""
    return _NUMBER_START.sub(r"\1\\", _BLOCK_START.sub(r"\1\\", text))


def _inline(node: SyntaxTreeNode, *, in_table: bool = False) -> str:
    """Return the text of a paragraph, heading or cell."""
    return _finished("".join(_written(child) for inline in node.children for child in inline.children), in_table)


def _finished(made: str, in_table: bool = False) -> str:
    """Return Markdown in the making as it is; code that touches code is joined, since backticks in a row do not close."""
    parts = re.split(f"[{_CODE}{_CODE_END}]", made.replace(_CODE_END + _CODE, ""))
    parts[::2] = [re.sub(rf"!(?=[\[{_LINK}])", r"\!", _LINKS.sub(r"]\\", part)).translate(_SIGNS) for part in parts[::2]]
    parts[1::2] = [_code(part, in_table) for part in parts[1::2]]
    return "".join(parts)


def _written(node: SyntaxTreeNode) -> str:
    match node.type:
        case "text" | "text_special":
            return _text(node.content)
        case "image":
            return _text(_words(node.token)) if node.token else ""
        case "mark":
            target = _target(node.meta["source"].url)
            return f"{_LINK}{node.content}{_TO}{target}{_LINK_END}" if target else node.content
        case "code_inline":
            return _CODE + node.content + _CODE_END
        case "softbreak" | "hardbreak":
            return "\n" if node.type == "softbreak" else "  \n"
    inner = "".join(map(_written, node.children))
    if node.type == "link":
        return inner if node.hidden else _linked(str(node.attrs["href"]), inner)
    return node.markup + inner + node.markup  # em, strong, s


def _linked(url: str, text: str) -> str:
    """Return a link. Its brackets are entities: JupyterLab's Markdown unescapes backslashes, then reads the text again."""
    target = _target(url)
    inner = re.sub(f"{_CODE}.*?{_CODE_END}|[][]", lambda m: _IN_LINKS.get(m[0], m[0]), text)
    return f"{_LINK}{inner}{_TO}{target}{_LINK_END}" if target else inner


def _target(url: str) -> str:
    """Return a checked address as it stands in the parentheses of a Markdown link, "" when it may not be one."""
    href = safe_href(url) or ""
    return re.sub(r"[()$*]", lambda m: f"%{ord(m[0]):02X}", href).replace("&", "&amp;")


def link_markdown(url: str, text: str = "") -> str:
    """Return one line of text, by default the host, as a Markdown link, or as mere text when the address may not be one."""
    label = one_line(text or (host_of(url) if safe_href(url) else url))
    return _unmarked(_finished(_linked(url, _text(label))))


def text_markdown(text: str) -> str:
    """Return one line of plain text as Markdown in which nothing is markup."""
    return _unmarked(_finished(_text(one_line(text))))


def _text(text: str) -> str:
    """Return text; what could be mathematics (a dollar amount, a backslash command) becomes code."""
    parts = enumerate(_MATH.split(text))
    return "".join(_CODE + part + _CODE_END if i % 2 else _quoted(part) for i, part in parts)


def _quoted(text: str) -> str:
    """Return text on one line in which nothing is HTML, code, emphasis, or a bare address that a renderer would link.

    Such a link would also take in a backtick that follows it, and leave the code behind it open. Braces: Pandoc (nbconvert to
    PDF) and MyST read attributes, raw output formats and directives in them.
    """
    text = re.sub(r"\s+", " ", text).replace("&", "&amp;").replace("<", "&lt;").replace("`", "&#96;").replace("{", "&#123;")
    text = _WWW.sub(r"\1&#46;", _SCHEME.sub(r"\1&#58;//", text))
    return _UNDERSCORE.sub(r"\\_", re.sub(r"([*~|])", r"\\\1", text))


def _code(text: str, in_table: bool) -> str:
    """Return code in a fence that is longer than any run of backticks in it."""
    text = re.sub(r"\s", " ", text)
    runs = {len(run) for run in re.findall("`+", text)}
    ticks = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    pad = " " if text[0] == "`" or text[-1] == "`" or (text[0] == text[-1] == " " and text.strip()) else ""
    text = text.replace("|", "\\|") if in_table else text
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _fence(content: str, info: str = "") -> str:
    """Return a block of code; its language is kept where it only colours."""
    ticks = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", content))])
    language = (info.split() or [""])[0]
    known = language if _LANGUAGE.fullmatch(language) and language.lower() not in _DRAWN else ""
    return "\n".join((ticks + known, content.rstrip("\n"), ticks))
