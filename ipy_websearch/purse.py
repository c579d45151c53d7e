"""Ceilings in US dollars, and the purse that holds a question to them.

Money is reserved at its worst case before a request or a paid call goes out, and settled to what it was afterwards. A
ceiling shared by several questions that run at the same time can therefore not be raced past. A price that is unknown
cannot be held to a ceiling, so under one nothing with an unknown price is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from ipy_websearch.pricing import affordable_tokens, charge_cost, model_cost, worst_case
from ipy_websearch.usage import Charge, Usage

MIN_ANSWER_TOKENS = 256
GROWTH_TOKENS = 4_000
"""Input that a round of results is expected to add: what is kept back for the final answer covers it."""


@dataclass(slots=True)
class Ceiling:
    """An amount that spending and reservations together may not pass; `limit` None is no ceiling."""

    name: str
    limit: Decimal | None
    spent: Decimal = Decimal(0)
    reserved: Decimal = Decimal(0)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def room(self) -> Decimal | None:
        """What is left, None without a limit."""
        return None if self.limit is None else self.limit - self.spent - self.reserved

    def reserve(self, usd: Decimal) -> bool:
        """Take `usd` off the room, unless it does not fit."""
        with self._lock:
            if self.limit is not None and usd > self.limit - self.spent - self.reserved:
                return False
            self.reserved += usd
            return True

    def settle(self, reserved: Decimal, spent: Decimal) -> None:
        """Replace a reservation by what was spent."""
        with self._lock:
            self.reserved -= reserved
            self.spent += spent


def reserve_all(ceilings: Sequence[Ceiling], usd: Decimal) -> Ceiling | None:
    """Reserve `usd` under every ceiling; return the one that refused (then nothing is reserved), or None."""
    for n, ceiling in enumerate(ceilings):
        if not ceiling.reserve(usd):
            for earlier in ceilings[:n]:
                earlier.settle(usd, Decimal(0))
            return ceiling
    return None


@dataclass(slots=True)
class CeilingPurse:
    """What the loop asks before it spends; see `loop.limits.Purse` for what each method promises."""

    model: str
    ceilings: tuple[Ceiling, ...]
    _granted: Decimal = Decimal(0)
    _unknown: str = ""

    @property
    def _bounded(self) -> bool:
        return any(ceiling.limit is not None for ceiling in self.ceilings)

    def grant(self, model: str, input_tokens: int, wanted: int, *, final: bool) -> int:
        if not self._bounded:
            return wanted
        self._granted = Decimal(0)
        written = _as_cache_writes(input_tokens)
        keep = Decimal(0) if final else worst_case(model, _as_cache_writes(input_tokens + GROWTH_TOKENS), MIN_ANSWER_TOKENS)
        room = min(c.room for c in self.ceilings if c.room is not None)
        tokens = None if keep is None else affordable_tokens(model, written, room - keep)
        if tokens is None:
            self._unknown = model
            return 0
        granted = min(wanted, tokens)
        cost = worst_case(model, written, granted)
        if granted < min(wanted, MIN_ANSWER_TOKENS) or cost is None or reserve_all(self.ceilings, cost) is not None:
            return 0
        self._granted = cost
        return granted

    def settle(self, usage: Usage) -> None:
        spent = model_cost(self.model, usage) or Decimal(0)
        for ceiling in self.ceilings:
            ceiling.settle(self._granted, spent)
        self._granted = Decimal(0)

    def can_pay(self, charges: Sequence[Charge]) -> bool:
        if not self._bounded:
            return True
        cost = self._sum(charges)
        keep = worst_case(self.model, _as_cache_writes(GROWTH_TOKENS), MIN_ANSWER_TOKENS)
        if cost is None or keep is None or reserve_all(self.ceilings, cost + keep) is not None:
            return False
        for ceiling in self.ceilings:
            ceiling.settle(keep, Decimal(0))
        return True

    def paid(self, expected: Sequence[Charge], charges: Sequence[Charge]) -> None:
        reserved = (self._sum(expected) or Decimal(0)) if self._bounded else Decimal(0)
        spent = self._sum(charges) or Decimal(0)
        for ceiling in self.ceilings:
            ceiling.settle(reserved, spent)

    def refusal(self, model: str, input_tokens: int) -> str:
        if self._unknown:
            return f"the price of {self._unknown} is unknown, so no ceiling can be kept with it; ask without --budget"
        tight = min((c for c in self.ceilings if c.room is not None), key=lambda c: c.room or Decimal(0))
        needed = worst_case(model, _as_cache_writes(input_tokens), MIN_ANSWER_TOKENS) or Decimal(0)
        return (
            f"the {tight.name} leaves {max(tight.room or Decimal(0), Decimal(0)):.4f} USD of {tight.limit:f} USD, and a short "
            f"answer may cost up to {needed:.4f} USD; raise it to at least {tight.spent + tight.reserved + needed:.4f} USD"
        )

    def _sum(self, charges: Sequence[Charge]) -> Decimal | None:
        total = Decimal(0)
        for charge in charges:
            cost = charge_cost(charge)
            if cost is None:
                return None
            total += cost
        return total


def _as_cache_writes(input_tokens: int) -> int:
    """Return the input tokens at plain price that cost as much as these do when all are written to the cache (1.25 x)."""
    return input_tokens + -(-input_tokens // 4)
