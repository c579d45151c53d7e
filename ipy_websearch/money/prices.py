"""What a model request or a call to a provider costs, in US dollars as exact decimals.

Models are priced by genai-prices, providers by `prices.toml` beside this file; the user's own `prices.toml` in the settings
folder comes before both. An unknown price is None, never 0. No float takes part.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Any, ClassVar, Literal

from ipy_websearch.errors import ConfigError
from ipy_websearch.results import Charge, Terms, Usage
from ipy_websearch.settings import OFFLINE_MODEL, settings_dir
from ipy_websearch.text import shorten

FILE_NAME = "prices.toml"

# Anthropic's own web search costs $10 for 1,000 with every model and web fetch is free. A batch halves the price of all
# tokens, and of nothing else. Cache writes cost 1.25 times the input price, 2 times for an hour. Inference in the US alone
# costs 1.1 times as much from version 4.6 on (https://platform.claude.com/docs/en/about-claude/pricing, read 2026-11).
_SERVER_SEARCH_USD = Decimal("0.01")
_CACHE_WRITE, _CACHE_WRITE_1H = Decimal("1.25"), Decimal(2)
_BATCH, _US_ONLY, _US_ONLY_FROM = Decimal("0.5"), Decimal("1.1"), (4, 6)
_MILLION = Decimal(1_000_000)
_NOTHING = Decimal(0)

_TOKENS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
_VERSION = re.compile(r"(-v\d+)?(:\d+)*(\[\w+\])?$")
_NUMBER = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_DATE = re.compile(r"[-@](\d{8})$")


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars for one token of each class and for one server search. They hold above `start` input tokens."""

    start: int
    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    server_search: Decimal = _SERVER_SEARCH_USD

    def times(self, factor: Decimal | int) -> Rates:
        """Return the rates with all token prices multiplied; a search costs the same on all terms."""
        return replace(self, **{name: getattr(self, name) * factor for name in _TOKENS})


_FREE = (Rates(-1, *[_NOTHING] * 6),)


# --- what things cost ---------------------------------------------------------------------------------------------------


def tariff(model: str, *, batch: bool = False, at: datetime | None = None, terms: Terms = frozenset()) -> tuple[Rates, ...]:
    """Return a model's rates by rising input size, () when its price is unknown. `at` is when it was sent (None: now)."""
    if model == OFFLINE_MODEL:
        return _FREE
    own = own_price(model)
    fast = "fast" in terms and not batch  # a batch has no fast mode, and the user's file states usual prices
    found = (_own_rates(own),) if own and not fast else _listed(model, fast, (at or datetime.now(UTC)).astimezone(UTC).date())
    number = _NUMBER.search(model.lower())
    dearer = "us_only" in terms and number is not None and (int(number[1]), int(number[2] or 0)) >= _US_ONLY_FROM
    factor = (_BATCH if batch else 1) * (_US_ONLY if dearer else 1)
    return found if factor == 1 else tuple(rates.times(factor) for rates in found)


def own_price(model: str) -> ModelPrice | None:
    """Return what the user's file says of a model, None when it says nothing."""
    return next((price for price in reversed(own_prices().model) if price.id.lower() == model.lower()), None)


def model_cost(model: str, usage: Usage, *, batch: bool = False, at: datetime | None = None) -> Decimal | None:
    """Return what one request with this usage costs, None when its price is unknown.

    `model` is an id of the Claude API, Bedrock or Vertex. `batch` is the Message Batches API. A sum of several requests has no
    price: rates step up with the input of each.
    """
    rates = _rates(tariff(model, batch=batch, at=at, terms=usage.terms), usage.total_input_tokens)
    if rates is None:
        return None
    tokens = sum((getattr(usage, f"{name}_tokens") * getattr(rates, name) for name in _TOKENS), _NOTHING)
    return tokens + usage.server_searches * rates.server_search


def caching_saved(model: str, usage: Usage, *, batch: bool = False) -> Decimal | None:
    """Return what a request would have cost without a prompt cache, less what it costs; None when its price is unknown.

    Writing to the cache costs more than plain input, so that a request that only writes has saved less than nothing.
    """
    uncached = replace(
        usage,
        input_tokens=usage.total_input_tokens,
        cache_read_tokens=0,
        cache_write_5m_tokens=0,
        cache_write_1h_tokens=0,
    )
    plain, paid = (model_cost(model, used, batch=batch) for used in (uncached, usage))
    return None if plain is None or paid is None else plain - paid


