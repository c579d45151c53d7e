"""What is decided while the requests of an intercepted call are sent one after the other; `blocking` and `awaiting` wait.

The first request's failures are left to the SDK; a later request is sent again by itself, and once the caller's stream has
begun, what cannot be mended ends it with an `error` event, as the API's own streams end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

import anthropic
import httpx2

from ipy_websearch.errors import ModelError
from ipy_websearch.http.response import retry_after
from ipy_websearch.model.arriving import message_in
from ipy_websearch.model.finished import WholeResponse, parse_now
from ipy_websearch.model.frames import EventClient, Parsed, frame
from ipy_websearch.model.retry import MAX_RETRIES, retry_wait_s

Event = dict[str, Any]
Block = Callable[[Callable[[], Any], float], Generator[None, None, None]]
"""Runs a coroutine function, and yields as often as so many seconds have gone by; closing it cancels what runs."""

PING_S = 10.0
"""Seconds of silence after which a caller's stream gets a `ping`, as the API's own does while its tools run: what is in
between (proxies, load balancers, a client's own limit) takes a connection for dead after 30 to 60."""

PING: Event = {"type": "ping"}

LOOK_S = 0.25
"""Seconds after which a blocking stream that waits looks whether it is still wanted."""

Written = Callable[[list[Event]], Sequence[Any]]
"""Writes events as the caller reads them: `framed_events` or `parsed_events`."""

_RAW = "x-stainless-raw-response"
_EMPTY = (204, 205)
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
    def draft(self) -> dict[str, Any]: ...
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
    def lost(self) -> None: ...
    def close(self) -> None: ...


class Driver:
    """What both drivers share. `problem` is the error event that ends the caller's stream, None while all is well; `stopped`
    says that the caller has closed it, perhaps from another thread or task than the one that reads it."""

    def __init__(self, run: Run, request: Any, call_next: Any, retries: int | None) -> None:
        self.run = run
        self.request = request
        self.call_next = call_next
        self.first: Any = None
        self.retries: int = request.options.get_max_retries(MAX_RETRIES) if retries is None else retries
        self.problem: Event | None = None
        self.stopped = False
        self._since = time.perf_counter()
        self._response: Any = None
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

    def given_up(self, exc: BaseException) -> None:
        """Say that no answer to a request is waited for any more: by whom it was interrupted, or because it took too long."""
        cause = exc.__cause__
        if not isinstance(exc, anthropic.APIConnectionError) or isinstance(cause, httpx2.ReadTimeout | httpx2.WriteTimeout):
            self.run.lost()

    def refused(self, response: Any) -> bool:
        """Say whether a response is no reply: an error, a redirect, nothing. A later one must not make the SDK begin anew."""
        if 200 <= response.status_code < 300 and response.status_code not in _EMPTY:
            self.first = self.first or response
            return False
        if self.run.begun:
            response.http_response.headers["x-should-retry"] = "false"
        return True

    def whole(self, response: Any, data: bytes) -> dict[str, Any]:
        """Return the message of a reply that came whole.

        Raises:
            anthropic.APIResponseValidationError: it is none.
        """
        try:
            return message_in(data)
        except ValueError as exc:
            raise anthropic.APIResponseValidationError(response.http_response, None, message=str(exc)) from None

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

    def going(self) -> None:
        """Look whether the stream is still wanted.

        Raises:
            httpx2.ReadError: the caller has closed it, which ends a reader in the SDK's own streams in the same way.
        """
        if self.stopped:
            raise httpx2.ReadError("the stream was closed")

    def lost(self, exc: BaseException) -> None:
        """Say that the reply broke off."""
        self.going()
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

    def _events(self, written: Written) -> Any:
        """Return a generator of the caller's stream, as `written` writes it; `_response` is the reply that comes in."""
        raise NotImplementedError

    def _shut(self, events: Any) -> Any:
        """End that stream, whoever reads it."""
        raise NotImplementedError

    # --- what the caller gets ---------------------------------------------------------------------------------------

    @property
    def wants_bytes(self) -> bool:
        """Whether the caller asked for the raw response of a stream."""
        headers = self.request.headers
        return self.request.cast_to is httpx2.Response or any(name.lower() == _RAW for name in headers)

    def streamed(self, response: Any, body: Callable[[Any, Any], Any]) -> Any:
        """Return the caller's stream, of which `response` is the first reply; `body` makes what it is read from."""
        self._response = response
        raw = self.wants_bytes
        events = self._events(framed_events if raw else parsed_events)
        return self.response(None if raw else events, stream=body(events if raw else (), lambda: self._shut(events)))

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
        raw.elapsed = timedelta(seconds=time.perf_counter() - self._since)
        if self.request.cast_to is httpx2.Response:
            return raw
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
            parse_now(made, message)
        return made


def with_body(request: Any, body: dict[str, Any]) -> Any:
    """Return the SDK's request with another body; its own `copy` would copy the old one deeply first.

    A caller who wants the bare response (`cast_to=httpx2.Response`) gets it in the end; on the way, there is one of the SDK's.
    """
    options = request.options.model_copy()
    options.json_data = body
    return anthropic.APIRequest(
        options=options,
        cast_to=object if request.cast_to is httpx2.Response else request.cast_to,
        stream=request.stream,
        stream_cls=request.stream_cls,
        retries_taken=request.retries_taken,
    )


def raw_response(response: Any) -> Any:
    """Return what a response of the SDK is of; one that was asked for bare is itself."""
    return getattr(response, "http_response", response)


def error_event(message: str) -> Event:
    """Return the event with which a stream ends that could not go on."""
    return {"type": "error", "error": {"type": "api_error", "message": message}}


def framed_events(events: list[Event]) -> list[bytes]:
    """Return events as text, in one piece."""
    return [b"".join(map(frame, events))] if events else []


def parsed_events(events: list[Event]) -> list[Parsed]:
    """Return events as the SDK's streams read them."""
    return list(map(Parsed, events))
