"""The ledger: one append-only row for each model request and each call to a provider, in one SQLite file for all kernels.

    ledger        one flat row a request or call; money in nano-dollars (NULL: unknown), time in microseconds since 1970 (UTC)
    reservations  money held for what is under way, until it is settled or `expires` (seconds since 1970) has passed

Two rules keep the money right. A look at what was spent and held and the new reservation are one write transaction, so that two
kernels cannot take the same cent. Settling changes the reservation and inserts the rows in one transaction, so that money is
held or spent, never both and never neither.

Rows are on disk when `book` or `settle` returns. While the file cannot be written, rows are kept in memory, counted by reports,
and written as soon as it can be; `news` says so. No key gets in: questions and notebook names pass `redact` first.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar

from ipy_websearch.database import Database
from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.text import shorten, visible
from ipy_websearch.usage import MOST_COUNTED, Usage

APPLICATION_ID = 0x6977736C  # "iwsl"
VERSION = 3
NANO = Decimal(10) ** 9
CENT_OF_A_CENT = Decimal("0.0001")
DAY_US = 86_400_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUESTION_CHARS = 200
LEASE_S = 60.0
"""Seconds that a reservation outlives its request's own time limit when the process has died."""

RETRY_S, BUSY_S = 5.0, 1.0
"""Seconds after which a file that could not be used is tried again, and seconds to wait for another kernel's lock."""

Kind = Literal["model", "search", "fetch", "context", "map"]
Status = Literal["ok", "error", "interrupted", "replayed"]
Found = TypeVar("Found")

COLUMNS = (
    "time", "session", "notebook", "question_id", "question", "kind", "name", "status", "cached", "estimated",
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens",
    "server_searches", "server_fetches", "units", "unit", "usd", "saved",
)  # fmt: skip
_INSERT = f"INSERT INTO ledger ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_TABLES = (
    """CREATE TABLE ledger (
        id INTEGER PRIMARY KEY, time INTEGER NOT NULL, session TEXT NOT NULL, notebook TEXT NOT NULL,
        question_id TEXT NOT NULL, question TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL,
        cached INTEGER NOT NULL, estimated INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cache_read_tokens INTEGER NOT NULL,
        cache_write_5m_tokens INTEGER NOT NULL, cache_write_1h_tokens INTEGER NOT NULL,
        server_searches INTEGER NOT NULL, server_fetches INTEGER NOT NULL,
        units REAL NOT NULL, unit TEXT NOT NULL, usd INTEGER, saved INTEGER)""",
    "CREATE INDEX ledger_by_time ON ledger (time, usd)",
    "CREATE TRIGGER ledger_rows_stay BEFORE UPDATE ON ledger BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END",
    "CREATE TRIGGER ledger_rows_stay_too BEFORE DELETE ON ledger BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END",
    """CREATE TABLE reservations (
        id TEXT PRIMARY KEY, session TEXT NOT NULL, question_id TEXT NOT NULL, usd INTEGER NOT NULL, expires REAL NOT NULL
    ) WITHOUT ROWID""",
)
# Version 0.1.0 kept texts once in `labels` and `questions`, and sums of `entries` in `by_day`.
_FROM_0_1_0 = f"""INSERT INTO ledger ({", ".join(COLUMNS)})
    SELECT e.time, s.text, n.text, q.question_id, q.question, k.text, m.text, t.text, e.cached, e.estimated,
        e.input_tokens, e.output_tokens, e.cache_read_tokens, e.cache_write_5m_tokens, e.cache_write_1h_tokens,
        e.server_searches, e.server_fetches, e.units, u.text, e.usd, e.saved
    FROM entries AS e JOIN questions AS q ON q.id = e.question
        JOIN labels AS s ON s.id = q.session JOIN labels AS n ON n.id = q.notebook JOIN labels AS k ON k.id = e.kind
        JOIN labels AS m ON m.id = e.name JOIN labels AS t ON t.id = e.status JOIN labels AS u ON u.id = e.unit
    ORDER BY e.id"""
