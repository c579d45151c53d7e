"""What the fake Messages API sends back: messages as streams, broken ones too, errors, headers, model descriptions."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from tests.fakes import sse
from tests.fakes.rendering import Ready
from tests.fakes.replies import Failure, new_id

MAX_OUTPUT_TOKENS = 128_000


async def stream(request: web.Request, ready: Ready, headers: dict[str, str]) -> web.StreamResponse:
    """Send a message piece by piece, and break off where the reply says so."""
    manner = ready.manner
    response = web.StreamResponse(headers=headers | {"content-type": "text/event-stream; charset=utf-8"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    if ready.stream is not None and not manner.is_cut and not manner.piece_delay_s:
        await response.write(ready.stream.encode())
        return response
    waiting, sent = b"", 0
    for name, data in ready.events():
        if sent >= manner.cut_after:
            break
        waiting += sse.encode(name, data)
        sent += sse.is_piece(data)
        if manner.piece_delay_s and sse.is_piece(data):
            await response.write(waiting)
            waiting = b""
            await asyncio.sleep(manner.piece_delay_s)
    if manner.error is not None:
        waiting += sse.encode("error", {"type": "error", "error": manner.error, "request_id": new_id("req")})
    await response.write(waiting)
    if manner.breaks:
        await asyncio.sleep(0.01)
        return cut(request, response)
    return response


def cut(request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    """Close the connection under the client's feet."""
    if request.transport is not None:
        request.transport.abort()
    return response or web.Response()


def request_headers(request: web.Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def answer_headers() -> dict[str, str]:
    return {
        "request-id": new_id("req"),
        "anthropic-organization-id": "00000000-0000-4000-8000-000000000000",
        "anthropic-ratelimit-requests-limit": "4000",
        "anthropic-ratelimit-requests-remaining": "3999",
        "anthropic-ratelimit-requests-reset": "2026-11-20T10:00:00Z",
    }


def error_answer(status: int, kind: str, message: str) -> web.Response:
    return failure_answer(Failure(status, {"type": "error", "error": {"type": kind, "message": message}}))


def failure_answer(failure: Failure) -> web.Response:
    headers = {"request-id": new_id("req")} | failure.headers
    if isinstance(failure.body, str):
        return web.Response(text=failure.body, status=failure.status, headers=headers)
    body = failure.body if "request_id" in failure.body else failure.body | {"request_id": headers["request-id"]}
    return web.json_response(body, status=failure.status, headers=headers)


def model_info(name: str, context: int) -> dict[str, Any]:
    """Return a model as the models endpoint describes it."""
    supported = {"supported": True}
    return {
        "type": "model",
        "id": name,
        "display_name": name.replace("-", " ").title(),
        "created_at": "2026-10-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": context,
        "max_tokens": MAX_OUTPUT_TOKENS,
        "capabilities": {
            "batch": supported,
            "citations": supported,
            "structured_outputs": supported,
            "server_tools": {"supported": True, "web_search": supported, "code_execution": supported},
        },
    }
