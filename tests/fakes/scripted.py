"""A server that answers what a test scripts, byte for byte: for the engines' wire formats and for HTTP itself.

    with Scripted() as server:
        server.answer({"results": []}, path="/search")
        server.answer(b"not json", status=502, headers={"retry-after": "3"})

Answers are used in order, path by path; the last one of a path stays. A path without answers gives 404.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.server import Handler, Received, Server, receive

Body = Any
Function = Callable[[Received], Body]


@dataclass(slots=True)
class Script:
    """One answer; `body` is bytes as they are, JSON, or a function from the request to JSON."""

    body: Body
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    body_delay_s: float = 0.0
    hang_up: bool = False


class Scripted(Server):
    """A server with scripted answers; `requests` has what came in."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[str, list[Script]] = defaultdict(list)

    def answer(self, body: Body = None, *, path: str = "", **settings: Any) -> None:
        """Script the next answer on a path ("": on every path); also `status headers delay_s body_delay_s hang_up`."""
        self._answers[path].append(Script(body, **settings))

    def forget(self) -> None:
        """Forget all answers and requests."""
        self._answers.clear()
        self.requests.clear()

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve every path."""
        return [("*", "/{path:.*}", self._handle)]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        received = await receive(request)
        self.requests.append(received)
        waiting = self._answers.get(request.path) or self._answers.get("")
        if not waiting:
            return web.Response(status=404, text="nothing is scripted here")
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        await asyncio.sleep(answer.delay_s)
        if answer.hang_up:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        body = answer.body(received) if callable(answer.body) else answer.body
        headers = {"content-type": "application/json"} | {name.lower(): value for name, value in answer.headers.items()}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if not answer.body_delay_s:
            return web.Response(body=data, status=answer.status, headers=headers)
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        await response.write(data[:1])
        await asyncio.sleep(answer.body_delay_s)
        await response.write(data[1:])
        return response
