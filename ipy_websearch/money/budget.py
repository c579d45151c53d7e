"""Budgets in US dollars: money is reserved at its worst case before anything is sent, and settled to what it was afterwards.

The invariant: what was spent and what is held never pass a limit together, over all kernels of a home. The ledger's file keeps
both (see `ledger`). Without a limit nothing is reserved, and rows are only inserted.

    Budgets    the limits of a session: of a question, of the session, of the day (UTC, all kernels of a home)
    Budget     those of one question or run: `reserve(usd, lease_s=…)` gives a `Reservation`, or says what it takes
    RunBudget  how one tool loop spends a budget: tokens that fit, money kept back for the final answer, paid calls

What has no known price cannot be held to a limit, so under one it is refused before it is sent.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.money.ledger import DAY_US, LEASE_S, Ledger, LedgerRow, Limit, Refused, Reservation, Standing, microseconds
from ipy_websearch.money.prices import charge_cost, charges_cost, worst_case
from ipy_websearch.settings import WebSearch
from ipy_websearch.usage import USUAL, Charge, Terms, Usage

MIN_ANSWER_TOKENS = 256
GROWTH_TOKENS = 4_000
"""Input that a round of searching is expected to add: the results of one search and the model's call."""

RESULT_TOKENS = 2_500
"""Input that the results of one call are expected to add; the money for reading them is reserved with the call."""

CLOSING_TOKENS = 500
"""Input that a round adds at least: the frames of the calls, and lines that say why results were left out."""

RUN_S = 600.0
"""Seconds that one request or call of a run may take where nobody says how many: the SDK's own limit."""

_NOTHING = Decimal(0)
_EARLIER_S = 3_600.0  # clocks may be set back
_RETRIES = 8  # other kernels may take the money between two attempts


class Budgets:
    """The limits of a session. `settings` gives the amounts in force, `ledger` the rows that count against them."""

    def __init__(self, settings: Callable[[], WebSearch], ledger: Callable[[], Ledger], session: str) -> None:
        self._settings = settings
        self._ledger = ledger
        self._session = session
        self._since = self._lately()
        self._rehearsal: Ledger | None = None

    @property
    def ledger(self) -> Ledger:
        """Where budgets count: the session's ledger or, during a rehearsal, one of its own."""
        return self._rehearsal or self._ledger()

    def for_question(
        self, question_id: str, usd: Decimal | None = None, *, whose: str = "question's budget", raised_by: str = "--budget USD"
    ) -> Budget:
        """Return the budget of one question or run, which may cost `usd` (None: it has no limit of its own)."""
        own = [] if usd is None else [Limit(whose, usd, raised_by, "question_id", question_id, self._lately())]
        return Budget(self.ledger, self._session, question_id, lambda: [*own, *self.limits()])

    def limits(self) -> list[Limit]:
        """Return the limits of the session and of the day that are in force."""
        settings, found = self._settings(), []
        if (usd := settings.session_budget_usd) is not None:
            found.append(
                Limit("session budget", Decimal(str(usd)), "%cost --budget USD", "session", self._session, self._since)
            )
        if (usd := settings.day_budget_usd) is not None:
            today = int(self.ledger.clock() * 1_000_000) // DAY_US * DAY_US
            found.append(Limit("day's budget", Decimal(str(usd)), "%cost --day-budget USD", since=today))
        return found

    def reset(self) -> None:
        """Let the session's count start anew; the day's goes on."""
        self._since = microseconds(datetime.fromtimestamp(self.ledger.clock(), UTC))

    def _lately(self) -> int:
        """Return a moment before the first row of a session or a question that begins now: nothing older is looked through."""
        return int((time.time() - _EARLIER_S) * 1_000_000)

    def rehearse(self) -> None:
        """Count on a copy that starts at nothing, until `resume`: a replay costs nothing and ends where its recording did."""
        self._rehearsal = Ledger(None, clock=self._ledger().clock)

    def resume(self) -> None:
        """Forget what was counted since `rehearse`."""
        self._rehearsal = None


