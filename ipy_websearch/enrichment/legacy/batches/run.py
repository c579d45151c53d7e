"""`mode="batch"`: the rows go to the Message Batches API in chunks, and are collected when their batch has ended.

A run ends when all that it handed in has been collected. One that is interrupted, or killed, leaves its batches at the API,
where they go on and are paid; the next call for the same rows finds them in the store, waits for them, and hands in only what
is in none. The money of a chunk is reserved at its worst case before it is sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from ipy_websearch.enrichment.legacy.asking import system_text
from ipy_websearch.enrichment.legacy.batches.bank import Bank
from ipy_websearch.enrichment.legacy.batches.courier import UNREAD_TRIES, Courier, Flight
from ipy_websearch.enrichment.legacy.batches.handed_in import Batch, HandedIn, Request
from ipy_websearch.enrichment.legacy.batches.requests import BatchRecipe, native_search
from ipy_websearch.enrichment.legacy.batches.results import MISSING, Batched
from ipy_websearch.enrichment.legacy.outcome import Outcome
from ipy_websearch.enrichment.legacy.report import Estimate
from ipy_websearch.errors import EnrichmentError, ModelError
from ipy_websearch.model import batches
from ipy_websearch.text import shorten

CHUNK_REQUESTS, CHUNK_BYTES = 5_000, 32_000_000
"""What goes into one batch: far less than the API takes (100,000 and 256 MB), so that the first rows are back early, and little
has to be sent again when a connection breaks."""

BROKEN_TRIES = 3
"""How often a batch's results are read until lines among them that cannot be understood are taken for lost."""


