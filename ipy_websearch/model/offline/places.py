"""Places: where something is or happened, and on which continent."""

from __future__ import annotations

import re

from ipy_websearch.model.offline.acts import aim
from ipy_websearch.model.offline.clauses import clause_at
from ipy_websearch.model.offline.found import Found
from ipy_websearch.model.offline.names import MONTHS, NAME, tidy
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.words import SOFT, located, related, stem

_LIES_IN = re.compile(
    r"\b(?:country|state|nation|lies|located|situated|belongs|part|continent)\b[^.;]*\b(?:in|of|to)\b[^.;,]*$", re.I
)
_FROM = re.compile(r"\bfrom\b|\b(?:come|comes|came|origin\w*)\b", re.IGNORECASE)
_CONTINENT = re.compile(r"\b(Europe|Asia|Africa|North America|South America|Oceania|Antarctica|Australia)\b")


def find_place(question: Question, text: str) -> Found | None:
    """Return the place after "in", "at", "near" or "on" that stands nearest to what the question says happened."""
    wanted = question.aspect - {stem("where"), question.sought} - question.entity_stems
    words = [w for w in located(text) if w.stem in wanted or any(w.stem in related(x) for x in wanted)]
    if wanted - SOFT and not words:
        return None
    spots = [w.start for w in words if aim(question, text, w) == 1.0]
    if words and not spots:
        return None
    best: Found | None = None
    for match in re.finditer(rf"\b(?:in|at|near|on|from)\s+(?:the\s+)?({NAME}(?:,\s+{NAME})?)", text):
        name = tidy(match[1])
        if name in MONTHS or {w.stem for w in located(name)} <= question.stems:
            continue
        clause = clause_at(text, match.start())
        if spots and not any(clause.subject <= spot < clause.end for spot in spots):
            continue  # "was discovered by …, and Moissan received the Nobel Prize in Chemistry"
        if match[0].startswith("from") and not _FROM.search(question.text):
            continue
        near = min((abs(match.start() - spot) for spot in spots), default=90)
        strength = 0.9 / (1 + near / 120)
        if best is None or strength > best.strength:
            best = Found(name, strength, match.start(1), match.end(1))
    return best


def find_continent(question: Question, text: str) -> Found | None:
    """Return the continent that the sentence puts the asked thing in: "a country in western Asia", "belongs to Oceania"."""
    for match in _CONTINENT.finditer(text):
        if match[1] not in question.entities and _LIES_IN.search(text[: match.start()]):
            return Found(match[1], 0.9, match.start(), match.end())
    return None
