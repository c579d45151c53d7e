"""What is decided while the requests of an intercepted call are sent one after the other; `drivers` do the waiting.

The first request's failures are left to the SDK; a later request is sent again by itself, and once the caller's stream has
begun, what cannot be mended ends it with an `error` event, as the API's own streams end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import anthropic
import httpx2

from ipy_websearch.errors import ModelError
from ipy_websearch.http.response import retry_after
from ipy_websearch.model.frames import EventClient, WholeResponse, parse_now
from ipy_websearch.model.retry import MAX_RETRIES, retry_wait_s

Event = dict[str, Any]
Block = Callable[[Callable[[], Any]], None]

_RAW = "x-stainless-raw-response"
_OF_THE_BODY = (b"content-type", b"content-encoding", b"content-length", b"transfer-encoding")

LOST = (anthropic.AnthropicError, httpx2.HTTPError, httpx2.StreamError, OSError, ValueError)
"""What is raised when a connection breaks in the middle of a reply, or when what comes is no JSON."""


class Run(Protocol):
    """What the drivers need of a run; see `interception.run`."""

    @property
    def done(self) -> bool: ...
    @property
    def begun(self) -> bool: ...
    @property
    def written(self) -> bool: ...
    @property
    def complete(self) -> bool: ...
    def next_body(self) -> dict[str, Any] | None: ...
    def begin(self) -> None: ...
    def event(self, raw: Event) -> list[Event]: ...
    def message(self, message: Mapping[str, Any]) -> None: ...
    def taken(self, request_id: str | None = None) -> bool: ...
    async def run_calls(self) -> None: ...
    def results(self) -> list[Event]: ...
    def end(self) -> list[Event]: ...
    def final(self) -> dict[str, Any]: ...
    def drop(self) -> None: ...
    def close(self) -> None: ...


class Driver:
    """What both drivers share. `problem` is the error event that ends the caller's stream, None while all is well."""

    def __init__(self, run: Run, request: Any, call_next: Any, retries: int | None) -> None:
        self.run = run
        self.request = request
        self.call_next = call_next
        self.first: Any = None
        self.retries: int = request.options.get_max_retries(MAX_RETRIES) if retries is None else retries
        self.problem: Event | None = None
        self._broken: Event | None = None
        self._failures = 0

    # --- sending ----------------------------------------------------------------------------------------------------

    def next_request(self) -> Any:
        """Return the next request, None when the caller's message is complete."""
        body = None if self.run.done else self.run.next_body()
        if body is None:
            return None
        return with_body(self.request, {**body, "stream": True} if self.request.stream else body)

    def wait(self, failure: Any, text: str, attempt: int) -> float | None:
        """Return the seconds until a failed later request is sent again, None when it is not (or was the first one).

        `failure` is the response, or None when none came.
        """
        if not self.run.begun or attempt > self.retries:
            return None
        if failure is None:
            error = ModelError(text, kind="connection_error")
        else:
            error = ModelError(text, status=failure.status_code, retry_after=retry_after(failure.headers))
            if failure.headers.get("x-should-retry") == "false":
                error.kind = "do_not_retry"
        return retry_wait_s(error, min(attempt, MAX_RETRIES))

    def refused(self, response: Any) -> bool:
        """Say whether a response is an error; that of a later request must not make the SDK begin anew."""
        if response.status_code < 400:
            self.first = self.first or response
            return False
        if self.run.begun:
            response.http_response.headers["x-should-retry"] = "false"
        return True

    # --- a streamed reply -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Say that a reply begins."""
        self._broken = None
        self.run.begin()

    def feed(self, raws: Iterable[Event]) -> list[Event]:
        """Take the next events of a reply; return the events for the caller."""
        events: list[Event] = []
        for raw in raws:
            if raw.get("type") == "error":
                self._broken = self._broken or dict(raw)
            if self._broken:
                break
            events += self.run.event(raw)
        return events

    def lost(self, exc: BaseException) -> None:
        """Say that the reply broke off."""
        self._broken = self._broken or error_event(str(exc) or type(exc).__name__)

    def taken(self, response: Any) -> tuple[float | None, bool]:
        """Take the reply, or what there is of it; return the seconds to wait before it is asked for again, and whether
        calls are to be run."""
        if self._broken is None and self.run.complete:
            self._failures = 0
            return None, self.run.taken(response.headers.get("request-id"))
        self._failures += 1
        self.run.drop()
        if self.run.written or self._failures > self.retries:
            self.problem = self._broken or error_event("the model's answer ended too soon")
            return None, False
        return retry_wait_s(ModelError("", kind="truncated"), min(self._failures, MAX_RETRIES)), False

    def rest(self) -> list[Event]:
        """Return the events that follow on a reply's own: results, and what was held back for them."""
        return [] if self.problem or self._broken else self.run.results()

    def failed(self, response: Any, body: bytes) -> None:
        """End the stream with the error of a later request."""
        try:
            self.problem = {"type": "error", "error": json.loads(body)["error"]}
        except (ValueError, KeyError, TypeError):
            self.problem = error_event(f"the model's API answered {response.status_code}")

    def closing(self) -> list[Event]:
        """Return the last events."""
        return [self.problem] if self.problem else self.run.end()

    # --- what the caller gets ---------------------------------------------------------------------------------------

    @property
    def wants_bytes(self) -> bool:
        """Whether the caller asked for the raw response of a stream."""
        headers = self.request.headers
        return any(name.lower() == _RAW for name in headers)

    def response(self, events: Any = None, *, stream: Any = None, message: dict[str, Any] | None = None) -> Any:
        """Return the SDK's response with the first one's headers and another body: a message, or a stream (of `events`)."""
        original = self.first.http_response
        headers = [(name, value) for name, value in original.headers.raw if name.lower() not in _OF_THE_BODY]
        headers.append((b"content-type", b"text/event-stream; charset=utf-8" if self.request.stream else b"application/json"))
        client, status, request = self.first._client, original.status_code, original.request
        raw: httpx2.Response
        if message is None:
            raw = httpx2.Response(status, headers=headers, request=request, stream=stream)
        else:
            raw = WholeResponse(message, status, headers, request)
        made = type(self.first)(
            raw=raw,
            cast_to=self.request.cast_to,
            client=EventClient(client, events) if self.request.stream else client,
            stream=self.request.stream,
            stream_cls=self.request.stream_cls,
            options=self.first._options,
            retries_taken=self.first.retries_taken,
        )
        if message is not None:
            parse_now(made)
        return made


def with_body(request: Any, body: dict[str, Any]) -> Any:
    """Return the SDK's request with another body; its own `copy` would copy the old one deeply first."""
    options = request.options.model_copy()
    options.json_data = body
    return anthropic.APIRequest(
        options=options,
        cast_to=request.cast_to,
        stream=request.stream,
        stream_cls=request.stream_cls,
        retries_taken=request.retries_taken,
    )


def error_event(message: str) -> Event:
    """Return the event with which a stream ends that could not go on."""
    return {"type": "error", "error": {"type": "api_error", "message": message}}
