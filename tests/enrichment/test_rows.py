"""Which rows are asked, what goes in and comes out of them, what is kept: nothing is misread, overwritten or lost."""

from __future__ import annotations

import gc
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ipy_websearch
from ipy_websearch import api
from ipy_websearch.enrichment import batch
from ipy_websearch.enrichment.columns import fields_in, fill, fit, parse_columns
from ipy_websearch.errors import ConfigError, EnrichmentError
from tests.contract.helpers import CEO, companies, company_in, record, results_of, search
from tests.contract.helpers import ROW as QUIET
from tests.contract.helpers import boss as echo
from tests.fakes.engines import hit
from tests.fakes.replies import error, usage

# --- which rows are asked -----------------------------------------------------------------------------------------------


def test_a_column_whose_inputs_are_there_is_asked_although_others_are_not(messages_api: Any) -> None:
    """A row lacks the value for one question only: the other question is asked."""
    messages_api.reply(record(ceo="Jo"))
    frame, collections = pd.DataFrame({"company": ["A"], "city": [None]}), gc.get_threshold()
    out = ipy_websearch.enrich(frame, {**CEO, "mayor": "Who is the mayor of {city}?"}, **QUIET)
    assert gc.get_threshold() == collections, "Python's garbage collection goes on as it did before"
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


# --- values ---------------------------------------------------------------------------------------------------------------


def answers(fake: Any, kind: Any, written: Sequence[Any]) -> list[Any]:
    """Return what becomes of these values of a model in a column of a type, None where nothing does."""
    fake.behave(lambda body: record(value=written[int(company_in(body).removeprefix("C"))]))
    frame = companies(*(f"C{n}" for n in range(len(written))))
    out = ipy_websearch.enrich(frame, {"value": ("{company}?", kind)}, **QUIET)
    return [None if pd.api.types.is_scalar(value) and pd.isna(value) else value for value in out.value]


# --- what a model writes ------------------------------------------------------------------------------------------------

NUMBERS: list[tuple[Any, int | None, float | None]] = [
    ("1,500", 1500, 1500.0),
    ("1,234,567.5", None, 1234567.5),
    ("12,34,567", None, None),
    ("1.234.567", None, None),
    ("1.234,5", None, None),
    ("-5", -5, -5.0),
    (1.5e3, 1500, 1500.0),
    (2.5, None, 2.5),
    ("3,14", None, None),
    ("1,5", None, None),
    ("0,500", None, None),
    ("12,34,5", None, None),
    ("2.000", None, 2.0),
    ("about 5", None, None),
    ("5 km", None, None),
    ("9" * 5000, None, None),
    (10**400, None, None),
    (2**63, None, float(2**63)),
    (True, None, None),
    (7, 7, 7.0),
]


def test_a_number_is_read_in_one_way_or_not_at_all(messages_api: Any) -> None:
    """Thousands in groups of three are read, a decimal comma is not taken for them, and nothing is guessed."""
    written = [text for text, _, _ in NUMBERS]
    assert answers(messages_api, int, written) == [whole for _, whole, _ in NUMBERS]
    assert answers(messages_api, float, written) == [real for _, _, real in NUMBERS]


def test_a_date_is_read_in_one_way_or_not_at_all(messages_api: Any) -> None:
    """As it was asked for, with a time or without; not those that differ from continent to continent."""
    good, other = ["1998-03-04", "1998-03-04T23:00:00Z"], ["03/04/1998", "1998", "March 1998", "1998-03-04 or later", 1998]
    found = answers(messages_api, date, [*good, *other])
    assert found == [pd.Timestamp("1998-03-04")] * len(good) + [None] * len(other)


@pytest.mark.parametrize("kind", [str, int, float, bool, date, list[str], ["yes", "no"]])
def test_words_for_nothing_are_null_and_kept_as_such(messages_api: Any, kind: Any) -> None:
    """N/A and its like say that nothing was found, in a column of any type: missing, no fault, not asked again."""
    words = ["N/A", "not found", "Unknown.", "NULL", "-", " — ", "", "n.a."]
    for _ in range(2):
        assert answers(messages_api, kind, words) == [None] * len(words)
    assert len(messages_api.requests) == len(words)


def test_words_that_are_answers_stay(messages_api: Any) -> None:
    """Symbols and names that look like nothing, choices with such a word, and items that only contain one."""
    words = ["Na", "None", "Nan", "Unknown Pleasures", "0"]
    assert answers(messages_api, str, words) == words
    assert answers(messages_api, ["Known", "Unknown", "N/A"], ["unknown", "n/a", "not found"]) == ["Unknown", "N/A", None]
    assert answers(messages_api, list[str], [["a", "N/A", None, "", "the unknown"]]) == [["a", "the unknown"]]


MIXED = {"name": "{company}?", "size": ("{company}?", int), "born": ("{company}?", date), "head": "{company}?"}


