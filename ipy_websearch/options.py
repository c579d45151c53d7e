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
from ipy_websearch.text import one_line, shorten, sound

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _Options:
    """What is written once: options are checked, and put into their own form, as they are made; None is the default."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            value = field.default if value is None and field.default is not MISSING else checked(field.name, value)
            object.__setattr__(self, field.name, value)


@dataclass(frozen=True)
class AskOptions(_Options):
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
        super().__post_init__()
        if not self.question.strip():
            raise ConfigError("there is no question; write it behind the options (in a cell: %%ask, then the question)")

    def limits(self, settings: WebSearch) -> Limits:
        """Return the limits of the question; those that are None are as the settings say."""
        names = [field.name for field in fields(Limits)]
        given = {name: getattr(settings if getattr(self, name) is None else self, name) for name in names}
        return Limits(**{name: checked(name, value) for name, value in given.items()})


@dataclass(frozen=True, eq=False)
class EnrichOptions(_Options):
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

_SPAN = re.compile(r"(\d{1,5}(?:\.\d+)?)\s*([mhdw])", re.IGNORECASE)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def checked(name: str, value: Any) -> Any:
    """Return an argument (of a function, or of a magic: "--since") in the package's own form: a list as a tuple, money as a
    Decimal, numbers as Python's.

    Raises:
        ConfigError: it is not what an argument of that name may be.
    """
    form = _FORMS.get(name.lstrip("-"))
    if form is None or (value is None and name not in _NEEDED):
        return value
    return in_form(form, name, value)


def in_form(form: Form, name: str, value: Any) -> Any:
    """Return what a form makes of an argument. Raises: see `checked`."""
    wanted, read = form
    try:
        return read(value)
    except (TypeError, ValueError, LookupError, ArithmeticError):
        raise ConfigError(f"{name} is {shorten(one_line(repr(value)), 80)}; it must be {wanted}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return str(sound(value))


def _texts(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(_text, value))


def _number(read: Callable[[Any], Any], above: int, value: Any) -> Any:
    number = read(value)
    if isinstance(value, bool | str | bytes) or not number > above:
        raise ValueError
    return number


def _one_of(known: Sequence[Any], value: Any) -> Any:
    return known[known.index(value)]  # numpy's 1 becomes True


def _usd(value: Any) -> Decimal:
    amount = Decimal(str(value).removeprefix("$"))
    if not 0 <= amount < Decimal("1e15"):  # settings are floats, and the ledger counts billionths
        raise ValueError
    return amount


def _moment(value: Any) -> datetime:
    if span := _SPAN.fullmatch(str(value).strip()):
        value = timedelta(**{_UNITS[span[2].lower()]: float(span[1])})
    if isinstance(value, timedelta):
        return datetime.now(UTC) - value
    meant = datetime.fromisoformat(_text(value.isoformat() if isinstance(value, date) else value).strip())
    return meant if meant.tzinfo else meant.replace(tzinfo=UTC)


# In words, and the function that reads a value of that form, or raises what Python raises for a wrong one.
Form = tuple[str, Callable[[Any], Any]]
TEXTS: Form = ("one text or a list of texts", _texts)

# What an argument may be, by its name, at every door.
_NEEDED = ("question", "query", "url", "offset")
_NAMES = "model provider system search_tool_name freshness country language safe_search by".split()
_FORMS: dict[str, Form] = {
    **dict.fromkeys((*_NEEDED, *_NAMES), ("text", _text)),
    **dict.fromkeys(("allowed_domains", "blocked_domains", "goggles"), TEXTS),
    **dict.fromkeys(("max_searches", "read_pages"), ("a whole number, 0 or more", partial(_number, operator.index, -1))),
    **dict.fromkeys(
        ("count", "offset", "limit", "max_steps", "concurrency", "sample", "max_uses"),
        ("a whole number, 1 or more", partial(_number, operator.index, 0)),
    ),
    **dict.fromkeys(
        ("follow", "fresh", "resume", "sources", "progress", "everything"), ("True or False", partial(_one_of, (True, False)))
    ),
    **dict.fromkeys(("budget_usd", "session_budget_usd", "day_budget_usd"), ("an amount of US dollars such as 0.05", _usd)),
    **{
        name: (f"one of {', '.join(known)}", partial(_one_of, known))
        for name, known in {"check": CHECKS, "effort": ("low", "medium", "high"), "mode": ("now", "batch")}.items()
    },
    "timeout_s": ("a number above 0, such as 120", partial(_number, float, 0)),
    "since": ("a span such as '7d', '24h', '30m' or a date such as '2026-11-01'", _moment),
}
