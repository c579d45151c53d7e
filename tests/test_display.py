"""What people see: tables, answers while they are written and when they are done, pages, panels, amounts and dates."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from ipy_websearch import events as ev
from ipy_websearch.display import live
from ipy_websearch.display.answer_text import answer_markdown, answer_text
from ipy_websearch.display.answers import Drafts, answer_html
from ipy_websearch.display.costs import cost_footer, cost_html, cost_text
from ipy_websearch.display.dates import ago, ago_html, iso
from ipy_websearch.display.formatters import mark_shown, register, unregister
from ipy_websearch.display.live import INTERVAL_S, LiveAnswer, is_notebook
from ipy_websearch.display.money import cost, count, seconds, usd
from ipy_websearch.display.pages import page_html, page_markdown, page_text
from ipy_websearch.display.panels import panel_html, panel_markdown, panel_text
from ipy_websearch.display.progress import AnswerView
from ipy_websearch.display.tables import search_html, search_markdown, search_text
from ipy_websearch.errors import ModelError
from ipy_websearch.results import Answer, Attempt, Citation, Page, Panel, SearchResult, SearchResults, Step
from ipy_websearch.usage import Usage

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
OFFLINE = "Not from Claude: taken from search results without a model. Set a key with %websearch key anthropic."
FACTS = "claude-x · 3 searches · 2 steps · 12 s · 0.0123 USD · session 0.0456 USD"

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


def view_of(events: tuple[ev.Event, ...]) -> AnswerView:
    """Return the view after some events."""
    view = AnswerView("What is new?")
    for event in events:
        view.apply(event)
    return view


def words(html: str) -> str:
    """Return the text of some HTML without the style sheet."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", html)))


# --- amounts and dates ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "unknown"),
        (float("nan"), "unknown"),
        (0, "0 USD"),
        (Decimal("0.00001"), "<0.0001 USD"),
        (Decimal("0.005"), "0.005 USD"),
        (Decimal("0.01234"), "0.0123 USD"),
        (0.1, "0.10 USD"),
        (Decimal("1.345"), "1.35 USD"),
        (Decimal("12345.6"), "12,345.60 USD"),
    ],
)
def test_amounts_are_written_without_a_dollar_sign(amount: Any, text: str) -> None:
    """Small amounts have four places, unknown ones say so: None is never 0."""
    assert usd(amount) == text


def test_costs_counts_and_times_read_as_phrases() -> None:
    """Free, cached and unknown costs have words; nouns follow their number."""
    assert [cost(Decimal(0)), cost(None), cost(Decimal("0.005")), cost(None, cached=True)] == [
        "free",
        "cost unknown",
        "0.005 USD",
        "cached",
    ]
    assert [count(1, "search", "searches"), count(1204, "row")] == ["1 search", "1,204 rows"]
    assert [seconds(0.41), seconds(12.3), seconds(125)] == ["0.4 s", "12 s", "2 min 05 s"]


@pytest.mark.parametrize(
    ("before", "text"),
    [
        (timedelta(seconds=20), "just now"),
        (timedelta(minutes=5), "5 minutes ago"),
        (timedelta(hours=1), "1 hour ago"),
        (timedelta(hours=30), "yesterday"),
        (timedelta(days=3), "3 days ago"),
        (timedelta(days=20), "2 weeks ago"),
        (timedelta(days=100), "3 months ago"),
        (timedelta(days=400), "2025-10-16"),
        (timedelta(days=-400), "2027-12-25"),
        (timedelta(hours=-2), "just now"),
    ],
)
def test_dates_are_told_relative_to_now_within_a_year(before: timedelta, text: str) -> None:
    """What is older, or lies ahead, is the ISO date."""
    assert ago(NOW - before, NOW) == text


def test_a_date_without_a_time_counts_in_days_and_shows_the_day_on_hover() -> None:
    """Midnight means that only the day is known; a naive date is UTC."""
    assert ago(datetime(2026, 11, 20), NOW) == "today"
    assert ago(datetime(2026, 11, 19), NOW) == "yesterday"
    assert ago_html(datetime(2026, 11, 17), NOW) == '<span title="2026-11-17">3 days ago</span>'
    assert "2026-11-17 12:00 UTC" in ago_html(NOW - timedelta(days=3), NOW)
    assert [iso(None), ago(None), ago_html(None)] == ["", "", ""]


# --- search tables --------------------------------------------------------------------------------------------------


