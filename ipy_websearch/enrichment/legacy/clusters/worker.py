"""What runs on a cluster's worker: rows from the desk, results back to it, until there are no more."""

from __future__ import annotations

import asyncio
import pickle
import time
import uuid
from contextlib import suppress
from decimal import Decimal
from itertools import count
from typing import Any

from distributed import get_worker, secede

from ipy_websearch.enrichment.legacy.clusters.desk import Finished, Order, Row, Word
from ipy_websearch.enrichment.legacy.clusters.equipment import Equipment, Job
from ipy_websearch.enrichment.legacy.clusters.leased import LeasedFunds
from ipy_websearch.enrichment.legacy.row import Asked, RowAsker, make_recipe
from ipy_websearch.enrichment.legacy.schedule import Gate
from ipy_websearch.enrichment.legacy.sender import Account, Sender
from ipy_websearch.money.booking import Booking
from ipy_websearch.money.ledger import LedgerRow
from ipy_websearch.options import EnrichOptions

EXCHANGE_S, SOONEST_S, LISTEN_S = 0.2, 0.02, 0.5
"""How often a task goes to the desk, how soon again when it has run out of rows or money, and how often it looks up from
waiting for the desk's answer whether it was told that the desk is lost."""

LOST_S = 8.0
"""Seconds after which a desk that does not answer is given up."""


def work(packed: bytes, job: Job, task: str) -> list[Finished] | None:
    """Ask for rows until the desk has none; return what could not be handed to it any more, None when it was lost already.

    The desk comes packed: as a plain argument the task would depend on it, and be dropped with its results when it is lost.
    """
    desk = pickle.loads(packed)
    equipment: Equipment | None = get_worker().plugins.get(job.plugin)
    if equipment is None:  # the run has ended meanwhile
        return None
    secede()  # nearly all the time is spent waiting: other tasks may have the thread
    run = uuid.uuid4().hex
    try:
        _answer(desk.begin(task, run), desk, equipment)
    except Exception:  # it is lost: the kernel makes another one
        return None
    shift = Shift(desk, job, task, run, equipment)
    return asyncio.run_coroutine_threadsafe(shift.work(), equipment.loop).result()


class Shift:
    """One task's work; all of it happens in the equipment's event loop."""

    def __init__(self, desk: Any, job: Job, task: str, run: str, equipment: Equipment) -> None:
        self._desk, self._task, self._run = desk, task, run
        self._equipment = equipment
        self._bench = equipment.bench(job)
        self._options = EnrichOptions(None, {}, concurrency=job.search_share, max_searches=job.max_searches)
        self._job = job
        self._backlog: list[Row] = []
        self._asking: dict[asyncio.Task[None], Row] = {}
        self._finished: dict[str, Finished] = {}  # not on the kernel's disk yet
        self._told: set[str] = set()
        self._permits = 0
        self._more = True
        self._serial = count()

    async def work(self) -> list[Finished]:
        """Go on until there is nothing more to do; return the results that nobody has confirmed."""
        self._urgent = asyncio.Event()
        self._funds = LeasedFunds(self._job.model, self._job.limit is not None, self._urgent.set)
        self._gate = Gate(1)
        sender = Sender(self._bench.client, self._gate, self._funds, self._job.timeout_s)
        recipe = make_recipe(self._bench, self._options)
        job = self._job
        booking = Booking(self._bench.ledger, job.session, job.question_id, job.question, job.notebook)
        self._asker = RowAsker(recipe, job.columns, sender, booking)
        try:
            while await self._exchange():
                self._start()
                await self._until_next()
        finally:
            await self._end()
        return list(self._finished.values())

    async def _until_next(self) -> None:
        """Wait for a moment, shorter when rows or money run out."""
        self._urgent.clear()
        await asyncio.sleep(SOONEST_S)
        if self._hungry:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(EXCHANGE_S - SOONEST_S):
                await self._urgent.wait()

    async def _exchange(self) -> bool:
        """Go to the desk; return whether there is more to do."""
        news = [finished for id, finished in self._finished.items() if id not in self._told]
        word = Word(self._task, self._run, news, wants=self._wants(), sent=self._asker.sender.sent, scale=self._funds.scale)
        word.spent, word.held = self._funds.spent, self._funds.held
        word.need, word.least = self._funds.needed(self._permits if self._backlog or word.wants else 0)
        word.floor_s = self._gate.floor_s
        try:
            # Not awaited: an actor's future is tied to the worker's own event loop, and would hang in this one.
            order: Order = await asyncio.to_thread(lambda: _answer(self._desk.exchange(word), self._desk, self._equipment))
        except Exception:  # whatever kind of error the loss of the desk's worker is: what is under way is finished
            self._backlog.clear()
            await self._see_through()
            return False
        self._told.update(finished.id for finished in news)
        for id in order.kept:
            self._finished.pop(id, None)
        self._permits, self._more = order.permits, order.more
        self._gate.resize(order.permits)
        self._gate.hold(order.floor_s)
        self._funds.take(order.lease, order.dry, order.scale)
        self._backlog.extend(order.rows)
        return not order.stop and not (order.over and not self._asking and not self._backlog)

    async def _see_through(self) -> None:
        """Wait for what is under way, for as long as one request may take.

        Not waited for are rows that wait for a far time at which the API may be asked again.
        """
        start = time.monotonic()
        while self._asking and (waited := time.monotonic() - start) < self._job.timeout_s:
            await asyncio.wait(self._asking, timeout=EXCHANGE_S)
            idle = not self._gate.in_flight and self._gate.floor_s > self._job.timeout_s - waited
            if idle:
                return

    def _wants(self) -> int:
        """Return how many rows to take along: enough until the next visit, and one as long as the permits are not known."""
        return max(2 * self._permits - len(self._asking) - len(self._backlog), 0) if self._permits else 1

    @property
    def _hungry(self) -> bool:
        return self._more and len(self._backlog) * 2 < self._permits

    def _start(self) -> None:
        """Begin with as many rows as may be under way."""
        while self._backlog and len(self._asking) < self._permits:
            row = self._backlog.pop(0)
            task = asyncio.create_task(self._ask(row))
            self._asking[task] = row
            task.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking.pop(task, None)
        self._start()
        if self._hungry or not self._asking:
            self._urgent.set()

    async def _ask(self, row: Row) -> None:
        asked = Asked()
        try:
            await self._asker.ask(asked, row.asked, row.inputs)
        finally:
            self._note(row, asked)

    def _note(self, row: Row, asked: Asked) -> None:
        """Keep what came of a row until the kernel has it."""
        account: Account | None = asked.account
        booked: list[LedgerRow] = []
        if account is not None:
            booked, account.rows = account.rows, []
            account.close()
        id = f"{self._run}-{next(self._serial)}"
        cost = account.cost_usd if account else Decimal(0)
        seconds = account.seconds if account else 0.0
        self._finished[id] = Finished(id, row.number, asked.status, asked.error, asked.cells, cost, seconds, booked)

    async def _end(self) -> None:
        """Cut off what is still under way; what it has cost is told like the rest."""
        self._backlog.clear()
        tasks = list(self._asking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _answer(said: Any, desk: Any, equipment: Equipment) -> Any:
    """Return what a desk answers to `said`, or raise what its loss looks like. This blocks."""
    until = time.monotonic() + LOST_S
    while True:
        with suppress(TimeoutError):
            return said.result(timeout=LISTEN_S)
        if time.monotonic() > until or desk.key in equipment.lost_desks:
            raise TimeoutError("the desk does not answer")
