"""The money of a run through batches: reserved at its worst before a chunk is sent, settled result by result.

The id of a reservation is the token of its batch. What an interrupted run leaves at the API stays reserved as long
as the API works on a batch, because it will be paid; the next run, in this kernel or in another one, takes it over.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.model.tokens import estimate_tokens
from ipy_websearch.money.budget import Budget, unknown_price
from ipy_websearch.money.ledger import LedgerRow, Refused, Reservation
from ipy_websearch.money.prices import worst_case

LEASE_S = 25 * 3_600.0
"""The API gives a batch up after 24 hours (platform.claude.com/docs, "Batch processing", read 2026-11)."""

_NANO = Decimal("1e-9")
_NOTHING = Decimal(0)


class Bank:
    """Reserves and settles by batch and request; without limits it lets everything pass.

    `searches` are those that the API may make for a row, `refusal` says why the last request did not fit.
    """

    def __init__(self, model: str, budget: Budget, searches: int) -> None:
        self.refusal = ""
        self._model = model
        self._budget = budget
        self._searches = searches
        self._scale = Decimal(1)
        self._next = self._none()
        self._held: dict[int, Reservation] = {}
        self._amounts: dict[int, dict[int, Decimal]] = {}

    @property
    def token(self) -> str:
        """The token of the next batch."""
        return self._next.id

    def reserve(self, body: Mapping[str, Any]) -> Decimal | None:
        """Reserve what a request of the next batch may cost at worst; None when it does not fit (`refusal` says why)."""
        if not self._budget.bounded:
            return _NOTHING
        worst = self._worst(body)
        if worst is None:
            self.refusal = unknown_price(self._model)
            return None
        try:
            self._next = self._budget.reserve(self._next.usd + worst, lease_s=LEASE_S, id=self._next.id)
        except Refused as refused:
            self.refusal = refused.standing.refusal("a row", worst)
            return None
        except BudgetExceededError as exc:
            self.refusal = str(exc)
            return None
        return worst

    def assign(self, batch: int, amounts: Iterable[Decimal]) -> None:
        """Say that what was reserved is for the requests of a batch, in their order."""
        self._held[batch], self._next = self._next, self._none()
        self._amounts[batch] = dict(enumerate(amounts))

    def cancel(self) -> None:
        """Give back what was reserved for a batch that is not sent."""
        self._next.release()
        self._next = self._none()

    def take_over(self, batch: int, token: str, bodies: Mapping[int, Mapping[str, Any]]) -> None:
        """Reserve for a batch that an earlier run has sent, whether or not it fits."""
        ledger, held = self._budget.ledger, self._budget.ledger.reservation(token)
        self._amounts[batch] = {}
        if self._budget.bounded or held is not None:
            self._amounts[batch] = {number: self._worst(body) or _NOTHING for number, body in bodies.items()}
            total = sum(self._amounts[batch].values(), _NOTHING)
            held = ledger.reserve(self._budget.session, self._budget.question_id, total, lease_s=LEASE_S, id=token)
        self._held[batch] = held or self._none()

    def settle(self, batch: int, rows: Mapping[int, LedgerRow | None]) -> None:
        """Insert the rows of some results by their numbers (None: it is not billed), and end what was reserved for them."""
        amounts, held = self._amounts.get(batch, {}), self._held.get(batch) or self._none()
        booked = []
        for number, row in rows.items():
            reserved = amounts.pop(number, _NOTHING)
            if row is None:
                continue
            if row.cost_usd is None and reserved:  # nobody said what it cost
                row = replace(row, cost_usd=reserved, estimated=True)
            elif row.cost_usd is not None and reserved and row.cost_usd > reserved:
                self._scale *= row.cost_usd / reserved
            booked.append(row)
        held.settle(booked, keep=sum(amounts.values(), _NOTHING))

    def drop(self, batch: int) -> None:
        """Give back what is still reserved for a batch."""
        self._amounts.pop(batch, None)
        if (held := self._held.pop(batch, None)) is not None:
            held.release()

    def _worst(self, body: Mapping[str, Any]) -> Decimal | None:
        tokens, most = estimate_tokens(body), int(body["max_tokens"])
        worst = worst_case(self._model, tokens, most, batch=True, server_searches=self._searches)
        return None if worst is None else (worst * self._scale).quantize(_NANO, ROUND_CEILING)

    def _none(self) -> Reservation:
        return Reservation(self._budget.ledger, uuid.uuid4().hex[:16])
