"""The money of a run through batches: reserved at its worst before a chunk is sent, settled result by result.

What an interrupted run leaves at the API stays reserved under the session's and the day's ceilings until the next run of the
kernel takes it over, because it will be paid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

from ipy_websearch.enrichment.funds import no_room
from ipy_websearch.events import Money
from ipy_websearch.model.requests import estimate_tokens
from ipy_websearch.pricing import worst_case
from ipy_websearch.purse import Ceiling, reserve_all

_NANO = Decimal("1e-9")
_NOTHING = Decimal(0)


class Bank:
    """Reserves and settles by batch and request; without limits it lets everything pass.

    `searches` are those that the API may make for a row, `left` has what earlier runs have left reserved.
    """

    def __init__(self, model: str, ceilings: Sequence[Ceiling], searches: int, left: dict[int, Callable[[], None]]) -> None:
        self.refusal = ""
        self._model = model
        self._ceilings = tuple(ceilings)
        self._searches = searches
        self._left = left
        self._scale = Decimal(1)
        self._held: dict[int, dict[int, Decimal]] = {}

    @property
    def bounded(self) -> bool:
        """Whether there is a limit at all."""
        return any(ceiling.limit is not None for ceiling in self._ceilings)

    def reserve(self, body: Mapping[str, Any]) -> Decimal | None:
        """Reserve what a request may cost at worst; None when it does not fit, and then `refusal` says why."""
        if not self.bounded:
            return _NOTHING
        worst = self._worst(body)
        if worst is None:
            self.refusal = f"the price of {self._model} is unknown, so no budget can be kept with it"
            return None
        if (tight := reserve_all(self._ceilings, worst)) is not None:
            self.refusal = no_room(tight, worst)
            return None
        return worst

    def assign(self, batch: int, amounts: Iterable[Decimal]) -> None:
        """Say that what was reserved is for the requests of a batch, in their order."""
        self._held[batch] = dict(enumerate(amounts))

    def take_over(self, batch: int, bodies: Mapping[int, Mapping[str, Any]]) -> None:
        """Reserve for a batch that an earlier run has sent, whether or not it fits."""
        if give_back := self._left.pop(batch, None):
            give_back()
        if self.bounded:
            self._held[batch] = {number: self._worst(body) or _NOTHING for number, body in bodies.items()}
            self._move(-sum(self._held[batch].values(), _NOTHING), _NOTHING)

    def settle(self, batch: int, number: int, cost: Money) -> None:
        """Replace what was reserved for a request by what it cost (None, an unknown price: by what was reserved)."""
        reserved = self._held.get(batch, {}).pop(number, _NOTHING)
        if reserved and cost is not None and cost > reserved:
            self._scale *= cost / reserved
        self._move(reserved, reserved if cost is None else cost)

    def drop(self, batch: int) -> None:
        """Give back what is still reserved for a batch."""
        self._move(sum(self._held.pop(batch, {}).values(), _NOTHING), _NOTHING)

    def leave(self, batch: int) -> None:
        """Keep what is reserved for a batch when the run ends without it."""
        amount = sum(self._held.pop(batch, {}).values(), _NOTHING)
        if amount:
            self._left[batch] = lambda: self._move(amount, _NOTHING)

    def _worst(self, body: Mapping[str, Any]) -> Decimal | None:
        tokens, most = estimate_tokens(body), int(body["max_tokens"])
        worst = worst_case(self._model, tokens, most, batch=True, caching=True, server_searches=self._searches)
        return None if worst is None else (worst * self._scale).quantize(_NANO, ROUND_CEILING)

    def _move(self, reserved: Decimal, spent: Decimal) -> None:
        for ceiling in self._ceilings:
            ceiling.settle(reserved, spent)
