"""The Markdown renderer against hostile text: whatever goes in, only tags and links from our own tables come out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ipy_websearch.display.answer_text import answer_markdown, answer_text
from ipy_websearch.display.answers import answer_html
from ipy_websearch.display.links import host_of, link_html, safe_href, short_address
from ipy_websearch.display.markdown import Growing, to_html, to_plain, to_safe_markdown, wrap
from ipy_websearch.display.markdown_writer import link_markdown, text_markdown
from ipy_websearch.display.pages import page_html, page_markdown, page_text
from ipy_websearch.display.panels import panel_html, panel_markdown, panel_text
from ipy_websearch.display.tables import search_html, search_markdown, search_text
from ipy_websearch.results import Answer, Attempt, Citation, Page, Panel, SearchResult, SearchResults, Step
from ipy_websearch.text import plain
from tests.slow.browser.payloads import payloads

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PAYLOADS = payloads("http://evil.example")
CITATIONS = {1: "https://one.example/?a=1&b=2", 2: "javascript:alert(1)"}
ATTRIBUTES = {"class", "style", "title", "href", "rel", "target", "start", "open"}
# fmt: off
TAGS = {
    "div", "p", "ul", "ol", "li", "blockquote", "em", "strong", "s", "pre", "code", "hr", "br", "a", "sup", "small", "span",
    "b", "i", "table", "thead", "tbody", "tr", "th", "td", "h1", "h2", "h3", "h4", "h5", "h6", "details", "summary", "style",
}
PIECES = [
    "<script>alert(1)</script>", "<img src=x onerror=1>", "![a](http://e/x)", "![a][r]", "[r]: http://e/x", "[1]: http://e/x",
    "[a](javascript:1)", "[a](data:text/html)", "[a](<http://e/ b>)", "<http://a.b>", "<javascript:1>", "<a@b.c>",
    "<!-- ", "-->", "<![CDATA[", "<", ">", "&lt;", "&#60;", "&#10;", "&#x5d;", "`", "``", "```", "```math\n", "$`x`$", "$",
    "$x$", "\\(", "\\[", "\\begin{x}", "\\`", "\\<", "\\", "*", "**", "_", "~~", "~", "|", "| a |", "|---|---|",
    "\n", "\n\n", "\n- ", "\n1. ", "\n3) ", "\n> ", "\n# ", "\n---\n", "\n===\n", "    ", "\t",
    "[1]", "[2]", "[^1]: x", "- [ ] ", "[", "]", "(", ")", "!", ":", "{=html}",
    "http://e/a_b", "www.e.example", "a", "word", "x_y", "é", "\u202e", "\x1b[31m",
]
# fmt: on
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join)


class Seen(HTMLParser):
    """Keeps the text of some HTML and whatever in it is in none of our tables."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.foreign: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Judge a tag and its attributes."""
        for name, value in attrs:
            good = name in ATTRIBUTES and not (name == "style" and value not in {f"text-align:{s}" for s in SIDES})
            if name == "href":
                good = safe_href(value or "") == value
            if not good:
                self.foreign.append(f"{tag} {name}={value!r}")
        if tag not in TAGS:
            self.foreign.append(tag)

    def handle_data(self, data: str) -> None:
        """Keep text."""
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        """A comment is never ours."""
        self.foreign.append(f"comment {data!r}")

    handle_decl = handle_pi = unknown_decl = handle_comment

    @property
    def text(self) -> str:
        """The text without white space."""
        return "".join("".join(self.words).split())


SIDES = ("left", "center", "right")


