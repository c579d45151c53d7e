"""The ledger: nothing that was booked is lost, sums are exact, and no file stops a booking."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from textwrap import dedent
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipy_websearch import database, ledger_tables
from ipy_websearch import ledger as ledger_module
from ipy_websearch.errors import ConfigError
from ipy_websearch.ledger import GROUPS, Ledger
from ipy_websearch.ledger_rows import LedgerRow
from ipy_websearch.usage import Usage

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ROOT = str(Path(__file__).parent.parent)
COLUMNS = (
    "time question kind name input_tokens output_tokens cache_read_tokens cache_write_tokens server_searches units unit usd "
    "cached status"
)
SUMS = "calls model_calls searches input_tokens output_tokens cached usd unknown"
SUBPROCESS = """
import sys, time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from ipy_websearch.ledger import Ledger
from ipy_websearch.ledger_rows import LedgerRow
ledger = Ledger(Path(sys.argv[1]))
for n in range(int(sys.argv[2])):
    ledger.book(LedgerRow(datetime.now(UTC), sys.argv[3], f"q{n}", "why?", "search", "brave", cost_usd=Decimal("0.005")))
print("booked", ledger.warnings, flush=True)
time.sleep(float(sys.argv[4]))
"""


def row(**changes: Any) -> LedgerRow:
    """Return a model request of session s1 that cost a cent, with changes."""
    plain: dict[str, Any] = {
        "time": NOON,
        "session": "s1",
        "question_id": "q1",
        "question": "How many moons does Mars have?",
        "kind": "model",
        "name": "claude-sonnet-5-5",
        "usage": Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=50, cache_write_5m_tokens=7),
        "cost_usd": Decimal("0.01"),
    }
    return LedgerRow(**{**plain, **changes})


def search(**changes: Any) -> LedgerRow:
    """Return a search with Brave that cost half a cent, with changes."""
    call = {"kind": "search", "name": "brave", "usage": Usage(), "units": Decimal(1), "unit": "request"}
    return row(**{**call, "cost_usd": Decimal("0.005"), **changes})


def booked(rows: Sequence[LedgerRow]) -> Ledger:
    """Return a ledger in memory with these rows."""
    ledger = Ledger(None)
    for each in rows:
        ledger.book(each)
    return ledger


def start(path: Path, rows: int, session: str, linger: float = 0.0) -> subprocess.Popen[str]:
    """Start a process that books rows and then stays for a while."""
    command = [sys.executable, "-c", SUBPROCESS, str(path), str(rows), session, str(linger)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ROOT}, text=True)


def test_an_entry_comes_back_as_it_was_booked(tmp_path: Path) -> None:
    """One row for each entry, newest last, with the columns and types promised."""
    ledger = Ledger(tmp_path / "data" / "ledger.sqlite")
    ledger.book(row(time=NOON + timedelta(seconds=1, microseconds=5)))
    ledger.book(search(units=Decimal("2.5"), unit="credit", cached=True, status="error", cost_usd=None))
    frame = ledger.frame()
    assert type(frame) is pd.DataFrame and list(frame.columns) == COLUMNS.split()
    assert str(frame["time"].dtype).endswith("UTC]") and isinstance(frame.index, pd.RangeIndex)
    assert list(frame["time"]) == [NOON, NOON + timedelta(seconds=1, microseconds=5)]
    first, last = frame.iloc[0], frame.iloc[1]
    assert (first["kind"], first["name"], first["units"], first["unit"]) == ("search", "brave", 2.5, "credit")
    assert (first["cached"], first["status"]) == (True, "error") and pd.isna(first["usd"])
    assert (last["input_tokens"], last["output_tokens"], last["cache_read_tokens"], last["cache_write_tokens"]) == (
        1000,
        100,
        50,
        7,
    )
    assert last["usd"] == 0.01 and last["question"] == "How many moons does Mars have?"
    assert frame["cached"].dtype == bool and frame["input_tokens"].dtype == "int64" and frame["usd"].dtype == "float64"


def test_an_empty_ledger_has_the_same_columns() -> None:
    """Frames of nothing keep their columns and types."""
    ledger = Ledger(None)
    assert list(ledger.frame().columns) == COLUMNS.split() and len(ledger.frame()) == 0
    for by in GROUPS:
        assert list(ledger.frame(by=by).columns) == [by, *SUMS.split()]
    assert ledger.total() == (Decimal(0), 0)


ROWS = [
    row(),
    search(),
    search(cached=True, cost_usd=Decimal(0), saved_usd=Decimal("0.005")),
    row(usage=Usage(input_tokens=1, server_searches=2), name="claude-haiku-5-5", cost_usd=Decimal("0.02")),
    row(question_id="q2", question="Why?", name="claude-mythos-5-1", cost_usd=None, time=NOON + timedelta(days=1)),
    search(question_id="q3", question="Why?", name="exa", kind="fetch", session="s2", notebook="b.ipynb"),
]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("question", [("How many moons does Mars have?", 4, 2, 4, 0.035, 0), ("Why?", 2, 1, 0, 0.005, 1)]),
        (
            "model",
            [
                ("claude-haiku-5-5", 1, 1, 2, 0.02, 0),
                ("(engines)", 3, 0, 2, 0.01, 0),
                ("claude-sonnet-5-5", 1, 1, 0, 0.01, 0),
                ("claude-mythos-5-1",),
            ],
        ),
        ("provider", [("(models)", 3, 3, 2, 0.03, 1), ("brave", 2, 0, 2, 0.005, 0), ("exa", 1, 0, 0, 0.005, 0)]),
        ("engine", [("(models)", 3, 3, 2, 0.03, 1), ("brave", 2, 0, 2, 0.005, 0), ("exa", 1, 0, 0, 0.005, 0)]),
        ("kind", [("model", 3, 3, 2, 0.03, 1), ("search", 2, 0, 2, 0.005, 0), ("fetch", 1, 0, 0, 0.005, 0)]),
        ("day", [("2026-11-20", 5, 2, 4, 0.04, 0), ("2026-11-21", 1, 1, 0, None, 1)]),
        ("notebook", [("", 5, 3, 4, 0.035, 1), ("b.ipynb", 1, 0, 0, 0.005, 0)]),
        ("session", [("s1", 5, 3, 4, 0.035, 1), ("s2", 1, 0, 0, 0.005, 0)]),
    ],
)
def test_groups_sum_up_their_entries(by: Any, expected: list[tuple[Any, ...]]) -> None:
    """Each group appears once with its calls and money; where no price is known, usd is NaN and the rows are counted."""
    frame = booked(ROWS).frame(by=by)
    assert list(frame.columns) == [by, *SUMS.split()] and isinstance(frame.index, pd.RangeIndex)
    found = frame[[by, "calls", "model_calls", "searches", "usd", "unknown"]].itertuples(index=False, name=None)
    for (group, *numbers), (name, *wanted) in zip(found, expected, strict=True):
        assert str(group).startswith(name) if by == "day" else group == name
        if wanted and wanted[3] is None:
            assert pd.isna(numbers.pop(3)) and wanted.pop(3) is None
        assert not wanted or numbers == pytest.approx(wanted)
    assert frame["unknown"].sum() == 1 and frame["usd"].sum() == pytest.approx(0.04)


def test_a_group_that_does_not_exist_is_refused() -> None:
    """The message names what there is."""
    with pytest.raises(ConfigError, match="did you mean 'question'"):
        Ledger(None).frame(by="questions")  # type: ignore[arg-type]


def test_totals_and_frames_can_be_narrowed() -> None:
    """By session, question and moment, each to the entry; a moment inside a day or a question cuts it there."""
    ledger = booked(ROWS)
    assert ledger.total() == (Decimal("0.04"), 1)
    assert ledger.total("s2") == (Decimal("0.005"), 0)
    assert ledger.total(question_id="q1") == (Decimal("0.035"), 0)
    assert ledger.total("s2", question_id="q1") == (Decimal(0), 0)
    assert ledger.total("nobody") == (Decimal(0), 0)
    assert ledger.saved("s1") == Decimal("0.005")
    ledger.book(row(time=NOON + timedelta(hours=2), cost_usd=Decimal("0.5")))
    later = NOON + timedelta(hours=1)
    assert ledger.total(since=later) == (Decimal("0.5"), 1)
    assert ledger.total(since=later, question_id="q1") == (Decimal("0.5"), 0)
    assert ledger.total(since=later.replace(tzinfo=None)) == (Decimal("0.5"), 1)
    assert list(ledger.frame(since=later, by="question")["calls"]) == [1, 1]
    assert ledger.frame(since=later, by="model")["usd"].sum() == 0.5
    assert len(ledger.frame(since=later)) == 2
    assert len(ledger.frame(session="s2")) == 1 and len(ledger.frame(session="s2", by="kind")) == 1


entries_strategy = st.lists(
    st.builds(
        row,
        time=st.integers(0, 3 * 86_400).map(lambda s: NOON + timedelta(seconds=s)),
        session=st.sampled_from(["s1", "s2"]),
        question_id=st.sampled_from(["a", "b", "c"]),
        question=st.sampled_from(["why?", "how?"]),
        name=st.sampled_from(["m1", "m2"]),
        kind=st.sampled_from(["model", "search"]),
        notebook=st.sampled_from(["", "n"]),
        cost_usd=st.none() | st.integers(0, 10**10).map(lambda n: Decimal(n).scaleb(-9)),
        usage=st.builds(Usage, st.integers(0, 9), st.integers(0, 9), server_searches=st.integers(0, 3)),
        cached=st.booleans(),
    ),
    max_size=25,
)


@settings(max_examples=25)
@given(rows=entries_strategy, seconds=st.integers(-1, 3 * 86_400), session=st.sampled_from([None, "s1"]))
def test_every_report_is_the_exact_sum_of_its_entries(rows: list[LedgerRow], seconds: int, session: str | None) -> None:
    """Whatever is booked, and wherever a report is cut, the kept sums agree with adding up the entries."""
    ledger, since = booked(rows), NOON + timedelta(seconds=seconds)
    for start_at in (None, since):
        kept = [r for r in rows if (start_at is None or r.time >= start_at) and session in (None, r.session)]
        known = sum((r.cost_usd for r in kept if r.cost_usd is not None), Decimal(0))
        unknown = sum(r.cost_usd is None for r in kept)
        assert ledger.total(session, start_at) == (known, unknown)
        assert len(ledger.frame(session=session, since=start_at)) == len(kept)
        for by in GROUPS:
            frame = ledger.frame(session=session, since=start_at, by=by)  # type: ignore[arg-type]
            assert not frame[by].duplicated().any()
            assert frame["calls"].sum() == len(kept) and frame["unknown"].sum() == unknown
            assert frame["usd"].sum() == pytest.approx(float(known))
            assert frame["output_tokens"].sum() == sum(r.usage.output_tokens for r in kept)
            assert frame["cached"].sum() == sum(r.cached for r in kept)
            searches = sum((r.kind == "search") + r.usage.server_searches for r in kept)
            assert frame["searches"].sum() == searches


def test_money_is_exact_to_the_nano_dollar() -> None:
    """A hundred thousandths of a cent add up without the noise of floats; half a cached token counts."""
    ledger = Ledger(None)
    ledger.book_all(row(cost_usd=Decimal("0.000000005")) for _ in range(1000))
    ledger.book_all(row(cost_usd=Decimal("0.1")) for _ in range(3))
    assert ledger.total() == (Decimal("0.300005"), 0)


def test_questions_are_short_and_without_keys() -> None:
    """The key is taken out before the question is cut to 200 characters, control characters are dropped."""
    ledger = Ledger(None, redact=lambda text: text.replace("sk-secret", "[key]"))
    ledger.book(row(question="x" * 190 + " \x1b[31msk-secret and\nmore " + "y" * 100, notebook="sk-secret.ipynb"))
    question = ledger.frame()["question"][0]
    assert len(question) <= 200 and "sk-" not in question and "\x1b" not in question and "[key]" in question
    assert ledger.frame(by="notebook")["notebook"][0] == "[key].ipynb"


def test_rows_cannot_be_changed(tmp_path: Path) -> None:
    """The file itself refuses updates and deletions."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.book(row())
    other = sqlite3.connect(tmp_path / "ledger.sqlite")
    for statement in ("UPDATE entries SET usd = 0", "DELETE FROM entries"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            other.execute(statement)
    other.close()
    assert ledger.total() == (Decimal("0.01"), 0)


def test_a_booked_row_survives_kill_minus_nine(tmp_path: Path) -> None:
    """What was booked when the process is killed is there, and the file is sound."""
    path = tmp_path / "ledger.sqlite"
    kernel = start(path, 25, "doomed", linger=60)
    assert kernel.stdout is not None and kernel.stdout.readline() == "booked []\n"
    kernel.send_signal(signal.SIGKILL)
    kernel.communicate()
    ledger = Ledger(path)
    assert ledger.total("doomed") == (Decimal("0.125"), 0) and ledger.warnings == []
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()


def test_several_kernels_book_at_once(tmp_path: Path) -> None:
    """Four processes that open one new file together lose no row and see no error."""
    path = tmp_path / "fresh" / "ledger.sqlite"
    kernels = [start(path, 100, f"s{n % 2}") for n in range(4)]
    assert [kernel.communicate(timeout=60)[0] for kernel in kernels] == ["booked []\n"] * 4
    ledger = Ledger(path)
    assert ledger.total() == (Decimal(2), 0) and ledger.total("s0") == (Decimal(1), 0)
    assert len(ledger.frame()) == 400 and list(ledger.frame(by="session")["calls"]) == [200, 200]


@pytest.mark.parametrize("content", [b"no database " * 100, b"SQLite format 3\0" + b"\x07" * 5000])
def test_a_broken_ledger_is_moved_aside(tmp_path: Path, content: bytes) -> None:
    """The file is kept under another name, a line says so, and booking goes on in a new one."""
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(content)
    ledger = Ledger(path)
    ledger.book(row())
    (kept,) = tmp_path.glob("ledger.sqlite.broken-*[0-9Z]")
    assert kept.read_bytes() == content and kept.name in ledger.warnings[0] and len(ledger.warnings) == 1
    assert ledger.path == path and Ledger(path).total() == (Decimal("0.01"), 0)


def test_where_nothing_can_be_written_the_ledger_is_in_memory(tmp_path: Path) -> None:
    """The session still counts; the warning says that it ends with the kernel."""
    (tmp_path / "file").write_text("not a folder")
    ledger = Ledger(tmp_path / "file" / "ledger.sqlite")
    ledger.book(row())
    assert ledger.total("s1") == (Decimal("0.01"), 0) and ledger.path is None
    assert len(ledger.warnings) == 1 and "memory" in ledger.warnings[0]


def test_a_file_that_cannot_be_written_for_a_while_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another program holds the file, rows are counted in memory; once it lets go, they are written."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    monkeypatch.setattr(ledger_module, "RETRY_S", 0.0)
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.book(row())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ledger.book(search())
    ledger.book(search(question="another"))
    assert ledger.total() == (Decimal("0.02"), 0) and len(ledger.frame()) == 3
    assert list(ledger.frame(by="question")["calls"]) == [2, 1]
    assert len(ledger.warnings) == 1 and "locked" in ledger.warnings[0]
    other.execute("ROLLBACK")
    other.close()
    ledger.book(row())
    assert ledger.total() == (Decimal("0.03"), 0) == Ledger(path).total()


def test_an_older_file_is_migrated_and_a_newer_one_still_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each migration runs once and keeps every row; a release that does not know the newest form books all the same."""
    path = tmp_path / "ledger.sqlite"
    old = Ledger(path)
    old.book(row())
    old.close()
    newer = (*ledger_tables.MIGRATIONS, ("ALTER TABLE entries ADD COLUMN note TEXT",))
    with monkeypatch.context() as patch:
        patch.setattr(ledger_tables, "MIGRATIONS", newer)
        for _ in range(2):
            ledger = Ledger(path)
            ledger.book(row())
            ledger.close()
    old.book(row())
    assert old.total() == (Decimal("0.04"), 0) and old.warnings == []
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA user_version").fetchone() == (len(newer),)
    assert "note" in [column[1] for column in check.execute("PRAGMA table_info(entries)")]
    check.close()


def test_only_its_owner_may_read_the_ledger(tmp_path: Path) -> None:
    """It holds what was asked."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.book(row())
    modes = {file.stat().st_mode & 0o077 for file in tmp_path.glob("ledger.sqlite*")}
    assert modes == {0} or os.name == "nt"


def test_constructing_costs_nothing(tmp_path: Path) -> None:
    """No file is made before the first use."""
    Ledger(tmp_path / "deep" / "ledger.sqlite")
    assert not (tmp_path / "deep").exists()


def test_booking_and_reporting_are_quick_and_rows_small(tmp_path: Path) -> None:
    """A row takes under 0.3 ms and 300 bytes; a report does not read the entries one by one."""
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    laps = []
    for n in range(300):
        started = time.perf_counter()
        ledger.book(row(question_id=f"q{n // 4}"))
        laps.append(time.perf_counter() - started)
    assert sorted(laps)[150] < 0.3e-3
    ledger.book_all(
        row(session=f"s{n // 2000}", question_id=f"{n // 4:032x}", question=f"Question {n // 4}?") for n in range(40_000)
    )
    for by in GROUPS:
        started = time.perf_counter()
        ledger.frame(by=by)
        assert time.perf_counter() - started < 0.5
    ledger.close()
    assert path.stat().st_size / 40_300 < 300


# --- rows that wait a moment ------------------------------------------------------------------------------------------


def test_rows_that_wait_are_written_together_and_soon(tmp_path: Path) -> None:
    """After a quarter of a second they are in the file, all of them, without anybody asking for it."""
    path = tmp_path / "ledger.sqlite"

    async def held() -> list[int]:
        ledger, other = Ledger(path), Ledger(path)
        for n in range(3):
            ledger.hold(row(question_id=f"q{n}"))
        seen = [len(other.frame())]
        await asyncio.sleep(ledger_module.HELD_S + 0.1)
        return [*seen, len(other.frame())]

    assert asyncio.run(held()) == [0, 3]


def test_rows_that_wait_count_already_for_who_reads_here(tmp_path: Path) -> None:
    """Sums, frames and the end of the ledger leave none behind."""
    path = tmp_path / "ledger.sqlite"

    async def held() -> list[Any]:
        ledger = Ledger(path)
        ledger.hold(row())
        seen = [ledger.total()[0]]
        ledger.hold(row())
        ledger.close()
        return [*seen, Ledger(path).total()[0]]

    assert asyncio.run(held()) == [Decimal("0.01"), Decimal("0.02")]


def test_a_row_does_not_wait_where_no_event_loop_runs(tmp_path: Path) -> None:
    """An interrupt is booked outside of it."""
    Ledger(tmp_path / "ledger.sqlite").hold(row())
    assert len(Ledger(tmp_path / "ledger.sqlite").frame()) == 1


def test_a_thread_that_writes_while_python_ends_is_waited_for(tmp_path: Path) -> None:
    """A connection that is closed under it would crash the process, after everything was paid for."""
    script = """
        import sys, threading, time
        from pathlib import Path
        from ipy_websearch.database import Database

        begun = threading.Event()
        made = lambda connection: connection.execute("CREATE TABLE IF NOT EXISTS t (n)")
        database = Database(Path(sys.argv[1]), application_id=7, prepare=made, purpose="test")

        def write(connection):
            begun.set()
            for n in range(20):
                time.sleep(0.02)
                connection.executemany("INSERT INTO t VALUES (?)", [(n,)] * 100)

        threading.Thread(target=database.write, args=(write,), daemon=True).start()
        begun.wait()
    """
    path = tmp_path / "threads.sqlite"
    ended = subprocess.run([sys.executable, "-c", dedent(script), str(path)], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sqlite3.connect(path).execute("SELECT COUNT(*) FROM t").fetchone() == (2_000,)


ODD_COUNTS = st.integers() | st.sampled_from([2**53 - 1, 2**53 + 1, 2**63, 10**25, -1, True])
ODD_AMOUNTS = st.decimals(allow_nan=True, allow_infinity=True) | st.sampled_from(
    [Decimal("9e15"), Decimal("-1e30"), Decimal("1E+999999"), Decimal("1E-999999"), Decimal("sNaN"), Decimal("Infinity")]
)


@given(counts=st.lists(ODD_COUNTS, min_size=7, max_size=7), units=ODD_AMOUNTS, usd=ODD_AMOUNTS, name=st.text() | st.none())
def test_no_row_is_lost_because_of_what_another_one_holds(counts: list[int], units: Decimal, usd: Decimal, name: Any) -> None:
    """Whatever a server made up: absurd counts are cut, absurd money is unknown, and reports can still sum it all up."""
    ledger = Ledger(None)
    odd = search(usage=Usage(*counts), units=units, cost_usd=usd, saved_usd=usd, name=name, question="lone \udcff surrogate")
    ledger.book_all([row(), odd, odd, row()])
    frame = ledger.frame()
    assert len(frame) == 4 and ledger.total()[0] >= Decimal("-0.02") - 2 * Decimal(2**53) / 10**9
    for by in ("model", "day", "question"):
        assert ledger.frame(by=by)["calls"].sum() == 4
    ledger.close()


@pytest.mark.parametrize("count", [2**53 + 1, 2**63, 10**25])
def test_an_absurd_count_is_cut_and_money_that_does_not_fit_is_unknown(count: int) -> None:
    """Not zero, and not a lie."""
    ledger = booked([row(usage=Usage(output_tokens=count), cost_usd=Decimal(count)), row()])
    frame = ledger.frame()
    assert list(frame["output_tokens"]) == [2**53, 100] or list(frame["output_tokens"]) == [100, 2**53]
    assert ledger.total() == (Decimal("0.01"), 1) and frame["usd"].isna().sum() == 1
