"""The money side of a session: what it has spent, its ceilings, its reports, and which notebook it works for."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipy_websearch.booking import Booking
from ipy_websearch.budgets import Budgets
from ipy_websearch.events import Money
from ipy_websearch.notebook import notebook_name
from ipy_websearch.options import moment
from ipy_websearch.parts import Parts
from ipy_websearch.settings import WebSearch

if TYPE_CHECKING:
    from ipy_websearch.frames import CostFrame


class Accounts(Parts):
    """What a session spends. `id` names it in the ledger; `spent_usd` is None once a price was unknown.

    `notebook` is the name that its ledger rows get; None: the one that the environment tells.
    """

    def __init__(self, settings: WebSearch | None = None, *, folder: Path | None = None) -> None:
        super().__init__(settings, folder=folder)
        self.id = uuid.uuid4().hex[:12]
        self.started = datetime.now(UTC)
        self.spent_usd: Money = Decimal(0)
        self.notebook: str | None = None
        self.budgets = Budgets(lambda: self.settings, lambda: self.ledger)
        self._counted_from: datetime | None = None

    def booking(self, question: str) -> Booking:
        """Return what books a new question (or search) of this session."""
        return Booking(self.ledger, self.id, uuid.uuid4().hex[:12], question, self.notebook_name)

    @property
    def notebook_name(self) -> str:
        """The notebook's path or name, "" when nothing tells it."""
        return self.notebook if self.notebook is not None else notebook_name(self.settings)

    def cost(
        self, *, by: str | None = None, everything: bool = False, since: str | date | timedelta | None = None
    ) -> CostFrame:
        """Return what this session spent, one row for each ledger entry; see `ipy_websearch.cost`.

        `everything` is all sessions in the ledger; `since` (without a zone: UTC) only what came later, of all sessions when it
        is before this one began.
        """
        from ipy_websearch.ledger_costs import cost_frame

        later = None if since is None else moment("since", since, datetime.now(UTC))
        everything = everything or (later is not None and later <= self.started)
        frame = cost_frame(self.ledger, by=by, **self._scope(everything, later))
        if frame.summary is not None and not everything and since is None and self.budgets.room() is not None:
            frame.summary = replace(frame.summary, cut_off_usd=self.budgets.session.cut_off)
        return frame

    def cost_curve(self, *, everything: bool = False, since: datetime | None = None) -> list[tuple[datetime, str, Decimal]]:
        """Return (moment, kind of call, US dollars that it added) in the order of time, in at most 500 steps."""
        return self.ledger.curve(**self._scope(everything, since))

    def reset_cost(self) -> None:
        """Let the session's count of costs, and its ceiling, start anew; the rows stay in the ledger."""
        self._counted_from = datetime.now(UTC)
        self.spent_usd = Decimal(0)
        self.budgets.session.begin_anew()

    def _scope(self, everything: bool, since: datetime | None) -> dict[str, Any]:
        """Return session and moment for a report: of this session what came after the last reset of its count."""
        if since is not None and since.tzinfo is None:
            since = since.replace(tzinfo=UTC)
        moments = [at for at in (since, None if everything else self._counted_from) if at is not None]
        return {"session": None if everything else self.id, "since": max(moments, default=None)}
