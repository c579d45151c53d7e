"""Sends the requests of an intercepted call and waits for the replies: once for blocking clients, once for async ones.

The two differ in nothing but waiting: every decision is the base class's or the run's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import anthropic
import httpx2

from ipy_websearch.model.client import replay_message
from ipy_websearch.model.driving import LOST, Block, Driver, Event, Run, error_event
from ipy_websearch.model.frames import FrameReader, Parsed, frame

Written = Callable[[list[Event]], Sequence[Any]]


class Blocking(Driver):
    """Drives a run for a blocking client; `block` runs a coroutine function to its end."""

    def __init__(self, run: Run, request: Any, call_next: Any, retries: int | None, block: Block) -> None:
        super().__init__(run, request, call_next, retries)
        self._block = block

    def answer(self) -> Any:
        """Return the response for the caller, or the error response of a request that failed."""
        if not self.request.stream:
            try:
                return self._whole()
            finally:
                self.run.close()
        response = self._send(self.next_request())
        return response if self.refused(response) else self._streamed(response)

    def _streamed(self, response: Any) -> Any:
        if self.wants_bytes:
            frames = self._events(response, _framed)
            return self.response(stream=_Body(frames, frames))
        events = self._events(response, _parsed)
        return self.response(events, stream=_Body((), events))

    def _whole(self) -> Any:
        while (request := self.next_request()) is not None:
            response = self._send(request)
            if self.refused(response):
                return response
            self.run.begin()
            self.run.message(json.loads(response.http_response.read()))
            if self.run.taken(response.headers.get("request-id")):
                self._block(self.run.run_calls)
        return self.response(message=self.run.final())

    def _send(self, request: Any) -> Any:
        attempt = 0
        while True:
            attempt += 1
            try:
                response, text = self.call_next(request), ""
                if response.status_code < 400:
                    return response
                text = str(response.http_response.read()[:1_000])
            except anthropic.APIConnectionError as exc:
                if (wait := self.wait(None, str(exc), attempt)) is None:
                    raise
            else:
                if (wait := self.wait(response, text, attempt)) is None:
                    return response
            time.sleep(wait)

    def _events(self, response: Any, written: Written) -> Iterator[Any]:
        try:
            while response is not None:
                self.begin()
                try:
                    for raws in _pieces(response):
                        yield from written(self.feed(raws))
                except LOST as exc:
                    self.lost(exc)
                wait, calls = self.taken(response)
                if calls:
                    self._block(self.run.run_calls)
                yield from written(self.rest())
                response.http_response.close()
                time.sleep(wait or 0)
                response = self._next()
            yield from written(self.closing())
        finally:
            self.run.close()
            if response is not None:
                response.http_response.close()

    def _next(self) -> Any:
        request = None if self.problem else self.next_request()
        if request is None:
            return None
        try:
            response = self._send(request)
        except anthropic.APIConnectionError as exc:
            self.problem = error_event(str(exc))
            return None
        if self.refused(response):
            self.failed(response, response.http_response.read())
            return None
        return response


class Awaiting(Driver):
    """Drives a run for an async client."""

    async def answer(self) -> Any:
        """Return the response for the caller, or the error response of a request that failed."""
        if not self.request.stream:
            try:
                return await self._whole()
            finally:
                self.run.close()
        response = await self._send(self.next_request())
        return response if self.refused(response) else self._streamed(response)

    def _streamed(self, response: Any) -> Any:
        if self.wants_bytes:
            frames = self._events(response, _framed)
            return self.response(stream=_AsyncBody(frames, frames))
        events = self._events(response, _parsed)
        return self.response(events, stream=_AsyncBody(None, events))

    async def _whole(self) -> Any:
        while (request := self.next_request()) is not None:
            response = await self._send(request)
            if self.refused(response):
                return response
            self.run.begin()
            self.run.message(json.loads(await response.http_response.aread()))
            if self.run.taken(response.headers.get("request-id")):
                await self.run.run_calls()
        return self.response(message=self.run.final())

    async def _send(self, request: Any) -> Any:
        attempt = 0
        while True:
            attempt += 1
            try:
                response, text = await self.call_next(request), ""
                if response.status_code < 400:
                    return response
                text = str((await response.http_response.aread())[:1_000])
            except anthropic.APIConnectionError as exc:
                if (wait := self.wait(None, str(exc), attempt)) is None:
                    raise
            else:
                if (wait := self.wait(response, text, attempt)) is None:
                    return response
            await asyncio.sleep(wait)

    async def _events(self, response: Any, written: Written) -> AsyncIterator[Any]:
        try:
            while response is not None:
                self.begin()
                try:
                    async for raws in _apieces(response):
                        for item in written(self.feed(raws)):
                            yield item
                except LOST as exc:
                    self.lost(exc)
                wait, calls = self.taken(response)
                if calls:
                    await self.run.run_calls()
                for item in written(self.rest()):
                    yield item
                await response.http_response.aclose()
                if wait:
                    await asyncio.sleep(wait)
                response = await self._next()
            for item in written(self.closing()):
                yield item
        finally:
            self.run.close()
            if response is not None:
                await response.http_response.aclose()

    async def _next(self) -> Any:
        request = None if self.problem else self.next_request()
        if request is None:
            return None
        try:
            response = await self._send(request)
        except anthropic.APIConnectionError as exc:
            self.problem = error_event(str(exc))
            return None
        if self.refused(response):
            self.failed(response, await response.http_response.aread())
            return None
        return response


def _framed(events: list[Event]) -> list[bytes]:
    """Return events as text, in one piece."""
    return [b"".join(map(frame, events))] if events else []


def _parsed(events: list[Event]) -> list[Parsed]:
    return list(map(Parsed, events))


def _kind(response: Any) -> str:
    """Return how a reply comes: whole (some servers answer JSON although a stream was asked for), as text, or in frames."""
    content_type = response.headers.get("content-type", "")
    return "whole" if "json" in content_type else "frames" if "vnd.amazon.eventstream" in content_type else "text"


def _pieces(response: Any) -> Iterator[list[Event]]:
    """Yield the events of a reply, as many at once as have come."""
    http, kind = response.http_response, _kind(response)
    if kind == "whole":
        yield replay_message(json.loads(http.read()))
    elif kind == "frames":  # only the SDK can read them
        for event in response._client._make_sse_decoder().iter_bytes(http.iter_bytes()):
            yield [json.loads(event.data)] if event.data else []
    else:
        reader = FrameReader()
        for piece in http.iter_bytes():
            yield reader.feed(piece)
        yield reader.end()


async def _apieces(response: Any) -> AsyncIterator[list[Event]]:
    """The same for async clients."""
    http, kind = response.http_response, _kind(response)
    if kind == "whole":
        yield replay_message(json.loads(await http.aread()))
    elif kind == "frames":
        async for event in response._client._make_sse_decoder().aiter_bytes(http.aiter_bytes()):
            yield [json.loads(event.data)] if event.data else []
    else:
        reader = FrameReader()
        async for piece in http.aiter_bytes():
            yield reader.feed(piece)
        yield reader.end()


class _Body(httpx2.SyncByteStream):
    """The body of the caller's response; closing it closes what the events come from."""

    def __init__(self, frames: Any, events: Any) -> None:
        self._frames = frames
        self._source = events

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._frames)

    def close(self) -> None:
        self._source.close()


class _AsyncBody(httpx2.AsyncByteStream):
    """The same for async clients."""

    def __init__(self, frames: Any, events: Any) -> None:
        self._frames = frames
        self._source = events

    def __aiter__(self) -> AsyncIterator[bytes]:
        frames: AsyncIterator[bytes] = self._frames
        return frames

    async def aclose(self) -> None:
        await self._source.aclose()
