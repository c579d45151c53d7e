"""What a forked process does with what its parent has open: it forgets it, and never closes it.

A child has its parent's memory, descriptors and locks, and none of its threads. Closing a connection there takes it out of the
epoll object that both share, and what a thread had locked stays locked for ever. Hence the invariant: nothing of the parent's
is closed, woken or waited for in a child, not even when that ends, and the locks that this module makes are free there.

Files of SQLite are closed before a fork, and opened again at their next use. Where there is no fork (Windows), nothing of this
is ever called.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import sqlite3

WAIT_S = 2.0
"""Seconds that a fork waits for a thread that is at work with a file."""

_kept: list[object] = []
_child = False
_locks: weakref.WeakSet[Any] = weakref.WeakSet()


class Inheriting(Protocol):
    """What has something open that a child must leave alone."""

    def after_fork(self) -> None:
        """In a child: `keep` what is the parent's, and begin anew."""


_inheriting: weakref.WeakSet[Inheriting] = weakref.WeakSet()
_files: weakref.WeakSet[SqliteFile] = weakref.WeakSet()
_paused: list[SqliteFile] = []
_forking = threading.Lock()


def inherits(owner: Inheriting) -> None:
    """Have `owner.after_fork` called in every child, as long as there is an owner."""
    _inheriting.add(owner)


def in_child(function: Callable[[], None]) -> Callable[[], None]:
    """Have a function called in every child, before anything else runs there; it is returned."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
    return function


def keep(*objects: object) -> None:
    """Never let go of these, not even while Python ends and takes modules apart: what is let go of closes itself."""
    if not _kept:
        with contextlib.suppress(ImportError, AttributeError):  # without them, or on PyPy, the list has to do
            import ctypes

            ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))
    _kept.extend(objects)


def is_child() -> bool:
    """Say whether this process was forked: it may end without a word, as those of multiprocessing do, so nothing may wait."""
    processes = sys.modules.get("multiprocessing.process")  # its children may be older than this module
    return _child or (processes is not None and processes.parent_process() is not None)


def lock() -> threading.Lock:
    """Return a lock that is free in a child, whoever held it."""
    made = threading.Lock()
    _locks.add(made)
    return made


def rlock() -> threading.RLock:
    """Return a lock like that of `lock`, which its holder may take again."""
    made = threading.RLock()
    _locks.add(made)
    return made


class SqliteFile:
    """Base of what has a connection to a file of SQLite (`path` None: to memory), and uses it under `_lock` alone.

    Before a fork the file is closed: SQLite keeps a process's locks in memory, where a child would take its parent's for its
    own.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._lock = rlock()
        inherits(self)
        _files.add(self)

    @property
    def _on_disk(self) -> bool:
        return self.path is not None

    def before_fork(self) -> bool:
        """In the parent: close the file; say whether nobody opens it now until `go_on`, which a busy thread can prevent."""
        if not self._lock.acquire(timeout=WAIT_S):
            return False
        if self._connection is not None and self._on_disk:
            self._connection.close()
            self._connection = None
        return True

    def go_on(self) -> None:
        """In the parent: let the file be opened again."""
        self._lock.release()

    def after_fork(self) -> None:
        """In a forked process: neither use the parent's connection nor close it, as SQLite asks."""
        keep(self._connection)
        self._connection = None


def _prepare() -> None:
    """In the parent: import what `keep` needs, since a child could wait for ever for a module that a thread was importing."""
    with contextlib.suppress(ImportError):
        import ctypes  # noqa: F401
    _forking.acquire()
    _paused[:] = [file for file in list(_files) if file.before_fork()]


def _go_on() -> None:
    paused = _paused.copy()
    _paused.clear()
    _forking.release()
    for file in paused:
        file.go_on()


@in_child
def _free_locks() -> None:
    global _child
    _child = True
    _paused.clear()
    for each in (_forking, *_locks):
        each._at_fork_reinit()  # what the standard library's own modules do


@in_child
def _begin_anew() -> None:
    for owner in list(_inheriting):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare, after_in_parent=_go_on)
