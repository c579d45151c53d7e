"""The money of a worker: it may spend what the desk has leased to it, and asks for more when that is used up."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from ipy_websearch.enrichment.funds import Funds, Hold, OutOfFunds
from ipy_websearch.purse import Ceiling, reserve_all

_NOTHING = Decimal(0)


class LeasedFunds(Funds):
    """Funds under one ceiling, the lease, which grows. `ask` is called when more is needed."""

    def __init__(self, model: str, limited: bool, ask: Callable[[], None]) -> None:
        self._lease = Ceiling("budget", _NOTHING if limited else None)
        super().__init__(model, (self._lease,))
        self._ask = ask
        self._dry = False
        self._wanted: dict[object, Decimal] = {}
        self._largest = _NOTHING

    @property
    def spent(self) -> Decimal:
        """US dollars spent."""
        return self._lease.spent

    @property
    def held(self) -> Decimal:
        """US dollars reserved for what is under way."""
        return self._lease.reserved

    def needed(self, rows: int) -> tuple[Decimal, Decimal]:
        """Return how much more could be used for so many rows, and the least that would let one of them go on."""
        least = min(self._wanted.values(), default=_NOTHING)
        return max(self._largest * rows, *self._wanted.values(), _NOTHING), least

    def take(self, lease: Decimal | None, dry: bool, scale: Decimal) -> None:
        """Take a new lease; `dry`: there will be no larger one."""
        self.scale = max(self.scale, scale)
        self._dry = dry
        if lease is not None:
            self._lease.limit = lease
        self._changed.set()

    def _settle(self, reserved: Decimal, spent: Decimal) -> None:
        self._dry = False  # what came back may be enough for another row: the desk has to be asked again
        super()._settle(reserved, spent)
        if self._wanted:
            self._ask()

    async def reserve(self, usd: Decimal | None) -> Hold:
        """Reserve an amount, when need be after waiting for others to settle, here or on other workers.

        Raises:
            OutOfFunds: the money is used up, or the price is unknown.
        """
        if not self.bounded or usd is None:
            return await super().reserve(usd)
        waits = object()
        try:
            while reserve_all(self.ceilings, usd) is not None:
                if self._dry and not self._holding:
                    raise OutOfFunds(f"the budget is used up: a row may cost {usd:.4f} USD")
                self._wanted[waits], self._largest = usd, max(self._largest, usd)
                self._changed.clear()
                self._ask()
                await self._changed.wait()
        finally:
            self._wanted.pop(waits, None)
        self._largest = max(self._largest, usd)
        self._holding += 1
        return Hold(self, usd)
