"""Budgets in US dollars: money is reserved at its worst case before anything is sent, and settled to what it was afterwards.

The invariant: what was spent and what is held never pass a limit together, over all kernels of a home. The ledger's file keeps
both (see `ledger`). Without a limit nothing is reserved, and rows are only inserted.

    Budget     the limits of a session, or of one question or run of it: of the question, of the session, of the day (UTC, all
               kernels of a home); `reserve(usd, lease_s=…)` gives a `Reservation`, or says what it takes
    RunBudget  how one tool loop spends a budget: tokens that fit, money kept back for the final answer, paid calls
    Booking    the one place where what happened becomes rows of the ledger, and steps of an answer's trace
    Estimate   what a question may cost, worked out before anything is sent: what `%ask --estimate` shows

What has no known price cannot be held to a limit, so under one it is refused before it is sent. A request that was sent and cut
off, or whose cost nobody said, is booked under a budget at the worst case that was reserved for it, as an `estimated` row.
"""

from __future__ import annotations

import sqlite3
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.money.ledger import DAY_US, LEASE_S, Ledger, LedgerRow, Limit, Refused, Reservation, Status
from ipy_websearch.money.prices import add_money, caching_saved, charge_cost, charges_cost, model_cost, worst_case
from ipy_websearch.results import (
    Charge,
    Event,
    Limits,
    ModelRequested,
    ModelResponded,
    Money,
    Step,
    Terms,
    ToolFinished,
    ToolStarted,
    Usage,
)
from ipy_websearch.settings import OFFLINE_MODEL, WebSearch
from ipy_websearch.text import plural, usd

MIN_ANSWER_TOKENS = 256
# Input that a round of searching is expected to add: the results of one search and the model's call.
GROWTH_TOKENS = 4_000

# Input that the results of one call are expected to add; the money for reading them is reserved with the call.
RESULT_TOKENS = 2_500

# Input that a round adds at least: the frames of the calls, and lines that say why results were left out.
CLOSING_TOKENS = 500

# Seconds that one request or call of a run may take where nobody says how many: the SDK's own limit.
RUN_S = 600.0

# What answers without a network, and so is on no cassette.
UNRECORDED = (OFFLINE_MODEL, "local")

_NOTHING = Decimal(0)


def _lately() -> int:
    """Return a moment before the first row of a session or a question that begins now (clocks may be set back): nothing older
    is looked through."""
    return int((time.time() - 3_600) * 1_000_000)


@dataclass(slots=True, eq=False)
class Budget:
    """What a session may spend or, `for_question`, one question or run of it: every limit in force holds.

    `settings` gives the amounts in force, `since` is where the session's count starts, in microseconds since 1970. A question
    may have a limit of its `own`.
    """

    ledger: Ledger
    session: str = ""
    settings: Callable[[], WebSearch] = cache(WebSearch)
    since: int = field(default_factory=_lately)
    question_id: str = ""
    own: tuple[Limit, ...] = ()

    def for_question(
        self, question_id: str, usd: Decimal | None = None, *, whose: str = "question's budget", raised_by: str = "--budget USD"
    ) -> Budget:
        """Return the budget of one question or run, which may cost `usd` (None: it has no limit of its own)."""
        own = () if usd is None else (Limit(whose, usd, raised_by, "question_id", question_id, _lately()),)
        return replace(self, question_id=question_id, own=own)

    def limits(self) -> list[Limit]:
        """Return the limits in force: the question's own, the session's, and the day's."""
        settings, found = self.settings(), [*self.own]
        if (usd := settings.session_budget_usd) is not None:
            found.append(Limit("session budget", Decimal(str(usd)), "%cost --budget USD", "session", self.session, self.since))
        if (usd := settings.day_budget_usd) is not None:
            midnight = int(self.ledger.clock() * 1_000_000) // DAY_US * DAY_US
            found.append(Limit("day's budget", Decimal(str(usd)), "%cost --day-budget USD", since=midnight))
        return found

    def reset(self) -> None:
        """Let the session's count start anew; the day's goes on."""
        self.since = int(self.ledger.clock() * 1_000_000)

    @property
    def bounded(self) -> bool:
        """Whether any limit is in force; without one nothing needs to be priced beforehand."""
        return bool(self.limits())

    def left(self) -> Decimal | None:
        """Return the US dollars that may still be reserved, None without a limit."""
        standings = self.ledger.standings(self.limits())
        return max(min(limit.left for limit in standings), _NOTHING) if standings else None

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
            raise BudgetExceededError(
                f"the ledger {self.ledger.path} cannot be written ({exc}), so no budget can be kept; mend that, or take "
                f"the budget away ({limits[0].raised_by.split()[0]} … none)"
            ) from exc


