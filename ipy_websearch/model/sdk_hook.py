"""The hook in somebody else's SDK client: middleware that turns one request into as many as it takes.

One async core serves every client. An async client's calls run in the caller's event loop; a blocking client's run on the
background loop, which has the requests themselves sent and read in the caller's thread (`CallersThread`), where an interrupt
belongs. The middleware runs inside the SDK's own retrying, so the first request's failures are the SDK's; later requests are
sent again by the loop, each by itself, and never make the SDK begin anew.

What this uses of the SDK's inside, and nothing else in the package does (anthropic 2.12, read 2026-11):

    APIRequest.options                 the request with `json_data`, `get_max_retries()`          `_request.py`, `_models.py`
    APIResponse(raw=, cast_to=, …)     the constructor; `_client`, `_options` of a response       `_response.py`
    client._make_sse_decoder()         what reads the stream of a platform                        `_base_client.py`
    AWSEventStreamDecoder              what reads Bedrock's (in `stream.py`)                      `lib/bedrock`
    anthropic._streaming.SSEDecoder    what reads text                                            `_streaming.py`
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
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anthropic
import httpx2
from anthropic._streaming import SSEDecoder

from ipy_websearch import background
from ipy_websearch.errors import BudgetExceededError, ConfigError, ModelError, ReplayError
from ipy_websearch.model.client import ANTHROPIC, PLATFORMS, Platform, platform_at
from ipy_websearch.model.stream import (
    Event,
    Reply,
    connection_error,
    excerpt,
    refusal,
    reply_events,
)

if TYPE_CHECKING:  # a floor above; what is used of both stands in `SearchMiddleware._run` and `_begin`
    from ipy_websearch.interception.interceptor import WebSearchInterceptor
    from ipy_websearch.interception.run import InterceptedCall

ClientT = TypeVar("ClientT")
T = TypeVar("T")

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"

RAW_RESPONSE = "X-Stainless-Raw-Response"

# Seconds of silence after which a caller's stream gets a `ping`, as the API's own does while its tools run: what is in between
# (proxies, load balancers, a client's own limit) takes a connection for dead after 30 to 60.
PING_S = 10.0

_REFUSED = (400, 404, 422, 501)
_OF_THE_BODY = (b"content-type", b"content-encoding", b"content-length", b"transfer-encoding")
_ODD = (TypeError, AttributeError, LookupError, RecursionError)  # events of another form than the API's
LOST = (anthropic.APIConnectionError, httpx2.HTTPError, httpx2.StreamError, OSError)


class Refused(ModelError):
    """A request was answered by an error; `response` is the SDK's, `event` the error as a stream tells it."""

    def __init__(self, response: Any, body: bytes) -> None:
        try:
            self.event: Event | None = {"type": "error", "error": json.loads(body)["error"]}
            said, kind = str(self.event["error"].get("message")), str(self.event["error"].get("type") or "")
        except (ValueError, *_ODD):
            self.event, said, kind = None, excerpt(body, 300), ""
        super().__init__(**refusal(response.status_code, response.headers, said, kind))
        self.response = response


class Lost(ModelError):
    """A request got no answer; `raised` is what the SDK raised."""

    def __init__(self, exc: Exception, address: str) -> None:
        told = connection_error(exc, address, str)
        super().__init__(str(told), kind=told.kind)
        self.raised = exc


# --- the two kinds of clients -----------------------------------------------------------------------------------------


class AsyncSide:
    """Sends and reads for an async client, in the caller's own event loop."""

    def __init__(self, call_next: Any) -> None:
        self.send = call_next

    async def read(self, http: httpx2.Response) -> bytes:
        """Read a body whole."""
        return await http.aread()

    def pieces(self, http: httpx2.Response) -> AsyncIterator[bytes]:
        """Yield a body as it comes."""
        return http.aiter_bytes()

    async def close(self, http: httpx2.Response) -> None:
        """Read no further."""
        await http.aclose()