_OLD_TABLES = ("entries", "questions", "by_day", "labels", "holds")


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One model request or one call to a provider.

    `time` is aware, `name` the model's id or the provider, `units` how many `unit`s a provider billed. `cost_usd` is None when
    the price is unknown; `saved_usd` is what a cached call would have cost, or what a request's reads from the prompt cache
    saved. `estimated` figures are ours: the answer broke off before anybody said what it cost. "replayed" rows come from a
    cassette and cost nothing. `notebook` is its path or name, "" when unknown.
    """

    time: datetime
    session: str
    question_id: str
    question: str
    kind: Kind
    name: str
    usage: Usage = Usage()
    units: Decimal = Decimal(0)
    unit: str = ""
    cost_usd: Decimal | None = None
    cached: bool = False
    status: Status = "ok"
    estimated: bool = False
    saved_usd: Decimal | None = None
    notebook: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """`usd` US dollars for what the rows of a question (`question_id`), of a session or of everybody cost from `since` on.

    `name` is what messages call it, `raised_by` the option or command that raises it, `since` microseconds since 1970.
    """

    name: str
    usd: Decimal
    raised_by: str
    column: Literal["question_id", "session", ""] = ""
    key: str = ""
    since: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """How a limit stands: what was spent, and what is held for what is under way, in US dollars."""

    limit: Limit
    spent: Decimal
    held: Decimal

    @property
    def left(self) -> Decimal:
        """What may still be reserved; it may be below 0."""
        return self.limit.usd - self.spent - self.held

    def refusal(self, what: str, needed: Decimal) -> str:
        """Return one line: the limit, what is left of it and what is held, what `what` may cost, and what raises the limit."""
        limit, left = self.limit, max(self.left, Decimal(0))
        held = f" ({_up(self.held)} USD of it is held by what is under way)" if self.held else ""
        step = CENT_OF_A_CENT if needed - left >= CENT_OF_A_CENT else 1 / NANO  # fine enough to tell the two apart
        has, may, enough = left.quantize(step, ROUND_FLOOR), _up(needed, step), _up(self.spent + self.held + needed)
        return (
            f"the {limit.name} of {limit.usd:f} USD has {has:f} USD left{held}, and {what} may cost up to {may} USD; "
            f"raise it to at least {enough} USD ({limit.raised_by})"
        )


@dataclass(slots=True)
class Reservation:
    """US dollars held for what is under way; `settle` it, in this process or by its id in another one.

    >>> from ipy_websearch.money.ledger import Ledger
    >>> held = Ledger(None).reserve("s1", "q1", Decimal("0.02"), lease_s=60)
    >>> held.settle([]), held.usd
    (None, Decimal('0'))
    """

    ledger: Ledger
    id: str
    usd: Decimal = Decimal(0)

    def settle(self, rows: Sequence[LedgerRow], *, keep: Decimal = Decimal(0)) -> None:
        """Insert rows and end the reservation, or lower it to `keep`, in one transaction."""
        keep = max(min(keep, self.usd), Decimal(0))
        if rows or keep != self.usd:
            self.ledger.settle(rows, self.id if self.usd else None, keep)
        self.usd = keep

    def release(self) -> None:
        """Give the money back."""
        self.settle(())


@dataclass(frozen=True, slots=True)
class _Entry:
    """Rows to insert as values, and the reservation that they settle (None: none)."""

    rows: Sequence[tuple[object, ...]]
    id: str | None = None
    keep: int = 0

    def write(self, connection: sqlite3.Connection) -> None:
        if self.rows:
            connection.executemany(_INSERT, self.rows)
        if self.id is not None and self.keep:
            connection.execute("UPDATE reservations SET usd = min(usd, ?) WHERE id = ?", (self.keep, self.id))
        elif self.id is not None:
            connection.execute("DELETE FROM reservations WHERE id = ?", (self.id,))


class Refused(BudgetExceededError):
    """A reservation that a limit has no room for; `standing` is the limit that refused."""

    def __init__(self, standing: Standing, what: str, usd: Decimal) -> None:
        super().__init__(standing.refusal(what, usd))
        self.standing = standing


class Ledger:
    """The ledger in the file `path` (None: in memory), opened at the first use.

    `redact` takes keys out of texts. `clock` gives seconds since 1970.
    """

    def __init__(
        self, path: Path | None, *, redact: Callable[[str], str] = str, clock: Callable[[], float] = time.time
    ) -> None:
        self.clock = clock
        self.path = path
        self._redact = redact
        self._file = _database(path)
        self._texts: dict[str, str] = {}
        self._sums: dict[tuple[str, str, int], tuple[int, int]] = {}
        self._sums_of: sqlite3.Connection | None = None
        self._unwritten: list[_Entry] = []
        self._retry_at = 0.0
        self._failure: Exception | None = None
        self._warnings: list[str] = []
        self._told = 0
        self._lock = threading.RLock()

    def news(self) -> list[str]:
        """Return what went wrong with the file since the last call, a line each; no row is lost by it."""
        found = self.warnings
        told, self._told = self._told, len(found)
        return found[told:]

    @property
    def warnings(self) -> list[str]:
        """Return a line for everything that went wrong with the file."""
        with self._lock:
            self._warnings += self._file.warnings
            self._file.warnings.clear()
            return list(self._warnings)

    # --- writing --------------------------------------------------------------------------------------------------------

    def book(self, rows: Sequence[LedgerRow]) -> None:
        """Insert rows in one transaction. They are on disk when this returns, or kept in memory while the file fails."""
        if rows:
            self.settle(rows)

    def settle(self, rows: Sequence[LedgerRow], reservation_id: str | None = None, keep: Decimal = Decimal(0)) -> None:
        """Insert rows, and end a reservation or lower it to `keep` US dollars, in one transaction."""
        entry = _Entry([self._values(row) for row in rows], reservation_id, _nano_up(keep))
        with self._lock:
            try:
                self._transaction(entry.write)
            except (sqlite3.Error, OSError):
                self._unwritten.append(entry)

    def reserve(
        self,
        session: str,
        question_id: str,
        usd: Decimal,
        *,
        lease_s: float,
        limits: Sequence[Limit] = (),
        id: str = "",
        what: str = "the next request",
    ) -> Reservation:
        """Hold `usd` under all `limits` for at most `lease_s` seconds; with the `id` of a reservation, change that one.

        Messages say that `what` may cost so much.

        Raises:
            Refused: a limit has no room; nothing has changed. sqlite3.Error, OSError: the file cannot be used.
        """
        id, nano = id or uuid.uuid4().hex[:16], _nano_up(usd)

        def work(connection: sqlite3.Connection) -> None:
            now = self.clock()
            connection.execute("DELETE FROM reservations WHERE expires < ?", (now,))
            standings = self._standings(connection, limits, id)
            tight = min(standings, key=lambda standing: standing.left, default=None)
            if tight is not None and nano > tight.left * NANO:
                raise Refused(tight, what, usd)
            values = (id, session, question_id, nano, now + lease_s)
            connection.execute("INSERT OR REPLACE INTO reservations VALUES (?, ?, ?, ?, ?)", values)

        with self._lock:
            self._transaction(work)
        return Reservation(self, id, nano / NANO)

    def reservation(self, id: str) -> Reservation | None:
        """Return a reservation by its id, whichever process made it; None when it was settled or has expired."""
        query = "SELECT usd FROM reservations WHERE id = ? AND expires >= ?"
        found = self.read(lambda c: c.execute(query, (id, self.clock())).fetchone())
        return Reservation(self, id, found[0] / NANO) if found else None

    def _transaction(self, work: Callable[[sqlite3.Connection], Found]) -> Found:
        """Run `work` in one write transaction, after what could not be written before. The caller has the lock."""
        if self._failure is not None and self.clock() < self._retry_at:
            raise self._failure
        try:
            if self._unwritten:
                self._file.write(self._write_kept)
                self._unwritten = []
            result = self._file.write(work)
        except (sqlite3.Error, OSError) as exc:
            self._note(exc)
            raise
        self._failure = None
        return result

    def _write_kept(self, connection: sqlite3.Connection) -> None:
        for entry in self._unwritten:
            entry.write(connection)

    def _note(self, exc: Exception) -> None:
        """Take note of a failure; it is said once, until the file works again."""
        if self._failure is None:
            self._warnings.append(f"the ledger {self.path} cannot be written ({exc}); costs are kept in memory until it can")
        self._failure, self._retry_at = exc, self.clock() + RETRY_S

    # --- reading --------------------------------------------------------------------------------------------------------

    def read(self, work: Callable[[sqlite3.Connection], Found]) -> Found:
        """Return what `work` finds in all rows, those that could not be written yet included."""
        with self._lock:
            try:
                if self._failure is not None:
                    self._transaction(lambda connection: None)
                return self._file.read(work)
            except (sqlite3.Error, OSError) as exc:
                if exc is not self._failure:
                    self._note(exc)
            return self._copy().write(work)

    def standings(self, limits: Sequence[Limit]) -> list[Standing]:
        """Return how limits stand now."""
        return self.read(lambda connection: self._standings(connection, limits)) if limits else []

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._file.close()

    def _copy(self) -> Database:
        """Return all rows in memory: those of the file, as far as it can be read, and those that it lacks."""
        copy, rows = _database(None), list[Any]()
        try:
            query = f"SELECT {', '.join(COLUMNS)} FROM ledger ORDER BY id"
            rows = self._file.read(lambda connection: connection.execute(query).fetchall())
        except (sqlite3.Error, OSError):
            pass  # it was said when it failed first
        copy.write(_Entry(rows).write)
        copy.write(self._write_kept)
        return copy

    def _standings(self, connection: sqlite3.Connection, limits: Sequence[Limit], but: str = "") -> list[Standing]:
        """Return how limits stand, the reservation `but` left out."""
        if not limits:
            return []
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM ledger").fetchone()
        if self._sums_of is not connection:
            self._sums, self._sums_of = {}, connection
        query = "SELECT session, question_id, sum(usd) FROM reservations WHERE id <> ? AND expires >= ? GROUP BY 1, 2"
        held = connection.execute(query, (but, self.clock())).fetchall()
        found = []
        for limit in limits:
            column = {"session": 0, "question_id": 1}.get(limit.column)
            nano = sum(row[2] for row in held if column is None or row[column] == limit.key)
            found.append(Standing(limit, self._spent(connection, limit, last) / NANO, nano / NANO))
        return found

    def _spent(self, connection: sqlite3.Connection, limit: Limit, last: int) -> int:
        """Return nano-dollars spent under a limit; from the second time on, only newer rows are read."""
        scope = (limit.column, limit.key, limit.since)
        seen, nano = self._sums.get(scope, (0, 0))
        where = f"{limit.column} = :key" if limit.column else "1"
        query = f"SELECT coalesce(sum(usd), 0) FROM ledger WHERE time >= :since AND {where}"
        if seen:  # "+" keeps SQLite from an index over all rows: the newer ones are at the end of the table
            query = f"SELECT coalesce(sum(usd), 0) FROM ledger WHERE id > :seen AND +time >= :since AND +{where}"
        if last > seen:
            (more,) = connection.execute(query, {"seen": seen, "since": limit.since, "key": limit.key}).fetchone()
            nano += more
            if len(self._sums) > 1_000:
                self._sums.clear()
            self._sums[scope] = (last, nano)
        return nano

    # --- rows as values -------------------------------------------------------------------------------------------------

    def _values(self, row: LedgerRow) -> tuple[object, ...]:
        used = row.usage
        return (
            microseconds(row.time), row.session, self._text(row.notebook), row.question_id, self._text(row.question),
            row.kind, visible(str(row.name)), row.status, row.cached, row.estimated,
            _count(used.input_tokens), _count(used.output_tokens), _count(used.cache_read_tokens),
            _count(used.cache_write_5m_tokens), _count(used.cache_write_1h_tokens),
            _count(used.server_searches), _count(used.server_fetches),
            _units(row.units), row.unit, _nano(row.cost_usd), _nano(row.saved_usd),
        )  # fmt: skip

    def _text(self, text: str) -> str:
        """Return a text as it is kept, without keys: they are taken out before it is shortened."""
        if (kept := self._texts.get(text)) is None:
            if len(self._texts) > 1_000:
                self._texts.clear()
            kept = self._texts[text] = shorten(" ".join(visible(self._redact(text)).split()), QUESTION_CHARS)
        return kept


def microseconds(moment: datetime) -> int:
    """Return microseconds since 1970; a moment without a zone counts as UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


