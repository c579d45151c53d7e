"""Sends the requests of an intercepted call and waits for the replies: once for blocking clients, once for async ones.

The two differ in nothing but waiting: every decision is the base class's or the run's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import httpx2

from ipy_websearch.model.client import replay_message
from ipy_websearch.model.driving import LOST, Block, Driver, Event, Run, error_event
from ipy_websearch.model.frames import Parsed, frame


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
            frames = self._events(response, frame)
            return self.response(stream=_Body(frames, frames))
        events = self._events(response, Parsed)
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
        return self.response(content=self.finished())

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

    def _events(self, response: Any, written: Callable[[Event], Any]) -> Iterator[Any]:
        try:
            while response is not None:
                self.begin()
                try:
                    for raw in _events(response):
                        for event in self.feed(raw):
                            yield written(event)
                except LOST as exc:
                    self.lost(exc)
                wait, calls = self.taken(response)
                if calls:
                    self._block(self.run.run_calls)
                yield from map(written, self.rest())
                response.http_response.close()
                time.sleep(wait or 0)
                response = self._next()
            yield from map(written, self.closing())
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
            frames = self._events(response, frame)
            return self.response(stream=_AsyncBody(frames, frames))
        events = self._events(response, Parsed)
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
        return self.response(content=self.finished())

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

    async def _events(self, response: Any, written: Callable[[Event], Any]) -> AsyncIterator[Any]:
        try:
            while response is not None:
                self.begin()
                try:
                    async for raw in _aevents(response):
                        for event in self.feed(raw):
                            yield written(event)
                except LOST as exc:
                    self.lost(exc)
                wait, calls = self.taken(response)
                if calls:
                    await self.run.run_calls()
                for event in self.rest():
                    yield written(event)
                await response.http_response.aclose()
                await asyncio.sleep(wait or 0)
                response = await self._next()
            for event in self.closing():
                yield written(event)
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


def _whole(response: Any) -> bool:
    """Say whether a server answered JSON although a stream was asked for."""
    return "json" in response.headers.get("content-type", "")


def _events(response: Any) -> Iterator[Event]:
    if _whole(response):
        yield from replay_message(json.loads(response.http_response.read()))
        return
    for event in response._client._make_sse_decoder().iter_bytes(response.http_response.iter_bytes()):
        if event.data:
            yield json.loads(event.data)


async def _aevents(response: Any) -> AsyncIterator[Event]:
    if _whole(response):
        for whole in replay_message(json.loads(await response.http_response.aread())):
            yield whole
        return
    async for event in response._client._make_sse_decoder().aiter_bytes(response.http_response.aiter_bytes()):
        if event.data:
            yield json.loads(event.data)


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