class CallersThread:
    """Sends and reads for a blocking client: in the caller's thread, which waits in `run` for work on the background loop."""

    def __init__(self, call_next: Any) -> None:
        self._call_next = call_next
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()

    def run(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function on the background loop to its end; what interrupts this thread cancels it."""
        task = background.Task(function)
        task.future.add_done_callback(lambda _: self._jobs.put(None))
        try:
            while (job := self._next_job()) is not None:
                future, called = job
                if future.set_running_or_notify_cancel():
                    try:
                        future.set_result(called())
                    except Exception as exc:
                        future.set_exception(exc)
            return task.future.result()
        except BaseException:
            task.cancel()
            raise

    def _next_job(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        while True:
            with suppress(queue.Empty):
                return self._jobs.get(timeout=background.POLL_S)

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
        self._jobs.put((future, function))
        return await asyncio.wrap_future(future)


# --- the requests of one call -----------------------------------------------------------------------------------------


class Exchange:
    """Sends the requests of one call of the caller. `first` is the SDK's response to the first one, None before it came."""

    def __init__(self, request: Any, side: AsyncSide | CallersThread, middleware: SearchMiddleware) -> None:
        self.request = request
        self.side = side
        self.first: Any = None
        self._middleware = middleware
        self._began = time.perf_counter()

    @property
    def begun(self) -> bool:
        """Whether any request was answered."""
        return self.first is not None

    @property
    def retries(self) -> int:
        """How often a request is sent again: as often as the caller's client does it, where nothing else is said."""
        if self._middleware.retries is not None:
            return self._middleware.retries
        return int(self.request.options.get_max_retries(self.first._client.max_retries))

    async def send(self, body: Mapping[str, Any]) -> AsyncIterator[list[Event]]:
        """Send a request and yield the events of its reply as they come, together what came together.

        Raises:
            Refused: it was answered by an error. Lost: it got no answer. ModelError: its reply broke off.
        """
        response = await self._answered(body)
        http, kind = response.http_response, response.headers.get("content-type", "")
        pieces = in_one_piece(http.content) if http.is_closed else self.side.pieces(http)  # the SDK reads what is no stream
        try:
            async for events in reply_events(kind, pieces, request_id=response.headers.get("request-id")):
                yield events
        except LOST as exc:
            raise Lost(exc, str(http.request.url.host)) from exc
        except (ValueError, *_ODD) as exc:
            raise ModelError(f"the model's answer cannot be read ({exc})", status=200, kind="truncated") from exc
        finally:
            await self.side.close(http)

    def pretend(self) -> None:
        """Take the first request as answered: a cassette gives the replies, and nothing is sent."""
        kind: Any = anthropic.APIResponse if isinstance(self.side, CallersThread) else anthropic.AsyncAPIResponse
        raw = httpx2.Response(200, request=httpx2.Request("POST", f"http://recorded.invalid{MESSAGES}"))
        own = {"stream": False, "stream_cls": None, "options": self.request.options}
        self.first = kind(raw=raw, cast_to=self.request.cast_to, client=self._middleware.client, **own)

    @property
    def headers(self) -> dict[str, Any]:
        """The headers that the caller's key goes up in."""
        return {**getattr(self._middleware.client, "auth_headers", {}), **(self.request.options.headers or {})}

    async def _answered(self, body: Mapping[str, Any]) -> Any:
        response = await self._once(body)
        if response.status_code == 401 and self.begun and (cache := getattr(self.first._client, "_token_cache", None)):
            cache.invalidate()  # a token that expired between two requests; the SDK does the same for the first one
            response = await self._once(body)
        status = response.status_code
        if not 200 <= status < 300 or status in (204, 205):
            said = b""
            with suppress(httpx2.HTTPError):
                said = await self.side.read(response.http_response)
            raise Refused(response, said)
        self.first = self.first or response
        return response

    async def _once(self, body: Mapping[str, Any]) -> Any:
        streamed = {"stream": True} if self.request.stream else {}
        try:
            return await self.side.send(with_body(self.request, {**body, **streamed}))
        except anthropic.APIConnectionError as exc:
            raise Lost(exc, exc.request.url.host) from exc

    # --- what the caller gets -------------------------------------------------------------------------------------------

    def answered(self, **body: Any) -> Any:
        """Return the caller's response, with `content` or `stream` as its body."""
        original, client, streamed = self.first.http_response, self.first._client, self.request.stream
        if streamed:
            client = copy.copy(client)
            client._make_sse_decoder = SSEDecoder  # whatever its platform streams itself (Bedrock: frames)
        kind = b"text/event-stream; charset=utf-8" if streamed else b"application/json"
        headers = [(name, value) for name, value in original.headers.raw if name.lower() not in _OF_THE_BODY]
        raw = httpx2.Response(200, headers=[*headers, (b"content-type", kind)], request=original.request, **body)
        raw.elapsed = timedelta(seconds=time.perf_counter() - self._began)  # httpx knows it of what it has sent itself
        return self._response(raw, client)

    def failed(self, error: ModelError) -> Any:
        """Return the response for a call that failed after its first request: an error that the SDK does not try again."""
        if isinstance(error, Refused):
            response = error.response
        else:
            raw = httpx2.Response(502, json=error_event(error), request=self.first.http_response.request)
            response = self._response(raw, self.first._client)
        response.http_response.headers["x-should-retry"] = "false"
        response.http_response.request.headers["x-stainless-retry-count"] = "1"  # which a 401 is judged by
        return response

    def _response(self, raw: httpx2.Response, client: Any) -> Any:
        request = self.request
        return type(self.first)(
            raw=raw,
            cast_to=request.cast_to,
            client=client,
            stream=request.stream and raw.status_code == 200,
            stream_cls=request.stream_cls,
            options=self.first._options,
            retries_taken=request.retries_taken,
        )


async def in_one_piece(content: bytes) -> AsyncIterator[bytes]:
    """Yield a body that is there already."""
    yield content


def with_body(request: Any, body: dict[str, Any]) -> Any:
    """Return the SDK's request with another body; its own `copy` would copy the old one deeply first.

    A caller who wants the bare response (`cast_to=httpx2.Response`) gets it in the end; on the way, there is one of the SDK's.
    """
    options = request.options.model_copy()
    options.json_data = body
    cast_to = object if request.cast_to is httpx2.Response else request.cast_to
    kept = {"stream": request.stream, "stream_cls": request.stream_cls, "retries_taken": request.retries_taken}
    return anthropic.APIRequest(options=options, cast_to=cast_to, **kept)


# --- the caller's stream ----------------------------------------------------------------------------------------------


class StreamBody(httpx2.AsyncByteStream, httpx2.SyncByteStream):
    """The caller's stream. One that is never read gives back what was reserved for it when it is dropped."""

    def __init__(self, call: InterceptedCall, events: AsyncGenerator[list[Event], None], begun: list[Event], side: Any) -> None:
        self._events = events
        self._pieces = _frames(events, begun)
        self._side = side
        weakref.finalize(self, _release, call)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield piece

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
    if not call.closed:  # its event loop may have ended
        background.elsewhere(call.close, 1.0)


async def _frames(events: AsyncGenerator[list[Event], None], begun: list[Event]) -> AsyncGenerator[bytes, None]:
    """Yield the caller's stream as server-sent events, with a `ping` whenever nothing else has come for a while.

    What cannot be mended ends it with an `error` event, as the API's own streams end.
    """
    made: list[Event] | None = begun
    coming: asyncio.Future[list[Event] | None] | None = None
    try:
        while made is not None:
            yield b"".join(map(frame, made))
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
    """Return the event with which a stream ends that could not go on: the API's own words where there are some."""
    if isinstance(error, Refused) and error.event:
        return error.event
    kind = getattr(error, "kind", "")
    kind = kind if kind.endswith("_error") and kind not in ("connection_error", "timeout_error") else "api_error"
    return {"type": "error", "error": {"type": kind, "message": str(error)}}


# --- the middleware ---------------------------------------------------------------------------------------------------


class SearchMiddleware(anthropic.Middleware):
    """Answers requests that want the web; all others pass untouched.

    `known` says that the platform is what it seems, `retries` how often a later request is sent again (None: as often as the
    client does it).
    """

    def __init__(
        self, interceptor: WebSearchInterceptor, platform: Platform, client: Any, *, known: bool, retries: int | None
    ) -> None:
        self.client = client
        self.retries = retries
        self._interceptor = interceptor
        self._platform = platform
        self._known = known
        self._lacks_search = False

    def handle(self, request: Any, call_next: Any) -> Any:
        """Answer one attempt of a blocking client."""
        call = self._begin(request, forced=self._lacks_search)
        if call is None and not self._offers_native(request):
            return call_next(request)
        side = CallersThread(call_next)
        return side.run(lambda: self._answer(call, Exchange(request, side, self)))

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        """Answer one attempt of an async client."""
        call = self._begin(request, forced=self._lacks_search)
        if call is None and not self._offers_native(request):
            return await call_next(request)
        return await self._answer(call, Exchange(request, AsyncSide(call_next), self))

    async def _answer(self, call: InterceptedCall | None, exchange: Exchange) -> Any:
        """Return the response to a request; where the server refuses the API's own tools, they are run here from then on."""
        if call is not None:
            return await self._run(call, exchange)
        response = await exchange.side.send(exchange.request)
        if response.status_code not in _REFUSED or (call := self._begin(exchange.request, forced=True)) is None:
            return response
        await exchange.side.read(getattr(response, "http_response", response))  # one that was asked for bare is itself
        helped = await self._run(call, exchange)
        self._lacks_search = self._lacks_search or helped.status_code < 400
        return helped

    async def _run(self, call: InterceptedCall, exchange: Exchange) -> Any:
        """Return the caller's response: its stream as soon as that begins, or the whole message."""
        request, events = exchange.request, call.events(exchange)
        if _path(request) == COUNT:
            return await exchange.side.send(with_body(request, _counted(call)))
        whole = Reply()
        try:
            async for arrived in events:
                if request.stream:
                    return exchange.answered(stream=StreamBody(call, events, arrived, exchange.side))
                for event in arrived:
                    whole.apply(event)
            return exchange.answered(content=json.dumps(call.writer.message(whole.content, call.usage)).encode())
        except ModelError as exc:
            if exchange.begun and request.stream:
                return exchange.answered(content=frame(error_event(exc)))
            if exchange.begun:
                return exchange.failed(exc)
            if isinstance(exc, Lost):
                raise exc.raised from exc.raised.__cause__
            if isinstance(exc, Refused):
                return exc.response  # the first request's failure is the SDK's to deal with
            raise

    def _begin(self, request: Any, *, forced: bool) -> InterceptedCall | None:
        body = request.options.json_data
        if request.method.lower() != "post" or not isinstance(body, dict) or _path(request) not in (MESSAGES, COUNT):
            return None
        call = self._interceptor.begin(body, self._platform, forced=forced)
        if call is not None and body.get("thread"):
            raise _thread_refusal(request)
        return call

    def _offers_native(self, request: Any) -> bool:
        """Say whether a server that nobody knows is offered the API's own tools, which it may refuse."""
        body = request.options.json_data
        if self._known or _path(request) != MESSAGES or not isinstance(body, dict):
            return False
        kinds = [str(tool.get("type")) for tool in body.get("tools") or () if isinstance(tool, Mapping)]
        return any(kind.startswith(("web_search_", "web_fetch_")) for kind in kinds)


def with_interception(
    client: ClientT, interceptor: WebSearchInterceptor, *, platform: Platform | None = None, retries: int | None = None
) -> ClientT:
    """Return a copy of an SDK client with the middleware as its innermost; `platform` None is what the client seems to have.

    Raises:
        ConfigError: it is no client of the anthropic SDK, or of one without middleware.
    """
    given: Any = client
    if isinstance(client, type) or not all(hasattr(client, name) for name in ("messages", "middleware", "with_options")):
        raise ConfigError(f"intercept() takes a client of the anthropic SDK, not a {type(client).__name__}")
    found, known = platform_of(client)
    own = SearchMiddleware(interceptor, platform or found, given, known=known, retries=retries)
    others = [entry for entry in given.middleware if not isinstance(entry, SearchMiddleware)]
    return cast(ClientT, given.with_options(middleware=[*others, own]))


def platform_of(client: Any) -> tuple[Platform, bool]:
    """Return the platform behind an SDK client, and whether that is known for sure (an address may be anybody's)."""
    names = " ".join(kind.__name__ for kind in type(client).__mro__)
    if cloud := re.search("Bedrock|Vertex|Foundry", names):
        return PLATFORMS[cloud[0].lower()], True
    host = client.base_url.host
    if host == "anthropic.com" or host.endswith(".anthropic.com"):
        return ANTHROPIC, True
    return replace(platform_at(str(client.base_url)), assumed=True), False


def _thread_refusal(request: Any) -> anthropic.BadRequestError:
    """Return the API's own refusal of a conversation that the server is to keep: it would keep the calls of our tools.

    The SDK's tool runner asks for one first and goes on with whole histories when it reads this (anthropic 2.12
    `lib/threads/_thread_state.py`, read 2026-11).
    """
    message = "a conversation kept by the server (thread) cannot be searched for here; send the whole history instead"
    details = {"error_code": "thread_unsupported_request", "unsupported": ["web_search"]}
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": message, "details": details}}
    response = httpx2.Response(400, json=body, request=httpx2.Request("POST", "http://localhost" + _path(request)))
    return anthropic.BadRequestError(message, response=response, body=body)


def _path(request: Any) -> str:
    return str(request.url).partition("?")[0]


def _counted(call: InterceptedCall) -> dict[str, Any]:
    """Return what the model would be sent, without what a count of tokens does not take.

    Raises:
        ReplayError: a cassette is replayed.
    """
    if (recording := call.session.recording) and recording.replayed_from:
        raise ReplayError("token counts are not on cassettes; `%websearch stop` ends the replay")
    return {name: value for name, value in call.request(final=False).items() if name != "max_tokens"}
