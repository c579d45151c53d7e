"""Acts: whether it is the asked thing that something was done to.

"Henri Becquerel discovered radioactivity in 1896 with uranium salts" holds every word of "When was uranium discovered?" and
does not answer it. What was discovered, made or founded stands right before "was discovered" or right after "discovered".
"""

from __future__ import annotations

import re

from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.words import Word, located, stem

_DONE_TO = "create design develop invent conceive devise discover isolate identify found establish write compose build publish"
_TRANSITIVE = frozenset(stem(word) for word in _DONE_TO.split())
_HELPERS = (
    r"was|were|is|are|has|have|had|been|being|also|first|later|originally|officially|finally|itself|only|then|and|which|that"
)
_BEFORE = re.compile(rf"(?:\s*\([^)]*\))?(?:,)?\s*(?:(?:{_HELPERS})\s+)*(?:\w+ly\s+)?$", re.IGNORECASE)
_AFTER = re.compile(
    r"^\s*(?:(?:of|the|a|an|pure|element|metal|first|and|language|company|planet|moon|called|named)\s+)*[\"“]?$", re.I
)
_SUBJECT_PRONOUN = re.compile(rf"\b(?:it|he|she|they|this)\s+(?:(?:{_HELPERS})\s+)*(?:\w+ly\s+)?$", re.IGNORECASE)
ELSEWHERE = 0.5


def aim(question: Question, text: str, verb: Word) -> float:
    """Return 1 when a verb of the sentence is about the asked thing as far as can be seen, `ELSEWHERE` when it is not."""
    if verb.stem not in _TRANSITIVE or not question.entity_stems:
        return 1.0
    for word in located(text):
        if word.stem not in question.entity_stems:
            continue
        if word.end <= verb.start and _BEFORE.fullmatch(text[word.end : verb.start].removeprefix("'s").removeprefix("’s")):
            return 1.0
        if word.start >= verb.end and _AFTER.match(text[verb.end : word.start]):
            return 1.0
    return 1.0 if _SUBJECT_PRONOUN.search(text[: verb.start]) else ELSEWHERE
