"""The engine of enrichment: refusals, kills, several kernels, and the corpus filled by the offline model."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ipy_websearch
from ipy_websearch.enrichment.columns import fields_in, fill, fit, normal, parse_columns
from tests.benchmarks import ROOT
from tests.benchmarks.server import BenchmarkServer
from tests.fakes.warm import python

CEO = {"ceo": "Who is the CEO of {company}?"}
RUN = """
import sys, pandas, ipy_websearch
frame = pandas.DataFrame({"company": [f"C{n}" for n in range(int(sys.argv[1]))]})
out = ipy_websearch.enrich(frame, {"ceo": "Who is the CEO of {company}?"}, concurrency=10, progress=False)
print((out.enrich_status == "ok").sum())
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BenchmarkServer]:
    """A server of its own process that fills every record; the environment leads to it."""
    with BenchmarkServer(latency=0.05) as made:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", made.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
        yield made


def kernel(rows: int) -> subprocess.Popen[str]:
    """Start an enrichment in a process of its own."""
    return subprocess.Popen(
        [*python(), "-c", RUN, str(rows)], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )


def test_a_kill_loses_at_most_the_rows_in_flight(server: BenchmarkServer, tmp_path: Path) -> None:
    """`kill -9` at a third, then again: no more than `concurrency` requests were for nothing. What is paid for is kept."""
    process = kernel(150)
    while server.stats()["answered"] < 50:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with closing(sqlite3.connect(tmp_path / "websearch/ledger.sqlite")) as kept:
        paid, stored = "SELECT count(*) FROM ledger WHERE usd > 0", "SELECT count(*) FROM answers WHERE usd > 0"
        rows, booked, answers = kept.execute(f"SELECT (SELECT count(*) FROM ledger), ({paid}), ({stored})").fetchone()
    assert rows == booked == answers > 0
    again = kernel(150)
    assert again.communicate()[0].strip() == "150"
    assert 0 <= server.stats()["requests"] - 150 <= 10


def test_two_kernels_share_a_store_without_harm(server: BenchmarkServer, tmp_path: Path) -> None:
    """Both fill all rows at the same time; the file is sound and has each cell once."""
    both = [kernel(60), kernel(60)]
    assert [process.communicate()[0].strip() for process in both] == ["60", "60"]
    with closing(sqlite3.connect(tmp_path / "websearch/ledger.sqlite")) as kept:
        assert kept.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert kept.execute("SELECT count(*) FROM answers").fetchone() == (60,)


@pytest.mark.parametrize("status", [429, 529])
def test_a_storm_at_the_start_that_names_no_time_loses_no_row(server: BenchmarkServer, status: int) -> None:
    """For a second and a half everybody is refused, with `retry-after: 0` or without: the run goes on, and does not hammer."""
    server.set(storm_until=time.time() + 1.5, storm_status=status, retry_after=0)
    frame = pd.DataFrame({"company": [f"C{n}" for n in range(40)]})
    out = ipy_websearch.enrich(frame, CEO, concurrency=30, progress=False)
    assert set(out.enrich_status) == {"ok"} and server.stats()["requests"] < 40 + 30 * 4


def test_a_ceiling_counts_answers_that_were_lost(server: BenchmarkServer) -> None:
    """The server bills what it has answered, read or not: all of it stays below the ceiling."""
    server.set(broken_every=2, latency=0.01)
    frame = pd.DataFrame({"company": [f"C{n}" for n in range(100)]})
    out = ipy_websearch.enrich(frame, CEO, model="claude-haiku-4-5", max_searches=0, budget_usd=0.1, progress=False)
    answered = int(server.stats()["answered"])
    assert "budget" in set(out.enrich_status) and answered >= 3
    assert answered * (900 * 1 + 60 * 5) / 1_000_000 <= 0.1


def test_a_server_that_always_streams_is_understood(server: BenchmarkServer) -> None:
    """Some servers answer with events whether or not a stream was asked for."""
    server.set(stream=True)
    out = ipy_websearch.enrich(pd.DataFrame({"company": ["A"]}), CEO, progress=False)
    assert out.ceo[0] == "a value of some length" and out.enrich_cost_usd[0] > 0


QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "countries": (
        "country",
        {"capital": "What is the capital of {country}?", "currency": "What is the currency of {country}?"},
    ),
    "elements": (
        "element",
        {
            "symbol": "What is the chemical symbol of {element}?",
            "atomic_number": ("What is the atomic number of {element}?", int),
            "discovered": ("In what year was {element} discovered?", int),
        },
    ),
}


@pytest.mark.parametrize("subject", QUESTIONS)
def test_the_offline_model_fills_the_embedded_corpus(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Countries and elements from the local index: nearly all values are right, and each has its source and quote."""
    monkeypatch.setenv("IPY_WEBSEARCH_PROVIDER", "local")
    truth = json.loads((ROOT / "tests/data/corpus_truth.json").read_text())[subject]
    field, columns = QUESTIONS[subject]
    out = ipy_websearch.enrich(pd.DataFrame({field: list(truth)}), columns, model="offline", progress=False)
    right = total = 0
    for row in out.itertuples():
        for column in columns:
            value, expected = getattr(row, column), truth[getattr(row, field)][column]
            right += pd.isna(value) if expected is None else not pd.isna(value) and bool(value == expected)
            total += 1
            assert pd.isna(value) or getattr(row, f"{column}_source").startswith("corpus://")
            assert pd.isna(value) or getattr(row, f"{column}_quote")
    assert right / total >= 0.97


@given(st.text(), st.text())
def test_templates_put_values_in_once(value: str, other: str) -> None:
    """Braces in a value are text, and escaped braces in the template are braces."""
    assert fill("{{x}} {a} and {b}", {"a": value, "b": other}) == f"{{x}} {value} and {other}"
    assert fields_in("it", "{{x}} {a} and {b c} {a}", ["a", "b c"]) == ("a", "b c")


@given(st.one_of(st.none(), st.text(), st.integers(), st.floats(), st.booleans(), st.datetimes(), st.dates()))
def test_any_cell_becomes_one_line_or_is_missing(value: Any) -> None:
    """The normal form has no line breaks and no blanks around it, and is its own normal form."""
    text = normal(value)
    assert text is None or (text == text.strip() != "" and "\n" not in text and normal(text) == text)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_fits_or_is_missing(value: Any) -> None:
    """Whatever a model puts into a record, a column gets its type or nothing."""
    kinds = {"s": str, "i": int, "f": float, "b": bool, "d": "date", "l": list}
    for column in parse_columns({name: ("{x}?", kind) for name, kind in kinds.items()}, ["x"]):
        fitted = fit(column, value)
        assert fitted is None or isinstance(fitted, column.kind)
