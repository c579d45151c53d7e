"""The hook in somebody else's SDK client: middleware that turns one request into as many as it takes.

One async core serves every client. An async client's calls run in the caller's event loop; a blocking client's run on the
background loop, which has the requests themselves sent and read in the caller's thread (`CallersThread`), where an interrupt
belongs. The middleware runs inside the SDK's own retrying, so the first request's failures are the SDK's; later requests are
sent again by the loop, each by itself, and never make the SDK begin anew.

What this and `upstream` use of the SDK's inside, and nothing else in the package does (anthropic 2.12, read 2026-11):

    APIRequest.options                 the request with `json_data`, `get_max_retries()`          `_request.py`, `_models.py`
    APIResponse(raw=, cast_to=, …)     the constructor; `_client`, `_options` of a response       `_response.py`
    client._make_sse_decoder()         what reads the stream of a platform                        `_base_client.py`
    client._make_status_error_from_response()   what a refusal says                               `_base_client.py`
    AWSEventStreamDecoder              what reads Bedrock's (in `client.py`)                      `lib/bedrock`
    anthropic._streaming.SSEDecoder    what reads text                                            `_streaming.py`
    client.request(…, FinalRequestOptions)   a request of any method (`upstream`)                 `_base_client.py`
    client._token_cache                the token that a 401 renews                                `_client.py`
    x-should-retry, x-stainless-retry-count   headers by which the SDK decides about retries      `_base_client.py`
    X-Stainless-Raw-Response           asks for the response instead of a model                   `_constants.py`
"""

from __future__ import annotations

import asyncio
import copy
import json
import queue
import re
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anthropic
import httpx2
from anthropic._streaming import SSEDecoder

from ipy_websearch import background
from ipy_websearch.errors import BudgetExceededError, ConfigError, ModelError, ReplayError
from ipy_websearch.model.client import (
    MAX_RETRIES,
    MESSAGES,
    Event,
    Reply,
    connection_error,
    reply_events,
    status_error,
)
from ipy_websearch.model.requests import ANTHROPIC, PLATFORMS, Platform, platform_at

if TYPE_CHECKING:  # a floor above; what is used of both stands in `Exchange.answer` and `SearchMiddleware._begin`
    from ipy_websearch.interception.interceptor import WebSearchInterceptor
    from ipy_websearch.interception.run import InterceptedCall

ClientT = TypeVar("ClientT")
T = TypeVar("T")

COUNT = f"{MESSAGES}/count_tokens"

# Seconds of silence after which a caller's stream gets a `ping`, as the API's own does while its tools run: what is in between
# (proxies, load balancers, a client's own limit) takes a connection for dead after 30 to 60.
PING_S = 10.0

LOST = (anthropic.APIConnectionError, httpx2.HTTPError, httpx2.StreamError, OSError)


# --- the two kinds of clients -----------------------------------------------------------------------------------------


class AsyncSide:
    """Sends and reads for an async client, in the caller's own event loop."""

    response = anthropic.AsyncAPIResponse

    read = staticmethod(httpx2.Response.aread)
    pieces = staticmethod(httpx2.Response.aiter_bytes)
    close = staticmethod(httpx2.Response.aclose)

    def __init__(self, call_next: Any) -> None:
        self.send = call_next


