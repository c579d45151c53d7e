"""What a model request or a call to a provider costs, in US dollars as exact decimals.

Models are priced by genai-prices, providers by `prices.toml` beside this file; the user's own `prices.toml` in the settings
folder comes before both. An unknown price is None, never 0. No float takes part.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache, lru_cache
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.keys import base_url
from ipy_websearch.settings import OFFLINE_MODEL, did_you_mean, settings_dir
from ipy_websearch.text import plain, shorten
from ipy_websearch.usage import USUAL, Charge, Terms, Usage

FILE_NAME = "prices.toml"
KINDS = ("search", "fetch", "context", "map", "*")
PRICE_LIST = "https://raw.githubusercontent.com/pydantic/genai-prices/refs/heads/main"
PRICE_LIST_PATH = "/prices/new_data/v2/data.json"  # as in genai_prices.update_prices 0.2.3

# Anthropic's own web search costs $10 for 1,000 with every model and web fetch is free. A batch halves the price of tokens
# only. Cache writes cost 1.25 times the input price, 2 times for an hour. Inference in the US alone costs 1.1 times as much
# from version 4.6 on (https://platform.claude.com/docs/en/about-claude/pricing, read 2026-11).
_SERVER_SEARCH_USD = Decimal("0.01")
_CACHE_WRITE, _CACHE_WRITE_1H = Decimal("1.25"), Decimal(2)
_US_ONLY, _US_ONLY_FROM = Decimal("1.1"), (4, 6)
_MILLION = Decimal(1_000_000)
_NOTHING = Decimal(0)

_TOKENS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
_VERSION = re.compile(r"(-v\d+)?(:\d+)*(\[\w+\])?$")
_NUMBER = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_DATE = re.compile(r"[-@](\d{8})$")


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars for one token of each class and for one server search; None: unknown. They hold above `start` input tokens."""

    start: int
    input: Decimal
    output: Decimal
    cache_read: Decimal | None
    cache_write_5m: Decimal | None
    cache_write_1h: Decimal | None
    server_search: Decimal = _SERVER_SEARCH_USD

    def dearest_input(self, *, hour: bool = False) -> Decimal:
        """Return the highest price of an input token: read, or written to the prompt cache (with `hour`, for an hour)."""
        written = self.input * _CACHE_WRITE if self.cache_write_5m is None else self.cache_write_5m
        longer = self.input * _CACHE_WRITE_1H if self.cache_write_1h is None else self.cache_write_1h
        return max(self.input, written, self.cache_read or _NOTHING, longer if hour else _NOTHING)

    def times(self, factor: Decimal) -> Rates:
        """Return the rates with all token prices multiplied; a search costs the same on all terms."""
        known: dict[str, Any] = {n: getattr(self, n) * factor for n in _TOKENS if getattr(self, n) is not None}
        return replace(self, **known)


_FREE = (Rates(-1, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING),)


# --- what things cost ---------------------------------------------------------------------------------------------------


def tariff(model: str, *, batch: bool = False, at: datetime | None = None, terms: Terms = USUAL) -> tuple[Rates, ...]:
    """Return a model's rates by rising input size, () when its price is unknown. `at` is when it was sent (None: now)."""
    if model == OFFLINE_MODEL:
        return _FREE
    day = _utc_day(at)
    own = own_prices().models.get(model.lower())
    return _own_tariff(own, model, batch, terms, day) if own else _listed(model, batch, terms, day)


def model_cost(model: str, usage: Usage, *, batch: bool = False, at: datetime | None = None) -> Decimal | None:
    """Return what one request with this usage costs, None when a price is unknown.

    `model` is an id of the Claude API, Bedrock or Vertex. `batch` is the Message Batches API. A sum of several requests has no
    price: rates step up with the input of each.
    """
    rates = _rates(model, usage.total_input_tokens, batch, at, usage.terms)
    if rates is None:
        return None
    total = usage.server_searches * rates.server_search
    for name in _TOKENS:
        if count := getattr(usage, f"{name}_tokens"):
            if (rate := getattr(rates, name)) is None:
                return None
            total += count * rate
    return total


def caching_saved(model: str, usage: Usage, *, at: datetime | None = None) -> Decimal | None:
    """Return what reads from the prompt cache saved against the plain input price, None when a price is unknown."""
    if not usage.cache_read_tokens:
        return _NOTHING
    rates = _rates(model, usage.total_input_tokens, False, at, usage.terms)
    if rates is None or rates.cache_read is None:
        return None
    return usage.cache_read_tokens * (rates.input - rates.cache_read)


