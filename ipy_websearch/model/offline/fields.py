"""Fields: what each property of a record's JSON schema asks, as a question of its own.

A property's question is, in this order: the line of the user's text labelled with its name, its description with the row's
values in place of `{column}`, or its name in words. The row is read from lines such as "country: France" or from JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ipy_websearch.model.offline.amounts import family_of
from ipy_websearch.model.offline.parts import split_questions
from ipy_websearch.model.offline.question import Kind, Question, entities_of, read_question
from ipy_websearch.model.offline.values import choices_of, types_of
from ipy_websearch.model.offline.words import SOFT, is_stop, stem, stems

_LABELLED = re.compile(
    r"^\s*(?:[-*•]|\d{1,2}[.)])?\s*[\"'`*]*([\w][\w .()/²-]{0,60}?)[\"'`*]*(?:\s*\([^)]*\))?"
    r"\s*[:=]\s+[\"'`*]*(.+?)[\"'`*,]*\s*$"
)
_HOLE = re.compile(r"\{+\s*(\w+)\s*\}+")
_DATED_WORDS = """
    year founded established discovered appeared released born published launched date opened built independence isolated
    invented created died joined since inception
"""
_DATED = frozenset(map(stem, _DATED_WORDS.split()))
_PEOPLE_WORDS = """
    founder author inventor discoverer designer creator developer director ceo president leader composer artist painter
    architect chairman minister mayor king queen
"""
PEOPLE = frozenset(map(stem, _PEOPLE_WORDS.split()))
_ROLE = re.compile(
    r"\W*(?:what\s+(?:is|was)\s+)?(?:the\s+)?(?:names?\s+of\s+)?(?:the\s+)?([a-z]+?)s?\s+(?:of|for|behind)\b", re.IGNORECASE
)
_QUOTES = (
    "quote",
    "evidence",
    "excerpt",
    "snippet",
    "passage",
    "reason",
    "reasoning",
    "explanation",
    "justification",
    "cited_text",
)
_ADDRESSES = ("source", "source_url", "url", "citation", "link", "reference", "sources", "urls", "links")


@dataclass(frozen=True, slots=True)
class Row:
    """What the user's text says about the thing to record: its labelled values, and the names it is about."""

    text: str
    labels: Mapping[str, str]
    about: tuple[str, ...]


def read_row(text: str, properties: Sequence[str]) -> Row:
    """Return the row that a user's text describes; labels that name a property are questions, the others values."""
    labels = {_plain(m[1]): m[2].strip() for line in text.splitlines() if (m := _LABELLED.match(line))}
    labels.update(_json_labels(text))
    names = {_plain(name) for name in properties}
    values = [value for label, value in labels.items() if label not in names and not value.endswith("?") and len(value) <= 80]
    named = [entity for question in split_questions(text) for entity in question.entities]
    return Row(text, labels, tuple(dict.fromkeys(values)) or tuple(dict.fromkeys(named)))


def _json_labels(text: str) -> dict[str, str]:
    start, end = text.find("{"), text.rfind("}")
    try:
        value = json.loads(text[start : end + 1]) if 0 <= start < end else None
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {_plain(k): str(v) for k, v in value.items() if isinstance(v, (str, int, float)) and not isinstance(v, bool)}


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", " ", name).strip().lower()


def question_for(name: str, schema: Mapping[str, Any], row: Row) -> Question:
    """Return the question that a property asks about the row, with the kind of answer its type wants."""
    text = row.labels.get(_plain(name), "")
    if not text.endswith("?") and len(text.split()) < 3:
        text = str(schema.get("description") or "")
    text = _HOLE.sub(lambda m: row.labels.get(_plain(m[1]), " "), text).strip()
    words = column_words(name)
    text = text or words
    about = row.about
    if about and not any(_says(text, a) for a in about):
        text = f"{text.rstrip('?. ')} ({', '.join(about)})"
    question = read_question(text, about=about)
    lowered = frozenset(s for a in about if _says(text, a) for s in stems(a) if s in question.stems)
    if lowered and question.stems - lowered - question.entity_stems:
        question = replace(question, entity_stems=question.entity_stems | lowered)
    groups = dict.fromkeys(frozenset(s for s in stems(a) if s in question.stems) for a in about if _says(text, a))
    question = replace(question, about=tuple(group for group in groups if group))
    kind = kind_for(words, schema, question)
    counted = question.counted
    if kind == "number" and not counted and family_of(question) is None and "?" not in text:
        counted = _counted(name)
    return replace(question, kinds=(kind,), counted=counted)


def column_words(name: str) -> str:
    """Return a property's name in words: "official_language", "officialLanguage"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ")


def _says(text: str, name: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE))


def _counted(name: str) -> tuple[str, ...]:
    """Return what a property counts by its name: "moons", "num_employees" and "episode_count" count, "population" does not."""
    plain = re.sub(r"^(?:n|num|number|no|count|total)_(?:of_)?|_(?:count|total)$", "", name.lower())
    words = [word for word in re.split(r"[\W_]+", plain) if word and stem(word) not in SOFT]
    return tuple(stem(word) for word in words) if words and (plain != name.lower() or words[-1].endswith("s")) else ()


def kind_for(words: str, schema: Mapping[str, Any], question: Question) -> Kind:
    """Return the kind of value that a property wants, from its type first and its words second."""
    types = types_of(schema) - {"null"}
    asked = question.kinds[0]
    own = {stem(word) for word in words.split() if not is_stop(word)}
    if types & {"integer", "number"}:
        dated = asked == "year" or ("year" in question.kinds and asked != "number")
        dated = dated or (bool(own & _DATED) and not question.counted and asked != "number")
        return "year" if dated and "integer" in types or dated and asked == "year" else "number"
    if types == {"boolean"}:
        return "boolean"
    if choices_of(schema):
        return "name"
    if schema.get("format") in ("date", "date-time") or asked == "year":
        return "year"
    if asked in ("person", "place", "number"):
        return asked
    role = _ROLE.match(question.text)
    if own & PEOPLE or (role and role[1].lower() in _PEOPLE_WORDS.split()):
        return "person"
    return "definition" if asked == "definition" and own & {"description", "summary", "definition"} else "name"


def is_source(name: str) -> bool:
    """Return whether a property wants the address of a source."""
    return _plain(name).replace(" ", "_") in _ADDRESSES or name.lower().endswith(("_source", "_url", "_link", "_citation"))


def is_quote(name: str) -> bool:
    """Return whether a property wants the words that a value was read from."""
    return name.lower() in _QUOTES or name.lower().endswith(tuple(f"_{word}" for word in _QUOTES))


def is_confidence(name: str) -> bool:
    """Return whether a property wants how sure a value is, from 0 to 1."""
    return name.lower() in ("confidence", "certainty") or name.lower().endswith(("_confidence", "_certainty"))


def base_of(name: str) -> str:
    """Return the property that a source or quote belongs to: "ceo" for "ceo_source", "" for "source"."""
    return re.sub(
        r"_?(?:source_url|source|url|link|citation|quote|evidence|excerpt|snippet|confidence|certainty)$",
        "",
        name,
        flags=re.IGNORECASE,
    )


def entities_for(row: Row) -> tuple[str, ...]:
    """Return the things that a table has rows for, as far as the user's text names them."""
    return tuple(dict.fromkeys(e for q in split_questions(row.text) for e in (q.entities or entities_of(q.text))))
