"""Tables: which column names what a row is about, and what the other columns ask.

A column names the row's thing only when it is not itself what the question asks for: in a table "planet, moons" about Mars and
Jupiter the planet is given and the moons are asked; in a table "discoverer" about Uranus, Uranus is no discoverer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ipy_websearch.model.offline.claims import is_said_to_be
from ipy_websearch.model.offline.evidence import Sentence, title_core
from ipy_websearch.model.offline.fields import PEOPLE, column_words
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.values import types_of
from ipy_websearch.model.offline.words import is_stop, related, stem, stems

_NAMING = ("name", "title", "item", "entity", "product", "company", "country")
_ANYTHING = ("name", "answer", "value", "result")


def key_column(
    texts: Sequence[str], others: bool, names: Sequence[str], questions: Sequence[Question], sentences: Sequence[Sentence]
) -> str | None:
    """Return the column (of `texts`, those of text) that names what each row is about, None when every column is asked.

    `others` says whether there are more columns than one, `names` are the things that the question names.
    """
    ordered = [*[name for name in texts if name.lower() in _NAMING], *[name for name in texts if name.lower() not in _NAMING]]
    if not names:
        return next(iter(ordered), None)
    if not others:
        return None
    open_to = [name for name in ordered if not _is_sought(name, questions)]
    for name in open_to:
        if any(_is_kind_of(name, thing, sentences) for thing in names):
            return name
    free = [name for name in open_to if name.lower() == "name" or question_of(name, questions) is None]
    return next((name for name in free if name.lower() in _NAMING or len(names) > 1), None)


def question_of(name: str, questions: Sequence[Question]) -> Question | None:
    """Return the question that asks for a column by its name ("capital") or by what it is ("discoverer": who), else None."""
    own = _stems(name)
    for question in questions:
        asked = question.stems - question.entity_stems
        if own & asked or any(not related(one).isdisjoint(asked) for one in own):
            return question
    for question in questions:
        if "person" in question.kinds and own & PEOPLE:
            return question
    return questions[0] if name.lower() in _ANYTHING and questions else None


def lists_things(name: str, questions: Sequence[Question]) -> bool:
    """Return whether a question asks for several of a column's things: "the moons of Mars" for a column "moon"."""
    own = _stems(name)
    return any(stem(term) in own and term.endswith("s") and term.lower() != name.lower() for q in questions for term in q.terms)


def described(name: str, schema: Mapping[str, Any], questions: Sequence[Question]) -> Mapping[str, Any]:
    """Return a column's schema with what it asks: the question that it is asked by, else its name with the first question."""
    if schema.get("description") or not questions:
        return schema
    asked = question_of(name, questions)
    if asked is None and "string" in types_of(schema):
        return schema  # the words that answer the question are not what another column asks
    return {**schema, "description": asked.text if asked else f"{column_words(name)}: {questions[0].text}"}


def things_named(names: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the things that a question names, each once, without what is only a column's word: "each planet"."""
    return [name for name in dict.fromkeys(names) if not any(set(stems(name)) <= _stems(column) for column in texts)]


def _is_sought(name: str, questions: Sequence[Question]) -> bool:
    """Return whether a column is what a "which" or "who" asks for, whatever else is of its kind."""
    own = _stems(name)
    person = name.lower() in _ANYTHING and any(q.kinds[0] == "person" for q in questions)
    return person or any(q.sought in own for q in questions if q.sought)


def _is_kind_of(name: str, thing: str, sentences: Sequence[Sentence]) -> bool:
    """Return whether a sentence says that a thing is what a column is called: "Mars is the fourth planet …".

    So does the address of its page, where it names a shelf: "…/elements/iron".
    """
    about, own = frozenset(stems(thing)), _stems(name)
    pages = {sentence.source for sentence in sentences if title_core(sentence.source.title)[1] == about}
    if own and any(own <= set(stems(urlsplit(page.url).path + " " + urlsplit(page.url).netloc)) for page in pages):
        return True
    words = column_words(name)
    return any(
        about <= (sentence.stems | title_core(sentence.source.title)[1])
        and is_said_to_be(about, words, sentence.text, title_core(sentence.source.title)[0])
        for sentence in sentences
    )


def _stems(name: str) -> frozenset[str]:
    return frozenset(stem(word) for word in re.findall(r"\w+", column_words(name)) if not is_stop(word))