@dataclass(frozen=True, slots=True)
class Budget:
    """What one question or run may spend: every limit in force holds for it."""

    ledger: Ledger
    session: str
    question_id: str
    limits: Callable[[], Sequence[Limit]] = tuple

    @property
    def bounded(self) -> bool:
        """Whether any limit is in force; without one nothing needs to be priced beforehand."""
        return bool(self.limits())

    def left(self) -> Decimal | None:
        """Return the US dollars that may still be reserved, None without a limit."""
        tight = self.tightest()
        return None if tight is None else max(tight.left, _NOTHING)

    def tightest(self) -> Standing | None:
        """Return the limit with the least left, None without a limit."""
        return min(self.ledger.standings(self.limits()), key=lambda standing: standing.left, default=None)

    def reserve(
        self, usd: Decimal | None, *, lease_s: float = RUN_S + LEASE_S, what: str = "the next request", id: str = ""
    ) -> Reservation:
        """Hold `usd` for something that ends within `lease_s` seconds; with an `id`, change that reservation's amount.

        Without a limit nothing is held. Messages say that `what` may cost so much.

        Raises:
            BudgetExceededError: a limit has no room (`Refused`), the price is unknown (`usd` is None), or the ledger cannot be
                written; nothing was reserved.
        """
        limits = self.limits()
        if not limits:
            return Reservation(self.ledger, id)
        if usd is None:
            raise BudgetExceededError(unknown_price(what))
        try:
            return self.ledger.reserve(self.session, self.question_id, usd, lease_s=lease_s, limits=limits, id=id, what=what)
        except (sqlite3.Error, OSError) as exc:
            text = f"the ledger {self.ledger.path} cannot be written ({exc}), so no budget can be kept; mend that, or take the "
            raise BudgetExceededError(f"{text}budget away ({limits[0].raised_by.split()[0]} … none)") from exc


def unknown_price(what: str) -> str:
    """Return one line: what has no known price, and where a price can be written."""
    return (
        f"the price of {what} is unknown, so no budget can be kept with it; ask without one, or write the price into your own "
        "prices.toml (%websearch prices says where)"
    )


