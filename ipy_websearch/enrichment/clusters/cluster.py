"""A Dask cluster, as a run needs it. Every call blocks, so it is made in a thread, never on an event loop of ours."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from ipy_websearch.credentials import KEYS, Credentials
from ipy_websearch.enrichment.clusters.desk import Desk, Row
from ipy_websearch.errors import ConfigError

WAIT_S = 30
"""Seconds that a cluster may take until its first worker is there."""

_ROWS_AT_ONCE = 5_000
_ADDRESSES = ("_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "IPY_WEBSEARCH_CONTACT")


class Cluster:
    """A client with the names of what it has put on the cluster; `own`: the client is closed with this."""

    def __init__(self, client: Any, own: bool) -> None:
        self.client = client
        self.run = uuid.uuid4().hex[:12]
        self._own = own
        self._equipped = False

    @property
    def plugin(self) -> str:
        """The name of the plugin that the workers of this run have."""
        return f"ipy_websearch-{self.run}"

    def workers(self) -> list[str]:
        """Return the addresses of the workers, after waiting for the first.

        Raises:
            ConfigError: there is none.
        """
        with suppress(TimeoutError):
            self.client.wait_for_workers(1, timeout=WAIT_S)
        found = sorted(self.client.nthreads())
        if not found:
            raise ConfigError(f"the Dask cluster at {self.client.scheduler.address} has no workers; start some, then try again")
        return found

    def equip(self, credentials: Credentials) -> None:
        """Give the workers keys and addresses, those that come later too.

        Raises:
            ConfigError: this package cannot be loaded there.
        """
        if self._equipped:
            return
        from ipy_websearch.enrichment.clusters.equipment import Equipment, Passed

        keys = {name: key for name in KEYS if (key := credentials.get(name))}
        variables = {name: value for name, value in os.environ.items() if name.endswith(_ADDRESSES) and value}
        try:
            self.client.register_plugin(Equipment(self.plugin, Passed(keys, variables)))
        except Exception as exc:
            why = f"{type(exc).__name__}: {exc}"
            raise ConfigError(f"the cluster's workers cannot load ipy_websearch ({why}); install it there too") from exc
        self._equipped = True

    def desk(self, rows: Sequence[Row], tasks: Sequence[str], concurrency: int, limit: Decimal | None, scale: Decimal) -> Any:
        """Return a new desk with these rows on one of the workers."""
        future = self.client.submit(
            Desk, tasks, concurrency, limit, scale, actor=True, pure=False, key=f"{self.plugin}-desk-{uuid.uuid4().hex[:6]}"
        )
        desk = future.result(timeout=WAIT_S)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            desk.add(rows[start : start + _ROWS_AT_ONCE]).result(timeout=WAIT_S)
        return desk

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

    def close(self) -> None:
        """Take back what was given to the workers."""
        with suppress(Exception):  # a cluster that is gone has nothing left to take back
            if self._equipped:
                self.client.unregister_worker_plugin(self.plugin)
        if self._own:
            self.client.close()


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