def worst_case(
    model: str,
    input_tokens: int,
    max_tokens: int,
    *,
    batch: bool = False,
    caching: bool = True,
    hour_cache: bool = False,
    server_searches: int = 0,
    terms: Terms = USUAL,
) -> Decimal | None:
    """Return the most that a request costs which reads `input_tokens` and writes `max_tokens`; None: the price is unknown.

    With `caching`, input counts at the price of a cache write where that is higher. `server_searches` are the searches that the
    API may make by itself.
    """
    rates = _rates(model, input_tokens, batch, None, terms)
    if rates is None:
        return None
    each = rates.dearest_input(hour=hour_cache) if caching else rates.input
    return input_tokens * each + max_tokens * rates.output + server_searches * rates.server_search


def charge_cost(charge: Charge) -> Decimal | None:
    """Return what a call costs: 0 when cached, else what its answer reported, else by the table (None: unknown)."""
    if charge.cached:
        return _NOTHING
    if charge.usd is not None:
        return charge.usd
    for table in (own_prices(), built_in_prices()):
        for kind in (charge.kind, "*"):
            if price := table.rows.get((charge.provider.lower(), kind, charge.unit)):
                return charge.units * price.usd
    return None


def charges_cost(charges: Iterable[Charge]) -> Decimal | None:
    """Return what calls cost together, None when one of them has no known price."""
    total = _NOTHING
    for charge in charges:
        if (cost := charge_cost(charge)) is None:
            return None
        total += cost
    return total


def billed_model(asked: str, answered: str) -> str:
    """Return the id that a request is priced by, given the id it asked for and the id that its reply names.

    The reply's id counts, since a server may fall back to another model. The id asked for counts where only that has a price,
    or where it says more of the same model: Bedrock's regions have prices of their own, and its replies do not name them.

    >>> billed_model("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929")
    'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
    """
    if not answered or answered == asked:
        return asked
    return _same_model(asked, answered) or (answered if tariff(answered) or not tariff(asked) else asked)


@lru_cache(maxsize=256)
def _same_model(asked: str, answered: str) -> str:
    """Return the more specific of two ids of the same model, "" for ids of two models."""
    dated = _DATE.search(answered)
    bare, whole = answered[: dated.start() if dated else None].lower(), asked.lower()
    if whole == bare:
        return answered
    day = dated[1] if dated else r"\d{8}"
    return asked if re.search(rf"(?:^|[./]){re.escape(bare)}(?:[-@]{day})?(?:-v\d+)?(?:[:\[].*)?$", whole) else ""


def is_at_hand(model: str) -> bool:
    """Say whether a model's price was looked up today: the first time takes 0.1 s."""
    return model == OFFLINE_MODEL or (model, _utc_day(None)) in _looked_up


# --- the price list of models -------------------------------------------------------------------------------------------

# genai-prices raises these for what it does not list, and a later release may have another form.
_UNLISTED = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError)
_looked_up: set[tuple[str, date]] = set()


def _rates(model: str, input_tokens: int, batch: bool, at: datetime | None, terms: Terms) -> Rates | None:
    steps = tariff(model, batch=batch, at=at, terms=terms)
    return next((rates for rates in reversed(steps) if input_tokens > rates.start), steps[0] if steps else None)


@lru_cache(maxsize=1024)
def _listed(model: str, batch: bool, terms: Terms, day: date) -> tuple[Rates, ...]:
    found = _found(model, batch, terms.fast, datetime.combine(day, time(12), UTC))
    _looked_up.add((model, day))
    return tuple(rates.times(_US_ONLY) for rates in found) if terms.us_only and _bills_geography(model) else found


def _found(model: str, batch: bool, fast: bool, when: datetime) -> tuple[Rates, ...]:
    context = {"processing": "batch"} if batch else {"speed": "fast"} if fast else {}
    for provider, name in _spellings(model):
        try:
            standard = _listed_price(provider, name, when, {}).model_price
            price = _listed_price(provider, name, when, context).model_price
            as_usual = price.output_mtok == standard.output_mtok
            if as_usual and fast and not batch:
                continue  # fast mode always costs more: its price is not listed
            # A model without batch prices of its own costs half in a batch, by the pricing page.
            return _steps(price, _MILLION * (2 if batch and as_usual else 1))
        except _UNLISTED:
            continue
    return ()


