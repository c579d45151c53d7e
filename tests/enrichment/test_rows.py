"""Which rows are asked, what goes in and comes out of them, what is kept: nothing is misread, overwritten or lost."""

import gc
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import ipy_websearch as web
from ipy_websearch import api
from ipy_websearch.enrichment import batch
from ipy_websearch.enrichment.columns import fit, parse_columns
from ipy_websearch.errors import ConfigError
from tests.contract.helpers import CEO, ROW, ROW as QUIET, boss as echo, companies, company_in, record, results_of, search
from tests.fakes.engines import hit
from tests.fakes.replies import error, usage

# --- which rows are asked -----------------------------------------------------------------------------------------------


def test_a_column_whose_inputs_are_there_is_asked_although_others_are_not(messages_api: Any) -> None:
    """A row lacks the value for one question only: the other question is asked."""
    messages_api.reply(record(ceo="Jo"))
    frame, collections = pd.DataFrame({"company": ["A"], "city": [None]}), gc.get_threshold()
    out = web.enrich(frame, {**CEO, "mayor": "Who is the mayor of {city}?"}, **QUIET)
    assert gc.get_threshold() == collections, "Python's garbage collection goes on as it did before"
    assert out.ceo[0] == "Jo" and pd.isna(out.mayor[0]) and "city is missing" in out.enrich_error[0]


