"""Hostile Markdown made into harmless HTML, or written anew as harmless Markdown: the one parser of all that is shown.

It is parsed with raw HTML off, and images become their alternative text: an image address fetches, and can carry data out.

Markdown is for files, Markdown cells and front ends that render it themselves. GitHub, VS Code, nbconvert and JupyterLab each
have a dialect. What all agree on is used; what one of them could take for HTML, an image, a link definition, an unchecked link
or mathematics is escaped or becomes code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from markupsafe import escape

from ipy_websearch.display.render import STYLES, clean
from ipy_websearch.display.text import host_of, one_line, place_of, safe_href, site_of
from ipy_websearch.results import Citation, Claim
from ipy_websearch.text import shorten, visible

_MARK = re.compile(r"(?<!\\)\[(\d{1,4})\]")
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
        text, shown, at = tokens[idx].content, "", 0
        for start, end, why in sorted(tokens[idx].meta.get("doubts", ())):
            start = max(start, at)
            if start < end:
                marked = f'<mark style="{STYLES["doubt"]}" title="{escape(why)}">{escape(text[start:end])}</mark>'
                shown, at = f"{shown}{escape(text[at:start])}{marked}", end
        return f"{shown}{escape(text[at:])}"

    def mark(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return _chip(tokens[idx].meta["source"])

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return _pre(tokens[idx].content)

    text_special, code_block = text, fence


class _Parser(MarkdownIt):
    """CommonMark with tables and strikethrough, without HTML; only addresses that pass `safe_href` are links."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False}, renderer_cls=_Renderer)
        self.enable(["table", "strikethrough"]).disable("text_join")  # it would make `\\[1]` a mark
        self.core.ruler.push("marks", _prepare)
        self.core.ruler.push("doubts", _mark_doubts)

    def normalizeLink(self, url: str) -> str:
        return safe_href(url) or ""

    def validateLink(self, url: str) -> bool:
        return bool(url)

    def normalizeLinkText(self, link: str) -> str:
        return link


_parser = cache(_Parser)


def _prepare(state: Any) -> None:
    """Make the marks of known sources tokens of their own, and text of images and of links that look like a mark."""
    both_ways = _RIGHT_TO_LEFT.search(state.src)
    for token in state.tokens:
        if both_ways and token.nesting == 1:
            token.attrs["dir"] = "auto"
        if token.type in ("th_open", "td_open"):
            token.attrs.setdefault("style", f"text-align:{'right' if both_ways else 'left'}")  # JupyterLab's own: always right
        token.children = _prepared(token.children or [], state.env.get("sources", {}))


def _prepared(children: Sequence[Token], sources: Sources) -> list[Token]:
    found: list[Token] = []
    link_at = -1
    for child in children:
        match child.type:
            case "text" if link_at < 0:
                found += _split(child, sources)
            case "image":
                found.append(Token("text_special", "", 0, content=_alternative(child)))
            case "link_open":
                link_at = len(found)
                found.append(child)
            case "link_close":
                inner = found[link_at + 1 :]
                spoofed = _LIKE_A_MARK.fullmatch("".join(token.content for token in inner).strip())
                found[link_at:] = inner if spoofed else [found[link_at], *inner, child]
                link_at = -1
            case _:
                found.append(child)
    return found


def _split(token: Token, sources: Sources) -> Iterator[Token]:
    """Yield the texts and the marks of a text; a mark without a source is a text that is no part of a sentence."""
    for i, piece in enumerate(_MARK.split(token.content)):
        if i % 2 == 0:
            yield Token("text", "", 0, content=piece)
        else:
            source = sources.get(int(piece))
            yield Token("mark" if source else "text_special", "", 0, content=f"[{piece}]", meta={"source": source})


def _alternative(image: Token) -> str:
    """Return what is shown in place of an image: its alternative text."""
    return "".join(_alternative(t) if t.type == "image" else t.content for t in image.children or []) or "image"


