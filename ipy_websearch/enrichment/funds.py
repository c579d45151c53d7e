"""Holds a run to its ceilings: what a row may cost at worst is reserved before its first request and settled at its end.

Several rows run at once. One that does not fit waits until another has settled for less than it had reserved; only when no
row holds anything any more is the money really used up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal

from ipy_websearch.pricing import charge_cost, worst_case
from ipy_websearch.purse import Ceiling, reserve_all
from ipy_websearch.usage import Charge

ROUND_TOKENS = 4_000
"""Input that a round of searching is expected to add: the results of one search and the model's call."""
PAGE_TOKENS = 14_000
"""Input that a page may add: `web_fetch.PAGE_CHARACTERS`, in a script that makes many tokens of them."""

ELSEWHERE_S, LOOK_S = 30.0, 0.05
"""Seconds to wait for what another kernel holds under the same ceiling, and between two looks at it."""

_NANO = Decimal("1e-9")  # whole nano-dollars: what is added up and taken off again leaves nothing behind


class OutOfFunds(Exception):
    """The next request would pass a ceiling; the message says which."""


class Funds:
    """Reserves and settles under the ceilings of one run; without limits it lets everything pass."""

    def __init__(self, model: str, ceilings: Sequence[Ceiling]) -> None:
        self.model = model
        self.ceilings = tuple(ceilings)
        self.scale = Decimal(1)
        self._holding = 0  # rows that hold something
        self._changed = asyncio.Event()

    @property
    def bounded(self) -> bool:
        """Whether there is a limit at all."""
        return any(ceiling.limit is not None for ceiling in self.ceilings)

    def learn(self, input_tokens: int, max_tokens: int, cost: Decimal | None) -> None:
        """Compare what a request did cost with its worst case, so that later ones are not reserved too little."""
        worst = worst_case(self.model, input_tokens, max_tokens, caching=True)
        if worst and cost is not None:
            self.scale = max(self.scale, cost / worst)

    def request(self, input_tokens: int, max_tokens: int) -> Decimal | None:
        """Return what a request may cost at worst, None when it is unknown."""
        worst = worst_case(self.model, input_tokens, max_tokens, caching=True)
        return None if worst is None else (worst * self.scale).quantize(_NANO, ROUND_CEILING)

    def row(self, input_tokens: int, max_tokens: int, searches: int, price: Sequence[Charge], pages: int = 0) -> Decimal | None:
        """Return what a row may cost at worst with `searches` rounds of one search each and so many of one page, None when
        it is unknown; pages first, since what is read early is sent with each later request."""
        total = Decimal(0)
        for round_ in range(searches + pages + 1):
            read = min(round_, pages)
            cost = self.request(input_tokens + read * PAGE_TOKENS + (round_ - read) * ROUND_TOKENS, max_tokens)
            if cost is None:
                return None
            total += cost
        for charge in price:
            usd = charge_cost(charge)
            if usd is None:
                return None
            total += usd * searches
        return total

    async def reserve(self, usd: Decimal | None) -> Hold:
        """Reserve an amount, when need be after waiting for other rows to settle, for those of other kernels not too long.

        Raises:
            OutOfFunds: it does not fit, and no row holds anything that could come back; or the price is unknown.
        """
        if not self.bounded:
            self._holding += 1
            return Hold(self, Decimal(0))
        if usd is None:
            raise OutOfFunds(f"the price of {self.model} or of a search is unknown, so no budget can be kept with it")
        since = time.monotonic()
        while (tight := reserve_all(self.ceilings, usd)) is not None:
            if not self._holding:
                room = max(tight.room or Decimal(0), Decimal(0))
                if usd <= room + tight.elsewhere and time.monotonic() - since < ELSEWHERE_S:
                    await asyncio.sleep(LOOK_S)
                    continue
                raise OutOfFunds(no_room(tight, usd))
            self._changed.clear()
            await self._changed.wait()
        self._holding += 1
        return Hold(self, usd)

    def count_cut_off(self, usd: Decimal) -> None:
        """Take note of what a request whose answer is lost may have cost beyond what is booked for it."""
        for ceiling in self.ceilings:
            ceiling.count_cut_off(usd)

    def _add(self, usd: Decimal) -> bool:
        """Reserve more for a row that is under way; it cannot wait, because others may wait for it."""
        return reserve_all(self.ceilings, usd) is None

    def _settle(self, reserved: Decimal, spent: Decimal) -> None:
        self._holding -= 1
        for ceiling in self.ceilings:
            ceiling.settle(reserved, spent)
        self._changed.set()


class Hold:
    """What one row has reserved and spent; leave it with `settle`."""

    def __init__(self, funds: Funds, reserved: Decimal) -> None:
        self._funds = funds
        self._reserved = reserved
        self.spent = Decimal(0)

    def cover(self, input_tokens: int, max_tokens: int) -> None:
        """Make sure that the next request fits into what is reserved.

        Raises:
            OutOfFunds: it does not, and there is no room for more.
        """
        if not self._funds.bounded:
            return
        need = self._funds.request(input_tokens, max_tokens)
        more = self.spent + (need or Decimal(0)) - self._reserved
        if more > 0:
            if not self._funds._add(more):
                raise OutOfFunds("the next request of the row may cost more than the budget leaves")
            self._reserved += more

    def settle(self) -> None:
        """Give back what was not spent."""
        self._funds._settle(self._reserved, self.spent)
        self._reserved = self.spent = Decimal(0)


def no_room(tight: Ceiling, usd: Decimal) -> str:
    """Return why a row that may cost so many US dollars is not asked, for the ceiling that it does not fit under."""
    room = max(tight.room or Decimal(0), Decimal(0))
    held = f" ({tight.cut_off_words})" if tight.cut_off_words else ""
    return f"the {tight.name} of {tight.limit:f} USD leaves {room:.4f} USD{held}, a row may cost {usd:.4f} USD"
