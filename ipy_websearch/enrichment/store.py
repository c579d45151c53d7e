"""The enrichment store: one SQLite file, shared by all kernels, so that nothing that was paid for is asked again.

The invariant: `put` returns when the cells are on disk. A cell's key is a digest of everything that its value depends on:
version, model, search (see `lookup_key`), question, type and the row's inputs. Only answers are kept, "not found" among them;
a failed search and a value that does not fit its type are asked again.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ipy_websearch.database import Database
from ipy_websearch.enrichment.columns import Cell, Column, fit
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.router import request_key
from ipy_websearch.results import Money

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

# Part of every key: raise it when the way of asking changes so much that old values should be asked for again.
VERSION = 2

APPLICATION_ID = 0x69777365  # "iwse"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, model TEXT NOT NULL, name TEXT NOT NULL, "
    "template TEXT NOT NULL, kind TEXT NOT NULL, cell TEXT NOT NULL, usd REAL, seconds REAL NOT NULL, "
    "time REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS open_batches (row TEXT PRIMARY KEY, token TEXT NOT NULL, batch TEXT NOT NULL, "
    "address TEXT NOT NULL, model TEXT NOT NULL, time REAL NOT NULL, turns TEXT NOT NULL) WITHOUT ROWID",
)
_FOUND = "SELECT key, cell, usd, seconds FROM answers WHERE time >= ? AND key IN"
_PUT = "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Stored(NamedTuple):
    """A cell from the store with its share of what asking it cost (US dollars, None: unknown) and took."""

    cell: Cell
    cost_usd: Money
    seconds: float


class Store:
    """The store in the file `path` (None: in memory), opened at the first use. `database` reads and writes, batches too."""

    def __init__(self, path: Path | None) -> None:
        self._notes: list[str] = []
        self.database = Database(path, application_id=APPLICATION_ID, prepare=self._prepare, purpose="enrichment store")

    @property
    def warnings(self) -> list[str]:
        """One line for each thing that went wrong with the file."""
        return [*self._notes, *self.database.warnings]

    def get(self, columns: Mapping[bytes, Column], since: float = 0.0) -> dict[bytes, Stored]:
        """Return the cells that are there and no older than `since`; `columns` has a few thousand keys with their columns.

        Raises:
            sqlite3.Error: the file could not be read.
        """
        query = f"{_FOUND} ({','.join('?' * len(columns))})"
        rows = self.database.read(lambda connection: connection.execute(query, (since, *columns)).fetchall())
        return {
            key: Stored(_read(text, columns[key]), None if usd is None else Decimal(str(usd)), seconds)
            for key, text, usd, seconds in rows
        }

    def put(self, model: str, cells: Sequence[tuple[bytes, Column, Stored]]) -> None:
        """Keep cells by their keys, in one transaction.

        Raises:
            sqlite3.Error: the file could not be written.
        """
        now = time.time()
        rows = [
            (
                key,
                model,
                column.name,
                column.template,
                column.type_name,
                _written(cell),
                None if usd is None else float(usd),
                seconds,
                now,
            )
            for key, column, (cell, usd, seconds) in cells
        ]
        self.database.write(lambda connection: connection.executemany(_PUT, rows))

    def listing(self) -> pd.DataFrame:
        """Return what is kept: one row for each model and question, with cells, usd (NaN: unknown) and the newest's time."""
        import pandas as pd

        query = (
            "SELECT model, name, kind, template, count(*), CASE WHEN count(usd) = count(*) THEN sum(usd) END, max(time) "
            "FROM answers GROUP BY model, name, kind, template ORDER BY max(time) DESC"
        )
        rows = self.database.read(lambda connection: connection.execute(query).fetchall())
        frame = pd.DataFrame(rows, columns=["model", "column", "type", "question", "cells", "usd", "newest"])
        frame["usd"] = frame["usd"].astype("float64")
        frame["newest"] = pd.to_datetime([datetime.fromtimestamp(t, UTC) for t in frame["newest"]], utc=True)
        return frame

    def clear(self, column: str | None = None) -> int:
        """Forget all cells, or those of the columns of one name; return how many there were."""
        where, values = (" WHERE name = ?", (column,)) if column is not None else ("", ())
        return self.database.write(lambda connection: connection.execute(f"DELETE FROM answers{where}", values).rowcount)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self.database.close()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA cache_size = -256")  # kB; rows are written once and read once
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "cells" in there:  # version 0.1.0
            for name in there & {"cells", "questions", "batches", "handed_in"}:
                connection.execute(f"ALTER TABLE {name} RENAME TO old_{name}")
            self._notes.append(
                "values of version 0.1.0 are not used, because they do not say how they were searched for; "
                "they stay in the store's file as old_cells"
            )
        for statement in _TABLES:
            connection.execute(statement)


def cell_key(model: str, lookup: str, column: Column, values: Mapping[str, str | None]) -> bytes:
    """Return the digest under which a cell is kept; `lookup` says what the model could look things up with."""
    inputs = [[name, values[name]] for name in column.fields]
    parts = [VERSION, model, lookup, column.name, column.template, column.type_name, inputs]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode("utf-8", "replace")).digest()


def lookup_key(
    request: SearchRequest, provider: str, options: Mapping[str, Any], max_searches: int, pages: int = 0, read: int = 0
) -> str:
    """Return the part of a key that says how a row may search: the provider that answers, with its options and every filter of
    `request` but the query (country, language, count, safe search, domains). `pages` may be fetched, `read` are read by each
    search."""
    search = [provider, dict(options), *request_key(request)] if max_searches else None
    return json.dumps([search, max_searches, pages, *([read] if read else [])], default=str)


def _written(cell: Cell) -> str:
    value = cell.value.isoformat() if isinstance(cell.value, date) else cell.value
    return json.dumps([value, *cell[1:]], ensure_ascii=False, separators=(",", ":"))


def _read(text: str, column: Column) -> Cell:
    value, *facts = json.loads(text)
    return Cell(fit(column, value), *facts)
