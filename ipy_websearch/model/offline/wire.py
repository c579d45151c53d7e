"""The Messages API on the wire: a reply as one JSON message, or as server-sent events in the API's own order.

Events as recorded from the API (message_start, ping, content_block_start / _delta / _stop, message_delta, message_stop; a
cited block starts with an empty citations list and gets its citations as deltas):
platform.claude.com/docs/en/build-with-claude/streaming, read 2026-11.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ipy_websearch.model.offline.brain import Reply, digest

CHARS_A_TOKEN = 4
TOOL_PROMPT_TOKENS = 300
_PIECE = re.compile(r"\s*\S+\s*")
_JSON_PIECE = 24


def tokens_of(text: str) -> int:
    """Return a plausible number of tokens for a text, at least 1."""
    return max(1, -(-len(text) // CHARS_A_TOKEN))


def input_tokens(request: Mapping[str, Any]) -> int:
    """Return a plausible number of input tokens for a request: its system, messages and tools as JSON."""
    read = {name: request[name] for name in ("system", "messages", "tools") if request.get(name)}
    return tokens_of(json.dumps(read, ensure_ascii=False)) + (TOOL_PROMPT_TOKENS if request.get("tools") else 0)


def output_tokens(reply: Reply) -> int:
    """Return a plausible number of output tokens; cited text is free, as in the API."""
    return sum(tokens_of(_said(block)) + (20 if block["type"] == "tool_use" else 0) for block in reply.blocks) or 1


def _said(block: Mapping[str, Any]) -> str:
    return str(block["text"]) if block["type"] == "text" else json.dumps(block["input"], ensure_ascii=False)


def within(reply: Reply, max_tokens: int) -> Reply:
    """Return a reply cut to `max_tokens`: text ends at a word, a tool call that does not fit is left out."""
    if output_tokens(reply) <= max_tokens:
        return reply
    kept: list[dict[str, Any]] = []
    left = max_tokens
    for block in reply.blocks:
        need = tokens_of(_said(block)) + (20 if block["type"] == "tool_use" else 0)
        if need <= left:
            kept.append(block)
            left -= need
            continue
        if block["type"] == "text" and (text := _cut(str(block["text"]), left * CHARS_A_TOKEN)).strip():
            kept.append({**block, "text": text})
        break
    return replace(reply, blocks=kept, stop_reason="max_tokens")


def _cut(text: str, length: int) -> str:
    pieces = _PIECE.findall(text[:length])
    whole = length >= len(text) or text[length : length + 1].isspace() or len(pieces) < 2
    return text[:length] if whole else "".join(pieces[:-1])


def message(request: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    """Return the reply as a Messages API message."""
    return {
        "model": request["model"],
        "id": f"msg_offline_{digest(request)}",
        "type": "message",
        "role": "assistant",
        "content": reply.blocks,
        "stop_reason": reply.stop_reason,
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": input_tokens(request),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": output_tokens(reply),
            "service_tier": "standard",
        },
    }


def events(whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a message as the events of its stream."""
    usage = whole["usage"]
    start = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(whole["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": _opened(block)}
        if index == 0:
            yield {"type": "ping"}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {name: whole[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
    totals = {n: usage[n] for n in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")}
    yield {"type": "message_delta", "delta": delta, "usage": totals}
    yield {"type": "message_stop"}


def _opened(block: Mapping[str, Any]) -> dict[str, Any]:
    if block["type"] == "tool_use":
        return {**block, "input": {}}
    return {**block, "text": "", **({"citations": []} if block.get("citations") else {})}


def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if block["type"] == "tool_use":
        written = json.dumps(block["input"], ensure_ascii=False)
        yield {"type": "input_json_delta", "partial_json": ""}
        for at in range(0, len(written), _JSON_PIECE):
            yield {"type": "input_json_delta", "partial_json": written[at : at + _JSON_PIECE]}
        return
    for citation in block.get("citations") or ():
        yield {"type": "citations_delta", "citation": citation}
    for piece in _PIECE.findall(block["text"]):
        yield {"type": "text_delta", "text": piece}


def as_sse(event: Mapping[str, Any]) -> bytes:
    """Return one event as it goes over the wire."""
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def error(kind: str, text: str, request_id: str) -> dict[str, Any]:
    """Return the body of a refusal."""
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": request_id}
