"""The names of tools outside of their definitions and calls: upstream ours, for the caller the caller's. Pure.

A reference loads a tool that was deferred (`defer_loading`); the API refuses one to a name that no tool of the request has.
They stand in what a tool search found, the API's own (`tool_search_tool_result`) or the caller's (`tool_result`), in changes
of the tools in the middle of a conversation (`tool_addition`, `tool_removal`), and in what a `compaction` keeps of these.
The edits of `context_management` name tools too: whose uses stay, and whose inputs go; a reply says of edits only how much.
Nothing else in a request or a reply has a name of ours: those of MCP tools are their server's, `allowed_callers` are types,
`url_sources` are read here. Facts: platform.claude.com/docs, "Tool search tool" and "Context editing"; anthropic 2.11
`types/beta/beta_tool_change_*`, `beta_clear_tool_uses_20250919_edit_*`; read 2026-11.
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
_EDIT_FIELDS = ("exclude_tools", "clear_tool_inputs")


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


def renamed_edits(config: Any, names: Mapping[str, str]) -> Any:
    """Return a request's `context_management` with the names that `names` gives for theirs."""
    edits = config.get("edits") if isinstance(config, Mapping) else None
    return {**config, "edits": [_edit(edit, names) for edit in edits]} if isinstance(edits, list | tuple) else config


def _edit(edit: Any, names: Mapping[str, str]) -> Any:
    lists = [field for field in _EDIT_FIELDS if isinstance(edit, Mapping) and isinstance(edit.get(field), list | tuple)]
    return {**edit, **{field: [_ours(name, names) for name in edit[field]] for field in lists}} if lists else edit


def _ours(name: Any, names: Mapping[str, str]) -> Any:
    return names.get(name, name) if isinstance(name, str) else name


def _named(reference: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    for field in _NAME_FIELDS:
        name = reference.get(field)
        if isinstance(name, str) and names.get(name, name) != name:
            return {**reference, field: names[name]}
    return reference
