"""Contract: columns filled from the web. The same rows come back; a failure is a status, never a value."""

import asyncio
from collections.abc import Iterator
from typing import Any

import duckdb
import pandas as pd
import pytest

import ipy_websearch as web
from ipy_websearch import background, sql
from ipy_websearch.errors import ConfigError, MissingKeyError
from tests.contract.helpers import CEO, ROW, boss, companies, company_in, record, results_of, run, search
from tests.fakes.engines import hit
from tests.fakes.replies import delay, error, refusal, search_results, stop, text, usage

ACME = "https://example.org/acme"
FOUND = [hit(ACME, "Acme", "The CEO of Acme is Jo Doe since 2019.")]


def test_rows_order_and_index_stay_and_columns_are_added(messages_api: Any) -> None:
    messages_api.behave(boss)
    frame = companies("A", "B", "A", index=pd.Index([7, 7, 3], name="id")).assign(n=[1, 2, 3])
    before = frame.copy()
    out = web.enrich(frame, CEO, **ROW)
    added = ["ceo", "ceo_source", "ceo_quote", "ceo_confidence", "enrich_status", "enrich_error", "enrich_cost_usd"]
    assert list(out.columns) == ["company", "n", *added] and out.index.equals(frame.index)
    assert list(out.ceo) == ["Boss of A", "Boss of B", "Boss of A"] and set(out.enrich_status) == {"ok"}
    assert len(messages_api.requests) == 2, "equal inputs are asked once"
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize(
    ("value", "source", "quote", "kept", "said"),
    [
        ("Jo Doe", ACME, "the CEO of Acme is Jo Doe", True, ""),
        ("Al Roe", ACME, "the CEO of Acme is Jo Doe", True, "ceo is not in its quote (such as Acme)"),
        ("Jo Doe", ACME, "Jo Doe runs Acme with joy", False, "ceo had a quote that no result has; the quote was left out"),
        ("Jo Doe", "https://made.up/x", "Jo leads Acme", False, "ceo had a quote that no result has; the quote was left out"),
    ],
)
def test_a_value_keeps_what_the_search_bears_out_and_is_less_sure_without_its_quote(
    messages_api: Any, brave_api: Any, value: str, source: str, quote: str, kept: bool, said: str
) -> None:
    brave_api.reply(FOUND)
    messages_api.reply(search("Acme CEO"))
    cell = {"value": value, "source": source, "quote": quote, "confidence": 0.9}
    messages_api.reply(record(ceo=cell))
    out = web.enrich(companies("Acme"), CEO, provider="brave", progress=False)
    row, report = out.iloc[0], str(out.attrs["report"])
    assert (row.ceo, row.enrich_status, row.ceo_quote if kept else None) == (value, "ok", quote if kept else None)
    assert pd.isna(row.ceo_quote) is not kept and (row.ceo_source == ACME if source == ACME else pd.isna(row.ceo_source))
    assert (row.ceo_confidence < 0.5) == bool(said) and said in report and ("lower confidence" in report) == bool(said)
    again = web.enrich(companies("Acme"), CEO, provider="brave", progress=False)  # from the store
    assert again.ceo_confidence[0] == row.ceo_confidence and said in str(again.attrs["report"])


def test_rows_without_input_are_skipped_and_failed_rows_say_why_and_are_grouped(messages_api: Any) -> None:
    useless = {"B": refusal("cyber"), "C": [record(ceo="x"), stop("max_tokens")], "D": refusal("cyber")}
    messages_api.behave(lambda body: useless.get(company_in(body)) or boss(body))
    out = web.enrich(companies("A", "B", "C", None, "  ", "D"), CEO, **ROW)
    assert list(out.enrich_status) == ["ok", "error", "error", "skipped", "skipped", "error"] and out.ceo[1:].isna().all()
    assert "declined" in out.enrich_error[1] and "cut off at max_tokens" in out.enrich_error[2]
    report = out.attrs["report"]
    assert "company" in out.enrich_error[3] and "1 of 4 cells filled, 3 rows failed" in str(report)
    assert [failure["rows"] for failure in report["failures"]] == [2, 1] and "declined" in report["failures"][0]["message"]


