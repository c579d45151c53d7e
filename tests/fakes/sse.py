"""Turns a Messages API message into the events of its stream, and the events back into the message.

The order and the shapes are those of the recorded streams in tests/data/wire/anthropic (a ping after the first block's
start, an empty first `input_json_delta`, citations before the text they belong to, server results whole in their start).
"""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

from ipy_websearch.model.client import Reply

Event = tuple[str, dict[str, Any]]
HALF = re.compile("[\ud800-\udfff]")
PIECE = re.compile(r".{1,24}(?:\s+|$)|.{1,24}", re.DOTALL)


def encode(name: str, data: dict[str, Any]) -> bytes:
    """Return one event as it goes over the wire."""
    return f"event: {name}\ndata: {written(data)}\n\n".encode()


def written(value: Any) -> str:
    """Return JSON; half a character can only be written as an escape."""
    text = json.dumps(value, ensure_ascii=False)
    return text if HALF.search(text) is None else json.dumps(value)


def pieces(text: str) -> list[str]:
    """Split text into pieces of at most about 24 characters, at blanks where there are any; joined they are the text."""
    return PIECE.findall(text)


def events(message: dict[str, Any]) -> Iterator[Event]:
    """Yield (event name, data) for a whole message."""
    head = copy.deepcopy(message)
    usage = head.get("usage", {})
    head |= {"content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
    head |= {"container": None} if "container" in head else {}
    head["usage"] = {k: v for k, v in usage.items() if k != "server_tool_use"} | {
        "output_tokens": min(1, usage.get("output_tokens", 0))
    }
    yield "message_start", {"type": "message_start", "message": head}
    for index, block in enumerate(message["content"]):
        for number, (name, data) in enumerate(_block_events(index, block)):
            yield name, data
            if index == 0 and number == 0:
                yield "ping", {"type": "ping"}
    delta = {key: message.get(key) for key in ("stop_reason", "stop_sequence", "stop_details")}
    delta |= {"container": message["container"]} if "container" in message else {}
    counts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens", "server_tool_use")
    yield (
        "message_delta",
        {"type": "message_delta", "delta": delta, "usage": {k: usage[k] for k in counts if usage.get(k) is not None}},
    )
    yield "message_stop", {"type": "message_stop"}


def _block_events(index: int, block: dict[str, Any]) -> Iterator[Event]:
    opened, deltas = _opening(block)
    yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": opened}
    for delta in deltas:
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": index}


def _opening(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the block as it is announced, and the deltas that fill it."""
    kind = block["type"]
    if kind == "text":
        cited = block.get("citations")
        opened = block | {"text": ""} | ({"citations": []} if cited else {})
        deltas = [{"type": "citations_delta", "citation": citation} for citation in cited or []]
        return opened, deltas + [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    if kind in ("tool_use", "server_tool_use"):
        text = block.get("_partial_json") or (written(block["input"]) if block["input"] else "")
        opened = {key: value for key, value in block.items() if key != "_partial_json"} | {"input": {}}
        return opened, [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(text)]]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        return block | {"thinking": "", "signature": ""}, [
            *deltas,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    return block, []


def decode(text: str) -> list[Event]:
    """Return the events of a recorded stream."""
    found = []
    for part in re.split(r"\r?\n\r?\n", text):
        lines = dict(line.split(": ", 1) for line in part.split("\n") if ": " in line)
        if "data" in lines:
            data = json.loads(lines["data"])
            found.append((lines.get("event", data.get("type", "")), data))
    return found


def assemble(stream: list[Event]) -> dict[str, Any]:
    """Return the message that a stream's events make; a cut-off stream gives what had arrived."""
    reply, message = Reply(), dict[str, Any]()
    for _, data in stream:
        reply.apply(data)
        message |= copy.deepcopy(data["message"]) if data["type"] == "message_start" else {}
        message |= data["delta"] if data["type"] == "message_delta" else {}
    return message | {"content": reply.content, "usage": reply.usage_fields}


def is_piece(data: dict[str, Any]) -> bool:
    """Return True for an event that carries a piece of content."""
    return data["type"] == "content_block_delta" and data["delta"].get("partial_json") != ""


def public(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without what only the stream knows; the JSON of a cut call is read as far as it goes."""
    content = [{name: value for name, value in block.items() if name != "_partial_json"} for block in message["content"]]
    return message | {"content": content}
