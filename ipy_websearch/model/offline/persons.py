"""Persons: who did what a question asks about, and who holds an office.

"X created E", "E was created by X", "X is the president of E" each give X. Of an office it is the one who holds it now: who
was the first or a former one, who only led something, or whose office is another's, is none.
"""

from __future__ import annotations

import re

from ipy_websearch.model.offline.acts import aim, is_done_to
from ipy_websearch.model.offline.clauses import clause_at, owner_of
from ipy_websearch.model.offline.found import Found
from ipy_websearch.model.offline.names import (
    ARTICLE,
    CLAUSE_END,
    COPULA,
    MONTHS,
    NAMES,
    PRONOUN,
    RUN,
    SUPERLATIVE,
    as_object,
    as_subject,
    beside,
    find_name,
    says_ranks,
    tidy,
)
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.words import Word, is_stop, located, related, stem

_BY = re.compile(
    rf"\bby\s+((?:(?:[a-z][\w-]*|[A-Z][a-z]+(?:ish|ese|ian|an|ch|ss|ic|ek|sh)(?=\s+[a-z]))\s+(?:and\s+)?){{0,7}})({NAMES})"
)
_RELATIVE = re.compile(r"\b(?:that|which|who|is|was|are|were)\b")
_PASSIVE = re.compile(r"\b(?:was|were|is|are|been|being|be)\s+(?:\w+\s+)?$")
_OFFICE_WORDS = (
    r"(?:(?:vice|prime|first|deputy)[\s-]+)?(?:president|premier|minister|chancellor)|governor(?:-general)?|king|queen|emperor|empress|"
    r"monarch|mayor|pope|head\s+of\s+(?:state|government)|leader|ruler|head|c[a-z]o|chief\s+executive(?:\s+officer)?|chair(?:man|woman)?|"
    r"secretary(?:-general)?|commander"
)
_OFFICE = re.compile(
    rf"^\W*(?:who(?:['’]s|\s+is|\s+are|\s+was|\s+were)\s+)?(?P<the>the\s+)?(?:(?:current|present|acting)\s+)?"
    rf"(?P<rank>(?:first|last|second|third|former)\s+)?(?P<office>{_OFFICE_WORDS})\b",
    re.IGNORECASE,
)
_WAS = re.compile(r"^\W*who\s+(?:was|were)\b", re.IGNORECASE)
_ELECTED = re.compile(r"president|premier|minister|chancellor|governor|mayor|chair|secretary", re.IGNORECASE)
_NOT_NOW = re.compile(
    r"\b(?:first|last|second|third|fourth|fifth|former|previous|late|next|then|vice|deputy|acting|interim|ex|future|founding|honorary|"
    r"only|youngest|oldest)[\s-]+(?:[\w-]+\s+){0,2}?$",
    re.IGNORECASE,
)
_MADE_SO = re.compile(r"\b(?:became|was\s+(?:elected|appointed|made|sworn))\b", re.IGNORECASE)
_IN_PASSING = re.compile(r"\b(?:(?:named|called)\s+(?:after|for)|under|like)\s+(?:the\s+)?(?:[A-Z][a-z]+\s+)?$")
_YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
_DONE = re.compile(
    r"\s*(?:\([^)]*\)\s*)?(?:was|were|is|are|(?:has|have)\s+been)\s+(?:\w+ly\s+|first\s+)?(?:\w+ed|found|built|written|made|begun|known)\b"
)
_GAVE_NAME = re.compile(
    rf"({NAMES})\s+(?:later\s+|first\s+|then\s+)?gave\s+(?:the\s+)?([\w-]+)\s+(?:its|the|this|that)\s+name\b"
)
_NAMED = re.compile(r"^\W*who\s+(?:first\s+)?named\b", re.IGNORECASE)
TERM_OF_OFFICE = 10
"""Years after which who was once elected is not taken for who is in office now."""


def find_person(question: Question, text: str, title: str = "") -> Found | None:
    """Return who did or is what the question asks: "by X" after its verb, else the subject before it, else its role."""
    if office := _OFFICE.match(question.text):
        return _in_office(office, question, text, title)
    if not says_ranks(question, text):
        return None
    act = next((stem(t) for t in question.terms if stem(t) in question.aspect and not SUPERLATIVE.fullmatch(t)), "")
    if act in question.entity_stems or (act == stem("named") and not _NAMED.match(question.text)):
        return None  # "After whom is it named?" asks for no one who named it
    best: Found | None = _giver_of_name(question, text) if act == stem("named") else None
    said = False
    for word in located(text):
        weight = 1.0 if word.stem == act else 0.75 if word.stem in related(act) else 0.0
        if (
            not weight
            or (act == stem("named") and word.text != "named")
            or (weight < 1 and not _may_stand_for(word, question, text))
        ):
            continue
        if question.about and owner_of(text, word.end, question.about) is False:
            continue  # "the lead designer of TypeScript" designed no lead
        said = said or act != stem("named")
        weight *= aim(question, text, word)
        for found in (_agent_after(text, word), _subject_before(text, word, question)):
            if found and (best is None or weight * found.strength > best.strength):
                best = Found(found.value, weight * found.strength, found.start, found.end)
    return _or_role(best, question, text, title, act) if said else best


def _may_stand_for(word: Word, question: Question, text: str) -> bool:
    """Return whether a related word may be what was done: "established" for "founded", but not "led" or "formed"."""
    if is_done_to(word):
        return word.stem != stem("form")
    following = located(text[word.end :])[:1]
    done = word.text.endswith("ed") or word.text in ("began", "led", "begun")
    return not done or bool(following and following[0].stem in question.entity_stems)


