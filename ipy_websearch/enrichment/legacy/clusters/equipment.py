"""What a worker of a cluster is equipped with for a run: keys and addresses, one model client and its event loop, the engines.

It is a `WorkerPlugin`, so that a process has these once, however many tasks it runs. Keys come with the plugin, wrapped so that
no repr, log or dashboard shows them, and leave with it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from distributed import WorkerPlugin

from ipy_websearch.enrichment.legacy.bench import Bench
from ipy_websearch.enrichment.legacy.columns import Column
from ipy_websearch.http.cache import Cache
from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import Keys
from ipy_websearch.model.client import ModelClient
from ipy_websearch.money.budget import Budget
from ipy_websearch.providers.base import ProviderContext, SearchRequest
from ipy_websearch.providers.router import SearchRouter
from ipy_websearch.settings import data_dir, settings_dir

NAME = "ipy_websearch-enrichment"


class Passed:
    """Keys and addresses on their way to the workers; shows nothing of them."""

    def __init__(self, keys: Mapping[str, str], variables: Mapping[str, str]) -> None:
        self.keys = dict(keys)
        self.variables = dict(variables)

    def __repr__(self) -> str:
        return f"Passed({len(self.keys)} keys)"


@dataclass(frozen=True, slots=True)
class Job:
    """What the tasks of a run have in common; everything in it may be seen."""

    plugin: str
    model: str
    offline: bool
    platform: str
    columns: tuple[Column, ...]
    max_searches: int
    search_share: int
    provider: str | None
    defaults: SearchRequest
    search_tools: Mapping[str, Any]
    cache_ttl_s: int
    user_agent: str
    session: str
    question_id: str
    question: str
    notebook: str
    timeout_s: float
    limit: Decimal | None


class Equipment(WorkerPlugin):
    """The plugin: what a worker process has once. Everything heavy is made when the first task asks for it."""

    def __init__(self, name: str, passed: Passed) -> None:
        self.name = name
        self._passed = passed
        self._lock: Any = None

    def setup(self, worker: Any) -> None:
        """Set the addresses that the kernel has set; a worker's own keys are not needed."""
        self._lock = threading.Lock()
        self._before = {name: os.environ.get(name) for name in self._passed.variables}
        os.environ.update(self._passed.variables)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clients: dict[Any, tuple[ModelClient, SearchRouter, HttpClient]] = {}
        self.lost_desks: set[str] = set()

    def teardown(self, worker: Any) -> None:
        """Forget keys and connections."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._passed = Passed({}, {})
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop)

    async def _close(self) -> None:
        for client, _, http in self._clients.values():
            await client.aclose()
            await http.aclose()
        asyncio.get_running_loop().stop()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of everything that is sent, in a thread of its own."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name=NAME, daemon=True).start()
            return self._loop

    def bench(self, job: Job) -> Bench:
        """Return what a task works with; the clients are the process's."""
        key = (job.offline, job.platform)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._open(job)
        client, router, _ = self._clients[key]
        nothing: Any = None  # results and ledger rows are kept by the kernel
        return Bench(
            client=client,
            model=job.model,
            router=router,
            provider=job.provider,
            defaults=job.defaults,
            ledger=nothing,
            session_id=job.session,
            notebook=job.notebook,
            store=nothing,
            budget=Budget(nothing, job.session, job.question_id),
            timeout_s=job.timeout_s,
            spent=lambda usd: None,
        )

    def _open(self, job: Job) -> tuple[ModelClient, SearchRouter, HttpClient]:
        keys = Keys(settings_dir(), None, dict(self._passed.keys))
        http = HttpClient(user_agent=job.user_agent, secrets=keys.secrets)
        client = ModelClient(
            api_key=lambda: None if job.offline else keys.get("ANTHROPIC_API_KEY"),
            platform=lambda: job.platform,
            offline=job.offline,
            redact=_redacting(keys),
        )
        router = SearchRouter(
            ProviderContext(http, keys, data_dir(), wikipedia_turns=asyncio.Semaphore(1)),
            cache=Cache(None),
            cache_ttl_s=lambda: job.cache_ttl_s,
            search_tools=lambda: dict(job.search_tools),
        )
        return client, router, http


def desk_is_lost(plugin: str, desk: str, dask_worker: Any) -> None:
    """Tell the tasks on a worker that their desk will not answer any more; `distributed` fills in the worker."""
    if plugin in dask_worker.plugins:
        dask_worker.plugins[plugin].lost_desks.add(desk)


def _redacting(keys: Keys) -> Any:
    def redact(text: str) -> str:
        for secret in keys.secrets():
            text = text.replace(secret, "[key]")
        return text

    return redact
