"""Ranking: which sentences of the sources answer a question.

A sentence is scored by the question's words that it covers (BM25's inverse document frequency as their weight; the title of
its page counts for the thing it is about), by how close together they stand, and by whether it holds the kind of value that
was asked for. A sentence that does not fit well enough is not handed out at all: no answer is better than a wrong one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ipy_websearch.model.offline.evidence import Sentence, title_core
from ipy_websearch.model.offline.faults import YEARS, faults_of, of_another_year
from ipy_websearch.model.offline.found import Found
from ipy_websearch.model.offline.persons import is_stale
from ipy_websearch.model.offline.question import Kind, Question
from ipy_websearch.model.offline.sources import Source
from ipy_websearch.model.offline.values import find
from ipy_websearch.model.offline.words import SOFT, content_stems, located, related, stem

LOOKED_INTO = 14
SURE = 0.35
_MORE_THAN_ANY = re.compile(r"\bmore\b.{0,30}\bthan any\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scored:
    """A sentence with its score for a question, and the value found in it (None: it answers in words)."""

    sentence: Sentence
    score: float
    covered: float
    found: Found | None = None


def is_own_page(question: Question, title: str) -> bool:
    """Return whether a page is about a thing that the question names, in the same form ("moons" does not name "Moon")."""
    core = title_core(title)[0].lower()
    return bool(core) and bool(re.search(rf"(?<!\w){re.escape(core)}(?![\w+#])", question.spoken))


def focus(question: Question, sources: Iterable[Source]) -> Question:
    """Return the question with what it is about made known by the titles of pages, for names written in small letters."""
    best: frozenset[str] = frozenset()
    for source in sources:
        stems = title_core(source.title)[1] & question.stems
        if len(stems) > len(best) and is_own_page(question, source.title):
            best = stems
    if not best or best <= question.entity_stems or not question.stems - best:
        return question
    return replace(question, entity_stems=question.entity_stems | best)


def rank(question: Question, collected: Sequence[Sentence], kind: Kind | None = None) -> list[Scored]:
    """Return the sentences that answer a question, best first; those that do not fit are left out."""
    kind = kind or question.kinds[0]
    question = focus(question, {s.source: None for s in collected})
    weights = _weights(question, collected)
    openings = _openings(collected)
    rough = [_rough(question, s, before, openings[s.source], weights) for before, s in _with_context(collected)]
    rough = sorted((s for s in rough if s.covered > 0.2), key=lambda s: -s.score)[:LOOKED_INTO]
    scored = [_with_value(question, candidate, kind) for candidate in rough]
    fitting = [s for s in scored if _fits(question, s, kind)]
    if kind == "person":
        newest = max((int(year) for s in collected for year in YEARS.findall(s.text)), default=0)
        fitting = [s for s in fitting if not is_stale(question, s.sentence.text, newest)]
    return sorted(fitting, key=lambda s: (-s.score, s.sentence.order))


def _with_context(collected: Sequence[Sentence]) -> Iterable[tuple[Sentence | None, Sentence]]:
    before: Sentence | None = None
    for sentence in collected:
        yield (before if before and before.source is sentence.source else None), sentence
        before = sentence


def _openings(collected: Sequence[Sentence]) -> dict[Source, frozenset[str]]:
    """Return the stems of each page's first sentence, which says what kind of thing the page is about."""
    found: dict[Source, frozenset[str]] = {}
    for sentence in collected:
        found.setdefault(sentence.source, sentence.stems)
    return found


def _weights(question: Question, collected: Sequence[Sentence]) -> dict[str, float]:
    """Return the inverse document frequency of each asked word, within bounds so that no single word decides."""
    total = len(collected)
    weights = {}
    for term in map(stem, question.terms):
        others = related(term)
        count = sum(term in s.stems or not others.isdisjoint(s.stems) for s in collected)
        weights[term] = min(3.0, max(0.6, math.log(1 + (total - count + 0.5) / (count + 0.5))))
        if (
            term in SOFT
            or YEARS.fullmatch(term)
            or term in question.classifiers
            or (term == question.sought and len(question.stems) > 1)
        ):
            weights[term] = 0.3
    return weights


