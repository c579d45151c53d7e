"""A search, an answer and the run that led to it, and any value of ours as HTML, Markdown or text, as its display shows it."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from typing import Any

from ipy_websearch import results as ev
from ipy_websearch.display.answer import AnswerView, answer_view, panel_view
from ipy_websearch.display.render import PLAIN, Form, Terminal, render
from ipy_websearch.display.tables import cost_view, enriched_view, page_view, search_view
from ipy_websearch.display.trace import TraceFrame, trace_view
from ipy_websearch.frames import CostFrame, EnrichedFrame, SearchFrame
from ipy_websearch.results import Answer, Attempt, Citation, Page, Panel, SearchResult, SearchResults, Step, Usage

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
