"""Serves the Messages API inside the process to the SDK's own HTTP client; nothing is sent anywhere.

A reply is a pure function of its request: search with the question, then fill the record that is offered, or quote. `reply`
can be another function, as the public fakes in `testing` use it. Events come in the order in which the API sends them
(platform.claude.com/docs/en/build-with-claude/streaming, read 2026-11).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from ipy_websearch.errors import ModelError
from ipy_websearch.model.offline.facts import fill_record
from ipy_websearch.model.offline.passages import answer_blocks
from ipy_websearch.model.offline.reading import Conversation, content_words, read_conversation
from ipy_websearch.tools.addresses import likely_readings, without_addresses

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


def offline_transport(pace_s: float = 0.0, reply: Replies = reply_to) -> httpx2.AsyncBaseTransport:
    """Return a transport for `anthropic.DefaultAsyncHttpxClient(transport=…)` that answers without a network.

    `pace_s` is how many seconds pass between two pieces of a streamed reply, so that streaming can be watched.
    """
    return _Transport(pace_s, reply)


class _Transport(httpx2.AsyncBaseTransport):
    """Serves POST /v1/messages (whole and streamed), POST /v1/messages/count_tokens and GET /v1/models."""

    def __init__(self, pace_s: float, reply: Replies) -> None:
        self._pace_s = pace_s
        self._reply = reply

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path.rstrip("/")
        try:
            if request.method == "GET" and path == "/v1/models":
                return _json(200, {"data": [{"type": "model", "id": "offline", "display_name": "offline"}], "has_more": False})
            body = json.loads(await request.aread())
            if path == "/v1/messages/count_tokens":
                return _json(200, {"input_tokens": _tokens(body)})
            if path != "/v1/messages":
                return _refused(404, "not_found_error", f"{request.method} {path} is not served here")
            message = _message(body, self._reply(body))
        except ModelError as exc:
            return _refused(exc.status or 500, exc.kind or "api_error", str(exc))
        except Exception as exc:  # a fault of ours must reach the user as the model's error, not as a lost connection
            return _refused(500, "api_error", f"the offline server failed: {type(exc).__name__}: {exc}")
        if not body.get("stream"):
            return _json(200, message)
        headers = {"content-type": "text/event-stream; charset=utf-8", "request-id": message["id"].replace("msg", "req")}
        return httpx2.Response(200, headers=headers, stream=_Events(message, self._pace_s))


class _Events(httpx2.AsyncByteStream):
    def __init__(self, message: Mapping[str, Any], pace_s: float) -> None:
        self._message = message
        self._pace_s = pace_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in stream_events(self._message):
            if event["type"] == "content_block_delta" and self._pace_s > 0:
                await asyncio.sleep(self._pace_s)
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def stream_events(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a whole message as the events of its stream."""
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        opened, deltas = _opened(block)
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _opened(block: Mapping[str, Any]) -> tuple[dict[str, Any], Sequence[dict[str, Any]]]:
    """Return a block as its stream begins it, and the deltas that follow."""
    if block["type"] == "tool_use":
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    if block["type"] != "text":
        return dict(block), []
    cited = [{"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ()]
    pieces = [{"type": "text_delta", "text": piece} for piece in _PIECE.findall(block["text"]) or [block["text"]]]
    return {**block, "text": "", **({"citations": []} if cited else {})}, [*cited, *pieces]


def _message(body: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    blocks, stop, most = reply.blocks, reply.stop_reason, int(body.get("max_tokens") or 1)
    written = len(json.dumps(blocks)) // 4 + 1
    if written > most and stop == "end_turn":
        blocks, stop, written = _cut(blocks, 4 * most), "max_tokens", most
    usage = {
        "input_tokens": _tokens(body),
        "output_tokens": written,
    }
    head = {"id": f"msg_offline_{_digest(body)}", "type": "message", "role": "assistant", "model": body.get("model")}
    return {**head, "content": blocks, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def _cut(blocks: Sequence[Mapping[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return text blocks cut to about `most` characters."""
    kept: list[dict[str, Any]] = []
    for block in blocks:
        text = str(block.get("text") or "")[:most]
        most -= len(text)
        kept += [{**block, "text": text}] if text.strip() else []
    return kept


def _tokens(body: Mapping[str, Any]) -> int:
    """Return a plausible number of input tokens, four characters each."""
    return len(json.dumps([body.get(name) for name in ("system", "messages", "tools")])) // 4 + 1


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=10).hexdigest()


def _json(status: int, value: Mapping[str, Any]) -> httpx2.Response:
    return httpx2.Response(status, headers={"request-id": "req_offline"}, json=value)


def _refused(status: int, kind: str, text: str) -> httpx2.Response:
    return _json(status, {"type": "error", "error": {"type": kind, "message": text}})
