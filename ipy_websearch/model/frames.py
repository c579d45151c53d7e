"""Server-sent events as we read and write them, and what lets the SDK read ours without writing them first.

A stream is read in the pieces in which it comes, many events at once; the SDK's own decoder takes one line at a time.
The SDK's streams get our events as they are (`model.streamed`); all else is read as text. So a client whose platform streams
something else than text (Bedrock's binary frames) reads ours all the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anthropic import _streaming

from ipy_websearch.model.built import built

encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Returns a value as JSON; kept, since `json.dumps` makes an encoder anew for each call with options."""
_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def frame(event: Mapping[str, Any]) -> bytes:
    """Return one event as the bytes of a server-sent event.

    What Python takes for the end of a line is escaped: clients that split text in its way lose the rest of the event.
    """
    data = encode(event)
    if not data.isascii():
        data = data.translate(_ENDS)
    return f"event: {event['type']}\ndata: {data}\n\n".encode("utf-8", "replace")


class EventClient:
    """An SDK client whose streams take the events of our responses as they are, and read any other body as text.

    In all else it is the client that it stands for.
    """

    def __init__(self, client: Any) -> None:
        self._of = client

    def _process_response_data(self, *, data: Any, cast_to: Any, response: Any) -> Any:
        made = built(cast_to, data)
        return self._of._process_response_data(data=data, cast_to=cast_to, response=response) if made is None else made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def _make_sse_decoder(self) -> Any:
        return _Decoder()


class _Decoder:
    def iter_bytes(self, pieces: Any) -> Any:
        return _events(pieces) or _streaming.SSEDecoder().iter_bytes(pieces)

    def aiter_bytes(self, pieces: Any) -> Any:
        return _events(pieces) or _streaming.SSEDecoder().aiter_bytes(pieces)


def _events(pieces: Any) -> Any:
    """Return the events of a body that has them, None for any other."""
    events = getattr(pieces, "events", None)
    return None if events is None else events()


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
