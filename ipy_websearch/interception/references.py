"""The names of tools in `tool_reference` blocks: upstream ours, for the caller the caller's. Pure.

A reference loads a tool that was deferred (`defer_loading`); the API refuses one to a name that no tool of the request has.
They stand in what a tool search found, the API's own (`tool_search_tool_result`) or the caller's (`tool_result`), in changes
of the tools in the middle of a conversation (`tool_addition`, `tool_removal`), and in what a `compaction` keeps of these.
Facts: platform.claude.com/docs, "Tool search tool"; anthropic 2.11 `types/beta/beta_tool_change_*`; read 2026-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_INSIDE = {
    "tool_result": "content",
    "tool_search_tool_result": "content",
    "tool_search_tool_search_result": "tool_references",
    "tool_addition": "tool",
    "tool_removal": "tool",
    "compaction": "tool_changes",
}
_NAME_FIELDS = ("tool_name", "name")


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a block (or a list of them) whose references have the names that `names` gives for theirs.

    What refers to none of them is returned as it is, not copied.
    """
    if isinstance(value, list | tuple):
        parts = [renamed(part, names) for part in value]
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
    if not isinstance(value, Mapping):
        return value
    kind = value.get("type")
    if kind == "tool_reference":
        return _named(value, names)
    field = _INSIDE.get(kind) if isinstance(kind, str) else None
    inner = value.get(field) if field else None
    new = renamed(inner, names)
    return value if new is inner else {**value, field: new}


def renamed_in(message: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a message whose references have the names that `names` gives for theirs."""
    content = message.get("content")
    new = renamed(content, names) if isinstance(content, list | tuple) else content
    return message if new is content else {**message, "content": new}


def _named(reference: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    for field in _NAME_FIELDS:
        name = reference.get(field)
        if isinstance(name, str) and names.get(name, name) != name:
            return {**reference, field: names[name]}
    return reference
