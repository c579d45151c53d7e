"""The one door to the model: the anthropic SDK, opened here and nowhere else.

The SDK (2.x) gives keys, headers, platforms and error classes. The stream is read as the raw server-sent events, as plain
dicts: unknown events and blocks then pass through unharmed, bodies without `event:` lines (some proxies) are understood
where the SDK would ignore them, and no time goes into models that the loop does not need. Nor does it go into the SDK's copy
of every request: what needs no rewriting for its platform is sent as JSON. Retrying is the loop's decision (`retry`), because
only the loop knows whether text has been shown and how much time is left.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from ipy_websearch.background import close_with
from ipy_websearch.errors import ModelError
from ipy_websearch.http.response import retry_after
from ipy_websearch.model.bodies import NO_MESSAGE, parsed_message, stream_pieces
from ipy_websearch.model.clients import SdkClients
from ipy_websearch.model.opening import CLOUDS, open_client
from ipy_websearch.model.platforms import OFFLINE, PLATFORMS, Platform, platform_at
from ipy_websearch.model.refusals import explain
from ipy_websearch.text import plain, shorten

if TYPE_CHECKING:
    import anthropic
    import httpx2

MESSAGES = "/v1/messages"
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 600.0
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError")
_TOO_LARGE = "AnswerTooLarge"  # of `bounded`, by its name: the HTTP library need not be there yet
_HTTP_LIBRARIES = ("httpx2", "httpcore2", "httpcore", "aiohttp", "httpx_aiohttp")


class ModelClient:
    """Sends one request at a time and gives its events; the SDK's clients belong to the background loop.

    `api_key` and `platform` (a name in `PLATFORMS`, "" for the one at ANTHROPIC_BASE_URL) are asked for at each request, so
    that what is set later in the session is used. `redact` takes keys out of error texts.
    """

    def __init__(
        self,
        *,
        api_key: Callable[[], str | None],
        platform: Callable[[], str] = str,
        offline: bool = False,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.offline = offline
        self._platform = platform
        self._api_key = api_key
        self._redact = redact
        self._request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
        self._clients = SdkClients()
        close_with(self, self._clients.aclose)

    @property
    def platform(self) -> Platform:
        """What the platform in force can take."""
        if self.offline:
            return OFFLINE
        return PLATFORMS[self._platform()] if self._platform() else platform_at(os.environ.get("ANTHROPIC_BASE_URL"))

    async def prepare(self) -> None:
        """Import the SDK, which takes a second the first time: before the clock of any request starts."""
        if "anthropic" not in sys.modules:
            await asyncio.to_thread(importlib.import_module, "anthropic")

    async def stream(self, body: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Send a Messages API request and yield its stream events one by one; errors as for `pieces`."""
        async for events in self.pieces(body):
            for event in events:
                yield event

    async def pieces(self, body: Mapping[str, Any]) -> AsyncIterator[list[dict[str, Any]]]:
        """Send a Messages API request and yield its stream events as dicts, as they arrive: together what came together.

        Raises:
            ModelError: the API refused it, could not be reached, or sent an `error` event (then `status` is 200).
        """
        async with self.opened() as client:
            if self.platform.name == "bedrock":  # its stream is no text: only the SDK can decode it
                async for typed in await client.messages.create(**body, stream=True, timeout=request_timeout()):
                    yield [typed.to_dict()]
                return
            response = await self._send(client, {**body, "stream": True})
            try:
                self._request_id.set(response.headers.get("request-id"))
                async for events in self._arriving(response):
                    error = next((event for event in events if event.get("type") == "error"), None)
                    yield events if error is None else events[: events.index(error)]
                    if error is not None:
                        raise self.stream_error(error)
            finally:
                await response.aclose()

    async def response(self, body: Mapping[str, Any]) -> httpx2.Response:
        """Return the response, read to its end, to a Messages API request that does not ask for a stream.

        Raises:
            ModelError: the API refused it, or could not be reached.
        """
        async with self.opened() as client:
            return await self._send(client, body)

    async def _send(self, client: anthropic.AsyncAnthropic, body: Mapping[str, Any]) -> httpx2.Response:
        """Return the response to a request; that of a stream is still to be read, and to be closed."""
        import httpx2

        options: Any = {"timeout": request_timeout()}
        streamed, cloud = bool(body.get("stream")), self.platform.name in CLOUDS
        if streamed and (cloud or _is_traced()):
            entered: Any = client.messages.with_streaming_response.create(**body, **options)
            return (await entered.__aenter__()).http_response
        # A cloud's client rewrites the body; the others would only copy it, which takes longer than to write it.
        how: Any = {"body": dict(body)} if cloud else {"content": _json(body).encode("utf-8", "replace")}
        post: Any = client.post
        return await post(MESSAGES, cast_to=httpx2.Response, options=options, stream=streamed, **how)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[anthropic.AsyncAnthropic]:
        """Give the SDK's client for the key and address that are set now; call this on the background loop.

        Raises:
            ModelError: whatever the SDK and its HTTP libraries raise inside.
            ConfigError: a key, an address or a package is missing.
        """
        client = await self._client()
        async with self._clients.in_use(client):
            with self._translated(client):
                yield client

    async def whole(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a Messages API request and return the message that answers it; see `model.whole`."""
        from ipy_websearch.model.whole import whole_message

        return await whole_message(self, body)

    @contextmanager
    def _translated(self, client: anthropic.AsyncAnthropic) -> Iterator[None]:
        """Turn whatever the SDK and its HTTP libraries raise into `ModelError`."""
        import anthropic

        try:
            yield
        except anthropic.APIStatusError as exc:
            raise self._status_error(exc) from None
        except anthropic.APITimeoutError as exc:
            raise ModelError(f"the model did not answer in time ({self._address(client)})", kind="timeout_error") from exc
        except anthropic.AnthropicError as exc:
            raise self._connection_error(exc, client) from None
        except (json.JSONDecodeError, RecursionError) as exc:
            why = exc.msg if isinstance(exc, json.JSONDecodeError) else "nested too deeply"
            raise ModelError(f"the model's answer is not JSON ({why}); is {self._address(client)} a Messages API?") from exc
        except Exception as exc:
            if type(exc).__module__.split(".")[0] not in _HTTP_LIBRARIES and type(exc).__name__ != _TOO_LARGE:
                raise
            raise self._connection_error(exc, client) from None

    async def _arriving(self, response: httpx2.Response) -> AsyncIterator[list[dict[str, Any]]]:
        if "json" in response.headers.get("content-type", ""):
            yield replay_message(self.message_in(await response.aread()))
            return
        async for events in stream_pieces(response, self._redact):
            yield events

    def message_in(self, content: bytes) -> dict[str, Any]:
        """Return the message that is the whole body of an answer.

        Raises:
            ModelError: it holds none, or the API's error in place of one.
        """
        message = parsed_message(content, self._redact)
        if message.get("type") == "error":
            raise self.stream_error(message)
        return message

    @property
    def request_id(self) -> str | None:
        """The API's name for the newest request of the running task."""
        return self._request_id.get()

    async def check(self) -> None:
        """Ask for the list of models, which is free, to see whether the key is taken.

        Raises:
            ModelError: the API refused, or could not be reached.
        """
        async with self.opened() as client:
            await client.models.list(limit=1)

    async def aclose(self) -> None:
        """Close the SDK's clients; the next request opens another."""
        await self._clients.aclose()

    async def _client(self) -> anthropic.AsyncAnthropic:
        """Return the client for the key and address that are set now."""
        key = None if self.offline else self._api_key()
        settings = (self.platform.name, key, os.environ.get("ANTHROPIC_BASE_URL"))
        return self._clients.newest(settings, lambda: open_client(self.platform.name, key))

    def _address(self, client: Any) -> str:
        return str(client.base_url).rstrip("/")

    def _connection_error(self, exc: Exception, client: Any) -> ModelError:
        cause = exc.__cause__ or exc
        if type(cause).__name__ == _TOO_LARGE:
            text = f"{self._address(client)} sent {cause}, more than a model writes; is ANTHROPIC_BASE_URL right?"
            return ModelError(text, status=200, kind=NO_MESSAGE)
        detail = shorten(self._redact(plain(str(cause)) or type(cause).__name__), 160)
        return ModelError(
            f"could not reach the model at {self._address(client)}: {detail}; check the network, or use --model offline",
            kind=_kind_of(type(cause).__name__),
        )

    def _status_error(self, exc: anthropic.APIStatusError) -> ModelError:
        detail = shorten(self._redact(plain(getattr(exc, "api_message", None) or str(exc))), 300)
        status, kind = exc.status_code, str(getattr(exc, "type", "") or "")
        wait_s = retry_after(exc.response.headers)
        return ModelError(
            explain(status, detail, kind, wait_s),
            status=status,
            request_id=exc.request_id,
            retry_after=wait_s,
            kind=kind if exc.response.headers.get("x-should-retry") != "false" else "do_not_retry",
        )

    def stream_error(self, event: Mapping[str, Any]) -> ModelError:
        """Return what an `error` event of a stream says, as an error."""
        error = event.get("error") or {}
        detail = shorten(self._redact(plain(error.get("message")) or "no reason given"), 300)
        kind = str(error.get("type") or "")
        return ModelError(
            f"the model broke off its answer: {detail} ({kind or 'error'})",
            status=200,
            request_id=event.get("request_id") or self.request_id,
            kind=kind,
        )


def _kind_of(cause: str) -> str:
    """Return the kind of an error of the HTTP library: whether the request was never sent, is lost, or went in circles."""
    if cause == "TooManyRedirects":
        return NO_MESSAGE
    return "connection_error" if cause in _NEVER_SENT else "connection_lost"


@cache
def request_timeout() -> Any:
    """Return how long the SDK waits for a connection, and for the next bytes."""
    import httpx2

    return httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)


def _is_traced() -> bool:
    """Say whether the SDK would write OpenTelemetry spans, which it makes of the body."""
    try:
        from opentelemetry import trace
    except ImportError:
        return False
    configured = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    return configured or trace.get_current_span().get_span_context().is_valid


def replay_message(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the stream events of a whole message, for servers that answer JSON although a stream was asked for."""
    head = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": head}]
    for index, block in enumerate(message.get("content") or []):
        events.append({"type": "content_block_start", "index": index, "content_block": block, "whole": True})
        events.append({"type": "content_block_stop", "index": index})
    delta = {name: message.get(name) for name in ("stop_reason", "stop_sequence", "stop_details")}
    events.append({"type": "message_delta", "delta": delta, "usage": message.get("usage") or {}})
    events.append({"type": "message_stop"})
    return events