def _or_role(best: Found | None, question: Question, text: str, title: str, act: str) -> Found | None:
    """Return who has the asked role in words ("X is the designer of E") when that says more than what was found."""
    role = find_name(question, text, title)
    if (
        role is None
        or _DONE.match(text, role.end)
        or not RUN.match(str(role.value))
        or {w.stem for w in located(str(role.value))} & question.entity_stems
    ):
        return best
    # asked who designed it, "JetBrains designed" says more than "X was the lead designer"
    same = any(term in text.lower() for term in question.terms if stem(term) == act)
    strength = role.strength * (1.0 if same else 0.85)
    return Found(role.value, strength, role.start, role.end) if best is None or strength > best.strength else best


def _in_office(office: re.Match[str], question: Question, text: str, title: str) -> Found | None:
    """Return who holds the asked office of the asked thing, as far as the sentence says so."""
    best: Found | None = None
    for mention in re.finditer(_spelled(office["office"]), text, re.IGNORECASE):
        if not _is_asked(office, mention, question, text):
            continue
        if _IN_PASSING.search(text[: mention.start()]):
            continue  # "is named after King Philip II of Spain"
        named = beside(text, mention.end())
        tied = owner_of(text, mention.end(), question.subjects) or _owner_before(question, text, mention.start(), title)
        for found in (named if tied else None, as_subject(text, mention.start(), title), as_object(text, mention.end())):
            if found and _is_person(found, question) and (best is None or found.strength > best.strength):
                best = found
    return best


def _is_asked(office: re.Match[str], mention: re.Match[str], question: Question, text: str) -> bool:
    before = text[: mention.start()]
    if owner_of(text, mention.end(), question.subjects) is False:
        return False
    if office["rank"]:
        return before.lower().endswith(office["rank"].lower())
    if _NOT_NOW.search(before):
        return False
    copulas = list(COPULA.finditer(before))
    return bool(_WAS.match(question.text)) or not copulas or copulas[-1][0].split()[0] not in ("was", "were")


def _spelled(office: str) -> str:
    office = re.sub(r"[\s-]+", r"[\\s-]+", office.strip())
    chief = re.fullmatch(r"ceo|chief.*", office, re.IGNORECASE)
    return r"\b(?:CEO|chief\s+executive(?:\s+officer)?)\b" if chief else rf"\b{office}\b(?!-)"


def _owner_before(question: Question, text: str, at: int, title: str) -> bool:
    """Return whether an office is the asked thing's by the words before it: "Apple's CEO", "its CEO"."""
    last = located(text[:at])[-1:]
    if not last:
        return False
    return any(last[0].stem in group for group in question.subjects) or (
        last[0].text.lower() in ("its", "their") and bool(title)
    )


def _is_person(found: Found, question: Question) -> bool:
    value = str(found.value)
    first = value.split()[0] if value else ""
    own = {w.stem for w in located(value)} & question.entity_stems
    return bool(RUN.match(value)) and first not in MONTHS and not own and not is_stop(first)


def is_stale(question: Question, text: str, newest: int) -> bool:
    """Return whether a sentence tells who came into an elected office, and too long before the newest year of the sources."""
    office = _OFFICE.match(question.text)
    if office is None or office["rank"] or _WAS.match(question.text) or not _ELECTED.search(office["office"]):
        return False
    years = [int(year) for year in _YEAR.findall(text)]
    return bool(years) and bool(_MADE_SO.search(text)) and max(years) + TERM_OF_OFFICE < newest


def _giver_of_name(question: Question, text: str) -> Found | None:
    """ "Antoine Lavoisier gave oxygen its name": return Antoine Lavoisier."""
    match = re.search(
        rf"({NAMES})\s+(?:later\s+|first\s+|then\s+)?gave\s+(?:the\s+)?([\w-]+)\s+(?:its|the|this|that)\s+name\b", text
    )
    if match is None or stem(match[2]) not in question.entity_stems:
        return None
    return Found(tidy(match[1]), 0.95, match.start(1), match.end(1))


def _agent_after(text: str, verb: Word) -> Found | None:
    match = _BY.search(text, verb.end)
    if match is None or match.start() - verb.end > 60 or CLAUSE_END.search(text[verb.end : match.start()]):
        return None
    return Found(tidy(match[2]), 1.0, match.start(2), match.end(2))


def _subject_before(text: str, verb: Word, question: Question) -> Found | None:
    """ "X, a Dutch programmer, created": return X, the first name of the clause (or its short subject: "a committee")."""
    start = max((m.end() for m in re.finditer(r"[;:.]\s", text[: verb.start])), default=0)
    start = max(start, clause_at(text, verb.start).subject)
    clause = text[start : verb.start]
    if _PASSIVE.search(clause) or not verb.text.islower():
        return None
    for match in re.finditer(NAMES, clause):
        name = tidy(match[0])
        following = clause[match.end() :]
        if is_stop(name) or name in MONTHS or {w.stem for w in located(name)} & question.stems:
            continue
        if " " not in name and re.match(r"(?:\s+[a-z]+){1,4}\s+[A-Z]", following):
            continue  # "German merchant Hennig Brand": a nationality before the name
        if clause[: match.start()].rstrip().endswith((" of", " at", " from")):
            break  # "A committee of CODASYL": the name is not the subject
        far = 0.5 if following.count(" ") > 14 else 0.7 if _RELATIVE.search(following) else 0.95
        return Found(name, far, start + match.start(), start + match.end())
    return _short_subject(clause, start)


def _short_subject(clause: str, start: int) -> Found | None:
    subject = clause.strip()
    words = subject.split()
    if not 2 <= len(words) <= 6 or PRONOUN.match(subject) or re.search(r"[,;]", subject) or COPULA.search(subject):
        return None
    return Found(subject[0].lower() + subject[1:], 0.8, start, start + len(clause)) if ARTICLE.match(subject) else None