def _own_tariff(own: Mapping[str, Any], model: str, batch: bool, terms: Terms, day: date) -> tuple[Rates, ...]:
    """Return the tariff of the user's file, which states usual prices: fast mode raises them as much as the list's."""
    divisor = _MILLION * (2 if batch else 1)
    tokens = {name: own.get(name, own["input"]) / divisor for name in _TOKENS}
    search = own["server_search"] / 1000 if "server_search" in own else _SERVER_SEARCH_USD
    rates = Rates(start=-1, server_search=search, **tokens)
    if terms.fast and (usual := _listed(model, batch, USUAL, day)) and (fast := _listed(model, batch, Terms(fast=True), day)):
        rates = rates.times(fast[0].output / usual[0].output if usual[0].output else Decimal(1))
    return (rates.times(_US_ONLY),) if terms.us_only and _bills_geography(model) else (rates,)


def _bills_geography(model: str) -> bool:
    number = _NUMBER.search(model.lower())
    return number is not None and (int(number[1]), int(number[2] or 0)) >= _US_ONLY_FROM


def _listed_price(provider: str, name: str, when: datetime, context: dict[str, str]) -> Any:
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    return calc_price(Counts(), name, provider_id=provider, genai_request_timestamp=when, price_context=context or None)


def _spellings(model: str) -> Iterator[tuple[str, str]]:
    """Yield (price list, id) to look under: Bedrock's ids carry a region and a version, Vertex's a date after "@"."""
    name = model.strip().lower().rsplit("/", 1)[-1]
    if "anthropic." in name:
        yield "aws", name
        name = name.rsplit("anthropic.", 1)[-1]
    if name.startswith("claude-"):
        yield "anthropic", name
        yield "anthropic", _VERSION.sub("", name).replace("@", "-")


def _steps(price: Any, per: Decimal) -> tuple[Rates, ...]:
    """Return the tariff of a genai-prices `ModelPrice`, whose entries are plain or in tiers by the size of the input."""
    prices = {
        "input": price.input_mtok,
        "output": price.output_mtok,
        "cache_read": price.cache_read_mtok,
        "cache_write_5m": price.cache_write_mtok,
        "cache_write_1h": price.cache_write_1h_mtok,
    }
    if prices["input"] is None or prices["output"] is None:
        raise ValueError("a model without a price for input and output")
    starts = {tier.start for value in prices.values() for tier in getattr(value, "tiers", ())}
    searches = price.web_searches_kcount

    def at(value: Any, start: int) -> Any:
        reached = [tier.price for tier in getattr(value, "tiers", ()) if tier.start <= start]
        return None if value is None else Decimal(reached[-1] if reached else getattr(value, "base", value)) / per

    search = searches / 1000 if isinstance(searches, Decimal) else _SERVER_SEARCH_USD
    return tuple(
        Rates(start=start, server_search=search, **{name: at(value, start) for name, value in prices.items()})
        for start in sorted({-1, *starts})
    )


def _utc_day(at: datetime | None) -> date:
    at = at or datetime.now(UTC)
    return (at if at.tzinfo is None else at.astimezone(UTC)).date()


@dataclass(frozen=True, slots=True)
class PriceSource:
    """The version of genai-prices and the day its prices came to this machine; `updated`: fetched since then."""

    version: str
    day: date
    updated: bool


def price_source() -> PriceSource:
    """Return where the models' prices in force come from."""
    from genai_prices.data_snapshot import get_snapshot

    package, snapshot = distribution("genai-prices"), get_snapshot()
    if snapshot.from_auto_update:
        return PriceSource(package.version, snapshot.timestamp.date(), True)
    metadata = [Path(str(file.locate())) for file in package.files or () if file.name == "METADATA"]
    installed = max((file.stat().st_mtime for file in metadata if file.exists()), default=0.0)
    return PriceSource(package.version, datetime.fromtimestamp(installed, UTC).date(), False)


def update_model_prices() -> PriceSource:
    """Fetch the newest prices of genai-prices and use them until the kernel ends; return where they come from.

    `GENAI_PRICES_BASE_URL` stands for scheme, host and prefix of the address.

    Raises:
        ProviderError: they could not be fetched; the earlier prices stay in force.
    """
    from genai_prices import UpdatePrices
    from genai_prices.data_snapshot import set_custom_snapshot

    address = base_url("GENAI_PRICES_BASE_URL", PRICE_LIST)
    try:
        snapshot = UpdatePrices(url=address + PRICE_LIST_PATH).fetch()
    except Exception as exc:  # network, status, JSON, and whatever a later form of the data brings
        reason = shorten(plain(str(exc)).splitlines()[0] if str(exc) else type(exc).__name__, 160)
        text = f"newer model prices could not be fetched from {address}: {reason}; the earlier prices stay in force"
        raise ProviderError(text, provider="genai-prices") from exc
    if snapshot is not None:
        set_custom_snapshot(snapshot)
        forget_prices()
    return price_source()


