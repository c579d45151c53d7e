"""What people see: answers, while they are written and when they are done, search results, enriched frames, pages, the bill
and the steps of an answer; in HTML, Markdown, plain text and a terminal.
"""

import contextlib
import io
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import pandas as pd
import pytest
from hypothesis import example, given, strategies as st
from IPython.core.error import UsageError

from ipy_websearch import results as ev
from ipy_websearch.display.answer import AnswerView, LiveAnswer, live_answer
from ipy_websearch.display.export import export
from ipy_websearch.display.formatters import register
from ipy_websearch.display.markdown import link_markdown, text_markdown, to_html, to_safe_markdown
from ipy_websearch.display.render import PLAIN, Terminal, cell, cost, iso, link
from ipy_websearch.display.trace import step_views, trace_frame, without_keys
from ipy_websearch.errors import ConfigError
from ipy_websearch.frames import CostFrame, CostSummary, EnrichedFrame
from ipy_websearch.loop.ask import STOPPED
from ipy_websearch.model.offline.passages import LABEL
from ipy_websearch.results import Answer, Citation, Claim, Page, Panel, SearchResults, Step
from ipy_websearch.settings import WebSearch, use_settings
from ipy_websearch.text import plain, safe_href, usd
from tests.fakes.engines import hit
from tests.fakes.replies import text as text_block, tool_use, usage
from tests.fakes.shell import errors
from tests.fakes.shown import ANSWER, NOW, RUN, SEARCH, Seen, html_of, markdown_of, outputs, problems, text_of, unstyled, words
from tests.slow.browser.payloads import payloads

FACTS = "claude-x · 3 searches · 1 notice · 12 s · 0.0123 USD"

UNSEARCHED = (
    replace(ANSWER.trace[1], detail="exa refused [the](https://x.example) key", is_error=True),
    replace(ANSWER.trace[1], name="answer_table"),
)


def view_of(events: tuple[ev.Event, ...]) -> AnswerView:
    live = LiveAnswer()
    for event in events:
        live.show(event)
    return live.view


def test_a_finished_answer_is_text_source_cards_and_one_footer_line_that_unfolds() -> None:
    more = html_of(replace(ANSWER, citations=tuple(Citation(n, f"Title {n}", f"https://s{n}.example/") for n in range(1, 26))))
    assert more.count("flex:1 1 300px") == 4 and "21 more sources" in more and more.count(">Title 25</a>") == 1
    html = html_of(ANSWER)
    shown, footer = words(html), html[html.rindex("<details", 0, html.index(FACTS)) :]
    assert ">1 duckdb</a>" in html and 'title="duckdb.org — “up to 3x faster”"' in html and ">2 Article</sup>" in html
    assert "1 · duckdb.org · 2026-11-17 · snippet News quote up to 3x faster a new format" in shown
    assert "2 · corpus://databases/duckdb Article" in shown and "<details open" not in html
    inside = ("exa did not answer, brave did", "1 · claude-x: called tools", "9,345 → 820", "P1 · web_search", "0.0456 USD")
    assert [shown.count(part) for part in inside] == [words(footer).count(part) for part in inside] == [1] * len(inside)
    assert "&lt;b&gt;News&lt;/b&gt;" in footer
    large = tuple(Panel(f"P{n}", f"search {n}", "- <title> & „text“\n" * 5000, "web_search") for n in range(1, 6))
    assert len(html_of(replace(ANSWER, panels=large)).encode()) < 70_000, "what a notebook stores is cut"
    assert html_of(large[0]).count("&lt;title&gt;") == 5000


def test_plain_text_and_markdown_of_an_answer_say_the_same() -> None:
    text, markdown = text_of(ANSWER), markdown_of(ANSWER)
    assert text.startswith(
        "It is **faster** [1][2].\n\n[1] News · 2026-11-17 · snippet\n    https://www.duckdb.org/news\n[2] Article\n"
    )
    assert "[[1]](https://www.duckdb.org/news)" in markdown
    assert "- [1] [News](https://www.duckdb.org/news) duckdb.org, 2026-11-17, snippet — “up to 3x faster”" in markdown
    assert FACTS in text and FACTS in markdown


@pytest.mark.parametrize(
    ("told", "text"),
    [
        *((cost(None), "cost unknown"), (cost(Decimal(0)), "free"), (cost(Decimal(1), cached=True), "cached")),
        *((usd(float("nan")), "unknown"), (usd(Decimal("0.00001")), "<0.0001 USD"), (usd(Decimal("12345.6")), "12,345.60 USD")),
        *((cell(1926), "1926"), (cell(84_000_000), "84,000,000"), (cell(None), ""), (iso(None), "")),
        (iso(datetime(2026, 11, 20, 23, tzinfo=timezone(timedelta(hours=-5)))), "2026-11-21"),
    ],
)
def test_amounts_numbers_and_dates_read_as_phrases(told: str, text: str) -> None:
    assert told == text


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"offline": True, "model": "offline"}, "Offline demo: no model read these"),
        ({"limit": "max_searches", "searches": 5}, "Stopped at max_searches = 5: answered from what was found."),
        ({"limit": "max_steps"}, "Stopped at max_steps: answered from what was found."),
        ({"limit": "timeout"}, "Stopped at the time limit: answered from what was found."),
        ({"limit": "interrupted"}, "Interrupted: this is what had arrived."),
        ({"stop_reason": "max_tokens", "notices": (STOPPED["max_tokens"],)}, "Cut off at max_tokens"),
        ({"stop_reason": "refusal", "notices": (STOPPED["refusal"],)}, "The model declined to answer."),
        ({"stop_reason": None}, "The answer broke off: this is what had arrived."),
        (
            {"trace": UNSEARCHED, "citations": (), "notices": ("exa refused",)},
            "No search or page worked: answered from what the model knows; exa refused",
        ),
    ],
)
def test_what_qualifies_an_answer_stands_before_it_in_bold(changes: dict[str, Any], label: str) -> None:
    """The words are in `<strong>`, which GitHub keeps where it drops styles."""
    answer = replace(ANSWER, **changes)
    html = html_of(answer)
    assert f"<strong>{label[:7]}" in html and html.index("<strong>") < html.index("faster")
    assert re.sub(" (?=[:;])", "", words(html)).count(label) == 1 and text_of(answer).startswith(label)
    assert text_of(answer).count(label[1:27]) == 1 >= text_of(answer).count("exa refused"), "the loop's notice is not repeated"
    assert markdown_of(answer).startswith("> **") and "/x.ex" not in markdown_of(answer).replace("(https&#58;//x.example)", "")


