"""The SQL functions through DuckDB itself, against the strict fakes of the Messages API and of Brave."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
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
from tests.fakes.engines import hit
from tests.fakes.notebook import subprocess_environment
from tests.fakes.replies import delay, error, refusal, search_results, stop, text, tool_use, usage

PRICE = "What is the current price?"


@pytest.fixture
def con() -> Iterator[Any]:
    """A DuckDB connection with a table `rows` of 5,000 rows and 50 distinct values."""
    made = duckdb.connect()
    made.execute("CREATE TABLE rows AS SELECT i, 'v' || (i % 50) AS v FROM range(5000) t(i)")
    yield made
    made.close()


def asked(api_: Any) -> list[str]:
    """Return the contexts that the model was asked about, in order."""
    texts = [body["messages"][0]["content"][0]["text"] for body in api_.bodies]
    return [match[1] for text_ in texts if (match := re.match(r"Context: (.*)\n\nQuestion: ", text_))]


def echo(body: dict[str, Any]) -> Any:
    """Answer with the context."""
    return f"about {body['messages'][0]['content'][0]['text'].split(chr(10))[0].removeprefix('Context: ')}"


# --- the seed's behaviour -----------------------------------------------------------------------------------------------


def test_the_test_section_of_seed_000_works(messages_api: Any, brave_api: Any, con: Any, monkeypatch: Any) -> None:
    """Every line of its SQL, with the seed's names: keys, a searched answer, one from knowledge, one without Brave, a batch."""
    monkeypatch.delenv("BRAVE_API_KEY")
    key, brave_key = messages_api.key, brave_api.key
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    sql.register(con, prefix="stps_")
    assert "set" in con.sql(f"SELECT stps_set_api_key('{key}');").fetchall()[0][0]
    # 4. without a Brave key it still works, without a search
    messages_api.reply("As of my training it was 60,000 USD.")
    assert con.sql(f"SELECT stps_ask_ai('Bitcoin', '{PRICE}');").fetchall() == [("As of my training it was 60,000 USD.",)]
    assert "tools" not in messages_api.bodies[0] and not brave_api.requests
    # 1. and 2. with a key: searched
    assert "set" in con.execute(f"SELECT stps_set_brave_api_key('{brave_key}');").fetchall()[0][0]
    brave_api.reply([hit("https://coin.example/", "Bitcoin Price Today", "Current Bitcoin price is 95,234.15 USD.")])
    messages_api.reply(tool_use("web_search", {"query": "Bitcoin price USD"}))
    messages_api.reply(text("95,234.15 USD", citations=[(0, 0)]))
    assert con.sql(f"SELECT stps_ask_ai('Bitcoin', '{PRICE}');").fetchall() == [("95,234.15 USD",)]
    assert brave_api.queries == ["Bitcoin price USD"]
    # 3. knowledge
    messages_api.reply("A way to write a list as a loop in brackets.")
    assert con.sql("SELECT stps_ask_ai('Python', 'What is a list comprehension?');").fetchall()[0][0].startswith("A way")
    # 5. a batch
    messages_api.behave(echo)
    con.execute("CREATE TABLE stocks AS SELECT unnest(['AAPL', 'MSFT', 'AAPL', 'NVDA', 'TSLA', 'AMD']) AS ticker")
    rows = con.sql("SELECT ticker, stps_ask_ai(ticker, 'Current stock price?') as price FROM stocks LIMIT 5;").fetchall()
    assert rows == [(t, f"about {t}") for t in ("AAPL", "MSFT", "AAPL", "NVDA", "TSLA")]
    assert sorted(asked(messages_api)[-4:]) == ["AAPL", "MSFT", "NVDA", "TSLA"]


