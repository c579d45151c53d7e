"""The proxy's application: every request goes on to the server behind it, those that want the web through the interception.

Programs on this machine may ask, and web pages may not: a browser would let a page use the model on anybody's behalf. It cannot
hide where a page comes from, in `Origin`, `Sec-Fetch-Site` and (where a page's own name leads here) `Host`.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ipy_websearch.errors import BudgetExceededError, ModelError, WebSearchError
from ipy_websearch.interception import WebSearchInterceptor
from ipy_websearch.model.stream import parse_body
from ipy_websearch.model.upstream import Answered, Upstream
from ipy_websearch.text import plain, shorten

MAX_BYTES = 32 * 2**20
"""Most bytes of a request's body: as many as the API takes."""

END_S = 5.0
"""Seconds that answers have to come to their end when the proxy does."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
CLIENT_GONE = 499


class _Refused(Exception):
    """A request that is not passed on, and the answer to it."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.response = _error(status, kind, message)


class Proxy:
    """The application in front of the server at `upstream`; `local_only` refuses other names than this machine's.

    Raises:
        ConfigError: there is no such server, or its credentials are missing.
    """

    def __init__(self, upstream: str, interceptor: WebSearchInterceptor, *, local_only: bool = True) -> None:
        self.server = Upstream(upstream, interceptor)
        self._interceptor = interceptor
        self._local_only = local_only
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lifespan: ASGIApp = Starlette(lifespan=self._running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await (self._lifespan(scope, receive, send) if scope["type"] == "lifespan" else send({"type": "websocket.close"}))
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        async with AsyncExitStack() as stack:
            response = await self._response(Request(scope, receive), stack)
            with suppress(ModelError, asyncio.CancelledError):  # an answer that breaks off is left without its end
                await response(scope, receive, send)

    @asynccontextmanager
    async def _running(self, _: Starlette) -> AsyncIterator[None]:
        yield
        if self._tasks:  # cancelled by the server, they are still booking, and telling their clients
            await asyncio.wait(tuple(self._tasks), timeout=END_S)
        await self.server.aclose()
        await self._interceptor.session.aclose()

    async def _response(self, request: Request, stack: AsyncExitStack) -> Response:
        try:
            target = self._checked(request)
            body, content = await _read(request)
            # One header that came several times (`anthropic-beta`) is one with all values.
            headers = {name: ", ".join(request.headers.getlist(name)) for name in request.headers}
            answering = self.server.answer(request.method, target, headers, body, content)
            answered = await _while_here(request, stack.enter_async_context(answering))
            return StreamingResponse(answered.body, answered.status, answered.headers)
        except (Exception, asyncio.CancelledError) as exc:
            return _told(exc)

    def _checked(self, request: Request) -> str:
        """Return path and query of a request that may be answered.

        Raises:
            _Refused: it may not.
        """
        if not may_ask(request.headers, local_only=self._local_only):
            raise _Refused(403, "permission_error", "this proxy answers programs on this machine only")
        path = bytes(request.scope.get("raw_path") or request.scope["path"].encode()).partition(b"?")[0].decode("latin-1")
        if not path.startswith("/") or ".." in unquote(unquote(path)):
            raise _Refused(400, "invalid_request_error", "the path is none below the upstream server's own")
        if request.method not in METHODS:
            raise _Refused(405, "invalid_request_error", f"{request.method} is none of {', '.join(METHODS)}")
        query = request.scope["query_string"].decode("latin-1")
        return f"{path}?{query}" if query else path


async def _read(request: Request) -> tuple[Any, bytes]:
    """Return a request's body as JSON, or as its bytes where it is none.

    Raises:
        _Refused: it is too large, packed, or broken JSON for the Messages API.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise _Refused(415, "invalid_request_error", "the proxy reads bodies without a Content-Encoding only; send it plain")
    content, declared = bytearray(), int(request.headers.get("content-length") or 0)
    async for piece in request.stream():
        content += piece
        if max(declared, len(content)) > MAX_BYTES:
            raise _Refused(413, "request_too_large", f"the proxy takes requests of at most {MAX_BYTES // 2**20} MB")
    if not request.scope["path"].startswith("/v1/messages") or not content:
        return None, bytes(content)
    try:
        return parse_body(bytes(content)), b""  # without half characters: programs cut texts anywhere
    except ValueError:
        raise _Refused(400, "invalid_request_error", "the request's body is not valid JSON") from None


async def _while_here(request: Request, answering: Coroutine[Any, Any, Answered]) -> Answered:
    """Return the answer, unless the client goes away before it has begun; what runs for it is stopped then.

    Raises:
        ClientDisconnect: it went away.
    """

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    answer, left = asyncio.ensure_future(answering), asyncio.ensure_future(gone())
    try:
        await asyncio.wait((answer, left), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        raise ClientDisconnect
    finally:
        for task in (answer, left):
            task.cancel()
        await asyncio.gather(answer, left, return_exceptions=True)


def may_ask(headers: Headers, *, local_only: bool) -> bool:
    """Say whether a program asks, and not a web page; `local_only` wants this machine's own name in `Host`."""
    origins = headers.getlist("origin")
    if not all(_is_this_machine(origin) for origin in origins):
        return False
    if not origins and headers.get("sec-fetch-site", "none").lower() not in ("none", "same-origin"):
        return False
    return not local_only or _is_this_machine(f"//{headers.get('host', '')}")


def _is_this_machine(address: str) -> bool:
    with suppress(ValueError):
        return is_loopback(urlsplit(address).hostname or "")
    return False


def is_loopback(host: str) -> bool:
    """Say whether a name or an address is this machine's alone."""
    with suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False


def _told(exc: BaseException) -> Response:
    """Return what the client is told of an error."""
    match exc:
        case ClientDisconnect():
            return Response(status_code=CLIENT_GONE)
        case asyncio.CancelledError():  # only the server's end does that
            final = {"x-should-retry": "false", "connection": "close"}
            return _error(503, "api_error", "the proxy is being stopped", final)
        case _Refused():
            return exc.response
        case BudgetExceededError():
            return _error(402, "billing_error", str(exc))
        case ModelError(status=404):
            return _error(404, "not_found_error", str(exc))
        case ModelError():
            return _error(502, "api_error", str(exc))
        case WebSearchError():
            return _error(400, "invalid_request_error", str(exc))
        case _:  # what a plug-in raises becomes an answer that the client understands
            said = f"the request could not be answered ({type(exc).__name__}: {shorten(plain(str(exc)), 200)})"
            return _error(502, "api_error", said)


def _error(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error in the form of the Messages API."""
    return JSONResponse({"type": "error", "error": {"type": kind, "message": message}}, status_code=status, headers=headers)
