"""One SQLite file that several kernels use at once, opened when it is first needed.

The invariant: whatever state the file or its folder is in, the caller gets a working database and nothing is deleted. A
file that is broken, or is another program's, is moved aside under a new name; where nothing can be written, the database
lives in memory. Each such event leaves one line in `warnings`, for the session to show.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

BUSY_TIMEOUT_S = 10.0
"""Seconds to wait for another kernel's write; a write takes well under a millisecond, a stalled disk can take longer."""

_BROKEN_CODES = (11, 26)  # SQLITE_CORRUPT, SQLITE_NOTADB: https://www.sqlite.org/rescode.html, read 2026-11

T = TypeVar("T")


class ForeignFileError(Exception):
    """The file is a database, but another program's; never leaves this module."""


class SqliteFile:
    """Base of what has a connection to a file of SQLite (`path` None: to memory), and uses it under `_lock` alone."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.RLock()

    @property
    def _on_disk(self) -> bool:
        return self.path is not None


class Database(SqliteFile):
    """A connection that opens itself, and moves what it cannot use out of the way.

    `path` None means memory. `application_id` marks our files. `prepare` brings the tables up to date; it runs inside one
    write transaction at every opening, so that two kernels cannot do it at once. `purpose` names the file in warnings.
    All use of the connection goes through `read` and `write`, which hold a lock: threads take turns.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        application_id: int,
        prepare: Callable[[sqlite3.Connection], None],
        purpose: str,
        busy_timeout_s: float | None = None,
    ) -> None:
        super().__init__(path)
        self._busy_timeout_s = BUSY_TIMEOUT_S if busy_timeout_s is None else busy_timeout_s
        self.warnings: list[str] = []
        self.in_memory = path is None
        self._application_id = application_id
        self._prepare = prepare
        self._purpose = purpose

    @property
    def _on_disk(self) -> bool:
        return not self.in_memory

    @property
    def is_open(self) -> bool:
        """Say whether the file has been opened in this process."""
        return self._connection is not None

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `work` makes of the connection; when the file turns out broken, it is replaced and asked again.

        Raises:
            sqlite3.Error: `work` failed for another reason (the disk is full, a lock was not given up).
        """
        with self._lock:
            try:
                return work(self._opened())
            except sqlite3.DatabaseError as exc:
                if not _is_broken(exc) or self.in_memory:
                    raise
                self._replace("is broken", _identity(self.path))
                return work(self._opened())

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do the same inside one write transaction: all of `work` is kept or, on any exception, none of it."""

        def whole(connection: sqlite3.Connection) -> T:
            with _transaction(connection):
                return work(connection)

        return self.read(whole)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._open()
            weakref.finalize(self, _close, self._connection, os.getpid()).atexit = False
            _opened.add(self)
        return self._connection

    def _open(self) -> sqlite3.Connection:
        if self.path is not None and not self.in_memory:
            seen = None
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.touch(mode=0o600)  # it holds what was asked; SQLite's own files beside it take its mode
                seen = _identity(self.path)
                return self._connect(str(self.path))
            except ForeignFileError:
                return self._replaced("belongs to another program", seen)
            except sqlite3.DatabaseError as exc:
                if _lacks_module(exc):
                    raise
                if _is_broken(exc):
                    return self._replaced("is broken", seen)
                self._use_memory(str(exc))
            except OSError as exc:
                self._use_memory(exc.strerror or str(exc))
        return self._connect(":memory:")

    def _replaced(self, reason: str, seen: tuple[int, int] | None) -> sqlite3.Connection:
        self._replace(reason, seen)
        try:
            if self.path is not None and not self.in_memory:
                self.path.touch(mode=0o600)
            return self._connect(":memory:" if self.in_memory else str(self.path))
        except (sqlite3.DatabaseError, ForeignFileError, OSError) as exc:
            self._use_memory(str(exc))
            return self._connect(":memory:")

    def _connect(self, target: str) -> sqlite3.Connection:
        connection = sqlite3.connect(target, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA temp_store = MEMORY")
            _use_write_ahead_log(connection, self._busy_timeout_s)
            with _transaction(connection):
                self._claim(connection)
                self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _claim(self, connection: sqlite3.Connection) -> None:
        """Mark a new file as ours; refuse one that holds another program's tables."""
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        if mark == self._application_id:
            return
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if mark or tables:
            raise ForeignFileError(f"application_id {mark}, {tables} tables")
        connection.execute(f"PRAGMA application_id = {self._application_id:d}")

    def _replace(self, reason: str, seen: tuple[int, int] | None) -> None:
        """Move the file and its log aside, unless another kernel has just done so (`seen`: the file that was tried)."""
        self.close()
        if self.path is None or seen is None or _identity(self.path) != seen:
            return
        target = _free_name(self.path)
        try:
            for ending in ("", "-wal", "-shm"):
                source = Path(f"{self.path}{ending}")
                if source.exists():
                    source.rename(f"{target}{ending}")
        except OSError as exc:
            self._use_memory(f"it {reason} and cannot be moved aside: {exc.strerror}")
        else:
            self.warnings.append(f"the {self._purpose} {self.path} {reason}; it is kept as {target.name}, a new one was begun")

    def _use_memory(self, reason: str) -> None:
        self.in_memory = True
        self.warnings.append(
            f"the {self._purpose} {self.path} cannot be used ({reason}); until the kernel ends it is kept in memory only"
        )


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_opened: weakref.WeakSet[Database] = weakref.WeakSet()


@atexit.register  # runs after those of all modules above this one, which may have something left to write
def _close_all() -> None:
    """Close what is open, each when no thread is at work with it: a connection that is closed under one crashes the process."""
    for database in list(_opened):
        if database.is_open:
            database.close()


def _close(connection: sqlite3.Connection, pid: int) -> None:
    if os.getpid() == pid:
        connection.close()


def _use_write_ahead_log(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Turn on the write-ahead log, in which readers and a writer do not wait for each other and a commit needs no sync.

    SQLite does not wait while another kernel switches the same file, hence the loop; a file system without shared memory
    keeps the ordinary journal, which is slower and as safe (https://www.sqlite.org/wal.html, read 2026-11).
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as exc:
            if "locked" not in str(exc) or time.monotonic() > deadline:
                break
            time.sleep(0.005)
    connection.execute("PRAGMA synchronous = NORMAL")


def _is_broken(exc: sqlite3.Error) -> bool:
    return (getattr(exc, "sqlite_errorcode", 0) or 0) & 0xFF in _BROKEN_CODES


def _lacks_module(exc: sqlite3.Error) -> bool:
    return "no such module" in str(exc)


def _identity(path: Path | None) -> tuple[int, int] | None:
    try:
        status = os.stat(path) if path else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status else None


def _free_name(path: Path) -> Path:
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    names = (path.with_name(f"{path.name}.broken-{stamp}{extra}") for extra in ("", *(f"-{n}" for n in range(2, 100))))
    return next((name for name in names if not name.exists()), path.with_name(f"{path.name}.broken-{stamp}-{os.getpid()}"))
