"""What the API's strict mode takes of JSON Schema: closed objects, no recursion, no number or length limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.fakes.shapes import words

UNSUPPORTED = words(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength maxItems uniqueItems "
    "minProperties maxProperties patternProperties not if then else dependentSchemas prefixItems contains"
)


def walk(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas in it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for name in ("properties", "$defs", "definitions"):
        for inner in (schema.get(name) or {}).values():
            yield from walk(inner)
    for name in ("anyOf", "allOf", "oneOf"):
        for inner in schema.get(name) or []:
            yield from walk(inner)
    yield from walk(schema.get("items"))


def check_schema(schema: dict[str, Any]) -> str | None:
    """Return what strict mode does not take in a schema, or None."""
    for part in walk(schema):
        if part.get("type") == "object" and part.get("additionalProperties") is not False:
            return "For 'object' type, 'additionalProperties' must be explicitly set to false"
        if wrong := [name for name in UNSUPPORTED if name in part]:
            return f"For '{part.get('type')}' type, properties {', '.join(wrong)} are not supported"
        if part.get("minItems") not in (None, 0, 1):
            return "For 'array' type, 'minItems' values other than 0 or 1 are not supported"
        if unknown := [name for name in part.get("required") or [] if name not in (part.get("properties") or {})]:
            return f"'required' names properties that are not defined: {', '.join(unknown)}"
    return "Recursive schemas are not supported" if _is_recursive(schema) else None


def optional_parameters(schema: dict[str, Any]) -> int:
    """Return how many properties, at any depth, are not required."""
    return sum(len(set(part.get("properties") or {}) - set(part.get("required") or [])) for part in walk(schema))


def unions(schema: dict[str, Any]) -> int:
    """Return how many parts have several types: `anyOf`, or a list of types."""
    return sum("anyOf" in part or isinstance(part.get("type"), list) for part in walk(schema))


def _is_recursive(schema: dict[str, Any]) -> bool:
    """Return True when a definition refers to itself, directly or through others."""
    definitions = {**(schema.get("definitions") or {}), **(schema.get("$defs") or {})}
    graph = {name: {_name(p["$ref"]) for p in walk(part) if "$ref" in p} for name, part in definitions.items()}

    def reaches(start: str, wanted: str, seen: set[str]) -> bool:
        for name in graph.get(start, set()) - seen:
            seen.add(name)
            if name == wanted or reaches(name, wanted, seen):
                return True
        return False

    return any(p.get("$ref") == "#" for p in walk(schema)) or any(reaches(name, name, set()) for name in graph)


def _name(reference: str) -> str:
    return reference.rsplit("/", 1)[-1]
