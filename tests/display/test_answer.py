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
from ipy_websearch.display.render import Terminal, cell, cost, iso
from ipy_websearch.model.offline.passages import LABEL
from ipy_websearch.results import Citation, Claim, Panel
from ipy_websearch.text import usd
from tests.fakes.forms import html_of, markdown_of, text_of, unstyled
from tests.fakes.shown import ANSWER, NOW, RUN

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


@pytest.mark.parametrize(
    ("told", "text"),
    [
        *((usd(amount), "unknown") for amount in (None, float("nan"), Decimal("Infinity"))),
        *((usd(0), "0 USD"), (usd(0.1), "0.10 USD"), (usd(Decimal("0.00001")), "<0.0001 USD")),
        *((usd(Decimal("0.01234")), "0.0123 USD"), (usd(Decimal("12345.6")), "12,345.60 USD")),
        *((cost(Decimal(0)), "free"), (cost(None), "cost unknown"), (cost(Decimal("0.005")), "0.005 USD")),
        *((cost(None, cached=True), "cached"), (cell(None), ""), (cell(True), "yes"), (cell(1926), "1926")),
        *((cell(84_000_000), "84,000,000"), (cell(0.1 + 0.2), "0.3"), (cell([1, "a"]), "1, a")),
        *((cell(NOW), "2026-11-20 12:00:00"), (iso(NOW), "2026-11-20"), (iso(None), "")),
        (iso(NOW.replace(tzinfo=None)), "2026-11-20"),
    ],
)
def test_amounts_counts_times_and_dates_read_as_phrases(told: str, text: str) -> None:
    assert told == text


def test_a_finished_answer_is_text_source_cards_and_one_footer_line_that_unfolds() -> None:
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


def test_four_sources_are_cards_and_the_others_are_folded() -> None:
    html = html_of(replace(ANSWER, citations=tuple(Citation(n, f"Title {n}", f"https://s{n}.example/") for n in range(1, 26))))
    assert html.count("flex:1 1 300px") == 4 and "21 more sources" in html
    assert all(html.count(f">Title {n}</a>") == 1 for n in range(1, 26))


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


def test_unknown_costs_failed_calls_and_replays_are_in_the_footer() -> None:
    steps = tuple(replace(ANSWER.trace[1], name=name, is_error=True) for name in ("web_fetch", "web_search"))
    text = text_of(replace(ANSWER, cost_usd=None, trace=steps, replayed_from="talk.yaml"))
    assert "1 page not read · 1 call failed · 1 notice · 12 s · cost unknown · replayed from talk.yaml" in text


def test_an_answer_with_five_large_panels_stays_small_in_the_notebook() -> None:
    panels = tuple(Panel(f"P{n}", f"search {n}", "- <title> & „text“\n" * 5000, "web_search") for n in range(1, 6))
    html = html_of(replace(ANSWER, panels=panels, text=f"A sentence with a mark [1]. {'And some without. ' * 5}" * 50))
    assert len(html.encode()) < 70_000 and "%panels P5 shows all" in html
    assert html_of(panels[0]).count("&lt;title&gt;") == 5000
    assert text_of(replace(panels[0], is_error=True)).startswith("P1 · web_search · search 1 · failed\n\n- <title>")


def test_a_structured_answer_is_shown_as_a_table() -> None:
    rows = ({"name": "<A>", "price": 1.5, "site": "https://a.example/x"}, {"name": "B", "price": None, "site": "javascript:1"})
    answer = replace(ANSWER, rows=rows, columns={"name": str, "price": float, "site": str})
    html = html_of(answer)
    assert "&lt;A&gt;" in html and '<a href="https://a.example/x"' in html and "javascript:1</td>" in html
    assert text_of(answer).startswith("name  price  site\n<A>   1.5    https://a.example/x\n")
    assert "| &lt;A> | 1.5 | [a.example](https://a.example/x) |" in markdown_of(answer)


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


def test_retracted_text_disappears() -> None:
    view = view_of((*RUN[:11], ev.Retracted()))
    assert view.text == "Let me look." and len(view.citations) == 1, "what is cited again is not announced again"
    view.apply(ev.TextDelta("\n\nIt is new."))
    assert view.text == "Let me look.\n\nIt is new."


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


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("firecrawl_map", {"url": "https://a.example"}, "mapping: a.example"),
        ("read_research", {"path": "notes/x.md"}, "reading research: notes/x.md"),
        ("answer_table", {"rows": [{}]}, "writing the table"),
        ("odd", ["no", "object"], "calling odd"),
        ("mystery", {"query": "red\n" * 99}, f"searching: {'red ' * 24}red…"),
    ],
)
def test_calls_of_other_tools_are_named(name: str, given: Any, told: str) -> None:
    assert view_of((ev.ToolStarted("a", name, given),)).items[0].text == told


def test_what_a_source_does_not_say_is_amber_with_what_is_missing_on_hover() -> None:
    told = "Mars has **two** moons.[1] Saturn has 274 moons and <b>rings</b>.[1]"
    claims = (
        Claim("supported", (), "Mars has two moons.", (1,)),
        Claim("unsupported", ("274", "Saturn"), "Saturn has 274 moons and <b>rings</b>.", (1,)),
    )
    answer = replace(ANSWER, text=told, checked=claims, notices=())
    (marked,) = re.findall(r'<mark [^>]*title="([^"]*)">(.*?)</mark>', html_of(answer))
    assert marked == ("its source does not say: 274, Saturn", "Saturn has 274 moons and &lt;b&gt;rings&lt;/b")
    for shown in (words(html_of(answer)), text_of(answer), markdown_of(answer)):
        assert "1 sentence not supported by the sources" in shown
        assert "its source does not say 274, Saturn: “Saturn has 274 moons" in shown, "for those who see no colours"


def test_a_doubtful_sentence_is_found_across_cells_and_emphasis() -> None:
    table = "| Moons of Saturn | count |\n|---|---|\n| of Saturn | 274 [1] |\n\nOur *Saturn* has **274** moons [1], and more."
    claims = tuple(Claim("partly", ("274",), sentence) for sentence in ("| of Saturn | 274 |", "Our Saturn has 274 moons"))
    marked = re.findall(r"<mark [^>]*>(.*?)</mark>", html_of(replace(ANSWER, text=table, checked=claims)))
    assert marked == ["of Saturn", "274", "Our ", "Saturn", " has ", "274", " moons"]


def test_each_paragraph_runs_the_way_of_its_own_letters() -> None:
    html = html_of(replace(ANSWER, text="Mars [1]:\n\nالقمر تابع للأرض [1].\n\n| a |\n|---|\n| ירח |"))
    assert html.count('<p dir="auto">') == 2 and "text-align:right" in html and "<p dir" not in html_of(ANSWER)