def test_there_is_one_search_and_then_an_answer(messages_api: Any, brave_api: Any, con: Any) -> None:
    """The reply after the search may call nothing more; what was asked has the seed's form, and results come as blocks."""
    messages_api.reply(tool_use("web_search", {"query": "one"}), tool_use("web_search", {"query": "two"}))
    messages_api.reply("done")
    sql.register(con)
    assert con.sql("SELECT ask_ai('Bitcoin', 'Price?')").fetchall() == [("done",)]
    first, second = messages_api.bodies
    assert first["messages"][0]["content"][0]["text"] == "Context: Bitcoin\n\nQuestion: Price?"
    assert first["model"] == "claude-haiku-5-5" and first["max_tokens"] == 1000 and "tool_choice" not in first
    assert second["tool_choice"] == {"type": "none"} and len(brave_api.queries) == 1
    results = second["messages"][-1]["content"]
    assert [block.get("is_error", False) for block in results] == [False, True] and len(search_results(second)) == 5


def test_a_failed_search_is_told_to_the_model_and_to_the_user(messages_api: Any, brave_api: Any, con: Any) -> None:
    """The model answers from what it knows; that answer has a warning and is not kept."""
    brave_api.fail(403, times=2)
    for _ in range(2):
        messages_api.reply(tool_use("web_search", {"query": "price of bitcoin"}))
        messages_api.reply("From memory.")
    sql.register(con, provider="brave")
    for _ in range(2):
        with pytest.warns(UserWarning, match="answered without a search, which failed: brave.*'Bitcoin'"):
            assert con.sql("SELECT ask_ai('Bitcoin', 'Price?')").fetchall() == [("From memory.",)]
    result = messages_api.bodies[1]["messages"][-1]["content"][0]
    assert result["is_error"] and result["content"][0]["text"].startswith(
        "Search unavailable. Please answer from your knowledge."
    )


@pytest.mark.parametrize(
    ("reply", "value", "warning"),
    [
        (["It is half an ans", stop("max_tokens")], "It is half an ans", None),
        (["No.", refusal("cyber")], None, r"declined to answer \(cyber\)"),
        ([error(400, message="too odd")], None, "too odd"),
    ],
)
def test_other_ends_of_a_reply(messages_api: Any, con: Any, reply: Any, value: Any, warning: str | None) -> None:
    """A cut answer is given as far as it is; a refusal and an error are NULL with a warning that names the inputs."""
    messages_api.reply(*reply)
    sql.register(con)
    if warning is None:
        assert con.sql("SELECT ask_ai('a', 'b?')").fetchall() == [(value,)]
    else:
        with pytest.warns(UserWarning, match=rf"1 of 1 inputs failed and are NULL; .*{warning}.*\('a', 'b\?'\)"):
            assert con.sql("SELECT ask_ai('a', 'b?')").fetchall() == [(value,)]


