"""Puts a streamed reply together again: raw events in, content blocks and pieces for the reader out. Pure.

Blocks keep every field that the API sent, known or not, because the last assistant turn must go back unchanged
(thinking signatures, `encrypted_content`). Facts: platform.claude.com/docs/en/build-with-claude/streaming, read 2026-11.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ipy_websearch.model.containers import container_in
from ipy_websearch.text import sound
from ipy_websearch.usage import Usage

_WRITTEN = ("text", "thinking", "input", "citations")


@dataclass(slots=True)
class Reply:
    """A reply as far as it has arrived. `complete` is True once `message_stop` was seen.

    A block that has ended can be sent back: `sound` was applied to what the model wrote in it.
    """

    model: str = ""
    stop_reason: str | None = None
    stop_details: Mapping[str, Any] | None = None
    complete: bool = False
    usage_fields: dict[str, Any] = field(default_factory=dict)
    blocks: dict[int, dict[str, Any]] = field(default_factory=dict)
    malformed: set[str] = field(default_factory=set)
    container: Mapping[str, Any] | None = None
    _json: dict[int, list[str]] = field(default_factory=dict)
    _closed: set[int] = field(default_factory=set)

    @property
    def usage(self) -> Usage:
        """What the API has reported so far; the counts of `message_delta` are totals and replace earlier ones."""
        return Usage.from_api(self.usage_fields)

    @property
    def content(self) -> list[dict[str, Any]]:
        """The blocks in order."""
        return [self.blocks[index] for index in sorted(self.blocks)]

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(block.get("text", "") for block in self.content if block.get("type") == "text")

    def apply(self, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """Take one event in; return the block that it finished, or None."""
        match event.get("type"):
            case "message_start":
                message = event.get("message") or {}
                self.model = str(message.get("model") or "")
                self._merge_usage(message.get("usage"))
                self.container = container_in(message)
            case "content_block_start":
                self._start(event)
            case "content_block_delta":
                self._delta(event.get("index", 0), event.get("delta") or {})
            case "content_block_stop":
                return self._stop(event.get("index", 0))
            case "message_delta":
                delta = event.get("delta") or {}
                self.stop_reason = delta.get("stop_reason") or self.stop_reason
                self.stop_details = delta.get("stop_details") or self.stop_details
                self._merge_usage(event.get("usage"))
                self.container = container_in(event) or self.container
            case "message_stop":
                self.complete = True
            case _:
                pass  # ping, and events that do not exist yet
        return None

    def _merge_usage(self, usage: Any) -> None:
        if isinstance(usage, Mapping):
            self.usage_fields.update({name: value for name, value in usage.items() if value is not None})

    def _start(self, event: Mapping[str, Any]) -> None:
        block = dict(event.get("content_block") or {})
        if block.get("type") == "text" and not event.get("whole"):
            block["citations"] = list(block.get("citations") or [])
        self.blocks[event.get("index", 0)] = block

    def _delta(self, index: int, delta: Mapping[str, Any]) -> None:
        block = self.blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.get("type"):
            case "text_delta":
                block["text"] = block.get("text", "") + (delta.get("text") or "")
            case "input_json_delta":
                self._json.setdefault(index, []).append(delta.get("partial_json") or "")
            case "citations_delta":
                block.setdefault("citations", []).append(delta.get("citation") or {})
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + (delta.get("thinking") or "")
            case "signature_delta":
                block["signature"] = delta.get("signature") or ""
            case "compaction_delta":  # comes once, whole (anthropic 2.12 `_beta_messages.py`, read 2026-11)
                block.update({name: delta[name] for name in ("content", "encrypted_content") if name in delta})
            case _:
                pass  # a delta that does not exist yet

    def _stop(self, index: int) -> dict[str, Any] | None:
        block = self.blocks.get(index)
        if block is None or index in self._closed:
            return None
        self._closed.add(index)
        if text := "".join(self._json.get(index, ())):
            try:
                block["input"] = json.loads(text)
            except (ValueError, RecursionError):
                block["input"] = {}
                self.malformed.add(str(block.get("id", "")))
        block.update({name: sound(block[name]) for name in _WRITTEN if name in block})
        if block.get("type") == "text" and not block.get("citations"):
            block.pop("citations", None)
        return block

    def close(self) -> list[dict[str, Any]]:
        """Finish the blocks that a broken stream left open, and return them; their tool inputs count as malformed."""
        opened = [index for index in sorted(self.blocks) if index not in self._closed]
        for index in opened:
            if str(self.blocks[index].get("type", "")).endswith("tool_use"):
                self.malformed.add(str(self.blocks[index].get("id", "")))
            self._stop(index)
        return [self.blocks[index] for index in opened]
