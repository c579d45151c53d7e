"""The day's ceiling over several processes: together they never pass it, nearly all of it can be spent, no crash blocks it."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch import database, ledger_day
from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.ledger_rows import LedgerRow
from ipy_websearch.session import Session
from ipy_websearch.settings import data_dir
from tests.fakes.notebook import subprocess_environment
from tests.fakes.replies import delay, tool_use, usage
from tests.test_ceilings import SEARCH, greedy, served
from tests.test_enrich import echo

KERNEL = """
import asyncio, sys
from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.session import Session
session, name, calls = Session(), sys.argv[1], int(sys.argv[2])
async def call(n):
    try:
        await {call}
    except BudgetExceededError:
        return 0
    return 1
async def all_of_them():
    return sum(await asyncio.gather(*(call(n) for n in range(calls))))
print("ready", flush=True)
sys.stdin.readline()
print(asyncio.run(all_of_them()), flush=True)
sys.stdin.readline()
"""
SEARCHES = KERNEL.format(call='session.search(f"{name} {n}", provider="brave")')
QUESTIONS = KERNEL.format(call='session.ask(f"{name} {n}?", provider="brave")')
ROWS = """
import asyncio, sys
import pandas as pd
from ipy_websearch.session import Session
frame = pd.DataFrame({"company": [f"{sys.argv[1]} {n}" for n in range(int(sys.argv[2]))]})
print("ready", flush=True)
sys.stdin.readline()
out = asyncio.run(Session().enrich(frame, {"ceo": "Who is the CEO of {company}?"}, max_searches=0, progress=False))
print((out.enrich_status == "ok").sum(), flush=True)
sys.stdin.readline()
"""


@contextmanager
def kernels(code: str, calls: int, limit: str, *, number: int = 3) -> Iterator[list[subprocess.Popen[str]]]:
    """Start processes with one home and one day budget, ready to begin when a line is written to them."""
    env = subprocess_environment({"IPY_WEBSEARCH_DAY_BUDGET_USD": limit})
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, "-c", code, f"k{n}", str(calls)], env=env, **pipes) for n in range(number)]
    try:
        assert [kernel.stdout.readline() for kernel in started] == ["ready\n"] * number
        yield started
    finally:
        for kernel in started:
            kernel.kill()
            kernel.communicate()


def go_on(started: list[subprocess.Popen[str]]) -> None:
    """Let all of them take their next step."""
    for kernel in started:
        print(file=kernel.stdin, flush=True)


def search(session: Session, query: str) -> Any:
    """Search with Brave, for half a cent."""
    return asyncio.run(session.search(query, provider="brave"))


def held() -> list[tuple[Any, ...]]:
    """Return the lines in the file."""
    with closing(sqlite3.connect(data_dir() / "ledger.sqlite")) as connection:
        return connection.execute("SELECT * FROM holds").fetchall()


def room(session: Session) -> Decimal:
    """Return what the day has left, as another kernel sees it that has just looked."""
    session.budgets.day._looked_at = -1.0  # type: ignore[attr-defined]
    left = session.budgets.room()
    assert left is not None
    return left


# --- real processes -------------------------------------------------------------------------------------------------


def test_three_kernels_search_under_one_ceiling_and_use_it_up(brave_api: Any) -> None:
    """Of 36 searches in three processes at once, exactly the twenty that ten cents pay are sent."""
    brave_api.latency_s = 0.02
    with kernels(SEARCHES, 12, "0.1") as started:
        go_on(started)
        assert sum(int(kernel.stdout.readline()) for kernel in started) == 20  # type: ignore[union-attr]
    assert len(brave_api.requests) == 20
    assert Session().ledger.total() == (Decimal("0.1"), 0) and held() == []


def test_kernels_that_ask_at_once_stay_under_one_ceiling(messages_api: Any, brave_api: Any) -> None:
    """Questions of two processes that use every token and search they may: what was served stays below, and is booked."""
    messages_api.behave(greedy)
    with kernels(QUESTIONS, 10, "0.4", number=2) as started:
        go_on(started)
        assert sum(int(kernel.stdout.readline()) for kernel in started) > 0  # type: ignore[union-attr]
    assert Decimal("0.25") < served(messages_api, brave_api) <= Decimal("0.4")
    assert Session().ledger.total() == (served(messages_api, brave_api), 0) and held() == []


def test_three_kernels_enrich_under_one_ceiling_and_use_most_of_it(messages_api: Any) -> None:
    """Rows of three processes, each reserved at its worst, which is several times what it costs."""
    messages_api.behave(lambda body: (echo(body), usage(input_tokens=500, output_tokens=40), delay(0.01)))
    with kernels(ROWS, 40, "0.006") as started:
        go_on(started)
        filled = [int(kernel.stdout.readline()) for kernel in started]  # type: ignore[union-attr]
    assert 0 < sum(filled) < 120 and len(messages_api.bodies) == sum(filled)
    assert Decimal("0.004") < Session().ledger.total()[0] <= Decimal("0.006") and held() == []


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a line is let go when it was silent")
def test_what_a_killed_kernel_held_is_let_go(brave_api: Any, session: Any) -> None:
    """While it lives, what it has under way counts for the others; after `kill -9` it does not, nor before it is reaped."""
    brave_api.latency_s = 30.0
    session.settings.day_budget_usd = 0.1
    with kernels(SEARCHES, 20, "0.1", number=1) as (kernel,):
        go_on([kernel])
        brave_api.wait(lambda api: len(api.requests) == 20)
        with pytest.raises(BudgetExceededError, match=r"the day's budget of 0.1 USD has 0.0000 USD left"):
            search(session, "mine")
        assert len(held()) == 1
        brave_api.latency_s = 0.0
        kernel.send_signal(signal.SIGKILL)
        if sys.platform.startswith("linux"):  # it has ended, and nobody has asked for its end yet
            os.waitid(os.P_PID, kernel.pid, os.WEXITED | os.WNOWAIT)
        else:
            kernel.wait()
        assert search(session, "mine")
    assert room(session) == Decimal("0.095")
    session.ledger.close()
    another = Session()
    another.settings.day_budget_usd = 0.1
    assert room(another) == Decimal("0.095") and held() == []


# --- each amount counts once -------------------------------------------------------------------------------------------


def test_money_counts_once_on_its_way_into_the_ledger(session: Any) -> None:
    """Reserved, spent, waiting for its row, written: for another session the room is the same at each step."""
    another = Session()
    for each in (session, another):
        each.settings.day_budget_usd = 1.0
    day, row = session.budgets.ceilings()[2], LedgerRow(datetime.now(UTC), session.id, "q", "why?", "search", "brave")
    steps = [
        lambda: day.reserve(Decimal("0.3")),
        lambda: day.settle(Decimal("0.3"), Decimal("0.3")),
        lambda: session.ledger.keep([LedgerRow(row.time, row.session, "q", "", "search", "exa", cost_usd=Decimal("0.1"))]),
        lambda: session.ledger.keep([LedgerRow(row.time, row.session, "q", "", "search", "exa", cost_usd=Decimal("0.2"))]),
        session.ledger.write_held,
    ]
    assert room(another) == 1
    for step in steps:
        step()
        assert room(another) == room(session) == Decimal("0.7")
    assert held() == []
    session.ledger.book(LedgerRow(row.time, "x", "q", "", "search", "exa", cost_usd=Decimal("0.1")))  # passed no ceiling
    assert day.reserve(Decimal("0.6")) and not another.budgets.ceilings()[2].reserve(Decimal("0.001"))


def test_a_booking_that_fails_leaves_the_money_on_the_line(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the file is locked nothing stops and the ledger says so once; then the row is written and counts once."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    another = Session()
    for each in (session, another):
        each.settings.day_budget_usd = 1.0
    day = session.budgets.ceilings()[2]
    assert day.reserve(Decimal("0.3"))
    row = LedgerRow(datetime.now(UTC), session.id, "q", "", "search", "exa", cost_usd=Decimal("0.3"))
    with closing(sqlite3.connect(data_dir() / "ledger.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert day.reserve(Decimal("0.2")) and not day.reserve(Decimal("0.6"))
        day.settle(Decimal("0.5"), Decimal("0.3"))
        session.ledger.book(row)
        assert room(session) == Decimal("0.7")
        other.execute("ROLLBACK")
    (warning,) = session.ledger.warnings
    assert "a day's budget counts this kernel alone" in warning
    session.ledger._retry_at = 0.0
    session.ledger.book(LedgerRow(row.time, session.id, "q", "", "search", "exa", cost_usd=Decimal("0.1")))
    assert session.ledger.total()[0] == Decimal("0.4") and room(another) == Decimal("0.6") == room(session)
    assert held() == []


def test_the_next_day_has_its_whole_ceiling_again(brave_api: Any, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was spent before midnight is yesterday's; what is under way then still counts, and so does what comes after."""
    session.settings.day_budget_usd = 0.01
    another = Session()
    another.settings.day_budget_usd = 0.01
    assert search(session, "one") and another.budgets.ceilings()[2].reserve(SEARCH)
    with pytest.raises(BudgetExceededError):
        search(session, "two")
    later = datetime.now(UTC).date() + timedelta(days=2)
    monkeypatch.setattr(ledger_day, "utc_today", lambda: later)
    assert room(session) == SEARCH
    another.budgets.day.settle(SEARCH, Decimal(0))
    assert room(session) == room(another) == 2 * SEARCH
    noon = datetime.combine(later, datetime.min.time(), UTC) + timedelta(hours=12)
    another.ledger.book(LedgerRow(noon, another.id, "q", "", "search", "exa", cost_usd=SEARCH))
    assert room(session) == SEARCH


