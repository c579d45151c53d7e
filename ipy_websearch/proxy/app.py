"""The proxy's application: every path goes on to the server behind it, requests that want the web through the interception.

A request that is to be looked at must be readable here: one in an encoding that is not (br or zstd without their packages) is
refused with 415 and the encodings that are, since a search that silently does not happen is worse. No body is held that is
larger than `bodies.MAX_BYTES`, and none is waited for longer than `PIECE_S` from piece to piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ipy_websearch.errors import BudgetExceededError, ModelError, WebSearchError
from ipy_websearch.interception.interceptor import WebSearchInterceptor
from ipy_websearch.model.upstream import Asked, Upstream
from ipy_websearch.model.upstream_headers import read_headers
from ipy_websearch.proxy.bodies import MAX_BYTES, json_in, readable, unread
from ipy_websearch.proxy.callers import may_ask
from ipy_websearch.proxy.passing import CLIENT_GONE, Answers, Passing, error, while_here
from ipy_websearch.text import plain, shorten

PIECE_S = 60.0
"""Seconds in which the next piece of a request's body must come."""


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
    answers = Answers()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await answers.ended()
        await server.aclose()
        await interceptor.session.aclose()

    starting = Starlette(lifespan=lifespan)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await starting(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        else:
            with answers.one():
                response = await _answer(server, Request(scope, receive), local_only)
                await response(scope, receive, send)

    return application


async def _answer(server: Upstream, request: Request, local_only: bool) -> Response:
    stack, run = AsyncExitStack(), None
    try:
        path, read = _path(request, server, local_only), asyncio.Event()
        if server.reads(request.method, path):
            asked = _read(request, path, await _body(request, read))
        else:
            asked = _asked(request, path, _pieces(request, read))
        run = server.begin(asked)
        return Passing(await while_here(request, read, stack.enter_async_context(server.answer(asked, run))), stack)
    except (Exception, asyncio.CancelledError) as exc:
        await stack.aclose()
        return _told(exc, final=run is not None and run.begun)


def _told(exc: BaseException, *, final: bool) -> Response:
    """Return what the client is told of an error; `final` says that it must not ask again: it would pay again."""
    again = {"x-should-retry": "false"} if final else {}
    match exc:
        case ClientDisconnect():
            return Response(status_code=CLIENT_GONE)
        case asyncio.CancelledError():  # only the server's end does that
            return error(503, "api_error", "the proxy is being stopped", {"x-should-retry": "false", "connection": "close"})
        case _Refused():
            return exc.response
        case BudgetExceededError():
            return error(402, "billing_error", str(exc), again)
        case ModelError():
            return error(502, "api_error", str(exc), again)
        case WebSearchError():
            return error(400, "invalid_request_error", str(exc), again)
        case _:  # what a plug-in raises becomes an answer that the client understands
            said = f"the request could not be answered ({type(exc).__name__}: {shorten(plain(str(exc)), 200)})"
            return error(502, "api_error", said, again)


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
    query = request.scope["query_string"].decode("latin-1")
    return Asked(request.method, path, query, read_headers(request.headers.raw), content, body)


def _read(request: Request, path: str, content: bytes) -> Asked:
    encoding = ",".join(request.headers.getlist("content-encoding"))
    if content and (unknown := unread(encoding)):
        known = ", ".join(readable())
        more = {"br": ", or pip install 'brotli>=1.2'", "zstd": ", or pip install backports.zstd"}.get(unknown, "")
        said = f"the proxy cannot read a body in the encoding {unknown!r}; send it plain, or as one of: {known}{more}"
        raise _Refused(415, "invalid_request_error", said, {"accept-encoding": known})
    return _asked(request, path, content, json_in(content, encoding))


async def _body(request: Request, read: asyncio.Event) -> bytes:
    """Return a body that is held whole.

    Raises:
        _Refused: it is too large.
    """
    too_large = _Refused(413, "request_too_large", f"the proxy takes requests of at most {MAX_BYTES // 2**20} MB")
    if int(request.headers.get("content-length") or 0) > MAX_BYTES:
        raise too_large
    found, size = [], 0
    async for piece in _pieces(request, read):
        found.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise too_large
    return b"".join(found)


async def _pieces(request: Request, read: asyncio.Event) -> AsyncIterator[bytes]:
    """Give a body as it comes; `read` is set once all of it was given.

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
            read.set()
            return
        yield piece
