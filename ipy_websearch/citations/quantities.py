"""Reads the numbers and dates of a text, so that "5 million", "5,000,000" and "5M" agree and 3 km differs from 3 m. Pure.

A number that can be read in several ways keeps all its readings ("1.234" is a thousand in German, "5m" metres or millions), and
two numbers agree when any two of their readings do: a doubtful reading never becomes a difference.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

_MONTHS = (
    "january jan januar janvier enero gennaio janeiro januari",
    "february feb februar février febrero febbraio fevereiro februari",
    "march mar märz mars marzo março maart",
    "april apr avril abril aprile",
    "may mai mayo maggio maio mei",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août agosto augustus",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre diciembre dicembre dezembro",
)
_MONTH = {name: n for n, names in enumerate(_MONTHS, 1) for name in names.split()}
_WORDS = {
    word: float(n)
    for n, words in {
        0: "zero", 0.5: "half", 1: "a an one", 2: "two couple both zwei deux dos due", 3: "three third drei trois tres tre",
        4: "four fourth quarter vier quatre cuatro quattro", 5: "five fifth fünf cinq cinco cinque",
        6: "six sixth sechs seis sei",
        7: "seven seventh sieben siete sette", 8: "eight eighth huit ocho otto", 9: "nine ninth neun neuf nueve nove",
        10: "ten tenth decade zehn dix diez dieci", 11: "eleven eleventh elf onze",
        12: "twelve twelfth dozen zwölf douze doce", 13: "thirteen thirteenth", 14: "fourteen fourteenth",
        15: "fifteen fifteenth quinze",
        16: "sixteen sixteenth", 17: "seventeen seventeenth", 18: "eighteen eighteenth", 19: "nineteen nineteenth",
        20: "twenty twentieth", 30: "thirty thirtieth", 40: "forty fortieth", 50: "fifty fiftieth", 60: "sixty", 70: "seventy",
        80: "eighty", 90: "ninety", 100: "century",
    }.items()
    for word in words.split()
}  # fmt: skip
# Words that stand for a number in a passage, but are too loose, or of too few languages, to demand one of it.
_LOOSE = frozenset(
    "a an one half both couple third quarter decade century dozen zwei drei vier fünf sechs sieben neun zehn elf zwölf deux "
    "trois "
    "quatre cinq huit neuf dix onze douze quinze dos tres cuatro cinco seis siete ocho nueve diez doce due tre quattro "
    "cinque sei "
    "sette otto nove dieci".split()
)

_FACTORS = {
    name: factor
    for factor, names in {
        1e2: "hundred hundert", 1e3: "k thousand thousands tausend mil mille tusen", 1e4: "万 萬 만", 1e5: "lakh lakhs",
        1e6: "m mn mio million millions millionen millón millones milhão milhões milioni miljoen", 1e7: "crore crores",
        1e8: "億 亿 억", 1e9: "b bn mrd billion billions milliard milliards milliarde milliarden miljard",
        1e12: "t tn trillion trillions",
    }.items()
    for name in names.split()
}  # fmt: skip
_UNITS: dict[str, tuple[str, float, float]] = {
    name: (kind, factor, offset)
    for kind, factor, offset, names in (
        ("percent", 1, 0, "% percent percentage pct prozent"),
        ("points", 1, 0, "pp"),
        ("USD", 1, 0, "$ us$ usd dollar dollars"), ("USD", 0.01, 0, "cent cents"), ("EUR", 1, 0, "€ eur euro euros"),
        ("GBP", 1, 0, "£ gbp"), ("JPY", 1, 0, "¥ jpy yen"), ("INR", 1, 0, "₹ inr rupee rupees"),
        ("length", 0.001, 0, "mm millimeter millimeters millimetre millimetres"),
        ("length", 0.01, 0, "cm centimeter centimeters centimetre centimetres"),
        ("length", 1, 0, "m meter meters metre metres mètre mètres metro metros"),
        ("length", 1000, 0, "km kilometer kilometers kilometre kilometres kilomètres"),
        ("length", 0.0254, 0, "inch inches"), ("length", 0.3048, 0, "ft foot feet"), ("length", 1609.344, 0, "mi mile miles"),
        ("area", 1, 0, "m2"), ("area", 1e4, 0, "ha hectare hectares"), ("area", 1e6, 0, "km2"), ("area", 2.59e6, 0, "mi2"),
        ("area", 4046.86, 0, "acre acres"), ("area", 0.092903, 0, "ft2"),
        ("mass", 1e-6, 0, "mg milligram milligrams"), ("mass", 0.001, 0, "g gram grams"),
        ("mass", 1, 0, "kg kilo kilos kilogram kilograms"), ("mass", 1000, 0, "tonne tonnes"), ("mass", 907.185, 0, "ton tons"),
        ("mass", 0.45359, 0, "lb lbs pound pounds"), ("mass", 0.02835, 0, "oz ounce ounces"),
        ("volume", 0.001, 0, "ml milliliter milliliters"), ("volume", 1, 0, "l liter liters litre litres"),
        ("volume", 3.78541, 0, "gallon gallons"),
        ("temperature", 1, 0, "°c c celsius"), ("temperature", 5 / 9, -160 / 9, "°f f fahrenheit"),
        ("speed", 1 / 3.6, 0, "km/h kmh kph"), ("speed", 0.44704, 0, "mph"), ("speed", 1, 0, "m/s"),
        ("time", 0.001, 0, "ms millisecond milliseconds"), ("time", 1, 0, "s sec second seconds"),
        ("time", 60, 0, "min mins minute minutes"), ("time", 3600, 0, "h hr hrs hour hours"), ("time", 86400, 0, "day days"),
        ("time", 604800, 0, "week weeks"), ("time", 2629746, 0, "month months"), ("time", 31556952, 0, "year years"),
        ("data", 1, 0, "kb kilobyte kilobytes"), ("data", 1e3, 0, "mb megabyte megabytes"),
        ("data", 1e6, 0, "gb gigabyte gigabytes"), ("data", 1e9, 0, "tb terabyte terabytes"),
        ("energy", 1, 0, "kwh"), ("energy", 1e3, 0, "mwh"), ("energy", 1e6, 0, "gwh"), ("energy", 1e9, 0, "twh"),
        ("power", 0.001, 0, "w watt watts"), ("power", 1, 0, "kw kilowatt kilowatts"),
        ("power", 1e3, 0, "mw megawatt megawatts"), ("power", 1e6, 0, "gw gigawatt gigawatts"),
        ("frequency", 1, 0, "hz"), ("frequency", 1e3, 0, "khz"), ("frequency", 1e6, 0, "mhz"), ("frequency", 1e9, 0, "ghz"),
    )
    for name in names.split()
}  # fmt: skip

_SPELLINGS = tuple(
    (hint, re.compile(pattern, re.IGNORECASE), written)
    for hint, pattern, written in (
        ("cent", r"\b(?:per|pour|por) ?cent[oi]?\b", "%"), ("point", r"\bpercentage points?\b", "pp"),
        ("sq", r"\bsq(?:uare|\.)? ?(k?m|mi|ft)\b", r"\g<1>2"),
        ("square", r"\bsquare kilomet(?:er|re)s?\b", "km2"), ("square", r"\bsquare met(?:er|re)s?\b", "m2"),
        ("square", r"\bsquare miles?\b", "mi2"), ("square", r"\bsquare (?:foot|feet)\b", "ft2"),
        (" hour", r"\bkilomet(?:er|re)s (?:per|an) hour\b", "km/h"), (" hour", r"\bmiles (?:per|an) hour\b", "mph"),
        ("second", r"\bmet(?:er|re)s per second\b", "m/s"),
        ("degree", r"\bdegrees? ?(c|f)(?:elsius|ahrenheit)?\b", r"°\1"), ("°", r"° ?(c|f)(?:elsius|ahrenheit)?\b", r"°\1"),
        ("u", r"\bU\.?S\.? (?=dollars?\b)|\bUS(?=\$)", ""), ("٫", "٫", "."), ("٬", "٬", ","), ("−", "−", "-"),
        ("⁄", r"\b0?1⁄2|(?<=\d)1⁄2", ".5"), ("⁄", r"\b0?1⁄4|(?<=\d)1⁄4", ".25"), ("⁄", r"\b0?3⁄4|(?<=\d)3⁄4", ".75"),
        ("–", r"\b([12]\d)(\d\d)[–/](\d\d)\b(?![-/.]?\d)", r"\1\2–\1\3"),
        ("-", r"\b(20|19)(\d\d)-(1[3-9]|[2-9]\d)\b(?!-)", r"\1\2–\1\3"),
    )
)  # fmt: skip

_ALSO_WORDS = frozenset("may march mars mai marzo august juni juli sept mayo maart".split())
_NAMED = "|".join(sorted(_MONTH, key=len, reverse=True))
_NAMED_DATE = re.compile(
    rf"(?:(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.|º)?(?: of| de)? )?\b(?P<m>{_NAMED})\b\.?"
    r"(?: (?P<e>\d{1,2})(?:st|nd|rd|th)?\b(?![\d:.]\d| ?(?:[ap]\.?m\b|%)))?(?:(?:,| of| del?|,? in)? ?(?P<y>[12]\d{3})\b)?",
    re.IGNORECASE,
)
_ISO_DATE = re.compile(
    r"(?<![\dA-Za-z_])([12]\d{3})(?:[-/.]|[年년] ?)(0?[1-9]|1[0-2])"
    r"(?:(?:[-/.]|[月월] ?)(0?[1-9]|[12]\d|3[01])(?:[日일]|(?![\dA-Za-z_]))|[月월]|\b(?![-/.,]?\d))"
)
_SLASH_DATE = re.compile(r"\b(\d{1,2})([/.])(\d{1,2})(?:\2(\d{4}|\d{2}))?\b(?![/.,]?\d)")
_CLOCK = re.compile(
    r"\b([01]?\d|2[0-3])(?:[:.]([0-5]\d)(?::\d\d)?)? ?([ap])\.? ?m\b|\b([01]?\d|2[0-3]):([0-5]\d)\b", re.IGNORECASE
)
_NUMBER = re.compile(
    r"(?P<coin>US\$|[$€£¥₹])? ?(?<![A-Za-z_\d])(?<![A-Z]-)(?<!\d[.,])"
    r"(?P<digits>\d{1,3}(?:[ \u202f'’]\d{3}(?!\d))+(?:[.,]\d+)?|\d+(?:[.,]\d+)*|\.\d+)(?P<nth>st|nd|rd|th)?(?P<tens>['’]?s\b)?"
    rf"|\b(?P<word>(?:(?:twen|thir|for|fif|six|seven|eigh|nine)ty[- ])?(?:{'|'.join(_WORDS)}))\b",
    re.IGNORECASE,
)
_MAGNITUDES, _UNIT_NAMES = ("|".join(map(re.escape, sorted(names, key=len, reverse=True))) for names in (_FACTORS, _UNITS))
_BEHIND = re.compile(
    rf"(?:[ -]?(?P<magnitude>[万萬만億亿억]|(?:{_MAGNITUDES})(?!\w)))?(?:[ -]?(?P<unit>[%$€£¥₹]|(?:{_UNIT_NAMES})(?!\w)))?",
    re.IGNORECASE,
)
# A number without a unit may have the unit of the range that it begins: "10 to 20 million".
_RANGE = re.compile(rf" ?(?:-|–|—|to|and|or|bis|à|a|through|until) ?[\d.,]*\d{_BEHIND.pattern}", re.IGNORECASE)
_OR_MORE, _OR_LESS = re.compile(r"\+| or more"), re.compile(" or less")
_MINUS = re.compile(r"[\s(]?[-–]")
_ABOUT = re.compile(
    r"(?:about|approx\w*\.?|around|roughly|some|nearly|almost|circa|ca?\.|~|≈|estimated|close to|near|約|约|약|近|ほぼ"
    r"|\b(?:etwa|rund|ungefähr|fast|knapp|gut|environ|près de|quelque|un[oa]s|aproximad\w+|alrededor de|cerca de|casi|quase"
    r"|quasi|ongeveer|bijna|około|около|примерно|почти))(?: a| an)? ?[$€£~]?$",
    re.I,
)
_ABOVE = re.compile(
    r"(?:over|more than|at least|above|exceed\w*|(?:great|larg|high|long|old)er than|upwards? of|>|≥|beyond"
    r"|超过|超過|逾|\b(?:über|mehr als|mindestens|plus de|au moins|más de|al menos|mais de|oltre|più di|meer dan|ponad|более"
    r"|больше|свыше))(?: a)? ?[$€£]?$",
    re.I,
)
_BELOW = re.compile(
    r"(?:under|(?:less|fewer|lower|smaller|shorter|younger) than|below|up to|at most|<|≤|nearly|almost|不到|不足"
    r"|\b(?:unter|weniger als|höchstens|bis zu|moins de|jusqu'à|menos de|hasta|meno di|fino a|minder dan|poniżej|менее|до))"
    r"(?: a)? ?[$€£]?$",
    re.I,
)


class Reading(NamedTuple):
    """One way to read a number: what its unit measures ("" for none), its value in the base unit, its value as written, half of
    its last digit's worth, what a unit is in base units, and whether it is the less likely reading."""

    kind: str
    value: float
    own: float
    half: float
    scale: float = 1.0
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """A number: its words, its readings, what was written (`plain`), whether it is a limit (`bound` 1: more than, -1: less
    than) or an approximation (`loose`: its tolerance). `demanded` is False for words too loose to ask a number of a passage."""

    text: str
    readings: tuple[Reading, ...]
    plain: float
    bound: int = 0
    loose: float = 0.0
    demanded: bool = True

    def agrees(self, other: Number) -> bool:
        """Return whether a passage's number `other` is, or rounds to, this one."""
        return any(self._is_about(mine, theirs) for mine in self.readings for theirs in other.readings)

    def stands_for(self, other: Number) -> bool:
        """Return whether it agrees with the number in the same place of a sentence; two limits have to be the same limit."""
        same = replace(self, bound=0, loose=0.0) if self.bound and self.bound == other.bound else self
        return same.agrees(other)

    def is_about(self, value: float) -> bool:
        """Return whether a bare value, in units or in thousands, millions and so on, or as a share of 1, is this number."""
        return any(
            abs(value * scale - own) <= max(half, 1e-6 * abs(own))
            for kind, _, own, half, _, _ in self.readings
            for scale in ((1.0, 1e2) if kind == "percent" else (1.0, 1e3, 1e6, 1e9, 1e12))
        )

    @property
    def kinds(self) -> set[str]:
        """What its units may measure."""
        return {reading.kind for reading in self.readings}

    def _is_about(self, mine: Reading, theirs: Reading) -> bool:
        if not (mine.kind and theirs.kind):
            value, half, away = mine.own, mine.half, theirs.own - mine.own
        elif mine.kind != theirs.kind or ((mine.doubtful or theirs.doubtful) and mine.scale != theirs.scale):
            return False
        else:
            value, half, away = mine.value, mine.half * mine.scale, theirs.value - mine.value
        allowed = self.loose if self.bound == 0 or (away > 0) == (self.bound > 0) else 0.0
        return abs(away) <= max(half, abs(value) * max(allowed, 1e-6))


