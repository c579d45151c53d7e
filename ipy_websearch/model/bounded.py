"""Bounds what an answer of the model's API may unpack to, and lets the event loop go on while it is unpacked.

A compressed body of a megabyte can hold a gigabyte. The HTTP library unpacks it piece by piece, but one received piece gives up
to a thousand times its size without a turn of the loop, in which no deadline and no interrupt gets through.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2

MAX_BYTES = 64_000_000
"""The most bytes that one answer may have; the longest that a model can write have some 20 MB as a stream."""

_TURN_BYTES = 262_144
_RESULTS = "/results"  # a batch's results may be of any size: they are read line by line


class AnswerTooLarge(httpx2.DecodingError):
    """An answer has more than `MAX_BYTES`."""


async def bound(response: httpx2.Response) -> None:
    """Let a response be unpacked here, piece by piece; a hook of the HTTP client, called before anything is read."""
    most = None if response.request.url.path.endswith(_RESULTS) else MAX_BYTES
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)  # of an asynchronous client, whose hook this is
    packed = None
    if "content-encoding" in response.headers:
        packed = httpx2.Response(response.status_code, headers=response.headers, stream=stream, request=response.request)
        del response.headers["content-encoding"]
    response.stream = _Unpacked(stream, packed, most)


class _Unpacked(httpx2.AsyncByteStream):
    """The bytes of `stream`, as `packed` unpacks them (None: they are not packed)."""

    def __init__(self, stream: httpx2.AsyncByteStream, packed: httpx2.Response | None, most: int | None) -> None:
        self._stream = stream
        self._packed = packed
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = turn = 0
        async for piece in self._stream if self._packed is None else self._packed.aiter_bytes():
            total += len(piece)
            if self._most is not None and total > self._most:
                raise AnswerTooLarge(f"an answer of more than {self._most / 1e6:.0f} MB")
            yield piece
            if total - turn >= _TURN_BYTES:
                turn = total
                await asyncio.sleep(0)

    async def aclose(self) -> None:
        await self._stream.aclose()
