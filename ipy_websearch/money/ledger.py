"""The ledger: one append-only row for each model request and each call to a provider, in one SQLite file for all kernels.

    ledger        one flat row a request or call; money in nano-dollars (NULL: unknown), time in microseconds since 1970 (UTC)
    reservations  money held for what is under way, until it is settled or `expires` (seconds since 1970) has passed
    answers, batch_rows  what was paid for, of enrichments: see `enrichment.store`, and `enrichment.batch`

Two rules keep the money right. A look at what was spent and held and the new reservation are one write transaction, so that two
kernels cannot take the same cent. Settling changes the reservation and inserts the rows in one transaction, so that money is
held or spent, never both and never neither. What an enrichment found goes there with its cost, so a kill loses both or none.

Rows are on disk when `book` or `settle` returns; on an event loop, at the end of that turn of the loop: what happens in one
turn is one transaction, such as the cost and the values of all rows of an enrichment that have just ended. While the file
cannot be written, rows are kept in memory, counted by reports, and written as soon as it can be; `news` says so. No key gets
in: questions pass `redact` first. The column `notebook` is that of 0.1.0; it stays empty.

A report (`cost_frame`) is one `GROUP BY`; 100,000 rows take some 0.2 s.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from ipy_websearch.database import Database
from ipy_websearch.errors import BudgetExceededError, ConfigError
from ipy_websearch.results import MOST_COUNTED, Usage
from ipy_websearch.settings import did_you_mean
from ipy_websearch.text import shorten, visible

if TYPE_CHECKING:
    from ipy_websearch.frames import CostFrame

APPLICATION_ID = 0x6977736C  # "iwsl"
VERSION = 3
NANO = Decimal(10) ** 9
CENT_OF_A_CENT = Decimal("0.0001")
DAY_US = 86_400_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUESTION_CHARS = 200
# Seconds that a reservation outlives its request's own time limit when the process has died.
LEASE_S = 60.0

# Seconds after which a file that could not be used is tried again, and seconds to wait for another kernel's lock.
RETRY_S, BUSY_S = 5.0, 1.0

Kind = Literal["model", "search", "fetch", "context", "map"]
Status = Literal["ok", "error", "interrupted", "replayed"]
Found = TypeVar("Found")
Work = Callable[[sqlite3.Connection], object]

_USED = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens",
    "server_searches", "server_fetches",
)  # fmt: skip
COLUMNS = (
    "time", "session", "notebook", "question_id", "question", "kind", "name", "status", "cached", "estimated",
    *_USED, "units", "unit", "usd", "saved",
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
_ANSWERS = (
    "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, model TEXT NOT NULL, name TEXT NOT NULL, "
    "template TEXT NOT NULL, kind TEXT NOT NULL, cell TEXT NOT NULL, usd REAL, seconds REAL NOT NULL, "
    "time REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS batch_rows (batch TEXT NOT NULL, row TEXT NOT NULL, reservation TEXT NOT NULL, "
    "time REAL NOT NULL, PRIMARY KEY (batch, row)) WITHOUT ROWID",
)
# What stands in for the file while it cannot be written: its own tables, as far as they can be read.
_COPIED = tuple(
    (f"SELECT * FROM {table}", f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})")
    for table, columns in {"ledger": len(COLUMNS) + 1, "reservations": 5, "answers": 9, "batch_rows": 4}.items()
)
# Version 0.1.0 kept texts once in `labels` and `questions`, and sums of `entries` in `by_day`, by triggers on `entries`.
_FROM_0_1_0 = (
    f"""INSERT INTO ledger ({", ".join(COLUMNS)})
    SELECT e.time, s.text, n.text, q.question_id, q.question, k.text, m.text, t.text, e.cached, e.estimated,
        e.input_tokens, e.output_tokens, e.cache_read_tokens, e.cache_write_5m_tokens, e.cache_write_1h_tokens,
        e.server_searches, e.server_fetches, e.units, u.text, e.usd, e.saved
    FROM entries AS e JOIN questions AS q ON q.id = e.question
        JOIN labels AS s ON s.id = q.session JOIN labels AS n ON n.id = q.notebook JOIN labels AS k ON k.id = e.kind
        JOIN labels AS m ON m.id = e.name JOIN labels AS t ON t.id = e.status JOIN labels AS u ON u.id = e.unit
    ORDER BY e.id""",
    *(f"DROP TABLE IF EXISTS {table}" for table in ("entries", "questions", "by_day", "labels", "holds")),
)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One model request or one call to a provider.

    `time` is aware, `name` the model's id or the provider, `units` how many `unit`s a provider billed. `cost_usd` is None when
    the price is unknown; `saved_usd` is what a cached call would have cost, or what a request's prompt cache saved. `estimated`
    figures are ours: the answer broke off before anybody said what it cost. "replayed" rows come from a cassette and cost
    nothing.
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


@dataclass(frozen=True, slots=True)
class Limit:
    """`usd` US dollars for what the rows of a question (`question_id`), of a session or of everybody cost from `since` on.

    `name` is what messages call it, `raised_by` the option or command that raises it, `since` microseconds since 1970.
    `Ledger.standings` fills in how the limit stands: US dollars `spent`, and `held` for what is under way.
    """

    name: str
    usd: Decimal
    raised_by: str
    column: Literal["question_id", "session", ""] = ""
    key: str = ""
    since: int = 0
    spent: Decimal = Decimal(0)
    held: Decimal = Decimal(0)

    @property
    def left(self) -> Decimal:
        """What may still be reserved; it may be below 0."""
        return self.usd - self.spent - self.held

    def refusal(self, what: str, needed: Decimal) -> str:
        """Return one line: the limit, what is left of it and what is held, what `what` may cost, and what raises the limit."""
        left = max(self.left, Decimal(0))
        held = f" ({_up(self.held)} USD of it is held by what is under way)" if self.held else ""
        step = CENT_OF_A_CENT if needed - left >= CENT_OF_A_CENT else 1 / NANO  # fine enough to tell the two apart
        has, may, enough = left.quantize(step, ROUND_FLOOR), _up(needed, step), _up(self.spent + self.held + needed)
        return (
            f"the {self.name} of {self.usd:f} USD has {has:f} USD left{held}, and {what} may cost up to {may} USD; "
            f"raise it to at least {enough} USD ({self.raised_by})"
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
            self.ledger.book(rows, self.id if self.usd else None, keep)
        self.usd = keep


class Refused(BudgetExceededError):
    """A reservation that a limit has no room for; `limit` is the one that refused."""

    def __init__(self, limit: Limit, what: str, usd: Decimal) -> None:
        super().__init__(limit.refusal(what, usd))
        self.limit = limit


class Ledger:
    """The ledger in the file `path` (None: in memory), opened at the first use.

    `redact` takes keys out of texts. `clock` gives seconds since 1970. `warnings` has a line for everything that went wrong
    with the file; no row is lost by it.
    """

    def __init__(
        self, path: Path | None, *, redact: Callable[[str], str] = str, clock: Callable[[], float] = time.time
    ) -> None:
        self.clock = clock
        self.path = path
        self._file = _database(path)
        self.warnings = self._file.warnings
        self._told = 0
        self._text = lru_cache(1_000)(lambda text: shorten(" ".join(visible(redact(text)).split()), QUESTION_CHARS))
        self._sums: dict[tuple[str, str, int], tuple[int, int]] = {}
        self._sums_of: sqlite3.Connection | None = None
        self._unwritten: list[Work] = []
        self._retry_at = 0.0
        self._failure: Exception | None = None
        self._lock = threading.RLock()

    def news(self) -> list[str]:
        """Return the warnings since the last call."""
        told, self._told = self._told, len(self.warnings)
        return self.warnings[told:]

    # --- writing --------------------------------------------------------------------------------------------------------

    def book(self, rows: Sequence[LedgerRow], reservation_id: str | None = None, keep: Decimal = Decimal(0)) -> None:
        """Insert rows, and end a reservation or lower it to `keep` US dollars, in one transaction; see `write`."""
        values = [self._values(row) for row in rows]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(_INSERT, values)
            if keep:
                connection.execute("UPDATE reservations SET usd = min(usd, ?) WHERE id = ?", (_nano_up(keep), reservation_id))
            else:
                connection.execute("DELETE FROM reservations WHERE id = ?", (reservation_id,))

        if rows or reservation_id:
            self.write(work)

    def insert(self, connection: sqlite3.Connection, row: LedgerRow) -> None:
        """Insert a row as part of a `write`."""
        connection.execute(_INSERT, self._values(row))

    def write(self, work: Work) -> None:
        """Do `work` in one transaction with all that waits to be written: now, or at the end of this turn of the event loop.

        It is kept in memory while the file fails.
        """
        with self._lock:
            self._unwritten.append(work)
        try:
            asyncio.get_running_loop().call_soon(self.flush)
        except RuntimeError:  # there is none
            self.flush()

    def flush(self) -> bool:
        """Write what waits, and return whether all of it is on disk."""
        with self._lock, suppress(sqlite3.Error, OSError):
            self._flush()
            return True
        return False

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
            connection.execute("DELETE FROM reservations WHERE expires < ?", (self.clock(),))
            standings = [self._standing(connection, limit, id) for limit in limits]
            tight = min(standings, key=lambda limit: limit.left, default=None)
            if tight is not None and nano > tight.left * NANO:
                raise Refused(tight, what, usd)
            insert = "INSERT OR REPLACE INTO reservations VALUES (?, ?, ?, ?, ?)"
            connection.execute(insert, (id, session, question_id, nano, self.clock() + lease_s))

        with self._lock:
            self._flush()
            self._attempt(self._file.write, work)
        return Reservation(self, id, nano / NANO)

    def _flush(self) -> None:
        """Write what is in memory. Raises: see `_attempt`."""
        if self._unwritten or self._failure is not None:
            self._attempt(self._file.write, lambda connection: [work(connection) for work in self._unwritten])
            self._unwritten, self._failure = [], None

    def _attempt(self, do: Callable[[Callable[[sqlite3.Connection], Found]], Found], work: Callable[..., Found]) -> Found:
        """Have the file `do` some work (`read`, `write`). A failure is said once, until the file can be written again.

        Raises:
            sqlite3.Error, OSError: the file cannot be used, or could not a moment ago: others' locks are not waited for anew.
        """
        if self._failure is not None and self.clock() < self._retry_at:
            raise self._failure
        try:
            return do(work)
        except (sqlite3.Error, OSError) as exc:
            if self._failure is None:
                self.warnings.append(
                    f"the ledger {self.path} cannot be written ({exc}); costs and answers are kept in memory until it can"
                )
            self._failure, self._retry_at = exc, self.clock() + RETRY_S
            raise

    # --- reading --------------------------------------------------------------------------------------------------------

    def read(self, work: Callable[[sqlite3.Connection], Found]) -> Found:
        """Return what `work` finds in all rows, those that could not be written yet included."""
        with self._lock:
            with suppress(sqlite3.Error, OSError):
                self._flush()
                return self._attempt(self._file.read, work)
            return self._copy().write(work)

    def standings(self, limits: Sequence[Limit]) -> list[Limit]:
        """Return limits as they stand now."""
        return self.read(lambda connection: [self._standing(connection, limit) for limit in limits]) if limits else []

    def close(self) -> None:
        """Write what waits, however lately that failed, and close the file; the next use opens it again."""
        with self._lock:
            self._retry_at = 0.0
            self.flush()
            self._file.close()

    def _copy(self) -> Database:
        """Return what the file has, as far as it can be read, and what it lacks, in memory."""
        copy, address = _database(None), f"{(self.path or Path()).absolute().as_uri()}?mode=ro"
        with suppress(sqlite3.Error), closing(sqlite3.connect(address, timeout=BUSY_S, uri=True)) as file:
            copy.read(lambda memory: [memory.executemany(insert, file.execute(select)) for select, insert in _COPIED])
        copy.write(lambda connection: [work(connection) for work in self._unwritten])
        return copy

    def _standing(self, connection: sqlite3.Connection, limit: Limit, but: str = "") -> Limit:
        """Return a limit as it stands, the reservation `but` left out; from the second time on, only newer rows are read."""
        if self._sums_of is not connection or len(self._sums) > 1_000:
            self._sums, self._sums_of = {}, connection
        scope = (limit.column, limit.key, limit.since)
        seen, nano = self._sums.get(scope, (0, 0))
        where = f"{limit.column} = :key" if limit.column else "1"
        # Without an index, SQLite begins at the row that was seen last; at first, the moment finds the rows.
        query = (
            f"SELECT (SELECT coalesce(max(id), 0) FROM ledger), coalesce(sum(usd), 0), (SELECT coalesce(sum(usd), 0) "
            f"FROM reservations WHERE id <> :but AND expires >= :now AND {where}) "
            f"FROM ledger {'NOT INDEXED' if seen else ''} WHERE id > :seen AND time >= :since AND {where}"
        )
        values = {"seen": seen, "since": limit.since, "key": limit.key, "but": but, "now": self.clock()}
        last, more, held = connection.execute(query, values).fetchone()
        self._sums[scope] = (last, nano + more)
        return replace(limit, spent=(nano + more) / NANO, held=held / NANO)

    def _values(self, row: LedgerRow) -> tuple[object, ...]:
        """Return a row as it is kept; keys are taken out of texts before they are shortened."""
        units = min(max(row.units, Decimal(0)), Decimal(MOST_COUNTED)) if row.units.is_finite() else 0
        return (
            microseconds(row.time), row.session, "", row.question_id, self._text(row.question),
            row.kind, visible(str(row.name)), row.status, row.cached, row.estimated,
            *(max(0, min(getattr(row.usage, name), MOST_COUNTED)) for name in _USED),
            float(units), row.unit, _nano(row.cost_usd), _nano(row.saved_usd),
        )  # fmt: skip


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables up to date, inside the caller's transaction; a newer file is left as it is."""
    for statement in _ANSWERS:
        connection.execute(statement)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= VERSION:
        return
    for statement in (*_TABLES, *(_FROM_0_1_0 if version else ())):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


