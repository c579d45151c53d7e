"""Colours: which one a sentence gives to the asked thing.

"Gold is a soft, yellow solid" and "Methane gives Uranus a blue-green colour" say one; the colour of a part, of a compound or
of another thing is not taken.
"""

from __future__ import annotations

import re

from ipy_websearch.model.offline import lexicon
from ipy_websearch.model.offline.clauses import clauses, said_of
from ipy_websearch.model.offline.found import Found
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.words import stem

_ONE = "|".join(sorted(lexicon.COLOURS.split(), key=len, reverse=True))
_SHADE = "|".join(lexicon.SHADES.split())
_COLOUR = re.compile(rf"\b(?:(?:{_SHADE})\s+)?(?:{_ONE})(?:(?:-|\s+or\s+|\s+)(?:{_ONE}))*\b(?!-)")
_BEFORE = re.compile(r"\b(?:is|are)\s+(?:(?:an?|usually|also|always)\s+)*(?:[a-z-]+,?\s+){0,3}$")
_INDIRECT = re.compile(r"\b(?:of|in|with|by|from|for|to|as|than|used|made|called|named|found|known|when)\b")
_GIVEN = re.compile(r"\bgives?\s+(?:the\s+)?([\w-]+)\s+(?:an?|its)\s+(.+?)\s+colou?r\b")
_ASKED = stem("colour")


def asks_for_colour(question: Question) -> bool:
    """Return whether a question asks for the colour of a thing, and for nothing more about it."""
    return question.aspect - question.entity_stems == {_ASKED} and not question.counted


def find_colour(question: Question, text: str, title: str = "") -> Found | None:
    """Return the colour that a sentence gives to the asked thing, in its words ("pale yellow"); None when it gives none."""
    given = _GIVEN.search(text)
    if given and any(stem(given[1]) in group for group in question.subjects):
        colour = _COLOUR.search(text, given.start(2), given.end(2))
        return Found(colour[0], 0.9, colour.start(), colour.end()) if colour else None
    for clause in clauses(text):
        for colour in _COLOUR.finditer(text, clause.start, clause.end):
            before = _BEFORE.search(text, clause.start, colour.start())
            if before is None or _INDIRECT.search(before[0]):
                continue
            if any(said_of(group, text, before.start(), title) for group in question.subjects):
                return Found(colour[0], 0.9, colour.start(), colour.end())
    return None