def worst_case(
    model: str,
    input_tokens: int,
    max_tokens: int,
    *,
    batch: bool = False,
    hour_cache: bool = False,
    server_searches: int = 0,
    terms: Terms = frozenset(),
) -> Decimal | None:
    """Return the most that a request costs which reads `input_tokens` and writes `max_tokens`; None: the price is unknown.

    Input counts at the price of a cache write where that is higher. `server_searches` are the searches that the
    API may make by itself.
    """
    rates = _rates(tariff(model, batch=batch, terms=terms), input_tokens)
    if rates is None:
        return None
    written = rates.cache_write_1h if hour_cache else rates.cache_write_5m
    return (
        input_tokens * max(rates.input, rates.cache_read, written)
        + max_tokens * rates.output
        + server_searches * rates.server_search
    )


def charge_cost(charge: Charge) -> Decimal | None:
    """Return what a call costs: 0 when cached, else what its answer reported, else by the table (None: unknown)."""
    if charge.cached:
        return _NOTHING
    if charge.usd is not None:
        return charge.usd
    kinds = [(charge.provider.lower(), kind, charge.unit) for kind in (charge.kind, "*")]
    found = (table.rows.get(kind) for table in (own_prices(), built_in_prices()) for kind in kinds)
    price = next(filter(None, found), None)
    return None if price is None else charge.units * price.usd


def charges_cost(charges: Iterable[Charge]) -> Decimal | None:
    """Return what calls cost together, None when one of them has no known price."""
    return add_money(*map(charge_cost, charges))


def add_money(*amounts: Decimal | None) -> Decimal | None:
    """Return the sum; what is unknown stays unknown."""
    return None if None in amounts else sum(filter(None, amounts), _NOTHING)


def billed_model(asked: str, answered: str) -> str:
    """Return the id that a request is priced by, given the id it asked for and the id that its reply names.

    The reply's id counts, since a server may fall back to another model. The id asked for counts where only that has a price,
    and where it is Bedrock's id of the same model, whose regions have prices of their own, or one that the user's file prices
    ("my-gateway/claude-sonnet-5-5"): replies name neither.

    >>> billed_model("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929")
    'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
    """
    if tariff(asked) and not tariff(answered):
        return asked
    priced_apart = "anthropic." in asked or own_price(asked) is not None
    return asked if priced_apart and _plain(asked) == _plain(answered) else answered or asked


def _plain(model: str) -> str:
    """Return an id of Bedrock, a gateway or the Claude API without what stands in front of the name, date and version."""
    return _DATE.sub("", _VERSION.sub("", re.split(r"anthropic\.|/", model.lower())[-1]))


# --- the price list of models -------------------------------------------------------------------------------------------

# genai-prices raises these for what it does not list, and a later release may have another form.
_UNLISTED = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError)


def _rates(steps: tuple[Rates, ...], input_tokens: int) -> Rates | None:
    return next((rates for rates in reversed(steps) if input_tokens > rates.start), steps[0] if steps else None)


@lru_cache(maxsize=1024)
def _listed(model: str, fast: bool, day: date) -> tuple[Rates, ...]:
    from genai_prices import Usage as Counts, calc_price

    when = datetime.combine(day, time(12), UTC)
    for provider, name in _spellings(model):
        with suppress(*_UNLISTED):
            usual, price = (
                calc_price(
                    Counts(), name, provider_id=provider, genai_request_timestamp=when, price_context=context
                ).model_price
                for context in (None, {"speed": "fast"} if fast else None)
            )
            if not fast or price.output_mtok != usual.output_mtok:  # fast mode always costs more, where its price is listed
                return _steps(price)
    return ()


def _own_rates(own: ModelPrice) -> Rates:
    """Return the rates of the user's file."""
    amounts = [own.input if (usd := getattr(own, name)) is None else usd for name in _TOKENS]
    return Rates(-1, *(usd / _MILLION for usd in (*amounts, own.server_search * 1000)))


def _spellings(model: str) -> Iterator[tuple[str, str]]:
    """Yield (price list, id) to look under: Bedrock's ids carry a region and a version, Vertex's a date after "@"."""
    name = model.strip().lower().rsplit("/", 1)[-1]
    if "anthropic." in name:
        yield "aws", name
        name = name.rsplit("anthropic.", 1)[-1]
    if name.startswith("claude-"):
        yield "anthropic", name
        yield "anthropic", _VERSION.sub("", name).replace("@", "-")


