"""The ceilings that a session's questions share: the session's own, and that of the day over all sessions.

The day is the UTC one. Its sum is the ledger's, read while nothing of this session is under way, plus what this session
spends from then on; what another kernel spends during a question is seen at the next question.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal

from ipy_websearch.config import WebSearch
from ipy_websearch.ledger import Ledger
from ipy_websearch.purse import Ceiling, CeilingPurse


class Budgets:
    """Hands out purses. `settings` gives the limits in force, `ledger` what was spent today."""

    def __init__(self, settings: Callable[[], WebSearch], ledger: Callable[[], Ledger]) -> None:
        self._settings = settings
        self._ledger = ledger
        self.session = Ceiling("session budget", None, "%cost --budget USD")
        self.day = Ceiling("day's budget", None, "%cost --day-budget USD")
        self._today: date | None = None

    def purse(self, model: str, budget_usd: Decimal | None, *, server_searches: int = 0, answers: bool = True) -> CeilingPurse:
        """Return a purse that is held to the question's budget (None: it has none), the session's and the day's."""
        return CeilingPurse(model, self.ceilings(budget_usd), server_searches, answers)

    def ceilings(self, budget_usd: Decimal | None = None) -> tuple[Ceiling, ...]:
        """Return the ceilings of one question, brought up to date."""
        settings = self._settings()
        self.session.limit = _exact(settings.session_budget_usd)
        self.day.limit = _exact(settings.day_budget_usd)
        if self.day.limit is None:
            self._today = None
        else:
            self._read_day()
        return (Ceiling("question's budget", budget_usd, "--budget USD"), self.session, self.day)

    def room(self, budget_usd: Decimal | None = None) -> Decimal | None:
        """Return the US dollars that a question may still spend, None without any ceiling."""
        rooms = [ceiling.room for ceiling in self.ceilings(budget_usd) if ceiling.room is not None]
        return min(rooms) if rooms else None

    def _read_day(self) -> None:
        today = datetime.now(UTC).date()
        # What is under way may be settled and not yet booked, so the sum is read only when all is quiet, or the day is new.
        if self._today != today or not self.day.reserved:
            self._today = today
            self.day.begin_anew(self._ledger().total(since=datetime.combine(today, time(), UTC))[0])


def _exact(amount: float | None) -> Decimal | None:
    return None if amount is None else Decimal(str(amount))
