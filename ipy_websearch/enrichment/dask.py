"""A run on the workers of a Dask cluster: one store, one budget, one rate, whatever becomes of the workers.

- A `WorkerPlugin` gives each worker keys, addresses and one client, once; they leave with it.
- The driver cuts rows into tasks of at most `TASK_ROWS` and gives each to the worker with the fewest rows. A worker runs the
  rows of all its tasks under one limiter, whose share of the concurrency comes with each task. (A `distributed.Semaphore` takes
  1 to 3 ms a row, and a lost worker's leases come back after 30 s only.)
- A `retry-after` is a deadline for all workers: a `Variable` holds it.
- Each row that ends is sent by `log_event` and stored at once. When a worker is lost, its rows that were not stored are asked
  again by others. The driver reserves the worst case of the tasks under way, and nothing more.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from distributed import Client, Variable, WorkerPlugin, get_client, get_worker, secede

from ipy_websearch import background
from ipy_websearch.enrichment.columns import Column
from ipy_websearch.enrichment.limiter import ConcurrencyLimiter
from ipy_websearch.enrichment.prompt import max_tokens, record_tool, request_body, row_text
from ipy_websearch.enrichment.row import Row, RowConfig, RowResult, Searches
from ipy_websearch.errors import BudgetExceededError, ConfigError, EnrichmentError
from ipy_websearch.http.cache import Cache
from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import KEYS, Keys
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.requests import estimate_tokens, user_message
from ipy_websearch.money.budget import GROWTH_TOKENS, Booking, RunBudget
from ipy_websearch.money.ledger import Ledger, LedgerRow, Reservation
from ipy_websearch.money.prices import add_money, charges_cost, worst_case
from ipy_websearch.providers.base import ProviderContext, SearchRequest
from ipy_websearch.providers.router import SearchRouter
from ipy_websearch.settings import data_dir, settings_dir
from ipy_websearch.usage import Charge

if TYPE_CHECKING:
    from ipy_websearch.enrichment.run import Enrichment
    from ipy_websearch.session import Session

TASK_ROWS = 25
CHECK_S = 0.5
"""Seconds between two looks at which workers are there."""

WAIT_S = 30.0
CUT_OFF_S = 1.0
"""Seconds that are waited for the last events of rows that were cut off."""

LATE_S = 5.0
"""Seconds after a task's end in which the events of its rows must have come."""

