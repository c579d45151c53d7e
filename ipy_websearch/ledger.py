"""The ledger: what every model request and every call to an engine used and cost, in one append-only SQLite file.

The invariant: a row is on disk when `book` returns, whatever happens to the kernel afterwards, and several kernels may
book at once. Booking never raises: a file that cannot be used is replaced (see `database`), and rows that cannot be written
are kept in memory, counted, and written later. `warnings` says so. No key ever gets in: questions pass `redact` first.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from ipy_websearch.database import Database
from ipy_websearch.errors import ConfigError
from ipy_websearch.ledger_report import (
    EPOCH,
    GroupName,
    Scope,
    curve,
    entries,
    entry_frame,
    group_frame,
    groups,
    savings,
    totals,
    unpriced,
)
from ipy_websearch.ledger_rows import LedgerRow, RowWriter
from ipy_websearch.ledger_tables import APPLICATION_ID, NANO, migrate
from ipy_websearch.settings import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

GROUPS: tuple[GroupName, ...] = ("question", "model", "provider", "engine", "kind", "day", "notebook", "session")
HELD_S = 0.25  # seconds for which a row may wait for others
RETRY_S = 30.0
"""Seconds after which a file that could not be written is tried again."""

Found = TypeVar("Found")
OnWrite = Callable[[sqlite3.Connection, Sequence[LedgerRow]], Callable[[], None]]
"""Called in each transaction that writes rows; what it returns is called when that transaction fails."""


class Ledger:
    """The ledger in the file `path` (None: in memory), opened at the first use. `redact` takes keys out of questions."""

    def __init__(self, path: Path | None, *, redact: Callable[[str], str] = str) -> None:
        self._writer = RowWriter(redact)
        self._database = _database(path)
        self._overflow: Database | None = None
        self._unwritten: list[LedgerRow] = []
        self._retry_at = 0.0
        self._lock = threading.Lock()
        self._warnings: list[str] = []
        self._held: list[LedgerRow] = []
        self.on_write: OnWrite | None = None
        self._held_since = 0.0
        self._holding = threading.Lock()

    @property
    def path(self) -> Path | None:
        """The file, None when the ledger is in memory."""
        return None if self._database.in_memory else self._database.path

    @property
    def warnings(self) -> list[str]:
        """One line for each thing that went wrong with the file; booking goes on all the same."""
        return [*self._database.warnings, *self._warnings]

    def book(self, row: LedgerRow) -> None:
        """Write one row; it is safe from a kill of this process when this returns (about 0.05 ms)."""
        self.book_all((row,))

    def book_all(self, rows: Iterable[LedgerRow]) -> None:
        """Write rows in one transaction: all or, when the process is killed meanwhile, none of them."""
        with self._lock:
            fresh = list(rows)
            if self._overflow is None or time.monotonic() >= self._retry_at:
                try:
                    self._write(self._database, [*self._unwritten, *fresh])
                    self._unwritten, self._overflow = [], None
                    return
                except sqlite3.Error as exc:
                    self._fail(exc)
            self._unwritten += fresh
            self._write(cast(Database, self._overflow), fresh)

    def hold(self, row: LedgerRow) -> None:
        """Take a row that may wait for others, as a transaction takes as long for three rows as for one: `HELD_S` seconds, or
        until somebody calls `write_held` or reads. A kill of the process loses no more than these."""
        waiting = self.keep((row,))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self.write_held()
        if waiting == 1:
            loop.call_later(HELD_S, self.write_held)
        elif time.monotonic() - self._held_since > HELD_S:  # the loop of the first one is busy, or gone
            self.write_held()

    def keep(self, rows: Iterable[LedgerRow]) -> int:
        """Take rows until somebody calls `write_held` or reads, which the caller sees to; return how many wait now."""
        with self._holding:
            self._held_since = self._held_since if self._held else time.monotonic()
            self._held.extend(rows)
            return len(self._held)

    def write_held(self) -> None:
        """Write the rows that wait; they are safe when this returns."""
        with self._holding:
            rows, self._held = self._held, []
        if rows:
            self.book_all(rows)

    def _fail(self, exc: sqlite3.Error) -> None:
        """Begin to keep rows in memory, where they are counted and from where they are written when that works again."""
        self._retry_at = time.monotonic() + RETRY_S
        if self._overflow is None:
            self._overflow = _database(None)
            path = self._database.path
            self._warnings.append(
                f"the ledger {path} cannot be written ({exc}); until it can, costs are kept in memory, "
                "and a day's budget counts this kernel alone"
            )

    def total(
        self, session: str | None = None, since: datetime | None = None, question_id: str | None = None
    ) -> tuple[Decimal, int]:
        """Return (US dollars of the rows with a price, number of rows without one); None as a filter is all of them.

        `since` without a time zone is taken as UTC.
        """
        found = self._read(lambda c: [totals(c, Scope(session, since, question_id))])
        return _dollars(sum(usd for usd, _, _ in found)), sum(unknown for _, unknown, _ in found)

    def saved(self, session: str | None = None, since: datetime | None = None) -> Decimal:
        """Return the US dollars that caches saved, ours and those of the models."""
        return sum(self.savings(session, since), Decimal(0))

    def savings(self, session: str | None = None, since: datetime | None = None) -> tuple[Decimal, Decimal]:
        """Return the US dollars that answers from our cache saved, and those that the models' prompt caches saved."""
        found = self._read(lambda c: [savings(c, Scope(session, since))])
        return _dollars(sum(calls for calls, _ in found)), _dollars(sum(prompts for _, prompts in found))

    def unpriced(self, session: str | None = None, since: datetime | None = None) -> dict[str, int]:
        """Return how many rows of which model or engine have no known price, by its name."""
        counts: dict[str, int] = {}
        for name, count in self._read(lambda c: unpriced(c, Scope(session, since))):
            counts[name] = counts.get(name, 0) + count
        return counts

    def curve(
        self, session: str | None = None, since: datetime | None = None, *, points: int = 500
    ) -> list[tuple[datetime, str, Decimal]]:
        """Return (moment, kind, US dollars spent up to it since the entry before) by time, in at most `points` steps."""
        found = sorted(self._read(lambda c: curve(c, Scope(session, since), points)))
        return [(EPOCH + timedelta(microseconds=time), kind, _dollars(usd)) for time, kind, usd in found]

    def frame(self, *, session: str | None = None, since: datetime | None = None, by: GroupName | None = None) -> pd.DataFrame:
        """Return the ledger, or sums of it, as a plain DataFrame with a RangeIndex.

        Without `by`: one row for each entry, newest last; columns time (UTC datetime64), question, kind, name,
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, server_searches, units, unit, usd (float,
        an unknown price is NaN), cached (bool), status.

        With `by`: one row for each group; the group's column, calls, model_calls, searches (those of Anthropic's servers
        included), input_tokens, output_tokens, cached (calls answered from the cache), usd (of the rows with a price, NaN
        when none has one), unknown (rows without a price). "engine" is another word for "provider". Every grouping sums up
        to the whole: by model, what engines cost stands in the row "(engines)", by provider what models cost in "(models)".
        Days are UTC. Days, questions and sessions come oldest first, other groups most expensive first.

        Raises:
            ConfigError: there is no such group.
        """
        scope = Scope(session, since)
        if by is None:
            return entry_frame(self._read(lambda c: entries(c, scope)))
        if by not in GROUPS:
            raise ConfigError(f"by is {by!r}{did_you_mean(str(by), GROUPS)}; it must be one of {', '.join(GROUPS)}")
        return group_frame(self._read(lambda c: groups(c, scope, by)), by)

    def look(self, work: Callable[[sqlite3.Connection], Found]) -> Found | None:
        """Return what `work` reads in the file, None while that cannot be used; `warnings` says so then."""
        return self._tried(lambda: self._database.read(work))

    def transact(self, work: Callable[[sqlite3.Connection], Found]) -> Found | None:
        """Do the same inside one write transaction, which is undone when `work` fails."""
        return self._tried(lambda: self._database.write(work))

    def _tried(self, attempt: Callable[[], Found]) -> Found | None:
        if self._overflow is not None and time.monotonic() < self._retry_at:
            return None
        try:
            return attempt()
        except sqlite3.Error as exc:
            with self._lock:
                self._fail(exc)
            return None

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self.write_held()
        self._database.close()

    def _read(self, work: Callable[[sqlite3.Connection], list[Found]]) -> list[Found]:
        """Return what `work` finds in the file and in what could not be written to it."""
        self.write_held()
        databases = filter(None, (self._database, self._overflow))
        return [found for database in databases for found in database.read(work)]

    def _write(self, database: Database, rows: Sequence[LedgerRow]) -> None:
        if self.on_write is None or database is not self._database:
            return database.write(lambda connection: self._writer.write(connection, rows))
        told, undo = self.on_write, list[Callable[[], None]]()

        def work(connection: sqlite3.Connection) -> None:
            while undo:  # the file was broken and another was begun
                undo.pop()()
            self._writer.write(connection, rows)
            undo.append(told(connection, rows))

        try:
            database.write(work)
        except BaseException:
            while undo:
                undo.pop()()
            raise


def _database(path: Path | None) -> Database:
    return Database(path, application_id=APPLICATION_ID, prepare=migrate, purpose="ledger")


def _dollars(nano: int) -> Decimal:
    return Decimal(nano) / NANO
