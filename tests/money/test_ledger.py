"""The ledger: what is booked stays and counts once, whatever happens to the file; every report is the exact sum of its rows."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipy_websearch.money.ledger import BUSY_S, GROUPS, RETRY_S, Kind, Ledger, LedgerRow, Limit, cost_frame
from ipy_websearch.results import Usage
from tests.fakes.money import NOW, Clock, total

CENT = Decimal("0.01")
OLD_FILE = Path(__file__).parents[1] / "data" / "ledger_0_1_0.sqlite"


def row(usd: str | None = "0.01", *, session: str = "s", question: str = "why?", **more: Any) -> LedgerRow:
    """Return a row of a paid search."""
    cost = None if usd is None else Decimal(usd)
    return LedgerRow(NOW, session, "q", question, "search", "brave", cost_usd=cost, **more)


@contextmanager
def locked(path: Path, mode: str) -> Iterator[None]:
    """Hold the file's write lock, as a program does that hangs; in the mode EXCLUSIVE nobody can read it either."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA locking_mode = {mode}")
        connection.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def in_the_way(path: Path, mode: str) -> Iterator[None]:
    """Have a file where the ledger's folder should be, as good as a home that is read-only."""
    path.parent.rmdir()
    path.parent.touch()
    yield
    path.parent.unlink()


# --- rows ---------------------------------------------------------------------------------------------------------------


@given(
    counts=st.lists(st.integers(), min_size=7, max_size=7),
    units=st.decimals(),
    usd=st.decimals(),
    name=st.text(),
)
def test_no_row_is_lost_because_of_what_a_server_said(counts: list[int], units: Decimal, usd: Decimal, name: str) -> None:
    ledger = Ledger(None)
    ledger.book([LedgerRow(NOW, "s", "q", name, "model", name, Usage(*counts), units, cost_usd=usd), row()])
    assert len(cost_frame(ledger)) == 2


def test_rows_cannot_be_changed(tmp_path: Path) -> None:
    Ledger(tmp_path / "l.sqlite").book([row()])
    with closing(sqlite3.connect(tmp_path / "l.sqlite")) as other:
        for statement in ("UPDATE ledger SET usd = 0", "DELETE FROM ledger"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                other.execute(statement)


def test_a_file_of_0_1_0_is_read_once_and_then_flat(tmp_path: Path) -> None:
    """Its rows, sums and unknown prices stay."""
    path = Path(shutil.copy(OLD_FILE, tmp_path / "l.sqlite"))
    for _ in range(2):
        with closing(Ledger(path)) as ledger:
            frame = cost_frame(ledger)
            assert total(ledger) == (Decimal("0.0173"), 1) and total(ledger, session="s1") == (Decimal("0.0173"), 0)
    assert list(frame.name) == ["claude-sonnet-5-5", "brave", "claude-from-the-future", "exa"]
    assert list(frame.units) == [0, 1, 0, 1.5] and list(frame.cache_write_tokens) == [12, 0, 0, 0]
    assert frame.summary is not None and frame.summary.saved_usd == Decimal("0.007")


# --- reservations -------------------------------------------------------------------------------------------------------


def reserve(ledger: Ledger, usd: str, limit: str = "0.10", *, lease_s: float = 60, session: str = "s", id: str = "") -> Any:
    """Reserve under a session's and a day's limit."""
    limits = [Limit("session budget", Decimal(limit), "", "session", session), Limit("day's budget", Decimal(limit), "")]
    return ledger.reserve(session, "q", Decimal(usd), lease_s=lease_s, limits=limits, id=id)


def test_settling_is_one_transaction(tmp_path: Path) -> None:
    """Whoever looks sees the money held or spent, never both and never neither, also when the insert fails."""
    ledger = Ledger(tmp_path / "l.sqlite")
    held = reserve(ledger, "0.06")
    with closing(sqlite3.connect(tmp_path / "l.sqlite")) as other:
        sums = "SELECT (SELECT total(usd) FROM ledger) + (SELECT total(usd) FROM reservations)"
        other.execute("CREATE TRIGGER refuse BEFORE INSERT ON ledger BEGIN SELECT raise(ABORT, 'the disk is full'); END")
        held.settle([row("0.06")])
        assert other.execute(sums).fetchone() == (60_000_000,) and ledger.news()
        other.execute("DROP TRIGGER refuse")
        other.commit()
        assert other.execute("SELECT count(*) FROM reservations").fetchone() == (1,)
    assert total(ledger)[0] == Decimal("0.06")


# --- a file in trouble --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "mode", "before", "within"),
    [(locked, "EXCLUSIVE", "0.02", "0"), (locked, "NORMAL", "0.04", "0.04"), (in_the_way, "", "0", "0")],
    ids=["locked at opening", "locked later", "no folder"],
)
def test_where_nothing_can_be_written_that_is_said_and_rows_wait_until_it_can(
    tmp_path: Path, trouble: Any, mode: str, before: str, within: str
) -> None:
    """They count meanwhile; nothing is reserved, since nobody knows what the others hold."""
    path, clock = tmp_path / "data" / "l.sqlite", Clock()
    path.parent.mkdir()
    ledger = Ledger(path, clock=clock)
    if mode:
        with closing(ledger if mode == "NORMAL" else Ledger(path)) as earlier:
            earlier.book([row(before)])
    with trouble(path, mode):
        with pytest.raises((sqlite3.Error, OSError)):
            reserve(ledger, "0.01")
        ledger.book([row("0.03", usage=Usage(5))])
        (said,) = ledger.news()
        assert f"{path} cannot be written" in said and ledger.news() == []
        assert total(ledger)[0] == Decimal("0.03") + Decimal(within)
    clock.seconds += RETRY_S + BUSY_S
    assert reserve(ledger, "0.01").usd == CENT
    assert total(Ledger(path))[0] == Decimal("0.03") + Decimal(before)


