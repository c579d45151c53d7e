"""The Message Batches part of the fake Messages API: create, look up, list, results, cancel.

Each request of a batch is examined like one of its own and answered by the same script; a refused one ends as `errored`.
A batch stays in progress for `polls` look-ups (0: the first one shows it ended). What goes wrong is told beforehand: `expire`
(custom ids whose requests are not begun in time), `done_before_cancel` (how many are answered when a batch is cancelled),
`swallow` (the next creation works, and its answer is lost on the way), `fail` (statuses that the next requests about batches
get).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from tests.fakes.examination import Refused, refuse
from tests.fakes.replies import new_id

JSON = dict[str, Any]
NOT_IN_BATCHES = ("stream", "speed", "thread")
MAX_BATCH_BYTES = 256_000_000
KINDS = ("succeeded", "errored", "canceled", "expired")


@dataclass(slots=True)
class Batch:
    """One batch: its results in the order of the requests, and how many look-ups it stays in progress for."""

    id: str
    results: list[JSON]
    polls_left: int
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    canceled: datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether its results can be read."""
        return self.polls_left < 0

    def body(self, url: str) -> JSON:
        """Return the batch object as the API shows it now."""
        kinds = [entry["result"]["type"] for entry in self.results] if self.ended else []
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": "ended" if self.ended else "canceling" if self.canceled else "in_progress",
            "request_counts": {
                "processing": 0 if self.ended else len(self.results),
                **{kind: kinds.count(kind) for kind in KINDS},
            },
            "ended_at": _shown(datetime.now(UTC)) if self.ended else None,
            "created_at": _shown(self.created),
            "expires_at": _shown(self.created + timedelta(days=1)),
            "archived_at": None,
            "cancel_initiated_at": _shown(self.canceled),
            "results_url": f"{url}/v1/messages/batches/{self.id}/results" if self.ended else None,
        }


@dataclass(slots=True)
class Batches:
    """All batches of one fake. `answer` examines and answers one request's JSON, or raises `Refused`."""

    answer: Callable[[JSON], JSON]
    polls: int = 0
    known: dict[str, Batch] = field(default_factory=dict)
    expire: Container[str] = ()
    done_before_cancel: int = 0
    swallow: bool = False
    mangle: Callable[[list[str]], list[str]] = list  # what becomes of the lines of results on their way
    fail: list[int] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

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
        results = [{"custom_id": request["custom_id"], "result": self._result(request)} for request in requests]
        batch = Batch(new_id("msgbatch"), results, self.polls)
        self.known[batch.id] = batch
        return batch

    def find(self, id: str) -> Batch:
        """Return a batch, or refuse."""
        if id not in self.known:
            refuse(f"No message batch found with id {id}", 404, "not_found_error")
        return self.known[id]

    def cancel(self, batch: Batch) -> None:
        """Begin to cancel: it goes on for one look-up, and what was answered by then stays."""
        if batch.ended:
            refuse(f"Batch {batch.id} cannot be canceled because it has already ended")
        batch.canceled = datetime.now(UTC)
        batch.polls_left = 1
        for entry in batch.results[self.done_before_cancel :]:
            entry["result"] = {"type": "canceled"}

    def page(self, url: str, limit: int, after: str | None) -> JSON:
        """Return a page of the list, newest first."""
        ids = list(reversed(self.known))
        start = ids.index(after) + 1 if after in ids else 0
        shown = ids[start : start + limit]
        edges = {"first_id": shown[0] if shown else None, "last_id": shown[-1] if shown else None}
        return {"data": [self.known[id].body(url) for id in shown], "has_more": start + limit < len(ids), **edges}

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

    def _result(self, request: JSON) -> JSON:
        if request["custom_id"] in self.expire:
            return {"type": "expired"}
        try:
            message = self.answer(request["params"])
        except Refused as refused:
            error = {"type": "error", "error": {"type": refused.kind, "message": refused.message}, "request_id": None}
            return {"type": "errored", "error": error}
        return {"type": "succeeded", "message": message | {"usage": message["usage"] | {"service_tier": "batch"}}}


def _shown(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="microseconds") if moment else None


async def serve(batches: Batches, request: web.Request, url: str, body: JSON | None) -> web.Response:
    """Answer one request to /v1/messages/batches…; refusals are raised."""
    id = request.match_info.get("id")
    batches.log.append(f"{request.method} {request.path.removeprefix('/v1/messages/batches')}")
    if batches.fail:
        refuse("scripted failure", batches.fail.pop(0), "api_error")
    if id is None and request.method == "POST":
        return _created(batches, request, batches.create(body or {}), url)
    if id is None:
        return web.json_response(batches.page(url, int(request.query.get("limit", 20)), request.query.get("after_id")))
    batch = batches.find(id)
    if request.path.endswith("/cancel"):
        batches.cancel(batch)
        return web.json_response(batch.body(url))
    if request.path.endswith("/results"):
        if not batch.ended:
            refuse(f"Batch {id} has no available results", 404, "not_found_error")
        lines = batches.mangle([json.dumps(entry) for entry in reversed(batch.results)])  # the order is not promised
        return web.Response(text="".join(f"{line}\n" for line in lines), content_type="application/x-jsonl")
    batch.polls_left -= 1
    return web.json_response(batch.body(url))


def _created(batches: Batches, request: web.Request, batch: Batch, url: str) -> web.Response:
    """Answer a creation, unless the answer is to be lost."""
    if batches.swallow:
        batches.swallow = False
        assert request.transport is not None
        request.transport.close()
    return web.json_response(batch.body(url))
