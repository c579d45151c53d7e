"""Answers as people see them, while they are written and when they are done: in HTML, Markdown, plain text and a terminal."""

from __future__ import annotations

import contextlib
import io
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

from ipy_websearch import results as ev
from ipy_websearch.display.answer import AnswerView, LiveAnswer, live_answer
from ipy_websearch.display.formatters import register
from ipy_websearch.display.render import cell, cost, iso
from ipy_websearch.frames import CostFrame
from ipy_websearch.loop.ask import STOPPED
from ipy_websearch.model.offline.passages import LABEL
from ipy_websearch.results import Answer, Citation, Claim, Panel
from ipy_websearch.text import usd
from tests.fakes.shown import ANSWER, RUN, SEARCH, html_of, markdown_of, text_of, unstyled, words

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


@pytest.mark.parametrize(
    ("count", "end", "told"),
    [
        (6, (None, "failed"), "The answer broke off; the error says why.\n\nLet me look."),
        (6, (None, "failed"), "✗ reading: duckdb.org/news.html (stopped)"),
        (1, (None, "failed"), "There is no answer; the error says why."),
        (11, (replace(ANSWER, limit="interrupted"), "interrupted"), "Interrupted: this is what had arrived.\n\nIt is **fast"),
        (11, (replace(ANSWER, limit="interrupted"), "interrupted"), FACTS),
    ],
)
def test_a_run_that_broke_off_or_was_stopped_shows_what_there_is(count: int, end: Any, told: str) -> None:
    view = view_of(RUN[:count])
    view.finish(*end)
    assert told in text_of(view) and "■" not in text_of(view)


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


def test_at_most_ten_updates_a_second_reach_the_page(bare_shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    times, publisher = list[float](), bare_shell.ip.display_pub
    publish = publisher.publish
    monkeypatch.setattr(publisher, "publish", lambda *a, **k: (times.append(time.monotonic()), publish(*a, **k)))
    shown = played(bare_shell.ip, RUN[:2])
    while time.monotonic() < times[0] + 0.5:
        shown.show(ev.TextDelta("word "))
        time.sleep(0.002)
    shown.show(ev.TextDelta("last"))
    waited_for(lambda: "word last" in bare_shell.ip.recorded[-1].data["text/plain"])
    assert 1 < len(times) <= 10 * (times[-1] - times[0]) + 2
    shown.finish(ANSWER)
    waited_for(lambda: not any(thread.name == "ipy_websearch display" for thread in threading.enumerate()))


def test_failures_and_interrupts_end_on_the_same_display(bare_shell: Any) -> None:
    played(bare_shell.ip, ()).finish(None, "failed")
    assert bare_shell.ip.recorded == [], "no empty box stands above an error"
    for end, told in (("failed", "The answer broke off"), ("interrupted", "Interrupted")):
        played(bare_shell.ip, RUN[:2]).finish(None, end)
        assert told in bare_shell.ip.recorded[-1].data["text/html"]
    assert len({output.display_id for output in bare_shell.ip.recorded}) == 2


class TerminalInteractiveShell:
    """Stands for IPython's shell in a terminal."""


class Tty(io.StringIO):
    """A terminal of 80 columns."""

    def isatty(self) -> bool:
        return True


def streamed(events: tuple[ev.Event, ...], answer: Answer | None = ANSWER, out: Any = None) -> str:
    with contextlib.redirect_stdout(out or io.StringIO()) as out:
        played(TerminalInteractiveShell(), (*events, *([ev.Finished(answer)] if answer else ())))
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
