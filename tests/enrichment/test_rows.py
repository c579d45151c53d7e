"""Which rows are asked, what is kept, budgets, interrupts and doors of enrichment."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch.enrichment.store import Store
from ipy_websearch.money.ledger import Ledger
from tests.contract.helpers import CEO, companies, record
from tests.contract.helpers import boss as echo
from tests.fakes.replies import error, usage

QUIET: dict[str, Any] = {"progress": False, "max_searches": 0}


# --- which rows are asked -----------------------------------------------------------------------------------------------


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


# --- the store ----------------------------------------------------------------------------------------------------------


def test_a_further_column_is_asked_alone(messages_api: Any) -> None:
    """Values that are there are not asked again because a question is added."""
    messages_api.reply(record(ceo="Jo"))
    messages_api.reply(record(founded=1999))
    out = ipy_websearch.enrich(companies("A"), CEO, **QUIET)
    out = ipy_websearch.enrich(out, {**CEO, "founded": ("In what year was {company} founded?", int)}, **QUIET)
    assert (out.ceo[0], out.founded[0]) == ("Jo", 1999) and list(out.columns).count("ceo") == 1
    assert "CEO" not in messages_api.bodies[1]["messages"][0]["content"][0]["text"]


def test_the_store_is_listed_and_cleared(messages_api: Any, shell: Any) -> None:
    """`%websearch store` lists each question with its cells; `clear` forgets them."""
    messages_api.behave(echo)
    ipy_websearch.enrich(companies(*"AB"), CEO, **QUIET)
    listing = shell.run("%websearch store").value
    assert list(listing.cells) == [2] and listing.question[0] == CEO["ceo"]
    assert "2 values removed" in shell.run("%websearch store clear ceo").stdout
    ipy_websearch.enrich(companies(*"AB"), CEO, **QUIET)
    assert len(messages_api.requests) == 4


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_paid_for_is_found_while_another_program_locks_the_file(
    messages_api: Any, session: Any, tmp_path: Path, restarted: bool
) -> None:
    messages_api.behave(echo)
    ipy_websearch.enrich(companies(*"AB"), CEO, **QUIET)
    if restarted:
        session.ledger.close()
    with closing(sqlite3.connect(tmp_path / "websearch/ledger.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        out = ipy_websearch.enrich(companies(*"ABC"), CEO, **QUIET)
        assert list(out.ceo) == ["Boss of A", "Boss of B", "Boss of C"] and len(messages_api.requests) == 3
        assert "locked" in str(out.attrs["report"]["warnings"]) and len(ipy_websearch.cost()) == 3


def test_values_of_version_0_1_0_are_set_aside_with_a_line(messages_api: Any, tmp_path: Path) -> None:
    """They do not say how they were searched for, so they are not used; nothing is deleted."""
    messages_api.behave(echo)
    (tmp_path / "websearch").mkdir()
    with closing(sqlite3.connect(tmp_path / "websearch/enrich.sqlite", isolation_level=None)) as old:
        old.execute("CREATE TABLE cells AS SELECT 'kept' AS cell")
    out = ipy_websearch.enrich(companies("A"), CEO, **QUIET)
    assert out.ceo[0] == "Boss of A" and "version 0.1.0" in out.attrs["report"]["warnings"][0]
    (tmp_path / "websearch/enrich.sqlite").touch()  # by version 0.1.0, which is still used beside this one
    assert Store(Ledger(None), tmp_path / "websearch/enrich.sqlite").warnings == []
    with closing(sqlite3.connect(tmp_path / "websearch/enrich.0.1.0")) as now:
        assert now.execute("SELECT cell FROM cells").fetchall() == [("kept",)]


# --- failures -----------------------------------------------------------------------------------------------------------


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


def test_a_stopped_start_returns_what_the_store_has(messages_api: Any) -> None:
    """With one row filled before, the frame comes back instead of an error."""
    messages_api.behave(echo)
    ipy_websearch.enrich(companies("C0"), CEO, **QUIET)
    messages_api.behave(lambda body: error(402, message="no credit"))
    out = ipy_websearch.enrich(companies(*(f"C{n}" for n in range(60))), CEO, **QUIET)
    assert out.enrich_status[0] == "ok" and set(out.enrich_status[1:]) == {"error"}
    assert out.enrich_error[1:].str.contains("no credit").all()


# --- doors --------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%enrich companies\nceo: int", "the question for 'ceo' names no column"),
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


def test_df_web_search_gives_each_row_its_best_result(brave_api: Any) -> None:
    """One search for each distinct query; a missing value is said."""
    out = companies("A", "B", "A", None).web.search("{company} CEO", provider="brave", progress=False)
    assert sorted(brave_api.queries) == ["A CEO", "B CEO"]
    assert out.search_url[:3].notna().all() and out.search_provider[0] == "brave" and "missing" in out.search_error[3]
    out = companies("A", "Acme").web.search("{company}", provider="brave", progress=False)
    assert "at least 2 characters" in out.search_error[0] and pd.notna(out.search_url[1]) and len(ipy_websearch.cost()) == 3