class CallersThread:
    """Sends and reads for a blocking client: in the caller's thread, which waits in `run` for work on the background loop."""

    response = anthropic.APIResponse

    def __init__(self, call_next: Any) -> None:
        self._call_next = call_next
        self._jobs: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()

    def run(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function on the background loop to its end; what interrupts this thread cancels it."""
        task = background.Task(function)
        task.future.add_done_callback(lambda _: self._jobs.put(lambda: None))  # ends the waiting
        try:
            while not task.future.done():
                with suppress(queue.Empty):
                    self._jobs.get(timeout=background.POLL_S)()
            return task.future.result()
        finally:
            task.cancel()

    async def send(self, request: Any) -> Any:
        """Send a request."""
        return await self._called(lambda: self._call_next(request))

    async def read(self, http: httpx2.Response) -> bytes:
        """Read a body whole."""
        return await self._called(http.read)

    async def pieces(self, http: httpx2.Response) -> AsyncIterator[bytes]:
        """Yield a body as it comes."""
        coming = http.iter_bytes()
        while (piece := await self._called(lambda: next(coming, None))) is not None:
            yield piece

    async def close(self, http: httpx2.Response) -> None:
        """Read no further."""
        http.close()

    async def _called(self, function: Callable[[], T]) -> T:
        """Call a function in the caller's thread."""
        future: Future[T] = Future()

        def job() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except Exception as exc:
                    future.set_exception(exc)

        self._jobs.put(job)
        return await asyncio.wrap_future(future)


# --- the requests of one call -----------------------------------------------------------------------------------------


class Exchange:
    """Sends the requests of one call of the caller, and makes the caller's response of what comes back.

    `first` is the SDK's response to the first request, None before it came; `refused` the newest that was an error.
    """

    def __init__(self, request: Any, side: Any, client: Any) -> None:
        self.first: Any = None
        self.refused: Any = None
        self._request = request
        self._side = side
        self._client = client

    async def answer(self, call: InterceptedCall) -> Any:
        """Return the caller's response: its stream as soon as that begins, or the whole message."""
        whole, events = Reply(), call.events(self)
        try:
            async for arrived in events:
                if self._request.stream:
                    return self._answered(stream=StreamBody(call, events, arrived, self._side))
                for event in arrived:
                    whole.apply(event)
        except ModelError as exc:
            return self._failed(exc)
        return self._answered(content=json.dumps(call.writer.message(whole.content, call.usage)).encode())

    @property
    def retries(self) -> int:
        """How often a later request is sent again: as often as the caller's client does it, and twice in any case, since what
        came before it is paid."""
        return max(MAX_RETRIES, self._request.options.get_max_retries(self.first._client.max_retries))

    @property
    def headers(self) -> dict[str, Any]:
        """The headers that the caller's key goes up in."""
        return {**getattr(self._client, "auth_headers", {}), **(self._request.options.headers or {})}

    async def send(self, body: Mapping[str, Any]) -> AsyncIterator[list[Event]]:
        """Send a request and yield the events of its reply as they come, together what came together.

        Raises:
            ModelError: it was refused, it got no answer, or its reply broke off.
        """
        try:
            response = await self._accepted(with_body(self._request, body))
            http = response.http_response
            try:
                async for events in reply_events(http.headers, self._side.pieces(http)):
                    yield events
            finally:
                await self._side.close(http)
        except LOST as exc:
            raise connection_error(exc, self._client.base_url.host) from exc

    def pretend(self) -> None:
        """Take the first request as answered: a cassette gives the replies, and nothing is sent."""
        raw = httpx2.Response(200, request=httpx2.Request("POST", f"http://recorded.invalid{MESSAGES}"))
        self.first = self._side.response(
            raw=raw, cast_to=object, client=self._client, stream=False, stream_cls=None, options=self._request.options
        )

    async def _accepted(self, request: Any) -> Any:
        """Return the SDK's response to a request.

        Raises:
            ModelError: it is a refusal, which is kept in `refused`.
        """
        response = await self._side.send(request)
        if response.status_code == 401 and self.first and (cache := getattr(response._client, "_token_cache", None)):
            cache.invalidate()  # a token that expired between two requests; the SDK does the same for the first one
            response = await self._side.send(request)
        if not response.http_response.is_success:
            self.refused = response
            await self._side.read(response.http_response)
            raise status_error(response._client._make_status_error_from_response(response.http_response))
        self.first = self.first or response
        return response

    # --- what the caller gets -------------------------------------------------------------------------------------------

    def _answered(self, **body: Any) -> Any:
        """Return the caller's response, with `content` or `stream` as its body."""
        kind = b"text/event-stream; charset=utf-8" if self._request.stream else b"application/json"
        headers = [
            (name, value)
            for name, value in self.first.http_response.headers.raw
            if name.lower() not in (b"content-type", b"content-encoding", b"content-length", b"transfer-encoding")
        ]
        return self._response(200, headers=[*headers, (b"content-type", kind)], **body)

    def _failed(self, error: ModelError) -> Any:
        """Return the response for a call that failed, or raise its error. What failed after the first request must not make
        the SDK begin anew."""
        refused = error.status not in (None, 200)
        if self.first is None:  # this is the SDK's to deal with
            if refused:
                return self.refused
            raise error.__cause__ if isinstance(error.__cause__, anthropic.APIConnectionError) else error
        if self._request.stream:
            return self._answered(content=frame(error_event(error)))
        response = self.refused if refused else self._response(502, json=error_event(error))
        response.http_response.headers["x-should-retry"] = "false"
        response.http_response.request.headers["x-stainless-retry-count"] = "1"  # which a 401 is judged by
        return response

    def _response(self, status: int, **parts: Any) -> Any:
        request, client = self._request, copy.copy(self.first._client)
        client._make_sse_decoder = SSEDecoder  # whatever its platform streams itself (Bedrock: frames)
        return self._side.response(
            raw=httpx2.Response(status, request=self.first.http_response.request, **parts),
            cast_to=request.cast_to,
            client=client,
            stream=request.stream,
            stream_cls=request.stream_cls,
            options=self.first._options,
            retries_taken=request.retries_taken,
        )


def with_body(request: Any, body: Mapping[str, Any]) -> Any:
    """Return the SDK's request with another body; its own `copy` would copy the old one deeply first.

    A caller who wants the bare response (`cast_to=httpx2.Response`) gets it in the end; on the way, there is one of the SDK's.
    """
    made = copy.copy(request)
    made.options = request.options.model_copy()
    made.options.json_data = {**body, "stream": True} if request.stream else dict(body)
    made.cast_to = object if request.cast_to is httpx2.Response else request.cast_to
    return made


# --- the caller's stream ----------------------------------------------------------------------------------------------


class StreamBody(httpx2.AsyncByteStream, httpx2.SyncByteStream):
    """The caller's stream. One that is never read gives back what was reserved for it when it is dropped."""

    def __init__(self, call: InterceptedCall, events: AsyncGenerator[list[Event], None], begun: list[Event], side: Any) -> None:
        self._events = events
        self._pieces = _frames(events, begun)
        self._side = side
        background.loop()  # runs from now on: a finalizer may be called where no thread can be started
        weakref.finalize(self, _release, call)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    def __iter__(self) -> Iterator[bytes]:
        async def following() -> bytes | None:
            return await anext(self._pieces, None)

        while (piece := self._side.run(following)) is not None:
            yield piece

    async def aclose(self) -> None:
        """End the stream: nothing more is sent, and what was used is booked."""
        await self._pieces.aclose()
        await self._events.aclose()

    def close(self) -> None:
        """End the stream."""
        self._side.run(self.aclose)


def _release(call: InterceptedCall) -> None:
    async def close() -> None:
        call.close()

    if call.closed:
        return
    if background.is_running():  # the caller's may have ended; this thread may hold a lock: do not wait for long
        background.Task(close).wait(1.0)
    else:  # at the end of Python no thread begins any more
        call.close()


async def _frames(events: AsyncGenerator[list[Event], None], made: list[Event] | None) -> AsyncGenerator[bytes, None]:
    """Yield the caller's stream as server-sent events, with a `ping` whenever nothing has come for a while between two blocks:
    within one, the model is writing, and no tool runs. `made` are the first events.

    What cannot be mended ends it with an `error` event, as the API's own streams end.
    """
    coming: asyncio.Future[list[Event] | None] | None = None
    try:
        while made is not None:
            yield b"".join(map(frame, made))
            if made[-1]["type"] == "content_block_delta":
                made = await anext(events, None)
                continue
            coming = asyncio.ensure_future(anext(events, None))
            while not (await asyncio.wait((coming,), timeout=PING_S))[0]:
                yield frame({"type": "ping"})
            made = coming.result()
    except (ModelError, BudgetExceededError) as exc:
        yield frame(error_event(exc))
    finally:
        if coming is not None and not coming.done():
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


def frame(event: Mapping[str, Any]) -> bytes:
    """Return an event as the bytes of a server-sent event, in ASCII: some clients take other characters for ends of lines."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def error_event(error: Exception) -> Event:
    """Return the event with which a stream ends that could not go on."""
    kind = getattr(error, "kind", "")
    kind = kind if kind.endswith("_error") and kind not in ("connection_error", "timeout_error") else "api_error"
    return {"type": "error", "error": {"type": kind, "message": str(error)}}


# --- the middleware ---------------------------------------------------------------------------------------------------


class SearchMiddleware(anthropic.Middleware):
    """Answers requests that want the web; all others pass untouched."""

    def __init__(self, interceptor: WebSearchInterceptor, platform: Platform, client: Any) -> None:
        self._interceptor = interceptor
        self._platform = platform
        self._client = client

    def handle(self, request: Any, call_next: Any) -> Any:
        """Answer one attempt of a blocking client."""
        request, call = self._begin(request)
        if call is None:
            return call_next(request)
        side = CallersThread(call_next)
        return side.run(lambda: Exchange(request, side, self._client).answer(call))

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        """Answer one attempt of an async client."""
        request, call = self._begin(request)
        return await (Exchange(request, AsyncSide(call_next), self._client).answer(call) if call else call_next(request))

    def _begin(self, request: Any) -> tuple[Any, InterceptedCall | None]:
        """Return the request, and the call that answers it; None when it can be sent."""
        body, path = request.options.json_data, str(request.url).partition("?")[0]
        if path not in (MESSAGES, COUNT) or not isinstance(body, dict):
            return request, None
        call = self._interceptor.begin(body, self._platform)
        if call is not None and body.get("thread"):
            raise _thread_refusal()
        if call is not None and path == COUNT:  # of what the model would be sent
            if (recording := call.session.recording) and recording.replayed_from:
                raise ReplayError("token counts are not on cassettes; `%websearch stop` ends the replay")
            asked = call.request(final=False)
            return with_body(request, {name: value for name, value in asked.items() if name != "max_tokens"}), None
        return request, call


def with_interception(client: ClientT, interceptor: WebSearchInterceptor) -> ClientT:
    """Return a copy of an SDK client with the middleware as its innermost.

    Raises:
        ConfigError: it is no client of the anthropic SDK, or of one without middleware.
    """
    given: Any = client
    if isinstance(client, type) or not all(hasattr(client, name) for name in ("messages", "middleware", "with_options")):
        raise ConfigError(f"intercept() takes a client of the anthropic SDK, not a {type(client).__name__}")
    others = [entry for entry in given.middleware if not isinstance(entry, SearchMiddleware)]
    own = SearchMiddleware(interceptor, platform_of(client), given)
    return cast(ClientT, given.with_options(middleware=[*others, own]))


def platform_of(client: Any) -> Platform:
    """Return the platform behind an SDK client. An address may be anybody's, so nothing is taken to search there by itself."""
    if cloud := re.search("Bedrock|Vertex|Foundry", " ".join(kind.__name__ for kind in type(client).__mro__)):
        return PLATFORMS[cloud[0].lower()]
    host = client.base_url.host
    if host == "anthropic.com" or host.endswith(".anthropic.com"):
        return ANTHROPIC
    return replace(platform_at(str(client.base_url)), server_tools=False)


def _thread_refusal() -> anthropic.BadRequestError:
    """Return the API's own refusal of a conversation that the server is to keep: it would keep the calls of our tools.

    The SDK's tool runner asks for one first and goes on with whole histories when it reads this (anthropic 2.12
    `lib/threads/_thread_state.py`, read 2026-11).
    """
    error = {
        "type": "invalid_request_error",
        "message": "a conversation kept by the server (thread) cannot be searched for here; send the whole history instead",
        "details": {"error_code": "thread_unsupported_request", "unsupported": ["web_search"]},
    }
    response = httpx2.Response(400, request=httpx2.Request("POST", f"http://localhost{MESSAGES}"))
    return anthropic.BadRequestError(str(error["message"]), response=response, body={"type": "error", "error": error})
