"""Search results, enriched frames, pages, the bill and the steps of an answer, as people see them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from html import unescape
from typing import Any

import pandas as pd
import pytest
from IPython.core.error import UsageError

from ipy_websearch.display.render import Terminal
from ipy_websearch.display.trace import step_views, trace_frame, without_keys
from ipy_websearch.frames import CostFrame, CostSummary, EnrichedFrame
from ipy_websearch.results import Answer, Page, SearchResults, Step
from ipy_websearch.settings import WebSearch, use_settings
from tests.fakes.engines import hit
from tests.fakes.notebook import errors
from tests.fakes.replies import text, tool_use, usage
from tests.fakes.shown import NOW, SEARCH, html_of, text_of, unstyled, words


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


def bill(frame: Any = None, **changes: Any) -> CostFrame:
    """Return costs with their sums."""
    questions = {"question": ["a <b> for $5", "two"], "calls": [3, 1], "usd": [0.02, 0.01], "cached": [0, 1], "unknown": [0, 0]}
    made = CostFrame(questions if frame is None else frame)
    facts = {"total_usd": Decimal("0.03"), "unpriced": {}, "saved_usd": Decimal("0.005")}
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
    messages_api.reply(text("Matz & Larry.", citations=[(0, 0)]), usage(output_tokens=77))
    assert shell.run("a = %ask --provider brave who wrote them?").ok
    return shell


def folds(html: str) -> dict[str, str]:
    """Return the text of each folded part by its title."""
    found = re.findall(r"<details[^>]*><summary[^>]*>([^<]*)</summary><pre[^>]*>(.*?)</pre></details>", html, re.DOTALL)
    return {unescape(title): unescape(body) for title, body in found}


def test_trace_shows_every_step_with_its_figures(asked: Any) -> None:
    """Names, milliseconds, tokens by class and costs are in the table, with a sum; the value is the steps' DataFrame."""
    ran = asked.run("%trace")
    pd.testing.assert_frame_equal(pd.DataFrame(ran.value), pd.DataFrame(asked.ns["a"].steps))
    assert len(ran.outputs) == 1 and list(ran.value.kind) == ["model", "tool", "tool", "model"]
    tokens = f"{asked.ns['a'].trace[0].usage.total_input_tokens:,} → "
    told = ("who wrote them?", "web_search", "claude-sonnet-5-5", "called tools", "wrote the answer", tokens, "→ 77", " USD")
    assert [part for part in told if part not in ran.html or part not in ran.texts()] == []


def test_an_overview_folds_the_json_and_names_what_is_repeated(asked: Any) -> None:
    """A request after the first shows its new messages only; a tool step shows what the model was given."""
    parts = folds(asked.run("%trace").html)
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
