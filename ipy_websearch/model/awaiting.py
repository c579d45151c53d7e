"""Sends the requests of an intercepted call and waits for the replies, for async clients; `blocking` does it for the others.

The two differ in nothing but waiting: every decision is the base class's or the run's. While a stream waits, also for a
server that is silent before its answer, its caller gets pings.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import anthropic
import httpx2

from ipy_websearch.background import elsewhere
from ipy_websearch.errors import ConfigError
from ipy_websearch.model import driving
from ipy_websearch.model.arriving import arriving_async
from ipy_websearch.model.driving import LOST, PING, Driver, error_event
from ipy_websearch.model.passing import cut_off
from ipy_websearch.model.runs import Run
from ipy_websearch.model.streamed import DROPPED_S, AsyncBody, Written


class Awaiting(Driver):
    """Drives a run for an async client.

    What a stream waits for runs in a task beside it, so that pings can be given meanwhile; it ends with the stream.
    """

    _task: asyncio.Future[None] | None = None
    _loop: asyncio.AbstractEventLoop

    def __init__(self, run: Run, request: Any, call_next: Any, retries: int | None) -> None:
        if not _in_asyncio():
            raise ConfigError(
                "an intercepted async client needs asyncio, and this call runs in another event loop (trio has its own): "
                "call it from asyncio, or use the blocking client in a thread"
            )
        super().__init__(run, request, call_next, retries)

    async def answer(self) -> Any:
        """Return the response for the caller, or the error response of a request that failed."""
        if not self.request.stream:
            try:
                return await self._whole()
            finally:
                self.run.close()
        try:
            response = await self._send(self.next_request())
            refused = self.refused(response)
        except BaseException:
            self.run.close()
            raise
        if refused:
            self.run.close()
            return response
        self._loop = asyncio.get_running_loop()
        self.begin()
        return self.streamed(response, AsyncBody)

    async def _shut(self, events: Any) -> None:
        """End the stream. Where another task is reading it, that task ends it as soon as it comes to it."""
        self.stopped = True
        if events is not None and events.ag_running:
            if self._task is not None:
                self._task.cancel()
            await self._hang_up()
            return
        if events is None:
            self._unread()
        else:
            await events.aclose()
        await self._close()  # one that was never begun has not done that itself

    def _unread(self) -> None:
        self.run.lost()
        self.run.close()

    def _dropped(self) -> None:
        elsewhere(self._unread, DROPPED_S)
        with suppress(RuntimeError):  # the loop has ended, and the connection with it
            self._loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self._hang_up()))

    async def _hang_up(self) -> None:
        if self._response is not None:
            await self._response.http_response.aclose()

    async def _whole(self) -> Any:
        while (request := self.next_request()) is not None:
            response = await self._send(request)
            if response is None:
                break
            if self.refused(response):
                return response
            self.run.message(self.whole(response, await response.http_response.aread()))
            if self.take(response):
                await self.run.run_calls()
        return self.finished()

    async def _send(self, request: Any) -> Any:
        """Send a request until it is answered; return the response, None when there is no money to send it again."""
        while request is not None:
            try:
                response = await self._once(request)
                if response.status_code < 400:
                    return response
                text = str((await response.http_response.aread())[:1_000])
            except Exception as exc:
                if (wait := self.wait_after(exc)) is None:
                    raise
            except (asyncio.CancelledError, KeyboardInterrupt) as exc:
                self.given_up(exc)
                raise
            else:
                if (wait := self.wait(response, text)) is None:
                    return response
            await asyncio.sleep(wait)
            request = self.next_request()
        return None

    async def _once(self, request: Any) -> Any:
        """Send a request. What is not to be streamed is read here: some callers' clients leave that to later."""
        response = await self.call_next(request)
        if self.request.stream and response.status_code < 400:
            return response
        if response.status_code < 400:
            self.run.begin()
        try:
            await response.http_response.aread()
        except httpx2.HTTPError as exc:
            cut_off(response, exc)
        return response

    async def _events(self, written: Written) -> AsyncGenerator[Any, None]:
        try:
            while self._response is not None:
                try:
                    async for raws in arriving_async(self._response):
                        for item in written(self.feed(raws)):
                            yield item
                except LOST as exc:
                    self.lost(exc)
                self.going()
                wait, calls = self.taken(self._response)
                if calls:
                    self._task = asyncio.ensure_future(self.run.run_calls())
                    while not await self._ended():
                        yield written([PING])[0]
                for item in written(self.rest()):
                    yield item
                await self._response.http_response.aclose()
                self._task = self._following(wait)
                while not await self._ended():
                    yield written([PING])[0]
            for item in written(self.closing()):
                yield item
        finally:
            self.left()
            await self._close()

    async def _ended(self) -> bool:
        """Wait for what runs beside the stream, for `PING_S` at most; say whether it has ended."""
        if self._task is None:
            return True
        await asyncio.wait((self._task,), timeout=driving.PING_S)
        if not self._task.done():
            return False
        task, self._task = self._task, None
        if task.cancelled() or task.exception():  # an answer that came all the same goes on to where it is booked
            self.going()
        task.result()
        return True

    async def _close(self) -> None:
        """Stop what runs beside the stream, book what was used, and close the connection."""
        task, self._task = self._task, None
        try:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        finally:
            self.run.close()
            await self._hang_up()

    def _following(self, wait: float | None) -> asyncio.Future[None] | None:
        """Begin to send the next request, in `wait` seconds; None when the stream is at its end."""
        self.going()
        request = None if self.problem else self.next_request()
        self._response = None
        return None if request is None else asyncio.ensure_future(self._next(request, wait))

    async def _next(self, request: Any, wait: float | None) -> None:
        if wait:
            await asyncio.sleep(wait)
        try:
            response = await self._send(request)
        except anthropic.APIConnectionError as exc:
            self.problem = error_event(str(exc))
            return
        if response is not None and self.refused(response):
            self.failed(response, await response.http_response.aread())
            return
        self._response = response
        if response is not None:
            self.begin()  # from here on it is booked, whether or not anybody comes to read it


def _in_asyncio() -> bool:
    """Say whether the caller is a task of asyncio; a loop beside it may be another's host (trio's guest mode)."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False
