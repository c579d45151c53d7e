"""The limits of a run: searches, steps and seconds. Money is `money.budget.RunBudget`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ipy_websearch.usage import LimitName, Limits

ANSWER_SHARE = 0.25
"""The share of `timeout_s` that is kept for the final answer: tools get none of it."""

MAX_ANSWER_RESERVE_S = 30.0
"""The most seconds that are kept for the final answer."""


@dataclass(slots=True)
class Meter:
    """Counts a run against its limits. `clock` gives seconds; the run starts when the meter is made."""

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    steps: int = 0
    searches: int = 0
    reached: LimitName | None = None
    _start: float = field(init=False)

    def __post_init__(self) -> None:
        self._start = self.clock()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._start

    @property
    def seconds_left(self) -> float:
        """Seconds until the run must have ended."""
        return max(0.0, self.limits.timeout_s - self.seconds)

    @property
    def seconds_for_tools(self) -> float:
        """Seconds until tools must have ended, so that time for the final answer is left."""
        reserve = min(MAX_ANSWER_RESERVE_S, self.limits.timeout_s * ANSWER_SHARE)
        return max(0.0, self.limits.timeout_s - reserve - self.seconds)

    def reach(self, limit: LimitName) -> None:
        """Note the limit that was reached; the first one counts."""
        self.reached = self.reached or limit

    def explain(self, limit: LimitName) -> str:
        """Return one line for people and for the model that says which limit was reached."""
        match limit:
            case "max_searches":
                return f"limit reached: max_searches = {self.limits.max_searches}"
            case "max_steps":
                return f"limit reached: max_steps = {self.limits.max_steps}"
            case "timeout":
                return f"limit reached: timeout = {self.limits.timeout_s:g} s"
            case "budget":
                amount = f" = {self.limits.budget_usd:f} USD" if self.limits.budget_usd is not None else ""
                return f"limit reached: budget{amount}"
            case "interrupted":
                return "interrupted"