class Date(NamedTuple):
    """A date: its words and the ways to read it as (year, month, day), where None was not written."""

    text: str
    readings: tuple[tuple[int | None, int, int | None], ...]

    def agrees(self, other: Date) -> bool:
        """Return whether a passage's date does not contradict this one, and names its month and day."""
        return any(
            (y is None or y2 is None or y == y2) and m == m2 and (d is None or d == d2)
            for y, m, d in self.readings
            for y2, m2, d2 in other.readings
        )

    @property
    def years(self) -> set[int]:
        """The years it may be in; empty when none was written."""
        return {y for y, _, _ in self.readings if y is not None}


class Quantities(NamedTuple):
    """The numbers and dates of a text, and the years among them."""

    numbers: tuple[Number, ...]
    dates: tuple[Date, ...]
    years: frozenset[int]


def is_part_of_one(word: str) -> bool:
    """Return whether a lower-case word belongs to a number or a date: digits, "million", "march", "km"."""
    return word in _MONTH or word in _FACTORS or word in _UNITS or word in _WORDS or not word.isalpha()


@lru_cache(1024)
def read(text: str) -> Quantities:
    """Return the numbers and dates of a text."""
    text = unicodedata.normalize("NFKC", text)
    lower = text.lower()
    for hint, pattern, written in _SPELLINGS:
        if hint in lower:
            text = pattern.sub(written, text)
    taken: list[Number | Date] = []
    for pattern, read_one in ((_ISO_DATE, _iso_date), (_NAMED_DATE, _named_date), (_SLASH_DATE, _slash_date), (_CLOCK, _clock)):
        for found in pattern.finditer(text):
            if quantity := read_one(found):
                taken.append(quantity)
                text = f"{text[: found.start()]}{'⋅' * len(found[0])}{text[found.end() :]}"
    taken += filter(None, (_number(found, text) for found in _NUMBER.finditer(text)))
    dates = tuple(quantity for quantity in taken if isinstance(quantity, Date))
    numbers = tuple(quantity for quantity in taken if isinstance(quantity, Number))
    years = {year for day in dates for year in day.years} | {int(n.plain) for n in numbers if 1000 <= n.plain <= 2200}
    return Quantities(numbers, dates, frozenset(years))


