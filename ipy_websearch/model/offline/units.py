"""Units: what a figure counts or measures, and whether that is the unit that a question asks for.

Nothing is converted: asked for kelvin, a figure in °C is none.
"""

from __future__ import annotations

import re

from ipy_websearch.model.offline.figures import Figure
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.words import SOFT

_UNITS = {
    "area": r"square|km²|km2|km\^2|sq\b|hectares?|acres?|m²",
    "temperature": r"°|degrees?(?:\s+(?:celsius|fahrenheit))|kelvin|K\b|℃",
    "speed": r"km/h|km/s|m/s|mph|(?:kilomet\w+|met(?:re|er)s?|miles?)\s+(?:per|an|a)\s",
    "density": r"g/cm|kg/m|grams?\s+per|kilograms?\s+per",
    "length": r"km\b|kilomet\w+|met(?:re|er)s?\b|m\b|miles?\b|feet\b|foot\b|ft\b|cm\b|mm\b|centimet\w+|light[- ]years?|"
    r"astronomical|au\b",
    "mass": r"kg\b|t\b|kilograms?|tonnes?|tons?\b|grams?\b|pounds?\b|lb\b",
    "time": r"(?:earth\s+|solar\s+)?(?:days?|hours?|years?|minutes?|months?|seconds?|weeks?|centuries|decades)\b",
    "percent": r"%|per\s?cent",
    "people": r"people|inhabitants?|residents?|persons?",
}
_UNIT = re.compile("|".join(rf"(?P<{name}>{pattern})" for name, pattern in _UNITS.items()), re.IGNORECASE)
_ASKED_UNIT = re.compile(r"(?:\bin\s+|\()((?:°|[A-Za-z]).*)")
_NAMES_OF_UNITS = {
    "square_km": r"square\s+kilomet|km²|km2|km\^2|sq\.?\s+km",
    "square_mile": r"square\s+mile|sq\.?\s+mi|mi²",
    "square_metre": r"square\s+met|m²",
    "hectare": r"hectares?\b|ha\b",
    "acre": r"acres?\b",
    "speed_km": r"km/|kilomet\w+\s+(?:per|an)\b",
    "speed_mile": r"mph\b|miles?\s+(?:per|an)\b",
    "celsius": r"°\s?C\b|℃|(?:degrees?\s+)?celsius|C\b",
    "fahrenheit": r"°\s?F\b|(?:degrees?\s+)?fahrenheit|F\b",
    "kelvin": r"kelvins?\b|K\b|°\s?K\b",
    "km": r"km\b|kilomet",
    "mile": r"miles?\b|mi\b",
    "light_year": r"light[- ]year",
    "metre": r"met(?:re|er)s?\b|m\b",
    "foot": r"feet\b|foot\b|ft\b",
    "centimetre": r"cm\b|centimet",
    "millimetre": r"mm\b|millimet",
    "inch": r"inch",
    "kilogram": r"kg\b|kilogram",
    "tonne": r"tonnes?\b|tons?\b|t\b",
    "pound": r"pounds?\b|lbs?\b",
    "gram": r"grams?\b|g\b",
    "second": r"seconds?\b|s\b",
    "minute": r"minutes?\b",
    "hour": r"hours?\b|h\b",
    "day": r"(?:earth\s+|solar\s+)?days?\b",
    "week": r"weeks?\b",
    "month": r"months?\b",
    "year": r"(?:earth\s+)?years?\b",
}
_UNIT_NAME = re.compile("|".join(rf"(?P<{name}>{pattern})" for name, pattern in _NAMES_OF_UNITS.items()), re.IGNORECASE)
_UNIT_WORDS = frozenset("us earth solar celsius fahrenheit kelvin".split()) | SOFT


def unit_of(figure: Figure, text: str) -> str | None:
    """Return the kind of the unit that follows a figure, None when no known one does."""
    match = _UNIT.match(text[figure.end : figure.end + 40].lstrip(" -\u00a0\u202f"))
    return match.lastgroup if match else ("money" if figure.money else None)


def is_other_unit(question: Question, figure: Figure, text: str) -> bool:
    """Return whether a figure is in another unit than the question asks for: nothing is converted."""
    asked = _ASKED_UNIT.search(question.text)
    if asked is None:
        return False
    wanted = _unit_name(question.text[asked.start(1) :])
    given = _unit_name(text[figure.end : figure.end + 40].lstrip(" -\u00a0\u202f"))
    return bool(wanted and given) and wanted != given


def _unit_name(text: str) -> str:
    match = _UNIT_NAME.match(text)
    return str(match.lastgroup) if match else ""


def things_besides(question: Question) -> frozenset[str]:
    """Return the stems of what a question names besides the things it is about and units: the CAS of "CAS number"."""
    own = frozenset().union(*question.subjects) if question.subjects else question.entity_stems
    return frozenset(s for s in question.entity_stems - own - _UNIT_WORDS if len(s) > 1)
