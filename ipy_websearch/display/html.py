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
from jinja2 import Environment, PackageLoader
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from ipy_websearch.display import text as words
from ipy_websearch.display.text import one_line, safe_href, site_of
from ipy_websearch.results import Citation, Claim
from ipy_websearch.text import shorten, visible

NO_MATH = "tex2jax_ignore mathjax_ignore"
"""Classes that keep MathJax away: two amounts in dollars would otherwise become a formula."""

MARK = re.compile(r"(?<!\\)\[(\d{1,4})\]")
_LIKE_A_MARK = re.compile(r"\[\d{1,4}\]|\d{1,2}")
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
    "left": "text-align:left;vertical-align:top",
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
        self.enable(["table", "strikethrough"]).disable(["html_block", "html_inline", "text_join"])
        self.core.ruler.push("marks", _set_marks_apart)
        self.core.ruler.push("doubts", _mark_doubts)
        rules = {
            "text": _text_rule,
            "text_special": _escaped_rule,
            "link_open": _link_rule,
            "image": _image_rule,
            "fence": _code_rule,
            "code_block": _code_rule,
        }
        for name, rule in {**rules, "th_open": _cell_rule, "td_open": _cell_rule}.items():
            self.add_render_rule(name, rule)

    def validateLink(self, url: str) -> bool:
        return safe_href(url) is not None

    def normalizeLink(self, url: str) -> str:
        return url

    def normalizeLinkText(self, link: str) -> str:
        return link


_parser = cache(_Parser)


def _set_marks_apart(state: Any) -> None:
    """Keep citation marks out of links, and make links that look like a mark, such as `[[2]](https://…)`, plain text."""
    for token in state.tokens:
        opened: Token | None = None
        inner: list[Token] = []
        for child in token.children or []:
            if child.type == "link_open":
                opened, inner = child, []
            elif child.type == "link_close" and opened is not None:
                if _LIKE_A_MARK.fullmatch("".join(text.content for text in inner).strip()):
                    opened.type = child.type = "dropped"
                opened = None
            elif opened is not None:
                inner.append(child)
                child.meta["in_link"] = True
        token.children = [child for child in token.children or [] if child.type != "dropped"]


def _mark_doubts(state: Any) -> None:
    """Note in each text which part of it belongs to a doubtful sentence.

    Sentences are found by their letters and digits, so that emphasis, links and citation marks within them do not matter. One
    that was made of a table row lies in its cells.
    """
    for group in _groups(state.tokens) if state.env.get("doubts") else ():
        places = [
            (letter, child, at)
            for child in group
            for at, character in enumerate(MARK.sub(lambda mark: " " * len(mark[0]), child.content))
            for letter in _letters(character)
        ]
        letters = "".join(letter for letter, _, _ in places)
        for sentence, why in state.env["doubts"].items():
            start = letters.find(sentence)
            found = places[start : start + len(sentence)] if start >= 0 else []
            children = list({id(child): child for _, child, _ in found}.values())
            for child in children:  # inner ones belong to the sentence as a whole, their blanks too
                rest = child.content[found[-1][2] + 1 :].lstrip(".,;:!?)>\"'”’…。！？")
                end = len(child.content) - (len(rest) if child is children[-1] else 0)
                child.meta.setdefault("doubts", []).append((found[0][2] if child is children[0] else 0, end, why))


