"""Which rows are asked, what is kept, budgets, interrupts and doors of enrichment."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch import api
from ipy_websearch.enrichment.store import Store
from ipy_websearch.money.ledger import Ledger
from tests.contract.helpers import CEO, companies, record, results_of, search
from tests.contract.helpers import boss as echo
from tests.fakes.engines import hit
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
    assert "the 3 other distinct rows would take about 1.50 USD" in capsys.readouterr().out
    messages_api.behave(lambda body: error(400, message="no"))
    ipy_websearch.enrich(companies("F", "G"), CEO, sample=1, max_searches=0)
    assert "what the others would take is not known" in capsys.readouterr().out, "what failed was not billed"


def test_a_search_that_reads_pages_gives_their_passages(
    messages_api: Any, brave_api: Any, public_web: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `read_pages` it reads none, and a value of the one is not a value of the other."""
    about, told = "http://acme.example/about", "The chief executive of Acme is Ada Byron"
    monkeypatch.setattr("ipy_websearch.tools.web.READ_S", 60.0)
    brave_api.behave(lambda _: [hit(about, "Acme", "About us")])
    public_web.page(about, f"<article><h1>Acme</h1><p>{told}, who has led it since 1843.</p></article>")
    said = record(ceo={"value": "Ada Byron", "source": about, "quote": told})
    messages_api.behave(lambda body: said if len(body["messages"]) > 1 else search("Acme CEO"))
    ipy_websearch.enrich(companies("Acme"), CEO, progress=False)
    assert "About us" in str(results_of(messages_api.bodies[-1])) and public_web.requests == []
    for _ in range(2):  # the second time from the store
        out = ipy_websearch.enrich(companies("Acme"), CEO, read_pages=1, progress=False)
        assert list(out.ceo_source) == [about] and len(messages_api.bodies) == 4
    assert "Ada Byron, who has led it" in str(results_of(messages_api.bodies[-1]))


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


def test_what_was_paid_for_is_found_while_another_program_locks_the_file(messages_api: Any) -> None:
    messages_api.behave(echo)
    ipy_websearch.enrich(companies(*"AB"), CEO, **QUIET)
    path = api.session().ledger.path
    api.end_session()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        first, second = (ipy_websearch.enrich(companies(*"ABC"), CEO, **QUIET) for _ in range(2))
        assert list(first.ceo) == list(second.ceo) == ["Boss of A", "Boss of B", "Boss of C"]
        assert "locked" in str(first.attrs["report"]["warnings"])
        assert len(messages_api.requests) == 3 == len(ipy_websearch.cost(everything=True))


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


# --- doors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%enrich companies\nceo: int", "the question for 'ceo' names no column"),
        ("%%enrich companies\nceo: Who leads {company}?\nceo: Who leads {company}?", "stands twice"),
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