def test_a_second_run_asks_only_what_is_missing_or_failed(messages_api: Any) -> None:
    messages_api.behave(lambda body: error(400, message="no") if company_in(body) == "B" else boss(body))
    web.enrich(companies(*"ABC"), CEO, **ROW)
    messages_api.behave(boss)
    again = web.enrich(companies(*"ABCD"), CEO, **ROW)
    assert [company_in(body) for body in messages_api.bodies[3:]] == ["B", "D"]
    assert again.enrich_cost_usd[0] == 0 and list(again.ceo) == [f"Boss of {name}" for name in "ABCD"]
    web.enrich(companies("A"), CEO, resume=False, **ROW)
    assert len(messages_api.requests) == 6


def test_a_stored_value_is_used_for_the_same_search_alone(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages_api.behave(boss)
    for country in ("de", "fr", "de"):
        monkeypatch.setenv("IPY_WEBSEARCH_COUNTRY", country)
        web.api.end_session()
        web.enrich(companies("A"), CEO, provider="brave", progress=False)
    assert len(messages_api.requests) == 2


def test_overloads_and_rate_limits_lose_no_row(messages_api: Any) -> None:
    refusals = {"C1": error(429, headers={"retry-after": "0.2"}), "C5": error(529), "C6": error(529)}
    messages_api.behave(lambda body: refusals.pop(company_in(body), None) or boss(body))
    out = web.enrich(companies(*(f"C{n}" for n in range(20))), CEO, concurrency=4, **ROW)
    assert set(out.enrich_status) == {"ok"} and len(messages_api.requests) == 23 and messages_api.most_active <= 4


def test_wrong_columns_and_a_missing_key_are_one_line_before_anything_is_sent(messages_api: Any, monkeypatch: Any) -> None:
    for columns, told in (
        ({"ceo": "Who leads {compny}?"}, "did you mean 'company'"),
        ({"ceo": "Who leads it?"}, "names no column"),
        ({"company": "Who is {company}?"}, "already has a column 'company'"),
        ({}, "there is none"),
        ({"ceo": ("Who leads {company}?", [])}, "choices"),
        ({"a": "{company}?", "a_source": "{company}?"}, "two of the columns"),
        ({f"c{n}": "{company}?" for n in range(17)}, "too many"),
        ({"sites: list[date]": "Where is {company}?"}, r"'list\[date\]' is no type"),
        ({"sites": ("Where is {company}?", list[int])}, r"'list\[int\]' is no type .*bool, date, list\[str\]\)"),
    ):
        with pytest.raises(ConfigError, match=told):
            web.enrich(companies("A"), columns, **ROW)
    for option, wrong in (("resume", "no"), ("sources", 2), ("progress", []), ("provider", "bravo")):
        with pytest.raises(ConfigError, match=f"{option} is .*; it must be True or False|'bravo'; did you mean 'brave'"):
            web.enrich(companies("A"), CEO, **{**ROW, "max_searches": 0, option: wrong})
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    with pytest.raises(MissingKeyError, match="ANTHROPIC_API_KEY"):
        web.enrich(companies("A"), CEO, **ROW)
    assert not messages_api.requests


def test_the_accessor_the_magic_and_the_coroutine_do_the_same(messages_api: Any, session: Any, shell: Any) -> None:
    messages_api.behave(boss)
    frame = companies("A")
    assert frame.web.enrich(CEO, **ROW).ceo[0] == "Boss of A"
    assert asyncio.run(session.enrich(frame, CEO, resume=False, **ROW)).ceo[0] == "Boss of A"
    shell.ns["frame"] = frame
    lines = ["%%enrich frame --max-searches 0 --no-progress -o out", "# a comment", "ceo: Who is the CEO of {company}?"]
    ran = shell.run("\n".join(lines))
    assert ran.ok and shell.ns["out"].ceo[0] == "Boss of A"


def test_a_batch_costs_half_and_a_lost_one_is_booked_at_its_worst_and_asked_again(messages_api: Any) -> None:
    messages_api.behave(lambda body: (boss(body), usage(input_tokens=1_000_000, output_tokens=0)))
    messages_api.batches.swallow = True
    frame = companies("A", "B", "A")
    lost = web.enrich(frame, CEO, mode="batch", **ROW)
    assert set(lost.enrich_status) == {"error"} and "may have been created" in lost.enrich_error[0]
    assert web.cost().usd.sum() == pytest.approx(lost.enrich_cost_usd.sum()) and lost.enrich_cost_usd[0] > 0
    out = web.enrich(frame, CEO, mode="batch", **ROW)
    assert list(out.ceo) == ["Boss of A", "Boss of B", "Boss of A"] and messages_api.batches.log.count("POST ") == 2
    assert 0 < out.enrich_cost_usd[0] < 0.6


def test_a_cancelled_run_keeps_what_is_filled(messages_api: Any, session: Any) -> None:
    messages_api.behave(lambda body: [boss(body), delay(0 if company_in(body) < "C05" else 60)])
    frame = companies(*(f"C{n:02}" for n in range(20)))
    task = background.Task(lambda: session.enrich(frame, CEO, concurrency=4, **ROW))
    messages_api.wait(lambda api: len(api.requests) >= 9 and api.active == 4, 20)
    assert task.cancel()
    messages_api.behave(boss)
    asked = len(messages_api.requests)
    out = web.enrich(frame, CEO, **ROW)
    assert set(out.enrich_status) == {"ok"} and len(messages_api.requests) - asked == 15


@pytest.mark.parametrize("first", ["pandas", "ipy_websearch"])
def test_df_web_is_there_whichever_was_imported_first(first: str) -> None:
    second = {"pandas": "ipy_websearch", "ipy_websearch": "pandas"}[first]
    done = run(f"import {first}, {second}, pandas; print(hasattr(pandas.DataFrame(), 'web'))", warm=False)
    assert done.stdout.strip() == "True", done.stderr


# --- Contract: the SQL functions in DuckDB, as seed 000 has them -----------------------------------------------------

PRICE = "What is the current price?"


@pytest.fixture
def con() -> Iterator[Any]:
    with duckdb.connect() as made:
        yield made


def test_the_lines_of_seed_000(messages_api: Any, brave_api: Any, con: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "BRAVE_API_KEY"):
        monkeypatch.delenv(name)
    sql.register(con, prefix="stps_")
    con.sql(f"SELECT stps_set_api_key('{messages_api.key}')").fetchall()
    messages_api.reply("As of my training it was 60,000 USD.")
    assert con.sql(f"SELECT stps_ask_ai('Bitcoin', '{PRICE}')").fetchall() == [("As of my training it was 60,000 USD.",)]
    assert not messages_api.bodies[0].get("tools") and not brave_api.requests, "without a Brave key no search is offered"
    con.sql(f"SELECT stps_set_brave_api_key('{brave_api.key}')").fetchall()
    brave_api.reply([hit(f"https://coin.example/{n}", "Bitcoin", "The price is 95,234.15 USD. " * 30) for n in range(9)])
    messages_api.reply(search("Bitcoin price USD"))
    messages_api.reply(text("95,234.15 USD", citations=[(0, 0)]))
    assert con.sql(f"SELECT stps_ask_ai('Bitcoin', '{PRICE}')").fetchall() == [("95,234.15 USD",)]
    _, first, second = messages_api.bodies
    assert first["messages"][0]["content"][0]["text"] == f"Context: Bitcoin\n\nQuestion: {PRICE}"
    assert first["model"] == "claude-haiku-5-5" and first["max_tokens"] == 1000 and "tool_choice" not in first
    texts = [part["text"] for block in search_results(second) for part in block["content"]]
    assert second["tool_choice"] == {"type": "none"} and len(texts) == 5 and max(map(len, texts)) <= 200
    assert brave_api.queries == ["Bitcoin price USD"] and list(web.cost().kind) == [
        "model",
        "model",
        "search",
        "model",
    ]
    assert list(web.cost(by="question").question) == [f"ask_ai: {PRICE}"]


def test_a_failed_search_is_told_to_the_model_and_the_user(messages_api: Any, brave_api: Any, con: Any) -> None:
    brave_api.fail(429, times=2, headers={"Retry-After": "90000"})
    sql.register(con, provider="brave")
    for _ in range(2):  # it is not kept
        messages_api.reply(search("price of bitcoin"))
        messages_api.reply("From memory.")
        with pytest.warns(UserWarning, match="answered without a search, which failed: brave.*'Bitcoin'") as warned:
            assert con.sql("SELECT ask_ai('Bitcoin', 'Price?')").fetchall() == [("From memory.",)]
        assert "retry after" not in str(warned[0].message), "a time of day is enough"
    (result,) = results_of(messages_api.bodies[1])
    assert result["is_error"] and "Search unavailable. Please answer from your knowledge." in str(result["content"])
