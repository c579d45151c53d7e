"""The ceilings that a session's questions share: the session's own, and that of the day over all sessions.

The day is the UTC one. Its ceiling is kept in the ledger's file, by all kernels together (`day_ceiling`); while a cassette is
replayed, which costs nothing, a copy of it is counted that no other kernel sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from ipy_websearch.day_ceiling import DayCeiling
from ipy_websearch.ledger import Ledger
from ipy_websearch.model.requests import caches_for_an_hour
from ipy_websearch.purse import MIN_ANSWER_TOKENS, Ceiling, CeilingPurse
from ipy_websearch.settings import WebSearch
from ipy_websearch.usage import Terms


class Budgets:
    """Hands out purses. `settings` gives the limits in force, `ledger` what was spent today."""

    def __init__(self, settings: Callable[[], WebSearch], ledger: Callable[[], Ledger]) -> None:
        self._settings = settings
        self._session_before = (Decimal(0), Decimal(0))
        self.session = Ceiling("session budget", None, "%cost --budget USD")
        self._shared = DayCeiling(ledger)
        self.day: Ceiling = self._shared

    def purse(
        self,
        model: str,
        budget_usd: Decimal | None,
        *,
        server_searches: int = 0,
        answers: bool = True,
        least: int = MIN_ANSWER_TOKENS,
        body: Mapping[str, Any] | None = None,
    ) -> CeilingPurse:
        """Return a purse that is held to the question's budget (None: it has none), the session's and the day's.

        `body` is the first request where it may ask for more than a model and tokens: that is reserved for all of them.
        """
        purse = CeilingPurse(model, self.ceilings(budget_usd), server_searches, answers, least)
        if body is not None and purse.bounded:
            purse.terms, purse.hour_cache = Terms.of(body), caches_for_an_hour(body)
        return purse

    def ceilings(self, budget_usd: Decimal | None = None, whose: str = "question's") -> tuple[Ceiling, ...]:
        """Return the ceilings of one question (or of what else has `budget_usd`: `whose`), brought up to date."""
        settings = self._settings()
        self.session.limit = _exact(settings.session_budget_usd)
        self.day.limit = _exact(settings.day_budget_usd)
        if self.day is self._shared:
            self._shared.watch()
        return (Ceiling(f"{whose} budget", budget_usd, "--budget USD"), self.session, self.day)

    def room(self, budget_usd: Decimal | None = None) -> Decimal | None:
        """Return the US dollars that a question may still spend, None without any ceiling."""
        rooms = [ceiling.room for ceiling in self.ceilings(budget_usd) if ceiling.room is not None]
        return min(rooms) if rooms else None

    def rehearse(self) -> None:
        """Count on copies, as what comes now costs nothing, until `resume`."""
        self._session_before = (self.session.spent, self.session.cut_off)
        self.day = Ceiling(self.day.name, self.day.limit, self.day.raised_by, self.day.spent)

    def resume(self) -> None:
        """Forget what was counted since `rehearse`."""
        self.session.begin_anew(*self._session_before)
        self.day = self._shared


def _exact(amount: float | None) -> Decimal | None:
    return None if amount is None else Decimal(str(amount))