def permissive() -> MarkdownIt:
    """Return a parser that lets everything through, as a careless front end would."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url, validator=None: True  # type: ignore[method-assign]
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    return parser


def tokens_of(tokens: list[Token]) -> Iterator[Token]:
    """Yield tokens with all that is in them."""
    for token in tokens:
        yield token
        yield from tokens_of(token.children or [])


def without_code(token: Token) -> str:
    """Return the source of an inline token without its code spans."""
    text = token.content
    for child in token.children or []:
        text = text.replace(child.content, "", 1) if child.type == "code_inline" and child.content else text
    return text


def problems(markdown: str) -> list[str]:
    """Return what a careless front end would do with some Markdown that it should not."""
    found = []
    for token in tokens_of(permissive().parse(markdown)):
        if token.type in ("html_inline", "html_block", "image"):
            found.append(f"{token.type}: {token.content}")
        elif token.type == "link_open" and safe_href(str(token.attrs["href"])) is None:
            found.append(f"link: {token.attrs['href']}")
        elif token.type == "inline" and "{" in without_code(token):
            found.append(f"attributes: {token.content}")
        elif token.type == "text" and re.search(r"\$|\\[(\[]|\\begin", token.content):
            found.append(f"mathematics: {token.content}")
    return found


@given(hostile)
def test_html_holds_no_tag_attribute_or_address_from_the_content(text: str) -> None:
    """Only tags of our table come out, with attributes of our own and checked addresses."""
    html = to_html(text, CITATIONS)
    assert Seen(html).foreign == []
    assert html.startswith('<div class="ipyws-md tex2jax_ignore mathjax_ignore">')


@given(hostile)
@example("http://e/`<img src=x>`")
@example("a&#10;&#10;[x]: javascript:1")
@example("[2](javascript:1)")
@example("$`x`$ and ``$``")
@example("\\![1]()")
@example("[![a](http://e/x)](http://ok.example)")
def test_safe_markdown_stays_safe_in_a_parser_that_allows_everything(text: str) -> None:
    """No HTML, no image, no unchecked link and no dollar outside code is left for a front end to find."""
    assert problems(to_safe_markdown(text, CITATIONS)) == []


@given(hostile)
def test_plain_text_holds_no_control_and_no_bidirectional_characters(text: str) -> None:
    """A terminal gets neither escape sequences nor characters that turn the reading order round."""
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", to_plain(text))


@given(st.lists(st.sampled_from([piece for piece in PIECES if not set(piece) & set("*_~&[]#\x1b\u202e")]), max_size=20))
def test_safe_markdown_says_what_the_html_says(pieces: list[str]) -> None:
    """Rendered again, the Markdown written for front ends shows the same words as our HTML."""
    text = "".join(pieces)
    assert Seen(to_html(to_safe_markdown(text))).text == Seen(to_html(text)).text


@given(hostile, st.lists(st.integers(0, 200), max_size=6))
@example("\n3) \n3) x\n---\n\\!]", [4, 7])
@example("- a\n- b\n\nc\n\n```\nx\n", [5, 9, 14])
@example("[q]: http://e/x<img src=x onerror=1>", [13])
@example("[q]: http://e\n\n[q] a\n\n[q] b", [14, 16, 24])
def test_a_text_rendered_while_it_grows_ends_like_one_rendered_at_once(text: str, cuts: list[int]) -> None:
    """Closed blocks are rendered once; the outcome is that of the whole text."""
    text = text.replace("[r]", "[q]")  # definitions that come late are left to the final rendering
    growing = Growing()
    for cut in sorted(cuts):
        growing.update(text[:cut], CITATIONS)
    growing.update(text, CITATIONS)
    assert wrap(growing.html) == to_html(text, CITATIONS)


def test_a_retracted_text_is_rendered_anew() -> None:
    """A text that does not begin with what was closed before leaves nothing of it behind."""
    growing = Growing()
    growing.update("one\n\ntwo\n\nthree", {})
    growing.update("other", {})
    assert (growing.html, growing.markdown) == ("<p>other</p>\n", "other")


def outputs(t: str) -> Iterator[tuple[str, str, str]]:
    """Yield the HTML, Markdown and plain text of every kind of output with `t` in every place."""
    citations = (Citation(1, t, t, t, NOW), Citation(2, t, f"https://ok.example/?{t}", t))
    panels = (Panel("P1", t, "yaml", t, t), Panel("P2", t, "markdown", t, "web_fetch", True))
    prose = f"{t}\n\n{t} [1] **{t}** [2]\n\n- {t}\n\n> {t}\n\n| a |\n|---|\n| {t} |\n\n# {t}\n"
    answer = Answer(t, prose, t, citations, panels, stop_reason=t, notices=(t,), trace=(Step(1, "tool", t, t),))
    table = Answer(t, t, t, rows=({t: t, "list": [t]},), columns={t: str, "list": list})
    for value in (answer, table):
        yield answer_html(value), answer_markdown(value), answer_text(value)
    search = SearchResults((SearchResult(t, t, t, NOW),), t, t, attempts=(Attempt(t, t),), notices=(t,))
    yield search_html(search) or "", search_markdown(search) or "", search_text(search) or ""
    page = Page(t, t, t, t, 1, 2, NOW, note=t)
    yield page_html(page), page_markdown(page), page_text(page)
    yield panel_html(panels[0]), panel_markdown(panels[0]), panel_text(panels[0])


@pytest.mark.parametrize("name", PAYLOADS)
def test_every_payload_is_harmless_in_every_place_of_every_output(name: str) -> None:
    """Scripts, images, styles, command buttons, links that run code: text, in HTML as in Markdown."""
    for html, markdown, words in outputs(PAYLOADS[name]):
        assert Seen(html).foreign == []
        assert problems(markdown) == []
        assert to_plain(words) == words.strip("\n")


@pytest.mark.parametrize(
    "url",
    [
        *("javascript:1", "JavaScript:1", "java\tscript:1", "data:text/html,1", "vbscript:1", "ftp://a.example", "http:x"),
        *("file:///etc/passwd", "corpus://a/b", "//evil.example", "/path", "#x", "https:///x", "https://[x/"),
        *("https://user:word@evil.example/", "https://good.example\\@evil.example/"),
    ],
)
def test_an_address_that_is_not_plainly_http_https_or_mailto_is_no_link(url: str) -> None:
    """It is shown as text, in HTML and in Markdown."""
    assert safe_href(url) is None
    assert "<a" not in link_html(url, "x") + to_html(f"[x]({url}) [x](<{url}>)")
    assert link_markdown(url, "x") == "x"


def test_addresses_are_quoted_so_that_they_cannot_leave_their_attribute() -> None:
    """Quotes, brackets, blanks and other alphabets become percent codes; the host of another alphabet its ASCII form."""
    assert safe_href("https://a.example/x y?q=<b>\"'&z=1") == "https://a.example/x%20y?q=%3Cb%3E%22'&z=1"
    assert safe_href("https://bücher.example/ü") == "https://xn--bcher-kva.example/%C3%BC"
    assert safe_href("mailto:a@b.example") == "mailto:a@b.example"
    assert link_html("https://a.example/?a=1&b='", "<x>") == (
        '<a href="https://a.example/?a=1&amp;b=&#x27;" rel="noopener noreferrer nofollow" target="_blank">&lt;x&gt;</a>'
    )


def test_hosts_and_short_addresses_are_for_reading() -> None:
    """ "www." and the scheme go; an address without a host gives its scheme."""
    assert [host_of(u) for u in ("https://www.a.example/x", "file:///x", "https://[x/")] == ["a.example", "file", ""]
    assert short_address("https://www.a.example/docs/page.html?q=1#top") == "a.example/docs/page.html"


def test_marks_of_known_sources_become_links_and_others_stay_text() -> None:
    """[1] links to its source; [2] has no address to link to, [3] no source; a definition in the text rebinds none."""
    html = to_html("a [1][2][3]\n\n[1]: https://evil.example", CITATIONS)
    assert '<sup><a class="ipyws-cite" href="https://one.example/?a=1&amp;b=2" rel=' in html
    assert "<sup>[2]</sup>[3]</p>" in html
    assert "evil" not in html
    markdown = to_safe_markdown("a [1][2][3]\n\n[1]: https://evil.example", CITATIONS)
    assert markdown == "a [[1]](https://one.example/?a=1&amp;b=2)[2]\\[3]"


def test_common_markdown_is_rendered_as_it_should_be() -> None:
    """Emphasis, code, links, lists, tables with alignment and quotations work; images show their alternative text."""
    html = to_html("**b** *i* ~~s~~ `c<` [x](https://a.example 'title') ![alt *t*](https://a.example/i.png)\n\n3. three\n")
    assert "<strong>b</strong> <em>i</em> <s>s</s> <code>c&lt;</code>" in html
    assert '<a href="https://a.example" rel="noopener noreferrer nofollow" target="_blank">x</a> alt t</p>' in html
    assert '<ol start="3"><li>three' in html
    assert '<td style="text-align:right">1</td>' in to_html("| a |\n|--:|\n| 1 |")
    assert to_html("```python evil\nx\n```") == wrap("<pre><code>x\n</code></pre>\n")


def test_safe_markdown_keeps_the_structure() -> None:
    """Lists, code, quotations, tables and headings come out as they went in."""
    text = (
        "# Title\n\nSome *emphasis*, **strong**, `code` and [a link](https://a.example/x).\n\n- one\n- two\n  1. inner\n\n"
        "```python\nprint(1)\n```\n\n> quoted\n\n| a | b |\n| :-- | --- |\n| 1 | x\\|y |\n\n***\n\nend"
    )
    assert to_safe_markdown(text) == text
    assert to_safe_markdown("```math\nx\n```") == "```\nx\n```"


def test_amounts_in_dollars_become_code_in_markdown() -> None:
    """Two dollar signs in a paragraph would be typeset as mathematics; only code is safe from that everywhere."""
    assert to_safe_markdown("From $500 to $1,200, or **$7**.") == "From `$500` to `$1,200`, or **`$7`**."
    assert text_markdown("a | $5 <b> [x](y)\n# z") == "a \\| `$5` &lt;b> [x]\\(y) # z"


def test_a_text_that_would_grow_out_of_all_proportion_is_shown_as_it_is() -> None:
    """A table header of 500 columns does not turn 5 kB into megabytes of empty cells."""
    for width, rows in ((500, 200), (90, 400)):
        bomb = "|a" * width + "|\n" + "|-" * width + "|\n" + "|a|\n" * rows
        assert len(to_html(bomb)) < 2 * len(bomb)
        assert to_html(bomb).startswith(wrap("<pre>|a|a")[:-6])
        assert len(to_safe_markdown(bomb)) < 2 * len(bomb)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            ">",
            "> ",
            "- ",
            "1. ",
            "> - ",
            "*a **b ",
            "**",
            "a**b",
            "*a_ ",
            "~~a ",
            "[",
            "![",
            "[a](",
            "[a](<b",
            "![[",
            "`",
            "` `` ",
        ),
        *(
            "<",
            "<a ",
            "<!--",
            "<http://",
            "&",
            "&#x41",
            "\\",
            "\\(",
            "$",
            "$1 ",
            "|",
            "[a]: <",
            "[1]",
            "www.",
            "http://",
            "{",
            "#",
        ),
        *("\x1b[", "\x1b]", "\x1b]8;;", "a\n", "a  \n", ">\n", "```\n", "***\n", "\u200d", "a\u0301", "x"),
    ],
)
def test_no_pattern_makes_rendering_slow(pattern: str) -> None:
    """Twice the text takes about twice the time: nothing that is repeated grows with the square of its length."""
    short, long = (pattern * (size // len(pattern)) for size in (5_000, 20_000))

    def render(text: str) -> None:
        to_html(text, CITATIONS), to_safe_markdown(text, CITATIONS), plain(text)

    assert _seconds(lambda: render(long)) < max(12 * _seconds(lambda: render(short)), 1.0)


def test_rendering_a_long_answer_is_quick() -> None:
    """26 kB take a few milliseconds, and an update of a growing text a fraction of that."""
    paragraph = "DuckDB 2.0 was released [1]; **queries** over `Parquet` are faster [2], see [notes](https://a.example/n). " * 4
    text = f"{paragraph}\n\n- first point [1]\n- second point\n\n## Heading\n\n" * 56
    assert len(text) > 26_000
    whole = min(_seconds(lambda: to_html(text, CITATIONS)) for _ in range(5))
    growing = Growing()
    growing.update(text, CITATIONS)
    longer = iter([f"{text}{n}" for n in range(5)])
    update = min(_seconds(lambda: growing.update(next(longer), CITATIONS)) for _ in range(5))
    assert whole < 0.1
    assert update < 0.02


def _seconds(work: object) -> float:
    start = time.process_time()
    work()  # type: ignore[operator]
    return time.process_time() - start
