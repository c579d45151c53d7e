"""Enrichment through the public door, against the strict fakes of the Messages API and of Brave."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch.errors import ConfigError, EnrichmentError, MissingKeyError
from tests.fakes.engines import hit
from tests.fakes.replies import delay, error, refusal, stop, tool_use, usage

CEO = {"ceo": "Who is the CEO of {company}?"}
QUIET: dict[str, Any] = {"progress": False, "max_searches": 0}


def record(**cells: Any) -> Any:
    """Return a call of `record`; a cell is a value, or a dict with value, source, quote and confidence."""
    blank = {"value": None, "source": "", "quote": "", "confidence": 0.5}
    filled = {name: blank | (cell if isinstance(cell, dict) else {"value": cell}) for name, cell in cells.items()}
    return tool_use("record", filled)


def company_in(body: dict[str, Any]) -> str:
    """Return the company that a request is about."""
    found = re.search(r"^company: (.*)$", body["messages"][0]["content"][0]["text"], re.MULTILINE)
    assert found
    return found[1]


def echo(body: dict[str, Any]) -> Any:
    """Answer with the boss of the row's company."""
    return record(ceo=f"Boss of {company_in(body)}")


def companies(*names: Any, **more: Any) -> pd.DataFrame:
    """Return a frame with a column company."""
    return pd.DataFrame({"company": list(names)}, **more)


# --- values -------------------------------------------------------------------------------------------------------------


def test_rows_order_and_index_stay_and_columns_are_added(messages_api: Any) -> None:
    """n rows in, the same rows and index out; value, source, quote, confidence, and three columns about the row."""
    messages_api.behave(echo)
    frame = companies("A", "B", "A", index=pd.Index([7, 7, 3], name="id")).assign(n=[1, 2, 3])
    before = frame.copy()
    out = ipy_websearch.enrich(frame, CEO, **QUIET)
    assert list(out.columns) == [
        *(
            "company",
            "n",
            "ceo",
            "ceo_source",
            "ceo_quote",
            "ceo_confidence",
            "enrich_status",
            "enrich_error",
            "enrich_cost_usd",
        )
    ]
    assert out.index.equals(frame.index) and out.index.name == "id"
    assert list(out.ceo) == ["Boss of A", "Boss of B", "Boss of A"]
    assert set(out.enrich_status) == {"ok"} and out.enrich_error.isna().all()
    pd.testing.assert_frame_equal(frame, before)


def test_a_multi_index_and_empty_frames_pass_through(messages_api: Any) -> None:
    """A MultiIndex stays; a frame without rows gets the columns and asks nothing."""
    messages_api.behave(echo)
    index = pd.MultiIndex.from_tuples([("x", 1), ("x", 1)], names=["a", "b"])
    assert ipy_websearch.enrich(companies("A", "B", index=index), CEO, **QUIET).index.equals(index)
    empty = ipy_websearch.enrich(companies().astype(str), CEO, **QUIET)
    assert len(empty) == 0 and "ceo" in empty


def test_types_become_nullable_columns_and_what_does_not_fit_is_missing(messages_api: Any) -> None:
    """str, int, float, bool, date, list[str] and choices; a value of another type is missing, not a crash."""
    columns = {
        "s": "s of {company}?",
        "i": ("i of {company}?", int),
        "f": ("f of {company}?", float),
        "b": ("b of {company}?", bool),
        "d": ("d of {company}?", date),
        "l": ("l of {company}?", list[str]),
        "c": ("c of {company}?", ["small", "large"]),
    }
    full = record(s="text", i=1998, f=2.5, b=True, d="2001-02-03", l=["x", "y"], c="large")
    odd = record(s=None, i=1.5, f="many", b=None, d="soon", l=None, c="huge")
    messages_api.behave(lambda body: full if company_in(body) == "A" else odd)
    out = ipy_websearch.enrich(companies("A", "B"), columns, **QUIET)
    assert [str(out[c].dtype) for c in columns] == [
        "string",
        "Int64",
        "Float64",
        "boolean",
        "datetime64[s]",
        "object",
        "category",
    ]
    first = out.iloc[0]
    assert (first.s, first.i, first.f, first.b, first.l, first.c) == ("text", 1998, 2.5, True, ["x", "y"], "large")
    assert first.d == pd.Timestamp("2001-02-03")
    assert out.iloc[1][list(columns)].isna().all() and out.enrich_status[1] == "ok"