# No limit is in force, and nothing is booked with it.
UNBOUNDED = Budget(Ledger(None))


def unknown_price(what: str) -> str:
    """Return one line: what has no known price, and where a price can be written."""
    return (
        f"the price of {what} is unknown, so no budget can be kept with it; ask without one, or write the price into your own "
        "prices.toml, in the settings folder that %websearch status names"
    )


# --- one run of the loop -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class RunBudget:
    """How one run of the tool loop spends a budget. The loop asks before it sends; the booking settles what happened.

    One reservation holds the request under way, the calls under way, and enough for a final answer from the first request to
    `close`. Without a `model`, nobody reads what a call finds. `server_searches` are the searches that the API may make in one
    request. `least` are the tokens that a request must be able to write; `terms` and `hour_cache` are what its requests ask for
    that makes tokens dearer. `timeout_s` is how long one request or call may take. `planned` are paid calls whose money is
    reserved with the first request, so that a run that has begun can make them. `result_tokens` is the input that the results
    of one call are expected to add.
    """

    model: str = ""
    budget: Budget = UNBOUNDED
    server_searches: int = 0
    least: int = MIN_ANSWER_TOKENS
    terms: Terms = frozenset()
    hour_cache: bool = False
    timeout_s: float = RUN_S
    planned: Sequence[Charge] = ()
    result_tokens: int = RESULT_TOKENS
    bounded: bool = field(init=False)
    # One line that says why the last request or call was not granted.
    refusal: str = field(default="", init=False)
    # US dollars held for the request under way: its worst case.
    request_usd: Decimal = field(default=_NOTHING, init=False)
    _worst: Decimal = field(default=_NOTHING, init=False)  # of the request that was sent last
    _kept: Decimal = field(default=_NOTHING, init=False)  # for the planned calls and the final answer
    _input: int = field(default=0, init=False)  # tokens that the final answer will have to read
    _calls: dict[str, tuple[Sequence[Charge], Decimal]] = field(default_factory=dict, init=False)
    _held: Reservation = field(init=False)

    def __post_init__(self) -> None:
        self.bounded = self.budget.bounded
        self._held = Reservation(self.budget.ledger, "")

    def grant(self, model: str, input_tokens: int, wanted: int, *, final: bool) -> int | None:
        """Return the `max_tokens` that the next request may ask for: `wanted`, fewer, or None when the money is not enough.

        Its worst case is reserved and, unless it is `final` or writes nothing, enough for a final answer after it.
        """
        if not self.bounded:
            return wanted
        if worst_case(model, input_tokens, self.least, terms=self.terms) is None:
            self.refusal = unknown_price(f"{model} in fast mode" if "fast" in self.terms else model)
            return None
        final = final or not wanted

        def costs(tokens: int) -> tuple[Decimal, Decimal]:
            cost = self._worst_case(model, input_tokens, tokens, 0 if final else self.server_searches)
            return cost, _NOTHING if final else self._rest(input_tokens + tokens + CLOSING_TOKENS, self.planned)

        tokens, least = wanted, min(wanted, self.least)
        while tokens >= least:  # other kernels may take money between two attempts
            cost, kept = costs(tokens)
            tight = self._hold(cost, kept)
            if tight is None:
                self._worst, self._input = cost, input_tokens + CLOSING_TOKENS
                return tokens
            what = "a search and a short answer" if self.planned else "a short answer"
            self.refusal = tight.refusal(what, sum(costs(least), _NOTHING))
            room = tight.left - self._calls_usd()
            tokens = least - 1 + bisect_right(range(least, tokens), room, key=lambda n: sum(costs(n), _NOTHING))
        return None

    def grant_again(self) -> str:
        """Reserve the last request's worst case once more, since it failed and is sent again; return why not, "" when done."""
        tight = self._hold(self._worst, self._kept) if self.bounded else None
        return "" if tight is None else tight.refusal("sending the failed request again", self._worst)

    def grant_call(self, id: str, charges: Sequence[Charge]) -> bool:
        """Reserve a paid call and the money for reading its results; say whether it may be made."""
        if not self.bounded:
            self._calls[id] = (charges, _NOTHING)
            return True
        cost = charges_cost(charges)
        if cost is None:
            self.refusal = unknown_price(next(charge.provider for charge in charges if charge_cost(charge) is None))
            return False
        planned, to_read = self.planned[len(charges) :], self._input + self.result_tokens
        self._calls[id] = (charges, cost)
        if (tight := self._hold(self.request_usd, self._rest(to_read, planned))) is not None:
            del self._calls[id]
            self.refusal = tight.refusal(f"a search with {charges[0].provider}", cost)
            return False
        self.planned, self._input = planned, to_read
        return True

    def settle(self, rows: Sequence[LedgerRow], *, call: str = "", usage: Usage | None = None) -> None:
        """Insert the rows of a paid `call`, or of the request under way, whose `usage` is given, and end what is held for it.

        What is kept for the final answer is adapted to the reply.
        """
        self._calls.pop(call, None)
        if usage is not None and self.bounded:
            self.request_usd = _NOTHING
            self._input += usage.output_tokens
            self._kept = min(self._kept, self._rest(self._input, self.planned))
        self._held.settle(rows, keep=self.request_usd + self._kept + self._calls_usd())

    def close(self) -> list[Charge]:
        """End the run: return the calls under way, which were sent and count; `settle` gives the rest back."""
        calls, self._calls, self._kept = self._calls, {}, _NOTHING
        return [charge for charges, _ in calls.values() for charge in charges]

    def _hold(self, request: Decimal, kept: Decimal) -> Limit | None:
        """Change what is held for the request and for the final answer; return the limit that has no room, None when done."""
        total = request + kept + self._calls_usd()
        try:
            if total > self._held.usd:
                self._held = self.budget.reserve(total, lease_s=self.timeout_s + LEASE_S, id=self._held.id)
        except Refused as refused:
            return refused.limit
        self.request_usd, self._kept = request, kept
        return None

    def _calls_usd(self) -> Decimal:
        return sum((cost for _, cost in self._calls.values()), _NOTHING)

    def _rest(self, input_tokens: int, planned: Sequence[Charge]) -> Decimal:
        """Return the most that planned calls cost, and a short answer that reads their results and so many tokens."""
        answer = self._worst_case(self.model, input_tokens + len(planned) * self.result_tokens, self.least)
        return answer + (charges_cost(planned) or _NOTHING)  # an unknown price is refused at the call

    def _worst_case(self, model: str, input_tokens: int, tokens: int, searches: int = 0) -> Decimal:
        """Return the most that a request costs, 0 when its price is unknown."""
        terms, hour_cache = self.terms, self.hour_cache
        usd = worst_case(model, input_tokens, tokens, hour_cache=hour_cache, server_searches=searches, terms=terms)
        return usd or _NOTHING


