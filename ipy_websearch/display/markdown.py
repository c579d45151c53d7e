"""Harmless Markdown, for files, Markdown cells and front ends that render it themselves: parsed, and written anew.

GitHub, VS Code, nbconvert and JupyterLab each have a dialect. What all agree on is used; what one of them could take for
HTML, an image, a link definition, an unchecked link or mathematics is escaped or becomes code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from markdown_it.tree import SyntaxTreeNode

from ipy_websearch.display.html import MARK, Sources, guarded, parse
from ipy_websearch.display.text import host_of, one_line, safe_href
from ipy_websearch.text import visible

Pieces = list[tuple[str, str]]
"""Inline Markdown in the making: ("text", "code" or "markup", the text). Code is raw until its neighbours are known."""

_MATH = re.compile(r"((?:\$+(?:\w[\w.,%/+-]*\w|\w)?|\\+(?:\w+|[()\[\]{}])?)+)")
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LINKS = re.compile(r"\](?=[(\[:])")
_BLOCK_START = re.compile(r"^( {0,3})(?=[-+](?:[ \t]|$)|#{1,6}(?:[ \t]|$)|>|=+[ \t]*$|-[- \t]*$)", re.MULTILINE)
_NUMBER_START = re.compile(r"^( {0,3}\d{1,9})(?=[.)](?:[ \t]|$))", re.MULTILINE)
_SCHEME, _WWW = re.compile(r"\b(https?|ftp)://", re.IGNORECASE), re.compile(r"\b(www)\.", re.IGNORECASE)
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9+#-]{0,15}")
_DRAWN = {"math", "mermaid", "geojson", "topojson", "stl", "latex", "tex", "katex"}
"""Names of fences that GitHub and others draw or typeset instead of showing the code."""
_RULES = {"text-align:center": ":-:", "text-align:right": "--:"}


def to_safe_markdown(markdown: str, sources: Sources | None = None) -> str:
    """Return Markdown that says the same as `html.to_html` and is as harmless; `[n]` of a known source becomes a link.

    There is no HTML, no image, no link definition, no unchecked address and no dollar sign outside code.
    """
    text = visible(markdown)
    marks = len(MARK.findall(text)) if sources else 0
    return guarded(text, lambda: _blocks(SyntaxTreeNode(parse(text, sources)).children), fence, marks)


def _blocks(nodes: Sequence[SyntaxTreeNode], gap: str = "\n\n") -> str:
    return gap.join(filter(None, map(_block, nodes)))


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "paragraph":
            return _guarded(_inline(node))
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
            return fence(node.content, node.info)
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


def _guarded(text: str) -> str:
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
            target = link_target(node.meta["source"].url)
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
    target = link_target(url)
    inner: Pieces = [
        (kind, text if kind == "code" else text.replace("[", "&#91;").replace("]", "&#93;")) for kind, text in pieces
    ]
    return [("markup", "["), *inner, ("markup", f"]({target})")] if target else inner


def link_target(url: str) -> str:
    """Return a checked address as it stands in the parentheses of a Markdown link, "" when it may not be one."""
    href = safe_href(url) or ""
    return re.sub(r"[()$*]", lambda m: f"%{ord(m[0]):02X}", href).replace("&", "&amp;")


def link_markdown(url: str, text: str) -> str:
    """Return one line of text as a Markdown link, or as mere text when the address may not be one."""
    return _joined(_link(url, _text(one_line(text)))) if link_target(url) else text_markdown(text)


def text_markdown(text: str) -> str:
    """Return one line of plain text as Markdown in which nothing is markup."""
    return _guarded(_joined(_text(one_line(text))))


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


def fence(content: str, info: str = "") -> str:
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
