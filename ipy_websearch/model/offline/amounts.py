"""Amounts: the figure or the year in a sentence that a question asks for.

A sentence often holds several ("melts at 1538 °C and boils at about 2860 °C"). The one is taken that stands nearest to the
words of the question and has a fitting unit; a figure of another kind of unit is never taken, and none is worked out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from ipy_websearch.model.offline import lexicon
from ipy_websearch.model.offline.clauses import is_denied, is_only_a_part, owner_of
from ipy_websearch.model.offline.figures import Figure, figures
from ipy_websearch.model.offline.found import Found
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.units import is_other_unit, things_besides, unit_of
from ipy_websearch.model.offline.words import SOFT, Word, located, related, stem

_FAMILY_WORDS = {
    "area": "area square",
    "temperature": "temperature hot cold melting boiling freezing",
    "length": "high long deep wide diameter radius circumference far",
    "density": "density",
    "speed": "fast",
    "mass": "mass",
    "time": "period old age rotation year day",
    "people": "population",
    "percent": "percentage percent",
}
_FAMILIES = {stem(word): family for family, words in _FAMILY_WORDS.items() for word in words.split()}
_TIMED = "year day night orbit rotation last take journey trip flight month"
_LASTING = frozenset(map(stem, _TIMED.split()))
_BELONGS = re.compile(r"\b(?:of|in|on|at|around|for|by|from|to|across)\s+(?:[\w-]+\s+){0,3}$", re.IGNORECASE)
_MEASURES = frozenset(map(stem, "long high large deep wide old hot cold fast far heavy temperature area mass period".split()))
"""Words that the unit of a figure says: "1538 °C" is a temperature."""
_INDEX = re.compile(
    r"^\W*(?:(?:in|on|at|of|to)\s+)?(?:which|what)\s+(?!is\b|are\b|was\b|were\b|does\b|do\b|did\b|has\b|the\b)([a-z]+)\s+"
    r"(?:is|are|was|were|does|do|did|has|of|belongs)\b",
    re.IGNORECASE,
)
_PLAIN = frozenset(map(stem, ["known", "natural", "confirmed", "other"]))
_UP_TO_COUNT = re.compile(
    r"(?:\s*[:=(–-]\s*|\s+(?:of|in|is|are|was|were|about|around|[A-Z]\w*|the|estimated|at|only|more|over|than|nearly|almost|"
    r"roughly)\b)*\s*"
)
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_COUNTS = "percentage share fraction proportion amount sum kind type sort size unit value degree average altitude rank position"
_QUANTITIES = frozenset(map(stem, [*lexicon.NUMERIC.split(), *_COUNTS.split(), *_TIMED.split()])) - {stem("period")}
_PLACE_WORDS = frozenset(map(stem, ["position", "order", "rank", "place", "ordinal", "which", "number"]))


def find_number(question: Question, text: str) -> Found | None:
    """Return the figure of a sentence that answers the question, None when none fits."""
    if question.counted:
        return _counted(question, text)
    if is_only_a_part(question.subjects, text) or (
        question.about and not things_besides(question) <= {w.stem for w in located(text)}
    ):
        return None
    family = family_of(question)
    candidates = [f for f in figures(text) if not f.is_year and _fits(f, text, family) and not is_other_unit(question, f, text)]
    if (index := _INDEX.match(question.text)) and stem(index[1]) not in _QUANTITIES:
        return _numbered(stem(index[1]), candidates, text)
    cardinals = [f for f in candidates if not f.ordinal]
    if not cardinals and question.stems & _PLACE_WORDS:
        cardinals = candidates
    wanted = set(question.aspect - SOFT or question.aspect)
    held = any(unit_of(f, text) == family for f in cardinals) if family else False
    if not all(_is_said(term, question, text) or (held and term in _MEASURES) for term in wanted):
        return None  # asked for the atomic weight, "the atomic number 86" has a figure but not the weight's
    best = nearest(cardinals, wanted, text, lambda f: 0.3 if family and unit_of(f, text) == family else 0.0)
    if best is None and len(question.entities) > 1 and question.entity_stems <= {w.stem for w in located(text)}:
        # "Jupiter is about 778 million kilometres from the Sun" names no distance, but both ends of it and its unit
        fitting = [f for f in cardinals if family and unit_of(f, text) == family]
        best = (fitting[0], 0.45) if len(fitting) == 1 else None
    return Found(best[0].value, best[1], best[0].start, best[0].end) if best else None


def _is_said(term: str, question: Question, text: str) -> bool:
    """Return whether a sentence says a word of the question, does not deny it, and does not say it of another by name."""
    leads = bool(located(text)) and any(w.stem in question.entity_stems for w in located(text)[:2])
    return any(
        (word.stem == term or word.stem in related(term))
        and not is_denied(text, word.start)
        and (leads or owner_of(text, word.end, question.subjects) is not False)
        for word in located(text)
    )


def _numbered(noun: str, candidates: Iterable[Figure], text: str) -> Found | None:
    """Return the number that names a thing: "group 18", "the seventh row"; "18 groups" counts them."""
    for figure in candidates:
        before = located(text[: figure.start])[-1:]
        after = located(text[figure.end :])[:1]
        if (before and before[0].stem == noun and not figure.ordinal) or (after and after[0].stem == noun and figure.ordinal):
            return Found(figure.value, 0.9, figure.start, figure.end)
    return None


def family_of(question: Question) -> str | None:
    """Return the kind of unit that an answer must have ("length", "area", …), None when any will do."""
    if "atomic" in question.stems:
        return None
    if stem("long") in question.stems and question.stems & _LASTING:
        return "time"
    for term in map(stem, question.terms):
        if term in _FAMILIES and term in question.aspect:
            return _FAMILIES[term]
    return None


def _fits(figure: Figure, text: str, family: str | None) -> bool:
    unit = unit_of(figure, text)
    if family is None or unit == family:
        return True
    return unit is None and family in ("people", "percent") or (family == "people" and unit is None)


def nearest(
    candidates: Iterable[Figure],
    wanted: set[str],
    text: str,
    bonus: Callable[[Figure], float],
    *,
    weighed: Collection[str] = (),
) -> tuple[Figure, float] | None:
    """Return the figure that stands nearest to the wanted words (`weighed` ones count twice) and how near, 0 to 1."""
    places = places_of(wanted, text) + 2 * places_of(set(weighed), text)
    best: tuple[Figure, float] | None = None
    all_figures = [f for f in figures(text) if not f.ordinal]
    for figure in candidates:
        near = sum(
            max((_closeness(w, figure, all_figures, text) * weight for w, weight in hits), default=0.0) for hits in places
        )
        strength = near / max(len(places), 1)
        if strength > 0:
            strength = min(1.0, strength + bonus(figure))
        if strength > 0 and (best is None or strength > best[1]):
            best = figure, strength
    return best


def places_of(wanted: set[str], text: str) -> list[list[tuple[Word, float]]]:
    """Return for each wanted stem where it stands in the text; words that may stand for it count 0.7."""
    found = []
    for term in sorted(wanted):
        others = related(term)
        found.append([(w, 1.0 if w.stem == term else 0.7) for w in located(text) if w.stem == term or w.stem in others])
    return found


def _closeness(word: Word, figure: Figure, others: list[Figure], text: str) -> float:
    """Return 1 for a word beside the figure, less for one farther off or with another figure or a clause between."""
    low, high = (word.end, figure.start) if word.end <= figure.start else (figure.end, word.start)
    between = text[low:high]
    distance = between.count(" ")
    closeness = 1.0 / (1.0 + 0.15 * max(distance - 1, 0))
    closeness *= 0.5 ** sum(
        low <= other.start < high for other in others if other is not figure and other.start != figure.start
    )
    parted = bool(re.search(r"[;:]|,\s|\sand\s", between))
    if word.end <= figure.start:
        return closeness * (0.6 if parted else 1.0)
    return closeness * (0.3 if parted else 0.9)


def _counted(question: Question, text: str) -> Found | None:
    """Return the figure that counts the asked noun: "two small moons", "no known moons", "moons: 2"."""
    head = question.counted[-1]
    modifiers = question.counted[:-1]
    spots = located(text)
    best: Found | None = None
    if question.about and not all(_is_said(term, question, text) for term in question.aspect - SOFT - set(question.counted)):
        return None  # "How many people live in the capital of France" is not how many live in France
    for at, word in enumerate(spots):
        if word.stem != head and word.stem not in related(head):
            continue
        found = _counting_before(text, at, frozenset(modifiers)) or _counting_after(text, at)
        nearby = {w.stem for w in spots[max(0, at - 4) : at + 1]}
        if found is None or (word.stem != head and not nearby.issuperset(modifiers)):
            continue
        strength = found.strength * (1.0 if all(m in nearby for m in modifiers) else 0.6)
        strength *= 1.0 if _counts_for(question, text, found) else 0.3
        if best is None or strength > best.strength:
            best = Found(found.value, strength, found.start, found.end)
    return best or _counting_people(question, text)


def _counting_people(question: Question, text: str) -> Found | None:
    """Return the figure of "1,500 died": people are often counted without the word."""
    if stem("people") not in question.counted:
        return None
    for figure in figures(text):
        after = re.match(r"\s+(?:(?:were|have|had|been)\s+)*(\w+)", text[figure.end :])
        if after and not figure.is_year and not figure.ordinal and stem(after[1]) in question.aspect:
            return Found(figure.value, 0.7, figure.start, figure.end)
    return None


def _counts_for(question: Question, text: str, found: Found) -> bool:
    """Return whether the count is of the asked thing's: "Mars has two moons, Phobos and Deimos" counts none of Phobos'."""
    places = [word for word in located(text) if word.stem in question.entity_stems]
    if not places or any(word.start < found.end for word in places):
        return True
    first = min(places, key=lambda word: word.start)
    return bool(_BELONGS.search(text[found.end : first.start]))


def _counting_before(text: str, at: int, modifiers: frozenset[str]) -> Found | None:
    spots = located(text)
    word = spots[at]
    for figure in reversed(figures(text)):
        between = text[figure.end : word.start]
        if figure.end <= word.start and len(between.split()) <= 3 and not re.search(r"[,;:()]", between):
            if part := _part_of(figure, text):
                return Found(part.value, 0.9, part.start, word.end)  # "20 of the 27 member states"
            if figure.ordinal or figure.is_year or (re.search(r"\b(?:the|of the|these)\s+$", text[: figure.start], re.I)):
                # "one of the two moons" and "the four big moons" do not count them all
                return None if figure.ordinal or figure.is_year else Found(figure.value, 0.5, figure.start, word.end)
            return Found(figure.value, 1.0, figure.start, word.end)
    none = re.search(r"\b(no|without)\s+((?:[a-z]+\s+){0,2})$", text[: word.start], re.I)
    if none and not {w.stem for w in located(none[2])} <= modifiers | _PLAIN:
        return None  # "no stable isotopes" are not no isotopes
    return Found(0, 0.9, none.start(), word.end) if none else None


def _part_of(figure: Figure, text: str) -> Figure | None:
    """Return the figure that this one is the whole of."""
    for other in figures(text):
        if other.end < figure.start and re.fullmatch(r"\s+of\s+(?:the|its|their)\s+", text[other.end : figure.start]):
            return other
    return None


def _counting_after(text: str, at: int) -> Found | None:
    word = located(text)[at]
    for figure in figures(text):
        between = text[word.end : figure.start]
        if figure.start >= word.end and not figure.ordinal and not figure.is_year and unit_of(figure, text) in (None, "people"):
            plain = _UP_TO_COUNT.fullmatch(between)
            return Found(figure.value, 0.8, word.start, figure.end) if plain and len(between.split()) <= 6 else None
    return None
