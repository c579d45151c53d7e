"""Server-sent events as we write them, and what lets the SDK read them without writing them first.

A caller that streams gets its events as they are; only one that wants the raw response gets them as text. So a client whose
platform streams something else than text (Bedrock's binary frames) reads ours all the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anthropic import _streaming


def frame(event: Mapping[str, Any]) -> bytes:
    """Return one event as the bytes of a server-sent event."""
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data}\n\n".encode("utf-8", "replace")


class EventClient:
    """An SDK client that gives `events` (a generator of `Parsed`) whatever the response holds; None: text as everywhere.

    In all else it is the client that it stands for.
    """

    def __init__(self, client: Any, events: Any = None) -> None:
        self._of = client
        self._events = events
        self._process_response_data = client._process_response_data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def _make_sse_decoder(self) -> Any:
        return _streaming.SSEDecoder() if self._events is None else _Decoder(self._events)


class _Decoder:
    def __init__(self, events: Any) -> None:
        self._events = events

    def iter_bytes(self, _: Any) -> Any:
        return self._events

    def aiter_bytes(self, _: Any) -> Any:
        return self._events


class Parsed(_streaming.ServerSentEvent):
    """An event that needs no parsing; there is one for every piece of text, so making it costs next to nothing."""

    _id = _retry = None
    _data = "-"

    def __init__(self, event: dict[str, Any]) -> None:
        self._event = event["type"]
        self._parsed = event

    def json(self) -> Any:
        """Return the event."""
        return self._parsed
