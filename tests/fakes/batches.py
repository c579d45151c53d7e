"""The Message Batches part of the fake Messages API: create, look up, list results, cancel.

Each request of a batch is examined like one of its own and answered by the same script; a refused one ends as `errored`.
A batch has ended after `polls` look-ups (0: at once).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.examination import Refused, refuse
from tests.fakes.replies import new_id

JSON = dict[str, Any]
NOT_IN_BATCHES = ("stream", "speed")
CREATED, EXPIRES = "2026-11-20T10:00:00.000000+00:00", "2026-11-21T10:00:00.000000+00:00"


@dataclass(slots=True)
class Batch:
    """One batch: its results in the order of the requests, and how many look-ups it stays in progress for."""

    id: str
    results: list[JSON]
    polls_left: int
    canceled: bool = False

    def body(self, url: str) -> JSON:
        """Return the batch object as the API shows it now."""
        ended = self.polls_left <= 0
        kinds = [entry["result"]["type"] for entry in self.results] if ended else []
        counts = {kind: kinds.count(kind) for kind in ("succeeded", "errored", "canceled", "expired")}
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "canceling" if self.canceled else "in_progress",
            "request_counts": {"processing": 0 if ended else len(self.results), **counts},
            "ended_at": CREATED if ended else None,
            "created_at": CREATED,
            "expires_at": EXPIRES,
            "archived_at": None,
            "cancel_initiated_at": CREATED if self.canceled else None,
            "results_url": f"{url}/v1/messages/batches/{self.id}/results" if ended else None,
        }


@dataclass(slots=True)
class Batches:
    """All batches of one fake. `answer` examines and answers one request's JSON, or raises `Refused`."""

    answer: Callable[[JSON], JSON]
    polls: int = 0
    known: dict[str, Batch] = field(default_factory=dict)

    def create(self, body: JSON) -> Batch:
        """Take in a batch."""
        requests = body.get("requests")
        if not isinstance(requests, list) or not requests:
            refuse("requests: List should have at least 1 item after validation, not 0")
        if len(requests) > 100_000:
            refuse("requests: List should have at most 100000 items after validation")
        names = [request.get("custom_id") for request in requests]
        if len(set(names)) < len(names):
            refuse("requests: custom_id must be unique within a batch")
        for number, request in enumerate(requests):
            self._check(number, request)
        results = [{"custom_id": request["custom_id"], "result": self._result(request["params"])} for request in requests]
        batch = Batch(new_id("msgbatch"), results, self.polls)
        self.known[batch.id] = batch
        return batch

    def find(self, id: str) -> Batch:
        """Return a batch, or refuse."""
        if id not in self.known:
            refuse(f"No message batch found with id {id}", 404, "not_found_error")
        return self.known[id]

    def _check(self, number: int, request: JSON) -> None:
        for name in request:
            if name not in ("custom_id", "params"):
                refuse(f"requests.{number}.{name}: Extra inputs are not permitted")
        name = request.get("custom_id")
        if not isinstance(name, str) or not 1 <= len(name) <= 64 or not name.replace("_", "").replace("-", "").isalnum():
            refuse(f"requests.{number}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        for field_name in NOT_IN_BATCHES:
            if request.get("params", {}).get(field_name):
                refuse(f"requests.{number}.params.{field_name}: not supported in batches")

    def _result(self, params: JSON) -> JSON:
        try:
            message = self.answer(params)
        except Refused as refused:
            error = {"type": "error", "error": {"type": refused.kind, "message": refused.message}, "request_id": None}
            return {"type": "errored", "error": error}
        return {"type": "succeeded", "message": message | {"usage": message["usage"] | {"service_tier": "batch"}}}


async def serve(batches: Batches, request: web.Request, url: str, body: JSON | None) -> web.Response:
    """Answer one request to /v1/messages/batches…; refusals are raised."""
    id = request.match_info.get("id")
    if id is None and request.method == "POST":
        return web.json_response(batches.create(body or {}).body(url))
    if id is None:
        data = [batch.body(url) for batch in reversed(batches.known.values())]
        return web.json_response({"data": data, "has_more": False, "first_id": None, "last_id": None})
    batch = batches.find(id)
    if request.path.endswith("/cancel"):
        batch.canceled = True
        if batch.polls_left > 0:
            batch.results = [entry | {"result": {"type": "canceled"}} for entry in batch.results]
        return web.json_response(batch.body(url))
    if request.path.endswith("/results"):
        if batch.polls_left > 0:
            refuse(f"Batch {id} has no available results", 404, "not_found_error")
        lines = "".join(json.dumps(entry) + "\n" for entry in reversed(batch.results))  # the order is not promised
        return web.Response(text=lines, content_type="application/x-jsonl")
    shown = batch.body(url)
    batch.polls_left -= 1
    return web.json_response(shown)