def test_the_search_table_shows_links_hosts_dates_and_one_line_of_facts() -> None:
    """Titles link where they may; the line below names the engine, the count and the cost; then who did not answer."""
    html = search_html(SEARCH.to_frame(), now=NOW) or ""
    assert (
        '<a href="https://duckdb.org/news?a=1&amp;b=2" rel="noopener noreferrer nofollow" target="_blank">DuckDB &lt;2.0&gt;'
        in html
    )
    assert '<span title="2026-11-17 12:00 UTC">3 days ago</span>' in html
    assert "corpus://databases/duckdb" in html and html.count("<a ") == 1
    text = words(html)
    assert "duckdb 2.0 — brave · 2 results · 0.005 USD" in text
    assert "not from exa: exa answered 429: slow down" in text and "the index is a month old" in text
    assert search_html(SEARCH, now=NOW) == html


def test_the_search_table_in_plain_text_and_markdown_says_the_same() -> None:
    """A terminal gets whole addresses, Markdown gets links and ISO dates."""
    text = search_text(SEARCH.to_frame(), now=NOW) or ""
    assert text.splitlines()[:2] == ["0  DuckDB <2.0> is out  (3 days ago)", "   https://duckdb.org/news?a=1&b=2"]
    markdown = search_markdown(SEARCH.to_frame()) or ""
    assert "| 0 | [DuckDB &lt;2.0> is out](https://duckdb.org/news?a=1&amp;b=2) | 2026-11-17 | All that is new. |" in markdown
    assert "| 1 | From the embedded index (corpus://databases/duckdb) |  | An article. |" in markdown
    assert "brave · 2 results · 0.005 USD" in text and "brave · 2 results · 0.005 USD" in markdown


def test_the_table_shows_what_the_frame_holds_now() -> None:
    """Filtered, sorted, cut and widened frames show just that, with their own index."""
    frame = SEARCH.to_frame()
    assert "1 of 2 results" in (search_text(frame[frame.published_date.isna()]) or "")
    assert (search_text(frame.iloc[::-1]) or "").startswith("1  From the embedded index")
    frame["ceo"] = ["https://a.example/ceo", None]
    html = search_html(frame) or ""
    assert ">ceo</th>" in html and '<a href="https://a.example/ceo"' in html
    assert "… 1 more row" in words(search_html(frame, max_rows=1) or "")
    assert "ceo: https://a.example/ceo" in (search_text(frame) or "")


def test_a_frame_without_the_columns_is_no_search_table() -> None:
    """None is returned, so that pandas shows the frame its own way."""
    frame = SEARCH.to_frame()
    for other in (frame[["title"]], frame.rename(columns={"url": "address"}), frame[["title", "url", "description"]]):
        assert search_html(other) is search_text(other) is search_markdown(other) is None


def test_an_empty_search_says_so() -> None:
    """No results are a line, not an empty table."""
    html = search_html(SearchResults((), "nothing there", "wikipedia")) or ""
    assert "<table" not in html
    assert "nothing there — wikipedia · 0 results · free" in words(html)


def test_cached_and_unknown_costs_are_told_apart() -> None:
    """A cached search says "cached", an unknown price is never 0."""
    assert "· cached" in (search_text(replace(SEARCH, cached=True, cost_usd=Decimal(0))) or "")
    assert "· cost unknown" in (search_text(replace(SEARCH, cost_usd=None)) or "")


# --- finished answers -----------------------------------------------------------------------------------------------


def test_a_finished_answer_shows_text_sources_panels_steps_and_facts() -> None:
    """Marks link to sources, passages and panels are folded, the last line says what it took."""
    html = answer_html(ANSWER)
    assert '<sup><a class="ipyws-cite" href="https://www.duckdb.org/news"' in html and "<sup>[2]</sup>" in html
    text = words(html)
    assert "[1] News duckdb.org ·" in text and "up to 3x faster" in text and "a new format" in text
    assert "[2] Article corpus://databases/duckdb" in text
    assert "P1 · web_search · brave: duckdb" in text and "&lt;b&gt;News&lt;/b&gt;" in html
    assert "9,345 → 820" in text
    assert "exa did not answer, brave did" in text and text.rstrip().endswith(FACTS)
    assert "<details open" not in html and "<details open" in answer_html(ANSWER, feedback=2)


def test_plain_text_and_markdown_of_an_answer_say_the_same() -> None:
    """A terminal gets whole addresses; Markdown gets links."""
    text, markdown = answer_text(ANSWER), answer_markdown(ANSWER)
    assert text.startswith(
        "It is **faster** [1][2].\n\n[1] News (2026-11-17)  https://www.duckdb.org/news\n[2] Article  corpus:"
    )
    assert "[[1]](https://www.duckdb.org/news)" in markdown
    assert "- [1] [News](https://www.duckdb.org/news) duckdb.org, 2026-11-17 — “up to 3x faster”" in markdown
    assert FACTS in text and FACTS in markdown


