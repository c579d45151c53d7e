"""Holds a run to its budget: what a row may cost at worst is reserved before its first request and settled at its end.

Several rows run at once. One that does not fit waits until another has settled for less than it had reserved; only when no
row holds anything any more is the money really used up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal

from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.money.budget import GROWTH_TOKENS, RUN_S, Budget, unknown_price
from ipy_websearch.money.ledger import LEASE_S, Refused, Reservation
from ipy_websearch.money.prices import charges_cost, worst_case
from ipy_websearch.usage import Charge

PAGE_TOKENS = 14_000
"""Input that a page may add: `web_fetch.PAGE_CHARACTERS`, in a script that makes many tokens of them."""

ELSEWHERE_S, LOOK_S = 30.0, 0.05
"""Seconds to wait for what another kernel holds under the same limit, and between two looks at it."""

_NANO = Decimal("1e-9")  # whole nano-dollars: what is added up and taken off again leaves nothing behind


class OutOfFunds(Exception):
    """The next request would pass a limit; the message says which."""


class Funds:
    """Reserves for the rows of one run; without limits it lets everything pass."""

    def __init__(self, model: str, budget: Budget) -> None:
        self.model = model
        self.scale = Decimal(1)
        self.bounded = budget.bounded
        self._budget = budget
        self._holding = 0  # rows that hold something
        self._changed = asyncio.Event()

    def learn(self, input_tokens: int, max_tokens: int, cost: Decimal | None) -> None:
        """Compare what a request did cost with its worst case, so that later ones are not reserved too little."""
        worst = worst_case(self.model, input_tokens, max_tokens)
        if worst and cost is not None:
            self.scale = max(self.scale, cost / worst)

    def request(self, input_tokens: int, max_tokens: int) -> Decimal | None:
        """Return what a request may cost at worst, None when it is unknown."""
        worst = worst_case(self.model, input_tokens, max_tokens)
        return None if worst is None else (worst * self.scale).quantize(_NANO, ROUND_CEILING)

    def row(self, input_tokens: int, max_tokens: int, searches: int, price: Sequence[Charge], pages: int = 0) -> Decimal | None:
        """Return what a row may cost at worst with `searches` rounds of one search each and so many of one page, None when
        it is unknown; pages first, since what is read early is sent with each later request."""
        searching = charges_cost(price)
        if searching is None:
            return None
        total = searching * searches
        for round_ in range(searches + pages + 1):
            read = min(round_, pages)
            cost = self.request(input_tokens + read * PAGE_TOKENS + (round_ - read) * GROWTH_TOKENS, max_tokens)
            if cost is None:
                return None
            total += cost
        return total

    async def reserve(self, usd: Decimal | None) -> Hold:
        """Reserve an amount, when need be after waiting for other rows to settle, for those of other kernels not too long.

        Raises:
            OutOfFunds: it does not fit, and no row holds anything that could come back; or the price is unknown.
        """
        hold = Hold(self, usd or Decimal(0))
        if self.bounded:
            if usd is None:
                raise OutOfFunds(unknown_price(f"{self.model} or of a search"))
            since = time.monotonic()
            while (refused := self._take(hold, usd)) is not None:
                if self._holding:
                    self._changed.clear()
                    await self._changed.wait()
                elif usd <= refused.standing.left + refused.standing.held and time.monotonic() - since < ELSEWHERE_S:
                    await asyncio.sleep(LOOK_S)
                else:
                    raise OutOfFunds(str(refused))
        self._holding += 1
        return hold

    def _take(self, hold: Hold, usd: Decimal) -> Refused | None:
        """Let a hold have `usd` in all; return why not, None when it has."""
        id = hold.reservation.id if hold.reservation else ""
        try:
            hold.reservation = self._budget.reserve(usd, lease_s=RUN_S + LEASE_S, id=id, what="a row")
        except Refused as refused:
            return refused
        except BudgetExceededError as exc:
            raise OutOfFunds(str(exc)) from exc
        hold.reserved = usd
        return None

    def ended(self, hold: Hold) -> None:
        """Take note that a row was settled: others may go on."""
        self._holding -= 1
        self._changed.set()


class Hold:
    """What one row has reserved and spent; its account settles the `reservation` (None: nothing is reserved)."""

    def __init__(self, funds: Funds, reserved: Decimal) -> None:
        self._funds = funds
        self.reserved = reserved
        self.spent = Decimal(0)
        self.reservation: Reservation | None = None

    def cover(self, input_tokens: int, max_tokens: int) -> None:
        """Make sure that the next request fits into what is reserved; it cannot wait, because others may wait for it.

        Raises:
            OutOfFunds: it does not, and there is no room for more.
        """
        if not self._funds.bounded:
            return
        need = self.spent + (self._funds.request(input_tokens, max_tokens) or Decimal(0))
        if need > self.reserved and self._funds._take(self, need) is not None:
            raise OutOfFunds("the next request of the row may cost more than the budget leaves")

    def end(self) -> None:
        """Say that the row has ended, and what it reserved was settled."""
        self._funds.ended(self)