def test_an_offline_answer_says_so_once_and_one_without_passages_says_what_works() -> None:
    offline = replace(ANSWER, offline=True, text=f"{LABEL}\n\n> **Mars** has two moons.[1]")
    nothing = replace(offline, citations=(), text=f"The search gave no passage.\n\n{LABEL}")
    for made in (lambda answer: words(html_of(answer)), text_of, markdown_of):
        shown, helped = made(offline), made(nothing)
        assert shown.lower().count("no model read these") == 1 and shown.count("%websearch key anthropic") == 1
        assert "countries, elements, planets" in helped and helped.count("%ask ") == 3 and "%websearch key brave" in helped


# --- under way --------------------------------------------------------------------------------------------------


def test_a_running_answer_shows_its_text_each_call_and_a_line_that_lives() -> None:
    under_way = words(html_of(view_of(RUN[:5]), spent=Decimal("0.0031")))
    calls = "searching: duckdb news · reading: duckdb.org/news.html"
    assert re.search(rf"Let me look. ⋯ \d+ s · {calls} · 0.0031 USD so far · ■ stops", under_way)
    view = view_of(RUN)
    text = text_of(view)
    assert "✓ 5 results from brave for “duckdb news” (0.4 s)\n✗ duckdb.org/news.html was not read" in text
    assert ">1 duckdb</a>" in html_of(view)
    limited = ev.LimitReached("timeout", "limit reached: timeout = 120 s")
    assert "· limit reached: timeout = 120 s" in text_of(view_of((*RUN, limited)))
    assert "s · starting · ■ stops" in text_of(view_of(())) and "s · claude-x · ■ stops" in text_of(view_of(RUN[:1]))
    assert view.text == "Let me look.\n\nIt is **faster** [1][2]."
    view.apply(ev.Retracted())
    assert view.text == "Let me look." and "faster" not in text_of(view), "what the model's server took back disappears"


def test_what_a_source_does_not_say_is_amber_with_what_is_missing_on_hover() -> None:
    """A sentence is found across emphasis and the cells of a table."""
    table = "| Moons | count |\n|---|---|\n| Saturn | 274 [1] |"
    told = f"Mars has **two** moons.[1] Saturn has *274* moons and <b>rings</b>.[1]\n\n{table}"
    claims = (
        Claim("supported", (), "Mars has two moons.", (1,)),
        Claim("unsupported", ("274", "Saturn"), "Saturn has 274 moons and <b>rings</b>.", (1,)),
        Claim("partly", ("274",), "| Saturn | 274 |"),
    )
    answer = replace(ANSWER, text=told, checked=claims, notices=())
    marked = re.findall(r'<mark [^>]*title="([^"]*)">(.*?)</mark>', html_of(answer))
    assert marked[0][0] == "its source does not say: 274, Saturn"
    assert [text for _, text in marked] == ["Saturn has ", "274", " moons and &lt;b&gt;rings&lt;/b", "Saturn", "274"]
    for shown in (words(html_of(answer)), text_of(answer), markdown_of(answer)):
        assert "2 sentences not supported by the sources" in shown
        assert "its source does not say 274, Saturn: “Saturn has 274 moons" in shown, "for those who see no colours"


# --- Answers while they are written, on a page and in a terminal, and values as IPython shows them

FORMS = {"text/html": html_of(ANSWER), "text/plain": text_of(ANSWER), "text/markdown": markdown_of(ANSWER)}


def played(shell: Any, events: tuple[ev.Event, ...], **settings: Any) -> LiveAnswer:
    shown = live_answer(shell, **settings)
    for event in events:
        shown.show(event)
    return shown