def _iso_date(found: re.Match[str]) -> Date:
    return Date(found[0].strip(), ((int(found[1]), int(found[2]), int(found[3]) if found[3] else None),))


def _named_date(found: re.Match[str]) -> Date | None:
    """Return a date with its month's name; None for a verb, a name, or an abbreviation of something else."""
    day, year, month = found["d"] or found["e"], found["y"], found["m"].lower()
    if not (day or year) and (not found["m"][0].isupper() or month in _ALSO_WORDS or len(month) < 4):
        return None
    return Date(found[0].strip(), ((int(year) if year else None, _MONTH[month], int(day) if day else None),))


def _slash_date(found: re.Match[str]) -> Date | None:
    """Return a date of numbers alone, its day before or behind the month; None where there is no such date."""
    one, two, year = int(found[1]), int(found[3]), int(found[4] or 0)
    written = 2000 + year if len(found[4] or "") == 2 else year or None
    days = {(m, d) for m, d in ((one, two), (two, one)) if 1 <= m <= 12 and 1 <= d <= 31 and (year or found[2] == "/")}
    return Date(found[0].strip(), tuple((written, m, d) for m, d in days)) if days else None


def _clock(found: re.Match[str]) -> Number:
    """Return a time of day in minutes; without "am" or "pm", "8:35" may be morning or evening."""
    hour, minute, half = int(found[1] or found[4]), int(found[2] or found[5] or 0), (found[3] or "").lower()
    either = {hour, (hour + 12) % 24} if hour <= 12 else {hour}
    hours = {hour % 12 + (12 if half == "p" else 0)} if half else either
    return Number(found[0].strip(), tuple(Reading("clock", h * 60.0 + minute, hour, 0.0) for h in sorted(hours)), hour)


