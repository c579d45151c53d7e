"""One round of a run on a cluster: the time of one desk, from its first task to its end or its loss.

The invariant: a round ends, whatever becomes of the workers. Its tasks end by themselves when they have nothing more to do, or
the desk is lost; one whose worker is gone is given up, and what it may have spent counts as spent. Neither the desk nor a task
that was given up is left on the cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

from ipy_websearch.enrichment.legacy.clusters.cluster import Cluster, Placed
from ipy_websearch.enrichment.legacy.clusters.desk import Collection, Finished
from ipy_websearch.enrichment.legacy.clusters.worker import LOST_S
from ipy_websearch.errors import EnrichmentError

COLLECT_S = 0.1
CUT_S = 1.2
"""Seconds that the workers have to hand in what they have when a run is interrupted."""

UNPLACED_S = 1.0
"""Seconds after the desk's loss in which a task that no worker is at work on may still turn out to have ended."""

MARGIN_S = 2.0
ANSWER_S, TRIES = 3.0, 5
_NOTHING = Decimal(0)


class Round:
    """The tasks of one desk, by name. `take` is given what they finish; a request may last for `timeout_s`.

    Afterwards `lost_usd` is what lost tasks may have spent, `trouble` says how the desk was lost ("": it was not), and `silent`
    has the workers that did not answer any more.
    """

    def __init__(
        self,
        cluster: Cluster,
        desk: Placed,
        tasks: Mapping[str, Any],
        take: Callable[[Sequence[Finished]], None],
        timeout_s: float,
    ) -> None:
        self.sent = 0
        self.lost_usd = _NOTHING
        self.trouble = ""
        self.silent: set[str] = set()
        self.note = ""
        self._cluster, self._desk, self._tasks = cluster, desk, tasks
        self._take = take
        self._timeout_s = timeout_s
        self._found: Collection | None = Collection([], 0, _NOTHING)
        self._at_risk: Mapping[str, Decimal] = {}
        self._floor_until = 0.0
        self._news = asyncio.Event()
        self._dropped = self._cut = False
        self._until = float("inf")

    @property
    def floor_s(self) -> float:
        """Seconds for which a `retry-after` holds on the cluster."""
        return max(self._floor_until - time.monotonic(), 0.0)

    def halt(self, *, now: bool) -> None:
        """Give no more rows out; `now` also cuts off those under way."""
        self._dropped = True
        if now and not self._cut:
            self._cut, self._until = True, time.monotonic() + CUT_S
        self._news.set()

    async def run(self) -> None:
        """Take in what the tasks hand in, until they have ended or were given up.

        Raises:
            EnrichmentError: a task failed in a way that is no loss, and would again.
        """
        ended = False
        while self._found is not None and not ended:
            await self._pause(COLLECT_S)
            ended = self._all_done() or time.monotonic() > self._until
            await self._visit()
            if self._found is not None and not self._found.left:  # a task that nobody is at work on may never end
                self._until = min(self._until, time.monotonic() + LOST_S + MARGIN_S)
        if self._found is None:
            await self._see_out()
        try:
            await self._gather()
        finally:
            await asyncio.to_thread(self._cluster.end, self._desk.future)

    def _all_done(self) -> bool:
        return all(task.done() for task in self._tasks.values())

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    async def _visit(self) -> None:
        """Collect at the desk what is new. Without an answer, the desk is lost."""
        assert self._found is not None
        kept = [finished.id for finished in self._found.finished]
        try:
            # Not awaited: an actor's future hangs in another event loop than Dask's own.
            call = partial(_collected, self._cluster.client, self._desk.actor, kept, self._cut, self._dropped)
            found = self._found = await asyncio.to_thread(call)
        except Exception as exc:  # whatever the loss of a worker looks like
            self._found, self.trouble = None, f"{type(exc).__name__}: {exc}"
            return
        self.sent, self.lost_usd, self._at_risk = found.sent, found.lost_usd, found.at_risk
        self._floor_until = time.monotonic() + found.floor_s
        self._take(found.finished)

    async def _see_out(self) -> None:
        """Wait for the tasks of a lost desk: they end by themselves, but only where there is a worker at work on them."""
        self.note = "a worker of the cluster was lost; what others have under way is waited for"
        start = time.monotonic()
        # One that only seemed lost must not go on giving rows out.
        await asyncio.to_thread(self._cluster.end, self._desk.future)
        await asyncio.to_thread(self._cluster.tell_lost, self._desk)
        while not self._all_done() and time.monotonic() < self._until:
            places = await self._places()
            waited = time.monotonic() - start
            if all(task.done() or waited > self._patience_s(places.get(task.key)) for task in self._tasks.values()):
                break
            await self._pause(COLLECT_S)

    def _patience_s(self, worker: str | None) -> float:
        """Return for how long a task at a worker is waited for after the loss of the desk."""
        if worker is None:
            return UNPLACED_S
        return LOST_S + MARGIN_S + (0.0 if worker == self._desk.worker else self._timeout_s)

    async def _places(self) -> dict[str, str]:
        try:
            return await asyncio.to_thread(self._cluster.places)
        except Exception:  # the scheduler is lost too
            return {}

    async def _gather(self) -> None:
        """Take what the tasks return: results that the desk could not hand on any more. Give up those that have not ended."""
        late = [task for task in self._tasks.values() if not task.done()]
        if late and not self._cut:
            places = await self._places()
            self.silent = {places[task.key] for task in late if task.key in places}
        for name, task in self._tasks.items():
            found = await asyncio.to_thread(self._result, task)
            if found is None:
                self.trouble = self.trouble or "a task was lost"
                self.lost_usd += self._at_risk.get(name, _NOTHING)
            else:
                self._take(found)

    def _result(self, task: Any) -> list[Finished] | None:
        """Return what a task has returned; None when it was lost."""
        if not task.done():
            self._cluster.end(task)
            return None
        try:
            found: list[Finished] | None = task.result(timeout=LOST_S)
            return found
        except Exception as exc:
            self.trouble = self.trouble or f"{type(exc).__name__}: {exc}"
            if task.status != "error" or type(exc).__module__.startswith(("distributed", "asyncio", "concurrent")):
                return None
            raise EnrichmentError(f"a task on the Dask cluster failed: {type(exc).__name__}: {exc}") from exc


def _collected(client: Any, desk: Any, kept: Sequence[str], stop: bool, drop: bool) -> Collection:
    """Return what the desk has; a desk that is slow is asked again, one whose worker Dask knows to be lost is not."""
    for _ in range(TRIES):
        with suppress(TimeoutError), client.as_current():
            found: Collection = desk.collect(kept, stop, drop).result(timeout=1.0 if stop else ANSWER_S)
            return found
        if stop:
            break
    raise TimeoutError("the desk does not answer")
