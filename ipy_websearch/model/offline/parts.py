"""Parts: cutting a user's whole text into the questions in it, each able to stand alone.

Instructions ("cite your sources") are dropped, labels ("capital: What …?") and list marks taken off, pronouns filled from
the question before, and comparisons spread over the things compared ("the moons of Mars and Jupiter" is two questions).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ipy_websearch.model.offline.question import ENTITY, Question, entities_of, read_question
from ipy_websearch.model.offline.words import content_words, is_stop

MOST = 3
LONGEST_CONTEXT = 25
LONGEST_COMPARISON = 300
_PIECE = re.compile(r"[^?\n]*\?+|[^?\n]+")
_STOPPED = re.compile(r"(?<=[.!;])\s+(?=[A-Z\"“])")
_LIST_MARK = re.compile(r"^\s*(?:[-*•>]+|\(?\d{1,2}[.)]|#{1,6})\s+")
_LABEL = re.compile(r"^\s*([\"'`]?[A-Za-z][\w .-]{0,40}[\"'`]?)\s*:\s+(?=\S)")
_INSTRUCTION = re.compile(
    r"^(?:please\s+)?(?:search|cite|use|answer|be|keep|write|return|respond|reply|give|do\s+not|don['’]t|make|only|include|fill|"
    r"record|provide|add|never|always|base|quote|say|if|note|for\s+each)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"\b(?:it|its|they|them|their|he|his|him|she|her|those|these|this|that|ones?)\b", re.IGNORECASE)
_CONTINUES = re.compile(r"^(?:and|but|or|so|also|what\s+about|how\s+about)\b\s*", re.IGNORECASE)
_GRADE = re.compile(r"(?:est|^most|^least|^first|^last)$", re.IGNORECASE)
_COMPARES = re.compile(
    r"\b(?:compare|comparison|compared|differences?|versus|vs|both|respectively|each|between|\w{2,}er|more|less|fewer)\b", re.I
)
_PLURAL_VERB = re.compile(r"\b(?:do|are|were|have)\s+(?:the\s+)?$", re.IGNORECASE)
_PLURAL_OF = re.compile(r"\b[a-z]{3,}(?<!ss)s\s+(?:of|in|for)\s+(?:the\s+)?$")
_JOINT = r"(?:\s*,\s*(?:and|or)\s+|\s*,\s*|\s+(?:and|or|vs\.?|versus|with|to|than)\s+)(?:(?:of|in|for|the)\s+)*"
_TOGETHER = re.compile(rf"(?:the\s+)?({ENTITY})((?:{_JOINT}(?:{ENTITY}))+)")
_REPEATED = re.compile(r"\b(?:and|or)\s+(?:of|in|for)\s+(?:the\s+)?[A-Z]")
_TWO_ASPECTS = re.compile(
    rf"^(.*?\b(?:is|are|was|were|me|give|find)\s+(?:the\s+)?|)([a-z][\w -]*?\bof\s+{ENTITY})"
    rf"\s+and\s+(?:the\s+)?([a-z][\w -]*?\bof\s+{ENTITY})(.*)$"
)


def split_questions(text: str, *, previous: str = "", about: Sequence[str] = ()) -> tuple[Question, ...]:
    """Return the questions in a text, at least one unless it has no words at all.

    `previous` is the question asked before and `about` what its answer was about; pronouns are read as those.
    """
    found: list[Question] = []
    context = list(entities_of(previous)) or list(about)
    for piece in _pieces(text):
        earlier = found[-1].text if found else previous
        for statement in (part for whole in _continued(piece, earlier) for part in _spread(whole)):
            question = read_question(statement, about=_referents(statement, found, context, earlier))
            if question.terms and all(question.text != other.text for other in found):
                found.append(question)
    return tuple(found)


def _pieces(text: str) -> list[str]:
    """Return the pieces of a text that ask something: those with "?" when there are any, else what is no instruction."""
    labels = [(m[1].strip("\"'`"), line[m.end() :].strip()) for line in text.splitlines() if (m := _LABEL.match(line))]
    asked = [value for label, value in labels if label.lower() == "question"]
    context = next((value for label, value in labels if label.lower() == "context"), "")
    if asked and context and not entities_of(asked[0]):
        return [f"{asked[0].rstrip()} ({context})"]
    statements = [_bare(s) for p in _PIECE.findall(asked[0] if asked else text) for s in _STOPPED.split(p)]
    statements = [s for s in statements if content_words(s) or _CONTINUES.match(s) or (s.endswith("?") and _PRONOUN.search(s))]
    questions = [s for s in statements if s.endswith("?")]
    if questions:
        short = [s for s in statements if s.endswith("?") or (_COMPARES.match(s) and len(s.split()) <= LONGEST_CONTEXT)]
        return short[: 4 * MOST]
    if len(labels) > 1:
        return list(dict.fromkeys(value for _, value in labels if content_words(value)))[: 4 * MOST]
    wishes = [s for s in statements if not _INSTRUCTION.match(s)] or statements
    return wishes[: 4 * MOST]


def _bare(statement: str) -> str:
    statement = _LIST_MARK.sub("", statement).strip()
    if label := _LABEL.match(statement):
        rest = statement[label.end() :].strip()
        statement = rest if rest.endswith("?") else statement
    return statement


def _continued(piece: str, earlier: str) -> list[str]:
    """Read "And of Jupiter?" as the question before with Jupiter in its place, "What are they?" as that question again."""
    lead = _CONTINUES.match(piece)
    named = entities_of(piece)
    if not earlier or (named and not lead):
        return [piece]
    beyond = set(content_words(piece)) - {word for name in named for word in content_words(name)}
    before = entities_of(earlier)
    if beyond or not before:
        return [earlier] if not beyond and not named else [piece]
    together = next((m[0] for m in _TOGETHER.finditer(earlier) if before[0] in m[0]), before[0])
    return [earlier.replace(together, name) for name in named[:MOST]] or [earlier]


def _referents(statement: str, found: Sequence[Question], context: Sequence[str], earlier: str) -> Sequence[str]:
    """Return what a statement without names of its own is about: what its pronouns stand for, else nothing."""
    words = content_words(statement)
    points_back = bool(_PRONOUN.search(statement))
    if found and found[-1].entities and (not words or points_back):
        return found[-1].entities
    if words and not points_back:
        # "And the smallest?" after "Which planet is the largest?": the smallest planet
        return [w for w in content_words(earlier) if not _GRADE.search(w)] if _CONTINUES.match(statement) else ()
    return list(context) or content_words(earlier)


def _spread(statement: str) -> list[str]:
    """Return one statement for each of the things it compares or asks about alike; itself when that is not clear."""
    if len(statement) > LONGEST_COMPARISON:
        return [statement]
    whole = statement
    first, _, rest = statement.partition(" ")
    if is_stop(first):  # "Compare Mars": its capital is no name's
        statement = f"{first.lower()} {rest}"
    two = _TWO_ASPECTS.match(statement)
    if two:
        return [f"{two[1]}{two[2]}{two[4]}", f"{two[1]}{two[3]}{two[4]}"]
    for match in _TOGETHER.finditer(statement):
        names = [name for name in entities_of(match[0]) if name]
        if statement[: match.start()].strip() == "" and not names:
            continue
        if not 2 <= len(names) <= MOST or not _is_parallel(statement, match):
            continue
        before, after = statement[: match.start()], statement[match.end() :]
        return [f"{before}{name}{after}" for name in names]
    return [whole]


def _is_parallel(statement: str, match: re.Match[str]) -> bool:
    before = statement[: match.start()]
    return bool(
        _PLURAL_VERB.search(before)
        or _PLURAL_OF.search(before)
        or _COMPARES.search(before)
        or re.search(r"\b(?:vs\.?|versus)\s", match[0])
        or _REPEATED.search(match[0])
    )
