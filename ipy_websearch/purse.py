"""Ceilings in US dollars, and the purse that holds a question to them.

Money is reserved at its worst case before a request or a paid call goes out, and settled to what it was afterwards; so is
the money for the final answer, from the first request until the run ends. The invariant: spent and reserved together never
pass a ceiling, however many questions share it at the same time, and a question that began can end in words. What has no
known price cannot be held to a ceiling, so under one it is not sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from ipy_websearch.pricing import charge_cost, model_cost, worst_case
from ipy_websearch.usage import USUAL, Charge, Terms, Usage

MIN_ANSWER_TOKENS = 256
GROWTH_TOKENS = 4_000
"""Input that a round of results is expected to add, for who reserves the rounds of a row beforehand."""

RESULT_TOKENS = 2_500
"""Input that the results of one call are expected to add; the money for reading them is reserved with the call."""

CLOSING_TOKENS = 500
"""Input that a round adds at least: the calls' frames and, where money does not reach for results, lines that say so."""

_NOTHING = Decimal(0)
_CENT_OF_A_CENT, _NANO = Decimal("0.0001"), Decimal("1e-9")
_MOST = Decimal(10) ** 15  # what an engine says it cost may be any number


@dataclass(slots=True)
class Ceiling:
    """An amount that spending and reservations together may not pass; `limit` None is no ceiling.

    `raised_by` is the option or command that raises it. `cut_off` is the part of `spent` that no row of the ledger has: what
    requests whose end nobody knows may have cost beyond what was booked for them.
    """

    name: str
    limit: Decimal | None
    raised_by: str = ""
    spent: Decimal = Decimal(0)
    reserved: Decimal = Decimal(0)
    cut_off: Decimal = Decimal(0)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def room(self) -> Decimal | None:
        """What is left, None without a limit."""
        return None if self.limit is None else self.limit - self.spent - self.reserved

    @property
    def elsewhere(self) -> Decimal:
        """What other processes have reserved, which counts as spent: what they do not spend comes back."""
        return _NOTHING

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

    def count_cut_off(self, usd: Decimal) -> None:
        """Take note of what is spent, or about to be, without a row: the ceiling holds it until its count begins anew."""
        with self._lock:
            self.cut_off += usd

    @property
    def cut_off_words(self) -> str:
        """What is held for requests that were cut off, in words; "" for nothing."""
        held = _shown(self.cut_off)
        return f"{held} USD is held for what was cut off and may have cost that much more" if self.cut_off > 0 else ""

    def begin_anew(self, spent: Decimal = _NOTHING, cut_off: Decimal = _NOTHING) -> None:
        """Set what counts as spent; reservations stay."""
        with self._lock:
            self.spent, self.cut_off = spent, cut_off


def reserve_all(ceilings: Sequence[Ceiling], usd: Decimal) -> Ceiling | None:
    """Reserve `usd` under every ceiling; return the one that refused (then nothing is reserved), or None."""
    for n, ceiling in enumerate(ceilings):
        if not ceiling.reserve(usd):
            for earlier in ceilings[:n]:
                earlier.settle(usd, _NOTHING)
            return ceiling
    return None


