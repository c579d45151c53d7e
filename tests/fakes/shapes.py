"""The fields that each object of a Messages API request may and must have, which role may send which block, and strict schemas.

Read off the request types of the official Python SDK 2.11 (November 2026). Content of blocks that this package never makes
(images, code execution) is not looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def words(text: str) -> list[str]:
    """Return the words of a text: a short way to write a list of names."""
    return text.split()


ANY_BLOCK = ("type", "cache_control")

FIELDS: dict[str, Iterable[str]] = {
    "request": words(
        "cache_control container diagnostics inference_geo max_tokens messages metadata model output_config service_tier "
        "speed stop_sequences stream system thinking tool_choice tools user_profile_id"
    ),
    "beta request": words("billing_policy compaction context_management fallback_credit_token fallbacks mcp_servers thread"),
    "container": ("id", "skills"),
    "message": ("role", "content"),
    "text": (*ANY_BLOCK, "text", "citations"),
    "image": (*ANY_BLOCK, "source", "transformations"),
    "document": (*ANY_BLOCK, "source", "title", "context", "citations"),
    "search_result": (*ANY_BLOCK, "source", "title", "content", "citations"),
    "thinking": ("type", "thinking", "signature"),
    "redacted_thinking": ("type", "data"),
    "tool_use": (*ANY_BLOCK, "id", "name", "input", "caller", "toolset_name"),
    "tool_result": (*ANY_BLOCK, "tool_use_id", "content", "is_error", "toolset_name"),
    "server_tool_use": (*ANY_BLOCK, "id", "name", "input", "caller"),
    "web_search_tool_result": (*ANY_BLOCK, "tool_use_id", "content", "caller"),
    "web_fetch_tool_result": (*ANY_BLOCK, "tool_use_id", "content", "caller"),
    "container_upload": (*ANY_BLOCK, "file_id"),
    "tool_reference": (*ANY_BLOCK, "tool_name"),
}

REQUIRED: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "search_result": ("source", "title", "content"),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
    "server_tool_use": ("id", "name", "input"),
    "web_search_tool_result": ("tool_use_id", "content"),
    "web_fetch_tool_result": ("tool_use_id", "content"),
    "container_upload": ("file_id",),
    "tool_reference": ("tool_name",),
}

STRINGS = ("source", "title", "tool_use_id", "id", "name")

CODE_EXECUTION = (
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
)

ALLOWED: dict[str, tuple[str, ...]] = {
    "system": ("text",),
    "user": ("text", "image", "document", "search_result", "tool_result", "container_upload"),
    "tool_result": ("text", "image", "document", "search_result", "tool_reference"),
    "search_result": ("text",),
    "assistant": (
        "text",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        *CODE_EXECUTION,
    ),
}


def is_filled(value: Any) -> bool:
    """Return True for a string that is not empty."""
    return isinstance(value, str) and bool(value)


def check_fields(
    value: dict[str, Any], kind: str, path: str, also: Iterable[str] = (), fields: Iterable[str] | None = None
) -> str | None:
    """Return what is wrong with the field names of an object, or None."""
    known = {*(FIELDS[kind] if fields is None else fields), *also}
    for name in value:
        if name not in known:
            return f"{path}.{name}".lstrip(".") + ": Extra inputs are not permitted"
    return None


def check_blocks(block: Any, path: str, place: str) -> str | None:
    """Return what is wrong with a block and the blocks in it, or None. `place` is a role, tool_result or search_result."""
    if not isinstance(block, dict) or "type" not in block:
        return f"{path}.type: Field required"
    kind = block["type"]
    if kind not in ALLOWED[place]:
        tags = ", ".join(repr(tag) for tag in sorted(ALLOWED[place]))
        return f"{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
    if kind in CODE_EXECUTION:
        return None
    for name in REQUIRED[kind]:
        if block.get(name) is None:
            return f"{path}.{kind}.{name}: Field required"
    if problem := check_fields(block, kind, f"{path}.{kind}"):
        return problem
    return _check_values(block, path) or _check_inner(block, path)


def _check_values(block: dict[str, Any], path: str) -> str | None:
    """Return what is wrong with the types of a block's values, or None."""
    kind = block["type"]
    strings = REQUIRED[kind] if kind in ("text", "thinking", "redacted_thinking") else STRINGS
    for name in strings if kind not in ("document", "image") else ():
        if name in block and not isinstance(block[name], str):
            return f"{path}.{kind}.{name}: Input should be a valid string"
    if "input" in block and not isinstance(block["input"], dict):
        return f"{path}.{kind}.input: Input should be a valid dictionary"
    if "is_error" in block and not isinstance(block["is_error"], bool):
        return f"{path}.{kind}.is_error: Input should be a valid boolean"
    setting = block.get("citations")
    if kind in ("search_result", "document") and setting is not None and set(setting) != {"enabled"}:
        return f"{path}.{kind}.citations: Input should be a valid dictionary with the field `enabled`"
    return None


def _check_inner(block: dict[str, Any], path: str) -> str | None:
    kind, content = block["type"], block.get("content")
    if kind not in ("tool_result", "search_result") or content is None:
        return None
    if isinstance(content, str) and kind == "tool_result":
        return None
    if not isinstance(content, list):
        return f"{path}.{kind}.content: Input should be a valid list"
    for number, inner in enumerate(content):
        if problem := check_blocks(inner, f"{path}.{kind}.content.{number}", kind):
            return problem
    return None


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
