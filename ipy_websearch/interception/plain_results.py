"""Results as plain text, for a server that refuses them as `search_result` blocks. Pure.

What was searched is paid for: the same request goes up once more with the same words in it, and nothing is searched again.
Such refusals name the kind of block or the place where it stands (`messages.2.content.0.content.0.type`, as pydantic has it in
vLLM's). Others (a prompt that is too long, a content filter) are not mended by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ipy_websearch.interception.detection import UPSTREAM_NAMES
from ipy_websearch.loop.history import Message
from ipy_websearch.model.requests import plain_results
from ipy_websearch.tools.base import Passage

_REFUSED = (400, 422)
_FORM = re.compile(r"search_result|tool_result|\bcontent\b(?![ _-]*(management|filter|polic|moderat))", re.IGNORECASE)


def refuses_blocks(status: int, said: str) -> bool:
    """Say whether an answer may be that of a server that does not know `search_result` blocks."""
    return status in _REFUSED and bool(_FORM.search(said))


def in_text(messages: Sequence[Message]) -> list[Message] | None:
    """Return messages with the results of our own tools as text, None where that changes nothing."""
    ours = {str(block.get("id")) for message in messages for block in _blocks(message) if _is_call(block)}
    changed = [_changed(message, ours) for message in messages]
    return None if all(new is old for new, old in zip(changed, messages, strict=True)) else changed


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _is_call(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "tool_use" and block.get("name") in UPSTREAM_NAMES


def _changed(message: Message, ours: set[str]) -> Message:
    if not any(_has_blocks(block, ours) for block in _blocks(message)):
        return message
    return {**message, "content": [_told(b) if _has_blocks(b, ours) else b for b in message["content"]]}


def _has_blocks(block: Any, ours: set[str]) -> bool:
    if not isinstance(block, Mapping) or block.get("type") != "tool_result" or block.get("tool_use_id") not in ours:
        return False
    return any(part.get("type") == "search_result" for part in _blocks(block))


def _told(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with one text in place of its blocks to cite: the one that it will be when the reply is sent back."""
    parts = _blocks(result)
    passages = [
        Passage(str(part["source"]), str(part["title"]), tuple(str(text.get("text")) for text in _blocks(part)))
        for part in parts
        if part.get("type") == "search_result"
    ]
    rest = (part for part in parts if part.get("type") != "search_result")
    return {**result, "content": [{"type": "text", "text": plain_results(passages)}, *rest]}
