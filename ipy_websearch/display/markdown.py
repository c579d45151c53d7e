"""Hostile Markdown made harmless: the one renderer through which every text of a model or of the web is shown.

A magic's output counts as trusted in Jupyter: nothing sanitises it after us, a `<script>` in it runs in the user's
Lab (measured with JupyterLab 4.6.6, 2026-11). So the text is parsed with raw HTML off, and the output is built here from a
fixed table of tags: no tag, attribute, style or class can come from the content but a checked `href`, a list's start
number and a column's alignment. Images become their alternative text: an image address fetches, and can carry
data out. The wrapper's classes keep MathJax away, since two dollar amounts would otherwise become mathematics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ipy_websearch.display.links import REL, link_html, safe_href
from ipy_websearch.display.markdown_writer import CITATION, Citations, alternative, fence, write
from ipy_websearch.text import visible

NO_MATH = "tex2jax_ignore mathjax_ignore"
_TAGS = {
    "paragraph": "p",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "blockquote": "blockquote",
    "em": "em",
    "strong": "strong",
    "s": "s",
    **{name: name for name in ("table", "thead", "tbody", "tr", "th", "td")},
}
_ALIGNMENTS = {f"text-align:{side}" for side in ("left", "center", "right")}
_BROKEN = (RecursionError, ValueError, IndexError, KeyError, AttributeError)
_MAX_CELLS = 40_000  # the header of a table can multiply a short text into megabytes of empty cells
_MAX_GROWTH = 8


class _Parser(MarkdownIt):
    """CommonMark with tables and strikethrough, without HTML; only addresses that pass `safe_href` are links."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False})
        self.enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])

    def validateLink(self, url: str) -> bool:
        return safe_href(url) is not None

    def normalizeLink(self, url: str) -> str:
        return url

    def normalizeLinkText(self, link: str) -> str:
        return link


class _Definitions(dict[str, Any]):
    """Link definitions of a text; one such as "[1]: https://…" is dropped, or it would rebind a citation mark."""

    def __setitem__(self, label: str, definition: Any) -> None:
        if not label.isdigit():
            super().__setitem__(label, definition)


_parser = lru_cache(maxsize=1)(_Parser)


def to_html(markdown: str, citations: Citations | None = None) -> str:
    """Return the Markdown as harmless HTML in a `<div>` that mathematics leaves alone.

    `[n]` becomes a small link to `citations[n]` where that is an http or https address, and stays text elsewhere.
    """
    text = visible(markdown)
    return wrap(_guarded(text, lambda: html_of(_parse(text), citations or {}), _as_pre))


def to_safe_markdown(markdown: str, citations: Citations | None = None) -> str:
    """Return Markdown that says the same and is as harmless as `to_html`, for front ends that render it themselves.

    It is written anew from the parsed text: no HTML, no images, no link definitions, no other addresses than `to_html`
    links, no dollar sign outside code.
    """
    text = visible(markdown)
    return _guarded(text, lambda: write(_parse(text), citations or {}), _as_fence)


def to_plain(text: str) -> str:
    """Return the text for a terminal: as it is, without control, bidirectional and invisible characters."""
    return visible(text).replace("\u2028", "\n").replace("\u2029", "\n").strip("\n")


def wrap(html: str) -> str:
    """Return rendered Markdown in its `<div>`."""
    return f'<div class="ipyws-md {NO_MATH}">{html}</div>'


class Growing:
    """Renders a text that grows at its end, at the cost of its last block: what is closed is parsed once.

    `html` and `markdown` hold the renderings of the text last given to `update`. A link definition that arrives after
    the block that uses it is only honoured by the final, whole rendering.
    """

    def __init__(self) -> None:
        self._given: tuple[str, int] | None = None
        self._begin()

    def _begin(self) -> None:
        self._closed = ""
        self._closed_html = ""
        self._closed_markdown: list[str] = []
        self._definitions = _Definitions()
        self.html = ""
        self.markdown = ""

    def update(self, text: str, citations: Citations) -> None:
        """Render `text`, which usually begins with the text of the last call."""
        given = (text, len(citations))
        if given == self._given:
            return
        self._given, text = given, visible(text)
        if not text.startswith(self._closed):  # it was retracted
            self._begin()
        tail = text[len(self._closed) :]
        known = _Definitions(self._definitions)
        tokens = _guarded(tail, lambda: _parse(tail, known), _as_code)
        # a line that is not complete may yet turn out to belong to the block before it
        whole = tail.count("\n")
        starts = [(i, t.map[0]) for i, t in enumerate(tokens) if t.level == 0 and t.map and t.map[0] < whole]
        last, line = starts[-1] if starts else (0, 0)
        if last:  # a definition that is not complete may yet turn out to be none
            self._definitions.update({name: found for name, found in known.items() if found.get("map", (0, 0))[1] <= line})
            self._closed += "\n".join(tail.split("\n", line)[:line]) + "\n"
            self._closed_html += html_of(tokens[:last], citations)
            self._closed_markdown.append(write(tokens[:last], citations))
        self.html = self._closed_html + html_of(tokens[last:], citations)
        self.markdown = "\n\n".join(filter(None, (*self._closed_markdown, write(tokens[last:], citations))))


