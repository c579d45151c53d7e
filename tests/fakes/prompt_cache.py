"""Counts tokens and plays the API's prompt cache, so that what caching saves can be measured.

A token is four characters of JSON. A breakpoint (`cache_control`) stores the hash of everything before it; a later
request reads the longest stored prefix found at its breakpoints or at most 19 blocks before one. Prefixes below
`minimum` tokens are not stored. An entry can be read once the first answer that wrote it has begun.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

LOOKBACK = 20
LIFE_S = {"5m": 300.0, "1h": 3600.0}
CHARACTERS_A_TOKEN = 4


@dataclass(slots=True)
class Block:
    """One block of the prompt: tokens and hash of the prefix that ends with it; `ttl` when it is a breakpoint."""

    tokens: int
    digest: bytes
    ttl: str | None


def count_tokens(value: Any) -> int:
    """Return the tokens of a text or of JSON, at least 1 when there is anything."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return -(-len(text) // CHARACTERS_A_TOKEN)


def prefixes(body: dict[str, Any]) -> list[Block]:
    """Return the prompt's blocks in the order tools, system, messages, each with the prefix it ends."""
    found: list[Block] = []
    digest, characters = hashlib.blake2b(str(body.get("model")).encode(), digest_size=16), 0
    for seed, block in _blocks(body):
        text = _without_marks(block)
        digest.update(f"{seed}|{text}".encode())
        characters += len(text)
        mark = _mark(block)
        found.append(Block(-(-characters // CHARACTERS_A_TOKEN), digest.digest(), (mark.get("ttl") or "5m") if mark else None))
    if found and (mark := body.get("cache_control")):
        found[-1].ttl = mark.get("ttl") or "5m"
    return found


def _blocks(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (what invalidates the block besides its text, block)."""
    for tool in body.get("tools") or []:
        yield "tool", tool
    system = body.get("system") or []
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield "system", block
    settings = json.dumps([body.get("tool_choice"), body.get("thinking")], sort_keys=True)
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield f"{message['role']}{settings}", block


def _mark(block: dict[str, Any]) -> dict[str, Any] | None:
    """Return the breakpoint on a block or on a block inside it."""
    inner = block.get("content")
    parts = [*(inner if isinstance(inner, list) else ()), block]
    marks = [part["cache_control"] for part in parts if isinstance(part, dict) and part.get("cache_control")]
    return marks[-1] if marks else None


def _without_marks(value: Any) -> str:
    def strip(part: Any) -> Any:
        if isinstance(part, dict):
            return {k: strip(v) for k, v in part.items() if k != "cache_control" and v is not None}
        return [strip(v) for v in part] if isinstance(part, list) else part

    return json.dumps(strip(value), ensure_ascii=False)


@dataclass(slots=True)
class PromptCache:
    """The cache of one fake. Set `minimum` to 0 to store everything, `clock` to let time pass in a test."""

    minimum: int = 1024
    clock: Callable[[], float] = time.monotonic
    _entries: dict[bytes, tuple[float, float]] = field(default_factory=dict)

    def lookup(self, body: dict[str, Any]) -> tuple[dict[str, Any], Callable[[], None]]:
        """Return (the input side of `usage`, a function that stores what this request writes)."""
        blocks = prefixes(body)
        total = blocks[-1].tokens if blocks else 0
        marks = [number for number, block in enumerate(blocks) if block.ttl]
        read, hit = 0, None
        for mark in marks:
            for number in range(mark, max(-1, mark - LOOKBACK), -1):
                if self._is_live(blocks[number].digest) and blocks[number].tokens > read:
                    read, hit = blocks[number].tokens, blocks[number].digest
        written = {"5m": 0, "1h": 0}
        reached, stored = read, [] if hit is None else [(hit, self._entries[hit][1])]
        for mark in marks:
            block = blocks[mark]
            if block.tokens >= max(self.minimum, 1):
                if block.tokens > reached:
                    written[block.ttl or "5m"] += block.tokens - reached
                    reached = block.tokens
                stored.append((block.digest, LIFE_S[block.ttl or "5m"]))
        usage = {
            "input_tokens": total - reached,
            "cache_creation_input_tokens": written["5m"] + written["1h"],
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
        }
        return usage, lambda: self._store(stored)

    def _is_live(self, digest: bytes) -> bool:
        return digest in self._entries and self._entries[digest][0] > self.clock()

    def _store(self, entries: list[tuple[bytes, float]]) -> None:
        for digest, life in entries:
            self._entries[digest] = (self.clock() + life, life)
