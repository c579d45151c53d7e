"""`cluster=`: the rows are asked for on the workers of a Dask cluster; what comes back goes into the kernel's own store.

One task on each worker takes rows, permits and dollars from one `Desk` and hands its results back to it; the kernel collects
them a few times a second, puts them on disk, and only then shows them. A lost worker's rows are given to another one, and what
it had handed in is not asked again; when the desk itself is lost, a new one gets the rows that are left. The invariant: what
was filled is given back, whatever becomes of the cluster.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

from ipy_websearch.enrichment.legacy.clusters.cluster import Cluster
from ipy_websearch.enrichment.legacy.clusters.desk import Finished, Row
from ipy_websearch.enrichment.legacy.clusters.equipment import Job
from ipy_websearch.enrichment.legacy.clusters.round import Round
from ipy_websearch.enrichment.legacy.clusters.worker import work
from ipy_websearch.enrichment.legacy.outcome import Status
from ipy_websearch.enrichment.legacy.row import Asked
from ipy_websearch.enrichment.legacy.run import Enrichment
from ipy_websearch.enrichment.legacy.searching import WIKIPEDIA
from ipy_websearch.errors import ConfigError, EnrichmentError
from ipy_websearch.events import Money
from ipy_websearch.keys import Keys
from ipy_websearch.money.budget import RUN_S
from ipy_websearch.money.ledger import LEASE_S, Refused, Reservation
from ipy_websearch.providers.base import WIKIPEDIA_AT_ONCE
from ipy_websearch.settings import WebSearch
from ipy_websearch.usage import Usage

FRUITLESS = 4
"""Rounds in a row without a single finished row after which the cluster is given up."""

PAUSE_S = 1.0
"""Seconds between such rounds: Dask may not know of a loss yet."""

_NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True)
class Lent:
    """What the workers get of the session."""

    keys: Keys
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
        self._now: Round | None = None
        self._silent: set[str] = set()
        self._trouble = ""

    async def _ask_all(self, rows: list[int]) -> None:
        self._book = self._books(len(rows))
        try:
            if self._bench.budget.bounded:
                await super()._ask_all(rows[:1])  # it shows whether rows cost what they are taken to
            await self._rounds(rows)
        finally:
            self.progress.note = ""
            await asyncio.to_thread(self._cluster.close)

    async def _rounds(self, rows: Sequence[int]) -> None:
        """Ask for rows with one desk after another, until all have an outcome or nothing comes of it any more."""
        left, fruitless, first = self._left(rows), 0, True
        while left and self._stop is None:
            try:
                await self._round(left)
            except (ConfigError, EnrichmentError) as exc:  # it would recur
                if first and len(self._left(rows)) == len(rows):
                    raise
                self._give_up(str(exc))
                return
            now_left, first = self._left(left), False
            fruitless = 0 if len(now_left) < len(left) else fruitless + 1
            left = now_left
            if fruitless >= FRUITLESS:
                self._give_up(f"the Dask cluster lost its workers again and again ({self._trouble})")
            elif left and fruitless and self._stop is None:
                await asyncio.sleep(PAUSE_S)

    def _left(self, rows: Sequence[int]) -> list[int]:
        return [n for n in rows if self.outcomes[n] is None]

    def _give_up(self, why: str) -> None:
        """End the run with what there is: nothing filled is lost by a loss, but without anything filled it is an error."""
        self._gave_up = f"{why}; nothing was filled"
        filled = any(outcome is not None and outcome.status == "ok" for outcome in self.outcomes)
        self._notes.append(f"{why}; what was filled is kept: run it again for the rest")
        self._halt("interrupted" if filled else "error", why, True)

    async def _round(self, rows: Sequence[int]) -> None:
        """Ask for rows with one desk; all of them have an outcome afterwards, unless workers were lost.

        Raises:
            ConfigError: there are no workers, or they cannot load this package. EnrichmentError: a task failed.
        """
        limit = self._reserved()
        lost = _NOTHING
        before = self._requests
        try:
            self._tasks = [starting := asyncio.create_task(self._started(rows, limit))]
            await asyncio.wait(self._tasks)
            if starting.cancelled() or (started := starting.result()) is None:  # cancelled: an interrupt
                return
            self._now = self.progress.gate = started
            if self._stop is not None:
                started.halt(now=self._cut)
            try:
                await started.run()
            finally:
                self._trouble = started.trouble or self._trouble
                self._requests, lost = before + started.sent, started.lost_usd
                self._silent |= started.silent
        finally:
            self._now = None
            if lost:
                self._notes.append(f"workers that were lost may have spent {lost:.4f} USD more: that counts for the budget")
            self._settle_lost(lost)

    def _reserved(self) -> Decimal | None:
        """Reserve all that the budget leaves and return that, None without a limit."""
        self._held = Reservation(self._bench.budget.ledger, "")
        limit = self._bench.budget.left()
        if limit:
            try:
                self._held = self._bench.budget.reserve(limit, lease_s=RUN_S + LEASE_S)
            except Refused:  # another kernel was quicker; what it does not use is there for the next round
                return _NOTHING
        return limit

    def _settle_lost(self, lost: Decimal) -> None:
        """Book what lost workers may have spent, and give the rest back."""
        assert self._book is not None
        row = replace(self._book.model_row(self._bench.model, Usage(), status="error", estimated=True), cost_usd=lost)
        self._held.settle([row] if lost else [])

    async def _started(self, rows: Sequence[int], limit: Decimal | None) -> Round | None:
        """Return a round with its tasks at work, None when a worker was lost meanwhile."""
        self.progress.note = "waiting for the Dask cluster's workers"
        try:
            workers = await asyncio.to_thread(self._cluster.workers)
            await asyncio.to_thread(self._cluster.equip, self._lent.keys)
            heard = [worker for worker in workers if worker not in self._silent] or workers
            only = heard if len(heard) < len(workers) else None
            workers = heard[: self._most_workers(len(rows))]
            names = [f"task-{n}" for n in range(len(workers))]
            asked, state = [self._row_of(n) for n in rows], (names, self._options.concurrency, limit, self._scale)
            desk = await asyncio.to_thread(self._cluster.desk, asked, state, only)
        except ConfigError:
            raise
        except Exception as exc:  # whatever the loss of a worker looks like
            self._trouble = f"{type(exc).__name__}: {exc}"
            return None
        self.progress.note = ""
        job, packed = self._job(len(workers), limit), pickle.dumps(desk.actor)
        submit = partial(self._cluster.submit, work, packed, job)
        tasks = {name: submit(name, worker=worker) for name, worker in zip(names, workers, strict=True)}
        return Round(self._cluster, desk, tasks, self._take, job.timeout_s)

    def _most_workers(self, rows: int) -> int:
        """Return how many workers are of use. Wikipedia takes three requests at once, wherever they come from."""
        most = min(rows, self._options.concurrency)
        searches = self._options.max_searches > 0
        first = self._bench.provider or self._bench.router.first()
        return min(most, WIKIPEDIA_AT_ONCE) if searches and first == WIKIPEDIA else most

    def _row_of(self, n: int) -> Row:
        inputs, stored = self.plan.inputs[n], self._stored.get(n, {})
        return Row(n, tuple(c for c in self.plan.askable(inputs) if c not in stored), self.plan.values(inputs))

    def _job(self, workers: int, limit: Decimal | None) -> Job:
        bench, settings, book = self._bench, self._lent.settings, self._book
        assert book is not None
        return Job(
            plugin=self._cluster.plugin,
            model=bench.model,
            offline=bench.client.offline,
            platform=settings.platform,
            columns=self.plan.columns,
            max_searches=self._options.max_searches,
            search_share=max(self._options.concurrency // workers, 1),
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

    def _take(self, found: Sequence[Finished]) -> None:
        """Keep results that are new, book them, and fill their rows."""
        new = [finished for finished in found if finished.id not in self._seen]
        self._seen.update(finished.id for finished in new)
        for finished in new:
            if finished.status == "ok":
                asked = self._row_of(finished.row).asked
                self.keep(self.plan.inputs[finished.row], asked, finished.cells, finished.cost_usd, finished.seconds)
        if booked := [row for finished in new for row in finished.booked]:
            self._held.settle(booked, keep=self._held.usd - sum((row.cost_usd or _NOTHING for row in booked), _NOTHING))
            if self._held.usd > 0:  # it goes on for longer than one lease
                with suppress(Refused):
                    usd, id = self._held.usd, self._held.id
                    self._held = self._bench.budget.reserve(usd, lease_s=RUN_S + LEASE_S, id=id)
        for finished in new:
            self._fill(finished)

    def _fill(self, finished: Finished) -> None:
        n = finished.row
        if (known := self.outcomes[n]) is not None and known.status == "ok":  # it was asked twice, since a worker was lost
            self.cost_usd = _sum(self.cost_usd, finished.cost_usd)
            return
        if finished.status == "interrupted" and self._stop is None:  # its task has lost the desk: the row is asked again
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
        if self._now is not None:
            self._now.halt(now=now)
        super()._halt(status, error, now)


def _sum(a: Money, b: Money) -> Money:
    return None if a is None or b is None else a + b
