"""What a request or a call costs, in US dollars as exact decimals.

Models are priced by genai-prices, engines by `prices.toml`, both after the user's own file. The invariant: a price that
is not known is None, never 0, and asking for one never raises (but for a user's file that is wrong, once). Multiplying
prices and counts is exact: nothing here is a float.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any

from ipy_websearch.config import OFFLINE_MODEL
from ipy_websearch.price_file import PriceRow, built_in, users_own
from ipy_websearch.usage import Charge, Usage

__all__ = [
    "PriceRow",
    "Rates",
    "affordable_tokens",
    "caching_saved",
    "charge_cost",
    "model_cost",
    "price_table",
    "tariff",
    "worst_case",
]

UNBOUNDED_TOKENS = 2**31 - 1
"""What any money buys of a model that costs nothing."""

# Anthropic's own web search costs $10 for 1,000 with every model; web fetch is free, and a batch halves token prices
# only (https://platform.claude.com/docs/en/about-claude/pricing, read 2026-11).
_SERVER_SEARCH_USD = Decimal("0.01")
_CACHE_WRITE = Decimal("1.25")  # of the input price, by the same page
_NOTHING = Decimal(0)
_MILLION = Decimal(1_000_000)
_VERSION = re.compile(r"(-v\d+)?(:\d+)*(\[\w+\])?$")


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars for one token of each class and for one server search; None: unknown. They hold above `start` tokens."""

    start: int
    input: Decimal
    output: Decimal
    cache_read: Decimal | None
    cache_write_5m: Decimal | None
    cache_write_1h: Decimal | None
    server_search: Decimal = _SERVER_SEARCH_USD

    @property
    def dearest_input(self) -> Decimal:
        """What an input token costs at most: read for the first time, or written to the prompt cache for five minutes."""
        written = self.input * _CACHE_WRITE if self.cache_write_5m is None else self.cache_write_5m
        return max(self.input, written, self.cache_read or Decimal(0))


_looked_up: set[tuple[str, bool, date]] = set()
_Tariff = tuple[Rates, ...]  # by rising `start`; the whole request is billed at the last one its input passes


def model_cost(model: str, usage: Usage, *, batch: bool = False, at: datetime | None = None) -> Decimal | None:
    """Return what a request with this usage costs in US dollars, None when a price is unknown.

    `usage` must be that of one request: prices step up with its input. `model` may be an id of the Claude API, Bedrock or
    Vertex; the built-in "offline" model costs 0. `batch` is the Message Batches API, at half the price of tokens. `at` is
    when it was sent (None: now), since prices change.
    """
    rates = _rates(model, usage.total_input_tokens, batch, at)
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
    rates = _rates(model, usage.total_input_tokens, batch, at)
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
    server_searches: int = 0,
) -> Decimal | None:
    """Return the cost of a request that reads `input_tokens` and writes all of `max_tokens`; None: the price is unknown.

    The input counts at the plain price, with `caching` at that of a cache write where that is dearer (1.25 times).
    `server_searches` are the searches that the API itself may make.
    """
    rates = _rates(model, input_tokens, batch, None)
    if rates is None:
        return None
    each = rates.dearest_input if caching else rates.input
    return input_tokens * each + max_tokens * rates.output + server_searches * rates.server_search


def affordable_tokens(model: str, input_tokens: int, usd: Decimal, *, batch: bool = False) -> int | None:
    """Return how many output tokens `usd` buys after `input_tokens` at the plain price; 0 when not even those.

    None when the price is unknown. `worst_case` of the same input and that many tokens is never above `usd`.
    """
    rates = _rates(model, input_tokens, batch, None)
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


def tariff(model: str, *, batch: bool = False, at: datetime | None = None) -> tuple[Rates, ...]:
    """Return the prices of a model in force, by rising input; () when they are unknown."""
    if model == OFFLINE_MODEL:
        return (_FREE,)
    own = users_own().models.get(model.lower())
    return (_own_rates(own, batch),) if own else _tariff(model, batch, _utc_day(at))


def is_at_hand(model: str) -> bool:
    """Say whether a model's price was looked up today: the first time it takes 0.1 s."""
    return model == OFFLINE_MODEL or (model, False, _utc_day(None)) in _looked_up