def test_a_silent_line_of_another_machine_is_let_go_in_time(brave_api: Any, session: Any) -> None:
    """Whether its process lives cannot be known here: it counts for twenty minutes after its last word."""
    session.settings.day_budget_usd = 0.01
    search(session, "one")
    with closing(sqlite3.connect(data_dir() / "ledger.sqlite", isolation_level=None)) as other:
        values = ("x", "elsewhere", 1, "1", int(datetime.now(UTC).timestamp()), 5_000_000, 0)
        other.execute("INSERT INTO holds (id, host, pid, started, seen, reserved, spent) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        with pytest.raises(BudgetExceededError):
            search(session, "two")
        other.execute("UPDATE holds SET seen = seen - ?", (ledger_day.LET_GO_S + 2,))
    assert search(session, "two")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="here it is not known when a process started")
def test_a_number_given_to_another_process_holds_nothing(session: Any) -> None:
    """A line whose process has ended does not come to life when its number is given out again."""
    session.settings.day_budget_usd = 0.01
    another = Session()
    another.settings.day_budget_usd = 0.01
    assert another.budgets.ceilings()[2].reserve(SEARCH) and room(session) == SEARCH
    with closing(sqlite3.connect(data_dir() / "ledger.sqlite", isolation_level=None)) as other:
        other.execute("UPDATE holds SET started = '7'")
    assert room(session) == 2 * SEARCH


