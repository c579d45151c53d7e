"""`cluster=`: the rows are asked for on the workers of a Dask cluster; what comes back goes into the kernel's own store.

One task on each worker takes rows, permits and dollars from one `Desk` and hands its results back to it; the kernel collects
them a few times a second, puts them on disk, and only then shows them. A lost worker's rows are given to another one, and what
it had handed in is not asked again; when the desk itself is lost, a new one gets the rows that are left.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from ipy_websearch.config import WebSearch
from ipy_websearch.credentials import Credentials
from ipy_websearch.enrichment.clusters.cluster import Cluster
from ipy_websearch.enrichment.clusters.desk import Collection, Finished, Row
from ipy_websearch.enrichment.clusters.equipment import Job
from ipy_websearch.enrichment.clusters.worker import work
from ipy_websearch.enrichment.outcome import Status
from ipy_websearch.enrichment.row import Asked
from ipy_websearch.enrichment.run import Enrichment
from ipy_websearch.errors import EnrichmentError
from ipy_websearch.events import Money
from ipy_websearch.purse import reserve_all

COLLECT_S = 0.1
ROUNDS = 4
"""How often a new desk is set up when one was lost."""

CUT_S = 1.2
"""Seconds that the workers have to hand in what they have when a run is interrupted."""

ANSWER_S, TRIES = 3.0, 5
_WIKIPEDIA_AT_ONCE = 3
_NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True)
class Lent:
    """What the workers get of the session."""

    credentials: Credentials
    settings: WebSearch
    user_agent: str


class ClusterEnrichment(Enrichment):
    """A run on a cluster; see `Enrichment` for what it does from outside."""

    def __init__(self, *parts: Any, cluster: Cluster, lent: Lent) -> None:
        super().__init__(*parts)
        self._cluster = cluster
        self._lent = lent
        self._seen: set[str] = set()
        self._cut = False
        self._news = asyncio.Event()
        self._spent = _NOTHING
        self._trouble = ""

    async def _ask_all(self, rows: list[int]) -> None:
        self._book = self._books(len(rows))
        try:
            if any(ceiling.limit is not None for ceiling in self._bench.ceilings):
                await super()._ask_all(rows[:1])  # it shows whether rows cost what they are taken to
            for _ in range(ROUNDS):
                left = [n for n in rows if self.outcomes[n] is None]
                if left and self._stop is None:
                    await self._round(left)
            if self._stop is None and any(self.outcomes[n] is None for n in rows):
                why = f"the Dask cluster lost its workers again and again ({self._trouble})"
                raise EnrichmentError(f"{why}; what was filled is kept: run it again for the rest")
        finally:
            await asyncio.to_thread(self._cluster.close)

    async def _round(self, rows: Sequence[int]) -> None:
        """Ask for rows with one desk; all of them have an outcome afterwards, unless the desk was lost."""
        workers = await asyncio.to_thread(self._cluster.workers)
        await asyncio.to_thread(self._cluster.equip, self._lent.credentials)
        workers = workers[: self._most_workers(len(rows))]
        rooms = [ceiling.room for ceiling in self._bench.ceilings if ceiling.room is not None]
        limit = max(min(rooms), _NOTHING) if rooms else None
        if limit is not None and reserve_all(self._bench.ceilings, limit) is not None:
            limit = _NOTHING  # another thread was quicker; what it does not use is there for the next call
        self._spent = lost = _NOTHING
        try:
            names = [f"task-{n}" for n in range(len(workers))]
            asked = [self._row_of(n) for n in rows]
            desk = await asyncio.to_thread(self._cluster.desk, asked, names, self._options.concurrency, limit, self._scale)
            job = self._job(len(workers), limit)
            packed = pickle.dumps(desk)
            tasks = [self._cluster.submit(work, packed, job, name, worker=w) for name, w in zip(names, workers, strict=True)]
            lost = await self._collect(desk, tasks)
        finally:
            for ceiling in self._bench.ceilings:
                ceiling.settle(limit or _NOTHING, self._spent + lost)

    def _most_workers(self, rows: int) -> int:
        """Return how many workers are of use. Wikipedia takes three requests at once, wherever they come from."""
        most = min(rows, self._options.concurrency)
        return min(most, _WIKIPEDIA_AT_ONCE) if self._options.max_searches and self._first_engine() == "wikipedia" else most

    def _first_engine(self) -> str:
        return self._bench.provider or self._bench.router.first()

    def _row_of(self, n: int) -> Row:
        inputs, stored = self.plan.inputs[n], self._stored.get(n, {})
        return Row(n, tuple(c for c in self.plan.askable(inputs) if c not in stored), self.plan.values(inputs))

    def _job(self, workers: int, limit: Decimal | None) -> Job:
        bench, settings, book = self._bench, self._lent.settings, self._book
        assert book is not None
        at_once = _WIKIPEDIA_AT_ONCE if self._first_engine() == "wikipedia" else self._options.concurrency
        return Job(
            plugin=self._cluster.plugin,
            model=bench.model,
            offline=bench.client.offline,
            platform=settings.platform,
            columns=self.plan.columns,
            max_searches=self._options.max_searches,
            search_share=max(at_once // workers, 1),
            provider=bench.provider,
            defaults=bench.defaults,
            search_tools=dict(settings.search_tools),
            cache_ttl_s=settings.cache_ttl_s,
            user_agent=self._lent.user_agent,
            session=book.session,
            question_id=book.question_id,
            question=book.question,
            notebook=book.notebook,
            timeout_s=bench.timeout_s,
            limit=limit,
        )

    # --- collecting -------------------------------------------------------------------------------------------------

    async def _collect(self, desk: Any, tasks: Sequence[Any]) -> Decimal:
        """Take in what the workers hand in, until they have ended; return what lost ones may have spent."""
        requests, deadline = self._requests, float("inf")
        found: Collection | None = Collection([], 0, _NOTHING)
        lost = _NOTHING
        ended = False
        while found is not None:
            lost, self._requests = found.lost_usd, requests + found.sent
            if ended:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(COLLECT_S):
                    await self._news.wait()
            self._news.clear()
            deadline = min(deadline, time.monotonic() + CUT_S) if self._cut else deadline
            ended = all(task.done() for task in tasks) or time.monotonic() > deadline
            found = await self._visit(desk, found)
        while not all(task.done() for task in tasks) and time.monotonic() < deadline:  # the desk is lost, they will end
            await asyncio.sleep(COLLECT_S)
            deadline = min(deadline, time.monotonic() + CUT_S) if self._cut else deadline
        await self._gather(tasks)
        return lost

    async def _visit(self, desk: Any, before: Collection) -> Collection | None:
        """Collect at the desk what is new; None when its worker is gone: the tasks end by themselves, with what they have."""
        kept = [finished.id for finished in before.finished]
        try:
            # Not awaited: an actor's future hangs in another event loop than Dask's own.
            call = partial(_collected, desk, kept, self._cut, self._stop is not None)
            found = await asyncio.to_thread(call)
        except Exception as exc:  # whatever the loss of a worker looks like
            self._trouble = f"{type(exc).__name__}: {exc}"
            return None
        self._take(found.finished)
        return found

    async def _gather(self, tasks: Sequence[Any]) -> None:
        """Take what the tasks return: results that the desk could not hand on any more."""
        for task in tasks:
            if not task.done():
                await asyncio.to_thread(task.cancel, force=True)
            elif task.status == "finished":
                self._take(await asyncio.to_thread(task.result, 30.0))
            else:
                exc = await asyncio.to_thread(task.exception)
                self._trouble = f"{type(exc).__name__}: {exc}"
                if not type(exc).__module__.startswith(("distributed", "asyncio", "concurrent")):  # no loss: it would recur
                    raise EnrichmentError(f"a task on the Dask cluster failed: {self._trouble}")

    def _take(self, found: Sequence[Finished]) -> None:
        """Keep results that are new, book them, and fill their rows."""
        new = [finished for finished in found if finished.id not in self._seen]
        self._seen.update(finished.id for finished in new)
        for finished in new:
            if finished.status == "ok":
                asked = self._row_of(finished.row).asked
                self.keep(self.plan.inputs[finished.row], asked, finished.cells, finished.cost_usd, finished.seconds)
        if booked := [row for finished in new for row in finished.booked]:
            self._bench.ledger.book_all(booked)
        for finished in new:
            self._spent += finished.cost_usd or _NOTHING
            self._fill(finished)

    def _fill(self, finished: Finished) -> None:
        n = finished.row
        if (known := self.outcomes[n]) is not None and known.status == "ok":  # it was asked twice, since a worker was lost
            self.cost_usd = _sum(self.cost_usd, finished.cost_usd)
            return
        asked = Asked(finished.status, finished.error, finished.cells)
        outcome = self._outcome(n, self._stored.get(n, {}), self._row_of(n).asked, asked)
        self._finish(n, outcome, finished)
        if finished.status == "budget":
            self._halt("budget", finished.error, False)

    def _halt(self, status: Status, error: str, now: bool) -> None:
        """Take no more rows; `now` also cuts off those under way, on all workers."""
        self._stop = self._stop or (status, error)
        self._cut = self._cut or now
        self._news.set()
        super()._halt(status, error, now)


def _collected(desk: Any, kept: Sequence[str], stop: bool, drop: bool) -> Collection:
    """Return what the desk has; a desk that is slow is asked again, one whose worker Dask knows to be lost is not."""
    for _ in range(TRIES):
        with suppress(TimeoutError):
            found: Collection = desk.collect(kept, stop, drop).result(timeout=1.0 if stop else ANSWER_S)
            return found
        if stop:
            break
    raise TimeoutError("the desk does not answer")


def _sum(a: Money, b: Money) -> Money:
    return None if a is None or b is None else a + b
