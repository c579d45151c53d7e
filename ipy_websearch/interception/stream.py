"""Writes the caller's stream: the events of several replies as those of one message, in the API's own order. Pure.

Text goes on at once. A call is announced as it is written; what the model writes after it in the same reply is held back
until the call has its result, so that every call is followed by its own. Result blocks come whole, as the API sends them.
Order and indices: platform.claude.com/docs/en/build-with-claude/streaming, read 2026-11.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ipy_websearch.interception.conversation import Conversation
from ipy_websearch.interception.detection import UPSTREAM_NAMES
from ipy_websearch.interception.shape import server_tool_use

Event = dict[str, Any]


class EventWriter:
    """The caller's stream of one conversation. `written` says whether anything of the running reply has gone out."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._next = 0
        self._indices: dict[Any, int] = {}
        self._calls: dict[Any, str] = {}
        self._held: list[Event] = []
        self._hidden: set[Any] = set()
        self._holding = False
        self._waiting: str | None = None
        self.written = False

    def begin(self) -> None:
        """Say that a new reply begins."""
        self._indices, self._calls, self._held, self._hidden = {}, {}, [], set()
        self._holding, self._waiting, self.written = False, None, False

    def feed(self, raw: Event) -> list[Event]:
        """Take an event of a reply; return those that the caller gets now."""
        kind = raw.get("type")
        if raw.get("index") in self._hidden or self._hides(raw):
            return []
        if kind == "content_block_delta" and not self._holding and (raw.get("delta") or {}).get("type") != "citations_delta":
            self.written, place = True, raw.get("index")  # nearly all events are of this kind: it is kept short
            index = self._indices.get(place, 0)
            return [raw if index == place else {**raw, "index": index}]
        if kind == "message_start":
            first = self._conversation.open(raw.get("message") or {})
            return [{"type": kind, "message": self._conversation.head}] if first else []
        if not str(kind).startswith("content_block_"):
            return [dict(raw)] if kind == "ping" else []
        if self._holding:
            self._held += _pieces(raw)
            return []
        return [event for piece in _pieces(raw) for event in self._write(piece)]

    def _hides(self, raw: Event) -> bool:
        """Say whether an event begins a block that the caller does not get."""
        hides = raw.get("type") == "content_block_start" and self._conversation.hides(raw.get("content_block") or {})
        if hides:
            self._hidden.add(raw.get("index"))
        return bool(hides)

    def results(self) -> list[Event]:
        """Return what was held back, each call followed by its result."""
        events = self._released()
        for raw in self._held:
            events += [*self._write(raw), *self._released()]
        self._held = []
        return events

    def _released(self) -> list[Event]:
        """Return the result that the call written last waits for."""
        waiting, self._waiting, self._holding = self._waiting, None, False
        return [] if waiting is None else self._result(waiting)

    def end(self) -> list[Event]:
        """Return the events that end the message."""
        conversation = self._conversation
        tail = {name: value for name, value in conversation.tail.items() if name not in ("type", "delta", "usage")}
        delta = conversation.tail.get("delta") or {"stop_reason": None, "stop_sequence": None}
        named = {"server_tool_use", *(conversation.tail.get("usage") or ())}
        total = conversation.total_usage()  # at the end the API repeats counts, and not what else is said at the beginning
        usage = {name: value for name, value in total.items() if isinstance(value, int) or name in named}
        return [{"type": "message_delta", "delta": delta, **tail, "usage": usage}, {"type": "message_stop"}]

    def _write(self, raw: Event) -> list[Event]:
        kind, place = raw["type"], raw.get("index")
        self.written = True
        if kind == "content_block_start":
            return [self._start(raw, place)]
        event = {**raw, "index": self._indices.get(place, 0)}
        if kind == "content_block_stop" and place in self._calls:
            self._holding, self._waiting = True, self._calls[place]
        delta = raw.get("delta") or {}
        if delta.get("type") == "citations_delta":
            event["delta"] = {**delta, "citation": self._conversation.sources.native(delta.get("citation") or {})}
        return [event]

    def _start(self, raw: Event, place: Any) -> Event:
        self._indices[place] = self._next
        block = raw.get("content_block") or {}
        if block.get("type") == "tool_use" and block.get("name") in UPSTREAM_NAMES:
            self._calls[place] = str(block.get("id"))
            block = {**server_tool_use(block, self._conversation.requests), "input": {}}
        block = self._conversation.wanted.for_caller(block)
        self._next += 1
        return {"type": "content_block_start", "index": self._indices[place], "content_block": block}

    def _result(self, call_id: str) -> list[Event]:
        block = self._conversation.results.get(call_id)
        if block is None:
            return []
        index, self._next = self._next, self._next + 1
        return [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_stop", "index": index},
        ]


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
            deltas.append({"type": "text_delta", "text": block.get("text") or ""})
            block |= {"text": "", "citations": [] if len(deltas) > 1 else None}
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
