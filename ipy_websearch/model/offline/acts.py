"""Acts: whether it is the asked thing that something was done to.

"Henri Becquerel discovered radioactivity in 1896 with uranium salts" holds every word of "When was uranium discovered?" and
does not answer it. What was discovered, made or founded stands right before "was discovered" or right after "discovered".
"""

from __future__ import annotations

import re

from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.words import Word, located, stem

_DONE_TO = """
    create design develop invent conceive devise discover isolate identify found establish write compose build publish
    release launch introduce form name
"""
_TRANSITIVE = frozenset(stem(word) for word in _DONE_TO.split())
_HELPING = "was were is are has have had been being also first later originally officially finally itself only then both"
_HELPERS = "|".join([*_HELPING.split(), "and", "which", "that"])
_BEFORE = re.compile(rf"(?:\s*\([^)]*\))?(?:,\s[^,;.]{{1,80}},|,)?\s*(?:(?:{_HELPERS})\s+)*(?:\w+ly\s+)?$", re.IGNORECASE)
_AFTER = re.compile(
    r"^\s*(?:(?:of|the|a|an|pure|element|metal|first|and|language|company|planet|moon|called|named)\s+)*[\"“]?$", re.IGNORECASE
)
_TRAILING = re.compile(r",\s+(?:(?:first|later|originally|officially|finally)\s+)*$", re.IGNORECASE)
_SUBJECT = re.compile(
    rf"\b(?:(?:it|he|she|they|this)\s+|(?:the|this)\s+\w+\s+(?:was|were)\s+)(?:(?:{_HELPERS})\s+)*(?:\w+ly\s+)?$", re.IGNORECASE
)
ELSEWHERE = 0.3


def aim(question: Question, text: str, verb: Word) -> float:
    """Return 1 when a verb of the sentence is about the asked thing as far as can be seen, `ELSEWHERE` when it is not."""
    if verb.stem not in _TRANSITIVE or not question.entity_stems:
        return 1.0
    there = [word for word in located(text) if word.stem in question.entity_stems]
    if not there and not verb.text.endswith(("ed", "found", "built", "written", "wrote")):
        return 1.0  # "The release was made on …": a noun, on a page about the asked thing
    for word in there:
        if word.end <= verb.start and _BEFORE.fullmatch(text[word.end : verb.start].removeprefix("'s").removeprefix("’s")):
            return 1.0
        if word.start >= verb.end and _AFTER.match(text[verb.end : word.start]):
            return 1.0
    if _leads(question, text) and _TRAILING.search(text[: verb.start]):
        return 1.0  # "Pride and Prejudice is a novel by Jane Austen, published in 1813"
    return 1.0 if verb.start == 0 or _SUBJECT.search(text[: verb.start]) else ELSEWHERE


def is_done_to(word: Word) -> bool:
    """Return whether a word is a verb of something that is done to its object: "discovered", "founded"."""
    return word.stem in _TRANSITIVE


def _leads(question: Question, text: str) -> bool:
    """Return whether a sentence begins with the asked thing."""
    first = [word.stem for word in located(text)[:2] if word.text.lower() != "the"]
    return bool(first) and first[0] in question.entity_stems
