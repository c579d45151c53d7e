"""The options of `ask` and `enrich`, written once, and the checks of what callers give.

A wrong value is a `ConfigError` of one line: the argument, its value, and what to write instead. Nothing was sent by then.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, ParamSpec, TypeVar

from ipy_websearch.errors import ConfigError
from ipy_websearch.results import Limits
from ipy_websearch.settings import CHECKS, WebSearch, did_you_mean
from ipy_websearch.text import shorten, visible

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

MODES = ("now", "batch")  # how an enrichment asks: at once, or by the Message Batches API
EFFORTS = ("low", "medium", "high")  # how much a model is to think and write; what that means is the model's affair


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


# --- what an argument may be --------------------------------------------------------------------------------------------


def checked(name: str, value: Any) -> Any:
    """Return an argument in the package's own form: a list as a tuple, money as a Decimal, numbers as Python's.

    Raises:
        ConfigError: it is not what an argument of that name may be.
    """
    if name not in _FORMS or (value is None and name not in _NEEDED):
        return value
    return _FORMS[name](name, value)


def _in_form(read: Callable[[Any], T], wanted: str, name: str, value: Any) -> T:
    """Return what `read` makes of a value; what it cannot take must be `wanted`."""
    try:
        return read(value)
    except (TypeError, ValueError, LookupError, ArithmeticError):
        shown = shorten(visible(repr(value)).replace("\n", " "), 80)
        raise ConfigError(f"{name} is {shown}; it must be {wanted}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(_text, value))


def _at_least(least: int) -> Form:
    def read(value: Any) -> int:
        number = operator.index(value)
        if isinstance(value, bool) or number < least:
            raise ValueError
        return number

    return partial(_in_form, read, f"a whole number, {least} or more")


def _positive(value: Any) -> Any:
    if isinstance(value, bool | str | bytes) or not float(value) > 0:
        raise ValueError
    return value


def _one_of(known: Sequence[Any], wanted: str = "") -> Form:
    """Return the form of values that are equal to one of a few, and become that one (numpy's 1 becomes True)."""
    own = {value: value for value in known}
    return partial(_in_form, own.__getitem__, wanted or f"one of {', '.join(known)}")


def _usd(value: Any) -> Decimal | None:
    amount = None if value is None else Decimal(str(value).removeprefix("$"))
    if amount is not None and not (amount.is_finite() and amount >= 0):
        raise ValueError
    return amount


_SPAN = re.compile(r"(\d{1,5}(?:\.\d+)?)\s*([mhdw])", re.IGNORECASE)
_HOURS = {"m": 1 / 60, "h": 1, "d": 24, "w": 168}


def _moment(value: Any) -> datetime:
    if isinstance(value, str) and (span := _SPAN.fullmatch(value.strip())):
        value = timedelta(hours=float(span[1]) * _HOURS[span[2].lower()])
    if isinstance(value, timedelta):
        return datetime.now(UTC) - value
    if isinstance(value, date):
        value = value.isoformat()
    meant = datetime.fromisoformat(value.strip() if isinstance(value, str) else "")
    return meant if meant.tzinfo else meant.replace(tzinfo=UTC)


Form = Callable[[str, Any], Any]
as_tuple: Form = partial(_in_form, _texts, "one text or a list of texts")
money: Form = partial(_in_form, _usd, "an amount of US dollars such as 0.05")
moment: Form = partial(_in_form, _moment, "a span such as '7d', '24h', '30m' or a date such as '2026-11-01'")

# What an argument may be, by its name, at every door.
_NEEDED = ("question", "query", "url")
_TEXTS = "model provider system search_tool_name freshness country language safe_search".split()
_FORMS: dict[str, Form] = {
    **dict.fromkeys((*_NEEDED, *_TEXTS), partial(_in_form, _text, "text")),
    **dict.fromkeys(("allowed_domains", "blocked_domains", "goggles"), as_tuple),
    **dict.fromkeys(("max_searches", "read_pages"), _at_least(0)),
    **dict.fromkeys(("count", "offset", "limit", "max_steps", "concurrency", "sample", "max_uses"), _at_least(1)),
    **dict.fromkeys(("follow", "fresh", "resume", "sources", "progress"), _one_of((True, False), "True or False")),
    "budget_usd": money,
    "timeout_s": partial(_in_form, _positive, "a number above 0, such as 120"),
    "check": _one_of(CHECKS),
    "effort": _one_of(EFFORTS),
    "mode": _one_of(MODES),
}