# --- what happened -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Booking:
    """Books one question, or one search outside of any. `cost_usd` is None once a price was unknown.

    `budget` is what the run reserves from; it is settled in the transaction that inserts the rows. `replayed_from` names the
    cassette that the calls come from: they cost nothing, their rows say "replayed", and a budget counts them all the same, so
    that it ends where the recording did. `write` takes rows in place of the ledger.
    """

    ledger: Ledger
    session: str
    question_id: str
    question: str
    replayed_from: str = ""
    budget: RunBudget = field(default_factory=RunBudget)
    cost_usd: Money = Decimal(0)
    steps: list[Step] = field(default_factory=list)
    write: Callable[[Sequence[LedgerRow]], None] | None = None
    _body: Any = None
    _inputs: dict[str, Any] = field(default_factory=dict)  # of tool calls

    def take(self, event: Event) -> None:
        """Book an event as it happens."""
        match event:
            case ModelRequested():
                self._body = event.body
            case ModelResponded():
                status: Status = "interrupted" if event.lost else "ok" if event.stop_reason else "error"
                row = self.model_row(event.model, event.usage, status=status, estimated=event.estimated, lost=event.lost)
                self._step(
                    event,
                    kind="model",
                    name=event.model,
                    cost_usd=self._book([row], usage=event.usage),
                    request=self._body,
                    detail=event.stop_reason or "broke off",
                    is_error=event.stop_reason is None,
                    usage=event.usage,
                )
            case ToolStarted():
                self._inputs[event.id] = event.input
            case ToolFinished():
                self._step(
                    event,
                    kind="tool",
                    name=event.name,
                    cost_usd=self.charges(event.charges, status="error" if event.is_error else "ok", id=event.id),
                    request=self._inputs.get(event.id),
                    detail=event.summary,
                    is_error=event.is_error,
                    log=event.log,
                )

    def charges(self, charges: Sequence[Charge], *, status: Status = "ok", id: str = "") -> Money:
        """Book calls to providers (those of the tool call `id`) and return what they cost together."""
        return self._book(self._charge_rows(charges, status), call=id)

    def close(self, cut_off: ModelResponded | None = None) -> None:
        """Book what was sent and has not come to its end, and give back what is still reserved."""
        if cut_off is not None:
            self.take(cut_off)
        self._book(self._charge_rows(self.budget.close(), "interrupted"), usage=Usage())

    def model_row(
        self,
        model: str,
        usage: Usage,
        *,
        status: Status = "ok",
        estimated: bool = False,
        lost: bool = False,
        batch: bool = False,
    ) -> LedgerRow:
        """Return the row of a request. A `lost` one went out, and nothing was heard of its cost."""
        cost, held = model_cost(model, usage, batch=batch), self.budget.request_usd
        if held and (cost is None or (lost and held > cost)):
            cost, estimated = held, True
        saved_usd = None if self.replayed_from else caching_saved(model, usage, batch=batch)
        return self._row("model", model, cost, usage=usage, status=status, estimated=estimated, saved_usd=saved_usd)

    def _charge_rows(self, charges: Sequence[Charge], status: Status) -> list[LedgerRow]:
        """Return the rows of calls to providers; what was interrupted or lost went out, and counts at the price expected."""
        priced = [(charge, charge_cost(charge)) for charge in charges]
        return [
            self._row(
                charge.kind,
                charge.provider,
                cost,
                units=charge.units,
                unit=charge.unit,
                cached=charge.cached,
                saved_usd=charge_cost(replace(charge, cached=False)) if charge.cached and not self.replayed_from else None,
                status="error" if charge.lost and status == "ok" else status,
                estimated=charge.lost or status == "interrupted",
            )
            for charge, cost in priced
            if not (charge.lost and cost == 0)
        ]

    def _row(self, kind: Any, name: str, cost: Money, **more: Any) -> LedgerRow:
        question = (self.session, self.question_id, self.question)
        return LedgerRow(datetime.now(UTC), *question, kind, name, cost_usd=cost, **more)

    def _book(self, rows: Sequence[LedgerRow], **ended: Any) -> Money:
        """Write rows; under a budget, in the transaction that ends what was reserved for them. Return what they cost."""
        paid = rows
        if self.replayed_from:
            paid = [replace(r, cost_usd=_NOTHING, status=r.status if r.name in UNRECORDED else "replayed") for r in rows]
        if self.replayed_from or not self.budget.bounded:
            (self.write or self.ledger.book)(paid)
        self.budget.settle(rows if self.budget.bounded else (), **ended)
        cost = add_money(*(row.cost_usd for row in paid))
        self.cost_usd = add_money(self.cost_usd, cost)
        return cost

    def _step(self, event: ModelResponded | ToolFinished, **facts: Any) -> None:
        self.steps.append(Step(n=len(self.steps) + 1, milliseconds=event.seconds * 1000, response=event.content, **facts))


