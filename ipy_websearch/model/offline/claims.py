"""Claims: whether a sentence says yes or no to "Is gold a gas?", "Is France in Europe?", "Does Saturn have rings?".

Yes needs every word of the claim, said of the asked thing in one clause and in the way it was asked; no needs the same with
one denial in front of it. What is said of another thing, in passing, or of the past answers nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ipy_websearch.model.offline.clauses import Clause, clauses, said_of
from ipy_websearch.model.offline.found import Found
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.words import Word, is_stop, located, stem, stems

_ASKS = re.compile(r"^\W*(is|are|was|were|does|do|did|can|could|has|have|had|will|would|should)\s+(?:the\s+)?", re.IGNORECASE)
_TO_BE = frozenset(["is", "are", "was", "were", ""])
_COPULA = re.compile(r"\b(is|are|was|were|became|remains?|(?:has|have)\s+been)\b")
_PLACE = re.compile(r"^(?:located\s+|situated\s+|a\s+part\s+of\s+|part\s+of\s+)?(?:in|on|at|within|inside|of)\s+")
_INSIDE = re.compile(
    r"\b(?:with|without|of|for|in|by|from|like|as|at|on|than|to|after|that|which|who|whose|whom|where|when|into|between|near|if|"
    r"made|used|called|named|known)\b"
)
_COMPLEMENT = re.compile(
    r",?\s+and\s+(?=(?:an?|the|is|are|also)\s)|\b(?:that|which)\s+(?:is|are)\s+|\b(?:is|are|was|were)\s+(?:also\s+)?(?=(?:an?|the)\s)"
)
_ONE_OF = re.compile(r"\bone\s+of\s+(?:the\s+)?")
_RANKED = re.compile(
    r"\b(?:second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:nd|rd|th)|one\s+of\s+the|among\s+the)\s+$"
)
_SUPERLATIVE = re.compile(r"\w{2,}est|most|least|only|first|last", re.IGNORECASE)
_HOLDS = re.compile(r"\b(?:has|have|had|with|without|contains?|holds?|owns?|possess(?:es)?|lacks?)\s+(?:[\w-]+\s+){0,4}$")
_WITHIN = re.compile(
    r"(?:\b(?:in|within)|\b(?:part|country|state|nation|city|member|region|island|kingdom|place)\s+of|\bbelongs\s+to)\s+"
    r"(?:the\s+)?(?:(?:far\s+)?[\w-]*(?:north|south|east|west|central|western|eastern|northern|southern|mainland|present-day)[\w-]*\s+"
    r"(?:and\s+)?)?(?:[A-Z][\w-]+\s+and\s+(?:[a-z]+ern\s+)?)?$",
    re.IGNORECASE,
)
_JOINED = re.compile(r"\bjoined\s+(?:the\s+)?(?:[A-Z][\w ]*\s(?:in\s+)?(?:\w+\s+)?\d{4}\s+and\s+(?:the\s+)?)?$")
_LEFT = re.compile(r"\b(?:left|quit|withdrew\s+from)\s+(?:the\s+)?$")
_DENIAL = re.compile(r"\b(?:not|no|never|neither|nor|cannot|without|lacks?|lacked)\b|n['’]t\b", re.IGNORECASE)
_UNSURE = re.compile(
    r"\b(?:hardly|rarely|scarcely|barely|once|formerly|former|until|maybe|perhaps|possibly|may|might|could|should|would|planned|"
    r"almost|nearly|not\s+only|not\s+just|used\s+to|if|except|unless|some|sometimes|alleged|so-called|failed)\b",
    re.IGNORECASE,
)
_SEEMING = frozenset(map(stem, "dwarf minor fake artificial imitation potential would-be fictional proposed non".split()))
_SAYING = frozenset(["won", "named", "called"])
_ENTAILED = {stem("member"): frozenset([stem("joined")]), stem("use"): frozenset([stem("currency")])}
Way = Literal["thing", "place", "quality", "act", "having"]


@dataclass(frozen=True, slots=True)
class Claim:
    """What is asked about a thing. `phrases` are the stems of its words, cut at its small words; `now` is the present tense."""

    about: frozenset[str]
    name: str
    phrases: tuple[tuple[str, ...], ...]
    way: Way
    now: bool
    superlative: bool


def find_boolean(question: Question, text: str, title: str = "") -> Found | None:
    """Return whether a sentence affirms or denies what the question asks, None when it says neither."""
    claim = read_claim(question)
    if claim is None or text.rstrip().endswith("?"):
        return None
    for clause in clauses(text):
        said = _says(claim, text, clause, title)
        if said is not None:
            return Found(said, 0.9, clause.start, clause.end)
    return None


def is_said_to_be(about: frozenset[str], what: str, text: str, title: str = "") -> bool:
    """Return whether a sentence says that a thing is what a word names: "Spain is a monarchy"."""
    phrases = _phrases(what, about)
    claim = Claim(about, "", phrases, "thing", True, False)
    return bool(phrases) and any(_says(claim, text, clause, title) is True for clause in clauses(text))


def read_claim(question: Question) -> Claim | None:
    """Return what a yes-or-no question claims; of a property without a question ("eu_member") all words are the claim."""
    text = re.sub(r"\s*\([^()]*\)\s*$", "", question.text.rstrip(" ?"))
    asks = _ASKS.match(text)
    rest = text[asks.end() :] if asks else text
    about, name, predicate = _split(question, rest, asked=asks is not None)
    phrases = _phrases(predicate, about)
    if not about or not phrases or (asks and any(word.stem in about for word in located(predicate))):
        return None
    auxiliary = asks[1].lower() if asks else ""
    superlative = any(_SUPERLATIVE.fullmatch(word) for word in predicate.split())
    now = auxiliary in ("is", "are", "does", "do", "can", "has", "have", "")
    return Claim(about, name, phrases, _way(auxiliary, predicate), now and auxiliary not in ("has", "have"), superlative)


def _split(question: Question, rest: str, *, asked: bool) -> tuple[frozenset[str], str, str]:
    """Return what a claim is about (stems and name), and the rest of it."""
    if asked:
        for entity in sorted(question.entities, key=len, reverse=True):
            if rest.lower().startswith(entity.lower()):
                return frozenset(stems(entity)), entity, rest[len(entity) :].strip()
        for group in question.about:
            lead = [w for w in located(rest)][: len(group)]
            if lead and {w.stem for w in lead} == group:
                return group, rest[: lead[-1].end], rest[lead[-1].end :].strip()
    group = (
        question.about[0]
        if question.about
        else frozenset(stems(question.entities[0]))
        if question.entities
        else question.entity_stems
    )
    kept = [w for w in located(rest) if w.stem not in group]
    return group, "", " ".join(w.text for w in kept)


def _way(auxiliary: str, predicate: str) -> Way:
    if auxiliary not in _TO_BE:
        having = auxiliary in ("does", "do", "did") and re.match(r"(?:have|has|contain|possess|own)\b", predicate)
        return "having" if having else "act"
    if re.match(r"(?:an?|the|one\s+of)\s", predicate):
        return "thing"
    return "place" if _PLACE.match(predicate) else "quality"


def _phrases(predicate: str, about: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Return the content words of a claim, those that stand together as one phrase."""
    found: list[list[str]] = [[]]
    for word in located(predicate):
        if (is_stop(word.text) and not word.text.isupper() and word.text not in _SAYING) or word.stem in about:
            found.append([])
        elif found[-1] and predicate[word.start - 1 : word.start] not in (" ", "-"):
            found.append([word.stem])
        else:
            found[-1].append(word.stem)
    return tuple(tuple(phrase) for phrase in found if phrase)


