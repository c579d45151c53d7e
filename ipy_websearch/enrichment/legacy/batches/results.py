"""Takes the results of batches in: each into the store, the ledger and its rows, by the hundred."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from ipy_websearch.enrichment.legacy.batches.awaited import Awaited
from ipy_websearch.enrichment.legacy.batches.bank import Bank
from ipy_websearch.enrichment.legacy.batches.courier import Flight
from ipy_websearch.enrichment.legacy.batches.handed_in import Batch, Collected, HandedIn, Request
from ipy_websearch.enrichment.legacy.batches.requests import Read, read
from ipy_websearch.enrichment.legacy.outcome import Outcome, answered
from ipy_websearch.enrichment.legacy.run import Enrichment
from ipy_websearch.enrichment.legacy.store import Stored
from ipy_websearch.events import Money
from ipy_websearch.model import batches
from ipy_websearch.money.booking import Booking, add_money
from ipy_websearch.money.ledger import LedgerRow
from ipy_websearch.money.prices import billed_model, model_cost
from ipy_websearch.usage import Usage, reported

Result = Mapping[str, Any]
MISSING: Result = {"type": "missing"}
_AT_ONCE = 100


@dataclass(slots=True)
class Spent:
    """What a row has used."""

    cost_usd: Money = Decimal(0)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A result as it is understood: what it means, its cost (None: unknown) and its usage (None: it is not billed)."""

    number: int
    request: Request
    read: Read
    cost: Money
    usage: Usage | None
    model: str

    def collected(self) -> Collected:
        """Return what is to be kept of it."""
        before = self.request.usd
        total = None if self.cost is None or before is None else before + float(self.cost)
        return Collected(self.number, self.request, self.read.cells, self.read.turns, total)


class Batched(Enrichment):
    """The part of a run through batches that takes results in."""

    _handed_in: HandedIn
    _bank: Bank
    _book: Booking

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._awaited = Awaited()
        self._spent: dict[int, Spent] = defaultdict(Spent)

    async def _read(self, flight: Flight, state: batches.BatchState) -> bool:
        """Take in the results of a batch that has ended, as far as they can be read; return whether they are its own.

        Raises:
            ModelError: they broke off, or have broken lines; what was read is kept.
        """
        batch, flight.readable = flight.batch, 0
        group: list[tuple[int, Request, Result]] = []
        try:
            async for custom_id, result in batches.results(self._bench.client, state):
                token, _, number = custom_id.rpartition("-")
                if token != batch.token or not number.isdecimal():
                    return False
                flight.readable += 1
                if int(number) in batch.requests:
                    group.append((int(number), batch.requests[int(number)], result))
                if len(group) >= _AT_ONCE:
                    self._keep(batch, group)
                    group.clear()
                    await asyncio.sleep(0)
        finally:
            self._keep(batch, group)
        return True

    def _keep(self, batch: Batch, group: Sequence[tuple[int, Request, Result]]) -> None:
        """Keep some results, book them, and fill their rows."""
        answers = [self._understood(batch, *entry) for entry in group]
        try:
            ours = self._handed_in.collect(batch, [answer.collected() for answer in answers])
        except sqlite3.Error as exc:
            self._shelf.warn(f"the store could not be written ({exc}); the values are in the frame only")
            ours = [True] * len(answers)
            for answer in answers:
                batch.requests.pop(answer.number, None)
        rows = {a.number: self._booked(a) if mine else None for a, mine in zip(answers, ours, strict=True)}
        self._bank.settle(batch.id, rows)
        for answer in answers:
            self._take(answer)

    def _booked(self, answer: Answer) -> LedgerRow | None:
        if answer.usage is None:
            return None
        return replace(self._book.model_row(answer.model, answer.usage, batch=True), cost_usd=answer.cost)

    def _understood(self, batch: Batch, number: int, request: Request, result: Result) -> Answer:
        meaning = read(result, [batch.columns[c] for c in request.asked], request)
        message = result.get("message")
        if result.get("type") != "succeeded" or not isinstance(message, Mapping):
            return Answer(number, request, meaning, Decimal(0), None, "")
        model = billed_model(self._bench.model, str(message.get("model") or ""))
        usage = Usage.from_api(message.get("usage"))
        told = all(reported(message.get("usage"), name) for name in ("input_tokens", "output_tokens"))
        return Answer(number, request, meaning, model_cost(model, usage, batch=True) if told else None, usage, model)

    def _take(self, answer: Answer) -> None:
        """Give an answer to the rows that wait for it; the first of them bears the cost."""
        request, meaning = answer.request, answer.read
        rows = self._awaited.rows(request.keys)
        if not rows:  # it is for a row of another call, or one that has failed already
            self.cost_usd = add_money(self.cost_usd, answer.cost)
            return
        self._spent[rows[0]].cost_usd = add_money(self._spent[rows[0]].cost_usd, answer.cost)
        if meaning.turns is not None:
            return
        if meaning.error:
            for row in rows:
                self._awaited.give_up(row)
                self._finish(row, Outcome("error", error=meaning.error), self._spent.pop(row, None))
            return
        for key, cell in zip(request.keys, meaning.cells, strict=True):
            for row, column in self._awaited.places(key):
                self._stored[row][column] = Stored(cell, None, 0.0)
                if self._awaited.got(row, column):
                    self._fill(row)

    def _fill(self, row: int) -> None:
        cells = {column: stored.cell for column, stored in self._stored.pop(row).items()}
        self._finish(row, answered(self._ordered(cells), self._note(self.plan.inputs[row])), self._spent.pop(row, None))
