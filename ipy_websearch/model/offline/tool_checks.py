"""Checks of a request's tools and tool choice, with the refusals the Messages API gives.

Rules: platform.claude.com/docs, tool use and structured outputs ("strict" schemas), read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MOST_STRICT, MOST_OPTIONAL, MOST_UNIONS = 20, 24, 16
_UNSUPPORTED = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
)


class Refused(Exception):
    """The request is not valid; the text is the API's message."""


def check_tools(tools: Any) -> None:
    """Return if a request's tools are valid.

    Raises:
        Refused: they are not.
    """
    if not isinstance(tools, list):
        raise Refused("tools: Input should be a valid list")
    names = [tool.get("name") for tool in tools if isinstance(tool, Mapping)]
    if len(names) < len(tools) or len(set(names)) < len(names):
        raise Refused("tools: Tool names must be unique.")
    for at, tool in enumerate(tools):
        if not isinstance(tool["name"], str) or not _NAME.fullmatch(tool["name"]):
            raise Refused(f"tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if tool.get("type", "custom") != "custom":
            continue
        schema = tool.get("input_schema")
        if not isinstance(schema, Mapping):
            raise Refused(f"tools.{at}.custom.input_schema: Field required")
        if schema.get("type") != "object":
            raise Refused(f"tools.{at}.custom.input_schema.type: Input should be 'object'")
        if tool.get("strict"):
            _check_strict(f"tools.{at}.custom", schema)
    _check_deferred(tools)
    _check_limits([tool["input_schema"] for tool in tools if tool.get("strict") and tool.get("type", "custom") == "custom"])


def _check_deferred(tools: Sequence[Mapping[str, Any]]) -> None:
    """Tools that a search finds are not in the cached prefix, and something has to be there to find them with."""
    if tools and all(tool.get("defer_loading") for tool in tools):
        raise Refused("At least one tool must have defer_loading=false. All tools cannot be deferred.")
    for tool in tools:
        if tool.get("defer_loading") and tool.get("cache_control"):
            raise Refused(
                f"Tool '{tool['name']}' cannot have both defer_loading=true and cache_control set. "
                "Tools with defer_loading cannot use prompt caching."
            )


def _check_strict(where: str, schema: Mapping[str, Any]) -> None:
    """A strict schema closes every object and says nothing about sizes (structured outputs, read 2026-11)."""
    for node in _nodes(schema):
        if node.get("type") == "object" and node.get("additionalProperties") is not False:
            raise Refused(f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false")
        for name in _UNSUPPORTED:
            if name in node and "type" in node:
                raise Refused(f"{where}: For '{node['type']}' type, property '{name}' is not supported")


def _check_limits(schemas: Sequence[Mapping[str, Any]]) -> None:
    if len(schemas) > MOST_STRICT:
        raise Refused(f"Too many strict tools ({len(schemas)}). The maximum number of strict tools supported is {MOST_STRICT}.")
    objects = [node for schema in schemas for node in _nodes(schema)]
    optional = sum(len(set(node.get("properties") or {}) - set(node.get("required") or ())) for node in objects)
    if optional > MOST_OPTIONAL:
        raise Refused(f"Schemas contains too many optional parameters ({optional}), the limit is {MOST_OPTIONAL}")
    unions = sum("anyOf" in node or isinstance(node.get("type"), list) for node in objects)
    if unions > MOST_UNIONS:
        raise Refused(f"Schemas contains too many parameters with union types ({unions}), the limit is {MOST_UNIONS}")


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas in it."""
    if isinstance(schema, list):
        for part in schema:
            yield from _nodes(part)
    if isinstance(schema, Mapping):
        yield schema
        for name, part in schema.items():
            inner = part.values() if name in ("properties", "$defs", "definitions") and isinstance(part, Mapping) else (part,)
            for node in inner:
                yield from _nodes(node)


def check_choice(choice: Any, tools: Sequence[Mapping[str, Any]]) -> None:
    """Return if a request's tool choice is valid and fits its tools.

    Raises:
        Refused: it does not.
    """
    if choice is None:
        return
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    if kind not in ("auto", "any", "tool", "none"):
        raise Refused("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    if not tools:
        raise Refused("tool_choice: may only be specified while providing tools")
    if kind == "tool" and choice.get("name") not in [tool.get("name") for tool in tools]:
        raise Refused(f"Tool '{choice.get('name')}' not found in provided tools")
