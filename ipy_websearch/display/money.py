"""Amounts of money and of tokens, as words. Never a dollar sign: two of them in one output become mathematics in Jupyter."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

_SMALLEST = Decimal("0.0001")


def usd(amount: Decimal | float | None) -> str:
    """Return US dollars as text: "0.0123 USD", "12.50 USD", "0 USD", "<0.0001 USD", and "unknown" for None and NaN."""
    value = _decimal(amount)
    if value is None:
        return "unknown"
    if value == 0:
        return "0 USD"
    if 0 < value < _SMALLEST:
        return f"<{_SMALLEST} USD"
    if abs(value) >= 1:
        return f"{value.quantize(Decimal('0.01'), ROUND_HALF_UP):,} USD"
    whole, _, fraction = str(value.quantize(_SMALLEST, ROUND_HALF_UP)).partition(".")
    return f"{whole}.{fraction.rstrip('0').ljust(2, '0')} USD"


def cost(amount: Decimal | float | None, *, cached: bool = False) -> str:
    """Return what a call cost as a phrase: an amount, "free", "cached" or "cost unknown"."""
    if cached:
        return "cached"
    value = _decimal(amount)
    if value is None:
        return "cost unknown"
    return "free" if value == 0 else usd(value)


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 search", "1,204 rows"; `many` is for nouns that do not just take an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def seconds(value: float) -> str:
    """Return seconds as text: "0.4 s", "12 s", "2 min 05 s"."""
    if value < 9.95:
        return f"{max(value, 0.0):.1f} s"
    whole = round(value)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02d} s"


def _decimal(amount: Decimal | float | None) -> Decimal | None:
    if amount is None or amount != amount:
        return None
    value = amount if isinstance(amount, Decimal) else Decimal(str(amount))
    return value if value.is_finite() else None
