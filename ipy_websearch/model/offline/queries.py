"""Search queries made from questions: the content words, as they were written, in their order."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.words import is_stop, stem, stems

LONGEST = 12
MOST = 3
_TOKEN = re.compile(r"[\"“][^\"“”]{2,80}[\"”]|\S+")
_DOTTED = re.compile(r"(?:[A-Z]\.){2,}")
_MEASURED = {"far": "distance", "tall": "height", "old": "age", "hot": "temperature", "heavy": "mass", "fast": "speed",
             "long": "length", "deep": "depth", "big": "size", "large": "size", "dense": "density"}  # fmt: skip
"""What "how far" and its like ask for, as pages name it."""
_JOINS = frozenset(["and", "of", "the", "&"])
_EDGES = " \t\"'“”‘’`()[]{}<>,;:!?…*|"


def queries_for(questions: Sequence[Question]) -> list[str]:
    """Return one to three queries; questions about the same things share one, so that a record costs one search."""
    groups: dict[frozenset[str], list[Question]] = {}
    for question in questions:
        groups.setdefault(question.entity_stems, []).append(question)
    if len(groups) > MOST:
        groups = {frozenset(): list(questions)}
    return list(dict.fromkeys(query for group in groups.values() if (query := _query(group))))


def broader_query(questions: Sequence[Question], tried: Sequence[str]) -> str | None:
    """Return a query with fewer words than those that were tried, or None when there is none that says anything."""
    known = {" ".join(sorted(stems(query))) for query in tried}
    for question in questions:
        words = question.entities or question.terms[-2:]
        query = " ".join(word for word in words if word)
        if len(query) >= 2 and " ".join(sorted(stems(query))) not in known:
            return query
    return None


def _query(questions: Sequence[Question]) -> str:
    kept: list[str] = []
    for question in questions:
        wanted = {stem(term) for term in question.terms}
        before = ""
        joining: list[str] | None = None  # what stands between a kept word and here, while it may join two names
        for token in _TOKEN.findall(question.text):
            word = _MEASURED.get(token.strip(_EDGES).lower(), "") if before == "how" else ""
            word = word or _kept(token, wanted)
            before = token.lower()
            if not word:
                joining = [*joining, token] if joining is not None and before in _JOINS else None
                continue
            if joining and word[0].isupper() and kept[-1][0].isupper():
                kept += joining  # "Pride and Prejudice", "Lord of the Rings"
            joining = []
            if word.lower() not in map(str.lower, kept):
                kept.append(word)
        said = {s for word in kept for s in stems(word)}
        kept += [term for term in question.terms if stem(term) not in said]
    return " ".join(kept[:LONGEST])


def _kept(token: str, wanted: set[str]) -> str:
    """Return a token of the question as it goes into the query, "" when it says nothing."""
    if token[0] in '"“' and len(token) > 2 and token[-1] in '"”':
        return f'"{token[1:-1]}"'
    word = token.strip(_EDGES)
    if not _DOTTED.fullmatch(word):
        word = word.rstrip(".")
    for ending in ("'s", "’s"):
        word = word.removesuffix(ending)
    says_nothing = is_stop(word) and word != "May" and not (word.isupper() and word not in ("A", "I"))
    return "" if says_nothing or not wanted.intersection(stems(word)) else word