TASK_LEASE_S = 900.0
_ADDRESSES = ("_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "IPY_WEBSEARCH_CONTACT")

RowInput = tuple[int, tuple[int, ...], dict[str, str | None]]
"""A row's number, the columns to ask for, and its values."""


# --- on the workers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """What the tasks of a run have in common; everything in it may be seen."""

    id: str
    model: str
    offline: bool
    platform: str
    system: str
    columns: tuple[Column, ...]
    defaults: SearchRequest
    provider: str | None
    concurrency: int
    max_searches: int
    charges: tuple[Charge, ...]
    search_tools: Mapping[str, Any]
    cache_ttl_s: int
    user_agent: str
    timeout_s: float
    retrieve_first: str


class RowLedger:
    """Takes ledger rows in place of the ledger, which the driver has."""

    def __init__(self) -> None:
        self.rows: list[LedgerRow] = []

    def book(self, rows: Sequence[LedgerRow]) -> None:
        """Keep rows until they are sent."""
        self.rows += rows


class Equipment(WorkerPlugin):
    """What a worker process has once for a run: keys, addresses, model client, search router, limiter."""

    config: RowConfig
    deadline: Any = None

    def __init__(self, job: Job, keys: Mapping[str, str], variables: Mapping[str, str]) -> None:
        self.name = job.id
        self._job = job
        self._keys = dict(keys)
        self._variables = dict(variables)
        self._asking: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"Equipment({self.name!r}, {len(self._keys)} keys)"

    def setup(self, worker: Any) -> None:
        """Set the addresses that the driver has, and make what all rows share."""
        job, self._before = self._job, {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)
        keys = Keys(settings_dir(), None, dict(self._keys))
        http = HttpClient(user_agent=job.user_agent, secrets=keys.secrets)
        client = ModelClient(
            api_key=lambda: None if job.offline else keys.get("ANTHROPIC_API_KEY"),
            platform=lambda: job.platform,
            offline=job.offline,
            redact=lambda text: _redacted(text, keys.secrets()),
        )
        searches = None
        if job.max_searches:
            context, tools = ProviderContext(http, keys, data_dir()), dict(job.search_tools)
            router = SearchRouter(context, cache=Cache(None), cache_ttl_s=job.cache_ttl_s, search_tools=lambda: tools)
            searches = Searches(router, job.provider, job.concurrency, job.charges)
        limiter = ConcurrencyLimiter(job.concurrency, on_hold=self._tell)
        shared = (client, job.model, job.system, limiter, job.timeout_s, job.defaults, searches, job.max_searches)
        self.config = RowConfig(*shared, retrieve_first=job.retrieve_first)

    def teardown(self, worker: Any) -> None:
        """Forget keys and addresses, and cut off what is under way; rows that were cut off are sent too."""
        self._keys = {}
        background.loop().call_soon_threadsafe(lambda: [task.cancel() for task in self._asking])
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def _tell(self, seconds: float) -> None:
        """Tell all workers for how long the API wants to be left alone."""
        threading.Thread(target=self.deadline.set, args=(time.time() + seconds,), daemon=True).start()

    async def ask(self, worker: Any, task: str, share: int, rows: Sequence[RowInput], wait_s: float) -> None:
        """Ask for rows, `share` at a time at most with those of other tasks, after `wait_s` seconds."""
        await self.config.client.prepare()
        self.config.limiter.resize(share)
        self.config.limiter.hold(wait_s)
        tasks = [asyncio.create_task(self._row(worker, task, *row)) for row in rows]
        self._asking.update(tasks)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._asking.difference_update(tasks)

    async def _row(self, worker: Any, task: str, n: int, numbers: tuple[int, ...], values: dict[str, str | None]) -> None:
        columns = [self._job.columns[c] for c in numbers]
        ledger, result = RowLedger(), RowResult(numbers)
        booking = Booking(cast(Ledger, ledger), "", "", "", traces=False, budget=RunBudget(self._job.model))
        try:
            await Row(self.config, columns, record_tool(columns), values, booking, result).ask()
        finally:
            worker.log_event(self.name, pickle.dumps((task, n, result, ledger.rows)))


def _redacted(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "[key]")
    return text


def ask_rows(id: str, task: str, share: int, rows: Sequence[RowInput]) -> None:
    """Ask for rows on a worker, and send each as it ends."""
    worker = get_worker()
    equipment: Equipment = worker.plugins[id]
    equipment.deadline = Variable(id, client=get_client())
    secede()  # nearly all the time is spent waiting: other tasks may have the thread
    wait_s = float(equipment.deadline.get(timeout=WAIT_S)) - time.time()
    background.run(partial(equipment.ask, worker, task, share, rows, wait_s))


# --- the driver -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Task:
    """Rows under way on one worker, with what is held for them."""

    future: Any
    worker: str
    rows: dict[int, RowInput]
    held: Reservation | None = None
    ended_at: float = 0.0

    def settle(self, rows: Sequence[LedgerRow], ended: int) -> None:
        """Insert the ledger rows of `ended` rows, and give back their part of what is held."""
        if self.held is not None:
            self.held.settle(rows, keep=self.held.usd * (1 - Decimal(ended) / len(self.rows)))


class DaskWorkers:
    """Asks for rows on a cluster; see `run.Asker`."""

    def __init__(self, session: Session, cluster: Any, provider: str | None, *, searches: bool) -> None:
        self._client, self._own_client = connect(cluster)
        self._provider = provider
        self._searches_wikipedia = searches and (provider or session.router.first()) == "wikipedia"
        self._session = session
        self._id = f"ipy_websearch-{uuid.uuid4().hex[:12]}"
        self._tasks: dict[str, Task] = {}
        self._queue: deque[int] = deque()
        self._begun: set[int] = set()
        self._workers: list[str] = []
        self._checked_at = 0.0
        self._cancelled = False
        self._changed = asyncio.Event()

    def cancel(self) -> None:
        """Cut off what is under way."""
        self._cancelled = True
        self._changed.set()

    async def ask(self, run: Enrichment, rows: Sequence[int]) -> None:
        """Ask for rows; see `run.Asker`."""
        loop = asyncio.get_running_loop()
        self._queue.extend(rows)
        run.progress.note = "waiting for the cluster's workers"
        await asyncio.to_thread(self._equip, self._job(run), lambda e: loop.call_soon_threadsafe(self._take, run, e[1]))
        try:
            while (self._tasks or (self._queue and run.stopped is None)) and not self._cancelled:
                await self._check()
                while self._submit(run):
                    run.progress.note = ""
                self._changed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), CHECK_S)
        finally:
            self._cancelled = True
            await asyncio.to_thread(self._take_back)
            until = time.monotonic() + CUT_OFF_S
            while any(task.rows for task in self._tasks.values()) and time.monotonic() < until:
                await asyncio.sleep(0.02)
            for task in self._tasks.values():
                for n in task.rows:
                    run.finish(n, RowResult(run.numbers(n)))
                task.settle([], len(task.rows))
            await asyncio.to_thread(self._release)

    # --- the cluster ------------------------------------------------------------------------------------------------

    def _job(self, run: Enrichment) -> Job:
        config, settings = run.config, self._session.settings
        return Job(
            id=self._id,
            model=config.model,
            offline=config.client.offline,
            platform=settings.platform,
            system=config.system,
            columns=run.plan.columns,
            defaults=config.defaults,
            provider=self._provider,
            concurrency=run.options.concurrency,
            max_searches=config.max_searches,
            charges=config.searches.charges if config.searches is not None else (),
            search_tools=dict(settings.search_tools),
            cache_ttl_s=settings.cache_ttl_s,
            user_agent=self._session.http.user_agent,
            timeout_s=config.timeout_s,
            retrieve_first=settings.retrieve_first,
        )

    def _equip(self, job: Job, handler: Any) -> None:
        """Give the workers what they need, those that come later too; events of rows go to `handler`."""
        keys = {name: key for name in KEYS if (key := self._session.keys.usable(name))}
        variables = {name: value for name, value in os.environ.items() if name.endswith(_ADDRESSES) and value}
        with suppress(TimeoutError):
            self._client.wait_for_workers(1, timeout=WAIT_S)
        Variable(self._id, client=self._client).set(0.0)
        self._client.subscribe_topic(self._id, handler)
        try:
            self._client.register_plugin(Equipment(job, keys, variables))
        except (ImportError, AttributeError, pickle.PickleError) as exc:
            why = f"{type(exc).__name__}: {exc}"
            raise ConfigError(f"the cluster's workers cannot load ipy_websearch ({why}); install it there too") from exc

    def _take_back(self) -> None:
        """Take back what the workers were given; that cuts off what they are doing."""
        with suppress(Exception):  # a cluster that is gone has nothing left to take back
            self._client.cancel([task.future for task in self._tasks.values()], force=True)
            self._client.unregister_worker_plugin(self._id)

    def _release(self) -> None:
        with suppress(Exception):
            self._client.unsubscribe_topic(self._id)
            Variable(self._id, client=self._client).delete()
        if self._own_client:
            self._client.close()

    async def _check(self) -> None:
        """Look which workers are there, and put rows of lost ones back into the queue."""
        now = time.monotonic()
        if now - self._checked_at < CHECK_S and self._workers:
            return
        self._checked_at = now
        workers = sorted(await asyncio.to_thread(self._client.nthreads))
        self._workers = workers[:1] if self._searches_wikipedia else workers  # it takes three requests at once
        for name, task in list(self._tasks.items()):
            if task.future.status == "error":
                raise EnrichmentError(f"a task failed on the cluster: {await asyncio.to_thread(task.future.exception)}")
            ended = task.future.status in ("finished", "cancelled", "lost")
            task.ended_at = task.ended_at or now if ended else 0.0
            if task.worker not in self._workers or (ended and now - task.ended_at > LATE_S):
                self._tasks.pop(name)
                self._queue.extendleft(task.rows)
                task.future.cancel()
                if ended:  # what a lost worker has spent is not known: it stays reserved until the lease ends
                    task.settle([], len(task.rows))
        if not self._workers and not self._tasks:
            raise EnrichmentError(f"the Dask cluster at {self._client.scheduler.address} has no workers; start some")

    # --- tasks ------------------------------------------------------------------------------------------------------

    def _submit(self, run: Enrichment) -> bool:
        """Give out a task if there is room for it, and return whether another one may follow.

        As many rows as may run at once and half as many again are under way, so that no worker waits for the driver.
        """
        from ipy_websearch.enrichment.run import PROBES

        if not self._queue or not self._workers or run.stopped is not None:
            return False
        loads = dict.fromkeys(self._workers, 0)
        for task in self._tasks.values():
            loads[task.worker] = loads.get(task.worker, 0) + len(task.rows)
        concurrency, under_way = run.options.concurrency, sum(loads.values())
        room, size = concurrency + concurrency // 2 - under_way, min(-(-concurrency // len(self._workers)), TASK_ROWS)
        if not run.progress.done:  # see `run.PROBES`
            room, size = min(room, PROBES - (len(self._begun) if under_way else 0)), min(size, PROBES)
        if room < (size := min(size, len(self._queue))):
            return False
        inputs = {n: (n, run.numbers(n), run.plan.values(run.plan.inputs[n])) for n in list(self._queue)[:size]}
        try:
            fitting, held = run.reserve({n: _worst_of(run, row) for n, row in inputs.items()}, TASK_LEASE_S)
        except BudgetExceededError as exc:
            if not self._tasks:
                run.halt("budget", str(exc), None)
            return False
        rows = {n: inputs[self._queue.popleft()] for n in fitting}
        name, worker = f"{self._id}-{uuid.uuid4().hex[:8]}", min(self._workers, key=loads.__getitem__)
        arguments = (self._id, name, max(concurrency // len(self._workers), 1), list(rows.values()))
        future = self._client.submit(ask_rows, *arguments, workers=[worker], pure=False, key=name)
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._changed.set))
        self._begun.update(rows)
        self._tasks[name] = Task(future, worker, rows, held)
        return True

    def _take(self, run: Enrichment, event: bytes) -> None:
        """Take a row that has ended: into ledger and store, and out of its task."""
        name, n, result, rows = pickle.loads(event)
        self._changed.set()
        task = self._tasks.get(name)
        booked = [replace(row, **run.names()) for row in rows]
        if task is None or task.held is None:
            run.book(booked)
        if task is None or n not in task.rows:  # the worker was taken for lost
            return
        task.settle(booked, 1)
        del task.rows[n]
        run.finish(n, result)
        if not task.rows:
            self._tasks.pop(name)


