"""Years and days: when what a question asks about happened, or happens every year.

The year is taken that stands nearest to what happened, from a sentence that says all of it and says it of the asked thing:
"Morocco became independent from France in 1956" dates nothing of France.
"""

from __future__ import annotations

import re

from ipy_websearch.model.offline.acts import ELSEWHERE, aim, is_done_to
from ipy_websearch.model.offline.amounts import nearest, places_of
from ipy_websearch.model.offline.clauses import clause_at, is_denied, owner_of, said_of
from ipy_websearch.model.offline.figures import Figure, figures
from ipy_websearch.model.offline.found import Found
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.units import unit_of
from ipy_websearch.model.offline.words import SOFT, Word, located, related, stem

_LIFETIME = re.compile(r"\((?:[^()]*?\D)?(\d{4})\s*[–—-]\s*(?:[^()]*?\D)?(\d{4})\D?[^()]*\)")
_TIME_WORDS = frozenset(map(stem, "year date day month decade century time happen occur take place".split()))
_LIGHT = frozenset(map(stem, "become get first original official come gain obtain achieve".split()))
"""Words that a sentence may leave out: who "declared independence" became independent."""
_RECURS = re.compile(
    r"\bwhen\s+(?:is|are)\b|\b(?:which|what)\s+(?:day|date)\s+(?:is|does|do|are)\b|\bdate\s+of\b.*\bday\b", re.IGNORECASE
)
_NO_YEAR = re.compile(r"\b(?:what|which)\s+(?:century|decade|millennium|month|weekday)\b", re.IGNORECASE)
_TRAILING = re.compile(r",\s+(?:\w+ly\s+|first\s+)?$")
_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAY = re.compile(
    rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{_MONTH})|(?:{_MONTH})\s+\d{{1,2}}(?:st|nd|rd|th)?)\b(?!,?\s+\d{{4}})"
)


def find_year(question: Question, text: str, title: str = "") -> Found | None:
    """Return the year of a sentence that stands nearest to what the question says happened, None when there is none.

    Of what comes every year ("When is the national day …?") it is the day, in the sentence's words.
    """
    if _NO_YEAR.search(question.text):
        return None
    if _RECURS.search(question.text):
        return _find_day(question, text, title)
    wanted = set(question.aspect) - _TIME_WORDS
    years = [f for f in figures(text) if f.is_year or _early_year(f, text)]
    if not wanted or wanted == set(question.entity_stems):
        return Found(years[0].value, 0.4, years[0].start, years[0].end) if years else None
    others = _other_things(question)
    if not _all_said(wanted | others, text):
        return _lifetime(wanted, text)
    years = [f for f in years if others <= _said_around(f, text)]
    best = nearest(years, wanted, text, lambda f: 0.2, weighed=others)
    if best is None:
        return _lifetime(wanted, text)
    aimed = max(
        (_aimed(question, text, word, title) for hits in places_of(wanted, text) for word, _ in hits), default=ELSEWHERE
    )
    alone = len(years) == 1 and aimed == 1.0  # "was discovered at … by …, …, … and …, in 1940": far, but the only year there
    return Found(best[0].value, max(best[1] * aimed, 0.5 if alone else 0.0), best[0].start, best[0].end)


def _find_day(question: Question, text: str, title: str) -> Found | None:
    wanted = set(question.aspect) - SOFT
    if not wanted or not _all_said(wanted, text):
        return None
    spots = [word for hits in places_of(wanted, text) for word, _ in hits]
    if not any(_aimed(question, text, word, title) == 1.0 for word in spots):
        return None
    days = sorted(_DAY.finditer(text), key=lambda m: min(abs(m.start() - word.start) for word in spots))
    return Found(days[0][0], 0.8, days[0].start(), days[0].end()) if days else None


def _other_things(question: Question) -> frozenset[str]:
    """Return the stems of what the question names besides the thing it is about: the NATO that Finland joined."""
    own: frozenset[str] = frozenset().union(*question.subjects) if question.subjects else question.entity_stems
    return question.entity_stems - own - SOFT - _TIME_WORDS


def _said_around(figure: Figure, text: str) -> frozenset[str]:
    """Return the stems of the clause that a figure is in."""
    clause = clause_at(text, figure.start)
    return frozenset(word.stem for word in located(text) if clause.start <= word.start < clause.end)


def _all_said(wanted: set[str], text: str) -> bool:
    said = {word.stem for word in located(text) if not is_denied(text, word.start)}
    return all(w in said or w in _LIGHT or w in SOFT or not related(w).isdisjoint(said) for w in wanted)


def _aimed(question: Question, text: str, word: Word, title: str) -> float:
    """Return 1 when a word of the sentence is said of the asked thing, `ELSEWHERE` when it is said of another."""
    groups = question.subjects
    owned = owner_of(text, word.end, groups)
    if not groups or owned:
        return 1.0
    if is_done_to(word):
        begin = clause_at(text, word.start).subject
        before = any(w.stem in group for group in groups for w in located(text) if begin <= w.start < word.start)
        if aim(question, text, word) < 1.0 or not before or _TRAILING.search(text[: word.start]):
            return aim(question, text, word)
    elif owned is False:
        return ELSEWHERE
    return 1.0 if any(said_of(group, text, word.start, title, question.aspect) for group in groups) else ELSEWHERE


def _lifetime(wanted: set[str], text: str) -> Found | None:
    """Return the year of birth or death from "(7 November 1867 – 4 July 1934)" behind a name."""
    match = _LIFETIME.search(text)
    if match is None or not wanted & {stem("born"), stem("died")}:
        return None
    group = 1 if stem("born") in wanted else 2
    return Found(int(match[group]), 0.7, match.start(group), match.end(group))


def _early_year(figure: Figure, text: str) -> bool:
    plain = isinstance(figure.value, int) and 1 <= figure.value < 1000 and not figure.ordinal and not unit_of(figure, text)
    return (
        plain
        and bool(re.search(r"\b(?:in|since|year)\s+(?:AD\s+)?$", text[: figure.start]))
        and not re.match(r"\s+[a-z]", text[figure.end :])
    )
