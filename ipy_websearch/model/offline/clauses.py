"""Clauses: what a sentence says, and of what.

"Switzerland joined the United Nations in 2002 and is not a member of the European Union" says two things, both of
Switzerland; "Morocco became independent from France" says nothing of France. A clause begins with its subject or takes over
that of the clause before; where the reading is not clear, a clause is about nothing that was asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from ipy_websearch.model.offline.words import SOFT, is_stop, located, related, stem, stems

_AUXILIARY = (
    "is are was were be been has have had does do did can cannot could will would may might must became becomes remains "
    "made gave won left held took led lies lay lost met ran began went grew rose fell sank wrote built sold stood kept came "
    "comes goes gives takes makes sits runs lives sent found drew chose"
)
_FINITE = frozenset(_AUXILIARY.split())
_TO_BE = re.compile(r"(?:is|are|was|were|has|have|had|can|cannot|will|does|do|did)\b")
_ADVERB = re.compile(r"(?:\w+ly|also|then|first|later|now|still|never|always|not|itself|themselves|proper|once|both|all)\b")
_LINK = re.compile(r"(?:and|or|in|on|at|of|with|from|for|to|by|as|near|between|since|who|which|that|when|where|than)\b")
_BREAK = re.compile(
    r";\s+|:\s+|,?\s+(?:and|but|while|whereas|although|though|because|so|yet|or)\s+|,\s+(?:when|until|since|after|before)\s+"
)
_LEAD = re.compile(
    r"(?:(?:and|but|while|although|because|so)\s+)?"
    r"(?:(?:In|On|Since|By|At|After|Before|During|From|Until)\s+(?:[^,;]{1,60},\s+|(?:\w+\s+){0,3}?\d{3,4}s?,?\s+))?",
    re.IGNORECASE,
)
_NOUN_FOLLOWS = frozenset("the a an of as for with by its their most many some all other several two three four five".split())
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_STANDS_FOR_TITLE = re.compile(
    r"(?:it|its|they|their|he|his|she|her)\b|(?:the|this)\s+(?:country|state|nation|city|element|metal|gas|company|firm|language|"
    r"planet|moon|band|film|book|novel|ship|organi[sz]ation|university|project|library|software|group|team)\b",
    re.IGNORECASE,
)
_PART_OF_A_NAME = re.compile(
    r"\b(?:North|South|East|West|Northern|Southern|Eastern|Western|Central|New|Old|Great|Greater|Lower|Upper|Mainland|"
    r"Inner|Outer|[A-Z]\w+(?:ean|ian|ish|ese|can))\s+$"
)
_OWNER = re.compile(
    r"(?:\s+[a-z-]+){0,2}?\s+(?:of|for)\s+(?:the\s+)?([A-Z][\w’'.+-]*(?:\s+(?:of\s+)?(?:the\s+)?[A-Z][\w’'.+-]*)*|[a-z][\w-]+)"
)
_DENIED_WORD = re.compile(r"(?:\b(?:not|never|cannot|no|nor|without|neither)|n['’]t)\s+(?:\w+\s+)?$", re.IGNORECASE)
_GIVEN_NAMES = re.compile(r"(?:[A-Z][\w.’'-]*\s+){1,3}$")


@dataclass(frozen=True, slots=True)
class Clause:
    """What `text[start:end]` of a sentence says; its subject begins at `subject`, which is before `start` when it is shared."""

    start: int
    end: int
    subject: int


@lru_cache(maxsize=2048)
def clauses(text: str) -> tuple[Clause, ...]:
    """Return the clauses of a sentence in order; together they are the whole of it."""
    found: list[Clause] = []
    start = subject = 0
    breaks = list(_BREAK.finditer(text))
    for at, mark in enumerate(breaks):
        following = text[mark.end() : breaks[at + 1].start() if at + 1 < len(breaks) else len(text)]
        whole = text[mark.end() :] if not _has_verb(following) else following
        own = ";" in mark[0] or ":" in mark[0]
        goes_on = bool(re.match(rf"(?:{_ADVERB.pattern}\s+)*", following)) and _starts_with_verb(following)
        if not own and (not _has_verb(text[start : mark.start()]) or not (goes_on or _has_verb(whole))):
            continue  # "Sweden and Norway joined …", "joined NATO in 1999 and the European Union in 2004"
        found.append(Clause(start, mark.start(), subject))
        start = mark.end()
        subject = subject if goes_on and not own else start
    return (*found, Clause(start, len(text), subject))


def clause_at(text: str, at: int) -> Clause:
    """Return the clause that a place of a sentence is in."""
    return next((c for c in reversed(clauses(text)) if c.start <= at), clauses(text)[0])


def said_of(group: frozenset[str], text: str, at: int, title: str = "", aspects: Collection[str] = ()) -> bool:
    """Return whether what stands at a place of a sentence is said of a thing, named by the stems of its name.

    `aspects` are words that may lead to it ("The currency of France is …" is said of France when its currency was asked
    for); `title` is the title of the page, which "it" and "the country" stand for.
    """
    if not group:
        return False
    clause = clause_at(text, at)
    lead = _LEAD.match(text, clause.subject)
    begin = lead.end() if lead and lead.end() <= at else clause.subject
    if _STANDS_FOR_TITLE.match(text, begin):
        return group <= frozenset(stems(title))
    spots = [word for word in located(text) if begin <= word.start < max(at, begin + 1) and word.stem in group]
    for word in spots:
        end = _end_of_name(text, word.start, group)
        if end is not None and _follows_as_subject(text, end, aspects) and _leads_to(text[begin : word.start], aspects):
            return True
        if end is not None and text[end : end + 1] == "," and re.search(r",\s+(?:the\s+)?$", text[begin : word.start]):
            return begin < word.start and not _has_verb(text[begin : word.start])  # "The parliament, the Althing, was …"
    return False


def owner_of(text: str, end: int, groups: Collection[frozenset[str]]) -> bool | None:
    """Return whether what ends at a place is a thing's own ("the highest mountain of Italy"): True, False when it is
    another's by name, None when that is not said."""
    match = _OWNER.match(text, end)
    if match is None:
        return None
    named = frozenset(stems(match[1]))
    if any(group <= named for group in groups):
        return True
    alike = any(len(g) > 4 and n.startswith(g[:5]) for group in groups for g in group for n in named)  # "Australian"
    return False if match[1][0].isupper() and groups and not alike else None


