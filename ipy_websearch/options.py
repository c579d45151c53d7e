"""The options of `ask` and `enrich`, written once, and the checks of what callers give.

A wrong value is a `ConfigError` of one line: the argument, its value, and what to write instead. Nothing was sent by then.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, ParamSpec, TypeVar

from ipy_websearch.errors import ConfigError
from ipy_websearch.settings import CHECKS, WebSearch, did_you_mean
from ipy_websearch.text import shorten, visible
from ipy_websearch.usage import Limits

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

EFFORTS = ("low", "medium", "high")
"""How much a model is to think and write; what that means is the model's affair."""

_SPAN = re.compile(r"(\d{1,6}(?:\.\d+)?)\s*([mhdw])", re.IGNORECASE)
_HOURS = {"m": 1 / 60, "h": 1, "d": 24, "w": 168}


@dataclass(frozen=True)
class AskOptions:
    """A question and how it is to be answered; see `ipy_websearch.ask`. None means: as the settings say.

    Raises:
        ConfigError: on construction, when a value is not allowed.
    """

    question: str
    _: KW_ONLY
    model: str | None = None
    tools: str | Sequence[str] | None = None
    provider: str | None = None
    max_searches: int | None = None
    max_steps: int | None = None
    budget_usd: Decimal | float | str | None = None
    timeout_s: float | None = None
    allowed_domains: str | Sequence[str] = ()
    blocked_domains: str | Sequence[str] = ()
    columns: str | Mapping[str, type] | Sequence[str] | None = None
    system: str | None = None
    follow: bool = False
    fresh: bool = False
    check: str | None = None
    read_pages: int | None = None
    effort: str | None = None

    def __post_init__(self) -> None:
        texts(model=self.model, provider=self.provider, system=self.system)
        if not text("question", self.question, "How many moons does Mars have?").strip():
            raise ConfigError("there is no question; write it behind the options (in a cell: %%ask, then the question)")
        at_least(0, "max_searches", self.max_searches, 0)
        at_least(1, "max_steps", self.max_steps, 1)
        at_least(0, "read_pages", self.read_pages, 0)
        money("budget_usd", self.budget_usd)
        positive("timeout_s", self.timeout_s, 120)
        if self.check not in (None, *CHECKS):
            wanted = "'mark' (compare every sentence with its sources), 'repair' (have unsupported ones mended) or 'off'"
            raise _wrong("check", self.check, wanted)
        if self.effort not in (None, *EFFORTS):
            raise _wrong("effort", self.effort, f"one of {', '.join(EFFORTS)}")

    def limits(self, settings: WebSearch) -> Limits:
        """Return the limits of the question; those that are None are as the settings say."""
        return Limits(
            max_searches=at_least(0, "max_searches", self.max_searches, settings.max_searches),
            max_steps=at_least(1, "max_steps", self.max_steps, settings.max_steps),
            budget_usd=money("budget_usd", settings.budget_usd if self.budget_usd is None else self.budget_usd),
            timeout_s=positive("timeout_s", self.timeout_s, settings.timeout_s),
        )


@dataclass(frozen=True, eq=False)
class EnrichOptions:
    """A frame, the columns to fill, and how; see `ipy_websearch.enrich`.

    Raises:
        ConfigError: on construction, when a value is not allowed.
    """

    frame: Any
    columns: Mapping[str, Any]
    _: KW_ONLY
    model: str | None = None
    concurrency: int = 16
    max_searches: int = 1
    max_fetches: int = 0
    budget_usd: Decimal | float | str | None = None
    resume: bool = True
    sources: bool = True
    sample: int | None = None
    progress: bool = True
    provider: str | None = None
    mode: str | None = None
    cluster: Any = None
    read_pages: int = 0

    def __post_init__(self) -> None:
        texts(model=self.model, provider=self.provider)
        for name, least, default in (
            ("concurrency", 1, 16),
            ("max_searches", 0, 1),
            ("max_fetches", 0, 0),
            ("read_pages", 0, 0),
        ):
            object.__setattr__(self, name, at_least(least, name, getattr(self, name), default))
        at_least(1, "sample", self.sample, 1)
        money("budget_usd", self.budget_usd)


def options_of(kind: Callable[..., T], *subject: Any, **given: Any) -> T:
    """Return the options that were given.

    Raises:
        ConfigError: there is no option of that name, or a value is not allowed.
    """
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise ConfigError(f"there is no option {name!r}{did_you_mean(name, known)}; the options are {', '.join(known)}")
    return kind(*subject, **given)


def with_signature_of(kind: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function that passes its arguments on to `kind` the signature of it, for `help` and for type checkers."""

    def sign(function: Callable[..., R]) -> Callable[P, R]:
        returned = inspect.signature(function).return_annotation
        function.__signature__ = inspect.signature(kind).replace(return_annotation=returned)  # type: ignore[attr-defined]
        return function

    return sign


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
