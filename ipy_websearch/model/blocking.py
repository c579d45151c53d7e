"""Sends the requests of an intercepted call and waits for the replies, for blocking clients; `awaiting` does it for async ones.

The two differ in nothing but waiting: every decision is the base class's or the run's. While a stream waits for calls, or
before a request is sent again, its caller gets pings; while the server is silent before its answer it cannot, since that is
waited for in the caller's own thread.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import anthropic
import httpx2

from ipy_websearch.background import elsewhere
from ipy_websearch.model import driving
from ipy_websearch.model.arriving import arriving
from ipy_websearch.model.driving import LOST, PING, Block, Driver, error_event
from ipy_websearch.model.passing import cut_off
from ipy_websearch.model.runs import Run
from ipy_websearch.model.streamed import DROPPED_S, Body, Written

_TRIES = 10
"""How often a stream that is closed looks whether another thread is still reading it, in `DROPPED_S` seconds."""


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
        try:
            response = self._send(self.next_request())
            refused = self.refused(response)
        except BaseException:
            self.run.close()
            raise
        if refused:
            self.run.close()
        return response if refused else self.streamed(response, Body)

    def _shut(self, events: Any) -> None:
        """End the stream. Where another thread is reading it, that thread ends it as soon as it comes to it."""
        self.stopped = True
        if events is None:
            self._unread()
            return
        for _ in range(_TRIES):
            try:
                events.close()
            except ValueError:  # that thread is in the generator just now; it may be out in a moment, and never come back
                self._hang_up()
                time.sleep(DROPPED_S / _TRIES)
            else:
                self._end()  # one that was never begun has not done that itself
                return

    def _dropped(self) -> None:
        elsewhere(self._unread, DROPPED_S)

    def _unread(self) -> None:
        self.run.lost()
        self._end()

    def _hang_up(self) -> None:
        if self._response is not None:
            self._response.http_response.close()

    def _end(self) -> None:
        """Book what was used and close the connection."""
        self.run.close()
        self._hang_up()

    def _whole(self) -> Any:
        while (request := self.next_request()) is not None:
            response = self._send(request)
            if response is None:
                break
            if self.refused(response):
                return response
            self.run.message(self.whole(response, response.http_response.read()))
            if self.take(response):
                for _ in self._block(self.run.run_calls, driving.PING_S):
                    pass
        return self.finished()

    def _send(self, request: Any) -> Any:
        attempts = self._attempts(request)
        while True:
            try:
                wait = next(attempts)
            except StopIteration as ended:
                return ended.value
            time.sleep(wait)

    def _attempts(self, request: Any) -> Generator[float, None, Any]:
        """Send a request until it is answered; yields the seconds to wait in between, and returns the response.

        It returns None when there is no money to send it again.
        """
        while request is not None:
            try:
                response = self._once(request)
                if response.status_code < 400:
                    return response
                text = str(response.http_response.read()[:1_000])
            except Exception as exc:
                if (wait := self.wait_after(exc)) is None:
                    raise
            except KeyboardInterrupt as exc:
                self.given_up(exc)
                raise
            else:
                if (wait := self.wait(response, text)) is None:
                    return response
            yield wait
            request = self.next_request()
        return None

    def _once(self, request: Any) -> Any:
        """Send a request. What is not to be streamed is read here: some callers' clients leave that to later."""
        response = self.call_next(request)
        if self.request.stream and response.status_code < 400:
            return response
        if response.status_code < 400:
            self.run.begin()
        try:
            response.http_response.read()
        except httpx2.HTTPError as exc:
            cut_off(response, exc)
        return response

    def _events(self, written: Written) -> Generator[Any, None, None]:
        try:
            while self._response is not None:
                self.begin()
                try:
                    for raws in arriving(self._response):
                        yield from written(self.feed(raws))
                except LOST as exc:
                    self.lost(exc)
                self.going()
                wait, calls = self.taken(self._response)
                if calls:
                    with closing(self._block(self.run.run_calls, min(driving.LOOK_S, driving.PING_S))) as looks:
                        yield from self._silences(looks, written)
                yield from written(self.rest())
                self._response.http_response.close()
                yield from self._silences(_slept(wait or 0.0), written)
                self._response = yield from self._next(written)
            yield from written(self.closing())
        finally:
            self.left()
            self._end()

    def _silences(self, looks: Iterator[None], written: Written) -> Iterator[Any]:
        """Go through a wait, with a ping whenever `PING_S` have gone by, as long as the stream is wanted."""
        due = time.monotonic() + driving.PING_S
        for _ in looks:
            self.going()
            if time.monotonic() >= due:
                due += driving.PING_S
                yield from written([PING])

    def _next(self, written: Written) -> Generator[Any, None, Any]:
        self.going()
        request = None if self.problem else self.next_request()
        if request is None:
            return None
        attempts = self._attempts(request)
        try:
            while True:
                yield from self._silences(_slept(next(attempts)), written)
        except StopIteration as ended:
            response = ended.value
        except anthropic.APIConnectionError as exc:
            self.problem = error_event(str(exc))
            return None
        if response is not None and self.refused(response):
            self.failed(response, response.http_response.read())
            return None
        return response


def _slept(seconds: float) -> Iterator[None]:
    """Sleep, and yield every now and then."""
    every = min(driving.LOOK_S, driving.PING_S)
    while seconds > every:
        time.sleep(every)
        seconds -= every
        yield
    time.sleep(seconds)
