"""Searches and pages kept for a while in a SQLite file, so that the same one is not paid for twice."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipy_websearch.database import Database

_TABLE = """
CREATE TABLE IF NOT EXISTS entry (
    kind TEXT NOT NULL, key TEXT NOT NULL, created REAL NOT NULL, size INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (kind, key)
)"""
# Now and then (a long run of enrichment opens the file once) the oldest values go, beyond so many bytes.
_PRUNE = """
CREATE TEMP TRIGGER prune AFTER INSERT ON entry WHEN new.rowid % 100 = 0 BEGIN
    DELETE FROM entry WHERE rowid IN (
        SELECT id FROM (SELECT rowid AS id, SUM(size) OVER (ORDER BY created DESC, rowid DESC) AS total FROM entry)
        WHERE total > {max_bytes:d}
    );
END"""
# A clock that was set back leaves entries of the future, whose age says nothing.
_FIND = "SELECT created, value FROM entry WHERE kind = ? AND key = ? AND created > ? AND created < ?"

# A locked file, a full disk, a value that is no JSON (as a plug-in's results may be), and one that was damaged in the file.
_FAILURES = (sqlite3.Error, OSError, ValueError, TypeError, RecursionError)


class Cache:
    """JSON values by kind and key.

    Invariant: the cache never makes a call fail. A locked file or a full disk is a miss. `path` is the file, opened at first
    use (None: memory only); `warnings` has a line for each thing that happened to it. What is beyond `max_bytes` goes now and
    then, the oldest first; `clock` gives seconds since 1970.
    """

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.time, max_bytes: int = 64_000_000) -> None:
        # Another process that writes is waited for a moment; then the search is made again instead.
        self._database = Database(
            path, application_id=0x69777363, prepare=self._prepare, purpose="cache", busy_timeout_s=0.25
        )  # fmt: skip
        self.warnings = self._database.warnings
        self._clock = clock
        self._max_bytes = max_bytes

    def get(self, kind: str, key: str, ttl_s: float) -> tuple[Any, float] | None:
        """Return (value, age in seconds) of an entry younger than `ttl_s`, None when there is none."""
        now = self._clock()
        with suppress(*_FAILURES):
            if found := self._database.read(lambda db: db.execute(_FIND, (kind, key, now - ttl_s, now + 60)).fetchone()):
                return json.loads(found[1]), max(now - found[0], 0.0)
        return None

    def put(self, kind: str, key: str, value: Any) -> None:
        """Keep a JSON value in place of the one under that key, unless it is larger than a quarter of the whole."""
        with suppress(*_FAILURES):
            text = json.dumps(value, separators=(",", ":"))
            row = (kind, key, self._clock(), len(text) + len(key), text)
            if row[3] * 4 <= self._max_bytes:
                self._database.write(lambda db: db.execute("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?)", row))

    def clear(self) -> int:
        """Remove all entries; return how many. The file is shrunk, so nothing stays in it."""
        count = 0
        with suppress(*_FAILURES):  # while another process is reading, the space is reused instead
            count = self._database.read(lambda db: db.execute("DELETE FROM entry").rowcount)
            self._database.read(lambda db: db.executescript("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"))
        return count

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute(_TABLE)
        db.execute(_PRUNE.format(max_bytes=self._max_bytes))
