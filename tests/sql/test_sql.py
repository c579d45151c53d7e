"""The SQL functions through DuckDB itself, against the strict fakes of the Messages API and of Brave."""

import importlib
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch import api, sql
from ipy_websearch.errors import ConfigError
from tests.fakes.engines import Answer, hit
from tests.fakes.replies import delay, error, refusal, stop, tool_use, usage


def echo(body: dict[str, Any]) -> Any:
    """Answer with the context."""
    asked = body["messages"][0]["content"][0]["text"]
    return f"about {asked.partition(chr(10))[0].removeprefix('Context: ')}"


@pytest.fixture
def con(messages_api: Any) -> Iterator[Any]:
    """A DuckDB connection with the functions and a table `rows` of 5,000 rows and 50 distinct values; answers echo."""
    messages_api.behave(echo)
    with duckdb.connect() as made:
        sql.register(made)
        made.execute("CREATE TABLE rows AS SELECT i, 'v' || (i % 50) AS v FROM range(5000) t(i)")
        yield made


# --- one answer ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "value", "warning"),
    [
        (["It is half an ans", stop("max_tokens")], "It is half an ans", None),
        (["No.", refusal("cyber")], None, r"declined to answer \(cyber\)"),
        ([error(400, message="too odd")], None, "too odd"),
    ],
)
def test_a_cut_answer_is_a_value_while_refusals_and_errors_are_null(
    messages_api: Any, con: Any, recwarn: Any, reply: Any, value: Any, warning: str | None
) -> None:
    messages_api.reply(*reply)
    assert con.sql("SELECT ask_ai('a', 'b?')").fetchall() == [(value,)]
    said = [str(each.message) for each in recwarn if each.category is UserWarning]  # not a socket's that another test left
    assert not said if warning is None else re.search(rf"1 of 1 inputs failed and are NULL; .*{warning}.*\('a', 'b\?'\)", *said)


def test_nulls_empty_questions_and_wrong_calls_send_nothing(messages_api: Any, con: Any) -> None:
    assert con.sql("SELECT ask_ai(NULL, 'q?'), ask_ai('a', NULL), web_search(NULL)").fetchall() == [(None, None, None)]
    with pytest.warns(UserWarning, match="the question is empty"):
        assert con.sql("SELECT ask_ai('a', '  '), ask_ai('a', 'nan'::DOUBLE)").fetchall() == [(None, None)]
    for call in ("ask_ai('a')", "ask_ai('a', 'b', 'c')", "web_search()"):
        with pytest.raises(duckdb.Error):
            con.sql(f"SELECT {call}").fetchall()
    assert not messages_api.requests


# --- how often is asked -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "requests"),
    [
        ("SELECT ask_ai('a', 'q?') FROM rows", 1),
        ("SELECT v, ask_ai(v, 'q?') FROM rows WHERE ask_ai(v, 'q?') IS NOT NULL", 50),
        ("SELECT ask_ai(v, 'q?', fresh := true) FROM rows WHERE ask_ai(v, 'q?', fresh := true) IS NOT NULL", 50),
        ("SELECT ask_ai(v, 'q?') FROM rows ORDER BY i LIMIT 5", 5),
        ("SELECT ask_ai(name, 'q?') FROM (FROM frame ORDER BY name LIMIT 5)", 5),
        ("SELECT ask_ai(CASE WHEN i < 3 THEN v END, 'q?') FROM rows LIMIT 20", 3),
        ("SELECT count(*) FROM rows WHERE ask_ai(v, 'q?') = 'about v1' AND i < 3", 3),
    ],
)
def test_duckdb_asks_distinct_rows_and_no_more_than_it_shows(messages_api: Any, con: Any, query: str, requests: int) -> None:
    con.register("frame", pd.DataFrame({"name": [f"n{n}" for n in range(100)]}))
    con.sql(query).fetchall()
    assert len(messages_api.requests) == requests


def test_answers_are_kept_for_the_day_until_a_fresh_one_is_wanted(messages_api: Any, con: Any) -> None:
    for options, call, requests in (
        ({}, "ask_ai('a', 'q?')", 1),
        ({}, "ask_ai('a', 'q?')", 1),
        ({}, "ask_ai('a', 'q?', fresh := true)", 2),
        ({"resume": False}, "ask_ai('a', 'q?')", 3),
        ({"model": "claude-sonnet-5-5"}, "ask_ai('a', 'q?')", 4),
    ):
        api.end_session()
        sql.register(con, **options)
        con.sql(f"SELECT {call}").fetchall()
        assert len(messages_api.requests) == requests, (options, call)


