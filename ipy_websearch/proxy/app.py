"""The proxy's application: every path goes on to the server behind it, requests that want the web through the interception."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from ipy_websearch.errors import BudgetExceededError, ModelError, WebSearchError
from ipy_websearch.interception.interceptor import WebSearchInterceptor
from ipy_websearch.model.upstream import Answered, Asked, Upstream
from ipy_websearch.proxy.bodies import json_in
from ipy_websearch.text import plain, shorten

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CLIENT_GONE = 499
"""The status that is answered to nobody, as nginx has it."""


def build_app(upstream: str, interceptor: WebSearchInterceptor, *, local_only: bool = True) -> Starlette:
    """Return the application in front of the server at `upstream`.

    `local_only` refuses requests that were sent to another name than this machine's, or by a web page: a page in a browser
    could otherwise use the model behind the proxy.

    Raises:
        ConfigError: `upstream` is no http or https address.
    """
    server = Upstream(upstream, interceptor)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        request = Request(scope, receive)
        if local_only and not _is_local(request):
            response: Response = error(403, "permission_error", "this proxy answers programs on this machine only")
        else:
            response = await _answer(server, request)
        await response(scope, receive, send)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await server.aclose()
        await interceptor.session.aclose()
        interceptor.session.ledger.write_held()

    return Starlette(routes=[Mount("/", answer)], lifespan=lifespan)


async def _answer(server: Upstream, request: Request) -> Response:
    stack = AsyncExitStack()
    try:
        if server.reads(request.method, _path(request)):
            asked = _asked(request, await request.body())
            answered = await _while_here(request, stack.enter_async_context(server.answer(asked)))
        else:
            answered = await stack.enter_async_context(server.answer(_asked(request, request.stream())))
    except ClientDisconnect:
        return Response(status_code=CLIENT_GONE)
    except BudgetExceededError as exc:
        return error(402, "billing_error", str(exc))
    except ModelError as exc:
        return error(502, "api_error", str(exc))
    except WebSearchError as exc:
        return error(400, "invalid_request_error", str(exc))
    except Exception as exc:  # what the connection or a plug-in raises becomes an answer that the client understands
        kind = type(exc).__name__
        return error(502, "api_error", f"the upstream server could not be asked ({kind}: {shorten(plain(str(exc)), 200)})")
    return Passing(answered, stack)


async def _while_here(request: Request, answering: Coroutine[Any, Any, Answered]) -> Answered:
    """Return the answer, unless the client goes away before it has begun; what runs for it is stopped then.

    Raises:
        ClientDisconnect: it went away.
    """
    answer, gone = asyncio.ensure_future(answering), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        raise ClientDisconnect
    finally:
        for task in (answer, gone):
            task.cancel()
        await asyncio.gather(answer, gone, return_exceptions=True)


async def _gone(request: Request) -> None:
    """Wait until the client goes away; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Passing(StreamingResponse):
    """An answer that goes on as it comes; whatever ends it, the upstream request is closed and what it cost is booked."""

    def __init__(self, answered: Answered, stack: AsyncExitStack) -> None:
        super().__init__(answered.body, status_code=answered.status)
        self.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answered.headers]
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        async with self._stack:
            await super().__call__(scope, receive, send)


def _asked(request: Request, content: Any) -> Asked:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
    query = request.scope["query_string"].decode("latin-1")
    body = json_in(content, request.headers.get("content-encoding", "")) if isinstance(content, bytes) else None
    return Asked(request.method, _path(request), query, headers, content, body)


def _path(request: Request) -> str:
    """Return the path as it was written: what is escaped in it stays escaped."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    return bytes(raw).partition(b"?")[0].decode("latin-1")


def error(status: int, kind: str, message: str) -> JSONResponse:
    """Return an error in the form of the Messages API."""
    return JSONResponse({"type": "error", "error": {"type": kind, "message": message}}, status_code=status)


def _is_local(request: Request) -> bool:
    origin = request.headers.get("origin")
    if origin is not None and _host(origin) not in LOOPBACK:
        return False
    return _host(f"//{request.headers.get('host', '')}") in LOOPBACK


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