# --- reports ------------------------------------------------------------------------------------------------------------

rows = st.builds(
    LedgerRow,
    time=st.integers(0, 10**6).map(lambda seconds: NOW - timedelta(seconds=seconds)),
    session=st.sampled_from("st"),
    question_id=st.sampled_from("abc"),
    question=st.sampled_from(["why?", "how?"]),
    kind=st.sampled_from(get_args(Kind)),
    name=st.sampled_from(["claude", "brave"]),
    usage=st.builds(Usage, *[st.integers(0, 10**6)] * 7),
    cost_usd=st.none() | st.decimals(0, 10, places=9),
    cached=st.booleans(),
    saved_usd=st.none() | st.decimals(0, 1, places=9),
)


@settings(max_examples=30)
@given(booked=st.lists(rows, max_size=12), seconds=st.integers(0, 10**6), session=st.none() | st.sampled_from("st"))
def test_every_report_is_the_exact_sum_of_its_rows(booked: list[LedgerRow], seconds: int, session: str | None) -> None:
    """For any rows, session and moment: sums, counts, savings and unknown prices, in every grouping."""
    ledger, since = Ledger(None), NOW - timedelta(seconds=seconds)
    ledger.book(booked)
    mine = [row for row in booked if session in (None, row.session) and row.time >= since]
    known = [row.cost_usd for row in mine if row.cost_usd is not None]
    assert total(ledger, session=session, since=since) == (sum(known, Decimal(0)), len(mine) - len(known))
    for by in (None, *GROUPS):
        frame = cost_frame(ledger, session=session, since=since, by=by)
        summary = frame.summary
        assert (
            summary is not None and summary.total_usd == sum(known) and sum(summary.unpriced.values()) == len(mine) - len(known)
        )
        assert summary.saved_usd == sum(row.saved_usd or 0 for row in mine if row.cached)
        assert summary.saved_prompt_usd == sum(row.saved_usd or 0 for row in mine if not row.cached)
        assert frame.input_tokens.sum() == sum(row.usage.input_tokens for row in mine)
        assert frame.cached.sum() == sum(row.cached for row in mine)
        assert len(frame) == len(mine) if by is None else frame.calls.sum() == len(mine)
