"""Server-sent events as we read and write them, and what lets the SDK read ours without writing them first.

A stream is read in the pieces in which it comes, many events at once; the SDK's own decoder takes one line at a time.
A caller that streams gets its events as they are; only one that wants the raw response gets them as text. So a client whose
platform streams something else than text (Bedrock's binary frames) reads ours all the same.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import httpx2
from anthropic import _streaming

from ipy_websearch.model.built import built

encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Returns a value as JSON; kept, since `json.dumps` makes an encoder anew for each call with options."""


def frame(event: Mapping[str, Any]) -> bytes:
    """Return one event as the bytes of a server-sent event."""
    return f"event: {event['type']}\ndata: {encode(event)}\n\n".encode("utf-8", "replace")


class FrameReader:
    """Reads server-sent events out of the pieces of a stream, wherever these begin and end."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[dict[str, Any]]:
        """Return the events that the stream's next piece has completed.

        Raises:
            ValueError: the data of an event is not JSON.
        """
        data = self._rest + piece
        if b"\r" in data:
            cut = data.endswith(b"\r")  # the other half of a line's end may follow
            data = data[: len(data) - cut].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\r" * cut
        *frames, self._rest = data.split(b"\n\n")
        return [event for text in frames if (event := _event(text)) is not None]

    def end(self) -> list[dict[str, Any]]:
        """Return the event at the end of a stream that lacks its empty line, if it is whole."""
        try:
            event = _event(self._rest.replace(b"\r", b"\n"))
        except ValueError:
            event = None
        return [] if event is None else [event]


def _event(frame: bytes) -> dict[str, Any] | None:
    data = [line[5:] for line in frame.split(b"\n") if line.startswith(b"data:")]
    if not data or data == [b" [DONE]"]:
        return None
    event = json.loads(b"\n".join(data).decode("utf-8", "replace"))
    return event if isinstance(event, dict) else None


class EventClient:
    """An SDK client that gives `events` (a generator of `Parsed`) whatever the response holds; None: text as everywhere.

    In all else it is the client that it stands for.
    """

    def __init__(self, client: Any, events: Any = None) -> None:
        self._of = client
        self._events = events

    def _process_response_data(self, *, data: Any, cast_to: Any, response: Any) -> Any:
        made = built(cast_to, data)
        return self._of._process_response_data(data=data, cast_to=cast_to, response=response) if made is None else made

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


class Body(httpx2.SyncByteStream):
    """The body of the caller's response; closing it is what `shut` does."""

    def __init__(self, frames: Any, shut: Callable[[], None]) -> None:
        self._frames = frames
        self._shut = shut

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._frames)

    def close(self) -> None:
        self._shut()


class AsyncBody(httpx2.AsyncByteStream):
    """The same for async clients."""

    def __init__(self, frames: Any, shut: Callable[[], Awaitable[None]]) -> None:
        self._frames = frames
        self._shut = shut

    def __aiter__(self) -> AsyncIterator[bytes]:
        frames: AsyncIterator[bytes] = self._frames
        return frames

    async def aclose(self) -> None:
        await self._shut()