def _says(claim: Claim, text: str, clause: Clause, title: str) -> bool | None:
    spots = [word for word in located(text) if clause.start <= word.start < clause.end]
    places, negative = _find(claim.phrases, spots)
    if not places:
        return None
    first, last = places[0], max(place[-1].start for place in places)
    aspects = {s for phrase in claim.phrases for s in phrase} | {
        o for p in claim.phrases for s in p for o in _ENTAILED.get(s, ())
    }
    turned = _turned(claim, text, clause, spots)
    if not turned and not said_of(claim.about, text, last, title, aspects):
        return None
    verdict = True if turned else _fits(claim, text[clause.start : first[0].start], text[first[0].start : clause.end], first[0])
    if verdict is None:
        return None
    before, between = text[clause.start : first[0].start], text[first[0].start : last]
    if _UNSURE.search(text[clause.start : clause.end]) or _DENIAL.search(between):
        return None
    denials = len(_DENIAL.findall(before)) + negative
    if denials > 1 or (denials and (not verdict or turned)):
        return None
    return verdict if not denials else False


def _find(phrases: Sequence[tuple[str, ...]], spots: Sequence[Word]) -> tuple[list[list[Word]], int]:
    """Return where each phrase stands, and 1 when its word stands there with "non"; nothing when one of them is missing."""
    found: list[list[Word]] = []
    negative = 0
    for phrase in phrases:
        place = _place_of(phrase, spots)
        if place is None and len(phrases) == len(phrase) == 1:
            place = next(([w] for w in spots if w.stem in (f"non{phrase[0]}", f"un{phrase[0]}")), None)
            negative = int(place is not None)
        if place is None:
            return [], 0
        found.append(place)
    return found, negative