def forget_prices() -> None:
    """Look model prices up again: genai-prices has newer ones."""
    _tariff.cache_clear()
    _looked_up.clear()


def _rates(model: str, input_tokens: int, batch: bool, at: datetime | None) -> Rates | None:
    steps = tariff(model, batch=batch, at=at)
    return next((rates for rates in reversed(steps) if input_tokens > rates.start), steps[0] if steps else None)


def _utc_day(at: datetime | None) -> date:
    at = at or datetime.now(UTC)
    return (at if at.tzinfo is None else at.astimezone(UTC)).date()


def _own_rates(prices: Mapping[str, Decimal], batch: bool) -> Rates:
    """Return the rates that a user's file states; a class of tokens it does not name costs what input costs."""
    divisor = _MILLION * (2 if batch else 1)
    names = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
    tokens = {name: prices.get(name, prices["input"]) / divisor for name in names}
    search = prices["server_search"] / 1000 if "server_search" in prices else _SERVER_SEARCH_USD
    return Rates(start=-1, server_search=search, **tokens)


@lru_cache(maxsize=1024)
def _tariff(model: str, batch: bool, day: date) -> _Tariff:
    """Return the tariff that genai-prices has for a model on a day, () when it has none."""
    found = _found(model, batch, day)
    _looked_up.add((model, batch, day))
    return found


def _found(model: str, batch: bool, day: date) -> _Tariff:
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    when = datetime.combine(day, time(12), UTC)
    for provider, name in _spellings(model):
        try:
            standard = calc_price(Counts(), name, provider_id=provider, genai_request_timestamp=when).model_price
            context = {"processing": "batch"} if batch else None
            price = calc_price(
                Counts(), name, provider_id=provider, genai_request_timestamp=when, price_context=context
            ).model_price
            # A model without batch prices of its own is billed half in a batch, as the pricing page says of all.
            halved = batch and price.output_mtok == standard.output_mtok
            return _from_table(price, Decimal(2) if halved else Decimal(1))
        except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError):
            continue  # not known there, or in a form that a later genai-prices may have: the next spelling, or unknown
    return ()


def _spellings(model: str) -> Iterator[tuple[str, str]]:
    """Yield (price list, id) to look under: Bedrock's ids carry a region and a version, Vertex's a date after "@"."""
    name = model.strip().lower().rsplit("/", 1)[-1]
    if "anthropic." in name:
        yield "aws", name
        name = name.rsplit("anthropic.", 1)[-1]
    if name.startswith("claude-"):
        yield "anthropic", name
        yield "anthropic", _VERSION.sub("", name).replace("@", "-")


def _from_table(price: Any, divisor: Decimal) -> _Tariff:
    """Return the tariff of a genai-prices `ModelPrice`, whose entries are dollars for a million, plain or in tiers."""
    names = {
        "input": price.input_mtok,
        "output": price.output_mtok,
        "cache_read": price.cache_read_mtok,
        "cache_write_5m": price.cache_write_mtok,
        "cache_write_1h": price.cache_write_1h_mtok,
    }
    if names["input"] is None or names["output"] is None:
        raise ValueError("a model without a price for input and output")
    starts = {tier.start for value in names.values() for tier in getattr(value, "tiers", ())}
    per_token = _MILLION * divisor
    searches = price.web_searches_kcount
    search = searches / 1000 if isinstance(searches, Decimal) else _SERVER_SEARCH_USD
    return tuple(
        Rates(
            start=start,
            server_search=search,
            **{name: None if value is None else _at(value, start) / per_token for name, value in names.items()},  # type: ignore[arg-type]
        )
        for start in sorted({-1, *starts})
    )


def _at(value: Any, start: int) -> Decimal:
    """Return the price in force above `start` tokens of input."""
    reached = [tier.price for tier in getattr(value, "tiers", ()) if tier.start <= start]
    return Decimal(reached[-1] if reached else getattr(value, "base", value))


_FREE = Rates(-1, Decimal(0), Decimal(0), Decimal(0), Decimal(0), Decimal(0), Decimal(0))
