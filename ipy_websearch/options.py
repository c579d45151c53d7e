"""The options of `ask` and `enrich`, written once, and the checks of what callers give.

A wrong value is a `ConfigError` of one line: the argument, its value, and what to write instead. Nothing was sent by then.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, MISSING, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any, ParamSpec, TypeVar

from ipy_websearch.errors import ConfigError
from ipy_websearch.settings import CHECKS, WebSearch, did_you_mean
from ipy_websearch.text import shorten, visible
from ipy_websearch.usage import Limits

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

EFFORTS = ("low", "medium", "high")  # how much a model is to think and write; what that means is the model's affair
_SPAN = re.compile(r"(\d{1,5}(?:\.\d+)?)\s*([mhdw])", re.IGNORECASE)
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
        _check(self)
        if not self.question.strip():
            raise ConfigError("there is no question; write it behind the options (in a cell: %%ask, then the question)")

    def limits(self, settings: WebSearch) -> Limits:
        """Return the limits of the question; those that are None are as the settings say."""
        names = [field.name for field in fields(Limits)]
        given = {name: getattr(settings if getattr(self, name) is None else self, name) for name in names}
        return Limits(**{name: checked(name, value) for name, value in given.items()})


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
        _check(self)


def _check(options: Any) -> None:
    """Check options and put each into its own form; None is an option's default."""
    for field in fields(options):
        value = getattr(options, field.name)
        unset = value is None and field.default is not MISSING
        object.__setattr__(options, field.name, field.default if unset else checked(field.name, value))


def checked(name: str, value: Any) -> Any:
    """Return an argument in the package's own form: a list as a tuple, money as a Decimal, numbers as Python's.

    Raises:
        ConfigError: it is not what an argument of that name may be.
    """
    if name not in _FORMS or (value is None and name not in _NEEDED):
        return value
    return _FORMS[name](name, value)


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


def text(name: str, value: object) -> str:
    """Return a text as it is; refuse anything else."""
    if not isinstance(value, str):
        raise _wrong(name, value, "text")
    return value


def as_tuple(name: str, value: Any) -> tuple[str, ...]:
    """Return one string, or several, as a tuple; refuse anything else."""
    parts = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    if not all(isinstance(part, str) for part in parts):
        raise _wrong(name, value, "one text or a list of texts")
    return parts


def whole(name: str, value: int) -> int:
    """Return a whole number as Python's own; refuse anything else."""
    with suppress(TypeError):
        if not isinstance(value, bool):
            return operator.index(value)
    raise _wrong(name, value, "a whole number, such as 5")


def flag(name: str, value: object) -> bool:
    """Return True or False as Python's own (0, 1 and numpy's count as such); refuse anything else."""
    with suppress(TypeError):  # a list, a frame
        if value in {True, False}:
            return bool(value)
    raise _wrong(name, value, "True or False")


def at_least(least: int, name: str, value: int | None, default: int = 0) -> int:
    """Return the value, or the default when it is None; refuse one below `least`."""
    chosen = default if value is None else whole(name, value)
    if chosen < least:
        raise ConfigError(f"{name} is {chosen}; it must be {least} or more")
    return chosen


def _one_of(words: Sequence[str], name: str, value: Any) -> Any:
    if value not in words:
        raise _wrong(name, value, f"one of {', '.join(words)}")
    return value


def _positive(name: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, Real | Decimal) or not float(value) > 0:
        raise _wrong(name, value, "a number above 0, such as 120")
    return value


def money(name: str, value: Decimal | float | str | None) -> Decimal | None:
    """Return an amount of US dollars as an exact decimal, None for None."""
    if value is None:
        return None
    with suppress(ArithmeticError):
        amount = Decimal(str(value).removeprefix("$"))
        if amount.is_finite() and amount >= 0:
            return amount
    raise _wrong(name, value, "an amount of US dollars such as 0.05")


def moment(name: str, value: object, now: datetime) -> datetime:
    """Return the moment (UTC) that is meant by "7d", "24h", "2026-11-01", "2026-11-01 14:30", a date, a moment or a span."""
    meant = _read(value.strip()) if isinstance(value, str) else value
    match meant:
        case timedelta():
            return now - meant
        case datetime():
            return meant if meant.tzinfo else meant.replace(tzinfo=UTC)
        case date():
            return datetime(meant.year, meant.month, meant.day, tzinfo=UTC)
    raise _wrong(name, value, "a span such as '7d', '24h', '30m' or a date such as '2026-11-01'")


def _read(written: str) -> timedelta | datetime | None:
    if span := _SPAN.fullmatch(written):
        return timedelta(hours=float(span[1]) * _HOURS[span[2].lower()])
    with suppress(ValueError):
        return datetime.fromisoformat(written)
    return None


def _wrong(name: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{name} is {shorten(visible(repr(value)).replace(chr(10), ' '), 80)}; it must be {wanted}")


# What an argument may be, by its name, at every door.
_NEEDED = ("question", "query", "url")
_TEXTS = "model provider system search_tool_name freshness country language safe_search".split()
_FORMS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys((*_NEEDED, *_TEXTS), text),
    **dict.fromkeys(("allowed_domains", "blocked_domains", "goggles"), as_tuple),
    **dict.fromkeys(("count", "offset", "limit"), whole),
    **dict.fromkeys(("max_searches", "max_fetches", "read_pages"), partial(at_least, 0)),
    **dict.fromkeys(("max_steps", "concurrency", "sample"), partial(at_least, 1)),
    **dict.fromkeys(("follow", "fresh", "resume", "sources", "progress"), flag),
    "budget_usd": money,
    "timeout_s": _positive,
    "check": partial(_one_of, CHECKS),
    "effort": partial(_one_of, EFFORTS),
}
