"""The proxy's application: every request goes on to the server behind it, those that want the web through the interception.

Programs on this machine may ask, and web pages may not: a browser would let a page use the model on anybody's behalf. It cannot
hide where a page comes from, in `Origin`, `Sec-Fetch-Site` and (where a page's own name leads here) `Host`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakSet

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ipy_websearch.errors import BudgetExceededError, ModelError, WebSearchError
from ipy_websearch.interception import WebSearchInterceptor
from ipy_websearch.model.upstream import Answered, Upstream
from ipy_websearch.text import plain, shorten, sound

# Most bytes of a request's body: as many as the API takes.
MAX_BYTES = 32 * 2**20

_KINDS = {402: "billing_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large"}


class Proxy:
    """The application in front of the server at `upstream`; `local_only` refuses other names than this machine's.

    Raises:
        ConfigError: there is no such server, or its credentials are missing.
    """

    def __init__(self, upstream: str, interceptor: WebSearchInterceptor, *, local_only: bool = True) -> None:
        self.server = Upstream(upstream, interceptor)
        self._interceptor = interceptor
        self._local_only = local_only
        self._tasks: WeakSet[Any] = WeakSet()
        self._lifespan: ASGIApp = Starlette(lifespan=self._running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        self._tasks.add(asyncio.current_task())
        async with AsyncExitStack() as stack:
            response = await self._response(Request(scope, receive), stack)
            with suppress(ModelError, asyncio.CancelledError):  # an answer that breaks off is left without its end
                await response(scope, receive, send)

    @asynccontextmanager
    async def _running(self, _: Starlette) -> AsyncIterator[None]:
        yield
        if self._tasks:  # cancelled by the server, they are still booking, and telling their clients: five seconds at most
            await asyncio.wait(tuple(self._tasks), timeout=5.0)
        await self.server.aclose()
        await self._interceptor.session.aclose()

    async def _response(self, request: Request, stack: AsyncExitStack) -> Response:
        try:
            target = self._checked(request)
            body, content = await _read(request)
            # One header that came several times (`anthropic-beta`) is one with all values.
            headers = {name: ", ".join(request.headers.getlist(name)) for name in request.headers}
            answering = self.server.answer(request.method, target, headers, body, content)
            status, answer_headers, answer_body = await _while_here(request, stack.enter_async_context(answering))
            return StreamingResponse(answer_body, status, answer_headers)
        except (Exception, asyncio.CancelledError) as exc:
            return _told(exc)

    def _checked(self, request: Request) -> str:
        """Return path and query of a request that may be answered.

        Raises:
            HTTPException: it may not.
        """
        if not may_ask(request.headers, local_only=self._local_only):
            raise HTTPException(403, "this proxy answers programs on this machine only")
        path = bytes(request.scope.get("raw_path") or request.scope["path"].encode()).partition(b"?")[0].decode("latin-1")
        if not path.startswith("/") or ".." in unquote(unquote(path)):
            raise HTTPException(400, "the path is none below the upstream server's own")
        return f"{path}?{query}" if (query := request.scope["query_string"].decode("latin-1")) else path


async def _read(request: Request) -> tuple[Any, bytes]:
    """Return a request's body as JSON, or as its bytes where it is none.

    Raises:
        HTTPException: it is too large, or no JSON for the Messages API.
    """
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_BYTES:
            raise HTTPException(413, f"the proxy takes requests of at most {MAX_BYTES // 2**20} MB")
    if not request.scope["path"].startswith("/v1/messages") or not content:
        return None, bytes(content)
    try:
        body = json.loads(content.decode("utf-8-sig"))
        return sound(body) if b"\\u" in content else body, b""  # half a character: programs cut texts anywhere
    except (ValueError, RecursionError) as exc:
        raise HTTPException(400, f"the request's body is not valid JSON ({shorten(plain(str(exc)), 100)})") from None


async def _while_here(request: Request, answering: Coroutine[Any, Any, Answered]) -> Answered:
    """Return the answer, unless the client goes away before it has begun; what runs for it is stopped then.

    Raises:
        ClientDisconnect: it went away.
    """
    # Nothing but the news that the client has gone can come behind its request.
    answer, left = asyncio.ensure_future(answering), asyncio.ensure_future(request.receive())
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
    """Return whether a program asks, and not a web page; `local_only` wants this machine's own name in `Host`."""
    origins = headers.getlist("origin")
    is_ours = all(map(is_loopback, origins)) if origins else headers.get("sec-fetch-site", "none") in ("none", "same-origin")
    return is_ours and (not local_only or is_loopback(f"//{headers.get('host', '')}"))


def is_loopback(address: str) -> bool:
    """Return whether an address, `http://host:port` or `//host`, is on this machine."""
    with suppress(ValueError):
        host = urlsplit(address).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False


def _told(exc: BaseException) -> Response:
    """Return the response for an error."""
    match exc:
        case asyncio.CancelledError():  # only the server's end does that
            return _error(503, "the proxy is being stopped", {"x-should-retry": "false", "connection": "close"})
        case HTTPException():
            return _error(exc.status_code, exc.detail)
        case BudgetExceededError():
            return _error(402, str(exc))
        case ModelError():
            return _error(404 if exc.status == 404 else 502, str(exc))
        case WebSearchError():
            return _error(400, str(exc))
        case _:  # what a plug-in raises becomes an answer that the client understands
            return _error(502, f"the request could not be answered ({type(exc).__name__}: {shorten(plain(str(exc)), 200)})")


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error in the form of the Messages API."""
    error = {"type": _KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error"), "message": message}
    return JSONResponse({"type": "error", "error": error}, status_code=status, headers=headers)
