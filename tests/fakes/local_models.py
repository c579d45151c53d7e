"""A strict server of an open model that speaks the Messages API as Ollama, vLLM and llama.cpp do: text, and perhaps tools.

It refuses what none of them takes (`search_result` and `document` blocks, as vLLM does), and with `tools` "refused" also tools,
in Ollama's words. "ignored" tools are taken and never called. `formats` says whether `output_config.format` is known; where it
is not, a request with one is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from aiohttp import web

from tests.fakes import sse
from tests.fakes.server import Handler, Server, receive

BLOCKS = {"text", "tool_use", "tool_result", "thinking"}


class LocalModels(Server):
    """The fake; `replies` are texts, or blocks of a reply, in the order of the requests that are not refused."""

    def __init__(self, tools: Literal["refused", "ignored", "called"] = "refused", *, formats: bool = True) -> None:
        super().__init__()
        self.tools, self.formats = tools, formats
        self.replies: deque[str | dict[str, Any]] = deque()
        self.behave: Callable[[dict[str, Any]], str] | None = None

    def routes(self) -> list[tuple[str, str, Handler]]:
        return [("POST", "/v1/messages", self._messages)]

    @property
    def bodies(self) -> list[Any]:
        """The requests that were answered."""
        return [request.body for request in self.requests if request.refusal is None]

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        received = await receive(request)
        self.requests.append(received)
        body = received.body
        if said := self._refusal(body):
            received.refusal = said
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
            return web.json_response(error, status=400)
        reply = self.replies.popleft() if self.replies or self.behave is None else self.behave(body)
        block = {"type": "text", "text": reply} if isinstance(reply, str) else reply
        message = {
            "id": f"msg_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [block],
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 50, "output_tokens": 10},
        }
        if not body.get("stream"):
            return web.json_response(message)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for name, data in sse.events(message):
            await response.write(sse.encode(name, data))
        return response

    def _refusal(self, body: dict[str, Any]) -> str:
        if body.get("tools") and self.tools == "refused":
            return f"registry.ollama.ai/library/{body['model']} does not support tools"
        if "output_config" in body and not self.formats:
            return "output_config: Extra inputs are not permitted"
        for message in body["messages"]:
            content = message["content"] if isinstance(message["content"], list) else []
            inner = [part for block in content if block["type"] == "tool_result" for part in block.get("content", ())]
            if wrong := {block["type"] for block in [*content, *inner]} - BLOCKS:
                return f"Input should be one of {sorted(BLOCKS)}, not {sorted(wrong)}"
        return ""


def words_of(body: dict[str, Any]) -> str:
    """Return all text that a request's messages hold."""
    return "\n".join(block.get("text", "") for message in body["messages"] for block in message["content"])
