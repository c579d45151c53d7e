"""Checks what callers give for limits, money and domains, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from ipy_websearch.errors import ConfigError


def as_tuple(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return one string, or several, as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value)


def at_least(least: int, name: str, value: int | None, default: int) -> int:
    """Return the value, or the default when it is None; refuse one below `least`."""
    chosen = default if value is None else value
    if chosen < least:
        raise ConfigError(f"{name} is {chosen}; it must be {least} or more")
    return chosen


def positive(name: str, value: float | None, default: float) -> float:
    """Return the value, or the default when it is None; refuse what is not above 0."""
    chosen = default if value is None else value
    if not chosen > 0:
        raise ConfigError(f"{name} is {chosen:g}; it must be more than 0")
    return chosen


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