# The file at a path (None: memory) with its tables; no memory stands in for it, since the ledger keeps its rows itself.
_database = partial(
    Database, application_id=APPLICATION_ID, prepare=_migrate, purpose="ledger", busy_timeout_s=BUSY_S, memory_instead=False
)


def microseconds(moment: datetime) -> int:
    """Return microseconds since 1970; a moment without a zone counts as UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


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


# --- reports ------------------------------------------------------------------------------------------------------------

# What costs can be grouped by, as SQL. Each grouping sums up to the whole: by model, providers stand in the row "(engines)".
GROUPS = {
    "question": "question",
    "model": "CASE kind WHEN 'model' THEN name ELSE '(engines)' END",
    "provider": "CASE kind WHEN 'model' THEN '(models)' ELSE name END",
    "kind": "kind",
    "day": f"time / {DAY_US} * {DAY_US}",
    "session": "session",
}

# The columns of a report as SQL, and their types.
_ROW = {
    "time": ("time", "datetime64[us, UTC]"),
    **{name: (name, "str") for name in ("question", "kind", "name")},
    **{name: (name, "int64") for name in ("input_tokens", "output_tokens", "cache_read_tokens")},
    "cache_write_tokens": ("cache_write_5m_tokens + cache_write_1h_tokens", "int64"),
    "server_searches": ("server_searches", "int64"),
    "units": ("units", "float64"),
    "unit": ("unit", "str"),
    "usd": ("usd / 1e9", "float64"),
    "cached": ("cached", "bool"),
    "status": ("status", "str"),
    "session": ("session", "str"),
}
_SUMS = {
    "calls": ("count(*)", "int64"),
    "model_calls": ("sum(kind = 'model')", "int64"),
    "searches": ("sum((kind = 'search') + server_searches)", "int64"),
    "input_tokens": ("sum(input_tokens)", "int64"),
    "output_tokens": ("sum(output_tokens)", "int64"),
    "cached": ("sum(cached)", "int64"),
    "usd": ("sum(usd) / 1e9", "float64"),
    "unknown": ("sum(usd IS NULL)", "int64"),
}


def cost_frame(
    ledger: Ledger, *, session: str | None = None, since: datetime | None = None, by: str | None = None
) -> CostFrame:
    """Return what one session (None: all) has cost from a moment on (UTC where it has no zone), with its exact sums.

    Without `by`: one row for each ledger row, newest last; columns time (UTC datetime64), question, kind, name, input_tokens,
    output_tokens, cache_read_tokens, cache_write_tokens, server_searches, units, unit, usd (float, unknown is NaN), cached
    (bool), status, session.

    With `by`: one row for each group; the group's column, calls, model_calls, searches (those of Anthropic's servers included),
    input_tokens, output_tokens, cached (calls answered from the cache), usd (of the rows with a price, NaN when none has one),
    unknown (rows without a price). Days (UTC), questions and sessions come oldest first, other groups most expensive first.

    Raises:
        ConfigError: there is no such group.
    """
    import pandas as pd

    from ipy_websearch.frames import CostFrame, CostSummary

    if by is not None and by not in GROUPS:
        raise ConfigError(f"by is {by!r}{did_you_mean(by, list(GROUPS))}; it must be one of {', '.join(GROUPS)}")
    if by is None:
        columns, order = _ROW, "ORDER BY id"
    else:
        columns = {by: (GROUPS[by], "datetime64[us, UTC]" if by == "day" else "str"), **_SUMS}
        oldest_first = {"question": "min(id)", "session": "min(id)", "day": "1"}
        order = f"GROUP BY 1 ORDER BY {oldest_first.get(by, 'usd DESC, calls DESC, min(id)')}"
    selected = ", ".join(f"{expression} AS {name}" for name, (expression, _) in columns.items())
    # No index: it would find the rows of a moment, and be slower over all of them.
    rows_of = "FROM ledger NOT INDEXED WHERE (:session IS NULL OR session = :session) AND time >= :since"
    queries = (
        f"SELECT {selected} {rows_of} {order}",
        f"SELECT coalesce(sum(usd), 0), total(saved * cached), total(saved * NOT cached) {rows_of}",
        f"SELECT name, count(*) {rows_of} AND usd IS NULL GROUP BY name ORDER BY name",
    )
    values = {"session": session, "since": 0 if since is None else microseconds(since)}
    found = ledger.read(lambda connection: [connection.execute(query, values).fetchall() for query in queries])
    rows, ((spent, saved, saved_prompt),), unpriced = found
    # Column by column: pandas takes three times as long over rows.
    cells = zip(*rows, strict=True) if rows else [()] * len(columns)
    frame = CostFrame({name: pd.Series(of, dtype=kind) for (name, (_, kind)), of in zip(columns.items(), cells, strict=True)})
    frame.summary = CostSummary(
        total_usd=spent / NANO,
        unpriced=dict(unpriced),
        saved_usd=int(saved) / NANO,
        saved_prompt_usd=int(saved_prompt) / NANO,
        scope=_scope(session, since),
        rows=len(frame),
    )
    return frame


def _scope(session: str | None, since: datetime | None) -> str:
    moment = f" since {datetime.fromtimestamp(microseconds(since) / 1_000_000, UTC):%Y-%m-%d %H:%M} UTC" if since else ""
    return ("all sessions" if session is None else "this session") + moment
