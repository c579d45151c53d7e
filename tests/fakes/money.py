"""What a session has spent, and what it holds for what is under way, as its ledger says; a clock for ledgers."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from ipy_websearch import api
from ipy_websearch.money.ledger import NANO, cost_frame

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = NOW.timestamp()

    def __call__(self) -> float:
        return self.seconds


def total(ledger: Any, **scope: Any) -> tuple[Decimal, int]:
    """Return US dollars of the rows with a price, and the number of rows without one."""
    summary = cost_frame(ledger, **scope).summary
    assert summary is not None
    return summary.total_usd, sum(summary.unpriced.values())


def spent(session: Any = None) -> Decimal:
    """Return US dollars booked by a session (None: the shared one) or, during a replay, counted by its budgets."""
    session = session or api.session()
    return total(session.budget.ledger, session=session.id)[0]


def held(session: Any = None) -> Decimal:
    """Return US dollars reserved by everybody."""
    ledger = (session or api.session()).budget.ledger
    return ledger.read(lambda c: c.execute("SELECT coalesce(sum(usd), 0) FROM reservations").fetchone()[0]) / NANO


class Limited:
    """The shared session's budget: its limit, what was spent and what is reserved."""

    def __init__(self, usd: Decimal | float | str | None = None) -> None:
        if usd is not None:
            api.session().settings.session_budget_usd = float(usd)

    limit = property(lambda self: Decimal(str(api.session().settings.session_budget_usd)))
    spent = property(lambda self: spent())
    reserved = property(lambda self: held())