def waited_for(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_notebook_has_one_display_whose_line_lives_and_which_ends_as_the_finished_answer(bare_shell: Any) -> None:
    recorded = bare_shell.ip.recorded
    shown = played(bare_shell.ip, RUN[:4])
    waited_for(lambda: "⋯ 1 s · searching" in recorded[-1].data["text/html"])
    for event in (*RUN[4:], ev.Finished(ANSWER)):
        shown.show(event)
    assert len({output.display_id for output in recorded}) == 1
    assert [output.update for output in recorded] == [False] + [True] * (len(recorded) - 1)
    assert recorded[-1].data == FORMS


def test_at_most_ten_updates_a_second_reach_the_page(bare_shell: Any) -> None:
    shown = played(bare_shell.ip, RUN[:2])
    while time.monotonic() < bare_shell.ip.recorded[0].at + 0.5:
        shown.show(ev.TextDelta("word "))
        time.sleep(0.002)
    shown.show(ev.TextDelta("last"))
    waited_for(lambda: "word last" in bare_shell.ip.recorded[-1].data["text/plain"])
    times = [output.at for output in bare_shell.ip.recorded]
    assert 1 < len(times) <= 10 * (times[-1] - times[0]) + 2
    shown.finish(ANSWER)
    waited_for(lambda: not any(thread.name == "ipy_websearch display" for thread in threading.enumerate()))


@pytest.mark.parametrize(
    ("count", "end", "told"),
    [
        (6, (None, "failed"), "The answer broke off; the error says why.\n\nLet me look."),
        (6, (None, "failed"), "✗ reading: duckdb.org/news.html (stopped)"),
        (1, (None, "failed"), "There is no answer; the error says why."),
        (2, (None, "interrupted"), "Interrupted: this is what had arrived."),
        (11, (replace(ANSWER, limit="interrupted"), "interrupted"), "Interrupted: this is what had arrived.\n\nIt is **fast"),
        (11, (replace(ANSWER, limit="interrupted"), "interrupted"), FACTS),
    ],
)
def test_a_run_that_broke_off_or_was_stopped_ends_on_its_display_as_what_there_is(
    bare_shell: Any, count: int, end: Any, told: str
) -> None:
    played(bare_shell.ip, RUN[:count]).finish(*end)
    text = bare_shell.ip.recorded[-1].data["text/plain"]
    assert told in text and "■" not in text and len({output.display_id for output in bare_shell.ip.recorded}) == 1


def test_no_empty_box_stands_above_an_error(bare_shell: Any) -> None:
    played(bare_shell.ip, ()).finish(None, "failed")
    assert bare_shell.ip.recorded == []


class Tty(io.StringIO):
    """A terminal of 80 columns."""

    def isatty(self) -> bool:
        return True


def streamed(events: tuple[ev.Event, ...], answer: Answer | None = ANSWER, out: Any = None) -> str:
    with contextlib.redirect_stdout(out or io.StringIO()) as out:
        played(None, (*events, *([ev.Finished(answer)] if answer else ())))
    return str(out.getvalue())


def test_a_terminal_gets_text_calls_sources_and_facts_once_and_in_order() -> None:
    assert streamed(RUN) == (
        "Let me look.\n\n"
        "⋯ searching: duckdb news\n⋯ reading: duckdb.org/news.html\n"
        "✓ 5 results from brave for “duckdb news” (0.4 s)\n✗ duckdb.org/news.html was not read\n"
        "· exa did not answer, brave did\n\n"
        "It is **faster** [1][2].\n\n"
        "[1] News · 2026-11-17 · snippet\n    https://www.duckdb.org/news\n[2] Article\n    corpus://databases/duckdb\n\n"
        "1 tool output: %panels · steps: %trace\nclaude-x · 3 searches · 1 notice · 12 s · 0.0123 USD\n"
    )
    assert streamed(RUN[:1]) == text_of(ANSWER) + "\n"
    assert streamed((*RUN[:1], ev.TextDelta("Two:\n\n- one\n- tw")), None) == "Two:\n\n- one\n", "each item when it has ended"
    offline = replace(ANSWER, offline=True, model="offline")
    printed = streamed((ev.ModelRequested(1, "offline", {}), ev.TextDelta(f"{LABEL}\n\n> Mars has two moons.")), offline)
    assert printed.lower().count("no model read") == 1
    table = "Let me look.\n\nIt is **faster** [1][2].\n\n| a |\n| --- |\n| b |"
    printed = streamed(RUN, replace(ANSWER, text=table, rows=({"a": "b"},)))
    assert printed.count("Let me look.") == printed.count("| b |") == 1, "a table comes without the text before it"


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (
            ("It is `code()` and **bol", "d** and " + "it goes on " * 6),
            "It is `code()` and bold and it goes\non it goes on it goes on it goes on it\n",
        ),
        (("- " + "long word " * 5, "and more"), "- long word long word long word long\n"),
        (("A | b " * 20, "and more"), ""),
    ],
)
def test_the_full_lines_of_a_paragraph_are_written_as_they_come(
    pieces: tuple[str, ...], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert unstyled(streamed((*RUN[:1], *map(ev.TextDelta, pieces)), None, Tty())) == shown


@pytest.mark.parametrize("size", [1, 7, 500])
def test_prose_tables_and_code_fit_a_terminal_however_they_arrive(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are wrapped, bold and links are shown; tables are as wide as the terminal; code stays as it is."""
    monkeypatch.setenv("COLUMNS", "40")
    prose = "It is **very fast** and " + "long " * 30 + "word."
    table = "| laptop | price |\n|---|--:|\n| " + "ThinkPad " * 6 + "[1] | $489 |\n| Swift | $1,469 |"
    code = "```python\n# a comment that is longer than forty columns are\n\nx = a**2 + b**2\n```"
    end = "1. one\n2. two **words**" + " and" * 9
    text = f"{prose}\n\n{table}\n\n# Head\n\nUse `x**2 + y**2`, *not* `*z*`:\n\n{code}\n\n{end}"
    pieces = (ev.TextDelta(text[i : i + size]) for i in range(0, len(text), size))
    out = streamed((ev.ModelRequested(1, "m", {}), *pieces), out=Tty())
    said, *rows = unstyled(out[: out.index("Head")]).rstrip().split("\n\n")
    assert "\x1b[1mvery" in out and max(map(len, said.splitlines())) <= 40 and said.split() == prose.replace("**", "").split()
    head, rule, first, last = rows[0].splitlines()
    assert (head, rule, last) == (f"laptop{' ' * 29}price", "─" * 40, f"Swift{' ' * 29}$1,469") and first.endswith("    $489")
    assert f"Use `x**2 + y**2`, *not* `*z*`:\n\n{code}\n\n1. one\n2. two \x1b[1mwords" in out and "\n   and and" in out
    assert "\x1b[1mHead" in out and "\x1b]8;;https://www.duckdb.org/news\x07\x1b[4mhttps://www.duckdb.org/news" in out


# --- in IPython -----------------------------------------------------------------------------------------------------


@pytest.fixture
def ip(bare_shell: Any) -> Iterator[Any]:
    """A shell with the displays registered."""
    bare_shell.ns.update(answer=ANSWER, frame=SEARCH.to_frame(), results=SEARCH)
    with register(bare_shell.ip):
        yield bare_shell


def test_a_formatter_of_all_frames_leaves_ours_alone(ip: Any) -> None:
    """Colab has one of HTML."""
    formatter = ip.ip.display_formatter.formatters["text/html"]
    formatter.for_type(pd.DataFrame, lambda frame: "theirs")
    assert ip.run("frame").html == ip.run("results").html == formatter(ip.ns["frame"])
    assert ip.run("answer").outputs[-1].data == FORMS and "text/markdown" not in ip.run("frame").outputs[-1].data
    ip.ns["other"] = pd.DataFrame()
    assert ip.run("other").html == "theirs"


DERIVED = [
    *("d[['title', 'description']]", "d.drop(columns='url')", "d.T", "d.set_index('url')", "d.groupby('url').first()"),
    *("d.merge(pd.DataFrame({'x': [1]}), how='cross')[['title', 'x']]", "c[['question']]", "answer.sources"),
]


@pytest.mark.parametrize("made", DERIVED)
def test_what_pandas_makes_from_our_frames_shows_amounts_as_amounts(ip: Any, made: str) -> None:
    """A part of a search or cost frame is pandas' own table, out of MathJax's reach; other frames are left alone."""
    ip.ns.update(d=SEARCH.to_frame(), c=CostFrame({"question": ["is $5 or $6 dear?"], "usd": [0.1]}), pd=pd)
    assert 'class="dataframe tex2jax_ignore mathjax_ignore"' in ip.run(made).html
    assert "mathjax_ignore" not in ip.run("pd.DataFrame({'x': ['$5 and $6']})").html


# --- Search results, enriched frames, pages


@pytest.fixture
def settings() -> Iterator[WebSearch]:
    """The settings that `%config WebSearch` shows."""
    settings = WebSearch()
    use_settings(settings)
    yield settings
    use_settings(None)


def test_results_are_cards_with_link_host_date_and_snippet_and_notices_stand_above(settings: WebSearch) -> None:
    html = html_of(SEARCH)
    assert '<strong><a href="https://duckdb.org/news?a=1&amp;b=2"' in html and "DuckDB &lt;2.0&gt; is out</a></strong>" in html
    shown = words(html)
    assert "duckdb.org · 2026-11-17 All that is new." in shown and "corpus://databases/duckdb" in shown
    assert "duckdb 2.0 — brave · 2 results · 0.005 USD" in shown and html.count("<a ") == 1
    assert shown.index("exa answered 429: slow down") < shown.index("the index is a month old") < shown.index("DuckDB")
    assert "0  DuckDB <2.0> is out · 2026-11-17\n   https://duckdb.org/news?a=1&b=2\n   All that is new.\n" in text_of(SEARCH)
    settings.max_rows = 1
    long = replace(SEARCH, results=(replace(SEARCH.results[0], description="many words " * 30), SEARCH.results[1]))
    text = unstyled(text_of(long, terminal=Terminal(50)))
    assert "… 1 more row" in text and max(map(len, text.splitlines())) <= 50


def test_cards_show_what_the_frame_holds_now_and_without_its_columns_pandas_shows_it() -> None:
    frame = SEARCH.to_frame()
    assert "\n1  From the embedded index" in text_of(frame.iloc[::-1])
    assert "1 of 2 results" in text_of(frame[frame.published_date.isna()])
    for other in (frame[["title"]], frame.assign(ceo="x"), enriched()[["country", "capital"]], enriched().T, bill()[["calls"]]):
        assert html_of(other) == text_of(other) == ""


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (SearchResults((), "nothing there", "wikipedia"), "0 results. Try fewer words"),
        (SearchResults((), "nothing there", "wikipedia"), "wikipedia · 0 results · free"),
        (replace(SEARCH, cached=True, cost_usd=Decimal(0)), "· cached"),
        (replace(SEARCH, cost_usd=None), "· cost unknown"),
        (replace(SEARCH, notices=("exa says: *see* [this](https://a.example)",)), "exa says: *see* [this](https://a.example)"),
    ],
)
def test_no_results_say_what_to_do_next_and_costs_are_words(found: SearchResults, told: str) -> None:
    assert told in words(html_of(found)) and told in text_of(found)


def enriched() -> EnrichedFrame:
    def text(*values: str | None) -> Any:
        return pd.array(values, dtype="string")

    return EnrichedFrame(
        {
            "country": ["Germany", "Kenya", "<b>Atlantis"],
            "notes": ["$5", "$6", ""],
            "capital": text("Berlin", "Nairobi", None),
            "capital_source": text("https://de.example/", "javascript:1", None),
            "capital_quote": text('Berlin is "the" <capital>', "Nairobi.", None),
            "capital_confidence": pd.array([0.9, 0.4, None], dtype="Float64"),
            "founded": pd.array([1871, None, None], dtype="Int64"),
            "founded_source": text("https://x.example/", None, None),
            "founded_quote": text("In 1871.", None, None),
            "founded_confidence": pd.array([0.8, None, None], dtype="Float64"),
            "enrich_status": ["ok", "ok", "error"],
            "enrich_error": text(None, None, "brave refused the key"),
            "enrich_cost_usd": [0.01, 0.01, 0.0],
        }
    )


def test_an_enriched_frame_shows_values_with_sources_fill_and_doubt() -> None:
    html, text = html_of(enriched()), text_of(enriched())
    shown = words(html)
    assert re.findall(r"<th[^>]*>(?:<div>)?(\w+)", html)[:4] == ["country", "notes", "capital", "founded"]
    title = "confidence 0.9 — de.example — Berlin is &quot;the&quot; &lt;capital&gt;"
    assert f'<a href="https://de.example/" title="{title}"' in html and html.count("<mark") == 1
    assert "javascript" not in re.sub('title="[^"]*"', "", html)
    assert "capital 2/3" in shown and "founded 1/3" in shown and "1871 ↗" in shown and "—" in shown and "<b>Atlantis" in shown
    assert "3 rows · 3 of 6 cells filled · 1 below 0.5 confidence (marked) · 0.02 USD · all 13 columns" in shown
    assert "capital_source" not in text and "3 of 6 cells filled" in text and "✗ 1 row: brave refused the key" in text
    remarked = enriched().assign(enrich_error="exa did not answer, brave did")
    assert "· 2 rows: exa did not answer, brave did\n✗ 1 row: exa" in text_of(remarked)


def test_a_page_is_shown_with_its_lines_and_cut_where_it_is_long() -> None:
    page = Page("http://a.example", "https://a.example/x", "A <page>", "# Head\n\ntext\n" * 5000, 15_000, 20_000, NOW)
    html = html_of(page)
    assert "A &lt;page&gt;" in html and "<h1>Head</h1>" in html and "15,000 of 20,000 lines" in html and len(html) < 70_000
    assert "more characters in .content" in html and "more characters in .content" in text_of(page)
    assert "cached, fetched 2026-11-20 12:00 UTC" in text_of(replace(page, cached=True, fetched_at=NOW))


# --- costs ----------------------------------------------------------------------------------------------------------


def bill(**changes: Any) -> CostFrame:
    """Return costs with their sums."""
    calls = {"question": ["a <b> for $5", "two"], "calls": [3, 1], "usd": [0.02, 0.01], "cached": [0, 1], "unknown": [0, 0]}
    made = CostFrame(calls)
    facts = {"total_usd": Decimal("0.03"), "unpriced": {}, "saved_usd": Decimal("0.005"), "saved_prompt_usd": Decimal("0.01")}
    made.summary = CostSummary(**{**facts, "scope": "this session", "rows": len(made), **changes})
    return made


def test_the_bill_has_a_bar_a_row_a_total_and_the_budget(settings: WebSearch) -> None:
    assert "budget" not in words(html_of(bill()))
    settings.session_budget_usd = 0.1
    html, text = html_of(bill()), text_of(bill())
    assert "a &lt;b&gt; for $5" in html and "mathjax_ignore" in html and "width:100.0%" in html and "width:50.0%" in html
    for said in ("total 0.03 USD · this session · 1 cached call (saved 0.005 USD)", "30% of the session's budget of 0.10 USD"):
        assert said in words(html) and said in text
    assert text.splitlines()[0].split() == ["question", "cost", "calls", "cached"] and "width:30%" in html
    assert "budget" not in words(html_of(bill(scope="all sessions")))
    assert "prompt caching saved 0.01 USD" in words(html) and "caching" not in text_of(bill(saved_prompt_usd=Decimal(-1)))
    assert "3 calls of unknown price (m0, m1, m2)" in text_of(bill(unpriced={f"m{n}": 1 for n in range(3)}))


def test_the_picture_follows_the_grouping(messages_api: Any, shell: Any) -> None:
    pytest.importorskip("matplotlib")
    messages_api.reply("Matz.")
    assert shell.run("a = %ask what is $5?").ok
    for group in ("question", "model"):
        assert f"Costs by {group}, this session." in shell.run(f"%cost --plot --by {group}").texts()


# --- `%trace`: a reader sees what each step sent, got, took and cost, and a class walks through it step b

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def asked(messages_api: Any, brave_api: Any, shell: Any) -> Any:
    """A shell in which a question was answered in four steps: a request, two searches at once, a request."""
    for name in ("ruby", "perl"):
        brave_api.reply([hit(f"https://{name}.example/", f"About {name}", f"{name} <b>text</b>")])
    messages_api.reply("Let me look.", tool_use("web_search", {"query": "ruby"}), tool_use("web_search", {"query": "perl"}))
    messages_api.reply(text_block("Matz & Larry.", citations=[(0, 0)]), usage(output_tokens=77))
    assert shell.run("a = %ask --provider brave who wrote them?").ok
    return shell


def folds(html: str) -> dict[str, str]:
    """Return the text of each folded part by its title."""
    found = re.findall(r"<details[^>]*><summary[^>]*>([^<]*)</summary><pre[^>]*>(.*?)</pre></details>", html, re.DOTALL)
    return {unescape(title): unescape(body) for title, body in found}


def test_trace_shows_every_step_with_its_figures_and_folds_its_json(asked: Any) -> None:
    """Names, milliseconds, tokens by class and costs are in the table, with a sum; the value is the steps' DataFrame. A request
    after the first shows its new messages only; a tool step shows what the model was given."""
    ran = asked.run("%trace")
    pd.testing.assert_frame_equal(pd.DataFrame(ran.value), pd.DataFrame(asked.ns["a"].steps))
    assert len(ran.outputs) == 1 and list(ran.value.kind) == ["model", "tool", "tool", "model"]
    tokens = f"{asked.ns['a'].trace[0].usage.total_input_tokens:,} → "
    told = ("who wrote them?", "web_search", "claude-sonnet-5-5", "called tools", "wrote the answer", tokens, "→ 77", " USD")
    assert [part for part in told if part not in ran.html or part not in ran.texts()] == []
    parts = folds(ran.html)
    first, last = (json.loads(parts[f"{n} · claude-sonnet-5-5 · request"]) for n in (1, 4))
    assert first["messages"][0]["content"][0]["text"] == "who wrote them?" and first["tools"][0]["name"] == "web_search"
    assert last["messages"][0] == "… 1 message as in step 1" and last["system"] == last["tools"] == "… as in step 1"
    assert [m["role"] for m in last["messages"][1:]] == ["assistant", "user"] and len(parts) == 8
    assert json.loads(parts["2 · web_search · response"])["type"] == "tool_result"
    long = Step(1, "model", "m", request={"messages": [{"content": "ä" * 15_000}] * 9}, response=[{"text": "x" * 9_000}] * 9)
    assert len(html_of(trace_frame(Answer("q", "t", "m", trace=(long,) * 30))).encode()) < 90_000, (
        "what a notebook stores is cut"
    )


def test_step_walks_through_the_answer(asked: Any) -> None:
    """Each call shows the next step, a number restarts, and the last is told."""
    steps = [asked.run(f"%trace --step {number}") for number in ("", "", "", "", "", "3", "")]
    assert [list(ran.value.n) for ran in steps] == [[1], [2], [3], [4], [1], [3], [4]] and steps[0].value.head(1).view is None
    assert "%trace --step shows the next step" in steps[0].texts() and "this is the last step" in steps[3].texts()
    whole = folds(asked.run("%trace 4").html)["4 · claude-sonnet-5-5 · request"]
    assert json.loads(whole) == json.loads(json.dumps(asked.ns["a"].trace[3].request))


def test_a_key_in_a_question_is_in_no_trace(messages_api: Any, shell: Any) -> None:
    """Requests hold no headers, and a key that somebody typed into a question is taken out."""
    messages_api.reply("Better not.")
    shell.run(f"a = %ask is {messages_api.key} a good key?")
    shown = [shell.run(line) for line in ("%trace", "%trace 1")]
    views = json.dumps(step_views(without_keys(shell.ns["a"], lambda text: text.replace(messages_api.key, "[key]"))))
    for said in (*(ran.html + ran.texts() for ran in shown), views):
        assert messages_api.key not in said and "[key]" in said


@pytest.mark.parametrize("line", ["x", "0", "5", "²", "--widget 9"])
def test_a_step_that_does_not_exist_is_said_in_one_line(asked: Any, line: str) -> None:
    error = asked.run(f"%trace {line}").error
    assert isinstance(error, UsageError) and "1 to 4" in str(error)


# --- the widget -----------------------------------------------------------------------------------------------------


def test_a_notebook_keeps_the_widget_and_the_page(messages_api: Any, run_notebook: Any) -> None:
    """A real kernel puts out the page, then the widget's view; the saved state has every step, our script, the page's mark."""
    pytest.importorskip("anywidget")
    messages_api.reply("Matz.")
    notebook = run_notebook(["%load_ext ipy_websearch", "a = %ask who?", "%trace --widget"])
    assert errors(notebook) == []
    page, view = (output.data for output in notebook.cells[2].outputs)
    assert "in all" in page["text/html"]
    state = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"].state[view[VIEW]["model_id"]].state
    assert f'class="{state["mark"]}"' in page["text/html"] and set(view) == {VIEW, "text/plain"}
    assert [step["kind"] for step in state["steps"]] == ["model"] and state["step"] == 1 and "render" in state["_esm"]


# --- Hostile text: whatever goes into the renderer or a file, only our own tags and checked links come out -----------

PAYLOADS = payloads("http://evil.example")
SOURCES = {
    1: Citation(1, "One", "https://www.one.example/?a=1&b=2", "a <b> quote"),
    2: Citation(2, "Two", "javascript:alert(1)"),
}
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
# fmt: off
PIECES = [
    "<script>alert(1)</script>", "<img src=x onerror=1>", "![a](http://e/x)", "![a][r]", "[r]: http://e/x", "[1]: http://e/x",
    "[a](javascript:1)", "[a](data:text/html)", "[a](<http://e/ b>)", "<http://a.b>", "<javascript:1>", "<a@b.c>",
    "<!-- ", "-->", "<![CDATA[", "<", ">", "&lt;", "&#60;", "&#10;", "&#x5d;", "`", "``", "```", "```math\n", "$`x`$", "$",
    "$x$", "\\(", "\\[", "\\begin{x}", "\\`", "\\<", "\\", "*", "**", "_", "~~", "~", "|", "| a |", "|---|---|",
    "\n", "\n\n", "\n- ", "\n1. ", "\n3) ", "\n> ", "\n# ", "\n---\n", "\n===\n", "    ", "\t",
    "[1]", "[2]", "[PDF]", "[^1]: x", "- [ ] ", "[", "]", "(", ")", "!", ":", "{=html}",
    "&#2;", "\x03", "http://e/a_b", "www.e.example", "a", "word", "x_y", "é", "\u202e", "\x1b[31m",
]
# fmt: on
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join)


@given(hostile)
def test_html_holds_no_tag_attribute_or_address_from_the_content(text: str) -> None:
    assert Seen(to_html(text, SOURCES)).foreign == []


@given(hostile)
@example("http://e/`<img src=x>`")
@example("a&#10;&#10;[x]: javascript:1")
@example("[2](javascript:1)")
@example("$`x`$ and ``$``")
@example("\\![1]()")
@example("[![a](http://e/x)](http://ok.example)")
def test_safe_markdown_stays_safe_in_a_parser_that_allows_everything(text: str) -> None:
    assert problems(to_safe_markdown(text, SOURCES)) == []


@pytest.mark.parametrize("name", PAYLOADS)
def test_every_payload_is_harmless_in_every_place_of_every_output(name: str) -> None:
    for html, markdown, told in outputs(PAYLOADS[name]):
        assert Seen(html).foreign == []
        assert problems(markdown) == []
        assert PLAIN.markdown(told) == told.replace("\\[", "[").strip("\n") and not UNSEEN.search(told)


@pytest.mark.parametrize(
    "url",
    [
        *("javascript:1", "JavaScript:1", "java\tscript:1", "data:text/html,1", "vbscript:1", "ftp://a.example", "http:x"),
        *("file:///etc/passwd", "corpus://a/b", "//evil.example", "/path", "#x", "https:///x", "https://[x/"),
        *("https://user:word@evil.example/", "https://good.example\\@evil.example/"),
    ],
)
def test_an_address_that_is_not_plainly_http_https_or_mailto_is_no_link(url: str) -> None:
    assert safe_href(url) is None
    assert "<a" not in link(url, "x") + to_html(f"[x]({url}) [x](<{url}>)")
    assert link_markdown(url, "x") == "x"


def test_addresses_are_quoted_so_that_they_cannot_leave_their_attribute() -> None:
    addresses = {
        "https://a.example/x y?q=<b>\"'&z=1": "https://a.example/x%20y?q=%3Cb%3E%22'&z=1",
        "https://bücher.example/ü": "https://xn--bcher-kva.example/%C3%BC",
        "mailto:a@b.example": "mailto:a@b.example",
    }
    assert {address: safe_href(address) for address in addresses} == addresses
    assert 'href="https://a.example/?a=1&amp;b=&#39;"' in link("https://a.example/?a=1&b='", "<x>")
    assert link("https://a.example/", "<x>").endswith(">&lt;x&gt;</a>")


def test_marks_of_known_sources_become_chips_and_others_stay_text() -> None:
    html = to_html("a [1][2][3]\n\n[1]: https://evil.example", SOURCES)
    assert 'href="https://www.one.example/?a=1&amp;b=2" title="one.example — “a &lt;b&gt; quote”"' in html
    assert ">1 one</a>" in html and ">2 Two</sup>[3]</p>" in html and "evil" not in html


@pytest.mark.parametrize(
    "spoof", ["[[2]](https://evil.example)", "[[2]][x]\n\n[x]: https://evil.example", "[**2**](https://evil.example)"]
)
def test_a_link_that_looks_like_a_mark_is_text(spoof: str) -> None:
    made = to_html(f"[b [1]](https://ok.example) a {spoof}", SOURCES) + to_safe_markdown(f"a {spoof}", SOURCES)
    assert "evil" not in made and 'ok.example" target' in made and ">1 one<" not in made


STRUCTURE = (
    "# Title\n\nSome *emphasis*, **strong**, `code` and [a link](https://a.example/x).\n\n- one\n- two\n  1. inner\n\n"
    "```python\nprint(1)\n```\n\n> quoted\n\n| a | b |\n| --- | --: |\n| 1 | x\\|y |\n\n***\n\nend"
)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        (STRUCTURE, STRUCTURE),
        ("```math\nx\n```", "```\nx\n```"),
        ("a [1][2][3]\n\n[1]: https://evil.example", "a [[1]](https://www.one.example/?a=1&amp;b=2)[2] [3]"),
        ("From $500 to $1,200, or **$7**.", "From `$500` to `$1,200`, or **`$7`**."),
        ("![an *alt* text](https://evil.example) ![](https://evil.example)", "an \\*alt\\* text image"),
    ],
)
def test_safe_markdown_keeps_the_structure_and_links_marks_and_makes_code_of_dollars(text: str, markdown: str) -> None:
    assert to_safe_markdown(text, SOURCES) == markdown


def test_plain_text_is_no_markup_and_each_paragraph_has_its_own_direction() -> None:
    assert text_markdown("a | $5 <b> [x](y)\n# z") == "a \\| `$5` &lt;b> &#91;x&#93;(y) # z"
    mixed = to_html("Mars:\n\nالقمر تابع للأرض\n\n| a |\n|---|\n| ירח |")
    assert mixed.count('<p dir="auto">') == 2 and "text-align:right" in mixed and "dir=" not in to_html("Mars")


PATTERNS = "> ,- ,> - ,*a **b ,a**b,*a_ ,~~a ,![,[a](,[a](<b,![[,` `` ,<a ,<!--,<http://,&#x41,\\(,$1 ,|,[a]: <,[1],www.,{"


@pytest.mark.parametrize("pattern", [*PATTERNS.split(","), "\x1b]8;;", "a  \n", "```\n", "***\n"])
def test_no_pattern_makes_rendering_slow(pattern: str) -> None:
    """Four times the text takes about four times the CPU time: nothing grows with the square of its length."""
    took = []
    for size in (5_000, 20_000):
        text, start = pattern * (size // len(pattern)), time.process_time()
        to_html(text, SOURCES), to_safe_markdown(text, SOURCES), plain(text)
        took.append(time.process_time() - start)
    assert took[1] < 1.0 or took[1] < 12 * took[0]


def test_a_text_that_would_grow_out_of_all_proportion_is_shown_as_it_is() -> None:
    for width, rows in ((500, 200), (90, 600)):
        bomb = "|a" * width + "|\n" + "|-" * width + "|\n" + "|a|\n" * rows
        assert len(to_html(bomb)) < 2 * len(bomb) + 400 and "|a|a" in to_html(bomb)
        assert len(to_safe_markdown(bomb)) < 2 * len(bomb)


# --- Answers leave the notebook: as a file of Markdown, a notebook or a page, and into the next cell. All


def answer(text: str = "Two moons [1], says NASA [2]; array[1].", **more: Any) -> Answer:
    found = (Citation(1, "Mars", "https://en.wikipedia.org/wiki/Mars", "two moons"), Citation(2, "N", "corpus://planets/mars"))
    return Answer("How many moons has *Mars*?", text, "claude-sonnet-5-5", **({"citations": found} | more))


def test_a_session_is_written_as_markdown_with_footnotes_and_as_a_valid_notebook(shell: Any, tmp_path: Path) -> None:
    """Question, answer and sources of every answer, as text and as cells; footnotes of several answers do not meet. An answer
    becomes a cell, too."""
    for question in ("How many moons has *Mars*?", "How big is Jupiter?"):
        assert shell.run(f"a = %ask --provider local -m offline {question}").ok
    cells = list[str]()
    shell.ip.set_next_input = lambda text, replace=False: cells.append(text)
    assert shell.run("a.to_cell()").ok and cells[0].startswith("%%markdown\n## How big is Jupiter?")
    assert "2 answers written to report.md" in shell.run("%websearch export report.md").stdout
    written = (tmp_path / "report.md").read_text()
    assert "## How many moons has \\*Mars\\*?" in written and "## How big is Jupiter?" in written
    assert "**Sources**" in written and written.replace("&#58;", ":").count("corpus://planets/mars") == 1
    assert shell.run("%websearch export refs.json").ok and '"title": "Mars"' in (tmp_path / "refs.json").read_text()
    assert shell.run("%websearch export report.ipynb").ok
    notebook = nbformat.read(tmp_path / "report.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown"] * 3
    assert notebook.cells[1].source.startswith("## How many moons has \\*Mars\\*?\n")


def test_sources_become_a_bibliography() -> None:
    found = (
        Citation(1, "50% of {x} & $5_a", "https://www.nytimes.com/a%20b#c", "q", datetime(2026, 2, 16, tzinfo=UTC)),
        Citation(1, "again", "https://www.nytimes.com/a%20b#c", "another quote"),
        Citation(2, "Mars", "corpus://planets/mars"),
    )
    made = answer(citations=found)
    bibtex, ris = made.bibliography(), made.bibliography("ris").split("\r\n")
    assert bibtex.startswith("@online{nytimes2026-1,\n  title = {{50\\% of \\{x\\} \\& \\$5\\_a}},")
    for part in ("date = {2026-02-16}", f"urldate = {{{datetime.now(UTC).date()}}}", "url = {https://www.nytimes.com/a\\%20b"):
        assert part in bibtex and bibtex.count("@online") == 2
    assert ris[0] == "TY  - ELEC" and "DA  - 2026/02/16" in ris and ris.count("ER  - ") == 2
    first, _ = json.loads(made.bibliography("csl"))
    assert first["issued"] == {"date-parts": [[2026, 2, 16]]} and first["URL"] == "https://www.nytimes.com/a%20b#c"
    with pytest.raises(ConfigError, match="bibtex, ris, csl"):
        made.bibliography("apa")


def test_every_payload_is_harmless_in_every_file(tmp_path: Path) -> None:
    """The hostile set of the browser tests, in question, text, title, address and quotation; a notebook has the same cells as
    a file of Markdown."""
    for hostile in PAYLOADS.values():
        found = (Citation(1, hostile, hostile, hostile), Citation(2, hostile, "https://ok.example/?" + hostile, hostile))
        for name in ("r.md", "r.html"):
            export([Answer(hostile, f"{hostile} [1] [2]", hostile, found, notices=(hostile,))], tmp_path / name, force=True)
        head, _, body = (tmp_path / "r.html").read_text().partition("<body>")
        assert Seen(body).foreign == [] and "default-src 'none'" in head
        assert problems((tmp_path / "r.md").read_text()) == []


def test_an_export_replaces_no_file_unless_forced_and_one_that_fails_midway_leaves_it_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "r.md"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="exists; --force replaces it"):
        export([answer()], path)
    full = mock.patch.object(Path, "write_text", side_effect=OSError(27, "File too large"))
    with full, pytest.raises(ConfigError, match="cannot write .*r.md: File too large"):
        export([answer()], path, force=True)
    assert path.read_text() == "mine" and not list(tmp_path.glob(".export*"))
    export([answer()], path, force=True)
    assert "Two moons" in path.read_text()
