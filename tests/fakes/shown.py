"""A search, an answer and the run that led to it, and any value of ours as HTML, Markdown or text, as its display shows it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from html.parser import HTMLParser
from typing import Any

from markdown_it import MarkdownIt

from ipy_websearch import results as ev
from ipy_websearch.display.answer import AnswerView, answer_view, panel_view
from ipy_websearch.display.render import PLAIN, Form, Terminal, render
from ipy_websearch.display.tables import cost_view, enriched_view, page_view, search_view
from ipy_websearch.display.trace import TraceFrame, trace_frame, trace_view
from ipy_websearch.frames import CostFrame, EnrichedFrame, SearchFrame
from ipy_websearch.results import Answer, Attempt, Citation, Page, Panel, SearchResult, SearchResults, Step, Usage
from ipy_websearch.text import safe_href

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SEARCH = SearchResults(
    (
        SearchResult("DuckDB <2.0> is out", "https://duckdb.org/news?a=1&b=2", "All that is new.", NOW - timedelta(days=3)),
        SearchResult("From the embedded index", "corpus://databases/duckdb", "An article."),
    ),
    query="duckdb 2.0",
    provider="brave",
    cost_usd=Decimal("0.005"),
    attempts=(Attempt("exa", "exa answered 429: slow down", 429),),
    notices=("exa answered 429: slow down", "the index is a month old"),
)
ANSWER = Answer(
    question="What is new?",
    text="It is **faster** [1][2].",
    model="claude-x",
    citations=(
        Citation(1, "News", "https://www.duckdb.org/news", "up to 3x faster", datetime(2026, 11, 17, tzinfo=UTC)),
        Citation(1, "News", "https://www.duckdb.org/news", "a new format"),
        Citation(2, "Article", "corpus://databases/duckdb"),
    ),
    panels=(Panel("P1", "brave: duckdb", {"results": [{"title": "<b>News</b>"}]}, "web_search"),),
    cost_usd=Decimal("0.0123"),
    searches=3,
    stop_reason="end_turn",
    trace=(
        Step(1, "model", "claude-x", "tool_use", 1200, Usage(2000, 120), Decimal("0.004")),
        Step(2, "tool", "web_search", "5 results", 400),
        Step(3, "model", "claude-x", "end_turn", 5200, Usage(345, 820, cache_read_tokens=9000), Decimal("0.0083")),
    ),
    notices=("exa did not answer, brave did",),
    seconds=12.3,
    session_cost_usd=Decimal("0.0456"),
)
RUN: tuple[ev.Event, ...] = (
    ev.ModelRequested(1, "claude-x", {}),
    ev.TextDelta("Let me look."),
    ev.ModelResponded(1, "claude-x", Usage(2000, 120), "tool_use", 1.2),
    ev.ToolStarted("a", "web_search", {"query": "duckdb news"}),
    ev.ToolStarted("b", "web_fetch", {"url": "https://duckdb.org/news.html?x=1"}),
    ev.ToolFinished("a", "web_search", "5 results from brave for “duckdb news”", seconds=0.4),
    ev.ToolFinished("b", "web_fetch", "duckdb.org/news.html was not read", is_error=True, seconds=0.01),
    ev.Notice("exa did not answer, brave did"),
    ev.ModelRequested(2, "claude-x", {}, final=True),
    ev.Cited(ANSWER.citations[0]),
    ev.TextDelta("\n\nIt is **fast"),
    ev.TextDelta("er** [1][2]."),
    ev.ModelResponded(2, "claude-x", Usage(345, 820, cache_read_tokens=9000), "end_turn", 5.2),
)
_REVIEWS = (
    ("ThinkPad E14 Gen 7 review: still the keyboard to beat", "https://www.notebookcheck.net/e14", (2026, 1, 16)),
    ("Best laptops under $500 in 2026", "https://www.nytimes.com/wirecutter/laptops", (2026, 2, 16)),
    ("The best cheap laptops, tested", "https://www.theverge.com/cheap-laptops", (2026, 6, 2)),
    ("Laptop keyboards, measured", "https://www.rtings.com/laptop/keyboards", (2026, 3, 30)),
    ("Acer Swift Go 14 (2026) Test: OLED für 499 Euro", "https://www.heise.de/tests/swift-go", (2026, 5, 16)),
)
_QUOTE = "The E14's keyboard has 1.5 mm of travel and the most even feedback of all 18 models that we typed on."
LAPTOPS = Answer(
    question="Which laptop under $500 has the best keyboard?",
    text="The **ThinkPad E14 Gen 7** has the best keyboard under $500 [1][4]; the *Acer Swift Go 14* is the better all-rounder "
    "[2][5], for $20 less.\n\n| | ThinkPad E14 | Swift Go 14 |\n|---|--:|--:|\n| Key travel [4] | 1.5 mm | 1.2 mm |\n"
    "| Price [2][3] | $489 | $469 |\n\nBoth have `USB-C` charging [3].",
    model="claude-sonnet-5-5",
    citations=tuple(
        Citation(n, title, url, _QUOTE, datetime(*day, tzinfo=UTC), "page" if n < 4 else "snippet")
        for n, (title, url, day) in enumerate(_REVIEWS, 1)
    ),
    panels=(
        Panel(
            "P1",
            "brave: best laptop keyboard under 500",
            {"results": [{"title": r[0], "url": r[1]} for r in _REVIEWS]},
            "web_search",
        ),
    ),
    cost_usd=Decimal("0.0385"),
    searches=3,
    stop_reason="end_turn",
    trace=(
        Step(1, "model", "claude-sonnet-5-5", "tool_use", 1000, Usage(2000, 120), Decimal("0.0025")),
        Step(
            2, "tool", "web_search", "5 results from brave for “best laptop keyboard under 500”", 480, cost_usd=Decimal("0.005")
        ),
        Step(3, "tool", "web_fetch", "notebookcheck.net: host not resolved", 120, is_error=True),
        Step(4, "model", "claude-sonnet-5-5", "end_turn", 10_700, Usage(3450, 820, cache_read_tokens=9000), Decimal("0.031")),
    ),
    usage=Usage(5450, 940, cache_read_tokens=9000),
    seconds=17.2,
    session_cost_usd=Decimal("0.0687"),
)


# --- Any value of ours as HTML, Markdown or text, as its display shows it

VIEWS: dict[type, Any] = {
    **dict.fromkeys((Answer, AnswerView), answer_view),
    **dict.fromkeys((SearchResults, SearchFrame), search_view),
    Panel: panel_view,
    Page: page_view,
    EnrichedFrame: enriched_view,
    CostFrame: cost_view,
    TraceFrame: trace_view,
}


def html_of(value: Any, **options: Any) -> str:
    """Return the HTML of a value, "" when pandas shows it."""
    return _form(value, "html", PLAIN, options)


def markdown_of(value: Any, **options: Any) -> str:
    """Return the Markdown of an answer."""
    return _form(value, "md", PLAIN, options)


def text_of(value: Any, *, terminal: Terminal = PLAIN, **options: Any) -> str:
    """Return the plain text of a value, "" when pandas shows it."""
    return _form(value, "txt", terminal, options)


def words(html: str) -> str:
    """Return the text of HTML, with one blank between its words."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))


