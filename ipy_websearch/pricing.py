"""What a request or a call costs, in US dollars as exact decimals.

Models are priced by genai-prices, engines by `prices.toml`, both after the user's own file. The invariant: a price that
is not known is None, never 0, and asking for one never raises (but for a user's file that is wrong, once). Multiplying
prices and counts is exact: nothing here is a float.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache

from ipy_websearch.price_file import PriceRow, built_in, users_own
from ipy_websearch.settings import OFFLINE_MODEL
from ipy_websearch.tariffs import FREE, Rates, forget, listed, was_looked_up, with_own
from ipy_websearch.usage import USUAL, Charge, Terms, Usage

__all__ = [
    "PriceRow",
    "Rates",
    "affordable_tokens",
    "billed_model",
    "caching_saved",
    "charge_cost",
    "model_cost",
    "price_table",
    "tariff",
    "worst_case",
]

UNBOUNDED_TOKENS = 2**31 - 1
"""What any money buys of a model that costs nothing."""

_NOTHING = Decimal(0)
_DATE = re.compile(r"[-@](\d{8})$")


def model_cost(model: str, usage: Usage, *, batch: bool = False, at: datetime | None = None) -> Decimal | None:
    """Return what a request with this usage costs in US dollars, None when a price is unknown.

    `usage` must be that of one request: prices step up with its input. `model` may be an id of the Claude API, Bedrock or
    Vertex; the built-in "offline" model costs 0. The usage says on which terms its tokens were had. `batch` is the Message
    Batches API, at half the price of tokens. `at` is when it was sent (None: now), since prices change.
    """
    rates = _rates(model, usage.total_input_tokens, batch, at, usage.terms)
    if rates is None:
        return None
    total = usage.server_searches * rates.server_search if usage.server_searches else _NOTHING
    for count, rate in (
        (usage.input_tokens, rates.input),
        (usage.output_tokens, rates.output),
        (usage.cache_read_tokens, rates.cache_read),
        (usage.cache_write_5m_tokens, rates.cache_write_5m),
        (usage.cache_write_1h_tokens, rates.cache_write_1h),
    ):
        if not count:
            continue
        if rate is None:
            return None
        total += count * rate
    return total


def caching_saved(model: str, usage: Usage, *, batch: bool = False, at: datetime | None = None) -> Decimal | None:
    """Return what the prompt cache saved: what the tokens read from it would have cost at the plain input price, less what
    they did cost. 0 without such tokens, None when a price is unknown.
    """
    if not usage.cache_read_tokens:
        return Decimal(0)
    rates = _rates(model, usage.total_input_tokens, batch, at, usage.terms)
    if rates is None or rates.cache_read is None:
        return None
    return usage.cache_read_tokens * (rates.input - rates.cache_read)


def worst_case(
    model: str,
    input_tokens: int,
    max_tokens: int,
    *,
    batch: bool = False,
    caching: bool = False,
    hour_cache: bool = False,
    server_searches: int = 0,
    terms: Terms = USUAL,
) -> Decimal | None:
    """Return the cost of a request that reads `input_tokens` and writes all of `max_tokens`; None: the price is unknown.

    The input counts at the plain price, with `caching` at that of a cache write where that is dearer (1.25 times, or with
    `hour_cache` twice). `server_searches` are the searches that the API itself may make, `terms` what the request asks for.
    """
    rates = _rates(model, input_tokens, batch, None, terms)
    if rates is None:
        return None
    each = rates.dearest_input(hour=hour_cache) if caching else rates.input
    return input_tokens * each + max_tokens * rates.output + server_searches * rates.server_search


def affordable_tokens(model: str, input_tokens: int, usd: Decimal, *, batch: bool = False) -> int | None:
    """Return how many output tokens `usd` buys after `input_tokens` at the plain price; 0 when not even those.

    None when the price is unknown. `worst_case` of the same input and that many tokens is never above `usd`.
    """
    rates = _rates(model, input_tokens, batch, None, USUAL)
    if rates is None:
        return None
    left = Decimal(usd) - input_tokens * rates.input
    if left < 0:
        return 0
    if rates.output == 0:
        return UNBOUNDED_TOKENS
    return min(UNBOUNDED_TOKENS, int((left / rates.output).to_integral_value(ROUND_FLOOR)))


def charge_cost(charge: Charge) -> Decimal | None:
    """Return what a call to an engine costs in US dollars: nothing when cached, else what its answer reported, else by table.

    None when neither says.
    """
    if charge.cached:
        return Decimal(0)
    if charge.usd is not None:
        return charge.usd
    for prices in (users_own(), built_in()):
        for kind in (charge.kind, "*"):
            if row := prices.rows.get((charge.provider.lower(), kind, charge.unit)):
                return charge.units * row.usd
    return None


def price_table() -> list[PriceRow]:
    """Return the engines' prices in force, the user's own in place of those they override and after those they do not.

    Raises:
        ConfigError: the user's price file is wrong (said once).
    """
    return list({**built_in().rows, **users_own().rows}.values())


def tariff(model: str, *, batch: bool = False, at: datetime | None = None, terms: Terms = USUAL) -> tuple[Rates, ...]:
    """Return the prices of a model in force, by rising input; () when they are unknown."""
    if model == OFFLINE_MODEL:
        return (FREE,)
    own = users_own().models.get(model.lower())
    return with_own(own, model, batch, terms, _utc_day(at)) if own else listed(model, batch, terms, _utc_day(at))


def billed_model(asked: str, answered: str) -> str:
    """Return the id that a request is priced and booked by, given the one it asked for and the one that its reply names.

    The reply's counts, since a server may fall back to another model; but the one asked for where only that has a price, and
    where it says more of the same model: Bedrock's regions have prices of their own, and its replies do not name them.

    >>> billed_model("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929")
    'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
    """
    if not answered or answered == asked:
        return asked
    return _same_model(asked, answered) or (answered if tariff(answered) or not tariff(asked) else asked)


@lru_cache(maxsize=256)
def _same_model(asked: str, answered: str) -> str:
    """Return which of two ids of the same model says more of it, "" for those of two models."""
    dated = _DATE.search(answered)
    bare, whole = answered[: dated.start() if dated else None].lower(), asked.lower()
    if whole == bare:
        return answered
    date = dated[1] if dated else r"\d{8}"
    return asked if re.search(rf"(?:^|[./]){re.escape(bare)}(?:[-@]{date})?(?:-v\d+)?(?:[:\[].*)?$", whole) else ""


def is_at_hand(model: str) -> bool:
    """Say whether a model's price was looked up today: the first time it takes 0.1 s."""
    return model == OFFLINE_MODEL or was_looked_up(model, _utc_day(None))


def forget_prices() -> None:
    """Look model prices up again: genai-prices has newer ones."""
    forget()


def _rates(model: str, input_tokens: int, batch: bool, at: datetime | None, terms: Terms) -> Rates | None:
    steps = tariff(model, batch=batch, at=at, terms=terms)
    return next((rates for rates in reversed(steps) if input_tokens > rates.start), steps[0] if steps else None)


def _utc_day(at: datetime | None) -> date:
    at = at or datetime.now(UTC)
    return (at if at.tzinfo is None else at.astimezone(UTC)).date()
