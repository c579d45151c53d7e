"""Writes what happens into the ledger, and what a reader wants to know of it into the answer's trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from ipy_websearch.events import Event, ModelRequested, ModelResponded, Money, ToolFinished, ToolStarted
from ipy_websearch.ledger import Ledger
from ipy_websearch.ledger_rows import LedgerRow
from ipy_websearch.pricing import caching_saved, charge_cost, model_cost
from ipy_websearch.results import Step
from ipy_websearch.settings import OFFLINE_MODEL
from ipy_websearch.text import shorten
from ipy_websearch.usage import Charge, Usage

UNTAPED = (OFFLINE_MODEL, "local")
"""What answers without a network, and so is on no cassette."""


def add_money(a: Money, b: Money) -> Money:
    """Return the sum; what is unknown stays unknown."""
    return None if a is None or b is None else a + b


@dataclass(slots=True)
class Booking:
    """Books one question (or one search outside of any). `cost_usd` is None once a price was unknown.

    `replayed_from` names the cassette that the calls come from: they cost nothing then, and their rows say "replayed"; `check`
    raises what the question asked of it in vain. With `holds`, rows may wait a moment for more (see `Ledger.hold`), until
    `written` is called. Without `traces` there are no `steps`.
    """

    ledger: Ledger
    session: str
    question_id: str
    question: str
    notebook: str = ""
    replayed_from: str = ""
    check: Callable[[], None] = lambda: None
    holds: bool = False
    traces: bool = True
    cost_usd: Money = Decimal(0)
    steps: list[Step] = field(default_factory=list)
    _body: Any = None
    _started: dict[str, ToolStarted] = field(default_factory=dict)
    _shortened: str = field(init=False)
    _at: datetime | None = None

    def __post_init__(self) -> None:
        self._shortened = shorten(self.question, 200)

    def written(self) -> None:
        """Have everything written that was booked with `holds`."""
        if self.holds:
            self.ledger.write_held()

    def take(self, event: Event, at: datetime | None = None) -> None:
        """Book an event as it happens, or later: it happened `at` that moment (aware)."""
        self._at = at
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

    def charges(self, charges: Sequence[Charge], *, status: str = "ok") -> Money:
        """Book calls to engines and return what they cost together.

        What "interrupted" and lost ones cost is the price expected: they went out, and may be billed.
        """
        total: Money = Decimal(0)
        for charge in charges:
            price = charge_cost(charge)
            if charge.lost and price == 0:
                continue
            cost = self._due(price)
            total = add_money(total, cost)
            saved = charge_cost(replace(charge, cached=False)) if charge.cached and not self.replayed_from else None
            self._row(
                kind=charge.kind,
                name=charge.provider,
                cost=cost,
                charge=charge,
                status="error" if charge.lost and status == "ok" else status,
                estimated=charge.lost or status == "interrupted",
                saved=saved,
            )
        self.cost_usd = add_money(self.cost_usd, total)
        return total

    def _model(self, event: ModelResponded) -> None:
        cost = self._due(model_cost(event.model, event.usage))
        self.cost_usd = add_money(self.cost_usd, cost)
        status = "interrupted" if event.lost else "ok" if event.stop_reason else "error"
        self._row(
            kind="model",
            name=event.model,
            cost=cost,
            usage=event.usage,
            status=status,
            estimated=event.estimated,
            saved=None if self.replayed_from else caching_saved(event.model, event.usage),
        )
        if not self.traces:
            return
        self.steps.append(
            Step(
                n=len(self.steps) + 1,
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
        )

    def _tool(self, event: ToolFinished) -> None:
        cost = self.charges(event.charges, status="error" if event.is_error else "ok")
        if not self.traces:
            return
        started = self._started.get(event.id)
        self.steps.append(
            Step(
                n=len(self.steps) + 1,
                kind="tool",
                name=event.name,
                detail=event.summary,
                milliseconds=event.seconds * 1000,
                cost_usd=cost,
                is_error=event.is_error,
                request=started.input if started else None,
                response=event.content,
            )
        )

    def _due(self, cost: Money) -> Money:
        """Return what a call is to be booked at."""
        return Decimal(0) if self.replayed_from else cost

    def _row(
        self,
        *,
        kind: Any,
        name: str,
        cost: Money,
        usage: Usage | None = None,
        charge: Charge | None = None,
        status: Any = "ok",
        estimated: bool = False,
        saved: Money = None,
    ) -> None:
        book = self.ledger.hold if self.holds else self.ledger.book
        book(
            LedgerRow(
                time=self._at or datetime.now(UTC),
                session=self.session,
                question_id=self.question_id,
                question=self._shortened,
                kind=kind,
                name=name,
                usage=usage or Usage(),
                units=charge.units if charge else Decimal(0),
                unit=charge.unit if charge else "",
                cost_usd=cost,
                cached=charge.cached if charge else False,
                status="replayed" if self.replayed_from and name not in UNTAPED else status,
                estimated=estimated,
                saved_usd=saved,
                notebook=self.notebook,
            )
        )
