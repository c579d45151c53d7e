"""Answers as people see them, while they are written and when they are done: in HTML, Markdown and plain text."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from html import unescape
from typing import Any

import pytest

from ipy_websearch import results as ev
from ipy_websearch.display.answer import AnswerView
from ipy_websearch.display.render import Terminal
from ipy_websearch.model.offline.passages import LABEL
from ipy_websearch.results import Citation, Claim, Panel
from tests.fakes.forms import html_of, markdown_of, text_of, unstyled
from tests.fakes.shown import ANSWER, RUN

FACTS = "claude-x · 3 searches · 1 notice · 12 s · 0.0123 USD"


LIMIT = ev.LimitReached("timeout", "limit reached: timeout = 120 s")
UNSEARCHED = (replace(ANSWER.trace[1], detail="exa refused [the](https://x.example) key", is_error=True),)


def view_of(events: tuple[ev.Event, ...]) -> AnswerView:
    view = AnswerView()
    for event in events:
        view.apply(event)
    return view


def words(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))


def test_a_finished_answer_is_text_source_cards_and_one_footer_line_that_unfolds() -> None:
    more = html_of(replace(ANSWER, citations=tuple(Citation(n, f"Title {n}", f"https://s{n}.example/") for n in range(1, 26))))
    assert more.count("flex:1 1 300px") == 4 and "21 more sources" in more and more.count(">Title 25</a>") == 1
    html = html_of(ANSWER)
    shown, footer = words(html), html[html.rindex("<details", 0, html.index(FACTS)) :]
    assert ">1 duckdb</a>" in html and 'title="duckdb.org — “up to 3x faster”"' in html and ">2 Article</sup>" in html
    assert "1 · duckdb.org · 2026-11-17 · snippet News quote up to 3x faster a new format" in shown
    assert "2 · corpus://databases/duckdb Article" in shown and "<details open" not in html
    for inside in (
        "exa did not answer, brave did",
        "1 · claude-x: called tools",
        "9,345 → 820",
        "P1 · web_search",
        "0.0456 USD",
    ):
        assert inside in words(footer) and shown.count(inside) == 1
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


def test_a_terminal_gets_bold_links_and_lines_of_its_width() -> None:
    answer = replace(ANSWER, text="# Title\n\n" + "It is **much faster** now [1]. " * 12 + "\n\n- one " + "two " * 30)
    shown = text_of(answer, terminal=Terminal(60))
    bare = unstyled(shown)
    assert max(map(len, bare.splitlines())) <= 60 and "\n  two" in bare and "**" not in bare and "# " not in bare
    assert "\x1b[1mmuch" in shown and "\x1b]8;;https://www.duckdb.org/news\x07\x1b[4mhttps://www.duckdb.org/news" in shown


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"offline": True, "model": "offline"}, "Offline demo: no model read these"),
        ({"limit": "max_searches", "searches": 5}, "Stopped at max_searches = 5: answered from what was found."),
        ({"limit": "max_steps"}, "Stopped at max_steps: answered from what was found."),
        ({"limit": "timeout"}, "Stopped at the time limit: answered from what was found."),
        ({"limit": "interrupted"}, "Interrupted: this is what had arrived."),
        ({"stop_reason": "max_tokens"}, "Cut off at max_tokens"),
        ({"stop_reason": "refusal"}, "The model declined to answer."),
        ({"stop_reason": None}, "The answer broke off: this is what had arrived."),
        ({"trace": UNSEARCHED, "citations": ()}, "No search or page worked: answered from what the model knows; exa refused"),
    ],
)
def test_what_qualifies_an_answer_stands_before_it_in_bold(changes: dict[str, Any], label: str) -> None:
    """The words are in `<strong>`, which GitHub keeps where it drops styles."""
    answer = replace(ANSWER, **changes)
    html = html_of(answer)
    assert f"<strong>{label[:7]}" in html and html.index("<strong>") < html.index("faster")
    assert re.sub(" (?=[:;])", "", words(html)).count(label) == 1 and text_of(answer).startswith(label)
    assert markdown_of(answer).startswith("> **") and "x.example" not in markdown_of(answer).replace(
        "(https&#58;//x.example)", ""
    )


def test_an_offline_answer_says_so_once_and_one_without_passages_says_what_works() -> None:
    offline = replace(ANSWER, offline=True, text=f"{LABEL}\n\n> **Mars** has two moons.[1]")
    for shown in (words(html_of(offline)), text_of(offline), markdown_of(offline)):
        assert shown.lower().count("no model read these") == 1 and shown.count("%websearch key anthropic") == 1
    first = AnswerView(introduce=True)
    first.finish(replace(offline, citations=(Citation(1, "Mars", "corpus://planets/mars", "moons of Mars"),)))
    assert re.search(r"no model read these passages from \d+ built-in articles", words(html_of(first)))
    nothing = replace(offline, citations=(), text=f"The search gave no passage.\n\n{LABEL}")
    for shown in (words(html_of(nothing)), text_of(nothing), markdown_of(nothing)):
        assert "planets, elements, countries" in shown and shown.count("%ask ") == 3 and "%websearch key brave" in shown


# --- under way --------------------------------------------------------------------------------------------------


def test_a_running_answer_shows_its_text_each_call_and_a_line_that_lives() -> None:
    under_way = words(html_of(view_of(RUN[:5]), spent=Decimal("0.0031")))
    calls = "searching: duckdb news · reading: duckdb.org/news.html"
    assert re.search(rf"Let me look. ⋯ \d+ s · {calls} · 0.0031 USD so far · ■ stops", under_way)
    view = view_of(RUN)
    text = text_of(view)
    assert "✓ 5 results from brave for “duckdb news” (0.4 s)\n✗ duckdb.org/news.html was not read" in text
    assert ">1 duckdb</a>" in html_of(view)
    assert "· limit reached: timeout = 120 s" in text_of(view_of((*RUN, LIMIT)))
    assert "s · starting · ■ stops" in text_of(view_of(())) and "s · claude-x · ■ stops" in text_of(view_of(RUN[:1]))
    assert view.text == "Let me look.\n\nIt is **faster** [1][2]."


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