def _groups(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the texts of each paragraph, and those of each table row."""
    row: list[Token] | None = None
    for token in tokens:
        texts = [child for child in token.children or () if child.type in ("text", "code_inline")]
        match token.type:
            case "tr_open":
                row = []
            case "tr_close":
                yield row or []
                row = None
            case "inline" if row is not None:
                row += texts
            case "inline":
                yield texts


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def _text_rule(self: Any, tokens: Sequence[Token], i: int, options: Any, env: Mapping[str, Any]) -> str:
    token, sources = tokens[i], env.get("sources") or {}
    shown, at = [], 0
    for mark in MARK.finditer(token.content) if sources and not token.meta.get("in_link") else ():
        shown += [_part(token, at, mark.start()), chip(int(mark[1]), sources)]
        at = mark.end()
    return "".join([*shown, _part(token, at, len(token.content))])


def _part(token: Token, start: int, end: int) -> str:
    """Return a part of a text with what belongs to doubtful sentences in amber, and on hover what their sources lack."""
    for first, last, why in sorted(token.meta.get("doubts", ())):
        if first < end and last > start:
            first, last = max(first, start), min(last, end)
            marked = f'<mark style="{STYLES["doubt"]}" title="{escape(why)}">{escape(token.content[first:last])}</mark>'
            return f"{escape(token.content[start:first])}{marked}{_part(token, last, end)}"
    return str(escape(token.content[start:end]))


def doubts_of(claims: Sequence[Claim]) -> dict[str, str]:
    """Return the letters of the sentences that their sources do not support, with what the sources lack."""
    doubtful = [claim for claim in claims if claim.verdict in ("unsupported", "partly")]
    lacks = "its source does not say"
    return {_letters(claim.sentence): f"{lacks}: {', '.join(claim.missing) or 'this'}" for claim in doubtful}


def _escaped_rule(self: Any, tokens: Sequence[Token], i: int, options: Any, env: Any) -> str:
    return str(escape(tokens[i].content))  # `\\[1]` is no mark


def _link_rule(self: Any, tokens: Sequence[Token], i: int, options: Any, env: Any) -> str:
    return f'<a href="{escape(safe_href(str(tokens[i].attrs.get("href", ""))) or "")}">'


def _image_rule(self: Any, tokens: Sequence[Token], i: int, options: Any, env: Any) -> str:
    return str(escape(alternative(tokens[i])))


def _code_rule(self: Any, tokens: Sequence[Token], i: int, options: Any, env: Any) -> str:
    return f'<pre style="{STYLES["code"]}"><code>{escape(tokens[i].content)}</code></pre>\n'


def _cell_rule(self: Any, tokens: Sequence[Token], i: int, options: Any, env: Any) -> str:
    return f'<{tokens[i].tag} style="{tokens[i].attrs.get("style") or "text-align:left"}">'  # JupyterLab aligns to the right


def alternative(token: Token) -> str:
    """Return what is shown in place of an image: its alternative text."""
    return "".join(alternative(t) if t.type == "image" else t.content for t in token.children or []) or "image"


def chip(n: int, sources: Sources) -> str:
    """Return the mark of source `n` in a text: a chip with number and site, the quote on hover; `[n]` where there is none."""
    return _chip(sources[n]) if n in sources else f"[{n}]"


@lru_cache(maxsize=1024)
def _chip(source: Citation) -> str:
    quote = f" — “{shorten(one_line(source.cited_text), _QUOTE)}”" if source.cited_text else ""
    href = safe_href(source.url)
    name = site_of(source.url) if href else one_line(source.title)
    title, label = escape(f"{words.place_of(source.url)}{quote}"), escape(f"{source.n} {shorten(name, 24)}".strip())
    tag, address = ("a", f' href="{escape(href)}"') if href else ("sup", "")  # which is a mark without styles, too
    return f' <{tag}{address} title="{title}" style="{STYLES["chip"]}">{label}</{tag}>'


def parse(text: str, sources: Sources | None = None, claims: Sequence[Claim] = ()) -> tuple[list[Token], dict[str, Any]]:
    """Return the tokens of some Markdown, and the environment in which they are rendered."""
    env = {"references": _Definitions(), "sources": sources or {}, "doubts": doubts_of(claims)}
    return _parser().parse(text, env), env


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
    text = visible(markdown)

    def render() -> str:
        tokens, env = parse(text, sources, claims)
        return clean(str(_parser().renderer.render(tokens, _parser().options, env)))

    marks = len(MARK.findall(text)) if sources else 0
    return Markup(guarded(text, render, lambda text: f'<pre style="{STYLES["code"]}">{escape(text)}</pre>', marks))


def inline(markdown: str) -> Markup:
    """Return one line of Markdown as harmless HTML without a paragraph around it."""
    return Markup(clean(_parser().renderInline(one_line(markdown), {"references": _Definitions()})))


def link(url: str, text: str) -> Markup:
    """Return `text` as a link to `url`, or as mere text when the address may not be one."""
    href = safe_href(url)
    label = escape(one_line(text))
    return Markup(f'<a href="{escape(href)}" style="text-decoration:none">{label}</a>') if href else label


def render(template: str, **values: Any) -> str:
    """Return a template filled with values, which it escapes, as one harmless block that mathematics leaves alone."""
    body = _environment().get_template(f"{template}.html").render(values)
    return clean(f'<div class="{NO_MATH}" style="max-width:62em;line-height:1.5;overflow-wrap:anywhere">{body}</div>')


def clean(html: str) -> str:
    """Return HTML with the elements, attributes, styles and addresses of our allow list alone."""
    return _cleaner().clean(html)


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS,
        attributes={"*": {"style", "title"}, "a": {"href"}, "th": {"colspan"}, "ol": {"start"}, "details": {"open"}},
        allowed_classes={"div": set(NO_MATH.split())},
        filter_style_properties=_PROPERTIES,
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ipy_websearch.display"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else "" if value is None else visible(str(value)),
    )
    environment.globals.update(STYLES, link=link)
    environment.filters.update(inline=inline, one_line=one_line)
    return environment
