"""The prices of models: what one token of each class costs, and how many tokens a model reads at most.

genai-prices has the list, `prices.toml` of the user comes before it. The invariant: a tariff that is not known is empty, and
looking it up never raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ipy_websearch.usage import USUAL, Terms

__all__ = ["FREE", "Rates", "Tariff", "context_window", "forget", "listed", "was_looked_up", "with_own"]

# Anthropic's own web search costs $10 for 1,000 with every model; web fetch is free, and a batch halves token prices
# only (https://platform.claude.com/docs/en/about-claude/pricing, read 2026-11).
_SERVER_SEARCH_USD = Decimal("0.01")
_CACHE_WRITE = Decimal("1.25")  # of the input price, by the same page, as the two that follow
_CACHE_WRITE_1H = Decimal(2)
_US_ONLY, _US_ONLY_FROM = Decimal("1.1"), (4, 6)  # of all prices of tokens, for models of that version and later ones
_MOST_READ = 1_000_000  # the largest context window that a model has
_MILLION = Decimal(1_000_000)
_VERSION = re.compile(r"(-v\d+)?(:\d+)*(\[\w+\])?$")
_NUMBER = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_TOKENS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")


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

    def dearest_input(self, *, hour: bool = False) -> Decimal:
        """Return what an input token costs at most: read for the first time, or written to the prompt cache.

        It is kept there for five minutes, or, with `hour`, for an hour.
        """
        written = self.input * _CACHE_WRITE if self.cache_write_5m is None else self.cache_write_5m
        longer = self.input * _CACHE_WRITE_1H if self.cache_write_1h is None else self.cache_write_1h
        return max(self.input, written, self.cache_read or Decimal(0), longer if hour else Decimal(0))

    def times(self, factor: Decimal) -> Rates:
        """Return the rates with all prices of tokens multiplied; searches cost the same on all terms."""
        known = [name for name in _TOKENS if getattr(self, name) is not None]
        prices: dict[str, Any] = {name: getattr(self, name) * factor for name in known}
        return replace(self, **prices)


Tariff = tuple[Rates, ...]  # by rising `start`; the whole request is billed at the last one its input passes
FREE = Rates(-1, Decimal(0), Decimal(0), Decimal(0), Decimal(0), Decimal(0), Decimal(0))
_looked_up: set[tuple[str, bool, date]] = set()


def with_own(prices: Mapping[str, Decimal], model: str, batch: bool, terms: Terms, day: date) -> Tariff:
    """Return the tariff that a user's file states; a class of tokens it does not name costs what input costs.

    It states usual prices: fast mode raises them as much as the list's own, where the list has the model.
    """
    divisor = _MILLION * (2 if batch else 1)
    tokens = {name: prices.get(name, prices["input"]) / divisor for name in _TOKENS}
    search = prices["server_search"] / 1000 if "server_search" in prices else _SERVER_SEARCH_USD
    rates = Rates(start=-1, server_search=search, **tokens)
    if terms.fast and (usual := listed(model, batch, USUAL, day)) and (fast := listed(model, batch, Terms(fast=True), day)):
        rates = rates.times(fast[0].output / usual[0].output if usual[0].output else Decimal(1))
    return (rates.times(_US_ONLY),) if terms.us_only and _bills_geography(model) else (rates,)


@lru_cache(maxsize=1024)
def listed(model: str, batch: bool, terms: Terms, day: date) -> Tariff:
    """Return the tariff that genai-prices has for a model on a day, () when it has none on these terms."""
    found = _found(model, batch, terms.fast, day)
    _looked_up.add((model, batch, day))
    return tuple(rates.times(_US_ONLY) for rates in found) if terms.us_only and _bills_geography(model) else found


@lru_cache(maxsize=256)
def context_window(model: str) -> int:
    """Return the most tokens that a model reads at once; where that is not known, what the largest models read."""
    if model.strip().lower().endswith("[1m]"):
        return _MOST_READ
    for provider, name in _spellings(model):
        try:
            if window := _calculated(provider, name, datetime.now(UTC), {}).model.context_window:
                return int(window)
        except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError):
            continue
    return _MOST_READ


def was_looked_up(model: str, day: date) -> bool:
    """Say whether a model's usual tariff was looked up: the first time it takes 0.1 s."""
    return (model, False, day) in _looked_up


def forget() -> None:
    """Look all of it up again: genai-prices has newer figures."""
    listed.cache_clear()
    context_window.cache_clear()
    _looked_up.clear()


def _bills_geography(model: str) -> bool:
    number = _NUMBER.search(model.lower())
    return number is not None and (int(number[1]), int(number[2] or 0)) >= _US_ONLY_FROM


def _calculated(provider: str, name: str, when: datetime, context: dict[str, str]) -> Any:
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    return calc_price(Counts(), name, provider_id=provider, genai_request_timestamp=when, price_context=context or None)


def _found(model: str, batch: bool, fast: bool, day: date) -> Tariff:
    when = datetime.combine(day, time(12), UTC)
    context = {"processing": "batch"} if batch else {"speed": "fast"} if fast else {}
    for provider, name in _spellings(model):
        try:
            standard = _calculated(provider, name, when, {}).model_price
            price = _calculated(provider, name, when, context).model_price
            as_usual = price.output_mtok == standard.output_mtok
            if as_usual and fast and not batch:
                continue  # fast mode is never had at the usual price: what it costs is not known here
            # A model without batch prices of its own is billed half in a batch, as the pricing page says of all.
            return _from_table(price, Decimal(2) if batch and as_usual else Decimal(1))
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


def _from_table(price: Any, divisor: Decimal) -> Tariff:
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
