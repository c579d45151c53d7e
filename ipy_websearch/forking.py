"""What a forked process does with what its parent has open: it forgets it, and never closes it.

A child has its parent's memory, descriptors and locks, and none of its threads. Closing a connection there takes it out of the
epoll object that both share, and what a thread had locked stays locked for ever. Hence the invariant: nothing of the parent's
is closed, woken or waited for in a child, not even when that ends, and the locks that this module makes are free there.

Files of SQLite are closed before a fork, and opened again at their next use: SQLite keeps a process's locks in memory, where a
child would take its parent's for its own. Where there is no fork (Windows), nothing of this is ever called.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

WAIT_S = 2.0
"""Seconds that a fork waits for a thread that is at work with a file."""

_kept: list[object] = []
_locks: weakref.WeakSet[Any] = weakref.WeakSet()


class Inheriting(Protocol):
    """What has something open that a child must leave alone."""

    def after_fork(self) -> None:
        """In a child: `keep` what is the parent's, and begin anew."""


class Pausing(Protocol):
    """What has something open that a child may not even have in its memory."""

    def before_fork(self) -> Callable[[], None] | None:
        """In the parent: close it, and let nobody open it until what is returned is called; None: that cannot be had."""


_inheriting: weakref.WeakSet[Inheriting] = weakref.WeakSet()
_pausing: weakref.WeakSet[Pausing] = weakref.WeakSet()
_paused: list[Callable[[], None]] = []
_forking = threading.Lock()


def inherits(owner: Inheriting) -> None:
    """Have `owner.after_fork` called in every child, as long as there is an owner."""
    _inheriting.add(owner)


def pauses(owner: Pausing) -> None:
    """Have `owner.before_fork` called before every fork, as long as there is an owner."""
    _pausing.add(owner)


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


def _prepare() -> None:
    """In the parent: import what `keep` needs, since a child could wait for ever for a module that a thread was importing."""
    with contextlib.suppress(ImportError):
        import ctypes  # noqa: F401
    _forking.acquire()
    _paused[:] = filter(None, [owner.before_fork() for owner in list(_pausing)])


def _go_on() -> None:
    paused = _paused.copy()
    _paused.clear()
    _forking.release()
    for go_on in paused:
        go_on()


@in_child
def _free_locks() -> None:
    _paused.clear()
    for each in (_forking, *_locks):
        each._at_fork_reinit()  # what the standard library's own modules do


@in_child
def _begin_anew() -> None:
    for owner in list(_inheriting):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare, after_in_parent=_go_on)