# --- what it may cost ----------------------------------------------------------------------------------------------------

USUAL_SEARCHES = 2
USUAL_RESULT_TOKENS = 1_500
USUAL_CALL_TOKENS, USUAL_ANSWER_TOKENS = 150, 600
USUAL_NATIVE_TOKENS = 7_800  # results of one of the API's own searches, as recorded in 2026
# Input that the page of a round is taken to add, in the worst case.
PAGE_TOKENS = 10_000

COMMON_SHARE = Decimal("0.55")  # the cautious count of an English prompt is about 1.8 times what it usually has


@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """An estimate; as text, a few lines.

    `input_tokens` is the usual size of the first request, `most_input_tokens` the cautious one. `expected_usd` is for the
    `expected` searches and requests; `worst_usd` for the `worst` that the limits allow, and not above `ceiling_usd`, which the
    budgets leave (None: there is none). An amount is None when a price is unknown. `refusal` says why the question would not be
    sent, "" when it would.
    """

    model: str
    input_tokens: int
    most_input_tokens: int
    expected: str
    expected_usd: Money
    worst: str
    worst_usd: Money
    ceiling_usd: Money = None
    refusal: str = ""

    def __repr__(self) -> str:
        held = f", held by the budget of {usd(self.ceiling_usd)}" if self.ceiling_usd is not None else ""
        lines = (
            f"first request   about {self.input_tokens:,} tokens (at most {self.most_input_tokens:,}) to {self.model}",
            f"expected        {usd(self.expected_usd):<12} {self.expected}",
            f"worst case      {usd(self.worst_usd):<12} {self.worst}{held}",
            f"would be refused: {self.refusal}" if self.refusal else "",
            "Nothing was sent.",
        )
        return "\n".join(filter(None, lines))


