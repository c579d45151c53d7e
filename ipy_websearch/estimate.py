"""What a question may cost, worked out before anything is sent.

The tokens of the first request are counted on the request itself. What follows depends on what the model does, so two
amounts are given: one for a usual course (two searches, three requests; with the API's own search one request, which reads all
of it again after each search), and one for the worst the limits allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from ipy_websearch.events import Money
from ipy_websearch.loop.limits import OpenPurse
from ipy_websearch.loop.means import Means
from ipy_websearch.loop.run import AnswerLoop
from ipy_websearch.model.requests import USUAL_NATIVE_TOKENS, prompt_tokens
from ipy_websearch.pricing import charge_cost, model_cost, worst_case
from ipy_websearch.purse import GROWTH_TOKENS, CeilingPurse
from ipy_websearch.usage import Charge, Usage

USUAL_SEARCHES = 2
USUAL_RESULT_TOKENS = 1_500
USUAL_CALL_TOKENS, USUAL_ANSWER_TOKENS = 150, 600
PAGE_TOKENS = 10_000
"""What is reckoned for the page that each round may read, in the worst case."""

COMMON_SHARE = Decimal("0.55")  # the cautious count of an English prompt is about 1.8 times what it usually has


class _CountingPurse(OpenPurse):
    """Grants everything, and wants to know how large a request is."""

    bounded = True


@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """An estimate; as text, a few lines.

    `input_tokens` is the usual size of the first request, `most_input_tokens` the cautious one. `native_tokens` is what the
    API's own tools, used `native_uses` times, may add at most to what one request is billed for; ceilings reckon with both.
    `expected_usd` is for `searches` searches in `requests` requests; `worst_usd` for the limits `max_searches` and
    `max_requests`, each with all of its `max_tokens`, and not above `ceiling_usd` (None: there is no ceiling). An amount is
    None when a price is unknown. `refusal` says why the question would not be sent, "" when it would.
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
        held = f", held by the ceiling of {_usd(self.ceiling_usd)}" if self.ceiling_usd is not None else ""
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


def estimate_of(loop: AnswerLoop, purse: CeilingPurse, searching: Sequence[Charge], ceiling_usd: Money) -> Estimate:
    """Return the estimate for a run that has not begun; `searching` is what one search is expected to be billed."""
    job = loop.job
    means = Means(job, loop.means.tools, loop.means.platform, _CountingPurse(), loop.meter)
    draft = means.draft(list(loop.messages), final=False)
    granted = purse.grant(job.model, draft.input_tokens, job.max_tokens, final=False) or purse.grant(
        job.model, draft.input_tokens, job.max_tokens, final=True
    )
    refusal = "" if granted else purse.refusal(job.model, draft.input_tokens)
    purse.close()
    works, native = bool(loop.means.tools or job.server_tools), bool(job.server_tools)
    searches = min(USUAL_SEARCHES, job.limits.max_searches, *([purse.server_searches] if native else [])) if works else 0
    max_requests = job.limits.max_steps + 1 if works else 1
    sent = prompt_tokens(draft.body or {})
    first = int(sent * COMMON_SHARE)
    price = _sum(searching) if loop.means.tools else Decimal(0)
    most = _worst(job.model, draft.input_tokens, job.max_tokens, max_requests, purse.server_searches)
    worst = _plus(most, price, job.limits.max_searches)
    if ceiling_usd is not None and worst is not None:
        worst = min(worst, max(ceiling_usd, Decimal(0)))
    usual = _usual_native if native else _usual
    return Estimate(
        model=job.model,
        input_tokens=first,
        most_input_tokens=sent,
        searches=searches,
        max_searches=job.limits.max_searches if works else 0,
        requests=1 if native else searches + 1,
        max_requests=max_requests,
        max_tokens=job.max_tokens,
        expected_usd=_plus(usual(job.model, first, searches), Decimal(0) if native else price, searches),
        worst_usd=worst,
        ceiling_usd=ceiling_usd,
        refusal=refusal,
        native_tokens=draft.input_tokens - sent,
        native_uses=sum(int(tool.get("max_uses", 0)) for tool in job.server_tools),
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
    """Return what a usual course costs where the API searches by itself: it is one request, whose input is read once more after
    each search, with all results by then."""
    read = sum(first + n * USUAL_NATIVE_TOKENS for n in range(searches + 1))
    written = searches * USUAL_CALL_TOKENS + USUAL_ANSWER_TOKENS
    return model_cost(model, Usage(input_tokens=read, output_tokens=written, server_searches=searches))


def _worst(model: str, first: int, max_tokens: int, requests: int, server_searches: int) -> Money:
    """Return what it costs when every request writes all it may, and the next one reads that, a page and results too."""
    total = Decimal(0)
    for n in range(requests):
        read = first + n * (max_tokens + GROWTH_TOKENS + PAGE_TOKENS)
        cost = worst_case(model, read, max_tokens, caching=True, server_searches=server_searches)
        if cost is None:
            return None
        total += cost
    return total


def _sum(charges: Sequence[Charge]) -> Money:
    costs = [charge_cost(charge) for charge in charges]
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if len(known) == len(costs) else None


def _plus(model: Money, search: Money, searches: int) -> Money:
    return None if model is None or search is None else model + searches * search


def _usd(amount: Money) -> str:
    return "unknown    " if amount is None else f"{amount:.4f} USD"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('h') else 's'}"
