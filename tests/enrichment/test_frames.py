"""Frames of every kind: the same kind comes back, with the same rows, nulls and values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from typing import Any

import dask.dataframe as dd
import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ipy_websearch as web
from ipy_websearch.errors import ConfigError
from tests.contract.helpers import ROW, company_in, record

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
    for given in ([{"company": "C"}], pa.table(ROWS).to_batches()[0], None):
        with pytest.raises(
            ConfigError, match=r"DataFrame of pandas, Polars or Dask, a PyArrow table or a DuckDB relation"
        ) as no:
            web.enrich(given, COLUMNS, **ROW)
        assert "\n" not in str(no.value) and type(given).__name__ in str(no.value)
