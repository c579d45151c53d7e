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
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from distributed import Client, Variable, WorkerPlugin, get_client, get_worker, secede

from ipy_websearch import background
from ipy_websearch.enrichment.columns import Column
from ipy_websearch.enrichment.limiter import ConcurrencyLimiter
from ipy_websearch.enrichment.prompt import max_tokens, record_tool, request_body, row_text
from ipy_websearch.enrichment.row import Row, RowConfig, RowResult
from ipy_websearch.enrichment.search import Searches
from ipy_websearch.errors import BudgetExceededError, ConfigError, EnrichmentError
from ipy_websearch.http.cache import Cache
from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import KEYS, Keys
from ipy_websearch.loop.history import user_message
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.tokens import estimate_tokens
from ipy_websearch.money.booking import Booking
from ipy_websearch.money.budget import GROWTH_TOKENS, RunBudget
from ipy_websearch.money.ledger import LedgerRow, Reservation
from ipy_websearch.money.prices import charges_cost, worst_case
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


# --- on the workers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """What the tasks of a run have in common; everything in it may be seen. `share` is the worker's part of the concurrency."""

    id: str
    model: str
    offline: bool
    platform: str
    system: str
    columns: tuple[Column, ...]
    defaults: SearchRequest
    provider: str | None
    max_searches: int
    charges: tuple[Charge, ...]
    search_tools: Mapping[str, Any]
    cache_ttl_s: int
    user_agent: str
    timeout_s: float
    share: int = 1


RowInput = tuple[int, tuple[int, ...], dict[str, str | None]]
"""A row's number, the columns to ask for, and its values."""


class RowLedger:
    """Takes ledger rows in place of the ledger, which the driver has."""

    def __init__(self) -> None:
        self.rows: list[LedgerRow] = []

    def book(self, rows: Sequence[LedgerRow]) -> None:
        """Keep rows until they are sent."""
        self.rows += rows


class Equipment(WorkerPlugin):
    """What a worker process has once for a run: keys, addresses, model client, search router, limiter."""

    def __init__(self, name: str, keys: Mapping[str, str], variables: Mapping[str, str]) -> None:
        self.name = name
        self._keys = dict(keys)
        self._variables = dict(variables)
        self._config: RowConfig | None = None
        self._lock: Any = None
        self.asking: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"Equipment({self.name!r}, {len(self._keys)} keys)"

    def setup(self, worker: Any) -> None:
        """Set the addresses that the driver has."""
        self._lock = threading.Lock()
        self._before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)

    def teardown(self, worker: Any) -> None:
        """Forget keys and addresses, and cut off what is under way; rows that were cut off are sent too."""
        self._keys = {}
        background.loop().call_soon_threadsafe(lambda: [task.cancel() for task in self.asking])
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def config(self, job: Job, deadline: Any) -> RowConfig:
        """Return what all rows share, made for the first task; `deadline` is told how long the API wants to be left alone."""
        with self._lock:
            if self._config is None:
                self._config = self._made(job, deadline)
            self._config.limiter.resize(job.share)
            return self._config

    def _made(self, job: Job, deadline: Any) -> RowConfig:
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
            context = ProviderContext(http, keys, data_dir())
            tools = dict(job.search_tools)
            router = SearchRouter(context, cache=Cache(None), cache_ttl_s=job.cache_ttl_s, search_tools=lambda: tools)
            searches = Searches(router, job.provider, job.share, job.charges)
        limiter = ConcurrencyLimiter(job.share, on_hold=deadline)
        return RowConfig(client, job.model, job.system, limiter, job.timeout_s, job.defaults, searches, job.max_searches)


def _redacted(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "[key]")
    return text


