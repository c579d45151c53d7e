"""The offline model's transport: the Messages API, served inside the process to the anthropic SDK's own HTTP client.

The SDK cannot tell it from the network: requests are checked, replies come as JSON or as a stream of server-sent events, and
refusals have the API's status codes and bodies. Nothing is sent anywhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx2

from ipy_websearch.errors import ModelError
from ipy_websearch.model.offline import wire
from ipy_websearch.model.offline.brain import Reply, reply_to
from ipy_websearch.model.offline.checks import check_request
from ipy_websearch.model.offline.tool_checks import Refused

MODEL = {
    "type": "model",
    "id": "offline",
    "display_name": "Offline model: quotes search results",
    "created_at": "2026-11-01T00:00:00Z",
    "lifecycle": "active",
    "max_input_tokens": 1_000_000,
    "max_tokens": 16_000,
}


Replies = Callable[[Mapping[str, Any]], Reply]
"""Gives the reply to a valid request; a `ModelError` that it raises becomes the API's refusal with that status."""


def offline_transport(pace_s: float = 0.0, reply: Replies = reply_to) -> httpx2.AsyncBaseTransport:
    """Return a transport for `anthropic.DefaultAsyncHttpxClient(transport=…)` that answers without a network.

    `pace_s` is how many seconds pass between two pieces of a streamed reply, so that streaming can be watched.
    """
    return OfflineTransport(pace_s=pace_s, reply=reply)


class OfflineTransport(httpx2.AsyncBaseTransport):
    """Serves POST /v1/messages (JSON and streaming), POST /v1/messages/count_tokens and GET /v1/models."""

    def __init__(self, *, pace_s: float = 0.0, reply: Replies = reply_to) -> None:
        self.pace_s = pace_s
        self._reply = reply

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the API's response to a request; a wrong request gets the API's refusal."""
        content = await request.aread()
        name = "req_offline_" + hashlib.blake2b(content, digest_size=8).hexdigest()
        headers = {"request-id": name}
        try:
            return self._serve(request.method, request.url.path.rstrip("/"), content, headers)
        except Refused as exc:
            return _json(400, wire.error("invalid_request_error", str(exc), name), headers)
        except ModelError as exc:
            return _json(exc.status or 500, wire.error(exc.kind or "api_error", str(exc), name), headers)
        except Exception as exc:  # a fault of ours must reach the user as an error of the model, not as a lost connection
            return _json(500, wire.error("api_error", f"the offline model failed: {type(exc).__name__}: {exc}", name), headers)

    def _serve(self, method: str, path: str, content: bytes, headers: Mapping[str, str]) -> httpx2.Response:
        match method, path:
            case "POST", "/v1/messages":
                return self._message(_read(content), headers)
            case "POST", "/v1/messages/count_tokens":
                body = _read(content)
                check_request(body, counting=True)
                return _json(200, {"input_tokens": wire.input_tokens(body)}, headers)
            case "GET", "/v1/models":
                listing = {"data": [MODEL], "has_more": False, "first_id": MODEL["id"], "last_id": MODEL["id"]}
                return _json(200, listing, headers)
            case "GET", _ if path == f"/v1/models/{MODEL['id']}":
                return _json(200, MODEL, headers)
            case _:
                refusal = wire.error(
                    "not_found_error", f"{method} {path} is not served by the offline model", headers["request-id"]
                )
                return _json(404, refusal, headers)

    def _message(self, body: Any, headers: Mapping[str, str]) -> httpx2.Response:
        check_request(body)
        whole = wire.message(body, wire.within(self._reply(body), body["max_tokens"]))
        if not body.get("stream"):
            return _json(200, whole, headers)
        stream = _Events(whole, self.pace_s)
        return httpx2.Response(200, headers={**headers, "content-type": "text/event-stream; charset=utf-8"}, stream=stream)


class _Events(httpx2.AsyncByteStream):
    """A message as server-sent events, one piece at a time."""

    def __init__(self, whole: Mapping[str, Any], pace_s: float) -> None:
        self._whole = whole
        self._pace_s = pace_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in wire.events(self._whole):
            if event["type"] == "content_block_delta" and self._pace_s > 0:
                await asyncio.sleep(self._pace_s)
            yield wire.as_sse(event)


def _json(status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> httpx2.Response:
    content = json.dumps(body, ensure_ascii=False).encode()
    return httpx2.Response(status, headers={**headers, "content-type": "application/json"}, content=content)


def _read(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as exc:
        raise Refused(f"The request body is not valid JSON: {exc}") from None
