"""The proxy's application: every path goes on to the server behind it, requests that want the web through the interception."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ipy_websearch.errors import BudgetExceededError, WebSearchError
from ipy_websearch.interception.interceptor import WebSearchInterceptor
from ipy_websearch.model.upstream import Upstream
from ipy_websearch.text import plain, shorten

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def build_app(upstream: str, interceptor: WebSearchInterceptor, *, local_only: bool = True) -> Starlette:
    """Return the application in front of the server at `upstream`.

    `local_only` refuses requests that were sent to another name than this machine's, or by a web page: a page in a browser
    could otherwise use the model behind the proxy.

    Raises:
        ConfigError: `upstream` is no http or https address.
    """
    server = Upstream(upstream, interceptor)

    async def answer(request: Request) -> Response:
        if local_only and not _is_local(request):
            return error(403, "permission_error", "this proxy answers programs on this machine only")
        return await _answer(server, request)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await server.aclose()
        await interceptor.session.aclose()

    return Starlette(routes=[Route("/{path:path}", answer, methods=METHODS)], lifespan=lifespan)


async def _answer(server: Upstream, request: Request) -> Response:
    content = await request.body()
    stack = AsyncExitStack()
    try:
        answered = await stack.enter_async_context(
            server.answer(
                request.method,
                request.url.path,
                request.url.query,
                [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw],
                content,
                _json(content) if request.method == "POST" else None,
            )
        )
    except BudgetExceededError as exc:
        return error(402, "billing_error", str(exc))
    except WebSearchError as exc:
        return error(400, "invalid_request_error", str(exc))
    except Exception as exc:  # what the connection or a plug-in raises becomes an answer that the client understands
        kind = type(exc).__name__
        return error(502, "api_error", f"the upstream server could not be asked ({kind}: {shorten(plain(str(exc)), 200)})")

    async def body() -> AsyncIterator[bytes]:
        async with stack:
            async for chunk in answered.body:
                yield chunk

    response = StreamingResponse(body(), status_code=answered.status)
    response.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answered.headers]
    return response


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


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None