def test_an_answer_has_ninety_seconds(messages_api: Any, con: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not there by then is NULL with a warning, and the other rows have their answers."""
    from ipy_websearch.sql import answers

    assert answers.TIMEOUT_S == 90
    monkeypatch.setattr(answers, "TIMEOUT_S", 4.0)
    messages_api.behave(lambda body: (echo(body), delay(60 if "slow" in asked_text(body) else 0)))
    sql.register(con)
    con.execute("CREATE TABLE names AS SELECT unnest(['quick', 'slow', 'other']) AS name")
    with pytest.warns(UserWarning, match=r"1 of 3 inputs failed.*took too long.*\('slow', 'q\?'\)"):
        found = con.sql("SELECT ask_ai(name, 'q?') FROM names").fetchall()
    assert found == [("about quick",), (None,), ("about other",)]


# --- how often is asked -------------------------------------------------------------------------------------------------


def test_equal_rows_are_asked_once_over_chunks_and_queries(messages_api: Any, con: Any) -> None:
    """5,000 rows with 50 values are 50 requests; the same question in WHERE and SELECT, and later, asks nothing more."""
    messages_api.behave(echo)
    sql.register(con)
    found = con.sql("SELECT v, ask_ai(v, 'q?') FROM rows").fetchall()
    assert len(found) == 5000 and all(answer == f"about {v}" for v, answer in found)
    assert sorted(asked(messages_api)) == sorted(f"v{n}" for n in range(50))
    again = con.sql("SELECT ask_ai(v, 'q?') FROM rows WHERE ask_ai(v, 'q?') LIKE '%v1_'").fetchall()
    assert len(again) == 1000 and len(messages_api.requests) == 50


def test_a_condition_and_a_column_together_ask_once(messages_api: Any, con: Any) -> None:
    """`WHERE f() SELECT f()` for values that were never asked before."""
    messages_api.behave(echo)
    sql.register(con)
    assert len(con.sql("SELECT ask_ai(v, 'q?') FROM rows WHERE ask_ai(v, 'q?') IS NOT NULL").fetchall()) == 5000
    assert set(Counter(asked(messages_api)).values()) == {1}


@pytest.mark.parametrize(
    ("query", "requests"),
    [
        ("SELECT ask_ai('a', 'q?') FROM rows", 1),
        ("SELECT ask_ai('a', 'q?'), ask_ai('a', 'q?')", 1),
        ("SELECT ask_ai(v, 'q?') FROM rows ORDER BY i LIMIT 5", 5),
        ("SELECT ask_ai(v, 'q?') FROM (FROM rows ORDER BY v, i LIMIT 105) WHERE i > 3", 2),
        ("SELECT ask_ai(name, 'q?') FROM (FROM frame ORDER BY name LIMIT 5)", 5),
        ("SELECT ask_ai('x' || i, 'q?') FROM rows LIMIT 5", 5),
        ("SELECT ask_ai(NULL, 'q?'), ask_ai('a', NULL), ask_ai(CASE WHEN i < 3 THEN v END, 'q?') FROM rows LIMIT 20", 3),
        ("SELECT count(*) FROM rows WHERE ask_ai(v, 'q?') = 'about v1' AND i < 3", 3),
    ],
)
def test_duckdb_asks_no_more_rows_than_it_shows(messages_api: Any, con: Any, query: str, requests: int) -> None:
    """Constants are folded, LIMIT comes before the function, NULL asks nothing."""
    messages_api.behave(echo)
    sql.register(con)
    frame = pd.DataFrame({"name": [f"n{n}" for n in range(100)]})
    con.sql(query).fetchall()
    assert len(messages_api.requests) == requests and len(frame) == 100


def test_null_in_is_null_out(messages_api: Any, con: Any) -> None:
    """Between values, in their places."""
    messages_api.behave(echo)
    sql.register(con)
    frame = pd.DataFrame({"name": ["a", None, "c"]})
    assert con.sql("SELECT ask_ai(name, 'q?') FROM frame").fetchall() == [("about a",), (None,), ("about c",)]
    assert len(frame) == 3 and sorted(asked(messages_api)) == ["a", "c"]


def test_a_chunk_runs_at_once_within_the_bound(messages_api: Any, con: Any) -> None:
    """24 rows of 0.1 s, eight at once."""
    most = 0

    def busy(body: dict[str, Any]) -> Any:
        nonlocal most
        most = max(most, messages_api.active)
        return echo(body), delay(0.1)

    messages_api.behave(busy)
    sql.register(con, concurrency=8)
    con.sql("SELECT ask_ai('x' || i, 'q?') FROM range(24) t(i)").fetchall()
    assert 4 <= most <= 8


def test_a_storm_of_429_loses_no_row(messages_api: Any, con: Any) -> None:
    """Overloads are waited out, with fewer requests at once."""
    seen: Counter[str] = Counter()

    def behaviour(body: dict[str, Any]) -> Any:
        seen[name := echo(body)] += 1
        return error(429, headers={"retry-after": "0.1"}) if seen[name] <= 4 and name.endswith(("1", "5")) else name

    messages_api.behave(behaviour)
    sql.register(con)
    assert all(answer for (answer,) in con.sql("SELECT ask_ai('x' || i, 'q?') FROM range(30) t(i)").fetchall())


def test_a_429_after_a_pause_is_waited_out_as_well(messages_api: Any, con: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience is counted within a query, not from the last answer of the query before."""
    from ipy_websearch.enrichment import sender

    monkeypatch.setattr(sender, "PATIENCE_S", 0.5)
    monkeypatch.setattr(sender, "TRUSTED_S", 0.01)
    sql.register(con)
    for name in "ab":
        for _ in range(4):  # one more than a request that runs alone would be sent again
            messages_api.reply(error(429, headers={"retry-after": "0.05"}))
        messages_api.reply("yes")
        assert con.execute("SELECT ask_ai(?, 'q?')", [name]).fetchall() == [("yes",)]
        time.sleep(1.1)


def test_threads_and_cursors_share_what_is_under_way(messages_api: Any, con: Any) -> None:
    """Four threads ask the same at the same time: one request."""
    messages_api.behave(lambda body: (echo(body), delay(0.2)))
    sql.register(con)
    found: list[Any] = []

    def work() -> None:
        found.extend(con.cursor().execute("SELECT ask_ai(v, 'q?') FROM (VALUES ('a'), ('b')) t(v)").fetchall())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [("about a",)] * 4 + [("about b",)] * 4 and len(messages_api.requests) == 2


def test_answers_are_kept_for_the_day_over_sessions(messages_api: Any, con: Any, shell: Any, monkeypatch: Any) -> None:
    """A new session finds them in the store, where they are listed and cleared; another day or resume=False asks anew."""
    from ipy_websearch.sql import answers

    messages_api.behave(echo)
    for n, options in enumerate(({}, {}, {"resume": False}, {"model": "claude-sonnet-5-5"})):
        api.end_session()
        sql.register(con, **options)
        con.sql("SELECT ask_ai('a', 'q?'), ask_ai('a', 'q?')").fetchall()
        assert len(messages_api.requests) == (1, 1, 2, 3)[n]
    assert set(shell.run("%websearch store").value.column) == {"ask_ai"}
    assert "3 values removed" in shell.run("%websearch store clear ask_ai").stdout
    sql.register(con)
    con.sql("SELECT ask_ai('a', 'q?')").fetchall()
    monkeypatch.setattr(answers, "_today", lambda: "2031-01-01")
    con.sql("SELECT ask_ai('a', 'q?')").fetchall()
    assert len(messages_api.requests) == 5


# --- failures -----------------------------------------------------------------------------------------------------------


def test_failures_are_one_warning_with_the_inputs_and_asked_again(messages_api: Any, con: Any) -> None:
    """Equal failures are grouped; the next query asks the failed rows only."""
    broken = {"about x1", "about x2", "about x3", "about x4", "about x6"}
    messages_api.behave(lambda body: error(400, message="no") if echo(body) in broken else echo(body))
    sql.register(con)
    query = "SELECT ask_ai('x' || i, 'q?') FROM range(8) t(i)"
    with pytest.warns(UserWarning) as caught:
        found = con.sql(query).fetchall()
    assert [answer is None for (answer,) in found] == [False, True, True, True, True, False, True, False]
    assert len(caught) == 1 and "5 of 8 inputs failed" in str(caught[0].message) and "and 2 more" in str(caught[0].message)
    broken.clear()
    assert all(answer for (answer,) in con.sql(query).fetchall()) and len(messages_api.requests) == 13


@pytest.mark.parametrize("source", ["", " FROM (SELECT 1)", " FROM one", " FROM one WHERE ask_ai(v, 'q?') IS NULL"])
def test_a_query_asks_a_failing_row_once_and_the_next_query_again(messages_api: Any, con: Any, source: str) -> None:
    """DuckDB calls a function up to three times for a constant; the failure is one request and one warning."""
    con.execute("CREATE TABLE one AS SELECT 'a' AS v")
    query = f"SELECT ask_ai({'v' if 'one' in source else repr('a')}, 'q?'){source}"
    sql.register(con)
    for _ in range(2):
        messages_api.reply(error(400, message="no"))
        with pytest.warns(UserWarning, match="no") as caught:
            assert run_sql(con, query) == [(None,)]
        assert len(caught) == 1
    assert len(messages_api.requests) == 2


def run_sql(con: Any, query: str) -> Any:
    """Run a query from the same line each time."""
    return con.execute(query).fetchall()


def test_on_error_raise_makes_it_the_query_s_error(messages_api: Any, con: Any) -> None:
    """One line with function and inputs; one request; the connection goes on."""
    sql.register(con, on_error="raise")
    for query in ("SELECT ask_ai('a', 'q?')", "SELECT ask_ai('x' || i, 'q?') FROM range(1) t(i)"):
        messages_api.reply(error(400, message="no"))
        with pytest.raises(duckdb.Error, match=r"ask_ai\('[ax]0?', 'q\?'\): the Anthropic API refused the request \(400.*no"):
            con.execute(query)
    messages_api.reply("yes")
    assert con.execute("SELECT ask_ai('a', 'q?')").fetchall() == [("yes",)]


def test_a_refused_key_stops_the_chunk(messages_api: Any, con: Any) -> None:
    """Not all of 500 rows are sent to be refused."""
    messages_api.behave(lambda body: error(401, message="invalid"))
    sql.register(con)
    with pytest.warns(UserWarning, match="500 of 500 inputs failed.*refused the key"):
        con.sql("SELECT ask_ai('x' || i, 'q?') FROM range(500) t(i)").fetchall()
    assert len(messages_api.requests) <= 16


def test_without_a_key_it_is_an_error_that_says_what_to_do(con: Any) -> None:
    """It never falls back to the offline model, whatever on_error is."""
    sql.register(con)
    with pytest.raises(duckdb.Error, match=r"ANTHROPIC_API_KEY is not set.*set_api_key"):
        con.sql("SELECT ask_ai('Mars', 'How many moons does it have?')").fetchall()


def test_an_empty_question_and_a_wrong_call_send_nothing(messages_api: Any, con: Any) -> None:
    """One is NULL with a warning, the other an error; an empty context is left out of what is asked."""
    sql.register(con)
    with pytest.warns(UserWarning, match="the question is empty"):
        assert con.sql("SELECT ask_ai('a', '  ')").fetchall() == [(None,)]
    with pytest.raises(duckdb.Error, match="takes a context and a question"):
        con.sql("SELECT ask_ai('a')").fetchall()
    assert not messages_api.requests
    messages_api.reply("yes")
    assert con.sql("SELECT ask_ai('', 'Is it?')").fetchall() == [("yes",)]
    assert messages_api.bodies[0]["messages"][0]["content"][0]["text"] == "Question: Is it?"


def test_values_of_any_type_can_be_asked_about(messages_api: Any, con: Any) -> None:
    """Numbers and dates need no cast."""
    messages_api.behave(echo)
    sql.register(con)
    found = con.sql("SELECT ask_ai(7, 'q?'), ask_ai(DATE '2026-01-02', 'q?'), ask_ai(2.5::DOUBLE, 'q?')").fetchall()
    assert found == [("about 7", "about 2026-01-02", "about 2.5")]


# --- money and keys -----------------------------------------------------------------------------------------------------


def test_each_row_is_booked_and_equal_questions_are_one_line(messages_api: Any, brave_api: Any, con: Any) -> None:
    """`%cost` has every request and search; the session's conversation has none of it."""
    messages_api.behave(
        lambda body: tool_use("web_search", {"query": echo(body)}) if len(body["messages"]) == 1 else echo(body)
    )
    sql.register(con)
    con.sql("SELECT ask_ai('x' || i, 'q?') FROM range(3) t(i)").fetchall()
    cost = ipy_websearch.cost()
    assert Counter(cost.kind) == {"model": 6, "search": 3} and cost.usd.sum() > 0
    assert list(ipy_websearch.cost(by="question").question) == ["ask_ai: q?"] and not api.session().answers
    assert float(api.session().spent_usd or 0) == pytest.approx(cost.usd.sum())


@pytest.mark.parametrize("where", ["register", "session"])
def test_a_ceiling_is_never_passed(messages_api: Any, con: Any, where: str) -> None:
    """Rows are answered while money lasts, the others are NULL and not sent."""
    messages_api.behave(lambda body: (echo(body), usage(input_tokens=900, output_tokens=100)))
    if where == "session":
        api.session().settings.session_budget_usd = 0.005
    sql.register(con, **({"budget_usd": 0.005} if where == "register" else {}))
    with pytest.warns(UserWarning, match=r"budget.*of 0.005 USD"):
        found = con.sql("SELECT ask_ai('x' || i, 'q?') FROM range(200) t(i)").fetchall()
    filled = sum(answer is not None for (answer,) in found)
    assert 10 < filled == len(messages_api.requests) < 200 and ipy_websearch.cost().usd.sum() <= 0.005


def test_keys_are_set_for_the_session_and_shown_nowhere(messages_api: Any, con: Any, tmp_path: Path) -> None:
    """Not in results, errors, files or reprs; a key that is none is refused without being shown."""
    sql.register(con)
    secret = "sk-ant-very-secret-0123456789"
    said = con.execute("SELECT set_api_key(?)", [secret]).fetchall()[0][0]
    assert said == "ANTHROPIC_API_KEY is set for this session." and api.session().keys.get("anthropic") == secret
    messages_api.allow_refusals = True
    with pytest.warns(UserWarning, match="refused the key") as caught:
        con.sql("SELECT ask_ai('a', 'q?')").fetchall()
    with pytest.raises(duckdb.Error) as raised:
        con.execute("SELECT set_brave_api_key(?)", ["two words secret"])
    texts = [str(caught[0].message), str(raised.value), repr(api.session().keys)]
    texts += [path.read_bytes().decode("latin-1") for path in (tmp_path / "websearch").rglob("*") if path.is_file()]
    assert "not a key" in texts[1] and not any("very-secret" in text_ or "words secret" in text_ for text_ in texts)
    assert con.execute("SELECT set_api_key(NULL)").fetchall() == [(None,)]


# --- web_search ---------------------------------------------------------------------------------------------------------


def test_web_search_gives_rows_with_columns(brave_api: Any, con: Any) -> None:
    """`unnest(…, recursive := true)` has title, url, description and the rest; equal queries are searched for once."""
    brave_api.reply(
        [hit("https://duckdb.org/", "DuckDB", "A database.", date="2026-10-01T08:00:00"), hit("https://b.example/")]
    )
    sql.register(con)
    frame = con.sql("SELECT unnest(web_search('duckdb'), recursive := true)").df()
    names = ["title", "url", "description", "published_date", "extra_snippets", "score", "provider"]
    assert list(frame.columns) == names and list(frame.url) == ["https://duckdb.org/", "https://b.example/"]
    assert frame.provider[0] == "brave" and frame.published_date[0] == pd.Timestamp("2026-10-01 08:00")
    con.execute("CREATE TABLE q AS SELECT unnest(['duckdb', 'ibis', NULL, 'ibis']) AS q")
    found = con.sql("SELECT q, r.url FROM q, unnest(web_search(q)) t(r)").fetchall()
    assert Counter(query for query, _ in found) == {"duckdb": 2, "ibis": 10} and brave_api.queries == ["duckdb", "ibis"]
    assert con.sql("SELECT web_search(NULL)").fetchall() == [(None,)]


def test_a_search_that_fails_is_null_with_a_warning(brave_api: Any, con: Any) -> None:
    """Nothing found is an empty list, which is something else."""
    brave_api.reply([])
    sql.register(con, provider="brave")
    assert con.sql("SELECT web_search('nothing at all')").fetchall() == [([],)]
    brave_api.fail(403)
    with pytest.warns(UserWarning, match=r"web_search: 1 of 1 inputs failed.*\('broken'\)"):
        assert con.sql("SELECT web_search('broken')").fetchall() == [(None,)]
    with pytest.warns(UserWarning, match="too short"):
        assert con.sql("SELECT web_search('x')").fetchall() == [(None,)]


# --- registering --------------------------------------------------------------------------------------------------------


def test_registering_again_changes_the_options_from_any_cursor(messages_api: Any, con: Any) -> None:
    """A cursor that is gone takes nothing with it, and prefixes stand side by side."""
    messages_api.behave(echo)
    sql.register(con.cursor(), on_error="raise")
    sql.register(con)
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
def test_wrong_options_are_refused(con: Any, options: dict[str, Any], message: str) -> None:
    """One clear line, and nothing is registered."""
    with pytest.raises(ConfigError, match=message):
        sql.register(con, **options)
    with pytest.raises(duckdb.Error):
        con.sql("SELECT ask_ai('a', 'b')").fetchall()


def test_foreign_functions_and_connections_are_left_alone(con: Any) -> None:
    """Another function of that name stays; something that is no connection is named."""
    con.create_function("web_search", lambda x: x, ["VARCHAR"], "VARCHAR")
    with pytest.raises(ConfigError, match="web_search cannot be registered.*another prefix"):
        sql.register(con)
    assert con.sql("SELECT web_search('mine')").fetchall() == [("mine",)]
    with pytest.raises(duckdb.Error):
        con.sql("SELECT ask_ai('a', 'b')").fetchall()
    with pytest.raises(ConfigError, match="needs a DuckDB connection, not str"):
        sql.register("con")


def test_the_default_connection_can_be_used() -> None:
    """`register(duckdb)` and `duckdb.sql`."""
    sql.register(duckdb, "module_", model="offline", provider="local")
    found = duckdb.sql("SELECT module_ask_ai('Mars', 'How many moons does it have?')").fetchall()
    assert "two **moons**, Phobos and Deimos" in found[0][0]
    duckdb.default_connection().close()


def test_importing_the_module_imports_nothing_heavy() -> None:
    """DuckDB, Arrow, pandas and the SDK are loaded when something is registered or asked."""
    names = ("duckdb", "pyarrow", "pandas", "anthropic", "aiohttp", "httpx")
    code = f"import sys, ipy_websearch.sql; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=subprocess_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_without_pyarrow_it_says_what_to_install(con: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB calls Python functions for whole chunks with it only."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r'pip install "ipy_websearch\[sql\]"'):
        sql.register(con)


