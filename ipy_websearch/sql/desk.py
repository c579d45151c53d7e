"""Where the rows of a query queue up: each distinct one is asked once, a bounded number at a time, and none after a stop.

`Desk.serve` is called by DuckDB's threads, one chunk of a query each; the work runs on the background loop of `api`. Equal
rows that other chunks or queries are asking at the moment are waited for, not asked again. A row that failed is asked again
by the next query, but not by the same one, which calls its functions up to three times.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from typing import Any

from ipy_websearch import background
from ipy_websearch.enrichment.report import alike
from ipy_websearch.providers.router import SingleFlight
from ipy_websearch.sql.interrupts import KEPT_S, WATCH, Place
from ipy_websearch.text import shorten

SAME_FAILURES = 20
"""More equal failures than this before anything has succeeded end a chunk."""

TICK_S = 0.1
_SHOWN_INPUTS, _SHOWN_CHARS = 3, 60

Row = tuple[str, ...]
_desks: weakref.WeakSet[Desk] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a row: a value, or the `error` why it is NULL.

    `note` is what the user should know although there is a value. A `kept` outcome is found again without asking. `fatal`
    says that every other row would fail in the same way.
    """

    value: Any = None
    error: str = ""
    note: str = ""
    kept: bool = False
    fatal: bool = False


class Desk:
    """Asks rows with `ask`; `find` gives those of which the outcome is known already (their numbers in the list).

    `ask` may not raise for a row's own troubles. At most `concurrency` rows are asked at once, over all queries.
    """

    def __init__(
        self,
        ask: Callable[[Row], Awaitable[Outcome]],
        concurrency: int,
        find: Callable[[Sequence[Row]], dict[Row, Outcome]] = lambda rows: {},
    ) -> None:
        self._ask = ask
        self._find = find
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._flights: SingleFlight[Outcome] = SingleFlight()
        self._recent: dict[Row, tuple[Place, Outcome]] = {}
        self._stopped: Place | None = None
        self._lock = threading.Lock()
        _desks.add(self)

    def serve(self, rows: Iterable[Row], place: Place | None) -> tuple[dict[Row, Outcome], dict[Row, Outcome]]:
        """Return the outcome of each distinct row, and of those the ones that this query has not been told of before.

        `place` is where the query was called from, as far as it is known.

        Raises:
            KeyboardInterrupt: the user stopped the query; nothing more is sent for it.
        """
        distinct = list(dict.fromkeys(rows))
        told = self._remembered(distinct)
        new = self._wait_for([row for row in distinct if row not in told])
        if place is not None:
            self._remember({row: outcome for row, outcome in new.items() if not outcome.kept}, place)
        return {**told, **new}, new

    # --- in DuckDB's threads ----------------------------------------------------------------------------------------

    def _wait_for(self, rows: list[Row]) -> dict[Row, Outcome]:
        if not rows:
            return {}
        heard = WATCH.heard()
        task = background.Task(partial(self._ask_all, rows))
        try:
            while not wait([task.future], TICK_S).done:
                if self._is_stopped():
                    raise KeyboardInterrupt
                if WATCH.heard() > heard:
                    raise KeyboardInterrupt
            return task.future.result()
        except KeyboardInterrupt:
            self._stopped = self._stopped or Place.of_main_thread()
            task.cancel()
            self._let_go()
            raise KeyboardInterrupt("the query was stopped; what was answered by then is not asked again") from None

    def _is_stopped(self) -> bool:
        """Say whether the query under way was stopped; DuckDB calls its functions again even so."""
        if self._stopped is not None and not self._stopped.is_waiting():
            self._stopped = None
        return self._stopped is not None

    def _remembered(self, rows: Sequence[Row]) -> dict[Row, Outcome]:
        """Return what the query under way has been told already."""
        if self._is_stopped():
            raise KeyboardInterrupt("the query was stopped")
        self._forget()
        with self._lock:
            return {row: self._recent[row][1] for row in rows if row in self._recent}

    def leave(self) -> None:
        """Let go of all places at once."""
        self._recent, self._stopped = {}, None

    def _forget(self) -> None:
        """Forget what queries were told that have ended by now."""
        with self._lock:
            there = {place for place in {place for place, _ in self._recent.values()} if place.is_waiting()}
            self._recent = {row: kept for row, kept in self._recent.items() if kept[0] in there}

    def _remember(self, outcomes: dict[Row, Outcome], place: Place) -> None:
        if outcomes:
            with self._lock:
                self._recent.update({row: (place, outcome) for row, outcome in outcomes.items()})
            self._let_go()

    def _let_go(self) -> None:
        """Forget places in a while: their frames hold the caller's variables."""

        def forget() -> None:
            self._is_stopped()
            self._forget()

        timer = threading.Timer(KEPT_S + 0.1, forget)
        timer.daemon = True  # Python need not wait for it when it ends
        timer.start()

    # --- on the background loop -------------------------------------------------------------------------------------

    async def _ask_all(self, rows: Sequence[Row]) -> dict[Row, Outcome]:
        outcomes = self._find(rows)
        missing = [row for row in rows if row not in outcomes]
        queue, verdict = iter(missing), _Verdict()
        slots = [self._slot(queue, outcomes, verdict) for _ in range(min(self._concurrency, len(missing)))]
        await asyncio.gather(*slots)
        return outcomes

    async def _slot(self, queue: Iterator[Row], outcomes: dict[Row, Outcome], verdict: _Verdict) -> None:
        for row in queue:
            if verdict.last is not None:
                outcomes[row] = verdict.last
                continue
            outcomes[row] = outcome = await self._shared(row)
            verdict.take(outcome)

    async def _shared(self, row: Row) -> Outcome:
        async def ask() -> Outcome:
            async with self._slots:
                known = self._find([row])  # another query may have asked it since this one looked
                return known[row] if row in known else await self._ask(row)

        return (await self._flights.share(repr(row), ask))[0]


