"""What happened in calls waits a moment before it is written, with that of others: a transaction takes as long for many rows.

However long a call goes on, a kill of the process loses no more than `KEPT_S` seconds of it, and the process's end nothing. A
thread sees to that: no event loop may be running by then. In forked processes what has ended does not wait.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from typing import Protocol

from ipy_websearch.ledger import Ledger
from ipy_websearch.ledger_rows import LedgerRow

KEPT_S = 0.5
"""Seconds for which what happened waits."""


class Happened(Protocol):
    """A call with something that is not booked yet."""

    def book_waiting(self) -> None:
        """Book it now; called in any thread."""


class Rows:
    """A ledger whose rows wait for those of other calls."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def book(self, row: LedgerRow) -> None:
        """Have a row written soon; in a forked process, now."""
        self._ledger.keep((row,))
        self._soon()

    def wait(self, call: Happened) -> None:
        """Have what happened in a call booked soon, unless it has ended by then."""
        _waiting.append(weakref.ref(call))
        self._soon()

    def _soon(self) -> None:
        timer = _timers.get(self._ledger)
        if timer is None or not timer.is_alive():
            timer = _timers[self._ledger] = threading.Timer(KEPT_S, _write_soon, (self._ledger,))
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError:  # no thread begins any more when Python ends
                _write_soon(self._ledger)


_timers: weakref.WeakKeyDictionary[Ledger, threading.Timer] = weakref.WeakKeyDictionary()
_waiting: deque[weakref.ref[Happened]] = deque()


def _write_soon(ledger: Ledger) -> None:
    _timers.pop(ledger, None)  # it holds the ledger, which otherwise would stay open for ever
    _book_waiting()
    ledger.write_held()


def _book_waiting() -> None:
    while _waiting:
        call = _waiting.popleft()()
        if call is not None:
            call.book_waiting()


@atexit.register
def _write_held() -> None:
    """Write what still waits when the process ends."""
    _book_waiting()
    for ledger in list(_timers):
        ledger.write_held()
