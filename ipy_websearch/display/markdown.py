"""Makes Markdown of models and pages safe: as HTML, or as Markdown again for files, cells and front ends that render it.

The allow list of HTML is here, too.

It has one parser, with raw HTML off; images become their alternative text, since loading an image can carry data out.
GitHub, VS Code, nbconvert and JupyterLab each have a dialect. Only their common ground is used: text that one of them could
read as HTML, an image, a link definition, an unchecked link or mathematics is escaped or becomes code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from markupsafe import Markup, escape

from ipy_websearch.results import Citation, Claim
from ipy_websearch.text import host_label, one_line, place_of, safe_href, shorten, site_of, visible

# --- what may be in HTML -----------------------------------------------------------------------------------

# Classes that keep MathJax away: two amounts in dollars would otherwise become a formula.
NO_MATH = "tex2jax_ignore mathjax_ignore"

STYLES = {
    "line": "rgba(128,128,128,.35)",
    "pane": "rgba(128,128,128,.14)",
    "amber": "#d98200",
    "doubt": "background-color:#fbdba7;color:#222222",  # JupyterLab drops "inherit" and leaves a mark's text black
    "left": "text-align:left;vertical-align:top",  # JupyterLab drops "start"
    "right": "text-align:right;vertical-align:top;white-space:nowrap",
    "small": "font-size:.85em;opacity:.8",
    # JupyterLab breaks code in the middle of words
    "code": "font-size:.85em;white-space:pre-wrap;word-break:normal;max-height:24em;overflow:auto;margin:4px 0 8px;"
    "padding:6px 10px;background-color:rgba(128,128,128,.1);border-radius:3px",
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
    "overflow-wrap padding padding-top text-align text-decoration text-overflow vertical-align white-space width "
    "word-break".split()
)


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


# --- to HTML ---------------------------------------------------------------------------------------------

_MARK = re.compile(r"\[(\d{1,4})\]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LIKE_A_MARK = re.compile(r"\[\d{1,4}\]|\d{1,2}")
# A hostile text can grow without bounds (the header of a table by empty cells, a mark by its chip); a text that would exceed
# these characters or cells is shown as it is written.
_MOST_CHARACTERS, _MOST_CELLS = 1_000_000, 40_000

# The cited sources by their numbers.
Sources = Mapping[int, Citation]


class _Renderer(RendererHTML):
    """Renders text with its doubtful parts highlighted, source marks as chips, and code."""

    def text(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Return a text with the parts of doubtful sentences in amber, and what their sources lack on hover."""
        text, made, done = tokens[idx].content, "", 0
        for start, end, why in sorted(tokens[idx].meta.get("doubts", ())):
            doubtful = f'<mark style="{STYLES["doubt"]}" title="{escape(why)}">{escape(text[start:end])}</mark>'
            made, done = f"{made}{escape(text[done:start])}{doubtful}", end
        return f"{made}{escape(text[done:])}"

    def mark(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return _chip(tokens[idx].meta["source"])

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return _pre(tokens[idx].content)

    text_special, code_block = text, fence


@cache
def _parser() -> MarkdownIt:
    """Return a parser of CommonMark with tables and strikethrough, without HTML; only what passes `safe_href` is a link."""
    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable(["table", "strikethrough"])
    parser.disable("text_join")  # it would make marks without a source part of a text
    vars(parser).update(normalizeLink=lambda url: safe_href(url) or "", validateLink=bool, normalizeLinkText=str)
    parser.inline.ruler.before("link", "mark", _read_mark)
    parser.core.ruler.push("prepare", _prepare)
    parser.core.ruler.push("doubts", _mark_doubts)
    return parser


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
    """Set the direction of blocks by their letters, align table cells (JupyterLab's style aligns all to the right), and make
    plain text of images and of links that look like a mark."""
    both_ways = _RIGHT_TO_LEFT.search(state.src)
    for token in state.tokens:
        if both_ways and token.nesting == 1:
            token.attrs["dir"] = "auto"
        if token.type in ("th_open", "td_open"):
            token.attrs.setdefault("style", f"text-align:{'right' if both_ways else 'left'}")
        children, opened = token.children or [], 0
        for at, child in enumerate(children):
            if child.type == "image":
                child.type, child.content = "text", child.content or "image"  # as its alternative text is written
            elif child.type == "link_open":
                opened = at
            elif child.type == "link_close":
                text = "".join(inner.content for inner in children[opened + 1 : at])
                child.hidden = children[opened].hidden = _LIKE_A_MARK.fullmatch(text.strip()) is not None


def _mark_doubts(state: Any) -> None:
    """Note the parts of each text that belong to sentences without full support, and what their sources lack.

    Sentences are found by their letters and digits, so that emphasis, links, citation marks and the borders of table cells
    within them do not matter.
    """
    texts = [text for token in state.tokens for text in token.children or () if text.type in ("text", "code_inline")]
    places = [(text, at) for text in texts for at, char in enumerate(text.content) if char.isalnum()]
    letters = "".join(text.content[at] for text, at in places)
    for claim in state.env["claims"]:
        why = f"its source does not say: {one_line(', '.join(claim.missing)) or 'this'}"
        sentence = "".join(filter(str.isalnum, claim.sentence))
        begins = letters.find(sentence)
        found = places[begins : begins + len(sentence)] if begins >= 0 else []
        for text in {id(text): text for text, _ in found}.values():
            start = found[0][1] if text is found[0][0] else 0
            end = found[-1][1] + 1 if text is found[-1][0] else len(text.content)
            text.meta.setdefault("doubts", []).append((start, end, why))


def _pre(text: str) -> str:
    return f'<pre style="{STYLES["code"]}"><code>{escape(text)}</code></pre>\n'


@lru_cache(maxsize=1024)
def _chip(source: Citation) -> str:
    """Return the mark of a source in a text: a chip with its number and site, the quote on hover."""
    href = safe_href(source.url)
    quote = f" — “{shorten(one_line(source.cited_text), 160)}”" if source.cited_text else ""
    name = site_of(source.url) if href else one_line(source.title)
    title, label = escape(f"{place_of(source.url)}{quote}"), escape(f"{source.n} {shorten(name, 24)}".strip())
    tag, address = ("a", f' href="{escape(href)}"') if href else ("sup", "")  # which is a mark without styles, too
    return f' <{tag}{address} title="{title}" style="{STYLES["chip"]}">{label}</{tag}>'


def _guarded(markdown: str, make: Callable[[str], str], otherwise: Callable[[str], str]) -> Markup:
    """Return the result of `make`, or the text as code when it breaks the parser or grows out of all proportion."""
    text = visible(markdown)
    lines = text.split("\n")
    with suppress(RecursionError, ValueError, IndexError, KeyError, AttributeError):
        if max(line.count("|") for line in lines) * len(lines) <= _MOST_CELLS and len(made := make(text)) <= _MOST_CHARACTERS:
            return Markup(made)
    return Markup(otherwise(text))


def to_html(markdown: str, sources: Sources | None = None, claims: Sequence[Claim] = ()) -> Markup:
    """Return Markdown as safe HTML; `[n]` becomes the chip of source n, and stays text where there is no such source.

    The sentences of the doubtful `claims` are amber.
    """
    known = {"sources": sources or {}, "claims": claims}
    return _guarded(markdown, lambda text: cleaner().clean(_parser().render(text, known)), _pre)


def inline(text: str) -> Markup:
    """Return one line of text as HTML, with `**bold**` and code as the only markup: a provider's words are in no link."""
    bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", str(escape(one_line(text))))
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", bold))


# --- to Markdown -----------------------------------------------------------------------------------------

_MATH = re.compile(r"((?:\$+(?:\w[\w.,%/+-]*\w|\w)?|\\+(?:\w+|[()\[\]{}])?)+)")
# The start of a line that would begin a list, a heading, a quotation or a rule.
_BLOCK_START = re.compile(
    r"^( {0,3}(?:\d{1,9}(?=[.)](?:[ \t]|$))|(?=[-+](?:[ \t]|$)|#{1,6}(?:[ \t]|$)|>|=+[ \t]*$|-[- \t]*$)))", re.MULTILINE
)
# The character to escape in a bare address: a renderer would link it, including a backtick that follows.
_ADDRESS = re.compile(r"(?i)(\b(?:https?|ftp)(?=://)|\bwww(?=\.))(.)")
# Pandoc (nbconvert to PDF) and MyST read attributes, raw output formats and directives in braces. JupyterLab unescapes the
# backslashes of a link's text, then parses it again, so special characters are entities.
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", **{sign: f"&#{ord(sign)};" for sign in "`{[]"}})
# Brackets around plain words ("[PDF]", "[sic]") that no neighbour turns into a link or a definition.
_ORDINARY = re.compile(r"&#91;(\w[\w .,'’/-]*)&#93;(?![(:]|&#91;)")
_EMPHASIS = re.compile(r"([*~|]|(?<![^\W_])_|_(?![^\W_]))")
# Names of fences that colour code; others ("mermaid", "math") are drawn or typeset by GitHub.
_COLOURED = set(
    "bash c cpp csharp css go html java javascript json julia php python r ruby rust sh sql toml typescript xml yaml".split()
)
# Neighbours that would merge: two pieces of code, or a mark and a text that form a link or a definition.
_TOUCHING = ("``", "](", "][", "]:")


def to_safe_markdown(markdown: str, sources: Sources | None = None) -> Markup:
    """Return safe Markdown with the same text as `to_html`; `[n]` of a known source becomes a link.

    There is no HTML, no image, no link definition, no unchecked address and no dollar sign outside code.
    """
    known = {"sources": sources or {}, "claims": ()}
    return _guarded(markdown, lambda text: _blocks(SyntaxTreeNode(_parser().parse(text, known)).children), _fence)


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
    """Return a list, with blank lines as in the source, and where a block could be read as part of the text before it."""
    inner = [child for item in node.children for child in item.children]
    is_tight = all(child.hidden or (child.type.endswith("_list") and child.attrs.get("start", 1) == 1) for child in inner)
    gap, items = "\n" if is_tight else "\n\n", []
    for n, item in enumerate(node.children, int(node.attrs.get("start", 1))):
        marker = f"{'' if node.type == 'bullet_list' else n}{node.markup} "
        items.append(re.sub(r"\n(?=[^\n])", "\n" + " " * len(marker), marker + _blocks(item.children, gap)).rstrip())
    return gap.join(items)


def _table(node: SyntaxTreeNode) -> str:
    rows = [row.children for part in node.children for row in part.children]
    lines = [[re.sub(r"\\?\|", r"\\|", _inline(cell).replace("\n", " ")) for cell in row] for row in rows]
    styles = (str(cell.attrs.get("style", "")) for cell in rows[0])
    lines.insert(1, [":-:" if "center" in style else "--:" if "right" in style else "---" for style in styles])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _unmarked(text: str) -> str:
    """Return a paragraph with escapes, so that no line begins another block."""
    return _BLOCK_START.sub(r"\1\\", text)


def _inline(node: SyntaxTreeNode) -> str:
    """Return the text of a paragraph, a heading, a cell, or an element of them."""
    made = ""
    for child in node.children:
        part = _inline(child) if child.type == "inline" else _written(child)
        made += " " * (made[-1:] + part[:1] in _TOUCHING) + part
    return made


def _written(node: SyntaxTreeNode) -> str:
    match node.type:
        case "mark" if safe_href(url := node.meta["source"].url):
            return _linked(url, node.content)
        case "text" | "text_special" | "mark":
            return _text(node.content)
        case "code_inline":
            return _code(node.content)
        case "softbreak" | "hardbreak":
            return "\n" if node.type == "softbreak" else "  \n"
        case "link":
            return _inline(node) if node.hidden else _linked(str(node.attrs["href"]), _inline(node))
        case _:
            return node.markup + _inline(node) + node.markup  # em, strong, s


def _linked(url: str, text: str) -> str:
    """Return Markdown as a link, or unchanged when the address is not safe."""
    href = re.sub(r"[()$*]", lambda sign: f"%{ord(sign[0]):02X}", safe_href(url) or "").replace("&", "&amp;")
    return f"[{text}]({href})" if href else text


def link_markdown(url: str, text: str = "") -> Markup:
    """Return one line of text, by default the host, as a Markdown link, or as plain text when the address is not safe."""
    label = text or (host_label(url) if safe_href(url) else url)
    return Markup(_unmarked(_linked(url, _text(one_line(label)))))


def text_markdown(text: str) -> Markup:
    """Return one line of plain text as Markdown in which nothing is markup."""
    return Markup(_unmarked(_text(one_line(text))))


def _text(text: str) -> str:
    """Return text on one line in which nothing is markup; possible mathematics (a dollar amount, a backslash command) becomes
    code."""
    parts = enumerate(_MATH.split(re.sub(r"\s+", " ", text)))
    return "".join(_code(part) if i % 2 else _quoted(part) for i, part in parts)


def _quoted(text: str) -> str:
    text = _ORDINARY.sub(r"[\1]", text.translate(_ENTITIES))
    text = _ADDRESS.sub(lambda found: f"{found[1]}&#{ord(found[2])};", text)
    return re.sub("!$", "&#33;", _EMPHASIS.sub(r"\\\1", text))  # before a link, it would make an image of it


def _code(text: str) -> str:
    """Return inline code between more backticks than any run in it has."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    text = re.sub(r"\s", " ", text)
    pad = " " if text[0] == "`" or text[-1] == "`" or (text[0] == text[-1] == " " and text.strip()) else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _fence(content: str, info: str = "") -> str:
    """Return a block of code; its language is kept where it only affects colours."""
    ticks = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", content))])
    language = info if info in _COLOURED else ""
    return "\n".join((ticks + language, content.rstrip("\n"), ticks))
