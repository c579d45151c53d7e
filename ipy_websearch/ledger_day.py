"""What a day has cost so far, and how much of the rest other kernels hold; read in one snapshot of the ledger's file.

A kernel under a day's ceiling has a line in `holds` while it holds anything: what it has reserved, and what it has spent whose
rows are not written yet. The invariant: money is in the rows or in one line, never in both, since a line changes in the same
transaction as the rows (`day_ceiling` sees to that). The line of a process that has ended on this machine does not count any
more; that of another machine (or of Windows, where asking whether a process lives would interrupt it) counts until nothing
was heard of it for `LET_GO_S` seconds, so that a crash never holds money for good.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, Decimal
from functools import cache
from pathlib import Path

from ipy_websearch.ledger_tables import DAY_US, NANO

LET_GO_S = 20 * 60
"""Longer than any request takes: what is under way says nothing of itself before it ends."""

UNBOOKED_S = 5.0
"""Seconds after which what was spent has its row, if it ever gets one; rows wait for half a second at most."""

_PUT = """INSERT INTO holds (id, host, pid, started, seen, reserved, spent) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, reserved = excluded.reserved, spent = excluded.spent"""
_LINES = "SELECT reserved, spent, host, pid, started, seen FROM holds WHERE id <> :own"
_ALL = f"""SELECT coalesce(sum(usd), 0), (SELECT coalesce(max(id), 0) FROM entries), '', 0, '', 0
    FROM by_day WHERE day >= :day UNION ALL {_LINES}"""
_SINCE = f"""SELECT coalesce(sum(CASE WHEN time >= :day * {DAY_US} THEN usd END), 0), coalesce(max(id), :last), '', 0, '', 0
    FROM entries WHERE id > :last UNION ALL {_LINES}"""


@dataclass(frozen=True, slots=True)
class Line:
    """The line of one ledger in one process."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    pid: int = field(default_factory=os.getpid)

    def put(self, connection: sqlite3.Connection, reserved: Decimal, spent: Decimal) -> None:
        """Say what is reserved, and what is spent and has no row, inside the caller's transaction; without either there is no
        line. `spent` is below 0 when rows of what is still reserved are there already."""
        if reserved + spent > 0:
            amounts = [int((usd * NANO).to_integral_value(ROUND_CEILING)) for usd in (reserved, spent)]
            connection.execute(_PUT, (self.id, _host(), self.pid, _started(self.pid), int(time.time()), *amounts))
        else:
            connection.execute("DELETE FROM holds WHERE id = ?", (self.id,))


class Day:
    """Adds up a day; from the second time on, only the rows that were added are read. `reserved` is what other lines hold for
    what is under way."""

    def __init__(self) -> None:
        self.reserved = Decimal(0)
        self.date: date | None = None
        self._of: sqlite3.Connection | None = None
        self._nano = 0
        self._last = 0

    def taken(self, connection: sqlite3.Connection, today: date, own: Line) -> Decimal:
        """Return the US dollars that all rows of the day cost and that other lines hold."""
        day = (today - date(1970, 1, 1)).days
        values = {"day": day, "own": own.id, "last": self._last}
        anew = connection is not self._of or today != self.date
        (nano, last, *_), *lines = connection.execute(_ALL if anew else _SINCE, values)  # one statement: one snapshot
        self._nano, self._last, nano = nano + (0 if anew else self._nano), last, 0
        self._of, self.date = connection, today
        now, begin_s, others = time.time(), day * 86_400, 0
        for reserved, spent, host, pid, started, seen in lines:
            if not _is_gone(host, pid, started, now - seen):
                # What has had no row since yesterday will get none, or is yesterday's.
                others += reserved
                nano += reserved + (spent if seen > begin_s - UNBOOKED_S else min(spent, 0))
        self.reserved = others / NANO
        return (self._nano + nano) / NANO

    def clear(self, connection: sqlite3.Connection) -> None:
        """Take away the lines of those that have ended, inside the caller's transaction."""
        now = time.time()
        for id_, host, pid, started, seen in connection.execute("SELECT id, host, pid, started, seen FROM holds").fetchall():
            if _is_gone(host, pid, started, now - seen):
                connection.execute("DELETE FROM holds WHERE id = ?", (id_,))


def utc_today() -> date:
    """Return the day that a day's ceiling is for."""
    return datetime.now(UTC).date()


def _is_gone(host: str, pid: int, started: str, silent_s: float) -> bool:
    if host != _host() or os.name != "posix":  # on Windows, os.kill(pid, 0) is Ctrl-C
        return abs(silent_s) > LET_GO_S
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # somebody else's, so it lives
        pass
    return bool(started) and _now_started(pid) not in (started, "")


@cache
def _host() -> str:
    """Return what tells apart machines, their boots, and containers whose processes are numbered on their own."""
    import socket

    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    return " ".join(parts)


@cache
def _started(pid: int) -> str:
    """Return when this process started, so that another one that is given its number later is not taken for it."""
    return _now_started(pid)


def _now_started(pid: int) -> str:
    """Return when a process started, "ended" for one that nobody has asked for its end yet, "" where that is not known."""
    try:
        # The name stands in parentheses and may have any character, these too (man 5 proc_pid_stat).
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return "ended" if fields[0] in (b"Z", b"X") else fields[19].decode("ascii")
    except (OSError, IndexError):
        return ""
