"""The limits of a run: searches, steps, seconds, and money as the loop sees it, which is tokens and charges.

The loop never handles prices. It asks a `Purse` before each model request and each paid call, and tells it afterwards
what was used; the session's purse knows the prices and the ceilings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ipy_websearch.usage import Charge, LimitName, Limits, Usage

ANSWER_SHARE = 0.25
"""The share of `timeout_s` that is kept for the final answer: tools get none of it."""

MAX_ANSWER_RESERVE_S = 30.0
"""The most seconds that are kept for the final answer."""


class Purse(Protocol):
    """Says what may be spent."""

    @property
    def bounded(self) -> bool:
        """Whether there is a ceiling at all; without one nobody counts the tokens of a request beforehand."""
        ...

    def grant(self, model: str, input_tokens: int, wanted: int, *, final: bool) -> int | None:
        """Return the `max_tokens` that the next request may ask for: `wanted`, less, or None when money does not reach.

        Unless the request is `final` or wants 0, which only fills the cache, enough for a final answer afterwards is kept
        back. A grant is reserved until `settle`.
        """
        ...

    def settle(self, usage: Usage, *, lost: bool = False, model: str = "") -> None:
        """Say what the granted request used; the reservation is void, unless the request is `lost`.

        `model` is what it is billed as, "" for the one it was granted for. What is lost went out and was never accounted
        for: all that was reserved for it counts as spent.
        """
        ...

    def can_pay(self, charges: Sequence[Charge]) -> bool:
        """Say whether a call that is expected to cost `charges` may be made; True reserves the money until `paid`."""
        ...

    def paid(self, expected: Sequence[Charge], charges: Sequence[Charge]) -> None:
        """Say what the call that was expected to cost `expected` did cost."""
        ...

    def refusal(self, model: str, input_tokens: int) -> str:
        """Return one line that says which ceiling stands in the way and what it would take."""
        ...


class OpenPurse:
    """A purse without a ceiling."""

    bounded = False

    def grant(self, model: str, input_tokens: int, wanted: int, *, final: bool) -> int:
        return wanted

    def settle(self, usage: Usage, *, lost: bool = False, model: str = "") -> None: ...

    def can_pay(self, charges: Sequence[Charge]) -> bool:
        return True

    def paid(self, expected: Sequence[Charge], charges: Sequence[Charge]) -> None: ...

    def refusal(self, model: str, input_tokens: int) -> str:
        return "there is no ceiling"


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
                ceiling = f" = {self.limits.budget_usd:f} USD" if self.limits.budget_usd is not None else ""
                return f"limit reached: budget{ceiling}"
            case "interrupted":
                return "interrupted"