# --- failures and money -------------------------------------------------------------------------------------------------


def test_failures_are_one_warning_with_the_inputs_and_asked_again(messages_api: Any, con: Any) -> None:
    broken = {"about x1", "about x2", "about x3", "about x4", "about x6"}
    messages_api.behave(lambda body: error(400, message="no") if echo(body) in broken else echo(body))
    query = "SELECT ask_ai('x' || i, 'q?') FROM range(8) t(i)"
    with pytest.warns(UserWarning, match="5 of 8 inputs failed.*5 x .*x1") as caught:
        found = con.sql(query).fetchall()
    assert [answer is None for (answer,) in found] == [False, True, True, True, True, False, True, False] and len(caught) == 1
    broken.clear()
    assert all(answer for (answer,) in con.sql(query).fetchall()) and len(messages_api.requests) == 13


def test_a_dead_engine_is_left_alone_while_the_model_answers_on(messages_api: Any, brave_api: Any, con: Any) -> None:
    """Its answers cannot be used, and are billed; the searches that are not asked any more are not, with Dask imported either,
    whose way to copy exceptions shares what they hold."""
    importlib.import_module("distributed")
    brave_api.behave(lambda values: Answer(body="<html>this is no JSON", delay_s=0.05))
    messages_api.behave(
        lambda body: tool_use("web_search", {"query": echo(body)}) if len(body["messages"]) == 1 else "from memory"
    )
    sql.register(con, provider="brave")
    with pytest.warns(UserWarning, match="100 x answered without a search, which failed: brave"):
        con.sql("SELECT ask_ai('x' || i, 'q?') FROM range(100) t(i)").fetchall()
    assert len(brave_api.requests) <= 40
    assert sum(ipy_websearch.cost().kind == "search") == len(brave_api.requests), "what was not asked is not booked"


def test_on_error_raise_makes_it_the_query_s_error(messages_api: Any, con: Any) -> None:
    messages_api.behave(lambda body: error(400, message="no"))
    sql.register(con, on_error="raise")
    with pytest.raises(duckdb.Error, match=r"ask_ai\('x0', 'q\?'\): the Anthropic API refused the request \(400.*no"):
        con.execute("SELECT ask_ai('x' || i, 'q?') FROM range(1) t(i)")
    messages_api.behave(echo)
    assert con.execute("SELECT ask_ai('a', 'q?')").fetchall() == [("about a",)]


