"""Hostile Markdown and values made into harmless HTML: the one renderer through which everything is shown.

A magic's output counts as trusted in Jupyter: nothing sanitises it after us, and a `<script>` in it runs in the user's Lab
(measured with JupyterLab 4.6.6, 2026-11). So Markdown is parsed with raw HTML off, templates escape their values, and what
comes out passes nh3 with an allow list. Images become their alternative text: an image address fetches, and can carry data
out. Styles stand in the elements, since JupyterLab drops `<style>` from notebooks that it does not trust.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from ipy_websearch.display.text import host_of, one_line, place_of, safe_href, site_of
from ipy_websearch.results import Citation, Claim
from ipy_websearch.text import shorten, visible

NO_MATH = "tex2jax_ignore mathjax_ignore"
"""Classes that keep MathJax away: two amounts in dollars would otherwise become a formula."""

MARK = re.compile(r"(?<!\\)\[(\d{1,4})\]")
_LIKE_A_MARK = re.compile(r"\[\d{1,4}\]|\d{1,2}")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_BROKEN = (RecursionError, ValueError, IndexError, KeyError, AttributeError)
_MAX_CELLS = 40_000  # the header of a table can multiply a short text into megabytes of empty cells
_MAX_GROWTH = 8
_MAX_MARKS = 2_000
_QUOTE = 160

Sources = Mapping[int, Citation]
"""The cited sources by their numbers."""

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


class _Definitions(dict[str, Any]):
    """Link definitions of a text; one such as "[1]: https://…" is dropped, or it would rebind a citation mark."""

    def __setitem__(self, label: str, definition: Any) -> None:
        if not label.isdigit():
            super().__setitem__(label, definition)


class _Parser(MarkdownIt):
    """CommonMark with tables and strikethrough, without HTML; only addresses that pass `safe_href` are links."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False})
        self.enable(["table", "strikethrough"]).disable("text_join")  # it would make `\\[1]` a mark
        self.core.ruler.push("marks", _prepare)
        self.core.ruler.push("doubts", _mark_doubts)
        rules = {"text": _text_rule, "text_special": _text_rule, "mark": _mark_rule, "fence": _code_rule}
        for name, rule in {**rules, "code_block": _code_rule}.items():
            self.add_render_rule(name, rule)

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
                found.append(Token("text_special", "", 0, content=alternative(child)))
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
    for i, piece in enumerate(MARK.split(token.content)):
        if i % 2 == 0:
            yield Token("text", "", 0, content=piece)
        elif int(piece) in sources:
            yield Token("mark", "", 0, content=f"[{piece}]", meta={"source": sources[int(piece)]})
        else:
            yield Token("text_special", "", 0, content=f"[{piece}]")


def alternative(image: Token) -> str:
    """Return what is shown in place of an image: its alternative text."""
    return "".join(alternative(t) if t.type == "image" else t.content for t in image.children or []) or "image"


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


def _text_rule(self: Any, tokens: Sequence[Token], i: int, options: Any, env: Any) -> str:
    """Return a text, what belongs to doubtful sentences in amber, and on hover what their sources lack."""
    text, shown, at = tokens[i].content, "", 0
    for start, end, why in sorted(tokens[i].meta.get("doubts", ())):
        start = max(start, at)
        if start < end:
            marked = f'<mark style="{STYLES["doubt"]}" title="{escape(why)}">{escape(text[start:end])}</mark>'
            shown, at = f"{shown}{escape(text[at:start])}{marked}", end
    return f"{shown}{escape(text[at:])}"


def _mark_rule(self: Any, tokens: Sequence[Token], i: int, options: Any, env: Any) -> str:
    return _chip(tokens[i].meta["source"])


def _code_rule(self: Any, tokens: Sequence[Token], i: int, options: Any, env: Any) -> str:
    return f'<pre style="{STYLES["code"]}"><code>{escape(tokens[i].content)}</code></pre>\n'


@lru_cache(maxsize=1024)
def _chip(source: Citation) -> str:
    """Return the mark of a source in a text: a chip with its number and site, the quote on hover."""
    quote = f" — “{shorten(one_line(source.cited_text), _QUOTE)}”" if source.cited_text else ""
    href = safe_href(source.url)
    name = site_of(source.url) if href else one_line(source.title)
    title, label = escape(f"{place_of(source.url)}{quote}"), escape(f"{source.n} {shorten(name, 24)}".strip())
    tag, address = ("a", f' href="{escape(href)}"') if href else ("sup", "")  # which is a mark without styles, too
    return f' <{tag}{address} title="{title}" style="{STYLES["chip"]}">{label}</{tag}>'


def parse(text: str, sources: Sources | None = None, claims: Sequence[Claim] = ()) -> list[Token]:
    """Return the tokens of some Markdown."""
    return _parser().parse(text, {"references": _Definitions(), "sources": sources or {}, "claims": claims})


def guarded(text: str, make: Callable[[], str], otherwise: Callable[[str], str], marks: int = 0) -> str:
    """Return what `make` gives, or the text as code when it breaks the parser or grows out of all proportion.

    The chips of `marks` citations, some 500 bytes each, are in proportion.
    """
    lines = text.split("\n")
    if max(line.count("|") for line in lines) * len(lines) > _MAX_CELLS:
        return otherwise(text)
    try:
        made = make()
    except _BROKEN:
        return otherwise(text)
    return otherwise(text) if len(made) > _MAX_GROWTH * len(text) + 60_000 + 600 * min(marks, _MAX_MARKS) else made


def to_html(markdown: str, sources: Sources | None = None, claims: Sequence[Claim] = ()) -> Markup:
    """Return Markdown as harmless HTML; `[n]` becomes the chip of source n, and stays text where there is no such source.

    Sentences that the `claims` doubt are marked in amber.
    """
    text, parser = visible(markdown), _parser()

    def make() -> str:
        return clean(str(parser.renderer.render(parse(text, sources, claims), parser.options, {})))

    marks = len(MARK.findall(text)) if sources else 0
    return Markup(guarded(text, make, lambda text: f'<pre style="{STYLES["code"]}">{escape(text)}</pre>', marks))


def inline(markdown: str) -> Markup:
    """Return one line of Markdown as harmless HTML without a paragraph around it."""
    return Markup(clean(_parser().renderInline(one_line(markdown), {"references": _Definitions()})))


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
