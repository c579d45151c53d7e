"""The one place of a cluster that knows what is left to do: rows, permits and dollars are leased from it in blocks.

A `Desk` is a Dask actor: it lives on one worker, its methods run one after the other, and nothing in it waits. The workers
come by a few times a second with what they have finished and take along what they need; the kernel comes by to collect. The
invariant: a row is in the queue, leased to one task, or done, and leases and spending together never pass the limit. Rows and
money of a task that had to begin anew, because its worker was lost, come back: what it may have spent counts as spent.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from ipy_websearch.enrichment.legacy.outcome import Cell, Status

_NOTHING = Decimal(0)


class Row(NamedTuple):
    """A row to ask for: its number, the numbers of the columns, its inputs by column name."""

    number: int
    asked: tuple[int, ...]
    inputs: Mapping[str, str | None]


@dataclass(slots=True)
class Finished:
    """What came of a row on a worker; `id` tells it from any other, `booked` are its rows of the ledger."""

    id: str
    row: int
    status: Status
    error: str
    cells: tuple[Cell, ...]
    cost_usd: Decimal | None
    seconds: float
    booked: list[Any]


@dataclass(slots=True)
class Word:
    """What a task says when it comes by: what it finished since, what it has (rows), wants (rows) and is being used.

    `spent` and `held` are dollars since it began, `need` how many more it could use, `least` the fewest that would help.
    `floor_s` is the `retry-after` that it was given, `sent` its requests so far, `scale` what rows cost by what was expected.
    """

    task: str
    run: str
    finished: list[Finished] = field(default_factory=list)
    wants: int = 0
    spent: Decimal = _NOTHING
    held: Decimal = _NOTHING
    need: Decimal = _NOTHING
    least: Decimal = _NOTHING
    floor_s: float = 0.0
    sent: int = 0
    scale: Decimal = Decimal(1)


@dataclass(slots=True)
class Order:
    """What a task is told: further rows, how many requests at once, what it may have spent in all (None: no limit).

    `kept` are the ids of results that are on the kernel's disk now. `dry`: no money is left, nor can any come back. `over`:
    there is nothing more for it to do. `stop`: cut off what is under way. `more`: there are rows that nobody has yet.
    """

    rows: list[Row]
    permits: int
    lease: Decimal | None
    floor_s: float
    scale: Decimal
    kept: list[str]
    dry: bool = False
    over: bool = False
    stop: bool = False
    more: bool = False


@dataclass(slots=True)
class _Task:
    run: str = ""
    rows: dict[int, Row] = field(default_factory=dict)
    spent: Decimal = _NOTHING
    held: Decimal = _NOTHING
    lease: Decimal = _NOTHING
    sent: int = 0
    over: bool = False
    kept: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Collection:
    """What the kernel is given: results, the requests sent so far, and the dollars that lost workers may have spent.

    `left` rows are not finished, `at_risk` is what each task may have spent that it has not told of, and for `floor_s` seconds
    nothing is sent, because the API said so.
    """

    finished: list[Finished]
    sent: int
    lost_usd: Decimal
    left: int = 0
    at_risk: Mapping[str, Decimal] = field(default_factory=dict)
    floor_s: float = 0.0


class Desk:
    """The state of one run on a cluster; `limit` is what it may spend in US dollars (None: no limit)."""

    def __init__(self, tasks: Sequence[str], concurrency: int, limit: Decimal | None, scale: Decimal) -> None:
        self._queue: deque[Row] = deque()
        self._tasks = {name: _Task() for name in tasks}
        self._concurrency = concurrency
        self._limit = limit
        self._scale = scale
        self._gone = self._lost = _NOTHING  # spent by tasks that were lost, and what they may have spent besides
        self._sent_before = 0
        self._floor_at = 0.0
        self._finished: dict[str, tuple[str, Finished]] = {}
        self._stop = False

    def add(self, rows: Sequence[Row]) -> None:
        """Put rows into the queue."""
        self._queue.extend(rows)

    def begin(self, name: str, run: str) -> None:
        """Let a task begin; one that has begun before has lost its worker, and its rows come back."""
        task = self._tasks[name]
        self._queue.extendleft(reversed(task.rows.values()))
        self._gone += task.spent
        self._lost += max(task.lease - task.spent, _NOTHING)
        self._sent_before += task.sent
        self._tasks[name] = _Task(run)

    def exchange(self, word: Word) -> Order:
        """Take what a task has to say, and tell it what to do."""
        for finished in word.finished:
            self._finished[finished.id] = (word.task, finished)
            for other in self._tasks.values():
                other.rows.pop(finished.row, None)
        task = self._tasks[word.task]
        if task.run != word.run:  # it was given up for lost, and its rows are another's now
            return Order([], 0, self._limit and _NOTHING, 0.0, self._scale, [], stop=True)
        task.spent, task.held, task.sent = word.spent, word.held, word.sent
        self._scale = max(self._scale, word.scale)
        rows = self._rows(task, word.wants)
        task.over = not task.rows and not self._queue
        lease, dry = self._lease(task, word)
        kept, task.kept = task.kept, []
        order = Order(rows, self._permits(word.task), lease, self._floor(word), self._scale, kept, dry, task.over, self._stop)
        order.more = bool(self._queue)
        return order

    def collect(self, kept: Sequence[str], stop: bool, drop: bool) -> Collection:
        """Take note of what is on the kernel's disk by now, and return what is not; `drop` ends the queue, `stop` the run."""
        for id in kept:
            if (entry := self._finished.pop(id, None)) is not None:
                self._tasks[entry[0]].kept.append(id)
        self._stop = self._stop or stop
        if stop or drop:
            self._queue.clear()
        sent = self._sent_before + sum(task.sent for task in self._tasks.values())
        left = len(self._queue) + sum(len(task.rows) for task in self._tasks.values())
        at_risk = {name: max(task.lease - task.spent, _NOTHING) for name, task in self._tasks.items()}
        floor_s = max(self._floor_at - time.monotonic(), 0.0)
        found = [finished for _, finished in self._finished.values()]
        return Collection(found, sent, self._lost, left, at_risk, floor_s)

    def _lease(self, task: _Task, word: Word) -> tuple[Decimal | None, bool]:
        """Return what a task may have spent in all, and whether no more can ever come."""
        if self._limit is None:
            return None, False
        used = word.spent + word.held
        others = sum((other.lease for other in self._tasks.values() if other is not task), _NOTHING)
        free = max(self._limit - self._gone - self._lost - others - used, _NOTHING)
        more = _NOTHING if task.over else min(word.need, free)
        task.lease = used + (more if more >= word.least else _NOTHING)
        idle = all(other.lease <= other.spent for other in self._tasks.values() if other is not task)
        return task.lease, bool(word.least) and more < word.least and idle

    def _rows(self, task: _Task, wanted: int) -> list[Row]:
        """Lease rows, fewer towards the end, so that all tasks end at about the same time."""
        busy = sum(not other.over for other in self._tasks.values()) or 1
        number = min(wanted, -(-len(self._queue) // busy))
        rows = [self._queue.popleft() for _ in range(number)]
        task.rows.update((row.number, row) for row in rows)
        return rows

    def _permits(self, name: str) -> int:
        """Return a task's share of the requests that may be under way."""
        busy = [other for other, task in self._tasks.items() if not task.over or other == name]
        share, rest = divmod(self._concurrency, len(busy))
        return max(share + (busy.index(name) < rest), 1)

    def _floor(self, word: Word) -> float:
        """Return for how many seconds nothing may be sent by any task, because one of them was told so."""
        now = time.monotonic()
        if now + word.floor_s > self._floor_at:
            self._floor_at = now + word.floor_s
        return max(self._floor_at - now, 0.0)