def test_a_value_found_by_a_search_has_its_source_and_quote(messages_api: Any, brave_api: Any) -> None:
    """Model → search → record: source and quote are kept because the result bears them out."""
    brave_api.reply([hit("https://example.org/acme", "Acme", "The CEO of Acme is Jo Doe since 2019.")])
    messages_api.reply(tool_use("web_search", {"query": "Acme CEO"}))
    cell = {"value": "Jo Doe", "source": "https://example.org/acme", "quote": "CEO of Acme is  Jo Doe", "confidence": 0.9}
    messages_api.reply(record(ceo=cell))
    out = ipy_websearch.enrich(companies("Acme"), CEO, progress=False).iloc[0]
    assert (out.ceo, out.ceo_source, out.ceo_confidence) == ("Jo Doe", "https://example.org/acme", 0.9)
    assert out.ceo_quote == "CEO of Acme is Jo Doe"
    assert messages_api.bodies[1]["tool_choice"] == {"type": "tool", "name": "record"}


def test_an_invented_source_or_quote_is_dropped_and_the_value_kept(messages_api: Any, brave_api: Any) -> None:
    """A source that no search returned, and words that stand in no result, are not shown as evidence."""
    brave_api.reply([hit("https://example.org/acme", "Acme", "Acme makes anvils.")])
    messages_api.reply(tool_use("web_search", {"query": "Acme CEO"}))
    messages_api.reply(record(ceo={"value": "Jo", "source": "https://made.up/x", "quote": "Jo leads Acme"}))
    out = ipy_websearch.enrich(companies("Acme"), CEO, progress=False).iloc[0]
    assert out.ceo == "Jo" and pd.isna(out.ceo_source) and pd.isna(out.ceo_quote)


def test_sources_false_adds_values_only(messages_api: Any) -> None:
    """Without sources there is one column for each question."""
    messages_api.behave(echo)
    out = ipy_websearch.enrich(companies("A"), CEO, sources=False, **QUIET)
    assert list(out.columns) == ["company", "ceo", "enrich_status", "enrich_error", "enrich_cost_usd"]


def test_two_columns_of_a_row_share_one_request(messages_api: Any) -> None:
    """All questions of a row go out together."""
    messages_api.reply(record(ceo="Jo", founded=1999))
    columns = {**CEO, "founded": ("In what year was {company} founded?", int)}
    out = ipy_websearch.enrich(companies("A"), columns, **QUIET)
    assert (out.ceo[0], out.founded[0]) == ("Jo", 1999) and len(messages_api.requests) == 1


# --- which rows are asked -----------------------------------------------------------------------------------------------


def test_equal_inputs_are_asked_once(messages_api: Any) -> None:
    """1,000 rows with 10 distinct inputs are 10 requests; blanks around a value make no difference."""
    messages_api.behave(echo)
    frame = companies(*(f"{' ' * (n % 2)}C{n % 10}" for n in range(1000)))
    out = ipy_websearch.enrich(frame, CEO, **QUIET)
    assert len(messages_api.requests) == 10 and out.ceo.notna().all()
    assert out.attrs["report"]["cost_usd"] == pytest.approx(out.enrich_cost_usd.sum())


def test_rows_with_missing_inputs_are_skipped(messages_api: Any) -> None:
    """None, NaN and blanks are not asked about, and say so."""
    messages_api.behave(echo)
    out = ipy_websearch.enrich(companies("A", None, float("nan"), "  "), CEO, **QUIET)
    assert list(out.enrich_status) == ["ok", "skipped", "skipped", "skipped"] and len(messages_api.requests) == 1
    assert "company is missing" in out.enrich_error[1]