def forget_prices() -> None:
    """Look all prices up again: genai-prices has newer ones, or the user's file is to be read again."""
    for cached in (_listed, _read_own):
        cached.cache_clear()
    _looked_up.clear()


# --- the price files ----------------------------------------------------------------------------------------------------

_TEXTS, _NOTES = ("provider", "kind", "unit"), ("plan", "source", "date")
_MODEL_RATES = (*_TOKENS, "server_search")


@dataclass(frozen=True, slots=True)
class PriceRow:
    """US dollars for one `unit` of a call of that `kind` ("*": any) to a provider, with the plan, the source and its date."""

    provider: str
    kind: str
    unit: str
    usd: Decimal
    plan: str = ""
    source: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class PriceFile:
    """The rows of a file by (provider, kind, unit); its models' prices by id, in US dollars for a million tokens."""

    rows: Mapping[tuple[str, str, str], PriceRow] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@cache
def built_in_prices() -> PriceFile:
    """Return the prices that come with the package."""
    return parse_prices((files("ipy_websearch.money") / FILE_NAME).read_text(encoding="utf-8"), FILE_NAME)


def own_prices() -> PriceFile:
    """Return the user's own prices, empty without a file. The file is read once in a process.

    Raises:
        ConfigError: the file is wrong; the message names the line or the field.
    """
    return _read_own(*map(os.environ.get, ("IPY_WEBSEARCH_HOME", "HOME", "XDG_CONFIG_HOME")))


@lru_cache(maxsize=16)
def _read_own(*_place: str | None) -> PriceFile:
    path = settings_dir() / FILE_NAME
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return PriceFile()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"the price file {path} cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
    return parse_prices(text, str(path))


def price_table() -> list[PriceRow]:
    """Return the providers' prices in force, the user's own in place of those they override.

    Raises:
        ConfigError: the user's price file is wrong.
    """
    return list({**built_in_prices().rows, **own_prices().rows}.values())


def parse_prices(text: str, name: str) -> PriceFile:
    """Return the prices in a TOML text; messages call the file `name`.

    Raises:
        ConfigError: it is not TOML (the line is named), or an entry is wrong (the field is named).
    """
    try:
        content = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise ConfigError(f"the price file {name} is not TOML: {exc}") from exc
    for key in content:
        if key not in ("price", "model"):
            raise ConfigError(f"{name}: there is no section {key!r}; the sections are [[price]] and [[model]]")
    rows = [PriceRow(**entry) for entry in _entries(content, "price", name, _TEXTS, ("usd",))]
    for row in rows:
        if row.kind not in KINDS:
            raise ConfigError(f"{name}: kind is {row.kind!r}; it must be one of {', '.join(KINDS)}")
    models = _entries(content, "model", name, ("id",), ("input", "output"), _MODEL_RATES[2:])
    return PriceFile({(row.provider, row.kind, row.unit): row for row in rows}, {entry["id"]: entry for entry in models})


def _entries(
    content: Mapping[str, Any],
    section: str,
    name: str,
    texts: Sequence[str],
    amounts: Sequence[str],
    optional: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the entries of a section, each with its texts, its amounts, those optional ones that it has, and its notes."""
    entries = content.get(section, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(f"{name}: write [[{section}]], with two brackets, above each entry")
    known = (*texts, *amounts, *optional, *_NOTES)
    checked = []
    for n, entry in enumerate(entries, 1):
        where = f"{name}, [[{section}]] number {n}"
        for key in entry:
            if key not in known:
                raise ConfigError(f"{where}: there is no field {key!r}{did_you_mean(key, known)}; fields: {', '.join(known)}")
        values: dict[str, Any] = {key: _text(entry, key, where) for key in texts}
        values |= {key: _amount(entry, key, where) for key in (*amounts, *optional) if key in entry or key in amounts}
        checked.append(values | {key: str(entry.get(key, "")) for key in _NOTES})
    return checked


def _text(entry: Mapping[str, Any], name: str, where: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f'{where}: {name} is {_shown(value)}; it must be a text such as {name} = "…"')
    return value.strip().lower()


def _amount(entry: Mapping[str, Any], name: str, where: str) -> Decimal:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not Decimal(value).is_finite() or value < 0:
        raise ConfigError(f"{where}: {name} is {_shown(value)}; it must be an amount of US dollars such as 0.005")
    return Decimal(value)


def _shown(value: Any) -> str:
    return "missing" if value is None else value.isoformat() if isinstance(value, date) else repr(str(value)[:80])
