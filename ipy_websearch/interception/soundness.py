"""Says whether a caller's messages have the form that all of the interception relies on. Pure.

What has not is sent as it is, since the API says best what is wrong with it. Only the fields that are read here are looked at:
fields and kinds of blocks that nobody knows yet pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WORDS = ("id", "name", "tool_use_id")


def is_sound(message: Any) -> bool:
    """Say whether a message is of its form.

    >>> is_sound({"role": "user", "content": [{"type": "text", "text": "Hello"}]})
    True
    """
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        return False
    content = message.get("content")
    return isinstance(content, str) or (isinstance(content, list | tuple) and all(map(_is_sound_block, content)))


def _is_sound_block(block: Any) -> bool:
    if not isinstance(block, Mapping) or not isinstance(kind := block.get("type"), str):
        return False
    if kind == "text" and not (isinstance(block.get("text"), str) and _lists_objects(block.get("citations"))):
        return False
    content = block.get("content")
    if kind == "search_result" and not (isinstance(block.get("source"), str) and isinstance(content, list | tuple)):
        return False
    if not all(isinstance(block.get(name), str | None) for name in _WORDS):
        return False
    return _may_be_content(content)


def _may_be_content(content: Any) -> bool:
    if isinstance(content, list | tuple):
        return all(map(_is_sound_block, content))
    return content is None or isinstance(content, str | Mapping)


def _lists_objects(value: Any) -> bool:
    return value is None or (isinstance(value, list | tuple) and all(isinstance(entry, Mapping) for entry in value))
