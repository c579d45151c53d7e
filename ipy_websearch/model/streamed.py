"""The caller's response to a streamed call: events for the SDK's own streams, and their text for whoever reads the body.

Nearly always the SDK's stream is the only reader, and takes the events as they are. Middleware around ours, raw responses
and proxies read bytes: for them the events are written out, as they come. What is read first decides, and a body is read
once, as any other; somebody who read all of it leaves its text for the stream. Whoever goes on reading what was closed before
its end, by whomever, gets a `ReadError`: part of an answer never looks like all of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any

import httpx2

from ipy_websearch.model.frames import Parsed, frame

DROPPED_S = 0.05
"""Seconds that a stream which is forgotten, or closed under its reader, waits for its run to be closed."""

_LAST = ("message_stop", "error")

Event = dict[str, Any]
Written = Callable[[list[Event]], Sequence[Any]]
"""Writes events as the caller reads them: a method of `Writing`."""


class Writing:
    """Writes events as the caller reads them, until the body is closed.

    It is neither the body nor its reader, so that no cycle keeps a forgotten stream alive.
    """

    def __init__(self) -> None:
        self.closed = False
        self.request: httpx2.Request | None = None
        self._newest: list[Event] = []

    @property
    def whole(self) -> bool:
        """Whether the last events were written."""
        return bool(self._newest) and self._newest[-1]["type"] in _LAST

    def check(self) -> None:
        """Look whether the body is open, or was read to its end.

        Raises:
            httpx2.ReadError: neither, as with any response whose connection was closed under its reader.
        """
        if self.closed and not self.whole:
            raise httpx2.ReadError("the stream was closed", request=self.request)

    def framed(self, events: list[Event]) -> list[bytes]:
        """Return events as text, in one piece."""
        if self.closed:
            self.check()
        self._newest = events
        return [b"".join(map(frame, events))] if events else []

    def parsed(self, events: list[Event]) -> list[Parsed]:
        """Return events as the SDK's streams read them."""
        if self.closed:
            self.check()
        self._newest = events
        return list(map(Parsed, events))


def _reading(events: Any, writing: Writing) -> Iterator[Any]:
    """Yield the events of a blocking stream, which another thread may close at any time."""
    try:
        if not writing.closed:
            yield from events
    except ValueError:  # that thread is in the generator just now
        writing.check()
        raise
    writing.check()


class _AsyncReading:
    """The same for async streams; a generator would cost each event more."""

    def __init__(self, events: Any, writing: Writing) -> None:
        self._next = events.__anext__
        self._writing = writing

    def __aiter__(self) -> _AsyncReading:
        return self

    def __anext__(self) -> Any:
        return self._over() if self._writing.closed else self._next()

    async def _over(self) -> Any:
        self._writing.check()
        raise StopAsyncIteration


class _Body:
    """`begin` makes the generator of the events, `shut` ends it, `dropped` is told of a body that nobody began or closed."""

    _reader: Callable[[Any, Writing], Any]

    def __init__(self, begin: Callable[[Written], Any], shut: Callable[[Any], Any], dropped: Callable[[], None]) -> None:
        self._begin = begin
        self._shut = shut
        self._dropped = dropped
        self._events: Any = None
        self.writing = Writing()
        self._process = os.getpid()

    def events(self, written: Callable[[Writing, list[Event]], Sequence[Any]]) -> Any:
        """Return a reader of the events."""
        if self._events is None:
            self._events = self._begin(partial(written, self.writing))
        return self._reader(self._events, self.writing)

    def __del__(self) -> None:
        if self._events is not None or self.writing.closed or sys.is_finalizing():
            return
        if self._process == os.getpid():  # a fork's copy is the parent's to book
            self._dropped()


class Body(_Body, httpx2.SyncByteStream):
    """The body of the response of a blocking client."""

    _reader = staticmethod(_reading)

    def __iter__(self) -> Any:
        return self.events(Writing.framed)

    def close(self) -> None:
        """End what is sent and run."""
        if not self.writing.closed:
            self.writing.closed = True
            self._shut(self._events)


class AsyncBody(_Body, httpx2.AsyncByteStream):
    """The same for async clients."""

    _reader = _AsyncReading

    def __aiter__(self) -> Any:
        return self.events(Writing.framed)

    async def aclose(self) -> None:
        """End what is sent and run."""
        if not self.writing.closed:
            self.writing.closed = True
            shut: Awaitable[None] = self._shut(self._events)
            await shut


class StreamedResponse(httpx2.Response):
    """A response with such a body."""

    def __init__(self, status: int, headers: Any, request: Any, body: Body | AsyncBody) -> None:
        super().__init__(status, headers=headers, request=request, stream=body)
        self._body = body
        body.writing.request = request

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: as with any response, not the body that is still to be read."""
        return {name: value for name, value in super().__getstate__().items() if name != "_body"}

    def iter_bytes(self, chunk_size: int | None = None) -> Any:
        """Return the text in pieces, which the decoder of our `EventClient` knows for what they are."""
        pieces = super().iter_bytes(chunk_size)
        return pieces if chunk_size is not None or hasattr(self, "_content") else Pieces(self, pieces)

    def aiter_bytes(self, chunk_size: int | None = None) -> Any:
        """The same for async clients."""
        pieces = super().aiter_bytes(chunk_size)
        return pieces if chunk_size is not None or hasattr(self, "_content") else AsyncPieces(self, pieces)

    def events(self) -> Any:
        """Return a reader of the parsed events; None where the body was read or closed, or somebody listens in on it."""
        if self.is_stream_consumed or self.is_closed or not self._is_own(self.stream):
            return None
        self.is_stream_consumed = True
        return self._body.events(Writing.parsed)

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
