"""Figures, that is numbers in text: digits with separators, "68.4 million", "twenty-seven", years, ordinals.

The invariant: `value` is what the words say, exactly (an int where it is whole), and `start:end` are the words it was read
from; what is only part of a name, a version or an address ("H2O", "3.11.4") is no number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

_COUNT = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
_SMALL = {word: n for n, word in enumerate([*_COUNT.split(), "eighteen", "nineteen"])}
_DECADES = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * n for n, word in enumerate(_DECADES.split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "bn": 10**9, "trillion": 10**12, "dozen": 12}
_PLACES = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_ORDINALS = {word: n for n, word in enumerate(_PLACES.split(), 1)}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SCALE = r"hundred|thousand|million|billion|trillion|bn|dozen"
_WORD = "|".join(sorted([*_SMALL, *_TENS], key=len, reverse=True))
_FIGURE = re.compile(
    rf"""(?P<sign>(?<![\w\d.,)])[-−–+]|\b(?:minus|negative)\s+)?(?P<money>[$€£¥]\s?)?
    (?:(?P<digits>(?<![\w.,^])(?:\d{{1,3}}(?:[,\u00a0\u202f\u2009 ]\d{{3}})+(?!\d)|\d+)(?:\.\d+)?)(?![\d]|\.\d)
       (?:\s?[×x]\s?10(?:\^|\*\*)?(?P<power>[-−]?\d+|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?
       (?P<ordinal>(?:st|nd|rd|th)\b)?(?:[\s-]?(?P<scale>{_SCALE})s?\b)?
     |\b(?P<words>(?:{_WORD})(?:[\s-](?:and\s)?(?:{_WORD}|{_SCALE}))*)\b
     |\b(?P<article>(?:half\s)?an?\s(?:hundred|thousand|million|billion|dozen))\b
     |\b(?P<nth>{"|".join(_ORDINALS)})\b)""",
    re.VERBOSE | re.IGNORECASE,
)
_BLANK = re.compile(r"[,\s]")
_BEFORE_CHRIST = re.compile(r"\s?(?:BC|BCE|B\.C\.(?:E\.)?)\b")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number in a text. `is_year` says that it reads like a calendar year, `ordinal` that it counts a place ("third")."""

    value: int | float
    start: int
    end: int
    is_year: bool = False
    ordinal: bool = False
    money: bool = False


@lru_cache(maxsize=2048)
def figures(text: str) -> tuple[Figure, ...]:
    """Return the numbers of a text in order."""
    found = (_figure(match, text) for match in _FIGURE.finditer(text))
    return tuple(figure for figure in found if figure is not None)


def _figure(match: re.Match[str], text: str) -> Figure | None:
    start, end = match.span()
    if match["nth"]:
        return Figure(_ORDINALS[match["nth"].lower()], start, end, ordinal=True)
    if match["words"] or match["article"]:
        value = _from_words((match["words"] or "one " + match["article"].split()[-1]).lower())
        if value and match["article"] and match["article"].lower().startswith("half"):
            value //= 2
        following = text[end : end + 4].lower()
        if value is None or (value == 1 and (following.startswith((" of ", " or ", "-")) or not following.startswith(" "))):
            return None
        return Figure(-value if match["sign"] else value, start, end)
    if end < len(text) and (text[end].isalpha() and text[end] not in "kKmMtgxc°%" or text[end] == "_"):
        return None
    return _from_digits(match, text)


def _from_digits(match: re.Match[str], text: str) -> Figure:
    start, end = match.span()
    digits, scale = match["digits"], match["scale"]
    value = Decimal(_BLANK.sub("", digits))
    if match["power"]:
        value = value.scaleb(int(match["power"].replace("−", "-").translate(_SUPERSCRIPTS)))
    value *= _SCALES[scale.lower()] if scale else 1
    year = len(digits) == 4 and digits.isdigit() and 1000 <= int(digits) <= 2199 and not (scale or match["power"])
    year = year and not match["money"] and not text[end : end + 2].startswith(("°", "%", " °", " %"))
    before_christ = _BEFORE_CHRIST.match(text, end)
    if before_christ and not scale:
        return Figure(-int(value), start, before_christ.end(), is_year=True)
    # "1939–1945" has no negative year in it, "−38.8 °C" has
    negative = bool(match["sign"]) and match["sign"].strip() in ("-", "−", "–", "minus", "negative", "Minus")
    exact = int(value) if value == value.to_integral_value() and "." not in _tail(digits, scale) else float(value)
    return Figure(-exact if negative else exact, start, end, year, bool(match["ordinal"]), bool(match["money"]))


def _tail(digits: str, scale: str | None) -> str:
    """Return the part whose "." makes a number fractional: "1.5" is, "1.5 million" is not."""
    return "" if scale else digits


def _from_words(text: str) -> int | None:
    total = current = 0
    for word in re.split(r"[\s-]+", text):
        if word == "and":
            continue
        if word in _SMALL:
            current += _SMALL[word]
        elif word in _TENS:
            current += _TENS[word]
        elif word in ("hundred", "dozen"):
            current = max(current, 1) * _SCALES[word]
        elif word in _SCALES:
            total += max(current, 1) * _SCALES[word]
            current = 0
        else:
            return None
    return total + current
