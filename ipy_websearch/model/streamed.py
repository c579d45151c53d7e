"""The caller's response to a streamed call: events for the SDK's own streams, and their text for whoever reads the body.

Nearly always the SDK's stream is the only reader, and takes the events as they are. Middleware around ours, raw responses
and proxies read bytes: for them the events are written out, as they come. What is read first decides, and a body is read
once, as any other; somebody who read all of it leaves its text for the stream.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from typing import Any

import httpx2

from ipy_websearch.model.frames import Parsed, frame

DROPPED_S = 0.05
"""Seconds that a stream which is forgotten waits for its run to be closed."""

Event = dict[str, Any]
Written = Callable[[list[Event]], Sequence[Any]]
"""Writes events as the caller reads them: `framed_events` or `parsed_events`."""


def framed_events(events: list[Event]) -> list[bytes]:
    """Return events as text, in one piece."""
    return [b"".join(map(frame, events))] if events else []


def parsed_events(events: list[Event]) -> list[Parsed]:
    """Return events as the SDK's streams read them."""
    return list(map(Parsed, events))


class _Body:
    """`begin` makes the generator of the events, `shut` ends it, `dropped` is told of a body that nobody began or closed."""

    def __init__(self, begin: Callable[[Written], Any], shut: Callable[[Any], Any], dropped: Callable[[], None]) -> None:
        self._begin = begin
        self._shut = shut
        self._dropped = dropped
        self._events: Any = None
        self._closed = False
        self._process = os.getpid()

    def events(self, written: Written) -> Any:
        """Return the generator."""
        if self._events is None:
            self._events = self._begin(written)
        return self._events

    def __del__(self) -> None:
        if self._events is not None or self._closed or sys.is_finalizing():
            return
        if self._process == os.getpid():  # a fork's copy is the parent's to book
            self._dropped()


class Body(_Body, httpx2.SyncByteStream):
    """The body of the response of a blocking client."""

    def __iter__(self) -> Any:
        return self.events(framed_events)

    def close(self) -> None:
        """End what is sent and run."""
        if not self._closed:
            self._closed = True
            self._shut(self._events)


class AsyncBody(_Body, httpx2.AsyncByteStream):
    """The same for async clients."""

    def __aiter__(self) -> Any:
        return self.events(framed_events)

    async def aclose(self) -> None:
        """End what is sent and run."""
        if not self._closed:
            self._closed = True
            shut: Awaitable[None] = self._shut(self._events)
            await shut


class StreamedResponse(httpx2.Response):
    """A response with such a body."""

    def __init__(self, status: int, headers: Any, request: Any, body: Body | AsyncBody) -> None:
        super().__init__(status, headers=headers, request=request, stream=body)
        self._body = body

    def iter_bytes(self, chunk_size: int | None = None) -> Any:
        """Return the text in pieces, which the decoder of our `EventClient` knows for what they are."""
        pieces = super().iter_bytes(chunk_size)
        return pieces if chunk_size is not None or hasattr(self, "_content") else Pieces(self, pieces)

    def aiter_bytes(self, chunk_size: int | None = None) -> Any:
        """The same for async clients."""
        pieces = super().aiter_bytes(chunk_size)
        return pieces if chunk_size is not None or hasattr(self, "_content") else AsyncPieces(self, pieces)

    def events(self) -> Any:
        """Return the generator of the parsed events; None where the body was read or closed, or somebody listens in on it."""
        if self.is_stream_consumed or self.is_closed or not self._is_own(self.stream):
            return None
        self.is_stream_consumed = True
        return self._body.events(parsed_events)

    def _is_own(self, stream: Any) -> bool:
        """Say whether a stream is the body itself, or the SDK's tracing around it, which counts what its streams read."""
        if stream is self._body:
            return True
        inner = (getattr(stream, "_body", None), getattr(stream, "_async_body", None))
        return hasattr(stream, "stream_observer") and any(each is self._body for each in inner)


class Pieces(Generator[bytes, None, None]):
    """The text of a response in pieces; `events` gives its events instead, as long as nothing was read."""

    def __init__(self, response: StreamedResponse, pieces: Any) -> None:
        self.events = response.events
        self._pieces = pieces

    def __next__(self) -> bytes:
        piece: bytes = next(self._pieces)
        return piece

    def send(self, value: Any) -> Any:
        """Go on to the next piece."""
        return self._pieces.send(value)

    def throw(self, *exc: Any) -> Any:
        """Raise an exception in the middle of the reading."""
        return self._pieces.throw(*exc)

    def close(self) -> None:
        """Read no further."""
        self._pieces.close()


class AsyncPieces(AsyncGenerator[bytes, None]):
    """The same for async clients."""

    def __init__(self, response: StreamedResponse, pieces: Any) -> None:
        self.events = response.events
        self._pieces = pieces

    def __anext__(self) -> Any:
        return self._pieces.__anext__()

    def asend(self, value: Any) -> Any:
        """Go on to the next piece."""
        return self._pieces.asend(value)

    def athrow(self, *exc: Any) -> Any:
        """Raise an exception in the middle of the reading."""
        return self._pieces.athrow(*exc)

    def aclose(self) -> Any:
        """Read no further."""
        return self._pieces.aclose()