def test_a_column_whose_inputs_are_there_is_asked_although_others_are_not(messages_api: Any) -> None:
    """A row lacks the value for one question only: the other question is asked."""
    messages_api.reply(record(ceo="Jo"))
    frame = pd.DataFrame({"company": ["A"], "city": [None]})
    out = ipy_websearch.enrich(frame, {**CEO, "mayor": "Who is the mayor of {city}?"}, **QUIET)
    assert out.ceo[0] == "Jo" and pd.isna(out.mayor[0]) and "city is missing" in out.enrich_error[0]


def test_a_sample_fills_the_first_rows_only_and_prices_the_rest(messages_api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """sample=2 asks two rows, leaves the others' status missing, and says what all would take."""
    messages_api.behave(lambda body: (echo(body), usage(input_tokens=1_000_000, output_tokens=0)))
    out = ipy_websearch.enrich(companies(*"ABCDE"), CEO, sample=2, max_searches=0)
    assert list(out.enrich_status.isna()) == [False, False, True, True, True] and len(messages_api.requests) == 2
    assert "looks like 5 rows ≈ 1.50 USD" in capsys.readouterr().out  # three left, half a dollar each


def test_estimate_counts_what_is_stored_and_what_is_left(messages_api: Any) -> None:
    """`df.web.estimate` asks its sample, which need not be asked again afterwards."""
    messages_api.behave(echo)
    estimate = companies(*"ABCDEF", "A").web.estimate(CEO, sample=2, max_searches=0)
    assert (estimate.rows, estimate.distinct, estimate.stored, estimate.sample) == (7, 6, 2, 2)
    ipy_websearch.enrich(companies(*"ABCDEF"), CEO, **QUIET)
    assert len(messages_api.requests) == 6


# --- the store ----------------------------------------------------------------------------------------------------------


def test_a_second_run_asks_only_what_is_missing_or_failed(messages_api: Any) -> None:
    """Filled rows come from the store at no cost; failed ones and new ones are asked."""
    messages_api.behave(lambda body: error(400, message="no") if company_in(body) == "B" else echo(body))
    first = ipy_websearch.enrich(companies(*"ABC"), CEO, **QUIET)
    assert list(first.enrich_status) == ["ok", "error", "ok"]
    messages_api.behave(echo)
    again = ipy_websearch.enrich(companies(*"ABCD"), CEO, **QUIET)
    assert [company_in(body) for body in messages_api.bodies[3:]] == ["B", "D"]
    assert again.enrich_cost_usd[0] == 0 and list(again.ceo) == [f"Boss of {c}" for c in "ABCD"]


def test_a_further_column_is_asked_alone(messages_api: Any) -> None:
    """Values that are there are not asked again because a question is added."""
    messages_api.reply(record(ceo="Jo"))
    messages_api.reply(record(founded=1999))
    out = ipy_websearch.enrich(companies("A"), CEO, **QUIET)
    out = ipy_websearch.enrich(out, {**CEO, "founded": ("In what year was {company} founded?", int)}, **QUIET)
    assert (out.ceo[0], out.founded[0]) == ("Jo", 1999) and list(out.columns).count("ceo") == 1
    assert "CEO" not in messages_api.bodies[1]["messages"][0]["content"][0]["text"]


def test_resume_false_and_another_question_ask_again(messages_api: Any) -> None:
    """The store is found by question and type, and passed over on request."""
    messages_api.behave(echo)
    for columns, options in ((CEO, {}), (CEO, {"resume": False}), ({"ceo": "Boss of {company}?"}, {}), (CEO, {})):
        ipy_websearch.enrich(companies("A"), columns, **QUIET, **options)
    assert len(messages_api.requests) == 3


def test_a_value_that_was_not_found_is_kept_as_not_found(messages_api: Any) -> None:
    """null is an answer: it is stored, and not asked for again."""
    messages_api.reply(record(ceo=None))
    for _ in range(2):
        assert pd.isna(ipy_websearch.enrich(companies("A"), CEO, **QUIET).ceo[0])


def test_the_store_is_listed_and_cleared(messages_api: Any, shell: Any) -> None:
    """`%websearch store` lists each question with its cells; `clear` forgets them."""
    messages_api.behave(echo)
    ipy_websearch.enrich(companies(*"AB"), CEO, **QUIET)
    listing = shell.run("%websearch store").value
    assert list(listing.cells) == [2] and listing.question[0] == CEO["ceo"]
    assert "2 values removed" in shell.run("%websearch store clear ceo").stdout
    ipy_websearch.enrich(companies(*"AB"), CEO, **QUIET)
    assert len(messages_api.requests) == 4


def test_a_broken_store_is_set_aside_and_the_run_goes_on(messages_api: Any, tmp_path: Path) -> None:
    """A file that is no database costs nothing but a warning in the report."""
    messages_api.behave(echo)
    (tmp_path / "websearch").mkdir()
    (tmp_path / "websearch/enrich.sqlite").write_text("this is no database, and long enough to be read as one" * 100)
    out = ipy_websearch.enrich(companies("A"), CEO, **QUIET)
    assert out.ceo[0] == "Boss of A" and "enrichment store" in out.attrs["report"]["warnings"][0]


# --- failures -----------------------------------------------------------------------------------------------------------


def test_a_failed_row_is_a_null_with_its_message(messages_api: Any) -> None:
    """Refusals and records that were cut off stay with their rows; the report groups what is alike."""
    answers: dict[str, Any] = {
        "A": (record(ceo="x"), refusal("cyber")),
        "B": (record(ceo="x"), stop("max_tokens")),
        "C": (record(ceo="x"), refusal("cyber")),
    }
    messages_api.behave(lambda body: answers.get(company_in(body)) or echo(body))
    out = ipy_websearch.enrich(companies(*"ABCD"), CEO, **QUIET)
    assert list(out.enrich_status) == ["error"] * 3 + ["ok"] and out.ceo[:3].isna().all()
    assert "declined" in out.enrich_error[0] and "max_tokens" in out.enrich_error[1]
    failures = out.attrs["report"]["failures"]
    assert [failure["rows"] for failure in failures] == [2, 1] and "declined" in failures[0]["message"]
    assert json.dumps(out.attrs["report"]) and "1 of 4 cells filled" in str(out.attrs["report"])


def test_a_server_that_cannot_force_a_call_is_reminded_once(messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text instead of a record: asked once more; text again is the row's error."""
    monkeypatch.setenv("IPY_WEBSEARCH_PLATFORM", "ollama")
    messages_api.reply("It is Jo.")
    messages_api.reply(record(ceo="Jo"))
    messages_api.reply("It is Jo.")
    messages_api.reply("As I said: Jo.")
    out = ipy_websearch.enrich(companies(*"AB"), CEO, concurrency=1, **QUIET)
    assert out.ceo[0] == "Jo" and "did not call record" in out.enrich_error[1]
    assert "tool_choice" not in messages_api.bodies[0] and messages_api.bodies[1]["messages"][-1]["role"] == "user"


def test_a_search_that_failed_fails_the_row_instead_of_storing_a_null(messages_api: Any, brave_api: Any) -> None:
    """Without its engine a row is an error, not "not found"."""
    brave_api.fail(403)
    messages_api.reply(tool_use("web_search", {"query": "A CEO"}))
    out = ipy_websearch.enrich(companies("A"), CEO, provider="brave", progress=False)
    assert out.enrich_status[0] == "error" and "search failed" in out.enrich_error[0]


def test_overloads_and_rate_limits_lose_no_row(messages_api: Any) -> None:
    """429 and 529 are waited out."""
    seen: dict[str, int] = {}

    def behaviour(body: dict[str, Any]) -> Any:
        name = company_in(body)
        seen[name] = seen.get(name, 0) + 1
        if seen[name] == 1 and name in ("C1", "C5"):
            return error(429, headers={"retry-after": "0.2"}) if name == "C1" else error(529)
        return echo(body)

    messages_api.behave(behaviour)
    out = ipy_websearch.enrich(companies(*(f"C{n}" for n in range(10))), CEO, concurrency=4, **QUIET)
    assert set(out.enrich_status) == {"ok"} and len(messages_api.requests) == 12


def test_the_same_failure_over_and_over_at_the_start_ends_the_run(messages_api: Any) -> None:
    """A bad key is noticed after some twenty rows, not after all of them."""
    messages_api.behave(lambda body: error(401, message="invalid x-api-key"))
    with pytest.raises(EnrichmentError, match="refused the key"):
        ipy_websearch.enrich(companies(*(f"C{n}" for n in range(200))), CEO, **QUIET)
    assert len(messages_api.requests) <= 21 + 16


def test_a_stopped_start_returns_what_the_store_has(messages_api: Any) -> None:
    """With one row filled before, the frame comes back instead of an error."""
    messages_api.behave(echo)
    ipy_websearch.enrich(companies("C0"), CEO, **QUIET)
    messages_api.behave(lambda body: error(402, message="no credit"))
    out = ipy_websearch.enrich(companies(*(f"C{n}" for n in range(60))), CEO, **QUIET)
    assert out.enrich_status[0] == "ok" and set(out.enrich_status[1:]) == {"error"}
    assert out.enrich_error[1:].str.contains("no credit").all()


# --- limits -------------------------------------------------------------------------------------------------------------


def test_concurrency_bounds_the_requests_under_way(messages_api: Any) -> None:
    """Never more than `concurrency` at once."""
    messages_api.behave(lambda body: (echo(body), delay(0.02)))
    most = 0

    def watch() -> None:
        nonlocal most
        while not done.is_set():
            most = max(most, messages_api.active)
            time.sleep(0.002)

    done = threading.Event()
    thread = threading.Thread(target=watch)
    thread.start()
    ipy_websearch.enrich(companies(*(f"C{n}" for n in range(40))), CEO, concurrency=5, **QUIET)
    done.set()
    thread.join()
    assert 2 <= most <= 5


def test_a_budget_is_never_passed_and_stops_cleanly(messages_api: Any) -> None:
    """Rows are filled while money lasts; the others say "budget" and are not sent."""
    messages_api.behave(lambda body: (echo(body), usage(input_tokens=900, output_tokens=100)))
    out = ipy_websearch.enrich(companies(*(f"C{n}" for n in range(100))), CEO, budget_usd=0.005, **QUIET)
    counts = out.enrich_status.value_counts()
    assert set(counts.index) == {"ok", "budget"} and 10 < counts["ok"] == len(messages_api.requests)
    assert out.enrich_cost_usd.sum() <= 0.005 and "0.005 USD" in out.enrich_error[out.enrich_status == "budget"].iloc[0]
    assert ipy_websearch.cost().usd.sum() == pytest.approx(out.enrich_cost_usd.sum())


def test_a_budget_of_nothing_sends_nothing(messages_api: Any) -> None:
    """What the store has is still given."""
    messages_api.behave(echo)
    ipy_websearch.enrich(companies("A"), CEO, **QUIET)
    out = ipy_websearch.enrich(companies(*"AB"), CEO, budget_usd=0, **QUIET)
    assert list(out.enrich_status) == ["ok", "budget"] and len(messages_api.requests) == 1


def test_an_interrupt_returns_the_frame_so_far(
    messages_api: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stop button: nothing more is sent, finished rows are filled, the others say "interrupted"."""
    from ipy_websearch import api

    messages_api.behave(lambda body: (echo(body), delay(0 if company_in(body) < "C05" else 30)))
    waited = api.wait
    ticks = iter([False, False, True])

    def interrupted(*args: Any) -> Any:
        if next(ticks, False):
            raise KeyboardInterrupt
        return waited(*args)

    monkeypatch.setattr(api, "wait", interrupted)
    start = time.monotonic()
    out = ipy_websearch.enrich(companies(*(f"C{n:02}" for n in range(50))), CEO, concurrency=8, **QUIET)
    assert time.monotonic() - start < 2.5
    assert list(out.enrich_status[:5]) == ["ok"] * 5 and set(out.enrich_status[5:]) == {"interrupted"}
    sent = len(messages_api.requests)
    assert sent <= 13 and "Interrupted" in capsys.readouterr().out
    time.sleep(0.1)
    assert len(messages_api.requests) == sent


# --- wrong calls --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"ceo": "Who leads {compny}?"}, "did you mean 'company'"),
        ({"ceo": "Who leads it?"}, "names no column"),
        ({"ceo": ("Who leads {company}?", "integer")}, "no type"),
        ({"ceo": ("Who leads {company}?", [])}, "choices"),
        ({"company": "Who is {company}?"}, "already has a column"),
        ({"a": "{company}?", "a_source": "{company}?"}, "two of the columns"),
        ({}, "there is none"),
        ({f"c{n}": "{company}?" for n in range(17)}, "too many"),
    ],
)
def test_wrong_columns_are_refused_before_anything_is_sent(messages_api: Any, columns: Any, message: str) -> None:
    """One clear line says what is wrong."""
    with pytest.raises(ConfigError, match=message):
        ipy_websearch.enrich(companies("A"), columns, **QUIET)
    assert not messages_api.requests


def test_without_a_key_it_does_not_fall_back_to_the_offline_model() -> None:
    """Values of a table must not silently come from a model that only quotes."""
    with pytest.raises(MissingKeyError, match="ANTHROPIC_API_KEY"):
        ipy_websearch.enrich(companies("A"), CEO, **QUIET)


# --- doors --------------------------------------------------------------------------------------------------------------


def test_the_cell_magic_fills_a_frame(messages_api: Any, shell: Any) -> None:
    """`%%enrich frame -o out` reads a line for each column, with types and choices."""
    messages_api.reply(record(ceo="Jo", founded=1999, size="small"))
    shell.run("import pandas as pd\ncompanies = pd.DataFrame({'company': ['A']})")
    lines = [
        "%%enrich companies --max-searches 0 --no-progress -o out",
        "# comments are left out",
        "ceo: Who is the CEO of {company}?",
        "founded: int = In what year was {company} founded?",
        "size: [small, large] = How large is {company}: with how many people?",
    ]
    ran = shell.run("\n".join(lines))
    assert ran.ok, ran.error
    out = shell.ns["out"]
    assert (out.ceo[0], out.founded[0], out["size"][0]) == ("Jo", 1999, "small")


def test_a_type_is_understood_wherever_people_write_it(messages_api: Any, shell: Any) -> None:
    """With the name, behind it or before the question, in the cell and in the dict; what is no type stays text."""
    messages_api.reply(record(a="1", b="2.5", c="3", column_4="tall", e="an int: yes", f="low"))
    shell.run("import pandas as pd\ncompanies = pd.DataFrame({'company': ['A']})")
    lines = [
        "%%enrich companies --max-searches 0 --no-progress --no-sources -o out",
        "a: int: How many {company}?",
        "b (float): How much {company}?",
        "c : int = How many {company}?",
        "height (m): int How tall is {company}?",
        "e: note: what is known of {company}?",
        "f: [low, high]: How is {company}?",
    ]
    ran = shell.run("\n".join(lines))
    assert ran.ok, ran.error
    kinds = {name: str(kind) for name, kind in shell.ns["out"].iloc[:, 1:7].dtypes.items()}
    assert kinds == {"a": "Int64", "b": "Float64", "c": "Int64", "height (m)": "string", "e": "string", "f": "category"}
    asked_for = messages_api.bodies[-1]["messages"][0]["content"][0]["text"]
    assert asked_for.count("How many A?") == 2 and "int: How many" not in asked_for and "int How tall is A?" in asked_for
    messages_api.reply(record(a=1, b=True, c=["x"]))
    asked = {"a: int": "How many {company}?", "b": "bool: Is {company}?", "c": "list[str]: Which {company}?"}
    out = ipy_websearch.enrich(companies("A"), asked, **QUIET)
    assert [str(out[name].dtype) for name in "abc"] == ["Int64", "boolean", "object"]


def test_rows_without_a_value_are_not_called_filled(messages_api: Any) -> None:
    """A row counts as filled with one value or more; how many have none is said, from the store as well."""
    messages_api.behave(lambda body: record(ceo=None if "Atlantis" in str(body["messages"]) else "Jo"))
    for stored in ("", ", 2 rows from the store"):
        report = ipy_websearch.enrich(companies("A", "Atlantis", "Atlantis"), CEO, **QUIET).attrs["report"]
        assert str(report).startswith(f"1 of 3 cells filled, 2 not found{stored};")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%enrich companies\nceo: int", "'ceo' has a type (int) and no question"),
        ("%%enrich companies\nceo: int: Who leads {company}?\nceo (int): Who leads {company}?", "would be called 'ceo'"),
        ("%%enrich compnies\nceo: Who leads {company}?", "did you mean 'companies'"),
        ("%%enrich companies\nceo Who leads?", "cannot read the line"),
        ("%%enrich companies\n\n", "no column"),
        ("%%enrich\nceo: Who leads {company}?", "needs the name"),
    ],
)
def test_mistakes_in_the_cell_are_one_line(shell: Any, cell: str, message: str) -> None:
    """The magic says what it could not read."""
    shell.run("import pandas as pd\ncompanies = pd.DataFrame({'company': ['A']})")
    ran = shell.run(cell)
    assert not ran.ok and message in str(ran.error)


def test_the_coroutine_does_the_same(messages_api: Any, session: Any) -> None:
    """`await session.enrich(…)` works in a running loop."""
    import asyncio

    messages_api.behave(echo)
    out = asyncio.run(session.enrich(companies(*"AB"), CEO, **QUIET))
    assert list(out.ceo) == ["Boss of A", "Boss of B"]


def test_df_web_search_gives_each_row_its_best_result(brave_api: Any) -> None:
    """One search for each distinct query; a missing value is said."""
    out = companies("A", "B", "A", None).web.search("{company} CEO", provider="brave", progress=False)
    assert sorted(brave_api.queries) == ["A CEO", "B CEO"]
    assert out.search_url[:3].notna().all() and out.search_provider[0] == "brave" and "missing" in out.search_error[3]


def test_the_ledger_has_a_run_as_one_question(messages_api: Any) -> None:
    """Each request is booked; `%cost --by question` shows the run as one line."""
    messages_api.behave(echo)
    ipy_websearch.enrich(companies(*"ABC"), CEO, **QUIET)
    assert len(ipy_websearch.cost()) == 3
    assert list(ipy_websearch.cost(by="question").model_calls) == [3]


@pytest.mark.parametrize("order", ["pandas, ipy_websearch", "ipy_websearch, pandas"])
def test_df_web_is_there_whichever_was_imported_first(order: str, run_python: Callable[[str], str]) -> None:
    """And importing the package alone imports neither pandas nor the SDK."""
    lines = [
        "import sys",
        "import ipy_websearch" if order.startswith("ipy") else "import pandas, ipy_websearch",
        "print('anthropic' in sys.modules, 'pandas' in sys.modules)",
        "import pandas",
        "print(type(pandas.DataFrame().web).__name__)",
        "print(type(pandas.__loader__).__name__, pandas.__spec__.origin == pandas.__file__)",
    ]
    loaded = order.startswith("pandas")
    expected = f"False {loaded}\nWebAccessor\nSourceFileLoader True\n"
    assert run_python("\n".join(lines)) == expected


@pytest.fixture
def run_python() -> Callable[[str], str]:
    """A function that runs code in a fresh interpreter and returns what it printed."""
    import subprocess
    import sys

    root = Path(__file__).parent.parent

    def run(code: str) -> str:
        return subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout

    return run