class BatchEnrichment(Batched):
    """A run through the Message Batches API; see `Enrichment` for what it does from outside."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        bench, most = self._bench, self._options.max_searches
        batches.check(bench.client)
        search = native_search(bench.model, bench.client.platform, most, bench.defaults)
        system = system_text(most, date.today(), cites=bool(most))
        self._recipe = BatchRecipe(bench.model, bench.client.platform, system, search)
        # Batches belong to the server that has them, so those of another address are not looked at.
        self._handed_in = HandedIn(bench.store, os.environ.get("ANTHROPIC_BASE_URL", ""))
        self._courier = Courier(bench.client, self._handed_in)
        self._bank = Bank(bench.model, bench.budget, most)
        self._queue: deque[Request] = deque()
        self._flights: dict[int, Flight] = {}
        self._set_aside: list[Flight] = []
        self._told_until = 0.0
        self._most = CHUNK_REQUESTS

    def estimate(self) -> Estimate:
        """Return what the whole would take; batches take the time that they take, however many rows they have."""
        return replace(super().estimate(), seconds=self._seconds)

    async def _ask_all(self, rows: list[int]) -> None:
        if not rows or self._stop is not None:
            return
        self._book = self._books(len(rows))
        self.progress.gate = self
        try:
            await self._together([self._work(rows)])
        finally:
            self._requests = self._courier.sent
            self._leave()

    async def _work(self, rows: Sequence[int]) -> None:
        clock = asyncio.get_running_loop().time
        await self._line_up(rows)
        while self._flights or (self._queue and self._stop is None):
            while self._queue and self._stop is None and await self._submit():
                pass
            number = len(self._flights)
            for flight in [flight for flight in self._flights.values() if flight.due <= clock()]:
                await self._attend(flight)
            self._tell()
            if self._flights and len(self._flights) == number:
                await asyncio.sleep(max(min(flight.due for flight in self._flights.values()) - clock(), 0.0))

    # --- what to ask ------------------------------------------------------------------------------------------------

    async def _line_up(self, rows: Sequence[int]) -> None:
        """Find what is at the API already, and put what is not into the queue."""
        for row in rows:
            stored = self._stored.setdefault(row, {})
            keys = self._shelf.keys(self.plan.inputs[row])
            self._awaited.add(row, {c: key for c, key in keys.items() if c not in stored})
        taken = await self._adopt() if self._options.resume else set()
        for row, lacking in self._awaited.items():
            asked = tuple(c for c, key in lacking.items() if key not in taken)
            if asked:
                values = self.plan.values(self.plan.inputs[row])
                self._queue.append(Request(asked, tuple(lacking[c] for c in asked), values))

    async def _adopt(self) -> set[bytes]:
        """Take over the open batches that have cells of ours; return the keys of all that is in them."""
        taken: set[bytes] = set()
        try:
            found = self._handed_in.open(self._bench.model)
        except sqlite3.Error as exc:
            raise EnrichmentError(
                f"the store cannot be read ({exc}), so open batches could not be found; nothing was sent"
            ) from exc
        self._courier.known.update(batch.name for batch in found)
        for batch in found:
            requests = [*batch.requests.values(), *batch.again.values()]
            keys = {key for request in requests for key in request.keys}
            if not self._awaited.concern(keys):
                continue
            if not batch.requests:
                self._queue_again(batch)
            elif batch.name or await self._courier.find(batch):
                taken |= {key for request in batch.requests.values() for key in request.keys}
                self._flights[batch.id] = Flight(batch)
                self._bank.take_over(batch.id, batch.token, {n: self._body(batch, r) for n, r in batch.requests.items()})
                self._queue_again(batch)
            else:
                self._put_back(batch)  # it was written down and never arrived
        return taken | {key for request in self._queue for key in request.keys}

    def _body(self, batch: Batch, request: Request) -> dict[str, Any]:
        return self._recipe.body([batch.columns[c] for c in request.asked], request)

    def _put_back(self, batch: Batch) -> None:
        """Ask the requests of a batch again that has no results for them."""
        for number, request in batch.requests.items():
            request.origin = (batch.id, number)
        batch.again.update(batch.requests)
        batch.requests.clear()
        self._queue_again(batch)

    def _queue_again(self, batch: Batch) -> None:
        """Queue what came back unfinished and is ours; its columns get this run's numbers."""
        for number, request in list(batch.again.items()):
            if (columns := self._awaited.columns(request.keys)) is not None:
                request.asked = columns
                self._queue.append(batch.again.pop(number))

    # --- handing in -------------------------------------------------------------------------------------------------

    async def _submit(self) -> bool:
        """Hand in the next chunk, as far as the money reaches; return whether another one may follow."""
        if any(not flight.batch.name for flight in self._flights.values()):
            return False  # the API takes no more at the moment
        requests, bodies, reserved = self._chunk()
        if not requests:
            if not self._flights:
                self._halt("budget", self._bank.refusal, False)
            return False
        try:
            batch = self._handed_in.begin(self._bench.model, self.plan.columns, requests, self._bank.token)
        except sqlite3.Error as exc:
            self._bank.cancel()
            text = f"the store cannot be written ({exc}), so a batch could not be found again; nothing more was sent"
            raise EnrichmentError(text) from exc
        self._flights[batch.id] = flight = Flight(batch, bodies=bodies)
        self._bank.assign(batch.id, reserved)
        await self._send(flight)
        return True

    def _chunk(self) -> tuple[list[Request], list[Mapping[str, Any]], list[Decimal]]:
        """Return the next requests with their bodies and what was reserved for each."""
        requests: list[Request] = []
        bodies: list[Mapping[str, Any]] = []
        reserved: list[Decimal] = []
        size = 0
        while self._queue and len(requests) < self._most:
            request = self._queue[0]
            body = self._recipe.body([self.plan.columns[c] for c in request.asked], request)
            size += len(json.dumps(body))
            if requests and size > CHUNK_BYTES:
                break
            amount = self._bank.reserve(body)
            if amount is None:
                break
            requests.append(self._queue.popleft())
            bodies.append(body)
            reserved.append(amount)
        return requests, bodies, reserved

    async def _send(self, flight: Flight) -> None:
        try:
            await self._courier.hand_in(flight)
        except ModelError as exc:
            self._drop(flight)
            if exc.status == 413 and len(flight.batch.requests) > 1:
                self._most = len(flight.batch.requests) // 2
                self._put_back(flight.batch)
                return
            if not any(request.turns for request in flight.batch.requests.values()):
                self._handed_in.forget(flight.batch)
            self._gave_up = f"the batch was not taken: {exc}"
            self._halt("error", str(exc), False)

    def _drop(self, flight: Flight) -> None:
        self._flights.pop(flight.batch.id, None)
        self._bank.drop(flight.batch.id)

    # --- collecting -------------------------------------------------------------------------------------------------

    async def _attend(self, flight: Flight) -> None:
        """Ask after a batch whose time has come, and collect it when it has ended."""
        clock = asyncio.get_running_loop().time
        if not flight.batch.name:
            await self._send(flight)
            return
        try:
            state = await batches.look_up(self._bench.client, flight.batch.name)
            flight.processing, flight.trouble = state.counts.get("processing", 0), ""
            if state.ended:
                await self._collect(flight, state)
            else:
                flight.later(clock())
        except ModelError as exc:
            if exc.status == 404:
                self._ask_again(flight, f"batch {flight.batch.name} is not known to the API under this key")
            elif exc.status in (401, 403):
                raise EnrichmentError(f"batch {flight.batch.name} cannot be collected: {exc}") from exc
            else:
                flight.later(clock(), exc)
                if flight.unread >= UNREAD_TRIES:  # nothing is lost: it stays at the API
                    self._set_aside.append(self._flights.pop(flight.batch.id))

    async def _collect(self, flight: Flight, state: batches.BatchState) -> None:
        """Read the results of an ended batch, keep them by the hundred, and give up on what has none."""
        batch = flight.batch
        try:
            if not await self._read(flight, state):
                await self._look_again(flight)
                return
        except ModelError as exc:
            hopeless = exc.kind == batches.BROKEN and flight.readable and flight.unread + 1 >= BROKEN_TRIES
            if batch.requests and not hopeless:
                raise
            if batch.requests:
                self._notes.append(f"{exc}, however often; {len(batch.requests):,} of its rows have no result")
        self._keep(batch, [(number, request, MISSING) for number, request in batch.requests.items()])
        self._drop(flight)
        self._queue_again(batch)

    async def _look_again(self, flight: Flight) -> None:
        """Its name was a guess, and a wrong one: look for another one, and else ask its rows again."""
        self._courier.strangers.add(flight.batch.name)
        self._handed_in.name(flight.batch, "")
        if await self._courier.find(flight.batch):
            flight.later(asyncio.get_running_loop().time())
        else:
            self._drop(flight)
            self._put_back(flight.batch)

    def _ask_again(self, flight: Flight, why: str) -> None:
        """Ask the rows of a batch again that is gone."""
        self._notes.append(f"{why}; its rows were asked again")
        self._drop(flight)
        self._put_back(flight.batch)

    # --- telling ----------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Say in the bar what is being waited for."""
        number = len(self._flights)
        requests = sum(flight.processing or len(flight.batch.requests) for flight in self._flights.values())
        note = f"{requests:,} in {number} batch{'es' * (number != 1)} at the API" if number else ""
        trouble = next((flight.trouble for flight in self._flights.values() if flight.trouble), "")
        self.progress.note = f"{note} ({shorten(trouble, 100)})" if trouble else note
        self._told_until = max((flight.told_until for flight in self._flights.values()), default=0.0)

    @property
    def floor_s(self) -> float:
        """Seconds for which a `retry-after` still holds."""
        return max(self._told_until - time.monotonic(), 0.0)

    def _leave(self) -> None:
        """Say of the rows that are at the API when the run ends that they can be collected."""
        self.progress.note = ""
        flights = [*self._flights.values(), *self._set_aside]
        left = [flight.batch for flight in flights]
        for flight in flights:
            batch = flight.batch
            state = flight.trouble if flight in self._set_aside else "which goes on"
            text = f"at the API in batch {batch.name or '(no name yet)'}, {state}; the same call collects it"
            for row in self._awaited.rows([key for request in batch.requests.values() for key in request.keys]):
                self._finish(row, Outcome("interrupted", error=text), self._spent.pop(row, None))
                self._awaited.give_up(row)
        if left:
            rows = sum(len(batch.requests) for batch in left)
            self._notes.append(
                f"{rows:,} row{'s' * (rows != 1)} in {len(left)} batch{'es' * (len(left) != 1)} go on at the API and will be "
                "paid for: the same call collects them, `%websearch store cancel` ends them"
            )
