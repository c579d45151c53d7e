"""A server that answers what a test scripts, byte for byte.

    with Scripted() as server:
        server.answer({"results": []}, path="/search")
        server.answer(b"not json", status=502, headers={"retry-after": "3"})

Answers are used in order, path by path; the last one of a path stays. A path without answers gives 404.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.fakes.server import Handler, Server, receive

JSON_HEADERS = {"content-type": "application/json"}


class Scripted(Server):
    """A server with scripted answers; `requests` has what came in."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def answer(self, body: Any, *, path: str = "", status: int = 200, headers: Mapping[str, str] = JSON_HEADERS) -> None:
        """Script the next answer on a path ("": on every path): bytes as they are, or JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._answers[path].append({"body": data, "status": status, "headers": headers})

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve every path."""
        return [("*", "/{path:.*}", self._handle)]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await receive(request))
        waiting = self._answers.get(request.path) or self._answers[""] or [{"status": 404}]
        return web.Response(**(waiting.pop(0) if len(waiting) > 1 else waiting[0]))