def _worst_of(run: Enrichment, row: RowInput) -> Decimal | None:
    """Return what a row may cost at worst: each search adds a request with what it found (None: unknown)."""
    if not run.budget.bounded:
        return None
    config, (_, numbers, values) = run.config, row
    columns = [run.plan.columns[c] for c in numbers]
    body = request_body(
        model=config.model,
        system=config.system,
        messages=[user_message(row_text(columns, values))],
        tools=[record_tool(columns)],
        platform=config.client.platform,
        columns=len(columns),
        final=True,
    )
    total = charges_cost(config.searches.charges * config.max_searches if config.searches is not None else ())
    tokens, most = estimate_tokens(body), max_tokens(len(columns))
    for n in range(config.max_searches + 1):
        total = add_money(total, worst_case(config.model, tokens + n * GROWTH_TOKENS, most))
    return total


def connect(cluster: Any) -> tuple[Any, bool]:
    """Return the client of a cluster, and whether it was made here; `cluster` is a client, a cluster, or a scheduler's address.

    Raises:
        ConfigError: it is none of these, or it cannot be reached.
    """
    if isinstance(cluster, Client):
        if cluster.asynchronous:
            raise ConfigError("cluster is an asynchronous Client; give the address of its scheduler instead")
        return cluster, False
    if not isinstance(cluster, str) and not hasattr(cluster, "scheduler_address"):
        raise ConfigError(f"cluster must be a dask.distributed Client, a cluster or an address, not {type(cluster).__name__}")
    try:
        return Client(cluster, set_as_default=False, timeout=WAIT_S), True
    except (OSError, TimeoutError, ValueError) as exc:
        raise ConfigError(f"the Dask cluster at {cluster!r} cannot be reached: {exc}") from exc