def test_at_feedback_0_an_answer_is_its_text_and_sources() -> None:
    """Costs, notices, panels and steps are left out; what qualifies the answer is not."""
    for shown in (words(answer_html(ANSWER, feedback=0)), answer_text(ANSWER, feedback=0), answer_markdown(ANSWER, feedback=0)):
        assert "News" in shown
        assert not any(word in shown for word in ("USD", "P1", "exa did not", "steps"))
    assert OFFLINE in words(answer_html(replace(ANSWER, offline=True), feedback=0))


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"offline": True, "model": "offline"}, OFFLINE),
        ({"limit": "max_searches", "searches": 5}, "stopped at max_searches = 5: answered from what was found"),
        ({"limit": "max_steps"}, "stopped at max_steps = 1: answered from what was found"),
        ({"limit": "timeout"}, "stopped at the time limit: answered from what was found"),
        ({"limit": "interrupted"}, "interrupted: this is what was there"),
        ({"stop_reason": "max_tokens"}, "cut off at max_tokens"),
        ({"stop_reason": "refusal"}, "the model declined to answer"),
        ({"stop_reason": None}, "the answer broke off: this is what had arrived"),
    ],
)
def test_what_qualifies_an_answer_stands_before_it(changes: dict[str, Any], label: str) -> None:
    """Not from Claude, cut short, interrupted: in HTML, text and Markdown, before the first word of the answer."""
    answer = replace(ANSWER, **changes)
    html, text = words(answer_html(answer)), answer_text(answer)
    assert label in html and html.index(label) < html.index("faster")
    assert text.startswith(label)
    assert answer_markdown(answer).startswith(f"> {label[:20]}")


@pytest.mark.parametrize(
    ("changes", "label", "why"),
    [
        ({"limit": "interrupted"}, "interrupted", "interrupted."),
        ({"limit": "timeout"}, "stopped at the time limit", "limit reached: timeout."),
        ({"limit": "max_searches", "searches": 5}, "stopped at max_searches = 5", "limit reached: max_searches = 5."),
        ({}, "", "the model wrote none."),
    ],
)
def test_an_answer_without_words_says_so_and_holds_none(changes: dict[str, Any], label: str, why: str) -> None:
    """The words are the display's, in every form and in exports; no program takes them for an answer."""
    from ipy_websearch.display.export import answer_cell

    answer = replace(ANSWER, text="", **changes)
    for shown in (words(answer_html(answer)), answer_text(answer), answer_markdown(answer), answer_cell(answer)):
        plain = shown.replace("\\", "")
        assert f"There is no answer: {why}" in plain and label in plain and "this is what was there" not in plain
        assert "answered from what was found" not in plain


def test_an_unknown_cost_is_said_to_be_unknown() -> None:
    """Neither 0 nor free."""
    text = answer_text(replace(ANSWER, cost_usd=None, session_cost_usd=None))
    assert "cost unknown · session cost unknown" in text


def test_an_answer_with_five_large_panels_takes_at_most_60_kb() -> None:
    """Each panel is cut in the notebook and says how to see all of it."""
    panels = tuple(Panel(f"P{n}", f"search {n}", "yaml", "- <title> & „text“\n" * 5000, "web_search") for n in range(1, 6))
    answer = replace(ANSWER, panels=panels, text=f"A sentence with a mark [1]. {'And some without. ' * 5}" * 50)
    html = answer_html(answer)
    assert len((html + answer_markdown(answer) + answer_text(answer)).encode()) < 60_000
    assert "%panels P5 --all shows all" in html


def test_a_structured_answer_is_shown_as_a_table() -> None:
    """Rows with escaped cells, links for addresses, nothing for missing values."""
    rows = ({"name": "<A>", "price": 1.5, "site": "https://a.example/x"}, {"name": "B", "price": None, "site": "javascript:1"})
    answer = replace(ANSWER, rows=rows, columns={"name": str, "price": float, "site": str})
    html = answer_html(answer)
    assert "&lt;A&gt;" in html and '<a href="https://a.example/x"' in html and "javascript:1</td>" in html
    assert "0   name: <A>\n    price: 1.5" in answer_text(answer)
    assert "| &lt;A> | 1.5 | [a.example](https://a.example/x) |" in answer_markdown(answer)


# --- answers under way ----------------------------------------------------------------------------------------------


def test_a_running_answer_shows_its_text_and_each_tool_call() -> None:
    """Calls under way say what is searched and read; finished ones what came of it."""
    under_way = words(answer_html(view_of(RUN[:5])))
    assert "Let me look." in under_way
    assert "⋯ searching: duckdb news" in under_way and "⋯ reading: duckdb.org/news.html" in under_way
    view = view_of(RUN)
    text = answer_text(view)
    assert "✓ 5 results from brave for “duckdb news” (0.4 s)\n✗ duckdb.org/news.html was not read" in text
    assert [line.status for line in view.tools] == ["done", "failed"]
    assert view.text == "Let me look.\n\nIt is **faster** [1][2]."
    assert '<a class="ipyws-cite" href="https://www.duckdb.org/news"' in answer_html(view)
    assert "USD" not in text and view.running


