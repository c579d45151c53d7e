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
from ipy_websearch.money.budget import GROWTH_TOKENS, RESULT_TOKENS, RunBudget
from ipy_websearch.money.prices import charges_cost, model_cost, worst_case
from ipy_websearch.text import usd
from ipy_websearch.usage import Charge, Limits, Usage

USUAL_SEARCHES = 2
USUAL_RESULT_TOKENS = 1_500
USUAL_CALL_TOKENS, USUAL_ANSWER_TOKENS = 150, 600
USUAL_NATIVE_TOKENS = 7_800  # results of one of the API's own searches, as recorded in 2026
PAGE_TOKENS = 10_000
"""Input that the page of a round is taken to add, in the worst case."""

COMMON_SHARE = Decimal("0.55")  # the cautious count of an English prompt is about 1.8 times what it usually has


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
        held = f", held by the budget of {usd(self.ceiling_usd)}" if self.ceiling_usd is not None else ""
        worst = [_plural(self.max_searches, "search")] if not self.native_uses else []
        worst.append(f"{_plural(self.max_requests, 'request')} of {self.max_tokens:,} tokens each{held}")
        lines = [
            f"first request   about {self.input_tokens:,} tokens (at most {self.most_input_tokens:,}) to {self.model}",
            f"expected        {usd(self.expected_usd):<12} {_plural(self.searches, 'search')}, "
            f"{_plural(self.requests, 'request')}",
            f"worst case      {usd(self.worst_usd):<12} {', '.join(worst)}",
        ]
        if self.native_uses:
            lines.append(
                f"                in each request the API may search and fetch {self.native_uses} times, and bill all that "
                f"it read again each time: {self.native_tokens:,} tokens"
            )
        if self.refusal:
            lines.append(f"would be refused: {self.refusal}")
        return "\n".join((*lines, "Nothing was sent."))


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
    which it may use `native_uses` times. `searching` is what one search of ours is expected to be billed.
    """
    left, model = run.left(), run.model
    granted = any(run.grant(model, input_tokens, max_tokens, final=final) for final in (False, True))
    refused = "" if granted else run.refusal(input_tokens)
    run.close()
    run.settle_request((), Usage())
    most_searches = limits.max_searches if has_tools else 0
    searches = min(USUAL_SEARCHES, most_searches, *([run.server_searches] if native_uses else []))
    requests = limits.max_steps + 1 if has_tools else 1
    first, price = int(prompt_tokens * COMMON_SHARE), charges_cost(searching)
    results = USUAL_RESULT_TOKENS + (run.result_tokens - RESULT_TOKENS) // 2  # of pages, half of the most is usual
    usual = _usual_native(model, first, searches) if native_uses else _usual(model, first, searches, results)
    worst = _plus(_worst(run, input_tokens, max_tokens, requests), price, limits.max_searches)
    return Estimate(
        model=model,
        input_tokens=first,
        most_input_tokens=prompt_tokens,
        searches=searches,
        max_searches=most_searches,
        requests=1 if native_uses else searches + 1,
        max_requests=requests,
        max_tokens=max_tokens,
        expected_usd=_plus(usual, Decimal(0) if native_uses else price, searches),
        worst_usd=worst if left is None or worst is None else min(worst, left),
        ceiling_usd=left,
        refusal=refused,
        native_tokens=input_tokens - prompt_tokens,
        native_uses=native_uses,
    )


def _usual(model: str, first: int, searches: int, results: int) -> Money:
    """Return what the requests of a usual course cost: each reads the one before it from the cache, and new results."""
    total, known = Decimal(0), 0
    for n in range(searches + 1):
        fresh = first if n == 0 else results + USUAL_CALL_TOKENS
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


def _worst(run: RunBudget, first: int, max_tokens: int, requests: int) -> Money:
    """Return what it costs when every request writes all it may, and the next one reads that, a page and results too."""
    each = max_tokens + GROWTH_TOKENS + PAGE_TOKENS
    costs = [worst_case(run.model, first + n * each, max_tokens, server_searches=run.server_searches) for n in range(requests)]
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if len(known) == len(costs) else None


def _plus(model: Money, search: Money, searches: int) -> Money:
    return None if model is None or search is None else model + searches * search


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('h') else 's'}"
