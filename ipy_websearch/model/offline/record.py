"""Records: the input of a structured tool, filled from the sources property by property.

Understood are objects of any depth, `{column: {"value", "source", "quote"}}`, flat `{column, column_source}`, and tables
`{"rows": [{column: …}]}`. What no sentence gives is null (an empty string or list where the schema allows no null).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ipy_websearch.model.offline.evidence import Sentence, collect, title_core
from ipy_websearch.model.offline.fields import (
    Row,
    base_of,
    entities_for,
    is_confidence,
    is_quote,
    is_source,
    question_for,
    read_row,
)
from ipy_websearch.model.offline.found import Found
from ipy_websearch.model.offline.parts import split_questions
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.rank import Scored, rank
from ipy_websearch.model.offline.sources import Source
from ipy_websearch.model.offline.tables import described, key_column, lists_things, things_named
from ipy_websearch.model.offline.values import choice_answers, choice_in, choices_of, date_in, scale_asked, types_of
from ipy_websearch.model.offline.words import stem, stems

SURE_ENOUGH = 0.4
MOST_ROWS = 20
DEEPEST = 6
_VALUE_NAMES = ("value", "answer", "result")


def fill(schema: Mapping[str, Any], text: str, sources: Sequence[Source]) -> dict[str, Any]:
    """Return an input for a tool with this JSON schema, from what the sources say about the user's text."""
    names = list(_properties(schema))
    record = _Record(collect(sources), read_row(text, names), schema)
    return record.object(schema, record.row)


def found_anything(value: Any) -> bool:
    """Return whether a filled record holds any value at all."""
    if isinstance(value, Mapping):
        return any(found_anything(item) for item in value.values())
    if isinstance(value, list):
        return any(found_anything(item) for item in value)
    return value not in (None, "")