# --- interrupts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["SELECT ask_ai('x' || i, 'q?') FROM range(30) t(i)", "SELECT ask_ai('a', 'q?')"])
def test_ctrl_c_stops_the_sending_and_the_connection_goes_on(messages_api: Any, con: Any, query: str) -> None:
    """Whichever thread DuckDB runs the function in; nothing is sent afterwards, and what was answered is not asked again."""
    messages_api.behave(lambda body: (echo(body), delay(0 if re.search(r" x[0-9]\n", asked_text(body)) else 8)))
    sql.register(con, concurrency=4)
    many = "range" in query

    def press() -> None:
        messages_api.wait(lambda fake: len(fake.requests) == (14 if many else 1), 30)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises((duckdb.Error, RuntimeError, KeyboardInterrupt), match="stopped|interrupted|^$"):
        con.execute(query).fetchall()
    thread.join()
    sent = len(messages_api.requests)
    time.sleep(0.2)
    assert len(messages_api.requests) == sent <= 14
    messages_api.behave(echo)
    assert len(con.execute(query + " ").fetchall()) == (30 if many else 1)
    assert len(messages_api.requests) - sent == (20 if many else 1)


def asked_text(body: dict[str, Any]) -> str:
    """Return what a request asks."""
    return str(body["messages"][0]["content"][0]["text"])


def test_a_relation_that_is_shown_in_a_notebook_is_stopped_for_good(messages_api: Any, con: Any, shell: Any) -> None:
    """IPython shows a query by running it, and runs it again when that fails: the second time nothing may be sent."""
    messages_api.behave(lambda body: (echo(body), delay(8)))
    sql.register(con, concurrency=4)
    shell.ns["con"] = con

    def press() -> None:
        messages_api.wait(lambda fake: len(fake.requests) == 4, 30)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    shell.run("con.sql(\"SELECT ask_ai('x' || i, 'q?') FROM range(12) t(i)\")")
    thread.join()
    assert len(messages_api.requests) == 4