def test_without_a_key_it_is_an_error_that_says_what_to_do(con: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(duckdb.Error, match=r"ANTHROPIC_API_KEY is not set.*set_api_key"):
        con.sql("SELECT ask_ai('Mars', 'How many moons does it have?')").fetchall()


@pytest.mark.parametrize("where", ["register", "session"])
def test_a_budget_is_used_up_and_never_passed(messages_api: Any, con: Any, where: str) -> None:
    messages_api.behave(lambda body: (echo(body), usage(input_tokens=900, output_tokens=100)))
    if where == "session":
        api.session().settings.session_budget_usd = 0.005
    sql.register(con, **({"budget_usd": 0.005} if where == "register" else {}))
    with pytest.warns(UserWarning, match=r"budget.*of 0.005 USD"):
        found = con.sql("SELECT ask_ai('x' || i, 'q?') FROM range(200) t(i)").fetchall()
    filled = sum(answer is not None for (answer,) in found)
    assert 10 < filled == len(messages_api.requests) < 200 and ipy_websearch.cost().usd.sum() <= 0.005


def test_keys_are_set_for_the_session_and_shown_nowhere(messages_api: Any, con: Any, tmp_path: Path) -> None:
    secret, messages_api.allow_refusals = "sk-ant-very-secret-0123456789", True
    assert con.execute("SELECT set_api_key(?)", [secret]).fetchall() == [("ANTHROPIC_API_KEY is set for this session.",)]
    with pytest.warns(UserWarning, match="refused the key") as caught:
        con.sql("SELECT ask_ai('a', 'q?')").fetchall()
    with pytest.raises(duckdb.Error, match="not a key") as raised:
        con.execute("SELECT set_brave_api_key(?)", ["two words secret"])
    files = [path.read_bytes().decode("latin-1") for path in (tmp_path / "websearch").rglob("*") if path.is_file()]
    texts = f"{caught[0].message} {raised.value} {api.session().keys} {files}"
    assert "very-secret" not in texts and "words secret" not in texts


# --- web_search ---------------------------------------------------------------------------------------------------------


def test_web_search_gives_rows_with_columns(brave_api: Any, con: Any) -> None:
    brave_api.reply(
        [hit("https://duckdb.org/", "DuckDB", "A database.", date="2026-10-01T08:00:00"), hit("https://b.example/")]
    )
    sql.register(con, provider="brave")
    frame = con.sql("SELECT unnest(web_search('duckdb'), recursive := true)").df()
    assert list(frame.columns) == ["title", "url", "description", "published_date", "extra_snippets", "score", "provider"]
    assert frame.provider[0] == "brave" and frame.published_date[0] == pd.Timestamp("2026-10-01 08:00")
    con.execute("CREATE TABLE q AS SELECT unnest(['duckdb', 'ibis', NULL, 'ibis']) AS q")
    found = con.sql("SELECT q, r.url FROM q, unnest(web_search(q)) t(r)").fetchall()
    assert Counter(query for query, _ in found) == {"duckdb": 2, "ibis": 10} and brave_api.queries == ["duckdb", "ibis"]
    brave_api.reply([])
    assert con.sql("SELECT web_search('nothing at all')").fetchall() == [([],)], "no hits are no failure"


def test_a_busy_engine_is_waited_for_and_a_stand_in_is_told(brave_api: Any, wikipedia_api: Any, con: Any) -> None:
    brave_api.fail(429)
    assert con.sql("SELECT web_search('busy')[1].provider").fetchall() == [("brave",)]
    brave_api.fail(403)
    with pytest.warns(UserWarning, match=r"1 of 1 inputs got a value with a remark; .*brave.*wikipedia was asked instead"):
        assert con.sql("SELECT web_search('moons of Mars')[1].provider").fetchall() == [("wikipedia",)]


# --- registering and stopping -------------------------------------------------------------------------------------------


def test_registering_again_changes_the_options_from_any_cursor(messages_api: Any, con: Any) -> None:
    sql.register(con.cursor(), on_error="raise")
    sql.register(con, "stps_")
    sql.register(con.cursor(), model="claude-sonnet-5-5")
    assert con.sql("SELECT ask_ai('a', 'q?'), stps_ask_ai('a', 'q?')").fetchall() == [("about a", "about a")]
    assert sorted(body["model"] for body in messages_api.bodies) == ["claude-haiku-5-5", "claude-sonnet-5-5"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "ignore"}, "'null' or 'raise'"),
        ({"prefix": "a-b"}, "prefix is 'a-b'"),
        ({"concurrency": 0}, "concurrency"),
        ({"budget_usd": "much"}, "budget_usd"),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_registered(options: dict[str, Any], message: str) -> None:
    with duckdb.connect() as con:
        with pytest.raises(ConfigError, match=message):
            sql.register(con, **options)
        with pytest.raises(duckdb.Error):
            con.sql("SELECT ask_ai('a', 'b')").fetchall()


@pytest.mark.parametrize("query", ["SELECT ask_ai('x' || i, 'q?') FROM range(30) t(i)", "SELECT ask_ai('a', 'q?')"])
def test_ctrl_c_stops_the_sending_and_what_was_answered_is_kept(
    messages_api: Any, con: Any, shell: Any, monkeypatch: Any, query: str
) -> None:
    """In a notebook, where a query is shown by running it, and again when that fails, however long IPython takes for that."""
    messages_api.behave(lambda body: (echo(body), delay(0 if re.fullmatch("about x[0-9]", echo(body)) else 8)))
    monkeypatch.setattr("ipy_websearch.sql.functions.STOPPED_S", 0.0)
    signal.set_wakeup_fd(-1)  # no event loop that another test has left open takes the signals
    sql.register(con, concurrency=4)
    shell.ns["con"] = con
    many = "range" in query

    def press() -> None:
        messages_api.wait(lambda fake: len(fake.requests) == (14 if many else 1), 30)
        threading.Event().wait(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    shell.ip.run_cell(f'con.sql("{query}")', store_history=many)
    thread.join()
    assert len(messages_api.requests) == (14 if many else 1)
    messages_api.behave(echo)
    shell.ip.run_cell(f'found = con.execute("{query}").fetchall()', store_history=many)  # its number may be the same
    assert len(shell.ns["found"]) == (30 if many else 1)
    assert len(messages_api.requests) == (34 if many else 2)