def test_a_sample_fills_the_first_rows_only_and_prices_the_rest(messages_api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """sample=2 asks two rows, leaves the others' status missing, and says what all would take."""
    messages_api.behave(lambda body: (echo(body), usage(input_tokens=1_000_000, output_tokens=0)))
    out = web.enrich(companies(*"ABCDE"), CEO, sample=2, max_searches=0)
    assert list(out.enrich_status.isna()) == [False, False, True, True, True] and len(messages_api.requests) == 2
    assert "the 3 other distinct rows would take about 1.50 USD" in capsys.readouterr().out
    messages_api.behave(lambda body: error(400, message="no"))
    web.enrich(companies("F", "G"), CEO, sample=1, max_searches=0)
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
    web.enrich(companies("Acme"), CEO, progress=False)
    assert "About us" in str(results_of(messages_api.bodies[-1])) and public_web.requests == []
    for _ in range(2):  # the second time from the store
        out = web.enrich(companies("Acme"), CEO, read_pages=1, progress=False)
        assert list(out.ceo_source) == [about] and len(messages_api.bodies) == 4
    assert "Ada Byron, who has led it" in str(results_of(messages_api.bodies[-1]))


# --- the store ----------------------------------------------------------------------------------------------------------


def test_a_further_column_is_asked_alone(messages_api: Any) -> None:
    """Values that are there are not asked again because a question is added."""
    messages_api.reply(record(ceo="Jo"))
    messages_api.reply(record(founded=1999))
    out = web.enrich(companies("A"), CEO, **QUIET)
    out = web.enrich(out, {**CEO, "founded": ("In what year was {company} founded?", int)}, **QUIET)
    assert (out.ceo[0], out.founded[0]) == ("Jo", 1999) and list(out.columns).count("ceo") == 1
    assert "CEO" not in messages_api.bodies[1]["messages"][0]["content"][0]["text"]


def test_the_store_is_listed_and_cleared(messages_api: Any, shell: Any) -> None:
    """`%websearch store` lists each question with its cells; `clear` forgets them."""
    messages_api.behave(echo)
    web.enrich(companies(*"AB"), CEO, **QUIET)
    listing = shell.run("%websearch store").value
    assert list(listing.cells) == [2] and listing.question[0] == CEO["ceo"]
    assert "2 values removed" in shell.run("%websearch store clear ceo").stdout
    web.enrich(companies(*"AB"), CEO, **QUIET)
    assert len(messages_api.requests) == 4


def test_what_was_paid_for_is_found_while_another_program_locks_the_file(messages_api: Any) -> None:
    messages_api.behave(echo)
    web.enrich(companies(*"AB"), CEO, **QUIET)
    path = api.session().ledger.path
    api.end_session()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        first, second = (web.enrich(companies(*"ABC"), CEO, **QUIET) for _ in range(2))
        assert list(first.ceo) == list(second.ceo) == ["Boss of A", "Boss of B", "Boss of C"]
        assert "locked" in str(first.attrs["report"]["warnings"])
        assert len(messages_api.requests) == 3 == len(web.cost(everything=True))


# --- failures -----------------------------------------------------------------------------------------------------------


def test_a_server_that_cannot_force_a_call_is_reminded_once(messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text instead of a record: asked once more; text again is the row's error."""
    monkeypatch.setenv("IPY_WEBSEARCH_PLATFORM", "ollama")
    for said in ("It is Jo.", record(ceo="Jo"), "It is Jo.", "As I said: Jo."):
        messages_api.reply(said)
    out = web.enrich(companies(*"AB"), CEO, concurrency=1, **QUIET)
    assert out.ceo[0] == "Jo" and "did not call record" in out.enrich_error[1]
    assert "tool_choice" not in messages_api.bodies[0] and messages_api.bodies[1]["messages"][-1]["role"] == "user"


# --- what a model writes ------------------------------------------------------------------------------------------------

WHOLE = [("1,500", 1500), ("-5", -5), (1.5e3, 1500), (7, 7), (10**400, None), (2**63, None)]
REAL = [("1,234,567.5", 1234567.5), ("1,500", 1500.0), (2.5, 2.5), ("2.000", 2.0), (2**63, float(2**63)), ("9" * 5000, None)]
NO_NUMBERS = ["12,34,567", "1.234.567", "1.234,5", "3,14", "1,5", "0,500", "12,34,5", "about 5", "5 km", True]
NOTHING = ["N/A", "not found", "Unknown.", "NULL", "-", " — ", "", "n.a."]
NAMES = ["Na", "None", "Nan", "Unknown Pleasures", "0"]
VALUES: list[tuple[Any, list[Any], list[Any]]] = [
    (int, [text for text, _ in WHOLE], [number for _, number in WHOLE]),
    (int, [*NO_NUMBERS, 2.5, "2.000"], [None] * 12),
    (float, [text for text, _ in REAL], [number for _, number in REAL]),
    (float, NO_NUMBERS, [None] * 10),
    (date, ["1998-03-04", "1998-03-04T23:00:00Z"], [pd.Timestamp("1998-03-04")] * 2),
    (date, ["03/04/1998", "1998", "March 1998", "1998-03-04 or later", 1998], [None] * 5),
    *((kind, NOTHING, [None] * 8) for kind in (str, int, float, bool, date, list[str], ["yes", "no"])),
    (str, NAMES, NAMES),
    (["Known", "Unknown", "N/A"], ["unknown", "n/a", "not found"], ["Unknown", "N/A", None]),
    (list[str], [["a", "N/A", None, "", "the unknown"]], [["a", "the unknown"]]),
]


@pytest.mark.parametrize(("kind", "written", "kept"), VALUES)
def test_a_value_is_read_in_one_way_or_not_at_all(messages_api: Any, kind: Any, written: list[Any], kept: list[Any]) -> None:
    """Nothing is guessed: a decimal comma is not taken for thousands, and no day for another one. N/A and its like say that
    nothing was found, which is kept; symbols and names that look like nothing are answers, and so are choices."""
    messages_api.behave(lambda body: record(value=written[int(company_in(body).removeprefix("C"))]))
    frame = companies(*(f"C{n}" for n in range(len(written))))
    for _ in range(2 if written is NOTHING else 1):
        out = web.enrich(frame, {"value": ("{company}?", kind)}, **QUIET)
        assert [None if pd.api.types.is_scalar(value) and pd.isna(value) else value for value in out.value] == kept
    assert len(messages_api.requests) == len(written)


MIXED = {"name": "{company}?", "size": ("{company}?", int), "born": ("{company}?", date), "head": "{company}?"}


@pytest.mark.parametrize("mode", ["now", "batch"])
def test_what_fits_no_type_or_is_absent_is_told_and_asked_again(
    messages_api: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The row says which values are left out and what the model wrote; the others are kept, a null among them too."""
    monkeypatch.setattr(batch, "FIRST_POLL_S", 0.01)
    monkeypatch.setattr(batch, "MAX_POLL_S", 0.01)
    messages_api.behave(lambda body: record(name="Jo", size="about <b>5</b>\x1b[31m", head=None))
    out = web.enrich(companies("A", "A", "B"), MIXED, mode=mode, **QUIET)
    assert list(out.name) == ["Jo"] * 3 and out["size"].isna().all() and out.born.isna().all()
    assert set(out.enrich_status) == {"ok"}
    left_out = "size is left out: “about 5” is no int; born is left out: the model's record lacks it"
    assert set(out.enrich_error) == {left_out}
    report = out.attrs["report"]
    assert [group["rows"] for group in report["notes"]] == [3, 3] and "3 x size is left out: “about 5”" in str(report)

    messages_api.behave(lambda body: record(size=5, born="2001-02-03"))
    out = web.enrich(companies("A", "A", "B"), MIXED, mode=mode, **QUIET)
    assert list(out["size"]) == [5] * 3 and out.enrich_error.isna().all() and not out.attrs["report"]["notes"]
    asked = messages_api.bodies[-1]["tools"][-1]["input_schema"]["properties"]
    assert list(asked) == ["size", "born"] and len(messages_api.requests) == 4


def test_a_row_whose_values_all_fit_nothing_has_failed(messages_api: Any) -> None:
    """With nothing to show for it, it is an error like others."""
    messages_api.behave(lambda body: record(size="many" if company_in(body) == "A" else 3))
    out = web.enrich(companies("A", "B"), {"size": ("{company}?", int)}, **QUIET)
    assert list(out.enrich_status) == ["error", "ok"] and "“many” is no int" in out.enrich_error[0]


def test_a_model_that_calls_no_tools_is_told_types_and_choices(messages_api: Any) -> None:
    """It sees no schema; what it writes as text is read or left out with a word, never turned into another value."""
    api.session().settings.retrieve_first = "always"
    kinds = {"staff": int, "share": float, "born": date, "listed": bool, "size": ["big", "small"], "moons": list[str]}
    written = {"staff": "1,234", "share": "12 %", "born": "March 4, 1998", "listed": "yes", "size": "Big", "moons": "one, two"}
    messages_api.reply(json.dumps(written))
    columns = {name: ("{{x}} {company}?", kind) for name, kind in kinds.items()}
    row = web.enrich(companies("A {x}"), columns, **QUIET).iloc[0]
    asked = messages_api.bodies[0]["messages"][0]["content"][0]["text"]
    assert "born: {x} A {x}? (type: date)" in asked and "size: {x} A {x}? (type: one of ['big', 'small'])" in asked
    assert (row.staff, row.listed, row["size"]) == (1234, True, "big") and row[["share", "born", "moons"]].isna().all()
    assert all(f"{name} is left out" in row.enrich_error for name in ("share", "born", "moons"))


# --- the caller's own columns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", ["n", "company", "ceo", "ceo_source", "ceo_quote", "ceo_confidence"])
def test_own_columns_are_never_overwritten(messages_api: Any, own: str) -> None:
    """A column that an enrichment would add, for its values or about them, is refused; nothing is sent."""
    frame = companies("A", "B").assign(**({own: "mine"} if own != "company" else {}))
    with pytest.raises(ConfigError, match=f"already has a column '{own}'.*rename or drop it"):
        web.enrich(frame, {own if "_" not in own else "ceo": "Who leads {company}?"}, **QUIET)
    assert not messages_api.requests


def test_a_frame_is_enriched_again_and_again(messages_api: Any, tmp_path: Path) -> None:
    """Whole, in parts, out of a file: each column stands once. What cannot be told from the caller's own stays."""
    messages_api.behave(echo)
    out = web.enrich(companies("A", "B").assign(n=[1, 2]), CEO, **QUIET)
    out.to_csv(tmp_path / "all.csv", index=False)
    for frame in (out, out.query("n == 1"), pd.read_csv(tmp_path / "all.csv")):
        again = web.enrich(frame, CEO, **QUIET)
        assert sorted(again.columns) == sorted(out.columns) and list(again.ceo) == list(out.ceo[: len(again)])
    with pytest.raises(ConfigError, match="'ceo'.* rename or drop it"):
        web.enrich(out.drop(columns="enrich_cost_usd"), CEO, **QUIET)
    assert len(messages_api.requests) == 2


# --- what goes in -------------------------------------------------------------------------------------------------------


def test_every_kind_of_nan_is_missing(messages_api: Any) -> None:
    """Whoever makes a column of objects may leave any of them in it."""
    kinds = [np.float32("nan"), Decimal("NaN"), np.datetime64("NaT", "s"), pd.NaT, pd.NA, None, complex("nan")]
    frame = companies(*kinds).astype(object)
    assert set(web.enrich(frame, CEO, **QUIET).enrich_status) == {"skipped"} and not messages_api.requests


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_fits_or_is_missing(value: Any) -> None:
    """Whatever a model puts into a record, a column gets its type or nothing."""
    kinds = {"s": str, "i": int, "f": float, "b": bool, "d": "date", "l": list}
    for column in parse_columns({name: ("{x}?", kind) for name, kind in kinds.items()}, ["x"]):
        fitted = fit(column, value)
        assert fitted is None or isinstance(fitted, column.kind)


# --- Frames of every kind: the same kind comes back, with the same rows, nulls and values ----------------------------

ROWS: dict[str, list[Any]] = {"company": ["C", "A", None, "A"], "n": [9007199254740993, None, 3, 4]}
COLUMNS = {
    "ceo": "Who is the CEO of {company}?",
    "founded": ("In what year was {company} founded?", int),
    "share": ("What is the share of {company}?", float),
    "listed": ("Is {company} listed?", bool),
    "day": ("On which day was {company} founded?", date),
    "size": ("How large is {company}?", ["small", "large"]),
    "names": ("Which names has {company}?", list[str]),
}
FOUND = {"ceo": "Jo", "founded": 1999, "share": 0.5, "listed": True, "day": "1999-02-03", "size": "small", "names": ["C", "D"]}
EXPECTED = {name: [value, None, None, None] for name, value in (FOUND | {"day": date(1999, 2, 3)}).items()}


def pandas_frame() -> pd.DataFrame:
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in ROWS.items()})
    return frame.astype({"n": "Int64"}).set_index(pd.Index([7, 7, 3, 1], name="id"))


KINDS: dict[str, Callable[[], Any]] = {
    "pandas": pandas_frame,
    "polars": lambda: pl.DataFrame(ROWS),
    "polars lazy": lambda: pl.LazyFrame(ROWS),
    "pyarrow": lambda: pa.table(ROWS),
    "duckdb": lambda: duckdb.connect().from_arrow(pa.table(ROWS)),
    "dask": lambda: dd.from_pandas(pandas_frame().reset_index(), npartitions=2),
}


def columns_of(frame: Any) -> dict[str, list[Any]]:
    """Return a frame's values as Python's own, None for what is missing."""
    if isinstance(frame, dd.DataFrame | pd.DataFrame):
        frame = frame.compute() if isinstance(frame, dd.DataFrame) else frame
        cells = {name: zip(frame[name], frame[name].isna(), strict=True) for name in frame}
        plain = {name: [None if gone else value for value, gone in pairs] for name, pairs in cells.items()}
    else:
        table = nw.from_native(frame).lazy().collect()
        plain = {name: table[name].to_list() for name in table.columns}
    return {name: [v.date() if isinstance(v, pd.Timestamp) else v for v in values] for name, values in plain.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_frame_comes_back_as_it_was_with_equal_values(kind: str, messages_api: Any) -> None:
    messages_api.behave(lambda body: record(**(FOUND if company_in(body) == "C" else dict.fromkeys(COLUMNS))))
    given = KINDS[kind]()
    out = web.enrich(given, COLUMNS, **ROW)
    assert isinstance(out, type(given)) and len(messages_api.requests) == 2
    got = columns_of(out)
    assert {name: got[name] for name in (*ROWS, *COLUMNS)} == ROWS | EXPECTED
    assert got["enrich_status"] == ["ok", "ok", "skipped", "ok"]
    if kind == "pandas":
        dtypes = ["string", "Int64", "Float64", "boolean", "datetime64[s]", "category", "object"]
        assert out.index.equals(given.index) and [str(out[name].dtype) for name in COLUMNS] == dtypes


def test_what_cannot_be_read_gets_one_line_and_no_frame_the_kinds(messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = pd.DataFrame([["C", 1]], columns=pd.MultiIndex.from_tuples([("company", ""), ("n", "m")]))
    doubled = pa.table([["C"], ["D"]], names=["company", "company"])
    for frame, told in ((levels, "several levels"), (doubled, "'company' 2 times")):
        with pytest.raises(ConfigError, match=told) as faulty:
            web.enrich(frame, COLUMNS, **ROW)
        assert "\n" not in str(faulty.value)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="needs pyarrow: pip install"):
        web.enrich(duckdb.sql("SELECT 'C' AS company"), COLUMNS, **ROW)
    monkeypatch.undo()
    for other in ([{"company": "C"}], pa.table(ROWS).to_batches()[0], None):
        with pytest.raises(
            ConfigError, match=r"DataFrame of pandas, Polars or Dask, a PyArrow table or a DuckDB relation"
        ) as no:
            web.enrich(other, COLUMNS, **ROW)
        assert "\n" not in str(no.value) and type(other).__name__ in str(no.value)
