"""Fills records and tables with exact values from the fact lines of articles. Pure.

An article may hold a line `Facts: capital: Paris; currency: euro`. A property of a record gets the value of the fact whose name
it has, or whose name stands in its question; every other property is null. The quote is the fact as it stands there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from ipy_websearch.model.offline.passages import Source, named_in
from ipy_websearch.providers.passages import content_words, stem, stems

MOST_ROWS = 20
_SCALE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_NUMBER = re.compile(r"([-+−]?\d[\d,]*(?:\.\d+)?)\s*(thousand|million|billion|trillion)?", re.IGNORECASE)
_EMPTY: dict[str, Any] = {"string": "", "array": [], "object": {}, "number": 0, "integer": 0, "boolean": False}


@dataclass(frozen=True, slots=True)
class Fact:
    """One property of an article, and the article."""

    name: str
    value: str
    source: Source


def facts_of(source: Source) -> list[Fact]:
    """Return the facts of an article, in order."""
    pairs = (fact.partition(":") for fact in source.facts[1])
    return [Fact(name.strip(), value.strip(), source) for name, _, value in pairs if value.strip()]


def fill_record(schema: Mapping[str, Any], text: str, sources: Sequence[Source]) -> dict[str, Any]:
    """Return an input for a tool with this schema: `{column: {value, source, quote, confidence}}`, values, or `{rows: […]}`.

    `text` is what the user wrote. It names the article that a record is about, and asks for the properties.
    """
    filled: dict[str, Any] = {}
    for name, part in (schema.get("properties") or {}).items():
        if row := (_variant(part, "array").get("items") or {}).get("properties"):
            filled[name] = _rows(row, sources)
            continue
        given = _variant(part, "object").get("properties") or {}
        line = re.search(rf"^{re.escape(name)}:\s*(.+)$", text, re.MULTILINE)
        asked = f"{line[1] if line else name.replace('_', ' ')} {part.get('description', '')}"
        cell = _cell(name, asked, text, given if "value" in given else {"value": part}, sources)
        filled[name] = cell if "value" in given else cell["value"]
    return filled


def _rows(properties: Mapping[str, Any], sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return a table with a row for each article that has one of the facts asked for; its first column of text is the title."""
    key = next((name for name, part in properties.items() if name != "source" and _variant(part, "string")), "")
    rows = []
    for source in sources[:MOST_ROWS]:
        facts = {name: _match(name, name, facts_of(source)) for name in properties if name not in (key, "source")}
        found = {name: _converted(fact, properties[name]) for name, fact in facts.items() if fact is not None}
        if any(value is not None for value in found.values()):
            row = {**found, key: source.title, "source": source.url}
            rows.append({name: _filled(row.get(name), part) for name, part in properties.items()})
    return rows


def _cell(name: str, asked: str, text: str, parts: Mapping[str, Any], sources: Sequence[Source]) -> dict[str, Any]:
    """Return the parts of a cell for a property, from the article that the text names; empty without such a fact."""
    said, known = set(stems(text)), dict[str, Any](confidence=0.0)
    for source in sorted(named_in(text, sources), key=lambda source: -len(set(stems(source.title)) & said)):
        fact = _match(name, asked, facts_of(source))
        if fact is not None and (value := _converted(fact, parts["value"], asked)) is not None:
            known = {"value": value, "source": source.url, "quote": f"{fact.name}: {fact.value}", "confidence": 1.0}
            break
    return {key: _filled(known.get(key), part) for key, part in parts.items()}


def _match(name: str, asked: str, facts: Sequence[Fact]) -> Fact | None:
    """Return the fact that has the property's name, else the one with the longest name that stands in the question."""
    plain = stems(name.replace("_", " "))
    named = [fact for fact in facts if stems(fact.name) == plain]
    words = {stem(word) for word in content_words(asked)} | {word.casefold() for word in asked.split()}
    within = [fact for fact in facts if set(stems(fact.name)) <= words]
    if re.search(r"\bwho\b", asked, re.IGNORECASE):
        within = [f for f in facts if f.name.endswith(" by") and set(stems(f.name)[:1]) <= words] or within
    return next(iter(named or sorted(within, key=lambda fact: -len(fact.name))), None)


def _converted(fact: Fact, schema: Mapping[str, Any], asked: str = "") -> Any:
    """Return a fact's value as the schema wants it, None where it does not fit; `asked` may want it "in millions"."""
    kinds, types = _variants(schema), _types(schema)
    if choices := [choice for kind in kinds for choice in kind.get("enum") or () if choice is not None]:
        return next((choice for choice in choices if str(choice).casefold() == fact.value.casefold()), None)
    if "integer" in types or "number" in types:
        wanted = re.search(rf"\b({'|'.join(_SCALE)})s?\b", asked, re.IGNORECASE)
        return _number(fact.value, whole="number" not in types, per=_SCALE[wanted[1].lower()] if wanted else 1)
    is_date = any(kind.get("format") == "date" for kind in kinds)
    return fact.value if "string" in types and (not is_date or re.fullmatch(r"\d{4}-\d\d-\d\d", fact.value)) else None


def _number(text: str, *, whole: bool, per: int) -> float | int | None:
    found = _NUMBER.search(text)
    if found is None:
        return None
    scale = _SCALE[found[2].lower()] if found[2] else 1
    value = float(found[1].replace(",", "").replace("−", "-")) * scale / per
    nearest = round(value)
    return nearest if abs(value - nearest) < 1e-6 else None if whole else value


def _variants(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [schema, *(part for key in ("anyOf", "oneOf") for part in schema.get(key) or ())]


def _variant(schema: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the variant of a schema that takes values of a kind, an empty one when none does."""
    return next((part for part in _variants(schema) if kind == part.get("type") or kind in list(part.get("type") or ())), {})


def _types(schema: Mapping[str, Any]) -> list[str]:
    return [name for name in (*_EMPTY, "null") if _variant(schema, name)]


def _filled(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value; where there is none null, or what is empty in a type that allows no null."""
    types = _types(schema)
    return copy(_EMPTY[types[0]]) if value is None and types and "null" not in types else value
