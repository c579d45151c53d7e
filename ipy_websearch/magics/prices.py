"""What `%websearch prices` says: what models and engines would be charged at, by whose word, and how old that is."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from ipy_websearch.display.money import count
from ipy_websearch.model.names import model_id
from ipy_websearch.price_file import FILE_NAME, users_own
from ipy_websearch.price_update import PriceSource, price_source, update_model_prices
from ipy_websearch.pricing import PriceRow, Rates, price_table, tariff
from ipy_websearch.settings import settings_dir

OWN = "* your own price"
_MILLION = 1_000_000
_CLASSES = (
    ("input", "input"),
    ("output", "output"),
    ("cache_read", "cache read"),
    ("cache_write_5m", "cache write 5 min"),
    ("cache_write_1h", "1 h"),
)


def price_lines(session: Any, *, update: bool = False, today: date | None = None) -> list[str]:
    """Return the lines; with `update`, the models' prices are fetched anew first.

    Raises:
        ConfigError: the user's own price file is wrong. ProviderError: newer prices could not be had.
    """
    today = today or datetime.now(UTC).date()
    rows = price_table()
    source = update_model_prices() if update else price_source()
    lines = ["Models, US dollars for a million tokens", *_models(session)]
    lines += [f"  source: {_source(source, today)}"]
    lines += ["", "Engines, US dollars for one unit (what an answer itself reports wins over this)"]
    lines += [line for row in rows for line in _engine(row, today)]
    path = settings_dir() / FILE_NAME
    own = f"{OWN}, from {path}" if users_own().rows or users_own().models else f"Prices of your own go into {path}"
    return [*lines, "", own, *([] if update else ["Newer model prices: %websearch prices --update"])]


def _models(session: Any) -> list[str]:
    """Return the lines of the models that the settings name, of those used in this session, and of the user's own."""
    used = session.cost(by="model")["model"]
    named = [model_id(session.settings.model), model_id(session.settings.enrich_model)]
    names = dict.fromkeys([*named, *(name for name in used if not name.startswith("(")), *users_own().models])
    lines = []
    for name in names:
        mark = "*" if name.lower() in users_own().models else " "
        steps = tariff(name)
        if not steps:
            lines.append(f"{mark} {name}   unknown: no ceiling can be kept with it")
        lines += [f"{mark} {name}   {_rates(step)}" for step in steps]
    return lines


def _rates(rates: Rates) -> str:
    known = [(label, getattr(rates, name)) for name, label in _CLASSES]
    parts = [f"{label} {'unknown' if rate is None else _number(rate * _MILLION)}" for label, rate in known]
    above = f"   (requests above {rates.start:,} input tokens)" if rates.start >= 0 else ""
    return f"{', '.join(parts)}; native search {_number(rates.server_search)} each{above}"


def _engine(row: PriceRow, today: date) -> list[str]:
    mark = "*" if (row.provider, row.kind, row.unit) in users_own().rows else " "
    kind = "any call" if row.kind == "*" else row.kind
    first = f"{mark} {row.provider:<11} {kind:<9} {_number(row.usd):>8} a {row.unit:<8} {row.plan}"
    told = "   ".join(filter(None, (row.source, _dated(row.date, today))))
    return [first.rstrip(), *([f"{'':13}{told}"] if told else [])]


def _source(source: PriceSource, today: date) -> str:
    how = "fetched" if source.updated else "installed"
    return f"genai-prices {source.version}, {how} {source.day} ({_age(source.day, today)})"


def _dated(text: str, today: date) -> str:
    """Return a row's date with its age; the row may name a month only."""
    try:
        day = date.fromisoformat(text if len(text) > 7 else f"{text}-01")
    except ValueError:
        return text
    return f"{text} ({_age(day, today)})"


def _age(day: date, today: date) -> str:
    days = max(0, (today - day).days)
    return "today" if days == 0 else f"{count(days, 'day')} old" if days < 62 else f"{days // 30} months old"


def _number(amount: Decimal) -> str:
    """Return an amount without zeros at its end and without an exponent."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
