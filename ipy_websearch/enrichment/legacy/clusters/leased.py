"""The money of a worker: it may spend what the desk has leased to it, and asks for more when that is used up."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from ipy_websearch.enrichment.legacy.funds import Funds, Hold, OutOfFunds
from ipy_websearch.money.budget import Budget
from ipy_websearch.money.ledger import Ledger, Limit, Refused, Standing

_NOTHING = Decimal(0)


class LeasedFunds(Funds):
    """Funds under a lease, which grows; the reservation behind it is the kernel's. `ask` is called when more is needed."""

    def __init__(self, model: str, limited: bool, ask: Callable[[], None]) -> None:
        super().__init__(model, Budget(Ledger(None), "", ""))
        self.bounded = limited
        self.spent, self.held = _NOTHING, _NOTHING
        self._limit = _NOTHING
        self._ask = ask
        self._dry = False
        self._wanted: dict[object, Decimal] = {}
        self._largest = _NOTHING

    def needed(self, rows: int) -> tuple[Decimal, Decimal]:
        """Return how much more could be used for so many rows, and the least that would let one of them go on."""
        least = min(self._wanted.values(), default=_NOTHING)
        return max(self._largest * rows, *self._wanted.values(), _NOTHING), least

    def take(self, lease: Decimal | None, dry: bool, scale: Decimal) -> None:
        """Take a new lease; `dry`: there will be no larger one."""
        self.scale = max(self.scale, scale)
        self._dry = dry
        if lease is not None:
            self._limit = lease
        self._changed.set()

    def _take(self, hold: Hold, usd: Decimal) -> Refused | None:
        has = hold.reserved if hold.reservation is not None else _NOTHING
        if usd - has > self._limit - self.spent - self.held:
            return Refused(Standing(Limit("lease", self._limit, ""), self.spent, self.held), "a row", usd)
        self.held += usd - has
        hold.reservation, hold.reserved = self._budget.reserve(usd), usd
        return None

    def ended(self, hold: Hold) -> None:
        """Give back what a row has reserved and not spent."""
        if hold.reservation is not None:
            self.held -= hold.reserved
        self.spent += hold.spent
        self._dry = False  # what came back may be enough for another row: the desk has to be asked again
        super().ended(hold)
        if self._wanted:
            self._ask()

    async def reserve(self, usd: Decimal | None) -> Hold:
        """Reserve an amount, when need be after waiting for others to settle, here or on other workers.

        Raises:
            OutOfFunds: the money is used up, or the price is unknown.
        """
        if not self.bounded or usd is None:
            return await super().reserve(usd)
        hold = Hold(self, usd)
        try:
            while self._take(hold, usd) is not None:
                if self._dry and not self._holding:
                    raise OutOfFunds(f"the budget is used up: a row may cost {usd:.4f} USD")
                self._wanted[hold], self._largest = usd, max(self._largest, usd)
                self._changed.clear()
                self._ask()
                await self._changed.wait()
        finally:
            self._wanted.pop(hold, None)
        self._largest = max(self._largest, usd)
        self._holding += 1
        return hold
