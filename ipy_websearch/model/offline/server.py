"""Serves the Messages API inside the process to the SDK's own HTTP client; nothing is sent anywhere.

A reply is a pure function of its request: search with the question, then fill the record that is offered, or quote.
Events come in the order in which the API sends them (platform.claude.com/docs/en/build-with-claude/streaming, read 2026-11).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from ipy_websearch.errors import ModelError
from ipy_websearch.model.offline.facts import fill_record
from ipy_websearch.model.offline.passages import Conversation, answer_blocks, read_conversation
from ipy_websearch.model.offline.rules import check
from ipy_websearch.tools.passages import content_words
from ipy_websearch.tools.web_fetch import likely_readings, without_addresses

QUERY_WORDS = 24
"""Words of a long question that are searched for."""

LONG_QUESTION = 300
"""Characters of a question above which its content words alone are searched for."""

_PATH = re.compile(r"(?<![\w/:.])(?:[\w-]+/)*[\w-]+\.(?:md|txt|rst|csv|json|ipynb|py|html|pdf)\b")
_PIECE = re.compile(r"\s*\S+\s*")
_PREFERRED = ("web_search", "brave_search", "web_search_brave")
_RECORDS = re.compile(r"record|answer|submit|save|extract|output|respond", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: content blocks as the Messages API has them, and why it stopped."""

    blocks: list[dict[str, Any]] = field(default_factory=list)
    stop_reason: str = "end_turn"


Replies = Callable[[Mapping[str, Any]], Reply]
"""Gives the reply to a request; a `ModelError` that it raises becomes the API's refusal with that status."""


def reply_to(request: Mapping[str, Any]) -> Reply:
    """Return the reply to a Messages API request."""
    talk = read_conversation(request.get("messages") or ())
    tools = {
        str(t["name"]): t for t in request.get("tools") or () if t.get("name") and isinstance(t.get("input_schema"), Mapping)
    }
    choice = request.get("tool_choice") or {"type": "auto"}
    wanted = str(choice.get("name", "")) if choice.get("type") == "tool" else ""
    calls = [] if choice.get("type") == "none" else _calls(talk, tools, wanted)
    if calls and choice.get("disable_parallel_tool_use"):
        calls = calls[:1]
    if calls:
        name = _digest(request)
        blocks = [
            {"type": "tool_use", "id": f"toolu_offline_{name}{n}", "name": t, "input": i} for n, (t, i) in enumerate(calls)
        ]
        return Reply(blocks, "tool_use")
    schema = ((request.get("output_config") or {}).get("format") or {}).get("schema")
    if isinstance(schema, Mapping):
        filled = fill_record(schema, talk.question, talk.sources)
        return Reply([{"type": "text", "text": json.dumps(filled, ensure_ascii=False)}])
    if any(_RECORDS.search(name) for name, _ in talk.calls):
        return Reply([{"type": "text", "text": "The record was filled from the fact lines of the results."}])
    return Reply(answer_blocks(talk, searched=bool(talk.calls)))


def _calls(talk: Conversation, tools: Mapping[str, Any], wanted: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the tool calls to make now: pages and files that the question names, else a search, else the record."""
    done = {str(value) for _, given in talk.calls for value in given.values()}
    takes = {
        p: [n for n, t in tools.items() if p in (t["input_schema"].get("properties") or {})] for p in ("query", "url", "path")
    }
    records = [name for name in tools if _RECORDS.search(name) and not any(name in names for names in takes.values())]
    addresses = [readings[0] for readings in likely_readings(talk.question) if readings]
    for parameter, given in (("url", addresses), ("path", _PATH.findall(without_addresses(talk.question)))):
        named = [found for found in dict.fromkeys(given) if found not in done]
        if named and takes[parameter] and wanted in ("", takes[parameter][0]):
            return [(takes[parameter][0], {parameter: found}) for found in named[:3]]
    searches = sorted(takes["query"], key=lambda name: _PREFERRED.index(name) if name in _PREFERRED else len(_PREFERRED))
    if searches and not talk.calls and wanted in ("", searches[0]):
        return [(searches[0], {"query": search_words(talk.query)})]
    recorded = any(name in records for name, _ in talk.calls)
    name = wanted or (records[0] if records and not recorded else "")
    if name not in tools:
        return []
    if name in takes["query"]:
        return [(name, {"query": search_words(talk.query)})]
    return [(name, fill_record(tools[name]["input_schema"], talk.question, talk.sources))]


def search_words(text: str) -> str:
    """Return what to search for: a question as it is; of a row with its questions, the words of the questions."""
    _, _, asked = text.partition("\nThe questions\n")
    lines = [line.partition(": ")[2] or line for line in asked.splitlines()] if asked else []
    if len(lines) == 1:
        return lines[0]
    if lines or len(text) > LONG_QUESTION:
        return " ".join(content_words(" ".join(lines) or text)[:QUERY_WORDS])
    return " ".join(text.split())


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
            headers = {"request-id": f"req_offline_{_digest(body)}"}
            if not body.get("stream"):
                return httpx2.Response(200, headers=headers, json=message)
            frames = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in stream_events(message))
            kind = {"content-type": "text/event-stream; charset=utf-8"}
            return httpx2.Response(200, headers={**headers, **kind}, content=b"".join(frames))
        except ModelError as exc:
            return _refused(exc.status or 500, exc.kind or "api_error", str(exc))
        except Exception as exc:
            return _refused(500, "api_error", f"the offline server failed: {type(exc).__name__}: {exc}")


def stream_events(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a whole message as the events of its stream, its text word by word."""
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        begun, deltas = dict(block), list[dict[str, Any]]()
        if block["type"] == "tool_use":
            begun["input"] = {}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        elif block["type"] == "text":
            begun |= {"text": "", **({"citations": []} if block.get("citations") else {})}
            deltas = [{"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ()]
            deltas += [{"type": "text_delta", "text": piece} for piece in _PIECE.findall(block["text"]) or [block["text"]]]
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _message(body: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    usage = {"input_tokens": _tokens(body.get("system"), body.get("messages"), body.get("tools"))}
    usage["output_tokens"] = _tokens(reply.blocks)
    head = {"id": f"msg_offline_{_digest(body)}", "type": "message", "role": "assistant", "model": body.get("model")}
    return {**head, "content": reply.blocks, "stop_reason": reply.stop_reason, "stop_sequence": None, "usage": usage}


def _tokens(*parts: Any) -> int:
    """Return a plausible number of tokens, four characters each."""
    return len(json.dumps(parts)) // 4 + 1


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=10).hexdigest()


def _refused(status: int, kind: str, text: str) -> httpx2.Response:
    error = {"type": "error", "error": {"type": kind, "message": text}}
    return httpx2.Response(status, headers={"request-id": "req_offline"}, json=error)
