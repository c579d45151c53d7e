"""A strict fake of the Messages API: it answers from a script and refuses what the real one refuses.

    with MessagesAPI() as api:
        api.reply(tool_use("web_search", {"query": "x"}))
        api.reply(text("It is so.", citations=[(0, 0)]))
        client = anthropic.Anthropic(api_key=api.key, base_url=api.url)

Replies are used in the order of the requests' arrival; `behave` takes a function in their place. `check` (called by the
fixture) fails when replies are left, requests came that no reply was for, or a request was refused unnoticed.

Each request of a batch is examined like one of its own and answered by the same script; a refused one ends as `errored`.
A batch stays in progress for `polls` look-ups (0: the first one shows it ended). What goes wrong is told beforehand:
`swallow` (the next creation works, and its answer is lost on the way), `mangle` (what becomes of the lines of results) and
`fail` (statuses that the next requests about batches get).
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from ipy_websearch.errors import ModelError
from tests.fakes import replies, sse
from tests.fakes.examination import NEWEST, VERSIONS, Issued, examine, refuse
from tests.fakes.rendering import (
    PromptCache,
    Ready,
    answer_headers,
    cut,
    error_answer,
    failure_answer,
    prefixes,
    render,
    request_headers,
    stream,
)
from tests.fakes.replies import Part, new_id
from tests.fakes.server import Handler, Received, Server

JSON = dict[str, Any]
KINDS = ("processing", "succeeded", "errored", "canceled", "expired")


@dataclass(slots=True)
class Batch:
    """One batch: its results in the order of the requests, and how many look-ups it stays in progress for."""

    id: str
    results: list[JSON]
    polls_left: int

    def body(self, url: str) -> JSON:
        """Return the batch object as the API shows it now."""
        ended = self.polls_left < 0
        kinds = [entry["result"]["type"] if ended else "processing" for entry in self.results]
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": {
                kind: kinds.count(kind) for kind in ("processing", "succeeded", "errored", "canceled", "expired")
            },
            "ended_at": "2026-11-20T10:10:00Z" if ended else None,
            "created_at": "2026-11-20T10:00:00Z",
            "expires_at": "2026-11-21T10:00:00Z",
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{url}/v1/messages/batches/{self.id}/results" if ended else None,
        }


@dataclass(slots=True)
class Batches:
    """All batches of one fake. `answer` examines and answers one request's JSON, or raises `ModelError`."""

    answer: Callable[[JSON], JSON]
    polls: int = 0
    known: dict[str, Batch] = field(default_factory=dict)
    swallow: bool = False
    mangle: Callable[[list[str]], list[str]] = list  # what becomes of the lines of results on their way
    fail: list[int] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def create(self, body: JSON) -> Batch:
        """Take in a batch."""
        requests = body.get("requests")
        if not isinstance(requests, list) or not requests:
            refuse("requests: List should have at least 1 item after validation, not 0")
        names = [request["custom_id"] for request in requests]
        if len(set(names)) < len(names):
            refuse("requests: custom_id must be unique within a batch")
        if wrong := [name for name in names if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", name)]:
            refuse(f"requests: custom_id {wrong[0]!r}: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        results = [{"custom_id": request["custom_id"], "result": self._result(request)} for request in requests]
        batch = Batch(new_id("msgbatch"), results, self.polls)
        self.known[batch.id] = batch
        return batch

    def _result(self, request: JSON) -> JSON:
        try:
            message = self.answer(request["params"])
        except ModelError as refused:
            error = {"type": "error", "error": {"type": refused.kind, "message": str(refused)}, "request_id": None}
            return {"type": "errored", "error": error}
        return {"type": "succeeded", "message": message | {"usage": message["usage"] | {"service_tier": "batch"}}}


async def serve(batches: Batches, request: web.Request, url: str, body: JSON | None) -> web.Response:
    """Answer one request to /v1/messages/batches…; refusals are raised."""
    id = request.match_info.get("id")
    batches.log.append(f"{request.method} {request.path.removeprefix('/v1/messages/batches')}")
    if batches.fail:
        refuse("scripted failure", batches.fail.pop(0), "api_error")
    if id is None:
        batch = batches.create(body or {})
        if batches.swallow and request.transport is not None:
            batches.swallow = False
            request.transport.close()
        return web.json_response(batch.body(url))
    if id not in batches.known:
        refuse(f"No message batch found with id {id}", 404, "not_found_error")
    batch = batches.known[id]
    if request.path.endswith("/results"):
        if batch.polls_left >= 0:
            refuse(f"Batch {id} has no available results", 404, "not_found_error")
        lines = batches.mangle([json.dumps(entry) for entry in reversed(batch.results)])  # the order is not promised
        return web.Response(text="".join(f"{line}\n" for line in lines), content_type="application/x-jsonl")
    batch.polls_left -= 1
    return web.json_response(batch.body(url))


KEY = "sk-ant-api03-fake-key-of-the-tests"
CONTEXT = {
    name: 1_000_000
    for name in str.split(
        "claude-fable-5-2 claude-mythos-5-2 claude-haiku-5-5 claude-sonnet-5-5 claude-fable-5-1 claude-opus-5-5 "
        "claude-mythos-5-1 claude-sonnet-5 claude-fable-5 claude-mythos-5 claude-opus-5 claude-opus-4-8 claude-opus-4-7 "
        "claude-opus-4-6 claude-sonnet-4-6"
    )
} | {name: 200_000 for name in ("claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-opus-4-5", "claude-sonnet-4-5")}

Behaviour = Callable[[dict[str, Any]], Part | Sequence[Part]]


def _refusing(handler: Handler) -> Handler:
    """Return a handler that answers `ModelError` as the API does."""

    async def guarded(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except ModelError as refused:
            return error_answer(refused.status or 500, refused.kind, str(refused))

    return guarded


class MessagesAPI(Server):
    """The fake. `requests` are all requests for messages; `models` maps model names to context sizes in tokens."""

    def __init__(self, *, key: str = KEY) -> None:
        super().__init__()
        self.key = key
        self.models = dict(CONTEXT)
        self.cache = PromptCache()
        self.issued = Issued()
        self.allow_refusals = False
        self.latency_s = 0.0
        self.batches = Batches(self._batch_answer)
        self._queue: deque[Sequence[Part]] = deque()
        self._behaviour: Behaviour | None = None

    def reply(self, *parts: Part) -> None:
        """Queue one reply, made of the parts of `tests.fakes.replies`; a plain string is a text block."""
        self._queue.append(parts)

    def replies(self, *replies: Part | list[Part]) -> None:
        """Queue several replies, each a part or a list of parts."""
        for made in replies:
            self.reply(*(made if isinstance(made, list) else [made]))

    def behave(self, function: Behaviour | None) -> None:
        """Let a function from the request's JSON to parts answer whenever the queue is empty."""
        self._behaviour = function

    def environment(self) -> dict[str, str]:
        """Return the variables that send the package here."""
        return {"ANTHROPIC_API_KEY": self.key, "ANTHROPIC_BASE_URL": self.url}

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON of all requests for messages, refused ones too."""
        return [request.body for request in self.requests]

    @property
    def refusals(self) -> list[str]:
        """The texts of all refusals, in order."""
        return [request.refusal for request in self.requests if request.refusal]

    @property
    def usages(self) -> list[dict[str, Any]]:
        """The usage figures of all messages that were sent, in order."""
        return [request.answer["usage"] for request in self.requests if isinstance(request.answer, dict)]

    def check(self) -> None:
        """Raise AssertionError for what a test should have noticed; see the module's docstring."""
        super().check()
        assert not self._queue, f"{len(self._queue)} queued replies were not asked for: {list(self._queue)}"
        assert self.allow_refusals or not self.refusals, f"the API refused a request: {self.refusals} (see allow_refusals)"

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve messages, token counts, batches and models."""
        return [
            ("POST", "/v1/messages", self._messages),
            ("POST", "/v1/messages/count_tokens", _refusing(self._count)),
            ("POST", "/v1/messages/batches", _refusing(self._batches)),
            ("GET", "/v1/messages/batches/{id}", _refusing(self._batches)),
            ("GET", "/v1/messages/batches/{id}/results", _refusing(self._batches)),
            ("GET", "/v1/models", _refusing(self._list_models)),
            ("*", "/{rest:.*}", self._nowhere),
        ]

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        received = Received("POST", request.path, dict(request.query), request_headers(request))
        self.requests.append(received)
        try:
            version = self._admit(request)
            received.body = await request.json()
            self._examine(received.body, version)
        except ModelError as refused:
            received.refusal, received.status = str(refused), refused.status
            return error_answer(refused.status or 500, refused.kind, str(refused))
        ready = self._next(received)
        await asyncio.sleep(self.latency_s + (ready.manner.delay_s or 0))
        return await self._send(request, received, ready)

    def _admit(self, request: web.Request) -> str:
        """Check the key and the version header; return the version."""
        version = request.headers.get("anthropic-version", "")
        if version not in VERSIONS:
            refuse(f"anthropic-version: {version!r} is not a valid version")
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not bearer and version == VERSIONS[0]:
            bearer = request.headers.get("x-api-key", "")
        if bearer != self.key:
            refuse("Invalid bearer token", 401, "authentication_error")
        return version

    def _examine(self, body: dict[str, Any], version: str) -> None:
        examine(body, self.issued, version)
        context = self.models.get(body["model"])
        if context is None:
            refuse(f"model: {body['model']}", 404, "not_found_error")
        tokens = prefixes(body)[-1].tokens
        if tokens > context:
            refuse(f"prompt is too long: {tokens} tokens > {context} maximum")

    def _next(self, received: Received) -> Ready:
        """Return what the script answers to a request."""
        if self._queue:
            parts = self._queue.popleft()
        elif self._behaviour is not None:
            made = self._behaviour(received.body)
            parts = made if isinstance(made, (list, tuple)) else [made]
        else:
            self.problems.append(f"request {len(self.requests)} came, but no reply was left for it")
            parts = [replies.error(500, message="no reply was scripted", headers={"x-should-retry": "false"})]
        ready = render(parts, received.body)
        self.problems += ready.problems
        return ready

    async def _send(self, request: web.Request, received: Received, ready: Ready) -> web.StreamResponse:
        if ready.manner.hang_up:
            return cut(request)
        if ready.failure is not None:
            received.status = ready.failure.status
            return failure_answer(ready.failure)
        message = self._finish(received, ready)
        headers = answer_headers() | ready.manner.headers
        if received.body.get("stream"):
            return await stream(request, ready, headers)
        is_cut = ready.manner.cut_after is not None
        return cut(request) if is_cut else web.json_response(sse.public(message), headers=headers)

    def _finish(self, received: Received, ready: Ready) -> dict[str, Any]:
        """Add the usage, and keep what is being sent; return the message."""
        message = ready.message
        if not ready.recorded:
            message["usage"] = self.cache.charge(received.body) | message["usage"]
        self.issued.note(message, received.body)
        received.status, received.answer = 200, message
        return message

    async def _count(self, request: web.Request) -> web.StreamResponse:
        version, body = self._admit(request), await request.json()
        if "max_tokens" in body:
            refuse("max_tokens: Extra inputs are not permitted")
        self._examine(body | {"max_tokens": 1}, version)
        return web.json_response({"input_tokens": prefixes(body)[-1].tokens}, headers=answer_headers())

    async def _batches(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        body = await request.json() if request.method == "POST" else None
        return await serve(self.batches, request, self.url, body)

    def _batch_answer(self, params: dict[str, Any]) -> dict[str, Any]:
        """Examine and answer one request of a batch; a scripted HTTP error becomes the request's own."""
        received = Received("POST", "/v1/messages/batches", {}, {}, params)
        self.requests.append(received)
        try:
            self._examine(params, NEWEST)
            if not params["max_tokens"]:
                refuse("max_tokens: 0 is not supported in a batch")
        except ModelError as refused:
            received.refusal, received.status = str(refused), refused.status
            raise
        ready = self._next(received)
        if ready.failure is not None:
            error = ready.failure.body["error"] if isinstance(ready.failure.body, dict) else {}
            refuse(error.get("message", ""), ready.failure.status, error.get("type", "api_error"))
        self._finish(received, ready)
        return sse.public(ready.message)

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        self._admit(request)
        return web.json_response({"data": [{"type": "model", "id": name} for name in self.models], "has_more": False})

    async def _nowhere(self, request: web.Request) -> web.StreamResponse:
        self.problems.append(f"{request.method} {request.path} is not part of the Messages API")
        return error_answer(404, "not_found_error", "Not found")
