"""Fills records and tables with exact values from the fact lines of articles. Pure.

An article may hold a line `Facts: capital: Paris; currency: euro`. A property of a record gets the value of the fact whose name
it has, or whose name stands in its question; every other property is null. The quote is the fact as it stands there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ipy_websearch.citations.quantities import read
from ipy_websearch.model.offline.passages import Source, named_in
from ipy_websearch.providers.passages import content_words, stem, stems

MOST_ROWS = 20
_SCALE = {"thousand": 10**3, "million": 10**6, "billion": 10**9}


def facts_of(source: Source) -> dict[str, str]:
    """Return the facts of an article, name to value, in order."""
    return dict(fact.split(": ", 1) for fact in source.facts[1] if ": " in fact)


def fill_record(schema: Mapping[str, Any], text: str, sources: Sequence[Source]) -> dict[str, Any]:
    """Return an input for a tool with this schema: `{column: {value, source, quote, confidence}}`, values, or `{rows: […]}`.

    `text` is what the user wrote. It names the article that a record is about, and asks for the properties.
    """
    properties = schema.get("properties") or {}
    if "items" in properties.get("rows", ()):
        return {"rows": _rows(properties["rows"]["items"]["properties"], sources)}
    filled: dict[str, Any] = {}
    for name, part in properties.items():
        line = re.search(rf"^{re.escape(name)}:\s*(.+)$", text, re.MULTILINE)
        asked = f"{line[1] if line else name.replace('_', ' ')} {part.get('description', '')}"
        value = (part.get("properties") or {}).get("value")
        cell = _cell(name, asked, text, value or part, sources)
        filled[name] = cell if value else cell["value"]
    return filled


def _rows(columns: Mapping[str, Any], sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return a table with a row for each article that has one of the facts asked for; its first column of text is the title."""
    key = next((name for name, schema in columns.items() if name != "source" and _kind(schema).get("type") == "string"), "")
    rows = []
    for source in sources[:MOST_ROWS]:
        found = {name: _value(name, name, source, schema)[1] for name, schema in columns.items() if name not in (key, "source")}
        if any(value is not None for value in found.values()):
            row = {**found, key: source.title, "source": source.url}
            rows.append({name: row.get(name) for name in columns})
    return rows


def _cell(name: str, asked: str, text: str, schema: Mapping[str, Any], sources: Sequence[Source]) -> dict[str, Any]:
    """Return the cell of a property, from the article that the text names; null without such a fact."""
    said = set(stems(text))
    for source in sorted(named_in(text, sources), key=lambda source: -len(said.intersection(stems(source.title)))):
        quote, value = _value(name, asked, source, schema)
        if value is not None:
            return {"value": value, "source": source.url, "quote": quote, "confidence": 1.0}
    return {"value": None, "source": "", "quote": "", "confidence": 0.0}


def _value(name: str, asked: str, source: Source, schema: Mapping[str, Any]) -> tuple[str, Any]:
    """Return a fact as it stands in an article, and its value as the schema wants it, None where there is none: the fact of the
    property's name, else the one with the longest name that stands in the question."""
    facts, words = facts_of(source), {stem(word) for word in content_words(asked)} | {w.casefold() for w in asked.split()}
    within = sorted((fact for fact in facts if words.issuperset(stems(fact))), key=len, reverse=True)
    if re.search(r"\bwho\b", asked, re.IGNORECASE):
        within = [fact for fact in facts if fact.endswith(" by") and words.issuperset(stems(fact)[:1])] or within
    named = [fact for fact in facts if stems(fact) == stems(name.replace("_", " "))]
    for fact in (named or within)[:1]:
        return f"{fact}: {facts[fact]}", _converted(facts[fact], _kind(schema), asked)
    return "", None


def _kind(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a value without the variant that allows null."""
    return dict(schema.get("anyOf", [schema])[0])


def _converted(value: str, schema: Mapping[str, Any], asked: str) -> Any:
    """Return a fact's value as the schema wants it, None where it does not fit; `asked` may want it "in millions"."""
    if "enum" in schema:
        return next((choice for choice in schema["enum"] if str(choice).casefold() == value.casefold()), None)
    kind, numbers = schema.get("type"), read(value).numbers
    if kind in ("integer", "number") and numbers:
        wanted = re.search(rf"\b({'|'.join(_SCALE)})s?\b", asked, re.IGNORECASE)
        number = numbers[0].readings[0].own / (_SCALE[wanted[1].lower()] if wanted else 1)
        nearest = round(number)
        return nearest if abs(number - nearest) < 1e-6 else number if kind == "number" else None
    is_date = schema.get("format") == "date"
    return value if kind == "string" and (not is_date or re.fullmatch(r"\d{4}-\d\d-\d\d", value)) else None