def _place_of(phrase: tuple[str, ...], spots: Sequence[Word]) -> list[Word] | None:
    """Return the words of a phrase in their order, with no small words between them."""
    head = phrase[-1]
    for at, word in enumerate(spots):
        if word.stem != head and word.stem not in _ENTAILED.get(head, ()):
            continue
        if at and spots[at - 1].stem in _SEEMING and spots[at - 1].stem not in phrase:
            continue
        found = [word]
        wanted = list(phrase[:-1])
        for before in reversed(spots[:at]):
            if not wanted or (is_stop(before.text) and before.text.lower() != "and"):
                break
            if before.stem == wanted[-1] or before.stem in _ENTAILED.get(wanted[-1], ()):
                found.insert(0, before)
                wanted.pop()
        if not wanted:
            return found
    return None


def _fits(claim: Claim, before: str, after: str, first: Word) -> bool | None:
    """Return True when the words before the claim's first word say it in the way it was asked, False when they end it."""
    if claim.now and (copulas := _COPULA.findall(before)) and copulas[-1] in ("was", "were"):
        return None
    if claim.way == "having":
        return True if _HOLDS.search(before) else None
    if claim.way == "act":
        return True
    if claim.way == "place":
        return False if _LEFT.search(before) else True if _WITHIN.search(before) or _JOINED.search(before) else None
    if _JOINED.search(before) or re.match(r"joined\b", after):
        return True if first.stem == stem("joined") else None
    return _is_complement(claim, before, first)


def _is_complement(claim: Claim, before: str, first: Word) -> bool | None:
    """Return True when the claim's first word tells what the thing is, not what belongs to it: "a noble gas with …"."""
    copula = _COPULA.search(before)
    if copula is None:
        return True if first.stem in {other for others in _ENTAILED.values() for other in others} else None
    nearest = _COMPLEMENT.split(before[copula.end() :])[-1]
    ranked = claim.superlative and _RANKED.search(before)
    return None if ranked or _INSIDE.search(_ONE_OF.sub("", nearest)) else True


def _turned(claim: Claim, text: str, clause: Clause, spots: Sequence[Word]) -> bool:
    """Return whether a clause says it the other way round: "The official languages of Ireland are Irish and English"."""
    if claim.way != "thing" or not claim.name:
        return False
    said = text[clause.start : clause.end]
    match = re.match(r"(?:the\s+)?(.+?)\s+(?:is|are)\s+(.+)$", said, re.IGNORECASE)
    if match is None:
        return False
    left = set(stems(match[1]))
    listed = re.search(rf"(?:^|,\s|\band\s){re.escape(claim.name)}(?=,|\s+and\b|[.]?$)", match[2])
    return bool(listed) and all(s in left for phrase in claim.phrases for s in phrase)
