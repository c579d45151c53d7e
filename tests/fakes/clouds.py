"""The Messages API as Bedrock, Vertex and Foundry serve it: other paths, a model in the address, Bedrock's binary streams.

What a cloud lacks is refused as the cloud refuses it: no cloud here runs tools of its own but Vertex, which has its first
search. Sources: the SDK's own modules (2.11, `lib/bedrock`, `lib/vertex`, `lib/foundry`), the AWS event stream encoding
(smithy.io, "Amazon Event Stream Specification"), and a recorded refusal of Bedrock's, read 2026-11.
"""

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from ipy_websearch.errors import ModelError
from tests.fakes.examination import NEWEST, refuse
from tests.fakes.messages_api import MessagesAPI
from tests.fakes.rendering import answer_headers, error_answer, request_headers
from tests.fakes.server import Handler, Received

VERSIONS = ("bedrock-2023-05-31", "vertex-2023-10-16", NEWEST)
VERTEX_TOOL = "web_search_20250305"
ACCESS_KEY, SECRET_KEY, REGION = "AKIAFAKEOFTHETESTS", "secret-of-the-tests", "us-east-1"


class Clouds(MessagesAPI):
    """The fake; `signatures` are those of the requests to Bedrock, which the SDK signs, `betas` what they name.

    The next streams of Bedrock's are what stands in `broken` instead of their answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.betas: list[Any] = []
        self.signatures: list[str] = []
        self.broken: list[bytes] = []

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve the three clouds' addresses."""
        return [
            ("POST", "/model/{model}/{verb}", self._bedrock),
            ("POST", "/v1/projects/p/locations/us-east5/publishers/anthropic/models/{model}:{verb}", self._vertex),
            ("POST", "/anthropic/v1/messages", self._foundry),
        ]

    async def _bedrock(self, request: web.Request) -> web.StreamResponse:
        self.signatures.append(request.headers["Authorization"].partition("Signature=")[2])
        body = await request.json()
        self.betas.append(body.pop("anthropic_beta", None))
        streams = {"invoke": False, "invoke-with-response-stream": True}[request.match_info["verb"]]
        return await self._cloud(request, body, streams, tools=())

    async def _vertex(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        streams = {"rawPredict": False, "streamRawPredict": True}[request.match_info["verb"]]
        if bool(body.pop("stream", False)) is not streams:
            return error_answer(400, "invalid_request_error", "stream does not go with the method")
        return await self._cloud(request, body, streams, tools=(VERTEX_TOOL,))

    async def _foundry(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        return await self._cloud(request, body, bool(body.pop("stream", False)), tools=())

    async def _cloud(self, request: web.Request, body: Any, streams: bool, tools: tuple[str, ...]) -> web.StreamResponse:
        received = Received("POST", request.path, dict(request.query), request_headers(request), body)
        self.requests.append(received)
        try:
            _translate(request, body)
            for n, tool in enumerate(body.get("tools") or ()):
                if tool.get("type", "custom") not in ("custom", *tools):
                    refuse(f"tools.{n}: Input tag '{tool['type']}' found using 'type' does not match any of the expected tags")
            self._examine({**body, "stream": streams}, NEWEST)
        except ModelError as refused:
            received.refusal, received.status = str(refused), refused.status
            return error_answer(refused.status or 500, refused.kind, str(refused))
        ready = self._next(received)
        if not streams or ready.failure is not None or "invoke" not in request.match_info.get("verb", ""):
            received.body = {**body, "stream": streams}
            return await self._send(request, received, ready)
        self._finish(received, ready)
        response = web.StreamResponse(headers={**answer_headers(), "content-type": "application/vnd.amazon.eventstream"})
        await response.prepare(request)
        if self.broken:
            await response.write(self.broken.pop(0))
            return response
        for _, data in ready.events():
            await response.write(aws_frame(data))
        return response


def _translate(request: web.Request, body: dict[str, Any]) -> None:
    """Turn a cloud's body into the API's own: the version stands in it, the model in the address."""
    version = body.pop("anthropic_version", None) or request.headers.get("anthropic-version")
    if version not in VERSIONS:
        refuse(f"anthropic_version: {version!r} is not a valid version")
    if "model" in request.match_info:
        if "model" in body or ("verb" in request.match_info and "stream" in body):
            refuse("model, stream: Extra inputs are not permitted")
        body["model"] = unquote(request.match_info["model"])


def aws_frame(event: Mapping[str, Any]) -> bytes:
    """Return an event as Bedrock sends it: a binary frame around base64."""
    return _frame("event", "chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode()})


def aws_error(name: str, message: str) -> bytes:
    """Return the frame with which Bedrock ends a stream that failed."""
    return _frame("exception", name, {"message": message})


def _frame(kind: str, named: str, content: Mapping[str, Any]) -> bytes:
    payload, headers = json.dumps(content).encode(), b""
    for name, value in ((f":{kind}-type", named), (":content-type", "application/json"), (":message-type", kind)):
        headers += bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    head = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return head + struct.pack(">I", zlib.crc32(head))