def _database(path: Path | None) -> Database:
    """Return the file (None: memory) with its tables; no memory stands in for it, since the ledger keeps its rows itself."""
    return Database(
        path,
        application_id=APPLICATION_ID,
        prepare=_migrate,
        purpose="ledger",
        busy_timeout_s=BUSY_S,
        memory_instead=False,
    )


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables up to date, inside the caller's transaction; a newer file is left as it is."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= VERSION:
        return
    for statement in _TABLES:
        connection.execute(statement)
    if version:
        connection.execute(_FROM_0_1_0)
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            if not name.startswith("ledger"):
                connection.execute(f"DROP TRIGGER {name}")
        for table in _OLD_TABLES:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _count(count: int) -> int:
    return max(0, min(count, MOST_COUNTED))


def _units(units: Decimal) -> float:
    return max(0.0, min(float(units), float(MOST_COUNTED))) if units.is_finite() else 0.0


def _nano(usd: Decimal | None) -> int | None:
    """Return whole nano-dollars; an amount that is no number, or absurdly large, is unknown."""
    if usd is None or not usd.is_finite() or abs(usd * NANO) > MOST_COUNTED:
        return None
    return int((usd * NANO).to_integral_value(ROUND_HALF_EVEN))


def _nano_up(usd: Decimal) -> int:
    return int(min(usd * NANO, Decimal(MOST_COUNTED)).to_integral_value(ROUND_CEILING))


def _up(usd: Decimal, step: Decimal = CENT_OF_A_CENT) -> str:
    """Return an amount rounded up to a whole `step`, so that following the advice is enough; a provider may say any price."""
    return f"{min(usd, Decimal(MOST_COUNTED)).quantize(step, ROUND_CEILING):f}"
