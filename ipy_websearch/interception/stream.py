"""Writes the caller's stream: the events of several replies as those of one message, in the API's own order. Pure.

Text goes on at once. A call is announced as it is written; what the model writes after it in the same reply is held back until
the call has its result, so that every call is followed by its own. Result blocks come whole, as the API sends them. A caller
who does not stream gets the message that these events add up to.
Order and indices: platform.claude.com/docs/en/build-with-claude/streaming, read 2026-11.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ipy_websearch.interception.native import Sources, server_id
from ipy_websearch.interception.tools import NATIVE_NAMES, OUR_NAMES
from ipy_websearch.model.stream import Event, Reply

_NATIVE = {OUR_NAMES[kind]: name for kind, name in NATIVE_NAMES.items()}
_KNOWN = ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "stop_details", "usage")


def is_own(block: Mapping[str, Any]) -> bool:
    """Say whether a block of a reply is a call of one of our tools."""
    return block.get("type") == "tool_use" and block.get("name") in _NATIVE


@dataclass(slots=True)
class EventWriter:
    """The caller's stream of one call.

    `written` says whether any block of the running reply has gone out, `number` which reply it is (from 1), `results` has the
    native results of our calls by upstream id. `whole` is what the events written so far add up to, `head` the message that
    they began with and `tail` the newest reply's end.
    """

    sources: Sources
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    whole: Reply = field(default_factory=Reply)
    head: dict[str, Any] = field(default_factory=dict)
    tail: dict[str, Any] = field(default_factory=dict)
    number: int = 0
    written: bool = False
    _extra: dict[str, Any] = field(default_factory=dict)
    _next: int = 0
    _indices: dict[Any, int] = field(default_factory=dict)
    _calls: dict[Any, str] = field(default_factory=dict)
    _held: list[Event] = field(default_factory=list)
    _waiting: str = ""

    def begin(self, number: int) -> None:
        """Say that the reply with this number begins, or begins once more."""
        self._indices, self._calls, self._held = {}, {}, []
        self._waiting, self.written, self.number = "", False, number

    def feed(self, raw: Event) -> list[Event]:
        """Take an event of a reply; return those that the caller gets now."""
        kind = str(raw.get("type"))
        if kind == "message_start":
            return self._start(raw.get("message") or {})
        if kind == "message_delta":
            self.tail = {**self._extra, **{name: value for name, value in raw.items() if name not in ("type", "usage")}}
        if not kind.startswith("content_block_"):
            return [dict(raw)] if kind == "ping" else []
        if self._waiting:
            self._held.append(raw)
            return []
        return self._out([event for piece in _pieces(raw) for event in self._write(piece)])

    def release(self) -> list[Event]:
        """Return the results that are there now, and what was held back for them."""
        events = self._result()
        held, self._held = self._held, []
        for raw in held:
            for piece in _pieces(raw):
                events += [*self._write(piece), *self._result()]
        return self._out(events)

    def end(self, usage: Mapping[str, Any]) -> list[Event]:
        """Return the events that end the message with the usage of all requests."""
        delta = {"stop_reason": None, "stop_sequence": None, **(self.tail.get("delta") or {})}
        # At the end the API repeats counts, and not what else is said at the beginning.
        counts = {name: value for name, value in usage.items() if isinstance(value, int) or name == "server_tool_use"}
        rest = {name: value for name, value in self.tail.items() if name != "delta"}
        return [{"type": "message_delta", "delta": delta, **rest, "usage": counts}, {"type": "message_stop"}]

    def message(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message as a whole."""
        rest = {name: value for name, value in self.tail.items() if name != "delta"}
        return {**self.head, **rest, "content": self.whole.content, **(self.tail.get("delta") or {}), "usage": dict(usage)}

    def _start(self, message: Mapping[str, Any]) -> list[Event]:
        """Begin with the head of the first reply, which gives the whole its id and model."""
        self._extra = {name: value for name, value in message.items() if name not in _KNOWN and value is not None}
        if self.head:
            return []
        self.head = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
        return [{"type": "message_start", "message": self.head}]

    def _out(self, events: list[Event]) -> list[Event]:
        self.written = self.written or bool(events)
        for event in events:
            self.whole.apply(event)
        return events

    def _write(self, raw: Event) -> list[Event]:
        kind, place = raw["type"], raw.get("index")
        if kind == "content_block_start":
            self._indices[place], self._next = self._next, self._next + 1
            return [{"type": kind, "index": self._indices[place], "content_block": self._block(raw, place)}]
        event = {**raw, "index": self._indices.get(place, 0)}
        if kind == "content_block_stop":
            self._waiting = self._calls.get(place, "")
        elif (delta := raw.get("delta") or {}).get("type") == "citations_delta":
            event["delta"] = {**delta, "citation": self.sources.native(delta.get("citation") or {})}
        return [event]

    def _block(self, raw: Event, place: Any) -> dict[str, Any]:
        block = dict(raw.get("content_block") or {})
        if is_own(block):
            self._calls[place] = call_id = str(block.get("id"))
            block |= {
                "type": "server_tool_use",
                "id": server_id(call_id, self.number),
                "name": _NATIVE[block["name"]],
                "input": {},
            }
        return block

    def _result(self) -> list[Event]:
        """Return the result that the call written last waits for."""
        call_id, self._waiting = self._waiting, ""
        if not call_id or (block := self.results.get(call_id)) is None:
            return []
        index, self._next = self._next, self._next + 1
        ends = {"type": "content_block_stop", "index": index}
        return [{"type": "content_block_start", "index": index, "content_block": block}, ends]


def _pieces(raw: Mapping[str, Any]) -> Iterator[Event]:
    """Yield an event, or what it would have been had the server streamed: some send whole blocks."""
    if not (raw.get("whole") and raw.get("type") == "content_block_start"):
        yield dict(raw)
        return
    block = dict(raw.get("content_block") or {})
    deltas: list[Event] = []
    match block.get("type"):
        case "text":
            deltas = [{"type": "citations_delta", "citation": c} for c in block.pop("citations", None) or ()]
            block["citations"] = [] if deltas else None
            deltas.append({"type": "text_delta", "text": block.get("text") or ""})
            block["text"] = ""
        case "tool_use":
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block.get("input") or {})}]
            block["input"] = {}
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": block.get("thinking") or ""}]
            deltas.append({"type": "signature_delta", "signature": block.get("signature") or ""})
            block |= {"thinking": "", "signature": ""}
        case _:
            pass
    yield {"type": "content_block_start", "index": raw.get("index"), "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": raw.get("index"), "delta": delta}
