"""The Message Batches API: many requests handed in together, answered within a day at half the price of tokens.

Facts (platform.claude.com/docs/en/build-with-claude/batch-processing, read 2026-11): at most 100,000 requests and 256 MB; a
`custom_id` of at most 64 letters, digits, "_" and "-"; results in any order, one JSON line each, kept for 29 days; requests
that were not begun within 24 hours expire; a cancelled batch keeps what was answered by then.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from ipy_websearch.errors import ConfigError, ModelError
from ipy_websearch.model.client import ModelClient, request_timeout
from ipy_websearch.model.stream import NO_MESSAGE, excerpt, parse_body

PATH = "/v1/messages/batches"
_LISTED = 100
_MAX_PAGES = 10
_AS_IT_COMES = {"X-Stainless-Raw-Response": "stream"}  # tells the SDK not to read the whole answer first


@dataclass(frozen=True, slots=True)
class BatchState:
    """A batch as the API shows it. `counts` has processing, succeeded, errored, canceled and expired; all but the first are 0
    until it has ended."""

    id: str
    status: Literal["in_progress", "canceling", "ended"]
    counts: Mapping[str, int]
    created: datetime
    results_url: str | None

    @property
    def requests(self) -> int:
        """How many requests it has."""
        return sum(self.counts.values())

    @property
    def ended(self) -> bool:
        """Whether its results can be read."""
        return self.status == "ended"


def check(client: ModelClient) -> None:
    """Refuse a platform that has no batches.

    Raises:
        ConfigError: the message says what to do.
    """
    if client.platform.name != "anthropic":
        what = "the built-in offline model" if client.offline else client.platform.name
        raise ConfigError(f"{what} has no Message Batches; leave mode='batch' out, or ask a model of the Anthropic API")


async def submit(client: ModelClient, requests: Sequence[Mapping[str, Any]]) -> BatchState:
    """Hand in requests, each {"custom_id": …, "params": a body}; return the new batch.

    Raises:
        ModelError: it was refused, or may or may not have arrived (`status` is None then, or 5xx).
    """
    return _state(await _call(client, "post", PATH, {"requests": list(requests)}))


async def look_up(client: ModelClient, batch: str) -> BatchState:
    """Return a batch as it stands.

    Raises:
        ModelError: `status` 404: this key knows no such batch; otherwise the API failed.
    """
    return _state(await _call(client, "get", f"{PATH}/{batch}"))


async def cancel(client: ModelClient, batch: str) -> BatchState:
    """Ask for a batch to be ended; what is answered by then is kept and paid.

    Raises:
        ModelError: as with `look_up`.
    """
    return _state(await _call(client, "post", f"{PATH}/{batch}/cancel", {}))


async def recent(client: ModelClient, since: datetime) -> list[BatchState]:
    """Return the batches that were created at `since` or later, newest first.

    Raises:
        ModelError: the API failed.
    """
    found: list[BatchState] = []
    after = ""
    for _ in range(_MAX_PAGES):
        page = await _call(client, "get", f"{PATH}?limit={_LISTED}{after}")
        states = [_state(entry) for entry in page.get("data") or []]
        found += [state for state in states if state.created >= since]
        if not page.get("has_more") or len(found) % _LISTED or not states:
            break
        after = f"&after_id={states[-1].id}"
    return found


async def results(client: ModelClient, batch: BatchState) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
    """Yield (custom_id, result) of an ended batch as the lines arrive; `result["type"]` is succeeded (then with a "message"),
    errored (with an "error"), canceled or expired.

    A line that cannot be read is left out.

    Raises:
        ModelError: the API failed, also in the middle; what was yielded before is good.
    """
    with client.opened() as sdk:
        import httpx2

        url = _same_server(batch.results_url, str(sdk.base_url)) or f"{PATH}/{batch.id}/results"
        options: Any = {"headers": _AS_IT_COMES, "timeout": request_timeout()}
        response: Any = await sdk.get(url, cast_to=httpx2.Response, options=options)
        try:
            async for line in response.aiter_lines():
                if (entry := _entry(line)) is not None:
                    yield entry
        finally:
            await response.aclose()


def _entry(line: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return (custom_id, result) of a line, None when it is broken."""
    try:
        entry = json.loads(line)
        custom_id, result = entry["custom_id"], entry["result"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (str(custom_id), result) if isinstance(result, dict) else None


async def _call(client: ModelClient, method: Literal["get", "post"], path: str, body: Any = None) -> dict[str, Any]:
    """Return the JSON object that the API answers with."""
    with client.opened() as sdk:
        import httpx2

        options: Any = {"timeout": request_timeout()}
        if method == "post":
            response = await sdk.post(path, cast_to=httpx2.Response, body=body, options=options)
        else:
            response = await sdk.get(path, cast_to=httpx2.Response, options=options)
        content: bytes = response.content
    try:
        answer = parse_body(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        text = f"the answer is no object of the Message Batches API ({excerpt(content, 60)!r}); is ANTHROPIC_BASE_URL right?"
        raise ModelError(text, status=200, kind=NO_MESSAGE)
    return answer


def _state(body: Mapping[str, Any]) -> BatchState:
    try:
        counts = {name: int(count or 0) for name, count in body["request_counts"].items()}
        created = datetime.fromisoformat(body["created_at"])
        return BatchState(str(body["id"]), body["processing_status"], counts, created, body.get("results_url"))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise ModelError(f"the answer is no batch of the Message Batches API ({exc!r})", status=200) from exc


def _same_server(url: str | None, base: str) -> str | None:
    """Return the address when it is on the server that the key is meant for: a proxy passes on the API's own addresses."""
    return url if url and urlsplit(url)[:2] == urlsplit(base)[:2] else None