def estimate(
    run: RunBudget,
    limits: Limits,
    *,
    prompt_tokens: int,
    input_tokens: int,
    max_tokens: int,
    has_tools: bool = True,
    native_uses: int = 0,
    searching: Sequence[Charge] = (),
) -> Estimate:
    """Return the estimate for a run that has not begun; `run` is the budget that it would spend, from which nothing is kept.

    `prompt_tokens` is the cautious count of what the first request sends, `input_tokens` with what the API's own tools may add,
    which it may use `native_uses` times. `searching` is what one search of ours is expected to be billed. What follows the
    first request depends on the model, so two amounts are given: for a usual course (two searches, three requests; with the
    API's own search one request, which reads all of it again after each search) and for the worst that the limits allow.
    """
    left, model = run.budget.left(), run.model
    granted = any(run.grant(model, input_tokens, max_tokens, final=final) for final in (False, True))
    run.close()
    run.settle((), usage=Usage())
    most = limits.max_searches if has_tools else 0
    searches = min(USUAL_SEARCHES, most, *([run.server_searches] if native_uses else []))
    requests = limits.max_steps + 1 if has_tools else 1
    first, price = int(prompt_tokens * COMMON_SHARE), charges_cost(searching)
    results = USUAL_RESULT_TOKENS + (run.result_tokens - RESULT_TOKENS) // 2  # of pages, half of the most is usual
    sizes = [first, *[results + USUAL_CALL_TOKENS] * searches]  # what each request adds; it reads the rest from the cache
    course = [
        Usage(
            output_tokens=USUAL_ANSWER_TOKENS if n == searches else USUAL_CALL_TOKENS,
            cache_read_tokens=sum(sizes[:n]),
            cache_write_5m_tokens=added,
        )
        for n, added in enumerate(sizes)
    ]
    if native_uses:  # one request, whose input is read again after each search
        read = (first + n * USUAL_NATIVE_TOKENS for n in range(searches + 1))
        course = [Usage(sum(read), searches * USUAL_CALL_TOKENS + USUAL_ANSWER_TOKENS, server_searches=searches)]
    # Every request writes all it may, and the next one reads that, a page and results too.
    each = max_tokens + GROWTH_TOKENS + PAGE_TOKENS
    dear = (
        worst_case(model, input_tokens + n * each, max_tokens, server_searches=run.server_searches) for n in range(requests)
    )
    worst = add_money(*dear, None if price is None else limits.max_searches * price)
    return Estimate(
        model=model,
        input_tokens=first,
        most_input_tokens=prompt_tokens,
        expected=f"{plural(searches, 'search', 'searches')}, {plural(len(course), 'request')}",
        expected_usd=add_money(
            *(model_cost(model, used) for used in course),
            _NOTHING if native_uses else None if price is None else searches * price,
        ),
        worst=f"{plural(most, 'search', 'searches')}, {plural(requests, 'request')} of {max_tokens:,} tokens each",
        worst_usd=worst if left is None or worst is None else min(worst, left),
        ceiling_usd=left,
        refusal="" if granted else run.refusal,
    )
