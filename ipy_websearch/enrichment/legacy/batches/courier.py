"""Hands batches in and asks after them, patiently: what the network loses is looked for before it is sent again.

A batch has no name of ours at the API, and its custom ids are seen only in its results. One whose answer got lost is therefore
looked for among the newest batches, by its number of requests and its time; the token in its results tells in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ipy_websearch.enrichment.legacy.batches.handed_in import Batch, HandedIn, open_batches
from ipy_websearch.enrichment.legacy.schedule import MAX_FLOOR_S
from ipy_websearch.enrichment.legacy.sender import backoff_s
from ipy_websearch.enrichment.legacy.store import Store
from ipy_websearch.errors import ModelError
from ipy_websearch.model import batches
from ipy_websearch.model.client import ModelClient

FIRST_POLL_S, MAX_POLL_S, SLOWER = 2.0, 60.0, 1.5
"""When a batch is asked after first, how seldom at most, and by how much later each time: most take minutes to an hour."""

FIND_AFTER_S = 1.0
"""Seconds after a lost answer before the list of batches is trusted to show what arrived."""

MAX_SKEW = timedelta(minutes=5)
"""By how much the API's clock may be behind ours."""

UNREAD_TRIES = 10
"""How often a batch is asked for that the API does not give: about four minutes, then it is left there for a later call."""

_PASSING = (408, 409, 425, 429)
_REFUSED_FOR_LOAD = (429, 503, 529)
_sending: set[asyncio.Task[Any]] = set()  # they outlive a run that is interrupted while it hands something in


@dataclass(slots=True)
class Flight:
    """A batch that is at the API (or on its way): when to ask after it next, by the event loop's clock.

    `unread` says how often its results could not be read, `readable` how many lines of them could the last time, `trouble` what
    went wrong when it was last asked after, `told_until` until when the API wants to be left alone.
    """

    batch: Batch
    due: float = 0.0
    wait_s: float = 0.0
    failures: int = 0
    unread: int = 0
    trouble: str = ""
    readable: int = 0
    told_until: float = 0.0
    processing: int = 0
    bodies: list[Mapping[str, Any]] = field(default_factory=list)

    def later(self, now: float, why: ModelError | None = None) -> None:
        """Ask again later, and later each time; `why` is the error that this time ended with."""
        self.wait_s = min(max(self.wait_s * SLOWER, FIRST_POLL_S), MAX_POLL_S)
        self.due = now + self.wait_s
        self.unread += why is not None and _is_lasting(why)
        self.failed(now, why)

    def failed(self, now: float, why: ModelError | None) -> None:
        """Take note of an error, and of the `retry-after` that may have come with it."""
        self.trouble = str(why) if why else ""
        told_s = min(why.retry_after or 0.0, MAX_FLOOR_S) if why else 0.0
        self.told_until = now + told_s if told_s else 0.0
        self.due = max(self.due, self.told_until)


class Courier:
    """Brings requests to the API. `strangers` are batches that turned out not to be ours."""

    def __init__(self, client: ModelClient, handed_in: HandedIn) -> None:
        self._client = client
        self._handed_in = handed_in
        self.known: set[str] = set()
        self.strangers: set[str] = set()
        self.sent = 0

    async def hand_in(self, flight: Flight) -> None:
        """Send a batch that is written down already; when it is refused for load, or lost, it is to be tried again at `due`.

        Raises:
            ModelError: it was refused for good. ConfigError: the server has no batches.
        """
        try:
            if not (flight.failures and await self.find(flight.batch)):
                task = asyncio.create_task(self._send(flight.batch, flight.bodies))
                _sending.add(task)
                task.add_done_callback(_sent)
                await asyncio.shield(task)
        except ModelError as exc:
            if not _may_repeat(exc):
                raise
            flight.failures += 1
            flight.due = _now() + max(backoff_s(flight.failures), FIND_AFTER_S)
            flight.failed(_now(), exc)
        else:
            flight.bodies = []
            flight.later(_now())

    async def _send(self, batch: Batch, bodies: Sequence[Mapping[str, Any]]) -> None:
        numbers = list(batch.requests)
        requests = [{"custom_id": batch.custom_id(n), "params": body} for n, body in zip(numbers, bodies, strict=True)]
        self.sent += len(requests)
        state = await batches.submit(self._client, requests)
        self.known.add(state.id)
        self._handed_in.name(batch, state.id)

    async def find(self, batch: Batch) -> bool:
        """Look for a batch of which no answer came; name it and return True when it seems to have arrived.

        Raises:
            ModelError: the API does not say.
        """
        found = [
            state
            for state in await batches.recent(self._client, batch.submitted - MAX_SKEW)
            if state.requests == len(batch.requests) and state.id not in self.known | self.strangers
        ]
        if found:
            nearest = min(found, key=lambda state: abs(state.created - batch.submitted))
            self.known.add(nearest.id)
            self._handed_in.name(batch, nearest.id)
        return bool(found)


async def cancel_open(client: ModelClient, store: Store, address: str) -> tuple[int, list[str]]:
    """Ask the API to end all batches that were handed in at this address; return how many it ends, and what it said of others.

    What was answered by then is paid, and collected by the call that handed it in.
    """
    ended, said = 0, []
    for name, _, _, _, where in open_batches(store):
        if name and where == address:
            try:
                await batches.cancel(client, name)
                ended += 1
            except ModelError as exc:
                said.append(f"{name}: {exc}")
    return ended, said


def _may_repeat(error: ModelError) -> bool:
    """Return whether a submission may be tried again: it was refused for load, or nobody knows whether it arrived."""
    return error.status is None or error.status == 200 or error.status in _REFUSED_FOR_LOAD or error.status >= 500


def _is_lasting(error: ModelError) -> bool:
    """Return whether an error says that asking again will hardly help: not the network, not the load."""
    status = error.status or 0
    return error.kind == batches.BROKEN or (400 <= status < 500 and status not in _PASSING)


def _sent(task: asyncio.Task[Any]) -> None:
    _sending.discard(task)
    if not task.cancelled():
        task.exception()  # whoever waits for it has it; nobody does after an interrupt, and the batch is looked for then


def _now() -> float:
    return asyncio.get_running_loop().time()
