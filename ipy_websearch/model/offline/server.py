"""Serves the Messages API inside the process to the SDK's own HTTP client; nothing is sent anywhere.

A reply is a pure function of its request: search with the question, then fill the record that is offered, or quote.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from ipy_websearch.errors import ModelError
from ipy_websearch.model.client import message_events
from ipy_websearch.model.offline.facts import fill_record
from ipy_websearch.model.offline.passages import Conversation, answer_blocks, read_conversation
from ipy_websearch.model.offline.rules import check
from ipy_websearch.providers.passages import content_words

# Words of a row's questions that are searched for.
QUERY_WORDS = 24

_RECORDS = re.compile(r"record|answer|submit|save|extract|output|respond", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: content blocks as the Messages API has them, and why it stopped."""

    blocks: list[dict[str, Any]] = field(default_factory=list)
    stop_reason: str = "end_turn"


# Gives the reply to a request; a `ModelError` that it raises becomes the API's refusal with that status.
Replies = Callable[[Mapping[str, Any]], Reply]


def reply_to(request: Mapping[str, Any]) -> Reply:
    """Return the reply to a Messages API request."""
    talk = read_conversation(request.get("messages") or ())
    schemas = {str(tool["name"]): tool["input_schema"] for tool in request.get("tools") or () if "input_schema" in tool}
    choice = request.get("tool_choice") or {}
    call = None if choice.get("type") == "none" else _call(talk, schemas, str(choice.get("name") or ""))
    if call is None:
        return Reply(answer_blocks(talk))
    name, values = call
    return Reply([{"type": "tool_use", "id": f"toolu_offline_{_digest(request)}0", "name": name, "input": values}], "tool_use")


def _call(talk: Conversation, schemas: Mapping[str, Any], wanted: str) -> tuple[str, dict[str, Any]] | None:
    """Return the tool call to make now: a search, then the record.

    `wanted` is the tool that the model has to call, "" when it may choose.
    """
    offered = {name: schema.get("properties") or {} for name, schema in schemas.items() if wanted in ("", name)}
    searchers = [name for name, takes in offered.items() if "query" in takes]
    if searchers and (wanted or not talk.calls):
        return searchers[0], {"query": search_words(talk.query)}
    used = {*talk.calls, *searchers}
    for name in offered:
        if wanted or (_RECORDS.search(name) and name not in used):
            return name, fill_record(schemas[name], talk.question, talk.sources)
    return None


def search_words(text: str) -> str:
    """Return what to search for: a question as it is; of a row with its questions, the words of the questions."""
    _, _, asked = text.partition("\nThe questions\n")
    lines = [line.partition(": ")[2] or line for line in asked.splitlines()] or [" ".join(text.split())]
    return lines[0] if len(lines) == 1 else " ".join(content_words(" ".join(lines))[:QUERY_WORDS])


class OfflineTransport(httpx2.AsyncBaseTransport):
    """Serves POST /v1/messages, whole and streamed, to `anthropic.DefaultAsyncHttpxClient(transport=…)`.

    `reply` can be another function, as the public fakes in `testing` use it.
    """

    def __init__(self, reply: Replies = reply_to) -> None:
        self._reply = reply

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer to a request."""
        return self.respond(request.url.path, await request.aread())

    def respond(self, path: str, content: bytes) -> httpx2.Response:
        """Return the answer to what was posted; a fault of ours is an error of the model, not a lost connection."""
        if path.rstrip("/") != "/v1/messages":
            return _refused(404, "not_found_error", f"{path} is not served here")
        try:
            body = json.loads(content)
            check(body)
            message = _message(body, self._reply(body))
        except ModelError as exc:
            return _refused(exc.status or 500, exc.kind or "api_error", str(exc))
        except Exception as exc:
            return _refused(500, "api_error", f"the offline server failed: {type(exc).__name__}: {exc}")
        headers = {"request-id": f"req_offline_{_digest(body)}"}
        if not body.get("stream"):
            return httpx2.Response(200, headers=headers, json=message)
        frames = b"".join(
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in message_events(message)
        )
        return httpx2.Response(200, headers={**headers, "content-type": "text/event-stream; charset=utf-8"}, content=frames)


def _message(body: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    """Return the reply as a message; four characters count as a token."""
    read = json.dumps([body.get("system"), body.get("messages"), body.get("tools")])
    usage = {"input_tokens": len(read) // 4 + 1, "output_tokens": len(json.dumps(reply.blocks)) // 4 + 1}
    head = {"id": f"msg_offline_{_digest(body)}", "type": "message", "role": "assistant", "model": body.get("model")}
    return {**head, "content": reply.blocks, "stop_reason": reply.stop_reason, "stop_sequence": None, "usage": usage}


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=10).hexdigest()


def _refused(status: int, kind: str, text: str) -> httpx2.Response:
    error = {"type": "error", "error": {"type": kind, "message": text}}
    return httpx2.Response(status, headers={"request-id": "req_offline"}, json=error)
