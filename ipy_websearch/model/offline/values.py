"""Values: what a sentence gives for a question of a certain kind, and how that fits a JSON schema's type.

Nothing is worked out and nothing is made up: a value is words or figures of the sentence, or there is none. The one change
ever made to a figure is the scale that a column asks for ("in millions").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ipy_websearch.model.offline.amounts import find_number
from ipy_websearch.model.offline.claims import find_boolean, is_said_to_be
from ipy_websearch.model.offline.clauses import said_of
from ipy_websearch.model.offline.colours import asks_for_colour, find_colour
from ipy_websearch.model.offline.found import Found
from ipy_websearch.model.offline.names import find_name
from ipy_websearch.model.offline.persons import find_person
from ipy_websearch.model.offline.places import find_continent, find_place
from ipy_websearch.model.offline.question import Kind, Question
from ipy_websearch.model.offline.words import SOFT, located, related, stem
from ipy_websearch.model.offline.years import find_year

_SCALED = re.compile(r"(?:\bin\s+|\(\s*(?:in\s+)?|_|\b)(thousands?|millions?|billions?)\b", re.IGNORECASE)
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_PLACE_SOUGHT = re.compile(
    r"^\W*(?:in|at|on|near)\s+(?:which|what)\s+(country|state|city|town|village|place|region)\s+(?:was|were|did)\b",
    re.IGNORECASE,
)
_DEFINES = re.compile(r"^[^.;:]{0,40}?\b(?:is|are|was|were|refers?\s+to|means)\b")
_MONTHS = "January February March April May June July August September October November December"
_MONTH = "|".join(_MONTHS.split())
_DATE = re.compile(
    rf"\b(?:(?P<d1>\d{{1,2}})\s+(?P<m1>{_MONTH})\s+(?P<y1>\d{{4}})|(?P<m2>{_MONTH})\s+(?P<d2>\d{{1,2}}),?\s+(?P<y2>\d{{4}})"
    r"|(?P<y3>\d{4})-(?P<m3>\d{2})-(?P<d3>\d{2}))\b"
)


def find(kind: Kind, question: Question, text: str, title: str = "") -> Found | None:
    """Return the value of that kind that a sentence gives for a question, None when it gives none.

    `title` is the title of the sentence's page, which its pronouns stand for.
    """
    match kind:
        case "number":
            return find_number(question, text)
        case "year":
            return find_year(question, text, title)
        case "person":
            return find_person(question, text, title)
        case "place":
            return find_place(question, text)
        case "name":
            return _find_name(question, text, title)
        case "boolean":
            return find_boolean(question, text, title)
        case "definition":
            return _find_definition(question, text, title)
        case "text":
            return None


def _find_name(question: Question, text: str, title: str) -> Found | None:
    """What a "which" or "what" asks for: a colour, a continent, a place where something was done, else a name."""
    if asks_for_colour(question):
        return find_colour(question, text, title)
    if stem("continent") in question.stems:
        return find_continent(question, text)
    if question.about and (sought := _PLACE_SOUGHT.match(question.text)):
        # "in Cornwall" is a place, but whether it is a country or a city is not said
        return find_place(question, text) if sought[1].lower() in ("place", "region") else None
    return find_name(question, text, title)


def _find_definition(question: Question, text: str, title: str) -> Found | None:
    """The sentence itself, when it begins with the asked thing and says what that is."""
    match = _DEFINES.match(text)
    if match is None:
        return None
    lead = [word.stem for word in located(match[0])]
    lead = lead[1:] if lead[:1] == ["the"] else lead
    names = [[word.stem for word in located(title)], [stem(term) for term in question.terms]]
    names += [[word.stem for word in located(entity)] for entity in question.entities]
    about = any(name and set(name) & question.stems and lead[: len(name)] == name for name in names) and len(lead) <= 10
    says_what = re.match(r"\s+(?:an?|the|one)\b", text[match.end() :])
    return Found(text, (0.9 if says_what else 0.6) if about else 0.2, 0, len(text))


def scale_asked(text: str) -> int:
    """Return what a column's name or question divides its figures by: "population in millions" gives 1,000,000."""
    match = _SCALED.search(text.replace("_", " _"))
    return _SCALES[match[1].lower().rstrip("s")] if match else 1


def date_in(text: str, near: int = 0) -> str | None:
    """Return the full date in a text that stands nearest to a place in it, as YYYY-MM-DD; None when there is none."""
    dates = sorted(_DATE.finditer(text), key=lambda m: abs(m.start() - near))
    if not dates:
        return None
    parts = dates[0].groupdict()
    year = parts["y1"] or parts["y2"] or parts["y3"]
    month = parts["m3"] or _MONTHS.split().index(parts["m1"] or parts["m2"]) + 1
    day = parts["d1"] or parts["d2"] or parts["d3"]
    return f"{year}-{int(month):02d}-{int(day):02d}"


def types_of(schema: Mapping[str, Any]) -> set[str]:
    """Return the JSON types that a schema allows, through `anyOf`, `oneOf`, `enum` and `const`."""
    kinds = schema.get("type")
    found = {kinds} if isinstance(kinds, str) else set(kinds or ())
    for name in ("anyOf", "oneOf", "allOf"):
        for option in schema.get(name) or ():
            found |= types_of(option)
    for value in schema.get("enum") or ([schema["const"]] if "const" in schema else ()):
        found.add("null" if value is None else "string" if isinstance(value, str) else "number")
    return found or {"string"}


def choices_of(schema: Mapping[str, Any]) -> list[Any]:
    """Return the values that a schema lists, without null; empty when it lists none."""
    listed = list(schema.get("enum") or ([schema["const"]] if "const" in schema else []))
    for name in ("anyOf", "oneOf"):
        for option in schema.get(name) or ():
            listed += choices_of(option)
    return [value for value in listed if value is not None]


def choice_answers(question: Question, found: Found, text: str, title: str) -> bool:
    """Return whether a choice that stands in a sentence is what a record asks of its thing, and not a word in passing.

    The sentence says what was asked ("is listed on the exchange …"), or that the thing is the choice, or a name is said of it.
    """
    choice = str(found.value)
    own = {stem(word) for word in re.split(r"[\W_]+", choice)}
    said = {word.stem for word in located(text)}
    if any(term[:1].isdigit() and term not in said for term in question.stems):
        return False
    asked = question.aspect - SOFT - own
    if asked and all(term in said or not related(term).isdisjoint(said) for term in asked):
        return True
    if any(is_said_to_be(group, choice, text, title) for group in question.about):
        return True
    named = len(choice) > 2 and choice[0].isupper() and choice in text
    return named and any(said_of(group, text, found.start, title, question.aspect) for group in question.about)


def choice_in(choices: Sequence[Any], question: Question, text: str) -> Found | None:
    """Return the choice that a sentence names, the one nearest to the question's other words; None when it names none."""
    spots = [w.start for w in located(text) if w.stem in question.aspect]
    best: Found | None = None
    for choice in choices:
        words = [stem(w) for w in re.split(r"[\W_]+", str(choice)) if w]
        for at, word in enumerate(located(text)):
            if words and word.stem == words[0] and [w.stem for w in located(text)[at : at + len(words)]] == words:
                near = min((abs(word.start - spot) for spot in spots), default=60)
                strength = 0.9 / (1 + near / 200)
                if best is None or strength > best.strength:
                    best = Found(choice, strength, word.start, located(text)[at + len(words) - 1].end)
    return best