def test_every_request_and_reply_is_shown_at_feedback_2_and_no_line_at_0() -> None:
    """The three levels of detail while an answer is written."""
    view = view_of(RUN)
    assert "· request 2 to claude-x (the last one allowed)" in answer_text(view, feedback=2)
    assert "· reply 2: 9,345 tokens in, 820 out (9,000 from the cache), 5.2 s, end_turn" in answer_text(view, feedback=2)
    assert answer_text(view, feedback=0) == "Let me look.\n\nIt is **faster** [1][2]."
    assert "request" not in answer_text(view)


def test_a_view_without_text_or_calls_says_what_is_waited_for() -> None:
    """Silence is never unexplained."""
    assert answer_text(view_of(RUN[:1])) == "⋯ waiting for claude-x"
    assert "waiting" not in answer_text(view_of(RUN[:2])) + answer_text(view_of(RUN[:5]))


def test_retracted_text_disappears() -> None:
    """A request whose stream broke leaves none of its text and citations."""
    view = view_of((*RUN[:11], ev.Retracted(2)))
    assert view.text == "Let me look." and view.citations == []
    assert "this passage begins anew" in answer_text(view)
    view.apply(ev.ModelRequested(2, "claude-x", {}))
    view.apply(ev.TextDelta("\n\nIt is new."))
    assert view.text == "Let me look.\n\nIt is new."


def test_the_final_state_replaces_what_was_shown_while_running() -> None:
    """After `Finished`, the view is that of the answer."""
    view = view_of((*RUN, ev.Finished(ANSWER)))
    assert answer_html(view) == answer_html(ANSWER)
    assert answer_text(view) == answer_text(ANSWER)


def test_a_limit_is_told_with_its_number() -> None:
    """The event's own words name the limit; the label says what was done about it."""
    view = view_of((*RUN[:8], ev.LimitReached("timeout", "limit reached: timeout = 120 s")))
    assert "· limit reached: timeout = 120 s" in answer_text(view)
    view.finish(replace(ANSWER, limit="timeout"))
    assert answer_text(view).startswith("stopped at timeout = 120 s: answered from what was found\n")


def test_a_run_that_broke_off_shows_what_there_is() -> None:
    """With a partial answer, that; without one, the text and calls so far; calls under way are marked as stopped."""
    view = view_of(RUN[:6])
    view.error(ModelError("overloaded"))
    text = answer_text(view)
    assert text.startswith("The answer broke off; the error says why.\n\nLet me look.")
    assert "✗ reading: duckdb.org/news.html (stopped)" in text
    view = view_of(RUN)
    view.error(ModelError("overloaded", partial=replace(ANSWER, text="It is")))
    assert answer_text(view).startswith("The answer broke off; the error says why.\n\nIt is\n\n[1] News")
    view = view_of(RUN[:1])
    view.error(ModelError("overloaded"))
    assert "There is no answer; the error says why." in words(answer_html(view))


def test_an_interrupted_run_says_so() -> None:
    """What had come stays, with what it cost when that is known."""
    view = view_of(RUN[:11])
    view.interrupted(replace(ANSWER, text="It is **fast", limit="interrupted"))
    assert answer_text(view).startswith("interrupted: this is what was there\n\nIt is **fast")
    assert FACTS in answer_text(view)


def test_calls_of_other_tools_are_named_with_their_input() -> None:
    """Maps, research files and unknown tools have words of their own; hostile input is cut to one plain line."""
    view = view_of(
        (
            ev.ToolStarted("a", "firecrawl_map", {"url": "https://a.example"}),
            ev.ToolStarted("b", "read_research", {"path": "notes/x.md"}),
            ev.ToolStarted("d", "odd", ["no", "object"]),  # type: ignore[arg-type]
            ev.ToolStarted("c", "mystery", {"deep": {"er": "\x1b[31mred\n" * 99}}),
        )
    )
    texts = [line.text for line in view.tools]
    assert texts[:2] == ["mapping: a.example", "reading research: notes/x.md"]
    assert texts[2] == 'calling odd: {"input": ["no", "object"]}'
    assert texts[3].startswith('calling mystery: {"deep"') and len(texts[3]) < 140 and "\x1b" not in texts[3]


def test_drafts_do_not_change_what_is_shown() -> None:
    """Rendering the closed blocks once gives the same output as rendering all."""
    drafts, view = Drafts(), AnswerView()
    for event in RUN:
        view.apply(event)
        assert answer_html(view, drafts=drafts) == answer_html(view)
        assert answer_markdown(view, drafts=drafts) == answer_markdown(view)