def _mark_doubts(state: Any) -> None:
    """Note in each text which part of it belongs to a sentence that its sources do not support, and what they lack.

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
        sentence = _letters(claim.sentence)
        start = letters.find(sentence)
        found = places[start : start + len(sentence)] if start >= 0 else []
        for text in {id(text): text for _, text, _ in found}.values():
            first = found[0][2] if text is found[0][1] else 0
            end = len(text.content)
            if text is found[-1][1]:  # the full stop belongs to the sentence
                end -= len(text.content[found[-1][2] + 1 :].lstrip(".,;:!?)>\"'”’…。！？"))
            why = f"its source does not say: {', '.join(claim.missing) or 'this'}"
            text.meta.setdefault("doubts", []).append((first, end, why))


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

# Inline Markdown in the making: ("text", "code" or "markup", the text). Code is raw until its neighbours are known.
Pieces = list[tuple[str, str]]

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
        marker = f"{node.markup} " if node.type == "bullet_list" else f"{n}{node.markup} "
        body = marker + _blocks(item.children, gap)
        items.append(re.sub(r"\n(?=[^\n])", "\n" + " " * len(marker), body).rstrip())
    return gap.join(items)


def _needs_gap(node: SyntaxTreeNode, place: int) -> bool:
    """Say whether a block of an item cannot follow a line of text directly: it would be read as part of that."""
    if node.type == "paragraph":
        return not node.hidden
    return place > 0 and (node.type == "table" or int(node.attrs.get("start", 1)) != 1)


def _table(node: SyntaxTreeNode) -> str:
    rows = [row for part in node.children for row in part.children]
    rule = [_RULES.get(str(cell.attrs.get("style", "")), "---") for cell in rows[0].children]
    head, *lines = ([_inline(cell, in_table=True).replace("\n", " ") for cell in row.children] for row in rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def _unmarked(text: str) -> str:
    """Return a paragraph none of whose lines would begin a list, a heading, a quotation or a rule."""
    return _NUMBER_START.sub(r"\1\\", _BLOCK_START.sub(r"\1\\", text))


def _inline(node: SyntaxTreeNode, *, in_table: bool = False) -> str:
    """Return the text of a paragraph, heading or cell."""
    return _joined([piece for inline in node.children for child in inline.children for piece in _pieces(child)], in_table)


def _joined(pieces: Pieces, in_table: bool = False) -> str:
    """Return pieces as Markdown; code that touches code is joined, since backticks in a row do not close."""
    made = ""
    for kind, run in groupby((piece for piece in pieces if piece[1]), itemgetter(0)):
        text = "".join(piece for _, piece in run)
        if kind == "code":
            text = _code(text, in_table)
        elif kind == "text":
            text = re.sub(r"!(?=\[)", r"\!", _LINKS.sub(r"]\\", text))
        is_image = made.endswith("!") and text.startswith("[")
        made = f"{made[:-1]}\\!{text}" if is_image else made + text
    return made


def _pieces(node: SyntaxTreeNode) -> Pieces:
    match node.type:
        case "text" | "text_special":
            return _text(node.content)
        case "mark":
            target = _target(node.meta["source"].url)
            return [("markup", f"[{node.content}]({target})") if target else ("text", node.content)]
        case "code_inline":
            return [("code", node.content)]
        case "softbreak":
            return [("markup", "\n")]
        case "hardbreak":
            return [("markup", "  \n")]
        case "link":
            return _link(str(node.attrs["href"]), [piece for child in node.children for piece in _pieces(child)])
        case _:  # em, strong, s
            inner = [piece for child in node.children for piece in _pieces(child)]
            return [("markup", node.markup), *inner, ("markup", node.markup)]


def _link(url: str, pieces: Pieces) -> Pieces:
    """Return a link. Its brackets are entities: JupyterLab's Markdown unescapes backslashes, then reads the text again."""
    target = _target(url)
    inner: Pieces = [
        (kind, text if kind == "code" else text.replace("[", "&#91;").replace("]", "&#93;")) for kind, text in pieces
    ]
    return [("markup", "["), *inner, ("markup", f"]({target})")] if target else inner


def _target(url: str) -> str:
    """Return a checked address as it stands in the parentheses of a Markdown link, "" when it may not be one."""
    href = safe_href(url) or ""
    return re.sub(r"[()$*]", lambda m: f"%{ord(m[0]):02X}", href).replace("&", "&amp;")


def link_markdown(url: str, text: str) -> str:
    """Return one line of text as a Markdown link, or as mere text when the address may not be one."""
    return _joined(_link(url, _text(one_line(text)))) if _target(url) else text_markdown(text)


def text_markdown(text: str) -> str:
    """Return one line of plain text as Markdown in which nothing is markup."""
    return _unmarked(_joined(_text(one_line(text))))


def _text(text: str) -> Pieces:
    """Return text as pieces; what could be mathematics (a dollar amount, a backslash command) becomes code."""
    parts = enumerate(_MATH.split(text))
    return [("code", part) if i % 2 else ("text", _quoted(part)) for i, part in parts]


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


def table_markdown(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table of plain texts; addresses are links."""
    head = [text_markdown(one_line(name)) for name in names]
    cells = [[link_markdown(cell, host_of(cell)) if safe_href(cell) else text_markdown(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells))
