"""Words: cutting text into them, bringing their forms together, and telling content words from the rest. English.

The invariant is that a form maps to the same stem wherever it stands, in a question, a title or a sentence; that a stem
is a word is not needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ipy_websearch.model.offline import lexicon

WORD = re.compile(
    r"(?:[A-Z]\.){2,}|\d+(?:[.,]\d+)*(?![^\W_])|[^\W_]+(?:\+\+|#)?(?![^\W_])(?:['’](?:s|t|re|ve|ll|d|m)?\b)?|[^\W_]+"
)

STOP = frozenset(lexicon.STOP_WORDS.split())
_IRREGULAR = {
    form: line.split(":")[0].strip() for line in lexicon.FORMS.strip().splitlines() for form in line.split(":")[1].split()
}
_SUPERLATIVES = frozenset(lexicon.GRADED.split())
_ZEROS = re.compile(r"(?:\.0+)+$")
_VOWEL = re.compile("[aeiouy]")


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Return the stem of a word: "created", "creator" and "creation" give "creat", "moons" gives "moon"."""
    if word[:1].isdigit():
        return _ZEROS.sub("", word)  # version 2.0.0 is version 2.0
    word = word.lower().replace("’", "'").replace(".", "")
    for ending in ("'s", "'"):
        word = word.removesuffix(ending)
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 3 or not word.isalpha():
        return word
    return _without_derivation(_without_inflection(_singular(word)))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _without_inflection(word: str) -> str:
    if word.endswith("est") and (word[:-3] in _SUPERLATIVES or word[:-3] + "e" in _SUPERLATIVES):
        return word[:-3]
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and _VOWEL.search(base):
            doubled = len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsz"
            return base[:-1] if doubled else base
    return word


def _without_derivation(word: str) -> str:
    for ending, longer_than in (("er", 5), ("or", 5), ("ion", 5), ("y", 4), ("e", 3)):
        base = word.removesuffix(ending)
        if base != word and len(word) > longer_than and (ending != "ion" or base[-1] in "ts"):
            return base
    return word


@dataclass(frozen=True, slots=True)
class Word:
    """A word where it stands in a text."""

    text: str
    stem: str
    start: int
    end: int


@lru_cache(maxsize=2048)
def located(text: str) -> tuple[Word, ...]:
    """Return the words of a text with their stems and places."""
    return tuple(Word(m[0], stem(m[0]), m.start(), m.end()) for m in WORD.finditer(text))


def words(text: str) -> list[str]:
    """Return the words of a text in order, as they are written; numbers with separators are one word."""
    return WORD.findall(text)


def stems(text: str) -> list[str]:
    """Return the stems of all words of a text, in order."""
    return [stem(word) for word in WORD.findall(text)]


def content_words(text: str) -> list[str]:
    """Return the words of a text that are not stop words, in order, as they are written.

    Capitals save a word: "US", "WHO" and "D" (the language) are content, and so is the month in "May 2026".
    """
    shouting = text.isupper()
    found = WORD.findall(text)
    return [
        word for at, word in enumerate(found) if not is_stop(word) or (not shouting and _is_saved(word, found[at + 1 : at + 2]))
    ]


def _is_saved(word: str, following: list[str]) -> bool:
    return (word.isupper() and word not in ("A", "I")) or (word == "May" and following[:1] != [] and following[0].isdigit())


def is_stop(word: str) -> bool:
    """Return whether a word says nothing about what is asked for (whatever its case)."""
    return word.lower().replace("’", "'").removesuffix("'s") in STOP


def content_stems(text: str) -> list[str]:
    """Return the stems of the content words of a text, in order, with repetitions."""
    return [stem(word) for word in content_words(text)]


def _relations() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for group in lexicon.RELATED:
        together = frozenset(map(stem, group.split()))
        for one in together:
            found[one] = found.get(one, frozenset()) | together - {one}
    for word, others in lexicon.STANDS_FOR.items():
        found[stem(word)] = found.get(stem(word), frozenset()) | frozenset(map(stem, others.split()))
    return found


SOFT = frozenset(stem(word) for word in lexicon.SOFT_WORDS.split())
_RELATED = _relations()


def related(stem_: str) -> frozenset[str]:
    """Return the stems of words that may stand for a word in an answer ("designed" for "created"), without itself."""
    return _RELATED.get(stem_, frozenset())
