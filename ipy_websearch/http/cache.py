"""Answers kept for a while in one SQLite file, so that the same search is not paid for twice.

Invariant: the cache never makes a call fail. A locked file is a miss; `database` replaces a broken one, or keeps entries in
memory where nothing can be written, and says so in `warnings`. The file is readable by its owner alone, since it holds what
was searched for. Values are JSON; the oldest go when the whole is larger than `max_bytes`.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ipy_websearch.database import Database

T = TypeVar("T")

APPLICATION_ID = 0x69777363  # "iwsc"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (
    kind TEXT NOT NULL, key TEXT NOT NULL, created REAL NOT NULL, size INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (kind, key)
)"""
_BUSY_S = 0.25
"""Seconds to wait for another process that writes; then the search is made again instead."""


class Cache:
    """Keeps JSON values by kind and key; safe to use from several threads and processes.

    `path` is the SQLite file, opened at the first use (None: memory only). `max_bytes` bounds the values together; `clock`
    gives seconds since 1970.
    """

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.time, max_bytes: int = 64_000_000) -> None:
        self._database = Database(
            path, application_id=APPLICATION_ID, prepare=self._prepare, purpose="cache", version=1, busy_timeout_s=_BUSY_S
        )
        self._clock = clock
        self._max_bytes = max_bytes
        self._bytes = 0

    @property
    def warnings(self) -> list[str]:
        """What happened to the file, a line each."""
        return self._database.warnings

    def get(self, kind: str, key: str, ttl_s: float) -> tuple[Any, float] | None:
        """Return (value, age in seconds) of an entry younger than `ttl_s`, None when there is none."""
        query = "SELECT created, value FROM entry WHERE kind = ? AND key = ?"
        row = self._read(lambda db: db.execute(query, (kind, key)).fetchone())
        if row is None:
            return None
        age = self._clock() - row[0]
        if not -60 < age < ttl_s:  # far in the future: the clock was set back, so the age says nothing
            return None
        try:
            return json.loads(row[1]), max(age, 0.0)
        except (ValueError, RecursionError):
            return None

    def put(self, kind: str, key: str, value: Any) -> None:
        """Keep a JSON value in place of the one under that key. Not kept is one larger than a quarter of the whole, and
        anything that is not JSON, as a plug-in's results may be."""
        try:
            text = json.dumps(value, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError):
            return
        size = len(text) + len(key)
        if size * 4 > self._max_bytes:
            return
        row = (kind, key, self._clock(), size, text)

        def insert(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?)", row)
            self._bytes += size
            if self._bytes > self._max_bytes:
                _drop_oldest(db, int(self._max_bytes * 0.8))
                self._bytes = _total(db)

        self._quietly(lambda: self._database.write(insert))

    def clear(self, kind: str | None = None) -> int:
        """Remove the entries of one kind, or all; return how many. The file is shrunk, so nothing stays in it."""

        def delete(db: sqlite3.Connection) -> int:
            count = db.execute("DELETE FROM entry WHERE kind = :kind OR :kind IS NULL", {"kind": kind}).rowcount
            with contextlib.suppress(sqlite3.OperationalError):  # another process is reading: the space is reused instead
                db.execute("VACUUM")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._bytes = _total(db)
            return count

        return self._read(delete) or 0

    def stats(self) -> dict[str, Any]:
        """Return path (None: memory), entries, bytes, and `kinds`: the number of entries of each kind."""
        query = "SELECT kind, COUNT(*), SUM(size) FROM entry GROUP BY kind"
        rows = self._read(lambda db: db.execute(query).fetchall()) or []
        return {
            "path": None if self._database.in_memory else str(self._database.path),
            "entries": sum(row[1] for row in rows),
            "bytes": sum(row[2] for row in rows),
            "kinds": {row[0]: row[1] for row in rows},
        }

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute(_SCHEMA)
        self._bytes = _total(db)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        return self._quietly(lambda: self._database.read(work))

    def _quietly(self, work: Callable[[], T]) -> T | None:
        """Return what `work` gives, None when the file cannot be used this time: it is locked, or the disk is full."""
        try:
            return work()
        except (sqlite3.Error, OSError, UnicodeError):
            return None


def _total(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT COALESCE(SUM(size), 0) FROM entry").fetchone()[0])


def _drop_oldest(db: sqlite3.Connection, keep_bytes: int) -> None:
    """Delete the oldest entries until `keep_bytes` or less are left."""
    newest_first = "SELECT rowid AS id, SUM(size) OVER (ORDER BY created DESC, rowid DESC) AS total FROM entry"
    db.execute(f"DELETE FROM entry WHERE rowid IN (SELECT id FROM ({newest_first}) WHERE total > ?)", (keep_bytes,))