def _number(found: re.Match[str], text: str) -> Number | None:
    """Return the number found, with its magnitude and unit; None for an article."""
    word, coin = (found["word"] or "").lower(), (found["coin"] or "").lower()
    behind: Any = _BEHIND.match(text, found.end())
    magnitude, unit = ((behind[name] or "").lower() for name in ("magnitude", "unit"))
    if word in ("a", "an", "one", "half") and not magnitude:
        return None
    values = _plain(found["digits"]) if found["digits"] else (_whole(sum(_WORDS[part] for part in re.split("[- ]", word))),)
    # What stands behind a number may be a magnitude, a unit, or either: "5m".
    ways = [(coin or unit, _FACTORS.get(magnitude, 1.0))]
    if magnitude in _UNITS and not coin:
        ways.append((magnitude, 1.0))
    if not (magnitude or unit) and (range_end := _RANGE.match(text, found.end())):
        ways.append((coin or (range_end["unit"] or "").lower(), _FACTORS.get((range_end["magnitude"] or "").lower(), 1.0)))
    before, plain = text[max(0, found.start() - 24) : found.start()].rstrip(), values[0][0]
    sign = -1 if before.endswith("minus") or _MINUS.fullmatch(text[max(0, found.start() - 2) : found.start()]) else 1
    readings = tuple(
        Reading(kind, own * scale + offset, own, half * factor, scale, place > 0)
        for place, (value, half) in enumerate(values)
        for name, factor in dict.fromkeys(ways)
        for own, (kind, scale, offset) in [(sign * value * factor, _UNITS.get(name, ("", 1.0, 0.0)))]
    )
    is_above = _ABOVE.search(before) or _OR_MORE.match(text, behind.end())
    bound = 1 if is_above else -1 if _BELOW.search(before) or _OR_LESS.match(text, behind.end()) else 0
    loose = 0.25 if bound else _roundness(plain) if _ABOUT.search(before) else 0.0
    if found["tens"] and plain and plain % 10 == 0:
        bound, loose = 1, 9.5 / plain
    demanded = word not in _LOOSE or (magnitude != "" and word not in ("a", "an"))
    return Number(text[found.start() : behind.end()].strip(), readings, plain, bound, loose, demanded)


def _roundness(value: float) -> float:
    """Return half of the last digit that is not 0, as a share: "about 300,000" may stand for 284,000, "about 290,000" not."""
    digits = f"{value:.10g}".rstrip("0").rstrip(".").lstrip("0.").replace(".", "")
    return min(0.1, 0.5 / int(digits or 1))


def _whole(value: float) -> tuple[float, float]:
    """Return a whole number and half of its last digit's worth; small ones are seldom rounded."""
    return value, min(0.5, 0.05 * value)


def _plain(digits: str) -> tuple[tuple[float, float], ...]:
    """Return the ways to read digits with separators: value and half of the last digit's worth."""
    digits = re.sub(r"[ \u202f'’]", "", digits)
    if "," in digits and "." in digits:
        digits = digits.replace(min(",.", key=digits.index), "").replace(",", ".")
    parts = re.split("[.,]", digits)
    grouped = _whole(float("".join(parts)))
    if len(parts) != 2:
        return (grouped,)
    decimal = (float(".".join(parts)), 0.5 * 10.0 ** -len(parts[1]))
    if len(parts[1]) != 3:
        return (decimal,)
    return (grouped, decimal) if "," in digits and digits[0] != "0" else (decimal, grouped)
