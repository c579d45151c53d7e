"""Where one reply of the model ends in a message that was made of several: what stands behind a reply's last call. Pure.

The caller gets every call with its result behind it, and then whatever the model wrote after the call, in the same reply or
in the next one. A later call of the same round settles that by its id. For what stands behind the last call of a reply, its
result says so in its opaque text, as a mark for each block that still follows in the same reply: results are made after the
reply is whole, also where it is streamed. Blocks that a client left out are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from ipy_websearch.interception.detection import UPSTREAM_NAMES
from ipy_websearch.loop.history import sendable

Block = Mapping[str, Any]

_PAYLOADS = {"text": ("text",), "thinking": ("signature", "thinking"), "redacted_thinking": ("data",)}


def mark_of(block: Block) -> str:
    """Return what a block is known by, the same for the model's block and for the caller's."""
    kind = str(block.get("type"))
    names = _PAYLOADS.get(kind, ("id", "tool_use_id"))
    payload = next((str(block[name]) for name in names if block.get(name)), "")
    return blake2b(f"{kind} {payload}".encode("utf-8", "replace"), digest_size=4).hexdigest()


def after_last_call(content: Sequence[Block]) -> dict[str, tuple[str, ...]]:
    """Return the marks of the blocks behind the last call of ours in a reply, by that call's id; empty without a call."""
    marks: list[str] = []
    for block in reversed(content):
        if block.get("type") == "tool_use" and block.get("name") in UPSTREAM_NAMES:
            return {str(block.get("id")): tuple(reversed(marks))}
        if sendable(block):
            marks.append(mark_of(block))
    return {}


def rest_after(block: Block, rest: Sequence[str]) -> tuple[str, ...] | None:
    """Return which of the marks `rest` are still to come after a block, None when the block is not among them."""
    mark = mark_of(block)
    return tuple(rest[rest.index(mark) + 1 :]) if mark in rest else None
