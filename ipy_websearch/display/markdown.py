"""Harmless Markdown, for files, Markdown cells and front ends that render it themselves: parsed, and written anew.

GitHub, VS Code, nbconvert and JupyterLab each have a dialect. What all agree on is used; what one of them could take for
HTML, an image, a link definition, an unchecked link or mathematics is escaped or becomes code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from markdown_it.token import Token

from ipy_websearch.display.html import MARK, Sources, alternative, guarded, parse
from ipy_websearch.display.text import host_of, one_line, safe_href
from ipy_websearch.text import visible

Pieces = list[tuple[bool, str]]
"""Inline Markdown in the making: (is it code, text). Code is kept raw until it is known what stands beside it."""

_MATH = re.compile(r"(?:\$+(?:\w[\w.,%/+-]*\w|\w)?|\\+(?:\w+|[()\[\]{}])?)+")
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LINKS, _CUT = re.compile(r"\](?=[(\[:])"), r"]\\"
_BLOCK_START = re.compile(r"^( {0,3})(?=[-+](?:[ \t]|$)|#{1,6}(?:[ \t]|$)|>|=+[ \t]*$|-[- \t]*$)", re.MULTILINE)
_NUMBER_START = re.compile(r"^( {0,3}\d{1,9})(?=[.)](?:[ \t]|$))", re.MULTILINE)
_SCHEME, _WWW = re.compile(r"\b(https?|ftp)://", re.IGNORECASE), re.compile(r"\b(www)\.", re.IGNORECASE)
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9+#-]{0,15}")
_DRAWN = {"math", "mermaid", "geojson", "topojson", "stl", "latex", "tex", "katex"}
"""Names of fences that GitHub and others draw or typeset instead of showing the code."""
_RULES = {"text-align:left": ":--", "text-align:center": ":-:", "text-align:right": "--:"}


def to_safe_markdown(markdown: str, sources: Sources | None = None) -> str:
    """Return Markdown that says the same as `html.to_html` and is as harmless; `[n]` of a known source becomes a link.

    There is no HTML, no image, no link definition, no unchecked address and no dollar sign outside code.
    """
    text = visible(markdown)
    writer = _Writer({n: source.url for n, source in (sources or {}).items()})
    marks = len(MARK.findall(text)) if sources else 0
    return guarded(text, lambda: "\n\n".join(writer.blocks(iter(parse(text)[0]), "")), fence, marks)


class _Writer:
    """One pass over block tokens; each method takes from the shared iterator what it writes, closing token included."""

    def __init__(self, citations: Mapping[int, str]) -> None:
        self._citations = citations

    def blocks(self, tokens: Iterator[Token], end: str) -> list[str]:
        """Return the blocks up to the token of type `end`."""
        found = []
        for token in tokens:
            if token.type == end:
                break
            found.append(self._block(token, tokens))
        return [block for block in found if block]

    def _block(self, token: Token, tokens: Iterator[Token]) -> str:
        match token.type:
            case "paragraph_open":
                return _guarded(self._inline(tokens))
            case "heading_open":
                text = re.sub(r"(#+)$", r"\\\1", self._inline(tokens).replace("\n", " "))
                return f"{'#' * int(token.tag[1])} {text}".rstrip()
            case "blockquote_open":
                inner = "\n\n".join(self.blocks(tokens, "blockquote_close"))
                return "\n".join(f"> {line}".rstrip() for line in inner.split("\n"))
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, tokens)
            case "table_open":
                return self._table(tokens)
            case "fence" | "code_block":
                return fence(token.content, token.info)
            case "hr":
                return "***"
            case _:
                return ""

    def _inline(self, tokens: Iterator[Token], *, in_table: bool = False) -> str:
        """Return the text of a paragraph, heading or cell."""
        token = next(tokens)
        if token.type != "inline":
            return ""
        next(tokens)
        return _inline(token.children or [], self._citations, in_table=in_table)

    def _list(self, opened: Token, tokens: Iterator[Token]) -> str:
        """Return a list; it is loose, as in the source, when a paragraph of an item is not hidden."""
        end, number = opened.type.replace("open", "close"), None
        if opened.type == "ordered_list_open":
            number = int(opened.attrs.get("start", 1))
        items: list[tuple[str, list[str]]] = []
        loose = False
        for token in tokens:
            if token.type == end:
                break
            blocks, is_loose = self._item(tokens)
            loose = loose or is_loose
            marker = f"{opened.markup} " if number is None else f"{number + len(items)}{opened.markup} "
            items.append((marker, blocks))
        gap = "\n\n" if loose else "\n"
        return gap.join(_indented(marker, gap.join(blocks)) for marker, blocks in items)

    def _item(self, tokens: Iterator[Token]) -> tuple[list[str], bool]:
        blocks: list[str] = []
        loose = False
        for token in tokens:
            if token.type == "list_item_close":
                break
            # these cannot follow a line of text directly: they would be read as part of it
            needs_gap = token.type == "table_open" or int(token.attrs.get("start", 1)) != 1
            loose = loose or (token.type == "paragraph_open" and not token.hidden) or (needs_gap and bool(blocks))
            blocks.append(self._block(token, tokens))
        return blocks, loose

    def _table(self, tokens: Iterator[Token]) -> str:
        rows: list[list[str]] = []
        rule: list[str] = []
        for token in tokens:
            if token.type == "table_close":
                break
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                if token.type == "th_open":
                    rule.append(_RULES.get(str(token.attrs.get("style", "")), "---"))
                rows[-1].append(self._inline(tokens, in_table=True).replace("\n", " "))
        return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))


def _indented(marker: str, body: str) -> str:
    """Return the body of a list item behind its marker, further lines under its beginning."""
    return re.sub(r"\n(?=[^\n])", "\n" + " " * len(marker), marker + body).rstrip()


def _guarded(text: str) -> str:
    """Return a paragraph none of whose lines would begin a list, a heading, a quotation or a rule."""
    return _NUMBER_START.sub(r"\1\\", _BLOCK_START.sub(r"\1\\", text))


def _inline(tokens: Sequence[Token], citations: Mapping[int, str], *, in_table: bool = False) -> str:
    """Return inline tokens as Markdown; code that touches code is joined, since backticks in a row do not close."""
    pieces: Pieces = []
    links: list[str] = []
    for token in tokens:
        for is_code, text in _pieces(token, citations, links):
            if text and pieces and pieces[-1][0] == is_code:
                pieces[-1] = (is_code, pieces[-1][1] + text)
            elif text:
                pieces.append((is_code, text))
    return "".join(_code(text, in_table) if is_code else re.sub(r"!(?=\[)", r"\!", text) for is_code, text in pieces)


def _pieces(token: Token, citations: Mapping[int, str], links: list[str]) -> Pieces:
    match token.type:
        case "text":
            return _text(token.content, citations, in_link=bool(links) or token.meta.get("in_link", False))
        case "code_inline":
            return [(True, token.content)]
        case "image":
            return _text(alternative(token), {}, in_link=bool(links))
        case "softbreak":
            return [(False, "\n")]
        case "hardbreak":
            return [(False, "  \n")]
        case "link_open":
            links.append(link_target(str(token.attrs.get("href", ""))))
            return [(False, "[" if links[-1] else "")]
        case "link_close":
            return [(False, f"]({target})" if (target := links.pop()) else "")]
        case "em_open" | "em_close" | "strong_open" | "strong_close" | "s_open" | "s_close":
            return [(False, token.markup)]
        case _:
            return _text(token.content, {})


def link_target(url: str) -> str:
    """Return a checked address as it stands in the parentheses of a Markdown link, "" when it may not be one."""
    href = safe_href(url) or ""
    return re.sub(r"[()$*]", lambda m: f"%{ord(m[0]):02X}", href).replace("&", "&amp;")


def link_markdown(url: str, text: str) -> str:
    """Return one line of text as a Markdown link, or as mere text when the address may not be one."""
    if not link_target(url):
        return text_markdown(text)
    opened, closed = Token("link_open", "a", 1, attrs={"href": url}), Token("link_close", "a", -1)
    return _inline([opened, _line(text), closed], {})


def text_markdown(text: str) -> str:
    """Return one line of plain text as Markdown in which nothing is markup."""
    return _guarded(_inline([_line(text)], {}))


def _line(text: str) -> Token:
    return Token("text", "", 0, content=" ".join(text.split()))


def _text(text: str, citations: Mapping[int, str], *, in_link: bool = False) -> Pieces:
    """Return text as pieces; what could be mathematics (a dollar amount, a backslash command) becomes code."""
    pieces: Pieces = []
    at = 0
    for match in _MATH.finditer(text):
        pieces += [*_escaped(text[at : match.start()], citations, in_link), (True, match[0])]
        at = match.end()
    return pieces + _escaped(text[at:], citations, in_link)


def _escaped(text: str, citations: Mapping[int, str], in_link: bool) -> Pieces:
    """Return text without mathematics as one piece, the marks of known sources as links."""
    if in_link:  # as entities: JupyterLab's Markdown takes backslashes before brackets off, then reads the text again
        return [(False, _quoted(text).replace("[", "&#91;").replace("]", "&#93;"))]
    out, at = "", 0
    for match in MARK.finditer(text):
        if target := link_target(citations.get(int(match[1]), "")):
            out += f"{_LINKS.sub(_CUT, _quoted(text[at : match.start()]))}[{match[0]}]({target})"
            at = match.end()
    return [(False, out + _LINKS.sub(_CUT, _quoted(text[at:])))]


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