def _steps(price: Any) -> tuple[Rates, ...]:
    """Return the tariff of a genai-prices `ModelPrice`, whose entries are plain or in tiers by the size of the input."""
    entries = [getattr(price, f"{name}_mtok") for name in ("input", "output", "cache_read", "cache_write", "cache_write_1h")]
    search = price.web_searches_kcount / 1000 if isinstance(price.web_searches_kcount, Decimal) else _SERVER_SEARCH_USD

    def rates(start: int) -> Rates:
        read, written, cache_read, cache_write, hour = (_at(entry, start) for entry in entries)
        if read is None or written is None:
            raise ValueError("a model without a price for input and output")
        # The oldest models lack some; the page's rule for writes holds, and a read costs no more than plain input.
        short, long = cache_write or read * _CACHE_WRITE, hour or read * _CACHE_WRITE_1H
        return Rates(start, read, written, cache_read or read, short, long, search)

    return tuple(map(rates, sorted({-1, *(tier.start for entry in entries for tier in getattr(entry, "tiers", ()))})))


def _at(entry: Any, start: int) -> Decimal | None:
    """Return the price of one token above `start` input tokens, None where the list has none."""
    reached = [tier.price for tier in getattr(entry, "tiers", ()) if tier.start <= start]
    return None if entry is None else Decimal(reached[-1] if reached else getattr(entry, "base", entry)) / _MILLION


# --- the price files ----------------------------------------------------------------------------------------------------

# How pydantic reads an entry: `plan = 2` is a text; `date` may also be a date of TOML.
_ENTRY = {"extra": "forbid", "str_strip_whitespace": True, "coerce_numbers_to_str": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What all entries of a price file have: the plan, the source and its date. An amount has bounds: with a negative one,
    budgets would stop nothing."""

    plan: str = ""
    source: str = ""
    date: Any = ""
    __pydantic_config__: ClassVar[Any] = _ENTRY

    def __post_init__(self) -> None:
        for amount in (getattr(self, each.name) for each in fields(self)):
            if isinstance(amount, Decimal) and not 0 <= amount <= _MILLION:
                raise ValueError(f"{amount} US dollars are less than nothing, or more than a million")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow(Entry):
    """US dollars for one `unit` of a call of that `kind` ("*": any) to a provider."""

    provider: str
    kind: Literal["search", "fetch", "context", "map", "*"]
    unit: str
    usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice(Entry):
    """US dollars for a million tokens of each class (None: as input), and for a thousand of Anthropic's own searches."""

    id: str
    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    server_search: Decimal = _SERVER_SEARCH_USD * 1000


@dataclass(frozen=True)
class PriceFile:
    """The entries of a price file."""

    price: tuple[PriceRow, ...] = ()
    model: tuple[ModelPrice, ...] = ()
    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    @cached_property
    def rows(self) -> dict[tuple[str, str, str], PriceRow]:
        """The prices of providers by (provider, kind, unit)."""
        return {(row.provider.lower(), row.kind, row.unit.lower()): row for row in self.price}


@cache
def built_in_prices() -> PriceFile:
    """Return the prices that come with the package."""
    text = (files("ipy_websearch.money") / FILE_NAME).read_text(encoding="utf-8")
    return PriceFile(tuple(PriceRow(**entry) for entry in tomllib.loads(text, parse_float=Decimal)["price"]))


@cache
def own_prices() -> PriceFile:
    """Return the user's own prices, empty without a file. The file is read once in a process.

    Raises:
        ConfigError: the file is wrong; the message names the line or the field.
    """
    path = settings_dir() / FILE_NAME
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8-sig"), parse_float=Decimal)
    except (FileNotFoundError, NotADirectoryError):  # the ledger says so where a folder cannot be made
        return PriceFile()
    except (OSError, ValueError, RecursionError) as exc:  # no text and no TOML included
        raise ConfigError(f"the price file {path} cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(PriceFile).validate_python(entries)
    except ValidationError as exc:
        wrong = exc.errors()[0]
        where = ".".join(str(part + 1 if isinstance(part, int) else part) for part in wrong["loc"])
        raise ConfigError(f"the price file {path}: {where}: {wrong['msg']}, not {shorten(repr(wrong['input']), 80)}") from exc