# --- without one, and without a file ----------------------------------------------------------------------------------


def test_without_a_ceiling_nothing_is_written_and_taking_it_away_ends_that(brave_api: Any, session: Any) -> None:
    """No line and no hook in the ledger's transactions, before a day's budget is set and after it was taken away."""
    for limit in (None, 0.01, None):
        session.settings.day_budget_usd = limit
        search(session, f"under {limit}")
        assert (session.ledger.on_write is None) == (limit is None) and held() == []
    session.settings.day_budget_usd = 0.02
    day = session.budgets.ceilings()[2]
    assert day.reserve(SEARCH) and len(held()) == 1
    session.settings.day_budget_usd = None
    assert session.budgets.room() is None and held() == [] and session.ledger.on_write is None


def test_a_home_that_cannot_be_written_has_a_ceiling_of_its_own(
    brave_api: Any, session: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The ledger is in memory then, says so, and the kernel is held to the day's budget by itself."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("IPY_WEBSEARCH_HOME", str(tmp_path / "file" / "home"))
    session.settings.day_budget_usd = 0.01
    assert search(session, "one") and search(session, "two")
    with pytest.raises(BudgetExceededError, match="day's budget"):
        search(session, "three")
    assert len(brave_api.requests) == 2 and len(session.ledger.warnings) == 1


def test_a_replay_takes_nothing_from_the_day(messages_api: Any, brave_api: Any, session: Any, tmp_path: Path) -> None:
    """Replayed questions count on a copy: no other kernel sees them, and afterwards the day is as it was."""
    session.settings.day_budget_usd = 1.0
    messages_api.reply(tool_use("web_search", {"query": "mars moons"}))
    messages_api.reply("Two.", usage(output_tokens=300))
    with session.record(tmp_path / "one.cassette"):
        asyncio.run(session.ask("how many moons?", provider="brave"))
    another = Session()
    another.settings.day_budget_usd = 1.0
    left = room(another)
    assert left < 1
    with session.replay(tmp_path / "one.cassette", instant=True):
        asyncio.run(session.ask("how many moons?", provider="brave"))
        assert room(another) == left and held() == []
    assert room(session) == left