def ask_rows(job: Job, task: str, rows: Sequence[RowInput]) -> int:
    """Ask for rows on a worker, and send each as it ends; return how many there were."""
    worker, client = get_worker(), get_client()
    equipment: Equipment = worker.plugins[job.id]
    secede()  # nearly all the time is spent waiting: other tasks may have the thread
    shared = Variable(job.id, client=client)

    def tell(seconds: float) -> None:
        threading.Thread(target=shared.set, args=(time.time() + seconds,), daemon=True).start()

    config = equipment.config(job, tell)
    wait_s = float(shared.get(timeout=WAIT_S)) - time.time()

    async def ask(row: RowInput) -> None:
        n, numbers, values = row
        columns = [job.columns[c] for c in numbers]
        ledger, result = RowLedger(), RowResult(numbers)
        booking = Booking(ledger, job.id, job.id, job.id, traces=False, budget=RunBudget(job.model))  # type: ignore[arg-type]
        try:
            await Row(config, columns, record_tool(columns), values, booking, result).ask()
        finally:
            worker.log_event(job.id, pickle.dumps((task, n, result, ledger.rows)))

    async def ask_all() -> None:
        await config.client.prepare()
        config.limiter.hold(wait_s)
        tasks = [asyncio.create_task(ask(row)) for row in rows]
        equipment.asking.update(tasks)
        await asyncio.gather(*tasks, return_exceptions=True)
        equipment.asking.difference_update(tasks)

    background.run(ask_all)
    return len(rows)


# --- the driver -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Task:
    """Rows under way on one worker, with what is held for them."""

    future: Any
    worker: str
    rows: dict[int, RowInput]
    worst: dict[int, Decimal | None] = field(default_factory=dict)
    held: Reservation | None = None
    ended_at: float = 0.0