@pytest.mark.parametrize("mode", ["now", "batch"])
def test_what_fits_no_type_or_is_absent_is_told_and_asked_again(
    messages_api: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The row says which values are left out and what the model wrote; the others are kept, a null among them too."""
    monkeypatch.setattr(batch, "FIRST_POLL_S", 0.01)
    monkeypatch.setattr(batch, "MAX_POLL_S", 0.01)
    messages_api.behave(lambda body: record(name="Jo", size="about <b>5</b>\x1b[31m", head=None))
    out = ipy_websearch.enrich(companies("A", "A", "B"), MIXED, mode=mode, **QUIET)
    assert list(out.name) == ["Jo"] * 3 and out["size"].isna().all() and out.born.isna().all()
    assert set(out.enrich_status) == {"ok"}
    left_out = "size is left out: “about 5” is no int; born is left out: the model's record lacks it"
    assert set(out.enrich_error) == {left_out}
    report = out.attrs["report"]
    assert [group["rows"] for group in report["notes"]] == [3, 3] and "3 x size is left out: “about 5”" in str(report)

    messages_api.behave(lambda body: record(size=5, born="2001-02-03"))
    out = ipy_websearch.enrich(companies("A", "A", "B"), MIXED, mode=mode, **QUIET)
    assert list(out["size"]) == [5] * 3 and out.enrich_error.isna().all() and not out.attrs["report"]["notes"]
    asked = messages_api.bodies[-1]["tools"][-1]["input_schema"]["properties"]
    assert list(asked) == ["size", "born"] and len(messages_api.requests) == 4


def test_a_row_whose_values_all_fit_nothing_has_failed(messages_api: Any) -> None:
    """With nothing to show for it, it is an error like others: in the report, and the end of a run that only has such."""
    messages_api.behave(lambda body: record(size="many" if company_in(body) == "A" else 3))
    size = {"size": ("{company}?", int)}
    out = ipy_websearch.enrich(companies("A", "B"), size, **QUIET)
    assert list(out.enrich_status) == ["error", "ok"] and "“many” is no int" in out.enrich_error[0]
    messages_api.behave(lambda body: record(size="many"))
    with pytest.raises(EnrichmentError, match="“many” is no int"):
        ipy_websearch.enrich(companies(*(f"C{n}" for n in range(100))), size, concurrency=1, **QUIET)
    assert len(messages_api.requests) < 30


def test_a_model_that_calls_no_tools_is_told_types_and_choices(messages_api: Any) -> None:
    """It sees no schema; what it writes as text is read or left out with a word, never turned into another value."""
    api.session().settings.retrieve_first = "always"
    kinds = {"staff": int, "share": float, "born": date, "listed": bool, "size": ["big", "small"], "moons": list[str]}
    written = {"staff": "1,234", "share": "12 %", "born": "March 4, 1998", "listed": "yes", "size": "Big", "moons": "one, two"}
    messages_api.reply(json.dumps(written))
    row = ipy_websearch.enrich(companies("A"), {n: ("{company}?", kind) for n, kind in kinds.items()}, **QUIET).iloc[0]
    asked = messages_api.bodies[0]["messages"][0]["content"][0]["text"]
    assert "born: A? (type: date)" in asked and "size: A? (type: one of ['big', 'small'])" in asked
    assert (row.staff, row.listed, row["size"]) == (1234, True, "big") and row[["share", "born", "moons"]].isna().all()
    assert all(f"{name} is left out" in row.enrich_error for name in ("share", "born", "moons"))


# --- the caller's own columns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", ["n", "company", "ceo", "ceo_source", "ceo_quote", "ceo_confidence"])
def test_own_columns_are_never_overwritten(messages_api: Any, own: str) -> None:
    """A column that an enrichment would add, for its values or about them, is refused; nothing is sent."""
    frame = companies("A", "B").assign(**({own: "mine"} if own != "company" else {}))
    with pytest.raises(ConfigError, match=f"already has a column '{own}'.*rename or drop it"):
        ipy_websearch.enrich(frame, {own if "_" not in own else "ceo": "Who leads {company}?"}, **QUIET)
    assert not messages_api.requests


def test_a_frame_is_enriched_again_and_again(messages_api: Any, tmp_path: Path) -> None:
    """Whole, in parts, out of a file: each column stands once. What cannot be told from the caller's own stays."""
    messages_api.behave(echo)
    out = ipy_websearch.enrich(companies("A", "B").assign(n=[1, 2]), CEO, **QUIET)
    out.to_csv(tmp_path / "all.csv", index=False)
    for frame in (out, out.query("n == 1"), pd.read_csv(tmp_path / "all.csv")):
        again = ipy_websearch.enrich(frame, CEO, **QUIET)
        assert sorted(again.columns) == sorted(out.columns) and list(again.ceo) == list(out.ceo[: len(again)])
    with pytest.raises(ConfigError, match="'ceo'.* rename or drop it"):
        ipy_websearch.enrich(out.drop(columns="enrich_cost_usd"), CEO, **QUIET)
    assert len(messages_api.requests) == 2


# --- what goes in -------------------------------------------------------------------------------------------------------


def test_every_kind_of_nan_is_missing(messages_api: Any) -> None:
    """Whoever makes a column of objects may leave any of them in it."""
    kinds = [np.float32("nan"), Decimal("NaN"), np.datetime64("NaT", "s"), pd.NaT, pd.NA, None, complex("nan")]
    frame = companies(*kinds).astype(object)
    assert set(ipy_websearch.enrich(frame, CEO, **QUIET).enrich_status) == {"skipped"} and not messages_api.requests


@given(st.text(), st.text())
def test_templates_put_values_in_once(value: str, other: str) -> None:
    """Braces in a value are text, and escaped braces in the template are braces."""
    assert fill("{{x}} {a} and {b}", {"a": value, "b": other}) == f"{{x}} {value} and {other}"
    assert fields_in("it", "{{x}} {a} and {b c} {a}", ["a", "b c"]) == ("a", "b c")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_fits_or_is_missing(value: Any) -> None:
    """Whatever a model puts into a record, a column gets its type or nothing."""
    kinds = {"s": str, "i": int, "f": float, "b": bool, "d": "date", "l": list}
    for column in parse_columns({name: ("{x}?", kind) for name, kind in kinds.items()}, ["x"]):
        fitted = fit(column, value)
        assert fitted is None or isinstance(fitted, column.kind)