@dataclass(slots=True)
class CeilingPurse:
    """What the loop asks before it spends; see `loop.limits.Purse` for what `grant` to `refusal` promise.

    `server_searches` are the searches that the API itself may make in one request. `answers` is False where no model will
    read what a call finds: then nothing is kept back for that. `least` are the tokens that a request must be able to write
    (fewer only where fewer are wanted), `terms` and `hour_cache` what its requests ask for that makes tokens dearer. Call
    `close` when the run has ended, however it did.
    """

    model: str
    ceilings: tuple[Ceiling, ...]
    server_searches: int = 0
    answers: bool = True
    least: int = MIN_ANSWER_TOKENS
    terms: Terms = USUAL
    hour_cache: bool = False
    _granted: Decimal = _NOTHING  # reserved for the request under way
    _worst: Decimal = _NOTHING  # its worst case, in case that it is sent again
    _kept: Decimal = _NOTHING  # reserved for the final answer
    _input: int = 0  # what the final answer will have to read, in tokens
    _unknown: str = ""
    _calls: list[tuple[tuple[Charge, ...], Decimal]] = field(default_factory=list)  # under way, each with its reservation

    @property
    def bounded(self) -> bool:
        return any(ceiling.limit is not None for ceiling in self.ceilings)

    def grant(self, model: str, input_tokens: int, wanted: int, *, final: bool) -> int | None:
        if not self.bounded:
            return wanted
        if self._final_cost(model, input_tokens) is None:
            self._unknown = f"{model} in fast mode" if self.terms.fast else model
            return None
        final = final or not wanted  # what may write nothing has no answer after it
        searches = 0 if final else self.server_searches

        def costs(tokens: int) -> tuple[Decimal, Decimal]:
            cost = self._worst_case(model, input_tokens, tokens, searches)
            kept = None if final else self._final_cost(model, input_tokens + tokens + CLOSING_TOKENS)
            return cost or _NOTHING, kept or _NOTHING

        def fits(tokens: int) -> bool:
            rooms = [ceiling.room for ceiling in self.ceilings]
            return sum(costs(tokens)) <= min(room for room in rooms if room is not None) + self._granted + self._kept

        for _ in range(8):  # another thread may take the money between looking and reserving
            tokens = _most(wanted, min(wanted, self.least), fits)
            if tokens is None:
                return None
            cost, kept = costs(tokens)
            if self._hold(cost, kept):
                self._worst, self._input = cost, input_tokens + CLOSING_TOKENS
                return tokens
        return None

    def settle(self, usage: Usage, *, lost: bool = False, model: str = "") -> None:
        spent = model_cost(model or self.model, usage)
        if lost and spent is not None and self._granted > spent:
            for ceiling in self.ceilings:
                ceiling.count_cut_off(self._granted - spent)
            spent = self._granted
        self._move(self._granted, self._granted if spent is None else spent)
        self._granted = _NOTHING
        if self._kept:  # the reply is known now, and is shorter than it might have been
            self._input += usage.output_tokens
            needed = self._final_cost(self.model, self._input) or _NOTHING
            self._move(max(_NOTHING, self._kept - needed), _NOTHING)
            self._kept = min(self._kept, needed)

    def again(self) -> str:
        """Reserve the worst case of the last request once more, since it failed and is to be sent again.

        Return "", or in one line why there is not enough money for that.
        """
        if not self.bounded or self._hold(self._worst, self._kept):
            return ""
        return self._advice("sending the failed request again", self._worst)

    def can_pay(self, charges: Sequence[Charge]) -> bool:
        cost = self._sum(charges) if self.bounded else _NOTHING
        if cost is None:
            self._unknown = next((c.provider for c in charges if charge_cost(c) is None), "")
            return False
        if self.bounded:
            reading = self._reading_cost()
            if reserve_all(self.ceilings, cost + reading) is not None:
                return False
            self._kept += reading
            self._input += RESULT_TOKENS
        self._calls.append((tuple(charges), cost))
        return True

    def paid(self, expected: Sequence[Charge], charges: Sequence[Charge]) -> None:
        call = next((call for call in self._calls if call[0] == tuple(expected)), None)
        if call is not None:
            self._calls.remove(call)
        elif expected:
            return  # `close` has counted it
        reserved = _NOTHING if call is None else call[1]
        spent = self._sum(charges)
        self._move(reserved, reserved if spent is None else spent)

    def close(self) -> list[Charge]:
        """Give back what is still reserved. Calls under way count as spent, since they were sent: they are returned."""
        self._move(self._granted + self._kept, _NOTHING)
        self._granted = self._kept = _NOTHING
        charges = [charge for call, _ in self._calls for charge in call]
        for call, _ in list(self._calls):
            self.paid(call, call)
        return charges

    def refusal(self, model: str, input_tokens: int) -> str:
        if self._unknown:
            return (
                f"the price of {self._unknown} is unknown, so no ceiling can be kept with it; ask without one, or write the "
                "price into your own prices.toml (%websearch prices says where)"
            )
        return self._advice("a short answer", self._final_cost(model, input_tokens) or _NOTHING)

    def search_refusal(self, charges: Sequence[Charge]) -> str:
        """Return one line that says why a search that is expected to cost `charges` is refused."""
        if (cost := self._sum(charges)) is None:
            return self.refusal("", 0)
        return self._advice(f"a search with {charges[0].provider}", cost)

    def _advice(self, what: str, needed: Decimal) -> str:
        tight = min((c for c in self.ceilings if c.room is not None), key=lambda c: c.room or _NOTHING)
        under_way = tight.reserved + tight.elsewhere
        holding = [f"{_shown(under_way)} USD of it is held by what is under way"] if under_way else []
        holding += filter(None, [tight.cut_off_words])
        held = f" ({'; '.join(holding)})" if holding else ""
        left = max(tight.room or _NOTHING, _NOTHING)
        step = _CENT_OF_A_CENT if needed - left >= _CENT_OF_A_CENT else _NANO  # so fine that the two can be told apart
        return (
            f"the {tight.name} of {tight.limit:f} USD has {left.quantize(step, ROUND_FLOOR):f} USD left{held}, and {what} "
            f"may cost up to {_shown(needed, step)} USD; raise it to at least "
            f"{_shown(tight.spent + tight.reserved + needed)} USD"
            f"{f' ({tight.raised_by})' if tight.raised_by else ''}"
        )

    def _reading_cost(self) -> Decimal:
        """Return what the results of a call add to the cost of the final answer."""
        if not self.answers:
            return _NOTHING
        with_results = self._final_cost(self.model, self._input + RESULT_TOKENS) or _NOTHING
        return max(_NOTHING, with_results - (self._final_cost(self.model, self._input) or _NOTHING))

    def _final_cost(self, model: str, input_tokens: int) -> Decimal | None:
        return self._worst_case(model, input_tokens, self.least)

    def _worst_case(self, model: str, input_tokens: int, tokens: int, searches: int = 0) -> Decimal | None:
        hour, terms = self.hour_cache, self.terms
        return worst_case(model, input_tokens, tokens, caching=True, hour_cache=hour, server_searches=searches, terms=terms)

    def _hold(self, granted: Decimal, kept: Decimal) -> bool:
        """Change what is reserved for request and final answer to these amounts, unless there is no room for them."""
        more = granted + kept - self._granted - self._kept
        if more > 0 and reserve_all(self.ceilings, more) is not None:
            return False
        if more < 0:
            self._move(-more, _NOTHING)
        self._granted, self._kept = granted, kept
        return True

    def _move(self, reserved: Decimal, spent: Decimal) -> None:
        if not reserved and not spent:
            return
        for ceiling in self.ceilings:
            ceiling.settle(reserved, spent)

    def _sum(self, charges: Sequence[Charge]) -> Decimal | None:
        costs = [charge_cost(charge) for charge in charges]
        known = [cost for cost in costs if cost is not None]
        return sum(known, _NOTHING) if len(known) == len(costs) else None


def _most(high: int, low: int, fits: Callable[[int], bool]) -> int | None:
    """Return the most tokens from `low` to `high` that fit, None when not even `low` do."""
    if fits(high):
        return high
    if not fits(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _shown(usd: Decimal, step: Decimal = _CENT_OF_A_CENT) -> str:
    """Return an amount rounded up to a whole `step`, so that whoever follows the advice is not refused again."""
    return f"{min(usd, _MOST).quantize(step, ROUND_CEILING):f}"
