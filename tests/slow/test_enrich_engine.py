"""The engine of enrichment against a server of its own process: kills, and answers that are lost."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import ipy_websearch
from tests.benchmarks.server import BenchmarkServer
from tests.contract.helpers import CEO, companies, run, start

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


def test_a_kill_loses_at_most_the_rows_in_flight(server: BenchmarkServer, tmp_path: Path) -> None:
    """`kill -9` at a third, then again: no more than `concurrency` requests were for nothing. What is paid for is kept."""
    process = start(RUN, "150")
    while server.stats()["answered"] < 50:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    with closing(sqlite3.connect(tmp_path / "websearch/ledger.sqlite")) as kept:
        paid, stored = "SELECT count(*) FROM ledger WHERE usd > 0", "SELECT count(*) FROM answers WHERE usd > 0"
        rows, booked, answers = kept.execute(f"SELECT (SELECT count(*) FROM ledger), ({paid}), ({stored})").fetchone()
    assert rows == booked == answers > 0
    assert run(RUN, "150").stdout.strip() == "150"
    assert 0 <= server.stats()["requests"] - 150 <= 10


def test_a_ceiling_counts_answers_that_were_lost(server: BenchmarkServer) -> None:
    """The server bills what it has answered, read or not: all of it stays below the ceiling."""
    server.set(broken_every=2, latency=0.01)
    frame = companies(*(f"C{n}" for n in range(100)))
    out = ipy_websearch.enrich(frame, CEO, model="claude-haiku-4-5", max_searches=0, budget_usd=0.1, progress=False)
    answered = int(server.stats()["answered"])
    assert "budget" in set(out.enrich_status) and answered >= 3
    assert answered * (900 * 1 + 60 * 5) / 1_000_000 <= 0.1
