"""The one place where what happened becomes rows of the ledger, and steps of an answer's trace.

A request that was sent and cut off, or whose cost nobody said, is booked under a budget at the worst case that was reserved for
it, as an `estimated` row: no money is held anywhere but in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from ipy_websearch.events import Event, ModelRequested, ModelResponded, Money, ToolFinished, ToolStarted
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.money.ledger import Ledger, LedgerRow, Reservation, Status
from ipy_websearch.money.prices import caching_saved, charge_cost, model_cost
from ipy_websearch.results import Step
from ipy_websearch.settings import OFFLINE_MODEL
from ipy_websearch.usage import Charge, Usage

UNRECORDED = (OFFLINE_MODEL, "local")
"""What answers without a network, and so is on no cassette."""


def add_money(a: Money, b: Money) -> Money:
    """Return the sum; what is unknown stays unknown."""
    return None if a is None or b is None else a + b


@dataclass(slots=True)
class Booking:
    """Books one question, or one search outside of any. `cost_usd` is None once a price was unknown.

    `budget` is what the run reserves from; it is settled in the transaction that inserts the rows. `replayed_from` names the
    cassette that the calls come from: they cost nothing, their rows say "replayed", and a budget counts them all the same, so
    that it ends where the recording did. `check` raises what the question asked of the cassette in vain. Without `traces` there
    are no `steps`.
    """

    ledger: Ledger
    session: str
    question_id: str
    question: str
    notebook: str = ""
    replayed_from: str = ""
    check: Callable[[], None] = lambda: None
    traces: bool = True
    budget: RunBudget = field(default_factory=RunBudget)
    cost_usd: Money = Decimal(0)
    steps: list[Step] = field(default_factory=list)
    write: Callable[[Sequence[LedgerRow]], None] | None = None
    _body: Any = None
    _started: dict[str, ToolStarted] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Book an event as it happens."""
        match event:
            case ModelRequested():
                self._body = event.body
            case ModelResponded():
                self._model(event)
            case ToolStarted():
                self._started[event.id] = event
            case ToolFinished():
                self._tool(event)
            case _:
                pass

    def charges(self, charges: Sequence[Charge], *, status: Status = "ok", id: str = "") -> Money:
        """Book calls to providers (those of the tool call `id`) and return what they cost together."""
        rows = self.charge_rows(charges, status=status)
        self._book(rows, lambda due: self.budget.settle_call(id, due))
        return self._add(rows)

    def settle(self, rows: Sequence[LedgerRow], held: Reservation | None) -> None:
        """Write rows that were made here, and end what was reserved for them."""
        if rows and (self.replayed_from or held is None):
            (self.write or self.ledger.book)([self.due(row) for row in rows])
        if held is not None:
            held.settle(rows)

    def close(self, cut_off: ModelResponded | None = None) -> None:
        """Book what was sent and has not come to its end, and give back what is still reserved."""
        if cut_off is not None:
            self.take(cut_off)
        rows = self.charge_rows(self.budget.close(), status="interrupted")
        self._book(rows, lambda due: self.budget.settle_request(due, Usage()))
        self._add(rows)

    # --- rows -----------------------------------------------------------------------------------------------------------

    def model_row(
        self,
        model: str,
        usage: Usage,
        *,
        status: Status = "ok",
        estimated: bool = False,
        lost: bool = False,
        batch: bool = False,
    ) -> LedgerRow:
        """Return the row of a request. A `lost` one went out, and nothing was heard of its cost."""
        cost, held = model_cost(model, usage, batch=batch), self.budget.request_usd
        if held and (cost is None or (lost and held > cost)):
            cost, estimated = held, True
        saved = None if self.replayed_from else caching_saved(model, usage)
        return self._row("model", model, cost, usage=usage, status=status, estimated=estimated, saved_usd=saved)

    def charge_rows(self, charges: Sequence[Charge], *, status: Status = "ok") -> list[LedgerRow]:
        """Return the rows of calls to providers; what was interrupted or lost went out, and counts at the price expected."""
        rows = []
        for charge in charges:
            cost = charge_cost(charge)
            if charge.lost and cost == 0:
                continue
            row = self._row(
                charge.kind,
                charge.provider,
                cost,
                units=charge.units,
                unit=charge.unit,
                cached=charge.cached,
                status="error" if charge.lost and status == "ok" else status,
                estimated=charge.lost or status == "interrupted",
                saved_usd=charge_cost(replace(charge, cached=False)) if charge.cached and not self.replayed_from else None,
            )
            rows.append(row)
        return rows

    def due(self, row: LedgerRow) -> LedgerRow:
        """Return a row as it goes into the ledger: what comes from a cassette costs nothing."""
        if not self.replayed_from:
            return row
        return replace(row, cost_usd=Decimal(0), status=row.status if row.name in UNRECORDED else "replayed")

    def _row(self, kind: Any, name: str, cost: Money, **more: Any) -> LedgerRow:
        whose = (self.session, self.question_id, self.question)
        return LedgerRow(datetime.now(UTC), *whose, kind, name, cost_usd=cost, notebook=self.notebook, **more)

    def _book(self, rows: Sequence[LedgerRow], settle: Callable[[Sequence[LedgerRow]], None]) -> None:
        """Write rows; under a budget, in the transaction that ends what was reserved for them."""
        if self.replayed_from or not self.budget.bounded:
            (self.write or self.ledger.book)([self.due(row) for row in rows])
        settle(rows if self.budget.bounded else ())

    def _add(self, rows: Sequence[LedgerRow]) -> Money:
        total: Money = Decimal(0)
        for row in rows:
            total = add_money(total, self.due(row).cost_usd)
        self.cost_usd = add_money(self.cost_usd, total)
        return total

    # --- events ---------------------------------------------------------------------------------------------------------

    def _model(self, event: ModelResponded) -> None:
        status: Status = "interrupted" if event.lost else "ok" if event.stop_reason else "error"
        row = self.model_row(event.model, event.usage, status=status, estimated=event.estimated, lost=event.lost)
        self._book([row], lambda due: self.budget.settle_request(due, event.usage))
        cost = self._add([row])
        if self.traces:
            self._step(
                kind="model",
                name=event.model,
                detail=event.stop_reason or "broke off",
                milliseconds=event.seconds * 1000,
                usage=event.usage,
                cost_usd=cost,
                is_error=event.stop_reason is None,
                request=self._body,
                response=event.content,
            )

    def _tool(self, event: ToolFinished) -> None:
        cost = self.charges(event.charges, status="error" if event.is_error else "ok", id=event.id)
        if self.traces:
            started = self._started.get(event.id)
            self._step(
                kind="tool",
                name=event.name,
                detail=event.summary,
                milliseconds=event.seconds * 1000,
                cost_usd=cost,
                is_error=event.is_error,
                request=started.input if started else None,
                response=event.content,
                log=event.log,
            )

    def _step(self, **facts: Any) -> None:
        started = datetime.now(UTC) - timedelta(milliseconds=facts["milliseconds"])
        self.steps.append(Step(n=len(self.steps) + 1, started=started, **facts))
