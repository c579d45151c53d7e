"""Checks what callers give for texts, limits, money, moments and domains, before anything is sent.

What is refused is a `ConfigError` of one line: the argument, its value, and what to write instead.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from numbers import Real

from ipy_websearch.errors import ConfigError
from ipy_websearch.text import shorten, visible

_SPAN = re.compile(r"(\d{1,6}(?:\.\d+)?)\s*([mhdw])", re.IGNORECASE)
_HOURS = {"m": 1 / 60, "h": 1, "d": 24, "w": 168}


def text(name: str, value: object, such_as: str = "") -> str:
    """Return a text as it is; refuse anything else."""
    if not isinstance(value, str):
        raise _wrong(name, value, f"text, such as {such_as!r}" if such_as else "text")
    return value


def texts(**named: object) -> None:
    """Refuse what is neither a text nor None."""
    for name, value in named.items():
        if value is not None:
            text(name, value)


def as_tuple(value: str | Sequence[str], name: str = "the list") -> tuple[str, ...]:
    """Return one string, or several, as a tuple."""
    if isinstance(value, str):
        return (value,)
    parts = tuple(value) if isinstance(value, Iterable) else (None,)
    if not all(isinstance(part, str) for part in parts):
        raise _wrong(name, value, "one text or a list of texts")
    return parts


def whole(name: str, value: int) -> int:
    """Return a whole number as Python's own; refuse anything else."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise _wrong(name, value, "a whole number, such as 5") from None


def at_least(least: int, name: str, value: int | None, default: int) -> int:
    """Return the value, or the default when it is None; refuse one below `least`."""
    chosen = default if value is None else whole(name, value)
    if chosen < least:
        raise ConfigError(f"{name} is {chosen}; it must be {least} or more")
    return chosen


def positive(name: str, value: float | None, default: float) -> float:
    """Return the value, or the default when it is None; refuse what is not above 0."""
    chosen = default if value is None else value
    _number(name, chosen, default)
    if not chosen > 0:
        raise ConfigError(f"{name} is {chosen:g}; it must be more than 0")
    return chosen


def _number(name: str, value: object, example: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise _wrong(name, value, f"a number, such as {example:g}")


def money(name: str, value: Decimal | float | str | None) -> Decimal | None:
    """Return an amount of US dollars as an exact decimal, None for None."""
    if value is None:
        return None
    try:
        amount = Decimal(str(value))
    except ArithmeticError:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0:
        raise ConfigError(f"{name} is {value!r}; it must be an amount of US dollars such as 0.05")
    return amount


def moment(name: str, value: object, now: datetime) -> datetime:
    """Return the moment (UTC) that is meant by "7d", "24h", "2026-11-01", "2026-11-01 14:30", a date, a moment or a span."""
    if isinstance(value, str):
        named = _written_moment(value.strip(), now)
    elif isinstance(value, timedelta):
        named = now - value
    elif isinstance(value, date):
        named = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    else:
        named = None
    if named is None:
        raise _wrong(name, value, "a span such as '7d', '24h', '30m' or a date such as '2026-11-01'")
    return named if named.tzinfo else named.replace(tzinfo=UTC)


def _written_moment(written: str, now: datetime) -> datetime | None:
    if span := _SPAN.fullmatch(written):
        try:
            return now - timedelta(hours=float(span[1]) * _HOURS[span[2].lower()])
        except OverflowError:
            return datetime(1970, 1, 1, tzinfo=UTC)
    try:
        return datetime.fromisoformat(written)
    except ValueError:
        return None


def _wrong(name: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{name} is {shorten(visible(repr(value)).replace(chr(10), ' '), 80)}; it must be {wanted}")