def is_only_a_part(groups: Collection[frozenset[str]], text: str) -> bool:
    """Return whether a sentence names a thing only in the names of its kinds: "carbon-14" is not carbon."""
    spots = [w for w in located(text) if any(w.stem in group for group in groups)]
    return bool(spots) and all(re.match(r"-\d", text[word.end :]) for word in spots)


def is_denied(text: str, at: int) -> bool:
    """Return whether the word at a place is denied: "does not melt", "has never won"."""
    return bool(_DENIED_WORD.search(text[:at]))


def _end_of_name(text: str, start: int, group: frozenset[str]) -> int | None:
    """Return where a thing's whole name ends that begins at a place, None when only a part of it stands there."""
    there: set[str] = set()
    for word in located(text):
        if word.start < start:
            continue
        if word.stem not in group:
            if not is_stop(word.text):
                break
            continue
        there.add(word.stem)
        if there >= group:
            return word.end
    return None


def _follows_as_subject(text: str, end: int, aspects: Collection[str]) -> bool:
    """Return whether a name that ends here is the subject itself: "sodium melts", but not "sodium street lamps give"."""
    rest = text[end:]
    if owned := re.match(r"['’]s?\s+([\w-]+)", rest):
        return stem(owned[1]) in aspects
    if rest[:1] == "-":
        return False  # "Radon-222"
    rest = rest.lstrip()
    if not rest or not rest[0].isalpha() or _ADVERB.match(rest) or _LINK.match(rest):
        return True
    first, _, after = rest.partition(" ")
    if first.lower() not in _FINITE and first.endswith("s") and _TO_BE.match(after):
        return False  # "mercury compounds are poisonous"
    return _is_verb(first)


def _leads_to(lead: str, aspects: Collection[str]) -> bool:
    """Return whether the words before a name leave it the subject: none, a given name, or "the asked thing of"."""
    bare = _ARTICLE.sub("", lead.lstrip(), count=1)
    if not bare:
        return True
    if _GIVEN_NAMES.fullmatch(bare):
        return not _PART_OF_A_NAME.search(bare)
    if re.fullmatch(r"(?:[A-Z][\w’'-]*,?\s+)+and\s+(?:the\s+)?", bare):
        return True  # "Swahili and English are"
    of = re.fullmatch(r"(.+?)\s+(?:of|for|in)\s+(?:the\s+)?", bare)
    asked = {*aspects, *(other for a in aspects for other in related(a))} | SOFT
    return bool(of) and all(w.stem in asked or is_stop(w.text) for w in located(of[1] if of else ""))


def _starts_with_verb(text: str) -> bool:
    words = [word for word in text.split() if not _ADVERB.fullmatch(word)]
    return bool(words) and _is_verb(words[0])


def _has_verb(text: str) -> bool:
    before = ["", ""]
    for word in text.split():
        plain = word.strip(",;:()")
        noun = before[1] in _NOUN_FOLLOWS or (before[0] in ("the", "a", "an", "its", "their") and before[1].islower())
        if _is_verb(plain) and (plain in _FINITE or not noun):
            return True
        before = [before[1], plain]
    return False


def _is_verb(word: str) -> bool:
    if word in _FINITE:
        return True
    plain = word.islower() and word.isalpha() and len(word) > 3
    return plain and word.endswith(("ed", "s")) and not word.endswith(("ss", "us", "is", "ous"))
