"""Answers kept for a while in one SQLite file, so that the same search is not paid for twice.

Invariant: the cache never makes a call fail. A locked file is a miss; a broken one is moved aside to
`<name>.broken-<time>` and begun anew; where nothing can be written, entries are kept in memory. What happened is said in
`warnings`. The file is readable by its owner alone, since it holds what was searched for. Values are JSON; entries are
never changed, only replaced, and the oldest go when the whole is larger than `max_bytes`. What `hold` takes is there at once
in this process, and in the file a moment later.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entry_v1 (
    kind TEXT NOT NULL, key TEXT NOT NULL, created REAL NOT NULL, size INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (kind, key)
);
CREATE INDEX IF NOT EXISTS entry_v1_created ON entry_v1 (created, size);
"""
HELD_S = 0.25
"""Seconds for which an entry may wait for others, as a transaction takes as long for three as for one."""

_BUSY_MS = 250
_encode = json.JSONEncoder(separators=(",", ":")).encode
_BROKEN = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")


class Cache:
    """Keeps JSON values by kind and key; safe to use from several threads and processes.

    `path` is the SQLite file, opened at the first use (None: memory only). `max_bytes` bounds the values together;
    `clock` gives seconds since 1970.
    """

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.time, max_bytes: int = 64_000_000) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.RLock()
        self.warnings: list[str] = []
        self._clock = clock
        self._max_bytes = max_bytes
        self._bytes = 0
        self._held: dict[tuple[str, str], tuple[float, str | Callable[[], Any]]] = {}
        self._held_since = 0.0

    def get(self, kind: str, key: str, ttl_s: float) -> tuple[Any, float] | None:
        """Return (value, age in seconds) of an entry younger than `ttl_s`, None when there is none."""
        row = self._newest(kind, key)
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
        """Keep a JSON value (replacing the one under that key); one larger than a quarter of the whole is not kept.

        Raises:
            TypeError: the value is not JSON.
        """
        text = _encode(value)
        with self._lock:
            self._held[kind, key] = (self._clock(), text)
        self.write_held()

    def hold(self, kind: str, key: str, make: Callable[[], Any]) -> None:
        """Keep the JSON value that `make` gives, as `put` does, but make and write it within `HELD_S` seconds, at the end of
        the process, or by `write_held`. What turns out to be no JSON is not kept."""
        is_first = not self._held
        with self._lock:
            self._held[kind, key] = (self._clock(), make)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.write_held()
            return
        if is_first:
            self._held_since = time.monotonic()
            loop.call_later(HELD_S, self.write_held)
            _holding.add(self)
        elif time.monotonic() - self._held_since > HELD_S:  # the loop of the first one is busy, or gone
            self.write_held()

    def write_held(self) -> None:
        """Write the entries that wait."""
        with self._lock:
            held, self._held = self._held, {}
            rows = []
            for (kind, key), (created, given) in held.items():
                text = _as_text(given)
                if text and (size := len(text) + len(key)) * 4 <= self._max_bytes:
                    rows.append((kind, key, created, size, text))
            if rows:
                self._run(lambda db: self._write(db, rows))

    def _newest(self, kind: str, key: str) -> tuple[float, str] | None:
        """Return (created, value) of an entry, held or written."""
        if (held := self._held.get((kind, key))) is not None:
            return held[0], _as_text(held[1])
        query = "SELECT created, value FROM entry_v1 WHERE kind = ? AND key = ?"
        return self._run(lambda db: db.execute(query, (kind, key)).fetchone())

    def _write(self, db: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany("INSERT OR REPLACE INTO entry_v1 VALUES (?, ?, ?, ?, ?)", rows)
            db.execute("COMMIT")
        except sqlite3.Error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        self._bytes += sum(row[3] for row in rows)
        if self._bytes > self._max_bytes:
            self._bytes = _drop_oldest(db, int(self._max_bytes * 0.8))

    def clear(self, kind: str | None = None) -> int:
        """Remove the entries of one kind, or all; return how many. The file is shrunk, so nothing stays in it."""

        def delete(db: sqlite3.Connection) -> int:
            count = db.execute("DELETE FROM entry_v1 WHERE kind = :kind OR :kind IS NULL", {"kind": kind}).rowcount
            self._bytes = _total(db)
            with contextlib.suppress(sqlite3.OperationalError):  # another process is reading: the space is reused instead
                db.execute("VACUUM")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return count

        self.write_held()
        return self._run(delete) or 0

    def stats(self) -> dict[str, Any]:
        """Return path (None: memory), entries, bytes, and `kinds`: the number of entries of each kind."""
        self.write_held()
        rows = self._run(lambda db: db.execute("SELECT kind, COUNT(*), SUM(size) FROM entry_v1 GROUP BY kind").fetchall())
        rows = rows or []
        return {
            "path": str(self.path) if self.path else None,
            "entries": sum(row[1] for row in rows),
            "bytes": sum(row[2] for row in rows),
            "kinds": {row[0]: row[1] for row in rows},
        }

    def close(self) -> None:
        """Close the file; the next use opens it again (what was in memory is gone)."""
        self.write_held()
        self._close()

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return what `work` gives, None when the file could not be used this time."""
        with self._lock:
            for _ in range(3):
                try:
                    return work(self._open())
                except sqlite3.Error as exc:
                    name = getattr(exc, "sqlite_errorname", "") or ""
                    if name.startswith(_BUSY):
                        return None
                    self._give_up_file(exc, move=name.startswith(_BROKEN))
                except OSError as exc:
                    self._give_up_file(exc, move=False)
        return None

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        db = sqlite3.connect(self.path or ":memory:", check_same_thread=False, isolation_level=None, timeout=_BUSY_MS / 1000)
        try:
            for setting in ("journal_mode = WAL", "synchronous = NORMAL"):
                db.execute(f"PRAGMA {setting}")
            db.executescript(_SCHEMA)
            self._bytes = _total(db)
        except sqlite3.Error:
            db.close()
            raise
        self._connection = db
        return db

    def _give_up_file(self, exc: Exception, *, move: bool) -> None:
        """Move a broken file aside, or turn to memory when it cannot be used; say so in `warnings`."""
        self._close()
        if self.path is None:
            return
        if move:
            aside = self.path.with_name(f"{self.path.name}.broken-{datetime.now():%Y%m%dT%H%M%S%f}")
            with contextlib.suppress(OSError):
                self.path.rename(aside)
                for side in ("-wal", "-shm"):
                    self.path.with_name(self.path.name + side).unlink(missing_ok=True)
                self.warnings.append(f"the cache {self.path} was broken ({exc}); it was moved to {aside.name} and begun anew")
                return
        self.warnings.append(f"the cache {self.path} cannot be used ({exc}); answers are kept in memory for this session")
        self.path = None


def _as_text(given: str | Callable[[], Any]) -> str:
    """Return what was held as JSON text, "" for what is none."""
    try:
        return given if isinstance(given, str) else _encode(given())
    except Exception:  # what a plug-in put into its results may fail in any way, and costs nobody else anything
        return ""


_holding: weakref.WeakSet[Cache] = weakref.WeakSet()


@atexit.register
def _write_all() -> None:
    for cache in list(_holding):
        cache.write_held()


def _total(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT COALESCE(SUM(size), 0) FROM entry_v1").fetchone()[0])


def _drop_oldest(db: sqlite3.Connection, keep_bytes: int) -> int:
    """Delete the oldest entries until `keep_bytes` or less are left; return the bytes left."""
    newest_first = "SELECT rowid AS id, SUM(size) OVER (ORDER BY created DESC, rowid DESC) AS total FROM entry_v1"
    db.execute(f"DELETE FROM entry_v1 WHERE rowid IN (SELECT id FROM ({newest_first}) WHERE total > ?)", (keep_bytes,))
    return _total(db)
