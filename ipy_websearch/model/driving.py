"""What is decided while the requests of an intercepted call are sent one after the other; `blocking` and `awaiting` wait.

The first request's failures are left to the SDK; a later request is sent again by itself, and once the caller's stream has
begun, what cannot be mended ends it with an `error` event, as the API's own streams end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable
from datetime import timedelta
from typing import Any

import anthropic
import httpx2

from ipy_websearch.errors import BudgetExceededError, ModelError
from ipy_websearch.http.response import retry_after
from ipy_websearch.model.arriving import message_in
from ipy_websearch.model.attempts import Attempts, failure_behind
from ipy_websearch.model.finished import WholeResponse, parse_now
from ipy_websearch.model.frames import EventClient
from ipy_websearch.model.passing import settle, with_body
from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.runs import Run
from ipy_websearch.model.streamed import StreamedResponse, Written

Event = dict[str, Any]
Block = Callable[[Callable[[], Any], float], Generator[None, None, None]]
"""Runs a coroutine function, and yields as often as so many seconds have gone by; closing it cancels what runs."""

PING_S = 10.0
"""Seconds of silence after which a caller's stream gets a `ping`, as the API's own does while its tools run: what is in
between (proxies, load balancers, a client's own limit) takes a connection for dead after 30 to 60."""

PING: Event = {"type": "ping"}

LOOK_S = 0.25
"""Seconds after which a blocking stream that waits looks whether it is still wanted."""

_EMPTY = (204, 205)
_OF_THE_BODY = (b"content-type", b"content-encoding", b"content-length", b"transfer-encoding")

_ODD = (TypeError, AttributeError, LookupError, RecursionError)  # events of another form than the API's
LOST = (anthropic.AnthropicError, httpx2.HTTPError, httpx2.StreamError, OSError, ValueError, *_ODD)
"""What is raised when a connection breaks in the middle of a reply, or when what comes is no JSON."""


class Driver:
    """What both drivers share. `problem` is the error event that ends the caller's stream, None while all is well; `stopped`
    says that the caller has closed it, perhaps from another thread or task than the one that reads it."""

    def __init__(self, run: Run, request: Any, call_next: Any, retries: int | None) -> None:
        self.run = run
        self.request = request
        self.call_next = call_next
        self.first: Any = None
        self.attempts = Attempts(run, request, retries)
        self.learn: Callable[[object, Platform], None] | None = None
        self.problem: Event | None = None
        self.stopped = False
        self._since = time.perf_counter()
        self._streaming = False
        self._in_text = False
        self._response: Any = None
        self._broken: Event | None = None
        self._coming = False

    def go_on_from(self, earlier: Driver) -> None:
        """Take over from the driver that had the same run before."""
        self.first, self.attempts.client = earlier.first, earlier.attempts.client
        self._in_text = earlier._in_text

    # --- sending ----------------------------------------------------------------------------------------------------

    def next_request(self) -> Any:
        """Return the next request, or the same once more; None when the caller's message is complete.

        Raises:
            BudgetExceededError: there is no money for a first one; a stream that has begun ends with it.
        """
        try:
            body = self.run.next_body()
        except BudgetExceededError as exc:
            if not self._streaming:
                raise
            self.problem, body = error_event(str(exc)), None
        if body is None:
            return None
        return with_body(self.request, {**body, "stream": True} if self.request.stream else body)

    def wait(self, failure: Any, text: str) -> float | None:
        """Return the seconds until a failed later request is sent again, None when it is not (or was the first one).

        `failure` is the response, or None when none came. Results that the server does not take go up at once in another form.
        """
        if failure is not None and self.run.without_thinking(failure.status_code, text):
            return 0.0
        if failure is not None and self.run.in_text(failure.status_code, text):
            self._in_text = True
            return 0.0
        if not self.run.begun:
            return None
        if failure is None:
            if not self._streaming and self.attempts.sdk_goes_on:
                return None
            error = ModelError(text, kind="connection_error")
        else:
            error = ModelError(text, status=failure.status_code, retry_after=retry_after(failure.headers))
            told = failure.headers.get("x-should-retry")
            if (failure.status_code == 401 and self.attempts.renew()) or (told == "true" and failure.status_code != 429):
                error.status, error.kind = None, "api_error"
            elif told == "false":
                error.kind = "do_not_retry"
        return self.attempts.wait_s(error)

    def wait_after(self, exc: Exception) -> float | None:
        """Return the same for a request that raised `exc`: its connection was lost, or other middleware inside ours did it."""
        self.given_up(exc)
        failure = failure_behind(exc)
        if failure is None:
            return None
        if not isinstance(failure, anthropic.APIStatusError):
            return self.wait(None, str(exc))
        wait = self.wait(failure.response, str(exc))
        if wait is None and self.run.begun:
            settle(failure.response)
        return wait

    def given_up(self, exc: BaseException) -> None:
        """Say that no answer to a request is waited for any more, and why: what went out is booked."""
        if self.attempts.may_be_billed(exc):
            self.run.lost()

    def refused(self, response: Any) -> bool:
        """Say whether a response is no reply: an error, a redirect, nothing. A later one must not make the SDK begin anew."""
        if 200 <= response.status_code < 300 and response.status_code not in _EMPTY:
            if self.first is None:
                self.first, self.attempts.client = response, getattr(response, "_client", None)
            return False
        if self.run.begun:
            settle(response.http_response)
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

    def take(self, response: Any) -> bool:
        """Take a reply that is complete; return whether calls are to be run."""
        self.attempts.answered()
        if self._in_text and self.learn:
            self.learn(self.request.options.json_data.get("model"), self.run.platform)
        return self.run.taken(response.headers.get("request-id"))

    # --- a streamed reply -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Say that a reply is waited for; it begins with its first event, and an error in that place is a refusal."""
        self._broken, self._coming = None, False

    def feed(self, raws: Iterable[Event]) -> list[Event]:
        """Take the next events of a reply; return the events for the caller."""
        events: list[Event] = []
        for raw in raws:
            if raw.get("type") == "error":
                self._broken = self._broken or dict(raw)
            if self._broken:
                break
            if not self._coming:
                if raw.get("type") == "ping":
                    events.append(raw)
                    continue
                self._coming = True
                self.run.begin()
            events += self.run.event(raw)
        return events

    def left(self) -> None:
        """Say that nobody waits for the reply any more. If nothing of it came, not even a refusal, it may be billed."""
        if not self._coming and self._broken is None:
            self._coming = True
            self.run.begin()
            self.run.lost()

    def going(self) -> None:
        """Look whether the stream is still wanted.

        Raises:
            httpx2.ReadError: the caller has closed it, which ends a reader in the SDK's own streams in the same way.
        """
        if self.stopped:
            raise httpx2.ReadError("the stream was closed", request=self.first.http_response.request)

    def lost(self, exc: BaseException) -> None:
        """Say that the reply broke off."""
        self.left()
        self.going()
        self._broken = self._broken or error_event(str(exc) or type(exc).__name__)

    def taken(self, response: Any) -> tuple[float | None, bool]:
        """Take the reply, or what there is of it; return the seconds to wait before it is asked for again, and whether
        calls are to be run."""
        self.left()
        if self._broken is None and self.run.complete:
            return None, self.take(response)
        if self._coming:
            self.run.drop()
        written = self._coming and self.run.written
        wait = None if written else self.attempts.wait_s(ModelError("", kind="truncated"))
        if wait is None:
            self.problem = self._broken or error_event("the model's answer ended too soon")
        return wait, False

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
        """End that stream (None: nobody began to read it), whoever reads it."""
        raise NotImplementedError

    def _dropped(self) -> None:
        """Put things in order after a stream that nobody read or closed, from a finalizer."""
        raise NotImplementedError

    # --- what the caller gets ---------------------------------------------------------------------------------------

    def streamed(self, response: Any, body: Callable[..., Any]) -> Any:
        """Return the caller's stream, of which `response` is the first reply; `body` makes what it is read from."""
        self._response, self._streaming = response, True
        return self._as_asked(StreamedResponse(*self._head(), body(self._events, self._shut, self._dropped)))

    def finished(self) -> Any:
        """Return the caller's message."""
        message = self.run.final()
        raw = WholeResponse(*self._head(), message)
        made = self._as_asked(raw)
        if made is not raw:
            parse_now(made, message)
        return made

    def _head(self) -> tuple[int, Any, Any]:
        """Return status, headers and request of the caller's response: those of the first reply."""
        original = self.first.http_response
        headers = [(name, value) for name, value in original.headers.raw if name.lower() not in _OF_THE_BODY]
        headers.append((b"content-type", b"text/event-stream; charset=utf-8" if self.request.stream else b"application/json"))
        return original.status_code, headers, original.request

    def _as_asked(self, raw: httpx2.Response) -> Any:
        """Return a response as the caller asked for it: bare, or as one of the SDK's."""
        raw.elapsed = timedelta(seconds=time.perf_counter() - self._since)
        if self.request.cast_to is httpx2.Response:
            return raw
        client = self.first._client
        return type(self.first)(
            raw=raw,
            cast_to=self.request.cast_to,
            client=EventClient(client) if self.request.stream else client,
            stream=self.request.stream,
            stream_cls=self.request.stream_cls,
            options=self.first._options,
            retries_taken=self.request.retries_taken,
        )


def error_event(message: str) -> Event:
    """Return the event with which a stream ends that could not go on."""
    return {"type": "error", "error": {"type": "api_error", "message": message}}
