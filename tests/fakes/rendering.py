"""Makes the message that a scripted reply stands for, as the API would, and plays its prompt cache.

Ids, stop reason and the cut at `max_tokens` are the API's.
A token is four characters of JSON. A breakpoint (`cache_control`) stores the hash of everything before it; a later
request reads the longest stored prefix found at its breakpoints or at most 19 blocks before one. Prefixes below
`MINIMUM` tokens are not stored.
"""

import asyncio
import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from aiohttp import web

from tests.fakes import sse
from tests.fakes.replies import Content, Failure, Manner, Part, Recording, new_id, text

LOOKBACK = 20
MINIMUM = 1024
CHARACTERS_A_TOKEN = 4


class Block(NamedTuple):
    """One block of the prompt: the tokens and the hash of the prefix that ends with it, and whether it is a breakpoint."""

    tokens: int
    digest: int
    is_mark: bool


def count_tokens(text: str) -> int:
    """Return the tokens of a text, at least 1 when there is anything."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


def prefixes(body: dict[str, Any]) -> list[Block]:
    """Return the prompt's blocks in the order tools, system, messages, each with the prefix it ends."""
    found: list[Block] = []
    digest, characters = hash(body.get("model")), 0
    for seed, block in _blocks(body):
        text = json.dumps(_without_marks(block), ensure_ascii=False)
        digest = hash((digest, seed, text))
        characters += len(text)
        found.append(Block(-(-characters // CHARACTERS_A_TOKEN), digest, '"cache_control": {' in json.dumps(block)))
    if found and body.get("cache_control"):
        found[-1] = found[-1]._replace(is_mark=True)
    return found


def _blocks(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (what invalidates the block besides its text, block)."""
    for tool in body.get("tools") or []:
        yield "tool", tool
    settings = json.dumps([body.get("tool_choice"), body.get("thinking")], sort_keys=True)
    messages = ((message["role"] + settings, message["content"]) for message in body["messages"])
    for seed, content in (("system", body.get("system") or []), *messages):
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield seed, block


def _without_marks(part: Any) -> Any:
    if isinstance(part, dict):
        return {k: _without_marks(v) for k, v in part.items() if k != "cache_control" and v is not None}
    return [_without_marks(v) for v in part] if isinstance(part, list) else part


@dataclass(slots=True)
class PromptCache:
    """The cache of one fake: the hashes of the prefixes that were stored. Nothing expires."""

    stored: set[int] = field(default_factory=set)

    def charge(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the input side of a request's `usage`, and store what the request writes."""
        blocks = prefixes(body)
        marks = [number for number, block in enumerate(blocks) if block.is_mark]
        near = [block for mark in marks for block in blocks[max(mark - LOOKBACK + 1, 0) : mark + 1]]
        read = max((block.tokens for block in near if block.digest in self.stored), default=0)
        new = [blocks[mark] for mark in marks if blocks[mark].tokens >= MINIMUM]
        self.stored.update(block.digest for block in new)
        reached = max([read, *(block.tokens for block in new)])
        return {
            "input_tokens": blocks[-1].tokens - reached,
            "cache_creation_input_tokens": reached - read,
            "cache_read_input_tokens": read,
            "cache_creation": {"ephemeral_5m_input_tokens": reached - read, "ephemeral_1h_input_tokens": 0},
        }


@dataclass(slots=True)
class Ready:
    """A reply that can be sent: a failure, or a message (with the stream it was recorded as)."""

    manner: Manner
    message: dict[str, Any] = field(default_factory=dict)
    failure: Failure | None = None
    stream: str | None = None
    recorded: bool = False
    problems: list[str] = field(default_factory=list)

    def events(self) -> Iterator[sse.Event]:
        """Yield the stream's events."""
        return iter(sse.decode(self.stream)) if self.stream is not None else sse.events(self.message)


def render(parts: Sequence[Part], request: dict[str, Any]) -> Ready:
    """Return the reply that these parts make for this request."""
    contents, manner = _sort(parts)
    match contents:
        case [Failure() as failure, *_]:
            return Ready(manner, failure=failure)
        case [Recording(message, stream), *_]:
            return Ready(manner, copy.deepcopy(message), stream=stream, recorded=True)
    message = _message(contents, manner, request)
    return Ready(manner, message, problems=_script_errors(message, request))


def _sort(parts: Sequence[Part]) -> tuple[list[Any], Manner]:
    """Return the parts that are content, and one Manner out of all that are not."""
    manner = Manner()
    for part in parts:
        if isinstance(part, Manner):
            given = {f.name: value for f in fields(Manner) if (value := getattr(part, f.name)) != f.default}
            given |= {name: getattr(manner, name) | getattr(part, name) for name in ("headers", "extra")}
            manner = replace(manner, **given)
    return [_content(part) for part in parts if not isinstance(part, Manner)], manner


def _content(part: Any) -> Any:
    if isinstance(part, str):
        return text(part)
    return Content(lambda _: [copy.deepcopy(part)]) if isinstance(part, dict) else part


def _message(contents: list[Content], manner: Manner, request: dict[str, Any]) -> dict[str, Any]:
    blocks = [block for part in contents for block in part.make(request)]
    implied = [part.stop_reason for part in contents if part.stop_reason]
    reason = "tool_use" if "tool_use" in implied else implied[-1] if implied else "end_turn"
    blocks, was_cut = _fit(blocks, request["max_tokens"])
    counts: dict[str, Any] = {"output_tokens": sum(map(_tokens, blocks))}
    if any(block["type"] == "server_tool_use" for block in blocks):
        used = {f"{tool}_requests": sum(_succeeded(block, tool) for block in blocks) for tool in ("web_search", "web_fetch")}
        counts["server_tool_use"] = used
    return {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": blocks,
        "stop_reason": manner.stop_reason or ("max_tokens" if was_cut else reason),
        "stop_sequence": None,
        "stop_details": None,
        "usage": {**counts, "service_tier": "standard", "inference_geo": "not_available", **(manner.usage or {})},
    } | manner.extra


def _succeeded(block: dict[str, Any], tool: str) -> bool:
    """Return True for a result block of a server tool that is no error; failed searches are not billed."""
    failed = isinstance(block.get("content"), dict) and block["content"]["type"].endswith("_error")
    return block["type"] == f"{tool}_tool_result" and not failed


def _tokens(block: dict[str, Any]) -> int:
    """Return the tokens of a block as output; what server tools found is input."""
    match block["type"]:
        case "text" | "thinking":
            return count_tokens(block[block["type"]])
        case "tool_use" | "server_tool_use":
            return count_tokens(block.get("_partial_json") or block["name"] + json.dumps(block["input"], ensure_ascii=False))
        case _:
            return 0


def _fit(blocks: list[dict[str, Any]], max_tokens: int) -> tuple[list[dict[str, Any]], bool]:
    """Return the blocks cut at `max_tokens`, and whether they were cut; a cut call keeps part of its JSON."""
    if not max_tokens:
        return [], True
    left, kept = max_tokens, []
    for block in blocks:
        if _tokens(block) <= left:
            kept.append(block)
            left -= _tokens(block)
            continue
        room = left * CHARACTERS_A_TOKEN
        if block["type"] in ("text", "thinking"):
            kept += [block | {block["type"]: block[block["type"]][:room]}] if room else []
        else:
            part = json.dumps(block["input"], ensure_ascii=False)[: max(room - len(block["name"]), 0)]
            kept.append(block | {"input": {}, "_partial_json": part})
        return kept, True
    return kept, False


def _script_errors(message: dict[str, Any], request: dict[str, Any]) -> list[str]:
    """Return what a real model could not have answered to this request: the test's script is wrong then."""
    choice = (request.get("tool_choice") or {}).get("type", "auto")
    calls = [block["name"] for block in message["content"] if block["type"] == "tool_use"]
    if calls and (choice == "none" or not request.get("tools")):
        return [f"the script calls {calls}, which the request does not allow"]
    if not calls and choice in ("any", "tool") and message["stop_reason"] not in ("refusal", "max_tokens", "pause_turn"):
        return [f"the script calls no tool although the request has tool_choice {choice}"]
    return []


async def stream(request: web.Request, ready: Ready, headers: dict[str, str]) -> web.StreamResponse:
    """Send a message piece by piece, and break off where the reply says so."""
    manner = ready.manner
    response = web.StreamResponse(headers=headers | {"content-type": "text/event-stream; charset=utf-8"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    if ready.stream is not None and manner.cut_after is None and not manner.piece_delay_s:
        await response.write(ready.stream.encode())
        return response
    waiting, sent, pieces = b"", 0, sum(sse.is_piece(data) for _, data in ready.events())
    for name, data in ready.events():
        if manner.cut_after is not None and sent == min(manner.cut_after, pieces):
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
