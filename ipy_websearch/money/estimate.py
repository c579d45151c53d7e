"""What a question may cost, worked out before anything is sent: what `%ask --estimate` shows.

The tokens of the first request are counted on the request itself. What follows depends on the model, so two amounts are given:
for a usual course (two searches, three requests; with the API's own search one request, which reads all of it again after each
search) and for the worst that the limits allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from ipy_websearch.events import Money
from ipy_websearch.money.budget import GROWTH_TOKENS, RunBudget
from ipy_websearch.money.prices import charges_cost, model_cost, worst_case
from ipy_websearch.usage import Charge, Limits, Usage

USUAL_SEARCHES = 2
USUAL_RESULT_TOKENS = 1_500
USUAL_CALL_TOKENS, USUAL_ANSWER_TOKENS = 150, 600
USUAL_NATIVE_TOKENS = 7_800  # results of one of the API's own searches, as recorded in 2026
PAGE_TOKENS = 10_000
"""Input that the page of a round is taken to add, in the worst case."""

COMMON_SHARE = Decimal("0.55")  # the cautious count of an English prompt is about 1.8 times what it usually has


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """The first request of a question, which was not sent.

    `prompt_tokens` is the cautious count of what it sends, `input_tokens` with what the API's own tools may add, which it may
    use `native_uses` times. `searching` is what one search of ours is expected to be billed. `has_tools`: any are offered.
    """

    model: str
    prompt_tokens: int
    input_tokens: int
    max_tokens: int
    limits: Limits
    has_tools: bool = True
    native_uses: int = 0
    searching: Sequence[Charge] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """An estimate; as text, a few lines.

    `input_tokens` is the usual size of the first request, `most_input_tokens` the cautious one. `native_tokens` is what the
    API's own tools, used `native_uses` times, may add at most to what one request is billed for. `expected_usd` is for
    `searches` searches in `requests` requests; `worst_usd` for the limits `max_searches` and `max_requests`, each with all of
    its `max_tokens`, and not above `ceiling_usd`, which the budgets leave (None: there is none). An amount is None when a price
    is unknown. `refusal` says why the question would not be sent, "" when it would.
    """

    model: str
    input_tokens: int
    most_input_tokens: int
    searches: int
    max_searches: int
    requests: int
    max_requests: int
    max_tokens: int
    expected_usd: Money
    worst_usd: Money
    ceiling_usd: Money = None
    refusal: str = ""
    native_tokens: int = 0
    native_uses: int = 0

    def __repr__(self) -> str:
        held = f", held by the budget of {_usd(self.ceiling_usd)}" if self.ceiling_usd is not None else ""
        worst = [_plural(self.max_searches, "search")] if not self.native_uses else []
        worst.append(f"{_plural(self.max_requests, 'request')} of {self.max_tokens:,} tokens each{held}")
        lines = [
            f"first request   about {self.input_tokens:,} tokens (at most {self.most_input_tokens:,}) to {self.model}",
            f"expected        {_usd(self.expected_usd)}   {_plural(self.searches, 'search')}, "
            f"{_plural(self.requests, 'request')}",
            f"worst case      {_usd(self.worst_usd)}   {', '.join(worst)}",
        ]
        if self.native_uses:
            lines.append(
                f"                in each request the API may search and fetch {self.native_uses} times, and bill all that "
                f"it read again each time: {self.native_tokens:,} tokens"
            )
        if self.refusal:
            lines.append(f"would be refused: {self.refusal}")
        return "\n".join((*lines, "Nothing was sent."))


def estimate(request: FirstRequest, run: RunBudget) -> Estimate:
    """Return the estimate for a run that has not begun; `run` is the budget that it would spend, from which nothing is kept."""
    left = run.budget.left() if run.budget is not None else None
    granted = any(run.grant(request.model, request.input_tokens, request.max_tokens, final=final) for final in (False, True))
    refused = "" if granted else run.refusal(request.input_tokens)
    run.close()
    run.settle_request((), Usage())
    native, most_searches = request.native_uses > 0, request.limits.max_searches if request.has_tools else 0
    searches = min(USUAL_SEARCHES, most_searches, *([run.server_searches] if native else []))
    requests = request.limits.max_steps + 1 if request.has_tools else 1
    first = int(request.prompt_tokens * COMMON_SHARE)
    price = charges_cost(request.searching)
    usual = _usual_native(request.model, first, searches) if native else _usual(request.model, first, searches)
    worst = _plus(_worst(request, requests, run.server_searches), price, request.limits.max_searches)
    return Estimate(
        model=request.model,
        input_tokens=first,
        most_input_tokens=request.prompt_tokens,
        searches=searches,
        max_searches=most_searches,
        requests=1 if native else searches + 1,
        max_requests=requests,
        max_tokens=request.max_tokens,
        expected_usd=_plus(usual, Decimal(0) if native else price, searches),
        worst_usd=worst if left is None or worst is None else min(worst, left),
        ceiling_usd=left,
        refusal=refused,
        native_tokens=request.input_tokens - request.prompt_tokens,
        native_uses=request.native_uses,
    )


def _usual(model: str, first: int, searches: int) -> Money:
    """Return what the requests of a usual course cost: each reads the one before it from the cache."""
    total, known = Decimal(0), 0
    for n in range(searches + 1):
        fresh = first if n == 0 else USUAL_RESULT_TOKENS + USUAL_CALL_TOKENS
        written = USUAL_ANSWER_TOKENS if n == searches else USUAL_CALL_TOKENS
        cost = model_cost(model, Usage(output_tokens=written, cache_read_tokens=known, cache_write_5m_tokens=fresh))
        if cost is None:
            return None
        total, known = total + cost, known + fresh
    return total


def _usual_native(model: str, first: int, searches: int) -> Money:
    """Return the same where the API searches by itself: one request, whose input is read again after each search."""
    read = sum(first + n * USUAL_NATIVE_TOKENS for n in range(searches + 1))
    written = searches * USUAL_CALL_TOKENS + USUAL_ANSWER_TOKENS
    return model_cost(model, Usage(input_tokens=read, output_tokens=written, server_searches=searches))


def _worst(request: FirstRequest, requests: int, server_searches: int) -> Money:
    """Return what it costs when every request writes all it may, and the next one reads that, a page and results too."""
    total = Decimal(0)
    for n in range(requests):
        read = request.input_tokens + n * (request.max_tokens + GROWTH_TOKENS + PAGE_TOKENS)
        cost = worst_case(request.model, read, request.max_tokens, server_searches=server_searches)
        if cost is None:
            return None
        total += cost
    return total


def _plus(model: Money, search: Money, searches: int) -> Money:
    return None if model is None or search is None else model + searches * search


def _usd(amount: Money) -> str:
    return "unknown    " if amount is None else f"{amount:.4f} USD"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('h') else 's'}"