def _rough(
    question: Question,
    sentence: Sentence,
    before: Sentence | None,
    opening: frozenset[str],
    weights: Mapping[str, float],
) -> Scored:
    core, title, extra = title_core(sentence.source.title)
    own_page = is_own_page(question, sentence.source.title)
    gained = 0.0
    for term, weight in weights.items():
        cover = _cover(term, question, sentence, before, title if own_page else frozenset(), title | extra)
        gained += weight * (0.6 if own_page and cover < 0.6 and term in opening else cover)
    covered = gained / (sum(weights.values()) or 1.0)
    score = covered + (0.3 if own_page and title & (question.entity_stems or title) else 0.0)
    score += 0.1 if extra & question.stems else 0.0
    score += 0.2 if question.sought and (question.sought in sentence.stems or question.sought in opening) else 0.0
    score += 0.15 * _together(question, sentence) - faults_of(question, sentence.text)
    return Scored(sentence, score - 0.0005 * sentence.order, covered)


def _cover(
    term: str, question: Question, sentence: Sentence, before: Sentence | None, own: frozenset[str], title: frozenset[str]
) -> float:
    """Return how far a sentence covers a word: in it, on a page about it, by a related word, or just before it."""
    if term in sentence.stems or (term == "most" and _MORE_THAN_ANY.search(sentence.text)):
        return 1.0
    if term in own:
        return 0.9
    if not related(term).isdisjoint(sentence.stems) or f"non{term}" in sentence.stems:
        return 0.75
    if term in title and term in question.entity_stems:
        return 0.6
    return 0.3 if before is not None and term in before.stems and term in question.entity_stems else 0.0


def _together(question: Question, sentence: Sentence) -> float:
    """Return 0 to 1: how many neighbouring words of the question stand close together in the sentence."""
    asked = [word.stem for word in located(question.text) if word.stem in question.stems]
    places: dict[str, list[int]] = {}
    for at, word in enumerate(located(sentence.text)):
        places.setdefault(word.stem, []).append(at)
    pairs = [(a, b) for a, b in zip(asked, asked[1:], strict=False) if a != b]
    near = sum(any(abs(i - j) <= 2 for i in places.get(a, ()) for j in places.get(b, ())) for a, b in pairs)
    return near / len(pairs) if pairs else 0.0


def _with_value(question: Question, scored: Scored, kind: Kind) -> Scored:
    found = find(kind, question, scored.sentence.text, title_core(scored.sentence.source.title)[0])
    bonus = 0.6 * found.strength if found else 0.0
    return replace(scored, score=scored.score + bonus, found=found)


def _fits(question: Question, scored: Scored, kind: Kind) -> bool:
    """Return whether a sentence is good enough to be an answer."""
    sentence = scored.sentence
    at_hand = sentence.stems | title_core(sentence.source.title)[1] | title_core(sentence.source.title)[2]
    if question.entity_stems and not _about_entities(question, at_hand, title_core(sentence.source.title)[1], kind):
        return False
    if of_another_year(question, sentence.text) and kind not in ("text", "definition"):
        return False
    if scored.found and scored.found.strength >= SURE:
        return scored.covered >= 0.45
    if kind in ("number", "year"):
        return False
    aspect = frozenset(a for a in question.aspect if a not in SOFT and not YEARS.fullmatch(a)) or question.aspect
    said = sum(a in sentence.stems or not related(a).isdisjoint(sentence.stems) for a in aspect)
    if kind in ("person", "name", "place"):
        return scored.covered >= 0.85 and said == len(aspect)
    return scored.covered >= 0.6 and 2 * said >= len(aspect)


def _about_entities(question: Question, at_hand: frozenset[str], title: frozenset[str], kind: Kind) -> bool:
    """Return whether a sentence is about what was asked: all things named, or the one that its page is about.

    Answers in words may be about one of several things; a figure about another one would be wrong.
    """
    groups = [g for g in (frozenset(content_stems(entity)) & question.entity_stems for entity in question.entities) if g]
    named: frozenset[str] = frozenset().union(*groups)
    if rest := question.entity_stems - named:
        groups.append(rest)
    if question.about and not any(group <= at_hand for group in question.about):
        return False  # a record's value is never taken from a page about another thing that the question names
    if kind in ("text", "definition", "boolean"):
        return any(group <= at_hand for group in groups)
    return all(group <= at_hand for group in groups) or title in groups
