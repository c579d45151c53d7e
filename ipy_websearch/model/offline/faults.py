"""Faults: what speaks against a sentence as an answer, whatever words of the question it holds."""

from __future__ import annotations

import re

from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.sentences import is_cut

_ORDINAL = re.compile(
    r"\b(?:second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:nd|rd|th))[\s-]+\w+(?:est|ermost)\b", re.I
)
_SUPERLATIVE = re.compile(r"\b\w+est\b|\bmost\b|\bfirst\b", re.I)
YEARS = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
_CAPITAL_BEFORE = re.compile(r"(?<![.!?:]\s)(?<!^)\b(?!The\b|A\b|An\b|In\b|On\b|At\b|Of\b|President\b|Mount\b)[A-Z][a-z]+\s$")
_CAPITAL_AFTER = re.compile(r"\s(?!Inc|Corp|Ltd|LLC|Co\b|Company|Corporation|PLC|AG\b|SE\b|SA\b)[A-Z][a-z]+")
_VERSION = re.compile(r"\s+v?\d+(?:\.\d+)*\b(?!\s*(?:percent|%|kilo|°|million|of))")


def faults_of(question: Question, text: str) -> float:
    """Return what speaks against a sentence: a heading, a question, one cut off, or another rank than was asked for."""
    count = text.count(" ") + 1
    fault = 0.35 if count < 4 and text[-1:] not in ".!。" else 0.0
    fault += 0.3 if text.endswith("?") else 0.0
    fault += 0.1 if is_cut(text) else 0.0
    fault += 0.1 if count > 60 else 0.0
    if _SUPERLATIVE.search(question.text) and _ORDINAL.search(text) and not _ORDINAL.search(question.text):
        fault += 0.35
    fault += 0.4 if of_another_year(question, text) else 0.0
    for entity in question.entities:
        if _only_in_longer_names(entity, text):
            fault += 0.25
        at = text.find(entity)
        if at >= 0 and _VERSION.match(text, at + len(entity)) and text.count(entity) == 1:
            fault += 0.2  # "Python 3.0 was released" is not about Python as such
    return fault


def of_another_year(question: Question, text: str) -> bool:
    """Return whether a sentence is dated, and not in a year that the question names."""
    asked, said = set(YEARS.findall(question.text)), set(YEARS.findall(text))
    return bool(asked and said) and asked.isdisjoint(said)


def _only_in_longer_names(entity: str, text: str) -> bool:
    """Return whether a name stands in a sentence only as part of others: "Greater Tokyo Area" is not Tokyo."""
    places = [m.span() for m in re.finditer(rf"(?<!\w){re.escape(entity)}(?!\w)", text)]
    longer = [bool(_CAPITAL_BEFORE.search(text[:start]) or _CAPITAL_AFTER.match(text[end:])) for start, end in places]
    return bool(longer) and all(longer)