class _Record:
    """Fills one record; keeps what was found for each property, for the sources and quotes that go with it."""

    def __init__(self, sentences: list[Sentence], row: Row, root: Mapping[str, Any]) -> None:
        self.row = row
        self._sentences = sentences
        self._depth = 0
        self._definitions: Mapping[str, Any] = root.get("$defs") or root.get("definitions") or {}

    def object(self, schema: Mapping[str, Any], row: Row, asked: tuple[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
        """Return an object; `asked` is the property that it is the value of, whose question its "value" answers."""
        self._depth += 1
        properties = {name: self._resolved(part) for name, part in _properties(self._resolved(schema)).items()}
        best: dict[str, Scored | None] = {}
        filled: dict[str, Any] = {}
        for name, part in properties.items():
            if _goes_with_a_value(name):
                continue
            about = (asked[0], {**part, "description": _described(asked[1], part)}) if asked and name in _VALUE_NAMES else None
            filled[name], best[name] = self._property(about[0] if about else name, about[1] if about else part, row)
        for name, part in properties.items():
            if name not in filled:
                filled[name] = _attached(name, part, best)
        self._depth -= 1
        return {name: filled[name] for name in properties}

    def _property(self, name: str, schema: Mapping[str, Any], row: Row) -> tuple[Any, Scored | None]:
        types = types_of(schema)
        inner = self._inner(schema, "object")
        if self._depth > DEEPEST:
            return _empty(types), None  # a schema that holds itself
        if inner is not None and _properties(inner):
            return self.object(inner, row, (name, schema)), None
        table = self._inner(schema, "array")
        if table is not None:
            items = self._resolved(table.get("items") or {})
            if _properties(items):
                return self._rows(items, row), None
            text: dict[str, Any] = {"type": "string"}
            found = next(iter(self._candidates(question_for(name, {**schema, **text}, row), text)), None)
            return _listed(found), found
        for found in self._candidates(question_for(name, schema, row), schema):
            if (value := _as_type(found, schema, name)) is not None:
                return value, found
        return _empty(types), None

    def _candidates(self, question: Question, schema: Mapping[str, Any]) -> list[Scored]:
        """Return the sentences with a value for a question, best first."""
        if choices := choices_of(schema):
            chosen = self._chosen(question, choices)
            return [chosen] if chosen else []
        kind = question.kinds[0]
        ranked = rank(question, self._sentences, kind)
        return [s for s in ranked if s.found and (s.found.strength >= SURE_ENOUGH or kind == "definition")]

    def _chosen(self, question: Question, choices: Sequence[Any]) -> Scored | None:
        """Return the best sentence that gives one of the choices as its answer, else the best that names one."""
        known = {str(choice).casefold(): choice for choice in choices}
        for scored in rank(question, self._sentences, "name"):
            if scored.found and (choice := known.get(str(scored.found.value).casefold())) is not None:
                return replace(scored, found=replace(scored.found, value=choice))
        open_question = replace(question, kinds=("text",))
        for scored in rank(open_question, self._sentences, "text"):
            if found := self._choice_of(choices, question, scored.sentence):
                return replace(scored, found=found)
        about = question.entity_stems
        for sentence in self._sentences:
            there = about and about <= (sentence.stems | title_core(sentence.source.title)[1])
            if there and (found := self._choice_of(choices, question, sentence)):
                return Scored(sentence, 0.0, 0.0, found)
        return None

    def _choice_of(self, choices: Sequence[Any], question: Question, sentence: Sentence) -> Found | None:
        found = choice_in(choices, question, sentence.text)
        title = title_core(sentence.source.title)[0]
        return found if found and (not question.about or choice_answers(question, found, sentence.text, title)) else None

    def _rows(self, items: Mapping[str, Any], row: Row) -> list[dict[str, Any]]:
        """Return one row for each thing that the question names, else for each page that has something to say."""
        properties = {name: self._resolved(part) for name, part in _properties(items).items()}
        values = [name for name in properties if not _goes_with_a_value(name)]
        texts = [name for name in values if "string" in types_of(properties[name])]
        names = things_named(entities_for(row) or row.about, texts)
        questions = split_questions(row.text)
        key = key_column(texts, len(values) > 1, names, questions, self._sentences)
        if names and key is None:
            return self._asked_rows(properties, row, values, questions)
        why: dict[str, Scored | None] = dict.fromkeys(names or self._titles(key, row))
        if not names and len(values) == 1 and questions:  # nothing but the name: the page has to answer the question
            why = {name: scored for name in why if (scored := self._answering(name, questions))}
        rows = [self._table_row(properties, row, name, key, scored) for name, scored in list(why.items())[:MOST_ROWS]]
        return [filled for filled in rows if filled is not None]

    def _answering(self, name: str, questions: Sequence[Question]) -> Scored | None:
        """Return the sentence of a page that answers a question in words."""
        own = [sentence for sentence in self._sentences if title_core(sentence.source.title)[0] == name]
        return next((found[0] for question in questions if (found := rank(question, own, "text"))), None)

    def _asked_rows(
        self, properties: Mapping[str, Any], row: Row, values: Sequence[str], questions: Sequence[Question]
    ) -> list[dict[str, Any]]:
        """Return the rows of a table of which every column is asked: one, or one for each of the things that are listed."""
        asking = {name: described(name, part, questions) for name, part in properties.items()}
        one = Row(row.text, {k: v for k, v in row.labels.items() if v.endswith("?")}, row.about or entities_for(row))
        for name in values:
            if "string" in types_of(properties[name]) and lists_things(name, questions):
                listed = self._property(name, asking[name], one)[1]
                rows = [self._table_row(properties, row, thing, name, listed) for thing in _listed(listed)[:MOST_ROWS]]
                return [filled for filled in rows if filled is not None]
        filled = self.object({"properties": asking}, one)
        return [filled] if found_anything({name: filled[name] for name in values}) else []

    def _titles(self, key: str | None, row: Row) -> list[str]:
        """Return the titles of the pages that are of the kind the table lists ("planet"), of all pages when none is said."""
        openings: dict[str, frozenset[str]] = {}
        for sentence in self._sentences:
            if sentence.source.title:
                openings.setdefault(title_core(sentence.source.title)[0], sentence.stems)
        asked = [stem(term) for question in split_questions(row.text) for term in question.terms if term.endswith("s")]
        for kind in [stem(key or ""), *asked]:
            if alike := [title for title, said in openings.items() if kind and kind in said]:
                return alike
        return list(openings)

    def _table_row(
        self, properties: Mapping[str, Any], row: Row, name: str, key: str | None, listed: Scored | None = None
    ) -> dict[str, Any] | None:
        """Return the row about a thing, None when nothing is said of it; `listed` is the sentence that names it."""
        one = Row(row.text, {k: v for k, v in row.labels.items() if v.endswith("?")}, (name,))
        rest = {n: p for n, p in properties.items() if n != key}
        filled = self.object({"properties": rest}, one)
        own = {n: v for n, v in filled.items() if not _goes_with_a_value(n)}
        if listed is not None and not found_anything(own):
            filled |= {n: _attached(n, p, {"": listed}) for n, p in rest.items() if _goes_with_a_value(n)}
        elif own and not found_anything(own):
            return None
        if not own and not any(set(stems(name)) <= s.stems for s in self._sentences):
            return None
        return {n: (name if n == key else filled[n]) for n in properties}

    def _inner(self, schema: Mapping[str, Any], wanted: str) -> Mapping[str, Any] | None:
        """Return the object or array that a schema is or may be (through `anyOf` with null)."""
        schema = self._resolved(schema)
        kinds = schema.get("type")
        if kinds == wanted or (isinstance(kinds, list) and wanted in kinds):
            return schema
        options = [self._resolved(option) for name in ("anyOf", "oneOf") for option in schema.get(name) or ()]
        return next((option for option in options if option.get("type") == wanted), None)

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        reference = str(schema.get("$ref") or "").rpartition("/")[2]
        if reference and isinstance(self._definitions.get(reference), Mapping):
            return {**self._definitions[reference], **{k: v for k, v in schema.items() if k != "$ref"}}
        return schema


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _described(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    return str(outer.get("description") or inner.get("description") or "")


def _as_type(scored: Scored, schema: Mapping[str, Any], name: str) -> Any:
    """Return a found value as the schema's type, None when it does not fit."""
    found = scored.found
    if found is None:
        return None
    types = types_of(schema)
    value: Any = found.value
    if isinstance(value, bool) or choices_of(schema):
        return value
    if isinstance(value, (int, float)):
        return _number_as(value, types, found, scored, schema, name)
    return value if "string" in types else None


def _number_as(
    value: int | float, types: set[str], found: Found, scored: Scored, schema: Mapping[str, Any], name: str
) -> int | float | str | None:
    text = scored.sentence.text
    if "string" in types and not types & {"integer", "number"}:
        if schema.get("format") in ("date", "date-time"):
            return date_in(text, found.start)
        return text[found.start : found.end]
    scale = scale_asked(f"{name} {schema.get('description') or ''}")
    scaled = value / scale if scale > 1 else value
    if "number" in types:
        return scaled
    return int(scaled) if float(scaled).is_integer() else (round(scaled) if scale > 1 else None)


def _listed(scored: Scored | None) -> list[str]:
    if scored is None or scored.found is None:
        return []
    return [part.strip() for part in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", str(scored.found.value)) if part.strip()]


def _goes_with_a_value(name: str) -> bool:
    return is_source(name) or is_quote(name) or is_confidence(name)


def _attached(name: str, schema: Mapping[str, Any], best: Mapping[str, Scored | None]) -> Any:
    """Return the source, quote or confidence that goes with a property: the one it is named after, else the best there is."""
    scored = best.get(base_of(name)) if base_of(name) in best else next((s for s in best.values() if s), None)
    types = types_of(schema)
    if is_confidence(name) and "string" not in types:
        sure = scored.found.strength if scored and scored.found else 0.0
        return round(min(sure, 1.0), 2) if scored or "null" not in types else None
    if scored is None:
        return _empty(types)
    value = scored.sentence.text if is_quote(name) else scored.sentence.source.url
    return [value] if "array" in types else value


def _empty(types: set[str]) -> Any:
    if "null" in types or types & {"integer", "number", "boolean"}:
        return None
    return [] if "array" in types else {} if types == {"object"} else ""
