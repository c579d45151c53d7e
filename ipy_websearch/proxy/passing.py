"""Answers on their way to the client: as long as it is there, and until the proxy ends.

Whatever ends an answer, the request behind it is closed and what it cost is booked before the proxy is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from ipy_websearch.errors import ModelError
from ipy_websearch.model.upstream import Answered
from ipy_websearch.model.upstream_headers import written_headers

CLIENT_GONE = 499
"""The status that is answered to nobody, as nginx has it."""

END_S = 5.0
"""Seconds that answers have to come to their end when the proxy does."""


class Answers:
    """The answers under way."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count the running task among them."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        yield

    async def ended(self) -> None:
        """Wait for those that the server has cancelled: they are still booking, and telling their clients."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=END_S)


async def while_here(request: Request, read: asyncio.Event, answering: Coroutine[Any, Any, Answered]) -> Answered:
    """Return the answer, unless the client goes away before it has begun; what runs for it is stopped then.

    `read` is set once the request's body has come: until then it is whoever reads that who notices.

    Raises:
        ClientDisconnect: it went away.
    """
    answer, gone = asyncio.ensure_future(answering), asyncio.ensure_future(_gone(request, read))
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        raise ClientDisconnect
    finally:
        for task in (answer, gone):
            task.cancel()
        await asyncio.gather(answer, gone, return_exceptions=True)


async def _gone(request: Request, read: asyncio.Event) -> None:
    """Wait until the client goes away."""
    if any(name in request.headers for name in ("content-length", "transfer-encoding")):
        await read.wait()
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Passing(StreamingResponse):
    """An answer that goes on as it comes; whatever ends it, the upstream request is closed and what it cost is booked."""

    def __init__(self, answered: Answered, stack: AsyncExitStack) -> None:
        super().__init__(answered.body, status_code=answered.status)
        self.raw_headers = [(name.lower(), value) for name, value in written_headers(answered.headers)]
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer. One that breaks off is left without its end, so that the connection breaks off too."""
        async with self._stack:
            with suppress(ModelError, asyncio.CancelledError):
                await super().__call__(scope, receive, send)


def error(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error in the form of the Messages API."""
    return JSONResponse({"type": "error", "error": {"type": kind, "message": message}}, status_code=status, headers=headers)