def _parse(text: str, definitions: _Definitions | None = None) -> list[Token]:
    return _parser().parse(text, {"references": _Definitions() if definitions is None else definitions})


def _guarded(text: str, render: Callable[[], Any], otherwise: Callable[[str], Any]) -> Any:
    """Return what `render` gives, or the text as code when it breaks the parser or grows out of all proportion."""
    lines = text.split("\n")
    if max(line.count("|") for line in lines) * len(lines) > _MAX_CELLS:
        return otherwise(text)
    try:
        rendered = render()
    except _BROKEN:
        return otherwise(text)
    grown = isinstance(rendered, str) and len(rendered) > _MAX_GROWTH * len(text) + 20_000
    return otherwise(text) if grown else rendered


def _as_code(text: str) -> list[Token]:
    return [Token("fence", "code", 0, content=text)]


def _as_pre(text: str) -> str:
    return f"<pre>{escape(text, quote=False)}</pre>"


def _as_fence(text: str) -> str:
    return fence(text)


def html_of(tokens: Sequence[Token], citations: Citations) -> str:
    """Return the HTML of parsed tokens, without the wrapper."""
    out: list[str] = []
    for token in tokens:
        if token.type == "inline":
            out.append(_inline_html(token.children or [], citations))
        else:
            out.append(_block_html(token))
    return "".join(out)


def _block_html(token: Token) -> str:
    name, _, side = token.type.rpartition("_")
    if token.hidden:  # the paragraphs of a tight list
        return "" if side == "open" else "\n"
    if token.type in ("fence", "code_block"):
        return f"<pre><code>{escape(token.content, quote=False)}</code></pre>\n"
    if token.type == "hr":
        return "<hr>\n"
    tag = token.tag if name == "heading" and re.fullmatch("h[1-6]", token.tag) else _TAGS.get(name)
    if tag is None:
        return escape(token.content, quote=False)
    return f"</{tag}>\n" if side == "close" else f"<{tag}{_attributes(token)}>"


def _attributes(token: Token) -> str:
    start, style = token.attrs.get("start"), token.attrs.get("style")
    if token.type == "ordered_list_open" and isinstance(start, int):
        return f' start="{start}"'
    return f' style="{style}"' if style in _ALIGNMENTS else ""


def _inline_html(tokens: Sequence[Token], citations: Citations) -> str:
    out: list[str] = []
    in_link = 0
    for token in tokens:
        match token.type:
            case "text":
                out.append(escape(token.content, quote=False) if in_link else _marked(token.content, citations))
            case "code_inline":
                out.append(f"<code>{escape(token.content, quote=False)}</code>")
            case "softbreak":
                out.append("\n")
            case "hardbreak":
                out.append("<br>\n")
            case "image":
                out.append(escape(alternative(token), quote=False))
            case "link_open":
                href = safe_href(str(token.attrs.get("href", "")))
                out.append(f'<a href="{escape(href)}" {REL}>' if href else "<a>")
                in_link += 1
            case "link_close":
                out.append("</a>")
                in_link -= 1
            case _:
                out.append(_block_html(token).rstrip("\n"))
    return "".join(out)


def _marked(text: str, citations: Citations) -> str:
    """Return escaped text in which the marks of known sources are links."""
    if "[" not in text or not citations:
        return escape(text, quote=False)
    pieces = CITATION.split(text)
    for i in range(0, len(pieces), 2):
        pieces[i] = escape(pieces[i], quote=False)
    for i in range(1, len(pieces), 2):
        pieces[i] = _mark_html(int(pieces[i]), citations)
    return "".join(pieces)


def _mark_html(n: int, citations: Citations) -> str:
    """Return the mark of source `n`: a link where its address may be one, text where there is no such source."""
    if n not in citations:
        return f"[{n}]"
    return f"<sup>{link_html(citations[n], f'[{n}]', css_class='ipyws-cite')}</sup>"
