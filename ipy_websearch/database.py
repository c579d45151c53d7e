"""SQLite files that several kernels share: how one is opened, and what happens when it cannot be used.

The ledger, the cache, the local index and the enrichment store all go through `Database`. The invariant: nothing is deleted.
A file that is replaced leaves one line in `warnings`; what the caller can still do something about is raised.

- A file that is broken, or another program's, is renamed to `<name>.broken-<time>`, and a new one is begun; what the
  caller was doing is then done again.
- A file that cannot be opened (read-only, no permission, full disk) or renamed is replaced by a database in memory until the
  kernel ends, or raises where the caller keeps its data itself (`memory_instead` False).
- A locked file is waited for. When it stays locked, `sqlite3.OperationalError` is raised; the next call tries again.
- A disk that fills up later raises as well: the caller still has its data, and decides what to do with it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

# Seconds to wait for another kernel's write; one takes well under a millisecond, but a disk can stall.
BUSY_TIMEOUT_S = 10.0

# The primary result codes, https://www.sqlite.org/rescode.html, read 2026-11.
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

_FOREIGN = "another program's file"
# A file that is not ours, one with a text that Python cannot read, and one whose index of words is damaged: where a constraint
# of ours has failed, SQLite names it.
_TELLTALES = (_FOREIGN, "Could not decode", "constraint failed")

T = TypeVar("T")


class Database:
    """A connection that opens itself at the first use, and is closed with Python or the last reference. Threads take turns.

    `path` None means memory. `application_id` marks our files. `prepare` creates the tables; it runs at every opening, inside
    one write transaction. `purpose` names the file in warnings.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        application_id: int,
        prepare: Callable[[sqlite3.Connection], None],
        purpose: str,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        memory_instead: bool = True,
    ) -> None:
        self.path = path
        self.in_memory = path is None
        self.warnings: list[str] = []
        self._application_id = application_id
        self._prepare = prepare
        self._purpose = purpose
        self._busy_timeout_s = busy_timeout_s
        self._memory_instead = memory_instead
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._lock = threading.RLock()

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return `work(connection)`; when the file has to be replaced, `work` is called again on the new one.

        Raises:
            sqlite3.OperationalError: the file stayed locked, or the disk is full.
            sqlite3.Error, OSError: the file cannot be used, and nothing stands in for it.
        """
        with self._lock:
            for _ in range(2):
                try:
                    return work(self._connect())
                except (sqlite3.Error, UnicodeDecodeError, OSError) as exc:
                    if self.in_memory or not self._recovered_from(exc):
                        raise
            return work(self._connect())

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return `work(connection)`, run inside a write transaction: all of it is kept or, on any exception, none of it.

        Raises: see `read`.
        """

        def transact(connection: sqlite3.Connection) -> T:
            with connection:  # commits or rolls back
                connection.execute("BEGIN IMMEDIATE")
                return work(connection)

        return self.read(transact)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:  # closing it under another thread crashes the process
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    __del__ = close

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            if self.path is not None and not self.in_memory:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self.path.touch(mode=0o600)  # it holds questions; SQLite gives the files beside it the same mode
                self._inode = self.path.stat().st_ino
            self._connection = sqlite3.connect(
                ":memory:" if self.in_memory else str(self.path),
                timeout=self._busy_timeout_s,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                self._open(self._connection)
            except BaseException:
                self.close()
                raise
        return self._connection

    def _open(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA temp_store = MEMORY")
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            (mark,) = connection.execute("PRAGMA application_id").fetchone()
            if mark != self._application_id and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise sqlite3.DatabaseError(_FOREIGN)
            connection.execute(f"PRAGMA application_id = {self._application_id:d}")
            self._prepare(connection)
        # With a write-ahead log, readers and a writer do not wait for each other and a commit needs no sync. File systems
        # without shared memory keep the ordinary journal (https://www.sqlite.org/wal.html, read 2026-11).
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")

    def _recovered_from(self, exc: Exception) -> bool:
        """Return whether another attempt makes sense now; if not, the error is the caller's."""
        was_open, code = self._connection is not None, getattr(exc, "sqlite_errorcode", 0) & 0xFF
        if code in _LOCKED:  # it stays open: others' writes keep nobody from reading
            return False
        if code in _BROKEN or isinstance(exc, UnicodeDecodeError) or str(exc).startswith(_TELLTALES):
            with suppress(OSError):  # its folder is read-only
                self._set_aside()
                return True
        if was_open or not self._memory_instead:
            return False
        self.in_memory = True
        self._warn(
            f"cannot be used ({getattr(exc, 'strerror', None) or exc}); until the kernel ends, its data are kept in memory"
        )
        return True

    def _set_aside(self) -> None:
        """Rename the file and its log, unless another kernel has just done so.

        Raises:
            OSError: its folder is read-only.
        """
        self.close()
        path = str(self.path)
        target = f"{path}.broken-{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z"
        if os.path.exists(path) and os.stat(path).st_ino == self._inode:
            for ending in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.rename(path + ending, target + ending)
            self._warn(f"is broken or another program's; it was renamed to {os.path.basename(target)} and a new one was begun")

    def _warn(self, event: str) -> None:
        self.warnings.append(f"the {self._purpose} {self.path} {event}")
