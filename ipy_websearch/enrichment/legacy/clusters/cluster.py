"""A Dask cluster, as a run needs it. Every call blocks, so it is made in a thread, never on an event loop of ours."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ipy_websearch.enrichment.legacy.clusters.desk import Desk, Row
from ipy_websearch.errors import ConfigError
from ipy_websearch.keys import KEYS, Keys

WAIT_S = 30
"""Seconds that a cluster may take until its first worker is there."""

BACK_S = 3.0
"""Seconds in which workers that were lost may come back, before the run goes on with those that are left."""

TELL_S = 2.0
"""Seconds that are waited until all workers have taken note of something; one that hangs does so later, or never."""

_ROWS_AT_ONCE = 5_000
_ADDRESSES = ("_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "IPY_WEBSEARCH_CONTACT")


@dataclass(frozen=True, slots=True)
class Placed:
    """A desk on the cluster: how to talk to it, the future that keeps it alive, the address of its worker."""

    actor: Any
    future: Any
    worker: str


class Cluster:
    """A client with the names of what it has put on the cluster; `own`: the client is closed with this."""

    def __init__(self, client: Any, own: bool) -> None:
        self.client = client
        self.run = uuid.uuid4().hex[:12]
        self._own = own
        self._equipped = False
        self._had = 1

    @property
    def plugin(self) -> str:
        """The name of the plugin that the workers of this run have."""
        return f"ipy_websearch-{self.run}"

    def workers(self) -> list[str]:
        """Return the addresses of the workers, after waiting for the first, and a little for as many as there were before.

        Raises:
            ConfigError: there is none.
        """
        with suppress(TimeoutError):
            self.client.wait_for_workers(1, timeout=WAIT_S)
            self.client.wait_for_workers(self._had, timeout=BACK_S)
        found = sorted(self.client.nthreads())
        if not found:
            raise ConfigError(f"the Dask cluster at {self.client.scheduler.address} has no workers; start some, then try again")
        self._had = max(self._had, len(found))
        return found

    def equip(self, keys: Keys) -> None:
        """Give the workers keys and addresses, those that come later too.

        Raises:
            ConfigError: this package cannot be loaded there. OSError: a worker was lost meanwhile.
        """
        if self._equipped:
            return
        from ipy_websearch.enrichment.legacy.clusters.equipment import Equipment, Passed

        found = {name: key for name in KEYS if (key := keys.usable(name))}
        variables = {name: value for name, value in os.environ.items() if name.endswith(_ADDRESSES) and value}
        try:
            _within(WAIT_S, lambda: self.client.register_plugin(Equipment(self.plugin, Passed(found, variables))))
        except (OSError, TimeoutError):
            raise
        except Exception as exc:
            why = f"{type(exc).__name__}: {exc}"
            raise ConfigError(f"the cluster's workers cannot load ipy_websearch ({why}); install it there too") from exc
        self._equipped = True

    def desk(self, rows: Sequence[Row], state: Sequence[Any], workers: Sequence[str] | None = None) -> Placed:
        """Return a new `Desk(*state)` with these rows on one of the workers (None: on any; then it also waits for a new one).

        Raises:
            TimeoutError, or what `distributed` raises: the worker was lost, or none of them had time for it.
        """
        key = f"{self.plugin}-desk-{uuid.uuid4().hex[:6]}"
        future = self.client.submit(Desk, *state, actor=True, pure=False, workers=workers, key=key)
        try:
            with self.client.as_current():  # an actor talks through the client of its thread, else the default one, if any
                actor = future.result(timeout=WAIT_S)
                for start in range(0, len(rows), _ROWS_AT_ONCE):
                    actor.add(rows[start : start + _ROWS_AT_ONCE]).result(timeout=WAIT_S)
                (worker,) = self.client.who_has([future])[key]
        except TimeoutError as exc:
            raise TimeoutError(f"no worker took the run on within {WAIT_S} s") from exc
        except Exception:
            self.end(future)
            raise
        return Placed(actor, future, worker)

    def submit(self, function: Any, *arguments: Any, worker: str) -> Any:
        """Run a function on a worker, on another one when that is lost."""
        return self.client.submit(
            function,
            *arguments,
            pure=False,
            workers=[worker],
            allow_other_workers=True,
            key=f"{self.plugin}-{uuid.uuid4().hex}",
        )

    def places(self) -> dict[str, str]:
        """Return the worker of every task that one is at work on, by the task's key."""
        return {key: worker for worker, keys in self.client.processing().items() for key in keys}

    def tell_lost(self, desk: Placed) -> None:
        """Tell the workers that a desk is lost, as far as they can be reached: their tasks need not find out by waiting."""
        from ipy_websearch.enrichment.legacy.clusters.equipment import desk_is_lost

        with suppress(Exception):
            _within(TELL_S, lambda: self.client.run(desk_is_lost, self.plugin, desk.actor.key, on_error="ignore"))

    def end(self, future: Any) -> None:
        """Take a task or a desk off the cluster; what a task is doing goes on, a desk answers no more."""
        with suppress(Exception):  # it may be gone, and the cluster too
            future.cancel(force=True)

    def close(self) -> None:
        """Take back what was given to the workers."""
        with suppress(Exception):  # a cluster that is gone has nothing left to take back
            if self._equipped:
                _within(TELL_S, lambda: self.client.unregister_worker_plugin(self.plugin))
        if self._own:
            self.client.close()


def _within(seconds: float, call: Callable[[], Any]) -> None:
    """Make a call that goes to all workers, and for which Dask has no time limit.

    Raises:
        TimeoutError: it takes longer, and goes on.
    """
    failed: list[Exception] = []

    def work() -> None:
        try:
            call()
        except Exception as exc:
            failed.append(exc)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"not all workers answered within {seconds:g} s")
    if failed:
        raise failed[0]


def connect(cluster: Any) -> Cluster:
    """Return the cluster behind a `distributed` client, a cluster such as `LocalCluster`, or a scheduler's address.

    Raises:
        ConfigError: it is none of these, it cannot be reached, or `distributed` is not installed.
    """
    try:
        from distributed import Client
    except ImportError as exc:
        raise ConfigError('a Dask cluster needs distributed: pip install "ipy_websearch[dask]"') from exc
    if isinstance(cluster, Client):
        if cluster.asynchronous:
            raise ConfigError("cluster is an asynchronous Client; give the address of its scheduler instead")
        return Cluster(cluster, own=False)
    if not isinstance(cluster, str) and not hasattr(cluster, "scheduler_address"):
        raise ConfigError(f"cluster must be a dask.distributed Client, a cluster or an address, not {type(cluster).__name__}")
    try:
        return Cluster(Client(cluster, set_as_default=False, timeout=WAIT_S), own=True)
    except (OSError, TimeoutError, ValueError) as exc:
        raise ConfigError(f"the Dask cluster at {cluster!r} cannot be reached: {exc}") from exc