# --- live -----------------------------------------------------------------------------------------------------------


def played(shell: Any, events: tuple[ev.Event, ...], **settings: Any) -> LiveAnswer:
    """Return a live answer that was shown some events."""
    shown = LiveAnswer(shell, "What is new?", **settings)
    for event in events:
        shown.show(event)
    return shown


def test_a_notebook_has_one_display_that_ends_as_the_finished_answer(bare_shell: Any) -> None:
    """All updates go to one display id; the last one holds the answer in HTML, Markdown and plain text."""
    played(bare_shell.ip, RUN).finish(ANSWER)
    recorded = bare_shell.ip.recorded
    assert len({output.display_id for output in recorded}) == 1
    assert [output.update for output in recorded] == [False] + [True] * (len(recorded) - 1)
    assert recorded[-1].data == {
        "text/html": answer_html(ANSWER),
        "text/markdown": answer_markdown(ANSWER),
        "text/plain": answer_text(ANSWER),
    }


def test_at_most_ten_updates_a_second_reach_the_page(bare_shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of quick events is thinned out, and the newest state is shown without a further event."""
    times: list[float] = []
    publish = bare_shell.ip.display_pub.publish
    monkeypatch.setattr(
        bare_shell.ip.display_pub, "publish", lambda *a, **k: (times.append(time.monotonic()), publish(*a, **k))
    )
    shown = played(bare_shell.ip, RUN[:2])
    start = time.monotonic()
    while time.monotonic() < start + 0.5:
        shown.show(ev.TextDelta("word "))
        time.sleep(0.002)
    shown.show(ev.TextDelta("last"))
    time.sleep(1.5 * INTERVAL_S)
    assert "word last" in bare_shell.ip.recorded[-1].data["text/plain"]
    sent = len(times)
    shown.finish(ANSWER)
    assert len(times) == sent + 1 <= 8
    assert min(b - a for a, b in zip(times, times[1:-1], strict=False)) > 0.1
    assert not any(isinstance(thread, threading.Timer) for thread in threading.enumerate())


def test_the_last_event_shows_the_answer_and_finishing_it_shows_nothing_more(bare_shell: Any) -> None:
    """The event `Finished` and `finish` are one ending, in a notebook as in a terminal."""
    shown = played(bare_shell.ip, (*RUN, ev.Finished(ANSWER)))
    assert bare_shell.ip.recorded[-1].data["text/html"] == answer_html(ANSWER)
    count_then = len(bare_shell.ip.recorded)
    shown.finish(ANSWER)
    assert len(bare_shell.ip.recorded) == count_then
    assert streamed((*RUN, ev.Finished(ANSWER))) == streamed(RUN)


def test_a_held_back_update_does_not_follow_the_final_one(bare_shell: Any) -> None:
    """The timer of the last update is taken back when the answer is finished."""
    shown = played(bare_shell.ip, RUN)
    shown.finish(ANSWER)
    count_then = len(bare_shell.ip.recorded)
    time.sleep(1.5 * INTERVAL_S)
    assert len(bare_shell.ip.recorded) == count_then


def test_a_failure_before_anything_was_shown_leaves_the_page_to_the_error(bare_shell: Any) -> None:
    """No empty box stands above the error."""
    played(bare_shell.ip, ()).fail(ModelError("refused"))
    assert bare_shell.ip.recorded == []


def test_failures_and_interrupts_end_on_the_same_display(bare_shell: Any) -> None:
    """What there is is shown with its label."""
    played(bare_shell.ip, RUN[:2]).fail(ModelError("overloaded"))
    assert "The answer broke off" in bare_shell.ip.recorded[-1].data["text/html"]
    played(bare_shell.ip, RUN[:2]).interrupted()
    assert "interrupted: this is what was there" in bare_shell.ip.recorded[-1].data["text/html"]
    assert len({output.display_id for output in bare_shell.ip.recorded}) == 2


class TerminalInteractiveShell:
    """Stands for IPython's shell in a terminal."""


def streamed(events: tuple[ev.Event, ...], answer: Answer | None = ANSWER, shell: Any = None, **settings: Any) -> str:
    """Return what a terminal prints for a run."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        shown = played(shell, events, **settings)
        if answer is not None:
            shown.finish(answer)
    return out.getvalue()


@pytest.mark.parametrize("shell", [None, TerminalInteractiveShell()])
def test_a_terminal_gets_text_calls_sources_and_facts_once_and_in_order(shell: Any) -> None:
    """Plain text is streamed as it comes; nothing is printed again."""
    assert streamed(RUN, shell=shell) == (
        "Let me look.\n\n"
        "⋯ searching: duckdb news\n⋯ reading: duckdb.org/news.html\n"
        "✓ 5 results from brave for “duckdb news” (0.4 s)\n✗ duckdb.org/news.html was not read\n"
        "· exa did not answer, brave did\n\n"
        "It is **faster** [1][2].\n\n"
        "[1] News (2026-11-17)  https://www.duckdb.org/news\n[2] Article  corpus://databases/duckdb\n\n"
        "panels: P1 (%panels P1 shows one)\n" + FACTS + "\n"
    )


def test_a_terminal_at_feedback_0_and_2() -> None:
    """0 streams the text alone, 2 every request and reply as well."""
    assert streamed(RUN, feedback=0).startswith("Let me look.\n\nIt is **faster** [1][2].\n\n[1] News")
    assert streamed(RUN, feedback=2).startswith(
        "· request 1 to claude-x\n\nLet me look.\n\n· reply 1: 2,000 tokens in, 120 out"
    )


def test_a_terminal_says_once_that_claude_does_not_answer_where_the_answer_does_not_say_so() -> None:
    """The offline answers say so themselves; of others, such as a table, it is said below."""
    offline = replace(ANSWER, offline=True, model="offline")
    printed = streamed((ev.ModelRequested(1, "offline", {}), ev.TextDelta("Mars has two moons.")), offline)
    assert printed.startswith(f"Mars has two moons.\n\n{OFFLINE}\n") and printed.count(OFFLINE) == 1


def test_a_terminal_shows_an_answer_that_came_without_a_stream() -> None:
    """When no text was streamed, the finished answer is printed whole."""
    assert streamed(RUN[:1]) == answer_text(ANSWER) + "\n"


def test_a_terminal_that_cannot_print_a_character_shows_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is not lost because a console is not UTF-8; control characters are not passed on."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    played(None, (ev.TextDelta("Zoë \x1b[31mred"),))
    assert raw.getvalue() == b"Zo? red"


def test_a_shell_whose_displays_are_printed_counts_as_a_terminal(bare_shell: Any) -> None:
    """Updates in place need a publisher that does more than print."""
    from IPython.core.displaypub import DisplayPublisher

    class Shell:
        display_pub = DisplayPublisher()

    assert is_notebook(bare_shell.ip)
    assert not is_notebook(Shell()) and not is_notebook(object())


def test_without_threads_the_end_is_shown_all_the_same(bare_shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no timer can be started, updates wait for the next event and the last one is sent."""

    def refuse(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(live.threading.Timer, "start", refuse)
    played(bare_shell.ip, RUN).finish(ANSWER)
    assert bare_shell.ip.recorded[-1].data["text/plain"] == answer_text(ANSWER)


# --- pages, panels, costs -------------------------------------------------------------------------------------------


def test_a_page_is_shown_with_its_lines_and_cut_where_it_is_long() -> None:
    """Title, address, which lines of how many, harmless content, and how much is not shown."""
    page = Page("http://a.example", "https://a.example/x", "A <page>", "# Head\n\ntext\n" * 5000, 15_000, 20_000, NOW)
    html, text = page_html(page), page_text(page)
    assert "A &lt;page&gt;" in html and "<h1>Head</h1>" in html and "15,000 of 20,000 lines" in html
    assert len(html) < 70_000 and "more characters in .content" in html and "more characters in .content" in text
    assert page_markdown(replace(page, content="hello")).startswith("**[A &lt;page>](https://a.example/x)**")
    assert "no lines here; the page has 20,000" in page_text(replace(page, content="", lines_read=0))


def test_a_panel_alone_is_shown_whole() -> None:
    """Its content is text, however long, and Markdown is not rendered."""
    panel = Panel("P7", "brave: x", "markdown", "# <b>Head</b>\n" * 3000, "web_search", is_error=True)
    assert panel_html(panel).count("# &lt;b&gt;Head&lt;/b&gt;") == 3000
    assert panel_text(panel).startswith("P7 · web_search · brave: x · failed\n\n# <b>Head</b>\n")
    assert panel_markdown(panel).startswith(
        "**P7 · web\\_search · brave: x · failed**\n\n```\n# <b>"
    ) or "```" in panel_markdown(panel)


def test_a_cost_table_ends_with_its_total() -> None:
    """The footer sums what is known, counts what is not, and says what the cache saved."""
    import pandas as pd

    frame = pd.DataFrame({"usd": [0.01, float("nan"), 0.0], "cached": [False, False, True]})
    frame.attrs["saved_usd"] = Decimal("0.005")
    footer = "total 0.01 USD · 1 call of unknown price · 1 cached call (saved 0.005 USD)"
    assert cost_footer(frame) == footer
    assert footer in (cost_html(frame) or "") and (cost_text(frame) or "").endswith(footer)
    groups = pd.DataFrame({"model": ["x"], "usd": [0.5], "cached": [2], "unknown": [3]})
    assert cost_footer(groups) == "total 0.50 USD · 3 calls of unknown price · 2 cached calls"
    assert cost_html(pd.DataFrame({"n": [1]})) is None


def test_a_cost_table_shows_the_money_and_not_the_details() -> None:
    """Calls without token counts and without columns that tell nothing, the dollars last; of very many the latest."""
    import pandas as pd

    calls = pd.DataFrame({"time": pd.to_datetime(["2026-11-20 12:00:01+00:00"] * 3), "question": "a <b> for $5"})
    calls = calls.assign(kind="model", name="x", input_tokens=7, usd=[0.1, float("nan"), 2], cached=False, status="ok")
    html = cost_html(calls) or ""
    heads = re.findall(r"<th(?: [^>]*)?>(.*?)</th>", html)
    assert heads == ["time", "question", "kind", "name", "usd"]
    assert "0.10 USD" in html and "unknown" in html and "a &lt;b&gt; for $5" in html and "mathjax_ignore" in html
    assert "cached" in re.findall(r"<th(?: [^>]*)?>(.*?)</th>", cost_html(calls.assign(cached=[True, False, False])) or "")
    many = pd.concat([calls] * 30, ignore_index=True).assign(question=[f"q{n}" for n in range(90)])
    assert "… 30 earlier rows" in (cost_html(many) or "") and ">q89<" in (cost_html(many) or "")
    assert "… 30 more rows" in (cost_html(many.drop(columns="time")) or "")


def test_a_text_that_is_hard_to_render_is_rendered_less_often(bare_shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes at most a fifth of the time, or a hostile answer would take the kernel."""
    slow_html = lambda *_, **__: time.sleep(0.1) or "<p>slow</p>"  # noqa: E731
    monkeypatch.setattr(live, "answer_html", slow_html)
    shown = played(bare_shell.ip, RUN[:2])
    start = time.monotonic()
    while time.monotonic() < start + 1:
        shown.show(ev.TextDelta("word "))
        time.sleep(0.01)
    assert len(bare_shell.ip.recorded) <= 4
    shown.finish(ANSWER)
    assert bare_shell.ip.recorded[-1].data["text/plain"] == answer_text(ANSWER)


# --- in IPython -----------------------------------------------------------------------------------------------------


@pytest.fixture
def ip(bare_shell: Any) -> Iterator[Any]:
    """A shell with the displays registered."""
    register(bare_shell.ip)
    bare_shell.ns.update(answer=ANSWER, frame=SEARCH.to_frame(), results=SEARCH)
    yield bare_shell
    unregister(bare_shell.ip)


def test_values_show_themselves_in_all_three_forms(ip: Any) -> None:
    """An answer alone in a cell, or displayed, is shown as at the end of its run; there is no LaTeX."""
    data = ip.run("answer").outputs[-1].data
    assert data == {
        "text/html": answer_html(ANSWER),
        "text/markdown": answer_markdown(ANSWER),
        "text/plain": answer_text(ANSWER),
    }
    assert ip.run("display(answer)").outputs[-1].data == data
    assert "duckdb 2.0 — brave" in ip.run("results").html
    assert ip.run("results").html == ip.run("frame").html


def test_a_search_frame_keeps_its_table_and_stays_a_dataframe(ip: Any) -> None:
    """`head` and filters show our table, a frame of other columns pandas' own, and `print` is pandas'."""
    import pandas as pd

    assert "1 of 2 results" in ip.run("frame.head(1)").html
    plain = ip.run("frame[['title']]")
    assert 'class="dataframe ' in plain.html and "ipyws" not in plain.html
    assert plain.texts("text/plain") == repr(ip.ns["frame"][["title"]])
    assert ip.run("print(frame)").stdout == f"{ip.ns['frame']}\n"
    assert isinstance(ip.ns["frame"], pd.DataFrame)


def test_unregistering_takes_back_exactly_what_was_put(bare_shell: Any) -> None:
    """The formatters are as they were, also after values were shown; what others registered stays, before and since."""
    formatters = bare_shell.ip.display_formatter.formatters

    def state() -> dict[str, Any]:
        return {name: (dict(f.type_printers), dict(f.deferred_printers)) for name, f in formatters.items()}

    formatters["text/html"].for_type_by_name("ipy_websearch.results", "Page", lambda page: "theirs")
    before = state()
    register(bare_shell.ip)
    register(bare_shell.ip)
    assert state() != before
    bare_shell.ns["answer"] = ANSWER
    bare_shell.run("answer")
    unregister(bare_shell.ip)
    unregister(bare_shell.ip)
    assert state() == before
    register(bare_shell.ip)
    formatters["text/html"].for_type(Answer, lambda answer: "mine")
    assert bare_shell.run("answer").html == "mine"
    unregister(bare_shell.ip)
    assert bare_shell.run("answer").html == "mine"


def test_an_answer_that_is_on_the_page_is_not_shown_again_as_the_value_of_its_cell(ip: Any) -> None:
    """Once, in that cell only; the value itself is there."""
    ip.ns["mark"] = lambda: mark_shown(ip.ip, ANSWER) or ANSWER
    ran = ip.run("mark()")
    assert ran.value is ANSWER and ran.outputs == []
    assert "faster" in ip.run("answer").html
    ip.run("mark(); None")
    assert "faster" in ip.run("answer").html
    assert ip.ip.events.callbacks["post_run_cell"] == []
    assert ip.ip.display_formatter.ipython_display_formatter.singleton_printers.keys().isdisjoint({id(ANSWER)})


def test_settings_in_force_decide_how_much_is_shown(ip: Any) -> None:
    """`max_rows` and `feedback` apply to values that are shown later."""
    from ipy_websearch.settings import WebSearch, use_settings

    use_settings(WebSearch(max_rows=1, feedback=0))
    try:
        assert "… 1 more row" in words(ip.run("frame").html)
        assert "USD" not in words(ip.run("answer").html)
    finally:
        use_settings(None)


def test_registering_imports_neither_pandas_nor_the_renderers() -> None:
    """Loading the extension pays next to nothing for the displays."""
    code = (
        "import sys; from IPython.core.interactiveshell import InteractiveShell; ip = InteractiveShell.instance();"
        "from ipy_websearch.display.formatters import register; register(ip);"
        "heavy = ('pandas', 'markdown_it', 'ipy_websearch.results', 'ipy_websearch.display.values');"
        "print([name for name in heavy if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_saved_notebook_holds_the_final_state_alone(run_notebook: Any) -> None:
    """In a real kernel the updates, the held-back ones too, end in the one output of their cell."""
    code = (
        "import time\nfrom tests.test_display import ANSWER, RUN, LiveAnswer\nshown = LiveAnswer(get_ipython(), 'q')\n"
        "for event in RUN:\n    shown.show(event)\n    time.sleep(0.03)\ntime.sleep(0.15)\nshown.finish(ANSWER)"
    )
    notebook = run_notebook([code, "print('after')"])
    (output,) = notebook.cells[0].outputs
    assert output.data["text/plain"] == answer_text(ANSWER)
    assert output.data["text/html"] == answer_html(ANSWER)
    assert len(notebook.cells[1].outputs) == 1


def test_amounts_in_frames_from_the_web_do_not_become_formulas(offline: Any, shell: Any) -> None:
    """Sources, rows and enriched frames are pandas' own tables, out of MathJax's reach; other frames are left alone."""
    from ipy_websearch.results import Citation

    shell.ns["a"] = Answer("q", "text", "m", citations=(Citation(1, "From $500 to $600", "https://a.example/"),))
    shown = shell.run("a.sources").html
    assert "From $500 to $600" in shown and "mathjax_ignore" in shown
    shell.run("import pandas as pd")
    assert "mathjax_ignore" not in shell.run("pd.DataFrame({'x': ['$5 and $6']})").html


DERIVED = {
    "columns": "d[['title', 'description']]",
    "drop": "d.drop(columns='url')",
    "rename": "d.rename(columns={'title': 't'})",
    "transposed": "d.T",
    "index": "d.set_index('url')",
    "group": "d.groupby('url').first()",
    "merge": "d.merge(pd.DataFrame({'x': [1]}), how='cross')[['title', 'x']]",
    "explode": "d[['title', 'extra_snippets']].explode('extra_snippets')",
    "costs": "c[['question']]",
    "context": "x[['text']]",
}


def test_what_pandas_makes_from_our_frames_shows_amounts_as_amounts(ip: Any) -> None:
    """A part of a search, cost or context frame is pandas' own table, out of MathJax's reach like the whole."""
    from ipy_websearch.display.context import ContextFrame
    from ipy_websearch.frames import CostFrame

    ip.ns["d"], ip.ns["x"] = SEARCH.to_frame(), ContextFrame({"text": ["is $5 or $6 dear?"]})
    ip.ns["c"] = CostFrame({"question": ["is $5 or $6 dear?"], "usd": [0.1]})
    ip.run("import pandas as pd")
    shown = {name: ip.run(made).html for name, made in DERIVED.items()}
    open_to_math = [name for name, html in shown.items() if 'class="dataframe tex2jax_ignore mathjax_ignore"' not in html]
    assert open_to_math == []
    ip.run("own = pd.DataFrame({'x': ['$5 and $6']})")
    assert "mathjax_ignore" not in ip.run("own").html + ip.run("own[['x']]").html + ip.run("own.x.to_frame()").html