def unstyled(text: str) -> str:
    """Return what a terminal shows without its bold, its underlines and the addresses of its links."""
    return re.sub(r"\x1b\[(?:1|22|4|24)m|\x1b\]8;;[!-~]*\x07", "", text)


def _form(value: Any, form: Form, terminal: Terminal, options: dict[str, Any]) -> str:
    make = VIEWS[type(value)]
    view = make(value, **options)
    return "" if view is None else render(make.__name__.removesuffix("_view"), form, view, terminal)


# --- Judges HTML and Markdown that were made from hostile text, and makes every kind of output from a text -----------

ATTRIBUTES = {"class", "dir", "style", "title", "href", "rel", "target", "start", "open"}
TAGS = set(
    "a b blockquote br code div em h1 h2 h3 h4 h5 h6 hr i li mark ol p pre s small span strong sub sup table tbody td th thead "
    "tr ul details summary".split()
)


class Seen(HTMLParser):
    """Keeps whatever in some HTML is not on the list of what may be there."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.foreign: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            bad_style = re.search(r"url|position|expression|@|\\|:start", value or "")  # JupyterLab drops the last one
            bad_href = name == "href" and safe_href(value or "") != value
            bad_class = name == "class" and value != "tex2jax_ignore mathjax_ignore"
            if name not in ATTRIBUTES or (name == "style" and bad_style) or bad_href or bad_class:
                self.foreign.append(f"{tag} {name}={value!r}")
        if tag not in TAGS:
            self.foreign.append(tag)

    def handle_comment(self, data: str) -> None:
        self.foreign.append(f"comment {data!r}")

    handle_decl = handle_pi = unknown_decl = handle_comment


def problems(markdown: str) -> list[str]:
    """Return what a careless front end would do with some Markdown that it should not."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url, validator=None: True  # type: ignore[method-assign]
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    found = []
    for token in (token for block in parser.parse(markdown) for token in (block, *(block.children or []))):
        if token.type in ("html_inline", "html_block", "image"):
            found.append(f"{token.type}: {token.content}")
        elif token.type == "link_open" and safe_href(str(token.attrs["href"])) is None:
            found.append(f"link: {token.attrs['href']}")
        elif token.type == "inline" and "{" in re.sub(r"(?s)(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", token.content):
            found.append(f"attributes: {token.content}")
        elif token.type == "text" and re.search(r"\$|\\[(\[]|\\begin", token.content):
            found.append(f"mathematics: {token.content}")
    return found