def most_tokens(high: int, low: int, fits: Callable[[int], bool]) -> int | None:
    """Return the most tokens from `low` to `high` that fit, None when not even `low` do."""
    if fits(high):
        return high
    if not fits(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@dataclass(slots=True)
class RunBudget:
    """How one run of the tool loop spends a budget. The loop asks before it sends; the booking settles what happened.

    One reservation holds the request under way, the calls under way, and enough for a final answer from the first request to
    `close`. `server_searches` are the searches that the API may make in one request. `answers` is False where no model reads
    what a call finds. `least` are the tokens that a request must be able to write; `terms` and `hour_cache` are what its
    requests ask for that makes tokens dearer. `timeout_s` is how long one request or call may take. `planned` are paid calls
    whose money is reserved with the first request, so that a run that has begun can make them. `result_tokens` is the input
    that the results of one call are expected to add.
    """

    model: str = ""
    budget: Budget | None = None
    server_searches: int = 0
    answers: bool = True
    least: int = MIN_ANSWER_TOKENS
    terms: Terms = USUAL
    hour_cache: bool = False
    timeout_s: float = RUN_S
    planned: tuple[Charge, ...] = ()
    result_tokens: int = RESULT_TOKENS
    bounded: bool = field(init=False)
    request_usd: Decimal = field(default=_NOTHING, init=False)
    """US dollars held for the request under way: its worst case."""
    _worst: Decimal = field(default=_NOTHING, init=False)
    _kept: Decimal = field(default=_NOTHING, init=False)
    _planned: Decimal | None = field(default=None, init=False)  # part of `_kept`; None until the first request
    _input: int = field(default=0, init=False)  # tokens that the final answer will have to read
    _unknown: str = field(default="", init=False)
    _calls: dict[str, tuple[tuple[Charge, ...], Decimal]] = field(default_factory=dict, init=False)
    _held: Reservation | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.bounded = self.budget is not None and self.budget.bounded

    def left(self) -> Decimal | None:
        """Return the US dollars that may still be reserved, None without a limit."""
        return self.budget.left() if self.budget is not None else None

    # --- asked by the loop ----------------------------------------------------------------------------------------------

    def grant(self, model: str, input_tokens: int, wanted: int, *, final: bool) -> int | None:
        """Return the `max_tokens` that the next request may ask for: `wanted`, fewer, or None when the money is not enough.

        Its worst case is reserved and, unless it is `final` or writes nothing, enough for a final answer after it.
        """
        if not self.bounded:
            return wanted
        if self._worst_case(model, input_tokens, self.least) is None:
            self._unknown = f"{model} in fast mode" if self.terms.fast else model
            return None
        final = final or not wanted
        planned = self._planned_usd(model, input_tokens) if self._planned is None else self._planned
        searches = 0 if final else self.server_searches

        def costs(tokens: int) -> tuple[Decimal, Decimal]:
            cost = self._worst_case(model, input_tokens, tokens, searches)
            kept = None if final else self._worst_case(model, input_tokens + tokens + CLOSING_TOKENS, self.least)
            return cost or _NOTHING, (kept or _NOTHING) + (_NOTHING if final else planned)

        tokens: int | None = wanted
        for _ in range(_RETRIES):
            cost, kept = costs(tokens or 0)
            if (tight := self._hold(cost, kept)) is None:
                self._worst, self._input = cost, input_tokens + CLOSING_TOKENS
                self._planned = planned
                return tokens
            room = tight.left - self._calls_usd()
            tokens = most_tokens(wanted, min(wanted, self.least), lambda n: sum(costs(n)) <= room)  # noqa: B023
            if tokens is None:
                return None
        return None

    def grant_again(self) -> str:
        """Reserve the last request's worst case once more, since it failed and is sent again; return why not, "" when done."""
        if not self.bounded:
            return ""
        tight = self._hold(self._worst, self._kept)
        return "" if tight is None else tight.refusal("sending the failed request again", self._worst)

    def grant_call(self, id: str, charges: Sequence[Charge]) -> bool:
        """Reserve a paid call and the money for reading its results; say whether it may be made."""
        cost = charges_cost(charges) if self.bounded else _NOTHING
        if cost is None:
            self._unknown = next((charge.provider for charge in charges if charge_cost(charge) is None), "")
            return False
        reading = self._reading_cost() if self.bounded else _NOTHING
        covered = min(self._planned or _NOTHING, cost + reading)
        self._calls[id] = (tuple(charges), cost)
        if self.bounded and self._hold(self.request_usd, self._kept + reading - covered) is not None:
            del self._calls[id]
            return False
        self._planned = (self._planned or _NOTHING) - covered
        self._input += self.result_tokens
        return True

    def refusal(self, input_tokens: int = 0, charges: Sequence[Charge] = ()) -> str:
        """Return one line that says why a request with `input_tokens`, or a call with `charges`, was refused."""
        if self._unknown:
            return unknown_price(self._unknown)
        tight = self.budget.tightest() if self.budget is not None else None
        if tight is None:
            return "no budget is in force"
        if charges:
            return tight.refusal(f"a search with {charges[0].provider}", charges_cost(charges) or _NOTHING)
        return tight.refusal("a short answer", self._worst_case(self.model, input_tokens, self.least) or _NOTHING)

    # --- told by the booking --------------------------------------------------------------------------------------------

    def settle_request(self, rows: Sequence[LedgerRow], usage: Usage) -> None:
        """Insert the rows of the request under way and end its reservation; the final answer's is adapted to the reply."""
        self.request_usd = _NOTHING
        if self._kept:
            self._input += usage.output_tokens
            answer = self._worst_case(self.model, self._input, self.least) or _NOTHING
            self._kept = min(self._kept, answer + (self._planned or _NOTHING))
        self._settle(rows)

    def settle_call(self, id: str, rows: Sequence[LedgerRow]) -> None:
        """Insert the rows of a paid call and end its reservation."""
        self._calls.pop(id, None)
        self._settle(rows)

    def close(self) -> list[Charge]:
        """End the run: return the calls under way, which were sent and count; `settle_request` gives the rest back."""
        charges = [charge for call, _ in self._calls.values() for charge in call]
        self._calls, self._kept = {}, _NOTHING
        return charges

    # --- inside ---------------------------------------------------------------------------------------------------------

    def _hold(self, request: Decimal, kept: Decimal) -> Standing | None:
        """Change what is held for the request and for the final answer; return the limit that has no room, None when done."""
        assert self.budget is not None
        total = request + kept + self._calls_usd()
        if self._held is None or total > self._held.usd:
            id, lease_s = self._held.id if self._held else "", self.timeout_s + LEASE_S
            try:
                self._held = self.budget.reserve(total, lease_s=lease_s, id=id)
            except Refused as refused:
                return refused.standing
        self.request_usd, self._kept = request, kept
        return None

    def _settle(self, rows: Sequence[LedgerRow]) -> None:
        if self._held is not None:
            self._held.settle(rows, keep=self.request_usd + self._kept + self._calls_usd())
        elif rows and self.budget is not None:
            self.budget.ledger.book(rows)

    def _calls_usd(self) -> Decimal:
        return sum((cost for _, cost in self._calls.values()), _NOTHING)

    def _planned_usd(self, model: str, input_tokens: int) -> Decimal:
        """Return what the planned calls cost together with reading their results; an unknown price is refused at the call."""
        more = len(self.planned) * self.result_tokens
        now, then = (self._worst_case(model, input_tokens + tokens, 0) or _NOTHING for tokens in (0, more))
        return (charges_cost(self.planned) or _NOTHING) + max(_NOTHING, then - now)

    def _reading_cost(self) -> Decimal:
        """Return what the results of a call add to the cost of the final answer."""
        if not self.answers:
            return _NOTHING
        less, more = self._input, self._input + self.result_tokens
        now, then = (self._worst_case(self.model, tokens, self.least) or _NOTHING for tokens in (less, more))
        return max(_NOTHING, then - now)

    def _worst_case(self, model: str, input_tokens: int, tokens: int, searches: int = 0) -> Decimal | None:
        return worst_case(model, input_tokens, tokens, hour_cache=self.hour_cache, server_searches=searches, terms=self.terms)
