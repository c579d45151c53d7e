"""The ceiling of a day, which all kernels with one ledger share.

A reservation and the look at what the others have spent and hold are one write transaction of the ledger's file, so that of two
kernels that want the last cent one gets it. The invariant: the day's rows, what other kernels hold, and what this one has
reserved or spent without a row (`_unbooked`) never pass the limit together, and each amount is in there once: the line in the
file is lowered in the transaction that writes the rows.

Without a limit none of this happens. Where the file cannot be used, the ledger warns, and this kernel counts for itself.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from datetime import time as midnight
from decimal import Decimal

from ipy_websearch import ledger_day
from ipy_websearch.ledger import Ledger
from ipy_websearch.ledger_day import UNBOOKED_S, Day, Line
from ipy_websearch.ledger_rows import LedgerRow
from ipy_websearch.purse import Ceiling

LOOK_S = 0.005
"""Seconds for which what the others have is taken as known when the room is asked for; a reservation always looks."""

_NOTHING = Decimal(0)


class DayCeiling(Ceiling):
    """A ceiling whose `spent` has what other kernels hold in it. Call `watch` after `limit` was set."""

    def __init__(self, ledger: Callable[[], Ledger]) -> None:
        super().__init__("day's budget", None, "%cost --day-budget USD")
        self._ledger = ledger
        self._watched: Ledger | None = None
        self._line = Line()
        self._day = Day()
        self._unbooked = _NOTHING  # spent, and its row is not in the file yet
        self._alone_on: date | None = None
        self._looked_at = self._settled_at = -math.inf

    def watch(self) -> None:
        """Begin to count with the others, or to stop it: as `limit` says now."""
        ledger = self._ledger() if self.limit is not None else None
        if ledger is not self._watched:
            self._part()
            self.cut_off = _NOTHING
            if ledger is not None:
                ledger.write_held()
                ledger.on_write = self._booked
                ledger.transact(self._join)
            self._watched = ledger
        self._look()

    @property
    def room(self) -> Decimal | None:
        """What is left, None without a limit."""
        if self.limit is None:
            return None
        self._look()
        return self.limit - self.spent - self.reserved

    @property
    def elsewhere(self) -> Decimal:
        """What other processes have reserved, which counts as spent: what they do not spend comes back."""
        return self._day.reserved

    def reserve(self, usd: Decimal) -> bool:
        """Take `usd` off the room that all kernels share, unless it does not fit."""
        ledger, limit, took = self._watched, self.limit, False
        if ledger is None or limit is None:
            return super().reserve(usd)

        def work(connection: sqlite3.Connection) -> bool:
            nonlocal took
            with self._lock:
                self._see(connection)
                if usd > limit - self.spent - self.reserved:
                    return False
                self._line.put(connection, self.reserved + usd, self._unbooked)
                self.reserved += usd
                took = True
                return True

        done = None
        try:
            done = ledger.transact(work)
        finally:
            if took and done is None:
                super().settle(usd, _NOTHING)
        if done is not None:
            return done
        self._count_alone()
        return super().reserve(usd)

    def settle(self, reserved: Decimal, spent: Decimal) -> None:
        """Replace a reservation by what was spent."""
        if (ledger := self._watched) is None:
            return super().settle(reserved, spent)
        if not reserved and not spent:
            return
        with self._lock:
            self._here()
            self.reserved = max(self.reserved - reserved, _NOTHING)  # a forked process did not reserve what its parent did
            self.spent += spent
            self._unbooked += spent
            self._settled_at = time.monotonic()
        ledger.transact(self._publish)

    def _booked(self, connection: sqlite3.Connection, rows: Sequence[LedgerRow]) -> Callable[[], None]:
        """Take rows off the line, in the transaction that writes them; return what undoes that when it fails."""
        costs = (row.cost_usd for row in rows)
        usd = sum((cost for cost in costs if cost is not None and cost.is_finite()), _NOTHING)
        with self._lock:
            self._here()
            before = self._unbooked
            # More than was held was never held: rows that passed no ceiling.
            self._unbooked = max(before - usd, -self.reserved)
            self._line.put(connection, self.reserved, self._unbooked)
            taken = before - self._unbooked

        def undo() -> None:
            with self._lock:
                self._unbooked += taken

        return undo

    def _join(self, connection: sqlite3.Connection) -> None:
        self._day.clear(connection)
        self._publish(connection)

    def _publish(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            self._line.put(connection, self.reserved, self._unbooked)

    def _look(self) -> None:
        ledger = self._watched
        if ledger is None or (time.monotonic() - self._looked_at < LOOK_S and self._line.pid == os.getpid()):
            return

        def work(connection: sqlite3.Connection) -> bool:
            with self._lock:
                self._see(connection)
            return True

        if ledger.look(work) is None:
            self._count_alone()

    def _see(self, connection: sqlite3.Connection) -> None:
        """Bring `spent` up to date; the caller has the lock."""
        self._here()
        today = ledger_day.utc_today()
        if self._day.date != today:
            self.cut_off = _NOTHING
        if self._day.date != today and time.monotonic() - self._settled_at > UNBOOKED_S:
            self._unbooked = min(self._unbooked, _NOTHING)  # what got no row (a worker was lost, say) was yesterday's
        self.spent = self._day.taken(connection, today, self._line) + self._unbooked
        self._looked_at = time.monotonic()

    def _count_alone(self) -> None:
        """Count what this kernel knows of: what is under way may have no row yet, so the sum is read when all is quiet."""
        today = ledger_day.utc_today()
        if self._watched is None or (self.reserved and self._alone_on == today):
            return
        with contextlib.suppress(sqlite3.Error):
            self.begin_anew(self._watched.total(since=datetime.combine(today, midnight(), UTC))[0])
            self._alone_on = today

    def _part(self) -> None:
        """Take the line away: there is no ceiling any more, or another ledger."""
        ledger, self._watched = self._watched, None
        if ledger is not None:
            ledger.on_write = None
            line, self._line, self._unbooked = self._line, Line(), _NOTHING
            ledger.transact(lambda connection: line.put(connection, _NOTHING, _NOTHING))

    def _here(self) -> None:
        """In a forked process, begin with a line of its own; the caller has the lock."""
        if self._line.pid != os.getpid():
            self._line, self._day = Line(), Day()
            self.reserved = self._unbooked = self.cut_off = _NOTHING