def outputs(t: str) -> Iterator[tuple[str, str, str]]:
    """Yield the HTML, Markdown ("" where there is none) and plain text of every kind of output with `t` in every place."""
    citations = (Citation(1, t, t, t, NOW), Citation(2, t, f"https://ok.example/?{t}", t))
    panels = (Panel("P1", t, t, t), Panel("P2", t, t, "web_fetch", True))
    prose = f"{t}\n\n{t} [1] **{t}** [2]\n\n- {t}\n\n> {t}\n\n| a |\n|---|\n| {t} |\n\n# {t}\n"
    answer = Answer(t, prose, t, citations, panels, stop_reason=t, notices=(t,), trace=(Step(1, "tool", t, t),))
    table = Answer(t, t, t, rows=({t: t, "list": [t]},), columns={t: str, "list": list})
    for value in (answer, table):
        yield html_of(value), markdown_of(value), text_of(value)
    request = {"model": t, "system": t, "tools": [{"name": t}], "messages": [{"role": t, t: t}]}
    steps = (Step(1, "model", t, t, request=request, response=[{"type": t, "text": t}]), Step(2, "tool", t, t, request={t: t}))
    for number in (0, 1, 2):
        trace = trace_frame(replace(answer, trace=steps), number)
        yield html_of(trace), "", re.sub("[\u2028\u2029]", " ", text_of(trace))  # JSON keeps separators of lines
    search = SearchResults((SearchResult(t, t, t, NOW),), t, t, attempts=(Attempt(t, t),), notices=(t,))
    page = Page(t, t, t, t, 1, 2, NOW, note=t)
    t = t.encode(errors="replace").decode()  # pandas refuses half a character
    cells = {name: [t] for name in ("a", "a_source", "a_quote", t, "enrich_error")}
    enriched = EnrichedFrame({**cells, "a_confidence": [0.1], "enrich_status": ["error"]})
    for other in (search, page, panels[0], enriched, CostFrame({"question": [t], "name": [t], "usd": [0.1]})):
        yield html_of(other), "", text_of(other)