@atexit.register
def _leave_all() -> None:
    """Let go of the callers' frames: DuckDB complains loudly of connections that are still held when Python ends."""
    for desk in list(_desks):
        desk.leave()


class _Verdict:
    """Judges whether the rest of a chunk is worth asking; `last` is the failure that ended it."""

    def __init__(self) -> None:
        self.last: Outcome | None = None
        self._message = ""
        self._count = 0
        self._succeeded = False

    def take(self, outcome: Outcome) -> None:
        """Take note of a row's outcome."""
        self._succeeded = self._succeeded or not outcome.error
        if not outcome.error:
            return
        message = alike(outcome.error)
        self._message, self._count = message, self._count + 1 if message == self._message else 1
        if outcome.fatal or (not self._succeeded and self._count > SAME_FAILURES):
            self.last = outcome


def warn(function: str, outcomes: dict[Row, Outcome]) -> None:
    """Warn once of all rows that failed, and of those that have a note; equal messages together, with the inputs."""
    groups: dict[str, list[Row]] = {}
    says: dict[str, str] = {}
    for row, outcome in outcomes.items():
        if message := outcome.error or outcome.note:
            key = f"{bool(outcome.error)}{alike(message)}"
            groups.setdefault(key, []).append(row)
            says.setdefault(key, message if outcome.error else f"{message} (these have values)")
    if groups:
        failed = sum(bool(outcome.error) for outcome in outcomes.values())
        head = f"{function}: {failed} of {len(outcomes)} inputs failed and are NULL" if failed else f"{function}: have a look"
        lines = [f"{says[key]}, for {_listed(rows)}" for key, rows in groups.items()]
        text = "; ".join([head, *lines]) if len(lines) == 1 else "\n  ".join([head, *lines])
        # Without a registry, so that the same failure is told again when it happens again.
        warnings.warn_explicit(text, UserWarning, "ipy_websearch.sql", 1)


def _listed(rows: Sequence[Row]) -> str:
    shown = ", ".join(shown_row(row) for row in rows[:_SHOWN_INPUTS])
    return shown + (f" and {len(rows) - _SHOWN_INPUTS:,} more" if len(rows) > _SHOWN_INPUTS else "")


def shown_row(row: Row) -> str:
    """Return a row's inputs as they stand in a message, cut to a readable length."""
    return f"({', '.join(repr(shorten(value, _SHOWN_CHARS)) for value in row)})"
