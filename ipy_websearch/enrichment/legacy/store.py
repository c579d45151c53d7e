"""Every value ever found, in one SQLite file that all kernels share: nothing that was paid for is asked again.

The invariant: `put` returns when the cells are on disk, a cell is replaced as a whole, and only successes are kept (a value
that was looked for and not found is one; one that fits no type is none). Cells are found by a digest of all that their value
depends on: version, model, tools, question, type and the row's inputs; another kernel that asks the same finds them.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ipy_websearch.database import Database
from ipy_websearch.enrichment.legacy.columns import Column
from ipy_websearch.enrichment.legacy.outcome import Cell

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

VERSION = 1
"""Part of every key: raise it when the way of asking changes so much that old values should be asked for again."""

APPLICATION_ID = 0x69777365  # "iwse"
_AT_ONCE = 500
_TABLES = (
    "CREATE TABLE questions (id INTEGER PRIMARY KEY, model TEXT NOT NULL, name TEXT NOT NULL, template TEXT NOT NULL, "
    "kind TEXT NOT NULL, UNIQUE (model, name, template, kind))",
    "CREATE TABLE cells (key BLOB PRIMARY KEY, question INTEGER NOT NULL, cell TEXT NOT NULL, usd REAL, seconds REAL NOT NULL, "
    "time REAL NOT NULL) WITHOUT ROWID",
    "CREATE INDEX cells_by_question ON cells (question)",
)
_BATCH_TABLES = (
    "CREATE TABLE batches (id INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, batch TEXT, address TEXT NOT NULL, "
    "model TEXT NOT NULL, columns TEXT NOT NULL, time REAL NOT NULL)",
    "CREATE TABLE handed_in (batch INTEGER NOT NULL, number INTEGER NOT NULL, asked TEXT NOT NULL, keys BLOB NOT NULL, "
    "inputs TEXT NOT NULL, turns TEXT NOT NULL, usd REAL, again INTEGER NOT NULL, PRIMARY KEY (batch, number)) WITHOUT ROWID",
)
_PUT = "INSERT OR REPLACE INTO cells (key, question, cell, usd, seconds, time) VALUES (?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Stored:
    """A cell from the store with its share of what it cost and took when it was asked."""

    cell: Cell
    cost_usd: float | None
    seconds: float


class Store:
    """The store in the file `path` (None: in memory), opened at the first use."""

    def __init__(self, path: Path | None) -> None:
        self._database = Database(path, application_id=APPLICATION_ID, prepare=_migrate, purpose="enrichment store")
        self._numbers: dict[tuple[str, str, str, str], int] = {}

    @property
    def warnings(self) -> list[str]:
        """One line for each thing that went wrong with the file."""
        return self._database.warnings

    def get(self, keys: Sequence[bytes], columns: Sequence[Column]) -> dict[bytes, Stored]:
        """Return the cells that are there; `columns` says what each key's value is of."""
        kinds = dict(zip(keys, columns, strict=True))
        found: dict[bytes, Stored] = {}
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(part))
            query = f"SELECT key, cell, usd, seconds FROM cells WHERE key IN ({marks})"
            for key, text, usd, seconds in self._database.read(lambda c, q=query, p=part: c.execute(q, p).fetchall()):  # type: ignore[misc]
                found[key] = Stored(_read(text, kinds[key]), usd, seconds)
        return found

    def put(self, model: str, cells: Iterable[tuple[bytes, Column, Cell]], usd: float | None, seconds: float) -> None:
        """Keep the cells of one row, in one transaction; `usd` and `seconds` are shared out among them.

        Raises:
            sqlite3.Error: they could not be written.
        """
        rows = list(cells)
        self.transaction(lambda connection: self.write(connection, model, rows, usd, seconds))

    def transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` in one transaction, which is on disk when this returns.

        Raises:
            sqlite3.Error: it could not be written; nothing of it is kept.
        """
        try:
            return self._database.write(work)
        except sqlite3.Error:
            self._numbers.clear()  # numbers that were given out in the transaction are undone with it
            raise

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `work` reads.

        Raises:
            sqlite3.Error: it could not be read.
        """
        return self._database.read(work)

    def write(
        self,
        connection: sqlite3.Connection,
        model: str,
        cells: Sequence[tuple[bytes, Column, Cell]],
        usd: float | None,
        seconds: float,
    ) -> None:
        """Write the cells of one row inside a transaction, but for those that are at fault."""
        kept = [entry for entry in cells if not entry[2].fault]
        parts, now = max(len(kept), 1), time.time()
        share = None if usd is None else usd / parts
        values = [
            (key, self._question(connection, model, column), _written(cell), share, seconds / parts, now)
            for key, column, cell in kept
        ]
        connection.executemany(_PUT, values)

    def listing(self) -> pd.DataFrame:
        """Return what is kept: one row for each model and question, with cells, usd (NaN: unknown) and the newest's time."""
        import pandas as pd

        query = (
            "SELECT model, name, kind, template, count(*), CASE WHEN count(usd) = count(*) THEN sum(usd) END, max(time) "
            "FROM cells JOIN questions ON questions.id = question GROUP BY questions.id ORDER BY max(time) DESC"
        )
        rows = self._database.read(lambda c: c.execute(query).fetchall())
        names = ["model", "column", "type", "question", "cells", "usd", "newest"]
        frame = pd.DataFrame(rows, columns=names)
        frame["usd"] = frame["usd"].astype("float64")
        frame["newest"] = pd.to_datetime([datetime.fromtimestamp(t, UTC) for t in frame["newest"]], utc=True)
        return frame

    def clear(self, column: str | None = None) -> int:
        """Forget all cells, or those of the columns of one name; return how many there were."""

        def work(connection: sqlite3.Connection) -> int:
            where = " WHERE question IN (SELECT id FROM questions WHERE name = ?)" if column is not None else ""
            return connection.execute(f"DELETE FROM cells{where}", () if column is None else (column,)).rowcount

        return self._database.write(work)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def _question(self, connection: sqlite3.Connection, model: str, column: Column) -> int:
        texts = (model, column.name, column.template, column.type_name)
        if texts not in self._numbers:
            connection.execute("INSERT OR IGNORE INTO questions (model, name, template, kind) VALUES (?, ?, ?, ?)", texts)
            query = "SELECT id FROM questions WHERE model = ? AND name = ? AND template = ? AND kind = ?"
            self._numbers[texts] = int(connection.execute(query, texts).fetchone()[0])
        return self._numbers[texts]


def cell_key(model: str, tools: str, column: Column, values: Mapping[str, str | None]) -> bytes:
    """Return the digest under which a cell is kept; `tools` names what the model could look things up with."""
    inputs = [[name, values[name]] for name in column.fields]
    parts = [VERSION, model, tools, column.name, column.template, column.type_name, inputs]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode("utf-8", "replace")).digest()


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA cache_size = -256")  # kB; rows are written once and read once, so a cache is memory for nothing
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number, tables in enumerate((_TABLES, _BATCH_TABLES), 1):
        if version < number:
            for statement in tables:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")


def _written(cell: Cell) -> str:
    value = cell.value.isoformat() if isinstance(cell.value, date) else cell.value
    return json.dumps([value, cell.source, cell.quote, cell.confidence], ensure_ascii=False, separators=(",", ":"))


def _read(text: str, column: Column) -> Cell:
    value, source, quote, confidence = json.loads(text)
    return Cell(column.fit(value), source, quote, confidence)
