"""The proxy's application: every path goes on to the server behind it, requests that want the web through the interception.

A request that is to be looked at must be readable here: one in an encoding that is not (br or zstd without their packages) is
refused with 415 and the encodings that are, since a search that silently does not happen is worse. No body is held that is
larger than `bodies.MAX_BYTES`, and none is waited for longer than `PIECE_S` from piece to piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ipy_websearch.errors import BudgetExceededError, ModelError, WebSearchError
from ipy_websearch.interception.interceptor import WebSearchInterceptor
from ipy_websearch.model.upstream import Answered, Asked, Upstream
from ipy_websearch.proxy.bodies import MAX_BYTES, json_in, readable, unread
from ipy_websearch.proxy.callers import may_ask
from ipy_websearch.text import plain, shorten

PIECE_S = 60.0
"""Seconds in which the next piece of a request's body must come."""

CLIENT_GONE = 499
"""The status that is answered to nobody, as nginx has it."""


class _Refused(Exception):
    """A request that is not passed on, and the answer to it."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.response = error(status, kind, message, headers)


def build_app(upstream: str, interceptor: WebSearchInterceptor, *, local_only: bool = True) -> ASGIApp:
    """Return the application in front of the server at `upstream`.

    Web pages of other machines are refused: one in a browser could otherwise use the model behind the proxy. `local_only`
    refuses also what was sent to another name than this machine's.

    Raises:
        ConfigError: `upstream` is no http or https address.
    """
    server = Upstream(upstream, interceptor)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await server.aclose()
        await interceptor.session.aclose()
        interceptor.session.ledger.write_held()

    starting = Starlette(lifespan=lifespan)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await starting(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        else:
            response = await _answer(server, Request(scope, receive), local_only)
            await response(scope, receive, send)

    return application


async def _answer(server: Upstream, request: Request, local_only: bool) -> Response:
    stack = AsyncExitStack()
    try:
        path = _path(request, server, local_only)
        if server.reads(request.method, path):
            asked = _read(request, path, await _body(request))
            answered = await _while_here(request, stack.enter_async_context(server.answer(asked)))
        else:
            answered = await stack.enter_async_context(server.answer(_asked(request, path, _pieces(request))))
    except ClientDisconnect:
        return Response(status_code=CLIENT_GONE)
    except _Refused as exc:
        return exc.response
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


# --- what is asked --------------------------------------------------------------------------------------------------


def _path(request: Request, server: Upstream, local_only: bool) -> str:
    """Return the path as it was written: what is escaped in it stays escaped.

    Raises:
        _Refused: the caller may not ask, or not for that.
    """
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    path, authority = bytes(raw).partition(b"?")[0].decode("latin-1"), None
    if path.lower().startswith(("http://", "https://")):  # the form that a request to a proxy has
        found = urlsplit(path)
        path, authority = f"/{path.split('/', 3)[3]}" if path.count("/") > 2 else "/", found.netloc
    if not may_ask(request.headers, authority, local_only=local_only):
        raise _Refused(403, "permission_error", "this proxy answers programs on this machine only")
    if not path.startswith("/") or not server.holds(path):
        raise _Refused(400, "invalid_request_error", "the path is none below the upstream server's own")
    return path


def _asked(request: Request, path: str, content: bytes | AsyncIterator[bytes], body: Any = None) -> Asked:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
    return Asked(request.method, path, request.scope["query_string"].decode("latin-1"), headers, content, body)


def _read(request: Request, path: str, content: bytes) -> Asked:
    encoding = ",".join(request.headers.getlist("content-encoding"))
    if content and (unknown := unread(encoding)):
        known = ", ".join(readable())
        more = {"br": ", or pip install 'brotli>=1.2'", "zstd": ", or pip install backports.zstd"}.get(unknown, "")
        said = f"the proxy cannot read a body in the encoding {unknown!r}; send it plain, or as one of: {known}{more}"
        raise _Refused(415, "invalid_request_error", said, {"accept-encoding": known})
    return _asked(request, path, content, json_in(content, encoding))


async def _body(request: Request) -> bytes:
    """Return a body that is held whole.

    Raises:
        _Refused: it is too large.
    """
    too_large = _Refused(413, "request_too_large", f"the proxy takes requests of at most {MAX_BYTES // 2**20} MB")
    if int(request.headers.get("content-length") or 0) > MAX_BYTES:
        raise too_large
    found, size = [], 0
    async for piece in _pieces(request):
        found.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise too_large
    return b"".join(found)


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    """Give a body as it comes.

    Raises:
        _Refused: the rest does not come.
    """
    pieces = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(PIECE_S):
                piece = await anext(pieces, None)
        except TimeoutError:
            said = f"no more of the request's body came within {PIECE_S:.0f} seconds"
            raise _Refused(408, "invalid_request_error", said, {"connection": "close"}) from None
        if piece is None:
            return
        yield piece


# --- what is answered -----------------------------------------------------------------------------------------------


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
        """Send the answer. One that breaks off is left without its end, so that the connection breaks off too."""
        async with self._stack:
            with suppress(ModelError):
                await super().__call__(scope, receive, send)


def error(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error in the form of the Messages API."""
    return JSONResponse({"type": "error", "error": {"type": kind, "message": message}}, status_code=status, headers=headers)
