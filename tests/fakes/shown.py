"""A search, an answer and the run that led to it, as the tests of the display and the pictures show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from ipy_websearch import events as ev
from ipy_websearch.results import Answer, Attempt, Citation, Panel, SearchResult, SearchResults, Step
from ipy_websearch.usage import Usage

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
    notices=("the index is a month old",),
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
    panels=(Panel("P1", "brave: duckdb", "yaml", {"results": [{"title": "<b>News</b>"}]}, "web_search"),),
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
