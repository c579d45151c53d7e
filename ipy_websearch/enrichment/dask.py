"""A run on the workers of a Dask cluster: one store, one budget, one rate, whatever becomes of the workers.

- A `WorkerPlugin` gives each worker keys, addresses and one client, once; they leave with it.
- The driver cuts rows into tasks of at most `TASK_ROWS` and gives each to the worker with the fewest rows. A worker runs the
  rows of all its tasks under one limiter, whose share of the concurrency comes with each task. (A `distributed.Semaphore` takes
  1 to 3 ms a row, and a lost worker's leases come back after 30 s only.)
- Each row that ends is sent by `log_event` and stored at once. When a worker is lost, its rows that were not stored are asked
  again by others. A `retry-after` is sent as well, and holds for all later tasks. The driver reserves the worst case of the
  tasks under way, and nothing more.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from distributed import Client, WorkerPlugin, get_worker, secede

from ipy_websearch import background
from ipy_websearch.enrichment.columns import Column
from ipy_websearch.enrichment.limiter import ConcurrencyLimiter
from ipy_websearch.enrichment.report import Outcome
from ipy_websearch.enrichment.row import PROBES, Row, RowConfig, Searches, max_tokens, request_body, row_text
from ipy_websearch.errors import BudgetExceededError, ConfigError, EnrichmentError
from ipy_websearch.keys import KEYS
from ipy_websearch.model.requests import estimate_tokens, user_message
from ipy_websearch.money.budget import GROWTH_TOKENS, Booking, RunBudget
from ipy_websearch.money.ledger import LedgerRow, Reservation
from ipy_websearch.money.prices import add_money, charges_cost, worst_case
from ipy_websearch.settings import OFFLINE_MODEL, WebSearch

if TYPE_CHECKING:
    from ipy_websearch.enrichment.run import Enrichment
    from ipy_websearch.session import Session

TASK_ROWS = 25
# Seconds between two looks at what is under way and which workers are there.
TICK_S = 0.05

WAIT_S = 30.0
# Seconds that are waited for the last events of rows that were cut off.
CUT_OFF_S = 1.0

TASK_LEASE_S = 900.0
_ADDRESSES = ("_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "IPY_WEBSEARCH_CONTACT")

# A row's number, what is known of it, the columns to ask for, and its values.
RowInput = tuple[int, Outcome, list[Column], dict[str, str | None]]


# --- on the workers ---------------------------------------------------------------------------------------------------


class Equipment(WorkerPlugin):
    """The equipment of a worker process for a run: keys and addresses, model client, searches, limiter.

    `_kind` is the class of sessions, which are above this room, so it cannot import them. `_config` is sent without clients,
    `_searches` makes its searches with a worker's router.
    """

    def __init__(self, session: Session, run: str, config: RowConfig, searches: Callable[..., Searches]) -> None:
        self.name = run
        self._keys = {name: key for name in KEYS if (key := session.keys.usable(name))}
        self._variables = {name: value for name, value in os.environ.items() if name.endswith(_ADDRESSES) and value}
        self._kind = type(session)
        self._settings = {name: getattr(session.settings, name) for name in session.settings.trait_names(config=True)}
        self._config = config
        self._searches = searches
        self._asking: list[asyncio.Future[Any]] = []

    def setup(self, worker: Any) -> None:
        """Set the addresses that the driver has, and make what all rows share."""
        self._worker = worker
        self._before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)
        session, model = self._kind(WebSearch(**self._settings)), self._config.model
        for name, key in self._keys.items():
            session.keys.set(name, key)
        client = session.offline_model if model == OFFLINE_MODEL else session.claude
        self._config = replace(
            self._config,
            client=client,
            limiter=ConcurrencyLimiter(1, on_hold=self._send),  # each task brings the worker's share
            searches=self._searches(session.router, local_stands_in=client.offline) if self._config.max_searches else None,
        )

    def teardown(self, worker: Any) -> None:
        """Forget keys and addresses, and cut off what is under way; rows that were cut off are sent too."""
        background.loop().call_soon_threadsafe(lambda: [asking.cancel() for asking in self._asking])
        for name, value in self._before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})

    def _send(self, event: Any) -> None:
        """Tell the driver for how many seconds the API wants to be left alone, or that a row has ended."""
        self._worker.log_event(self.name, pickle.dumps(event))

    async def ask(self, task: str, share: int, wait_s: float, rows: Sequence[RowInput]) -> None:
        """Ask for rows, `share` at a time at most with those of other tasks, after `wait_s` seconds."""
        await self._config.client.prepare()
        self._config.limiter.resize(share)
        self._config.limiter.hold(wait_s)
        asking = asyncio.gather(*(self._row(task, *row) for row in rows))
        self._asking.append(asking)
        with suppress(asyncio.CancelledError):
            await asking

    async def _row(self, task: str, n: int, outcome: Outcome, columns: list[Column], values: dict[str, str | None]) -> None:
        spent = list[LedgerRow]()
        booking = Booking(cast(Any, None), "", "", "", budget=RunBudget(self._config.model), write=spent.extend)
        try:
            await Row(self._config, columns, values, booking, outcome).ask()
        finally:
            self._send((task, n, outcome, spent))


def ask_rows(id: str, *task: Any) -> None:
    """Ask for rows on a worker; see `Equipment.ask`."""
    equipment: Equipment = get_worker().plugins[id]
    secede()  # nearly all the time is spent waiting: other tasks may have the thread
    background.run(partial(equipment.ask, *task))


# --- the driver -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Task:
    """Rows under way on one worker, with what is held for them, for each alike."""

    future: Any
    worker: str
    rows: set[int]
    held: Reservation


class DaskWorkers:
    """Asks for rows on a cluster; see `run.Ask`."""

    def __init__(self, session: Session, cluster: Any, provider: str | None) -> None:
        self._client = connect(cluster)
        self._session = session
        self._provider = provider
        self._id = f"ipy_websearch-{uuid.uuid4().hex[:12]}"
        self._tasks: dict[str, Task] = {}
        self._queue: list[int] = []
        self._workers: list[str] = []

    async def ask(self, run: Enrichment, rows: Sequence[int]) -> None:
        """Ask for rows; see `run.Ask`."""
        loop = asyncio.get_running_loop()
        self._queue.extend(rows)
        run.progress.note = "waiting for the cluster's workers"
        try:
            await asyncio.to_thread(self._equip, run, lambda e: loop.call_soon_threadsafe(self._take, run, e[1]))
            while self._tasks or (self._queue and run.stopped is None):
                await self._check()
                while self._submit(run):
                    run.progress.note = ""
                await asyncio.sleep(TICK_S)
        finally:
            await asyncio.to_thread(self._take_back)
            until = time.monotonic() + CUT_OFF_S
            while self._tasks and time.monotonic() < until:
                await asyncio.sleep(TICK_S)
            for task in self._tasks.values():
                task.held.settle([])
            await asyncio.to_thread(self._client.close)

    # --- the cluster ------------------------------------------------------------------------------------------------

    def _equip(self, run: Enrichment, handler: Callable[[Any], object]) -> None:
        """Give the workers what they need, those that come later too; events of rows go to `handler`."""
        config, nothing = run.config, cast(Any, None)
        charges = config.searches.charges if config.searches is not None else ()
        searches = partial(Searches, provider=self._provider, concurrency=run.options.concurrency, charges=charges)
        config = replace(config, client=nothing, limiter=nothing, searches=None)
        with suppress(TimeoutError):
            self._client.wait_for_workers(1, timeout=WAIT_S)
        self._client.subscribe_topic(self._id, handler)
        try:
            self._client.register_plugin(Equipment(self._session, self._id, config, searches))
        except (ImportError, AttributeError, pickle.PickleError) as exc:
            raise ConfigError(f"the cluster's workers cannot load ipy_websearch ({exc}); install it there too") from exc

    def _take_back(self) -> None:
        """Take back what the workers were given; that cuts off what they are doing."""
        with suppress(Exception):  # a cluster that is gone has nothing left to take back
            self._client.cancel([task.future for task in self._tasks.values()], force=True)
            self._client.unregister_worker_plugin(self._id)

    async def _check(self) -> None:
        """Look which workers are there, and put the rows of lost and cancelled tasks back into the queue."""
        ended = [name for name, task in self._tasks.items() if task.future.done()]
        # The events of a task's rows come before its end, so they are taken while this waits.
        self._workers = sorted(await asyncio.to_thread(self._client.nthreads))
        for name, task in list(self._tasks.items()):
            if task.future.status == "error":
                raise EnrichmentError(f"a task failed on the cluster: {await asyncio.to_thread(task.future.exception)}")
            if name in ended or task.worker not in self._workers:  # what it spent is not known: it is held until the lease ends
                self._queue[:0] = self._tasks.pop(name).rows
                task.future.cancel()
        if not self._workers and not self._tasks:
            raise EnrichmentError(f"the Dask cluster at {self._client.scheduler.address} has no workers; start some")

    # --- tasks ------------------------------------------------------------------------------------------------------

    def _submit(self, run: Enrichment) -> bool:
        """Give out a task if there is room for it, and return whether another one may follow.

        As many rows as may run at once and half as many again are under way, so that no worker waits for the driver.
        """
        if not self._queue or not self._workers or run.stopped is not None:
            return False
        loads = Counter(task.worker for task in self._tasks.values() for _ in task.rows)
        concurrency, under_way = run.options.concurrency, loads.total()
        workers = self._workers[:concurrency]
        share = concurrency // len(workers)
        size, room = min(share, TASK_ROWS, len(self._queue)), concurrency + concurrency // 2 - under_way
        if not run.progress.done:  # see `PROBES`
            room = min(room, max(PROBES - under_way - run.progress.failed, 0 if under_way else 1))
            size = min(size, max(room, 1))
        if room < size:
            return False
        try:
            worst = {n: _worst_of(run, n) if run.budget.bounded else None for n in self._queue[:size]}
            fitting, held = run.reserve(worst, TASK_LEASE_S)
        except BudgetExceededError as exc:
            if not self._tasks:
                run.halt("budget", str(exc), None)
            return False
        rows: list[RowInput] = [(n, run.outcomes[n], *run.asked(n)) for n in fitting]
        del self._queue[: len(rows)]
        name, worker = f"{self._id}-{uuid.uuid4().hex[:8]}", min(workers, key=lambda worker: loads[worker])
        wait_s = run.config.limiter.seconds_to_wait
        future = self._client.submit(ask_rows, self._id, name, share, wait_s, rows, workers=[worker], pure=False, key=name)
        self._tasks[name] = Task(future, worker, set(fitting), held)
        return True

    def _take(self, run: Enrichment, data: bytes) -> None:
        """Take what a worker has sent: a row that has ended goes into ledger and store, and out of its task."""
        event = pickle.loads(data)
        if not isinstance(event, tuple):
            run.config.limiter.hold(event)
            return
        name, n, outcome, spent = event
        booked = [replace(row, **run.names()) for row in spent]
        task = self._tasks.get(name)
        if task is None:  # the worker was taken for lost
            run.ledger.book(booked)
            return
        task.held.settle(booked, keep=task.held.usd * (len(task.rows) - 1) / len(task.rows))
        task.rows.remove(n)
        if not task.rows:
            del self._tasks[name]
        run.finish(n, outcome)


def _worst_of(run: Enrichment, n: int) -> Decimal | None:
    """Return a row's highest possible cost, None when it is unknown: each search adds a request with its results."""
    config, (columns, values) = run.config, run.asked(n)
    body = request_body(config, columns, [user_message(row_text(columns, values))], [], final=True)
    tokens, most, searches = estimate_tokens(body), max_tokens(columns), config.max_searches
    requests = (worst_case(config.model, tokens + made * GROWTH_TOKENS, most) for made in range(searches + 1))
    return add_money(*requests, charges_cost(config.searches.charges * searches if config.searches is not None else ()))


def connect(cluster: Any) -> Client:
    """Return a client of its own of a cluster, which is given as a client, a cluster, or a scheduler's address.

    Raises:
        ConfigError: it is none of these, or it cannot be reached.
    """
    options: dict[str, Any] = {"set_as_default": False, "timeout": WAIT_S}
    try:
        if isinstance(cluster, Client):
            return Client(cluster.scheduler.address, security=cluster.security, **options)
        return Client(cluster, **options)
    except (OSError, TimeoutError, TypeError, ValueError) as exc:
        raise ConfigError(
            f"cluster must be a dask.distributed Client, a cluster or an address that can be reached, not {cluster!r}: {exc}"
        ) from exc