class DaskWorkers:
    """Asks for rows on a cluster; see `run.Asker`."""

    def __init__(self, session: Session, cluster: Any, provider: str | None, *, searches: bool) -> None:
        self._client, self._own_client = connect(cluster)
        self._provider = provider
        self._searches_wikipedia = searches and (provider or session.router.first()) == "wikipedia"
        self._session = session
        self._job: Job | None = None
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
        await asyncio.to_thread(self._equip, lambda event: loop.call_soon_threadsafe(self._take, run, event[1]))
        try:
            while (self._tasks or (self._queue and run.stopped is None)) and not self._cancelled:
                await self._check()
                await self._submit(run)
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
                self._settle(task, [], keep_rest=False)
            await asyncio.to_thread(self._release)

    def _equip(self, handler: Any) -> None:
        """Give the workers what they need, those that come later too; events of rows go to `handler`."""
        keys = {name: key for name in KEYS if (key := self._session.keys.usable(name))}
        variables = {name: value for name, value in os.environ.items() if name.endswith(_ADDRESSES) and value}
        with suppress(TimeoutError):
            self._client.wait_for_workers(1, timeout=WAIT_S)
        Variable(self._id, client=self._client).set(0.0)
        self._client.subscribe_topic(self._id, handler)
        try:
            self._client.register_plugin(Equipment(self._id, keys, variables))
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
                    self._settle(task, [], keep_rest=False)
        if not self._workers and not self._tasks:
            raise EnrichmentError(f"the Dask cluster at {self._client.scheduler.address} has no workers; start some")

    async def _submit(self, run: Enrichment) -> None:
        """Give out tasks: as many rows as may run at once and half as many again, so that no worker waits for the driver."""
        from ipy_websearch.enrichment.run import PROBES

        loop, concurrency = asyncio.get_running_loop(), run.options.concurrency
        while self._queue and self._workers and run.stopped is None:
            under_way = sum(len(task.rows) for task in self._tasks.values())
            room, size = concurrency + concurrency // 2 - under_way, min(-(-concurrency // len(self._workers)), TASK_ROWS)
            if not run.progress.done:  # see `run.PROBES`
                room, size = min(room, PROBES - (len(self._begun) if under_way else 0)), min(size, PROBES)
            if room < (size := min(size, len(self._queue))):
                return
            chunk = [self._queue.popleft() for _ in range(size)]
            loads = {worker: 0 for worker in self._workers}
            for task in self._tasks.values():
                loads[task.worker] = loads.get(task.worker, 0) + len(task.rows)
            worker = min(self._workers, key=loads.__getitem__)
            task = Task(None, worker, {n: (n, run.numbers(n), run.plan.values(run.plan.inputs[n])) for n in chunk})
            if not self._reserve(run, task):
                return
            name = f"{self._id}-{uuid.uuid4().hex[:8]}"
            job = replace(self._job or self._made_job(run), share=max(concurrency // len(self._workers), 1))
            rows = list(task.rows.values())
            task.future = self._client.submit(ask_rows, job, name, rows, workers=[worker], pure=False, key=name)
            task.future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._changed.set))
            self._begun.update(task.rows)
            self._tasks[name] = task
            run.progress.note = ""

    def _made_job(self, run: Enrichment) -> Job:
        config, session = run.config, self._session
        settings = session.settings
        self._job = Job(
            id=self._id,
            model=config.model,
            offline=config.client.offline,
            platform=settings.platform,
            system=config.system,
            columns=run.plan.columns,
            defaults=config.defaults,
            provider=self._provider,
            max_searches=config.max_searches,
            charges=config.searches.charges if config.searches is not None else (),
            search_tools=dict(settings.search_tools),
            cache_ttl_s=settings.cache_ttl_s,
            user_agent=session.http.user_agent,
            timeout_s=config.timeout_s,
        )
        return self._job

    # --- money ------------------------------------------------------------------------------------------------------

    def _reserve(self, run: Enrichment, task: Task) -> bool:
        """Reserve the worst case of a task; rows that do not fit go back into the queue. Say whether any fits."""
        budget = run.accounts.budget
        if not budget.bounded:
            return True
        task.worst = {n: _worst_of(run, row) for n, row in task.rows.items()}
        while task.rows:
            known = [usd for usd in task.worst.values() if usd is not None]
            total = sum(known, Decimal(0)) if len(known) == len(task.rows) else None
            try:
                task.held = budget.reserve(total, lease_s=TASK_LEASE_S, what="a row")
                return True
            except BudgetExceededError as exc:
                for n in list(task.rows)[len(task.rows) // 2 :]:
                    self._queue.appendleft(n)
                    task.worst.pop(n)
                    del task.rows[n]
                refusal = str(exc)
        if not self._tasks:
            run.halt("budget", refusal, None)
        return False

    def _take(self, run: Enrichment, event: bytes) -> None:
        """Take a row that has ended: into ledger and store, and out of its task."""
        name, n, result, rows = pickle.loads(event)
        self._changed.set()
        task = self._tasks.get(name)
        booked = [replace(row, **run.accounts.names(run.question)) for row in rows]
        if task is None or n not in task.rows:  # the worker was taken for lost
            run.accounts.ledger.book(booked)
            return
        del task.rows[n]
        task.worst.pop(n, None)
        if task.held is not None:
            self._settle(task, booked)
        else:
            run.accounts.ledger.book(booked)
        run.finish(n, result)
        if not task.rows:
            self._tasks.pop(name)

    def _settle(self, task: Task, rows: Sequence[LedgerRow], *, keep_rest: bool = True) -> None:
        """Insert rows and lower what is held for a task to what its other rows may cost."""
        if task.held is not None:
            left = sum((usd or Decimal(0) for usd in task.worst.values()), Decimal(0))
            task.held.settle(rows, keep=left if keep_rest else Decimal(0))


def _worst_of(run: Enrichment, row: RowInput) -> Decimal | None:
    """Return what a row may cost at worst: each search adds a request with what it found (None: unknown)."""
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
    searching = charges_cost(config.searches.charges * config.max_searches if config.searches is not None else ())
    tokens, most = estimate_tokens(body), max_tokens(len(columns))
    requests = [worst_case(config.model, tokens + n * GROWTH_TOKENS, most) for n in range(config.max_searches + 1)]
    known = [usd for usd in (searching, *requests) if usd is not None]
    return sum(known, Decimal(0)) if len(known) == len(requests) + 1 else None


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
