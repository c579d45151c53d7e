"""Converts a value that a model wrote to its column's type: number, date, text, list. Pure.

The invariant: an ambiguous value is not converted. "1,500" is 1500 and "March 4, 1998" a date, but "1,5" may be one
and a half or a slip, and "03/04/1998" is another day on another continent: they fit no type, and the caller says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from math import isfinite
from typing import Any

_NOTHING = frozenset(
    (
        *("n/a", "n.a", "null", "unknown", "not found", "not available", "not applicable", "not known", "no data", "?"),
        *("-", "--", "–", "—"),
    )
)
"""Texts that say there is no value. "NA" is Namibia and sodium, "none" an answer, "Nan" a province: these are values."""

_LEAST_INT, _MOST_INT = -(2**63), 2**63 - 1
_MOST_CHARS = 60
"""A longer text is no number and no date that a column holds."""

_BLANK = r"[ \u00a0\u2009\u202f'’]"
_NUMBERS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"[-+−]?(?:{pattern})"), point)
    for pattern, point in (
        (r"\d+\.?\d*(?:[eE][-+]?\d{1,3})?|\.\d+", "."),
        (r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", "."),  # 1,234,567.8
        (r"[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?", "."),  # 12,34,567 as it is written in India
        (r"[1-9]\d{0,2}(?:\.\d{3}){2,}(?:,\d+)?", ","),  # 1.234.567,8: two points are no decimal ones
        (r"[1-9]\d{0,2}\.\d{3},\d+", ","),  # 1.234,5
        (rf"[1-9]\d{{0,2}}(?:{_BLANK}\d{{3}})+(?:\.\d+)?", "."),  # 1 234 567 and 1’234’567
    )
)
"""The ways in which numbers are written, each with its decimal point."""

_ONE_GROUP = re.compile(r"[-+−]?[1-9]\d{0,2}\.\d{3}")
"""Two in one country and two thousand in another: "2.000". A whole number is not read out of it."""

_MONTH_NAMES = "january february march april may june july august september october november december".split()
_MONTHS = {name[:n]: month for month, name in enumerate(_MONTH_NAMES, 1) for n in (3, len(name))} | {"sept": 9}
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_FILLERS = {"the", "of", *_WEEKDAYS, *(name[:3] for name in _WEEKDAYS)}
_WORDS = re.compile(r"[\s,]+|(?<=\w)-(?=\w)")
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")
_ISO = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}.*)?")
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})")
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})")


def says_nothing(value: Any) -> bool:
    """Return whether a value says that there is none: null, a blank text, "N/A" and its like, a list without anything else.

    An empty list may mean "there are none" or "I found none": what can be read in two ways is not read at all.
    """
    if isinstance(value, list):
        return all(map(says_nothing, value))
    if not isinstance(value, str):
        return value is None
    text = value.strip()
    return not text or (len(text) < 24 and text.strip(" .()[]<>\"'").casefold() in _NOTHING)


def fit(kind: type, value: Any) -> Any:
    """Return a value in a type of `loop.table.SCHEMAS`, None when it is no value of that type, or may be several.

    >>> fit(int, "1,500"), fit(float, "3,14"), fit(date, "March 4, 1998")
    (1500, None, datetime.date(1998, 3, 4))
    """
    return _FITTERS[kind](value)


def number(value: Any) -> int | float | Decimal | None:
    """Return a finite number; a text that can only be one counts, True does not."""
    if isinstance(value, str):
        return _written_number(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or isfinite(value) else None


def _written_number(text: str) -> Decimal | None:
    if len(text) > _MOST_CHARS:
        return None
    for pattern, point in _NUMBERS:
        if pattern.fullmatch(text):
            digits = re.sub(r"[^\d+\-eE" + point + "]", "", text.replace("−", "-"))
            return Decimal(digits.replace(point, "."))
    return None


def _int(value: Any) -> int | None:
    if isinstance(value, str) and _ONE_GROUP.fullmatch(value.strip()):
        return None
    found = number(value)
    return int(found) if found is not None and _LEAST_INT <= found <= _MOST_INT and found % 1 == 0 else None


def _float(value: Any) -> float | None:
    found = number(value)
    try:
        real = None if found is None else float(found)
    except OverflowError:
        return None
    return real if real is not None and isfinite(real) else None


def _bool(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "yes": True, "false": False, "no": False}.get(value.strip(" .").lower())
    return value if isinstance(value, bool) else None


def _date(value: Any) -> date | None:
    if not isinstance(value, str) or len(text := value.strip(" .")) > _MOST_CHARS:
        return None
    try:
        if iso := _ISO.fullmatch(text):
            return date.fromisoformat(iso[1])
        if first := _YEAR_FIRST.fullmatch(text):
            return date(int(first[1]), int(first[3]), int(first[4]))
        if last := _YEAR_LAST.fullmatch(text):
            return _day_and_month(int(last[1]), int(last[3]), int(last[4]))
        return _date_in_words(text) or date.fromisoformat(text)
    except ValueError:
        return None


def _day_and_month(one: int, other: int, year: int) -> date | None:
    """Return the date of two numbers of which one can only be the day."""
    if one == other or one > 12:
        return date(year, other, one)
    return date(year, one, other) if other > 12 else None


def _date_in_words(text: str) -> date | None:
    """Return the date of a text such as "Wednesday, 4th of March, 1998" or "Mar. 4, 1998"."""
    words = [word.rstrip(".") for word in _WORDS.split(text.lower())]
    words = [word for word in words if word not in _FILLERS]
    if len(words) != 3:
        return None
    for day, month, year in (words, (words[1], words[0], words[2]), (words[2], words[1], words[0])):
        if month in _MONTHS and (numeral := _DAY.fullmatch(day)) and re.fullmatch(r"\d{4}", year):
            return date(int(year), _MONTHS[month], int(numeral[1]))
    return None


def _str(value: Any) -> str | None:
    text = str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    return text or None


def _list(value: Any) -> list[str] | None:
    return [str(item) for item in value if not says_nothing(item)] if isinstance(value, list) else None


_FITTERS: dict[type, Callable[[Any], Any]] = {str: _str, int: _int, float: _float, bool: _bool, date: _date, list: _list}
