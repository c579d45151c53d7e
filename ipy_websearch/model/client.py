"""The one door to the model: the anthropic SDK's clients, opened here and nowhere else, and a reader of their replies: streams,
whole messages, the blocks they add up to, errors.

The SDK (2.x) gives keys, headers, platforms and error classes. Keys and addresses of a platform come from the places that the
SDK documents for it (2.12).

The stream is read here, and not by the SDK, for two reasons: its decoder takes one line at a time, which doubles the cost of a
long answer, and it ignores events without an `event:` line, which some proxies send. Unknown events and blocks pass through.
Facts: platform.claude.com/docs/en/build-with-claude/streaming, read 2026-11.

The SDK retries nothing here (`max_retries=0`): only the loop knows whether text was shown and how much time is left. The rules
are the SDK's (408, 409, 429, 5xx and lost connections; `x-should-retry` and `retry-after` obeyed; half a second, doubled, at
most eight), with two changes: `retry-after` is obeyed for at most a minute, where the SDK would sleep for hours, and a reached
spend cap (a 429 that no waiting mends) is not retried.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ipy_websearch.background import close_with
from ipy_websearch.errors import ConfigError, ModelError
from ipy_websearch.http.client import bad_environment, call_address, retry_after, tls_context
from ipy_websearch.model.requests import OFFLINE, PLATFORMS, Platform, platform_at, settled
from ipy_websearch.results import Usage
from ipy_websearch.settings import OFFLINE_MODEL
from ipy_websearch.text import duration, plain, shorten, sound

if TYPE_CHECKING:
    import anthropic

Event = dict[str, Any]

# --- the SDK's clients ----------------------------------------------------------------------------------------------------

MESSAGES = "/v1/messages"
_LIBRARIES = ("anthropic", "httpx2", "httpcore2", "httpcore", "aiohttp", "httpx_aiohttp")

# The SDK's client for each cloud, and what it wants to find.
CLOUDS = {
    "bedrock": ("AsyncAnthropicBedrock", "AWS credentials and AWS_REGION"),
    "vertex": ("AsyncAnthropicVertex", "Google credentials, ANTHROPIC_VERTEX_PROJECT_ID and CLOUD_ML_REGION"),
    "foundry": ("AsyncAnthropicFoundry", "ANTHROPIC_FOUNDRY_API_KEY and ANTHROPIC_FOUNDRY_RESOURCE"),
}


def open_client(platform: str, key: str | None) -> Any:
    """Return the SDK's asynchronous client for a platform ("" and "anthropic": the first-party API or ANTHROPIC_BASE_URL).

    Raises:
        ConfigError: a key, an address, credentials or a package is missing; the message says which.
    """
    import anthropic

    if platform == OFFLINE_MODEL:
        return open_in_process()
    if platform in CLOUDS:
        return open_cloud(platform)
    token = os.environ.get("ANTHROPIC_AUTH_TOKEN")
    if key is None and not token and not os.environ.get("ANTHROPIC_BASE_URL"):
        raise ConfigError("no Anthropic key is set: run `%websearch key anthropic`, or use --model offline")
    try:
        http_client = anthropic.DefaultAioHttpClient(verify=tls_context())
    except ValueError as exc:
        raise bad_environment() from exc
    # A local server wants no key, but the SDK wants one to be given.
    return anthropic.AsyncAnthropic(api_key=key if key or token else "none", http_client=http_client, max_retries=0)


def open_in_process(reply: Callable[..., Any] | None = None) -> Any:
    """Return the SDK's client for a Messages API inside this process; `reply` (None: the offline server's) answers it."""
    import anthropic

    from ipy_websearch.model.offline.server import OfflineTransport, reply_to

    return anthropic.AsyncAnthropic(
        api_key=OFFLINE_MODEL,
        base_url="http://offline.invalid",
        http_client=anthropic.DefaultAsyncHttpxClient(transport=OfflineTransport(reply or reply_to)),
        max_retries=0,
    )


def open_cloud(platform: str) -> Any:
    """Return the SDK's asynchronous client for a cloud.

    Raises:
        ConfigError: credentials or a package are missing.
    """
    class_name, wants = CLOUDS[platform]
    try:
        return getattr(importlib.import_module("anthropic"), class_name)(max_retries=0)
    except ImportError as exc:
        raise ConfigError(f'{platform} needs more packages: pip install "anthropic[{platform}]"') from exc
    except Exception as exc:  # each cloud's library has errors of its own for what is missing
        raise ConfigError(f"{platform} could not be opened ({type(exc).__name__}); it needs {wants}") from exc


class ModelClient:
    """Sends one request at a time and gives its events, on the background loop.

    `api_key` and `platform` (a name in `PLATFORMS`, "" for the one at ANTHROPIC_BASE_URL) are asked for at each request, so
    that what is set later in the session is used. `redact` takes keys out of error texts. `without_tools` are the models for
    which the server has refused tools, or that called none.
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
        self.redact = redact
        self._platform = platform
        self._api_key = api_key
        self._clients: dict[tuple[Any, ...], anthropic.AsyncAnthropic] = {}
        self.without_tools: set[str] = set()
        close_with(self, partial(_close_all, self._clients))

    @property
    def platform(self) -> Platform:
        """What the platform in force can take."""
        if self.offline:
            return OFFLINE
        return PLATFORMS[self._platform()] if self._platform() else platform_at(os.environ.get("ANTHROPIC_BASE_URL"))

    def platform_for(self, model: str) -> Platform:
        """Return the features of the platform in force with a model: a server at an address may serve any."""
        return settled(self.platform, "", model)

    async def prepare(self) -> None:
        """Import the SDK, which takes a second the first time: before the clock of any request starts."""
        if "anthropic" not in sys.modules:
            await asyncio.to_thread(importlib.import_module, "anthropic")

    async def events(self, body: Mapping[str, Any], *, streamed: bool = True) -> AsyncIterator[list[Event]]:
        """Send a Messages API request and give its stream events as dicts, as they arrive: together what came together.

        Raises:
            ModelError: the API refused it, could not be reached, or sent an `error` event (then `status` is 200).
            ConfigError: a key, an address or a package is missing; nothing was sent.
        """
        import httpx2

        body = {**body, "stream": True} if streamed else body
        with self.opened() as client:
            # The body is JSON already; the SDK's own preparation, which the clouds need, copies all of it value by value.
            is_cloud = self.platform.name in CLOUDS
            sent = {"body": dict(body)} if is_cloud else {"content": json.dumps(body, ensure_ascii=False).encode()}
            response = await client.post(
                MESSAGES, cast_to=httpx2.Response, options={"timeout": client.timeout}, stream=streamed, **sent
            )
            try:
                async for events in reply_events(response.headers, response.aiter_bytes(), self.redact):
                    yield events
            finally:
                await response.aclose()

    async def whole_reply(self, body: Mapping[str, Any]) -> list[Event]:
        """Send a Messages API request that nobody watches and return all events of its reply, at half the processor time.

        Raises:
            ModelError: the API refused it, could not be reached, or answered with something that is no message.
        """
        return [event async for events in self.events(body, streamed=False) for event in events]

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Give the SDK's client (`anthropic.AsyncAnthropic`) for the key and address that are set now.

        Raises:
            ModelError: whatever the SDK and its HTTP libraries raise inside.
            ConfigError: a key, an address or a package is missing.
        """
        import anthropic

        client = self._client()
        address = call_address(str(client.base_url).rstrip("/"))
        try:
            yield client
        except anthropic.APIStatusError as exc:
            raise status_error(exc, self.redact) from None
        except Exception as exc:
            if type(exc).__module__.split(".")[0] not in _LIBRARIES:
                raise
            raise connection_error(exc, address, self.redact) from None

    async def aclose(self) -> None:
        """Close the clients; the next request opens one again."""
        await _close_all(self._clients)

    def _client(self) -> anthropic.AsyncAnthropic:
        key = None if self.offline else self._api_key()
        settings = (self.platform.name, key, os.environ.get("ANTHROPIC_BASE_URL"))
        if settings not in self._clients:
            self._clients[settings] = open_client(self.platform.name, key)
        return self._clients[settings]


async def _close_all(clients: dict[tuple[Any, ...], anthropic.AsyncAnthropic]) -> None:
    for settings in list(clients):
        await clients.pop(settings).close()


# --- a body as events --------------------------------------------------------------------------------------------------

# The kind of the error for what is no answer of the Messages API: a login page, some other service's JSON.
NO_MESSAGE = "no_message"

# The content type of Bedrock's own form of a stream.
BINARY = "vnd.amazon.eventstream"

_CLOUD_ERRORS = {  # `ResponseStream` of botocore 1.44, `bedrock-runtime/2023-09-30/service-2.json`, read 2026-11
    "throttlingException": "rate_limit_error",
    "serviceUnavailableException": "overloaded_error",
    "modelTimeoutException": "timeout_error",
    "validationException": "invalid_request_error",
}

EventLists = AsyncIterator[list[Event]]


async def reply_events(
    headers: Mapping[str, str], pieces: AsyncIterator[bytes], redact: Callable[[str], str] = str
) -> EventLists:
    """Yield the events of a reply with these headers: streamed, or one JSON object, which some servers send always.

    Raises:
        ModelError: it is no reply of the Messages API, or an `error` event came (after the events before it were yielded).
    """
    kind = headers.get("content-type", "")
    if "json" in kind or "html" in kind:  # a login page is told as what it is
        lists = json_events(pieces, redact)
    else:  # a stream, whatever else it is called on its way
        lists = binary_events(pieces) if BINARY in kind else read_events(pieces, redact)
    async for events in lists:
        for n, event in enumerate(events):
            if event.get("type") == "error":
                yield events[:n]
                raise event_error(event, redact, headers.get("request-id"))
        yield events


async def binary_events(pieces: AsyncIterator[bytes]) -> EventLists:
    """Yield the events of a body in Bedrock's own form, which the SDK reads; its errors get the API's names.

    Raises:
        ModelError: it is damaged.
    """
    from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder
    from botocore.eventstream import ParserError

    try:
        async for event in AWSEventStreamDecoder().aiter_bytes(pieces):
            read = json.loads(event.data or "{}")
            if event.event == "error":
                read["error"]["type"] = _CLOUD_ERRORS.get(read["error"].get("type"), "api_error")
            if read:
                yield [read]
    except (ParserError, ValueError, LookupError, TypeError, AttributeError) as exc:
        raise ModelError(f"the model's answer cannot be read ({exc})", status=200, kind="truncated") from exc


async def read_events(pieces: AsyncIterator[bytes], redact: Callable[[str], str]) -> EventLists:
    """Yield the server-sent events of a body, as many at once as have come.

    Raises:
        ModelError: an event is not JSON, or the body is no stream of the Messages API: text, or another API's events.
    """
    held, began, is_ours = list[bytes](), b"", False
    async for piece in pieces:
        began = began or piece.strip()
        held.append(piece)
        if b"\n" in piece or b"\r" in piece:  # else no event ends here, and a long one would be looked through with each piece
            *frames, rest = b"".join(held).replace(b"\r\n", b"\n").replace(b"\r\r", b"\n\n").split(b"\n\n")
            held = [rest]
            events = [event for frame in frames for event in _events_in(frame)]
            is_ours = is_ours or any("type" in event for event in events)
            if events and not is_ours:
                raise no_message(began, redact)
            yield events
    with suppress(ModelError):  # the last one may lack the empty line behind it; what a stream broke off with is none
        yield _events_in(b"".join(held))
    if began and not is_ours and not re.match(rb"(event|data|id|retry)?:", began):  # what begins as a stream was cut off
        raise no_message(began, redact)


def _events_in(frame: bytes) -> list[Event]:
    """Return the event of a frame, none when it has no data.

    Raises:
        ModelError: its data is not JSON.
    """
    data = [line[5:] for line in frame.splitlines() if line.startswith(b"data:")]
    try:
        event = json.loads(b"\n".join(data).decode("utf-8", "replace")) if data and data != [b" [DONE]"] else None
    except (ValueError, RecursionError) as exc:
        raise ModelError(f"the model's answer is not JSON ({exc})", status=200, kind="truncated") from exc
    return [event] if isinstance(event, dict) else []


async def json_events(pieces: AsyncIterator[bytes], redact: Callable[[str], str]) -> EventLists:
    """Yield the events of a body that is one message, or the API's error object.

    Raises:
        ModelError: it is neither; of the kind `NO_MESSAGE` when asking again is of no use.
    """
    content = b"".join([piece async for piece in pieces]).strip()
    try:
        message = json.loads(content.decode("utf-8-sig", "replace"))
        events = [message] if message.get("type") == "error" else list(message_events(message))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
        if not content or (content.startswith(b"{") and not content.endswith(b"}")):
            raise ModelError("the model's answer ended too soon", status=200, kind="truncated") from exc
        raise no_message(content, redact) from None
    yield events


def no_message(content: bytes, redact: Callable[[str], str]) -> ModelError:
    """Return the error for a body that is no answer of the Messages API."""
    what = f"what came is no message of the Messages API ({excerpt(content, 80, redact) or 'a page without text'})"
    return ModelError(f"{what}; is ANTHROPIC_BASE_URL right, and no login page in between?", status=200, kind=NO_MESSAGE)


def excerpt(content: bytes, width: int, redact: Callable[[str], str] = str) -> str:
    """Return how a body begins, as one line of plain text; `redact` takes keys out of it."""
    return shorten(redact(plain(content[:400].decode("utf-8", "replace"))), width)


def message_events(message: Mapping[str, Any]) -> Iterator[Event]:
    """Yield a whole message as the events of its stream, in the order in which the API sends them."""
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        deltas: list[dict[str, Any]] = []
        if block.get("type") == "text":  # which is shown as it comes
            deltas = [{"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ()]
            deltas += [{"type": "text_delta", "text": block.get("text") or ""}]
            block = {**block, "text": "", "citations": []}
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    delta = {name: message.get(name) for name in ("stop_reason", "stop_sequence", "stop_details")}
    yield {"type": "message_delta", "delta": delta, "usage": message.get("usage") or {}}
    yield {"type": "message_stop"}


# --- a reply -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reply:
    """A reply as far as it has arrived. `complete` is True once `message_stop` was seen.

    Blocks keep every field that the API sent, known or not: the last assistant turn goes back unchanged. `malformed` are the
    ids of calls whose input is no JSON object. `container` is where the platform ran code (its id goes into the next request).
    """

    model: str = ""
    stop_reason: str | None = None
    stop_details: Mapping[str, Any] | None = None
    complete: bool = False
    usage_fields: dict[str, Any] = field(default_factory=dict)
    blocks: dict[int, dict[str, Any]] = field(default_factory=dict)
    malformed: set[str] = field(default_factory=set)
    container: Mapping[str, Any] | None = None
    _json: dict[int, list[str]] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)

    @property
    def usage(self) -> Usage:
        """What the API has reported so far; the counts of `message_delta` are totals and replace earlier ones."""
        return Usage.from_api(self.usage_fields)

    @property
    def content(self) -> list[dict[str, Any]]:
        """The blocks in order."""
        return [self.blocks[index] for index in sorted(self.blocks)]

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(block.get("text", "") for block in self.content if block.get("type") == "text")

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take one event in.

        Raises:
            ModelError: the event's fields have types that the API never sends.
        """
        try:
            index, delta = int(event.get("index") or 0), event.get("delta") or {}  # some servers send null
            match event.get("type"):  # ping, and events that do not exist yet, are passed over
                case "message_start":
                    message = event.get("message") or {}
                    self.model = str(message.get("model") or "")
                    self._head(message.get("usage"), message.get("container"))
                case "content_block_start":
                    self._start(index, dict(event.get("content_block") or {}))
                case "content_block_delta":
                    self._delta(index, delta)
                case "content_block_stop":
                    self._stop(index)
                case "message_delta":
                    self.stop_reason = _string(delta.get("stop_reason")) or self.stop_reason
                    self.stop_details = dict(delta.get("stop_details") or {}) or self.stop_details
                    self._head(event.get("usage"), delta.get("container"))
                case "message_stop":
                    self.complete = True
        except (TypeError, AttributeError, ValueError, OverflowError) as exc:
            kind = shorten(plain(str(event.get("type"))), 40)
            raise ModelError(f"the model's answer has a faulty {kind!r} event", status=200, kind="truncated") from exc

    def _head(self, usage: Any, container: Any) -> None:
        """Take in the fields that the beginning and the end of a message share."""
        if isinstance(usage, Mapping):
            self.usage_fields.update({name: value for name, value in usage.items() if value is not None})
        if isinstance(container, Mapping) and isinstance(container.get("id"), str):
            self.container = container

    def _start(self, index: int, block: dict[str, Any]) -> None:
        block.update({n: _string(block[n]) for n in ("id", "name", "tool_use_id", "text", "thinking") if n in block})
        if block.get("type") == "text":
            block["citations"] = list(map(dict, block.get("citations") or []))
        self.blocks[index] = block
        self._open.add(index)

    def _delta(self, index: int, delta: Mapping[str, Any]) -> None:
        block = self.blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.get("type"):  # a delta that does not exist yet is passed over
            case "text_delta":
                block["text"] = block.get("text", "") + (delta.get("text") or "")
            case "input_json_delta":
                self._json.setdefault(index, []).append(str(delta.get("partial_json") or ""))
            case "citations_delta":
                block.setdefault("citations", []).append(dict(delta.get("citation") or {}))
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + (delta.get("thinking") or "")
            case "signature_delta" | "compaction_delta":  # these come once, whole (anthropic 2.12 `_beta_messages.py`)
                block.update({name: value for name, value in delta.items() if name != "type"})

    def _stop(self, index: int) -> None:
        block = self.blocks.get(index, {})
        self._open.discard(index)
        if text := "".join(self._json.pop(index, ())):
            try:
                block["input"] = dict(json.loads(text) or {})  # the API refuses a history with anything but an object
            except (ValueError, TypeError, RecursionError):
                block["input"] = {}
                self.malformed.add(str(block.get("id", "")))
        block.update(sound(block))
        if block.get("type") == "text" and not block.get("citations"):
            block.pop("citations", None)

    def close(self) -> list[Event]:
        """Finish the blocks that a broken stream left open; return the events that end them. Their calls count as malformed."""
        opened = sorted(self._open)
        for index in opened:
            if str(self.blocks[index].get("type", "")).endswith("tool_use"):
                self.malformed.add(str(self.blocks[index].get("id", "")))
            self._stop(index)
        return [{"type": "content_block_stop", "index": index} for index in opened]


def _string(value: Any) -> str:
    if not isinstance(value, str | None):
        raise TypeError("not a string")
    return value or ""


# --- refusals and losses -----------------------------------------------------------------------------------------------

MAX_RETRIES = 2
SPENT = "billing_error"  # the API's kind for an account whose money is used up, and ours where it says so in other ways
_TRANSIENT = frozenset(
    "overloaded_error api_error rate_limit_error timeout_error connection_error connection_lost truncated".split()
)

_EXPLAINED = {  # platform.claude.com/docs/en/api/errors, read 2026-11
    401: ("the Anthropic API refused the key", "set a valid one with `%websearch key anthropic`"),
    402: ("the Anthropic account has no credit left, or has reached its cap", "add credit or raise the cap in the console"),
    403: ("the Anthropic key may not do this", "check the workspace's permissions"),
    413: ("the question with its context is too large", "ask with less, or begin anew without --follow"),
    429: ("the Anthropic API is limiting requests", "wait a moment and ask again"),
    404: ("the Anthropic API does not know that", "check the model's name, and ANTHROPIC_BASE_URL where it is set"),
    500: ("the Anthropic API is overloaded or failing", "ask again in a moment"),
}


def retry_wait_s(error: ModelError, attempt: int, *, retries: int = MAX_RETRIES) -> float | None:
    """Return the seconds to wait before the request is sent again, None when it should not be.

    `attempt` counts the failures so far, from 1; after more than `retries` of them it is not.
    """
    if attempt > retries or not is_transient(error):
        return None
    if error.retry_after is not None:
        return min(error.retry_after, 60.0)
    return min(8.0, 0.5 * 2.0 ** min(attempt - 1, 9)) * (1 - 0.25 * random.random())


def is_transient(error: ModelError) -> bool:
    """Return whether the same request may succeed a moment later."""
    if error.status in (None, 200):
        return error.kind in _TRANSIENT
    return error.kind not in ("do_not_retry", SPENT) and (error.status in (408, 409, 429) or error.status >= 500)


def may_be_billed(error: ModelError | None) -> bool:
    """Return whether a request of which no usage came may be billed: it went out, and was not refused."""
    if error is None or (error.status == 200 and error.kind == NO_MESSAGE):
        return True
    return error.status in (None, 200) and error.kind in ("connection_lost", "truncated", "timeout_error", "")


def status_error(exc: anthropic.APIStatusError, redact: Callable[[str], str] = str) -> ModelError:
    """Return the SDK's error for a refusal as ours: one line, with what to do."""
    status, headers, named = exc.status_code, exc.response.headers, str(getattr(exc, "type", "") or "")
    detail = shorten(redact(plain(getattr(exc, "api_message", None) or str(exc))), 300)
    kind = "do_not_retry" if headers.get("x-should-retry") == "false" else named
    wait_s = retry_after(headers)
    is_long = status == 400 and "prompt is too long" in detail
    known = 413 if is_long else {405: 404, 502: 500, 503: 500, 504: 500, 529: 500}.get(status, status)
    capped = status == 429 and wait_s is None and re.search("spend|credit|billing|monthly|quota|usage limit", detail, re.I)
    # An account without money gets a 400 too, beside the documented 402.
    if status == 402 or capped or (status == 400 and re.search("credit balance|usage limit", detail, re.I)):
        kind, known = SPENT, 402
    message = f"the Anthropic API refused the request ({status} {named}: {detail})".replace(" :", ":")
    if known in _EXPLAINED:
        what, advice = _EXPLAINED[known]
        if known in (429, 500) and wait_s is not None and wait_s >= 5:
            advice = f"the server asks to be left alone for {duration(wait_s)}"
        message = f"{what} ({status}: {detail}); {advice}"
    return ModelError(message, status=status, request_id=exc.request_id, retry_after=wait_s, kind=kind)


def event_error(event: Mapping[str, Any], redact: Callable[[str], str], request_id: str | None = None) -> ModelError:
    """Return what an `error` event of a stream says, as an error."""
    error = event["error"] if isinstance(event.get("error"), Mapping) else {}
    detail = shorten(redact(plain(error.get("message")) or "no reason given"), 300)
    kind = str(error.get("type") or "")
    message = f"the model broke off its answer: {detail} ({kind or 'error'})"
    return ModelError(message, status=200, request_id=event.get("request_id") or request_id, kind=kind)


def connection_error(exc: BaseException, address: str, redact: Callable[[str], str] = str) -> ModelError:
    """Return the error for a connection that could not be made, or was lost."""
    cause = exc.__cause__ or exc
    name = type(cause).__name__
    said = "" if "Protocol" in name else str(cause)  # h11 quotes bytes that may be the end of somebody else's answer
    detail = shorten(redact(plain(said) or name), 160)
    # What aiohttp raises after the request, httpx calls ConnectError too.
    sent = type(cause.__cause__).__name__ in ("ServerDisconnectedError", "ClientOSError") or name not in (
        "ConnectError",
        "ConnectTimeout",
        "PoolTimeout",
        "UnsupportedProtocol",
        "ProxyError",
    )
    kind = NO_MESSAGE if name == "TooManyRedirects" else "connection_lost" if sent else "connection_error"
    advice = "check ANTHROPIC_BASE_URL, where it is set, and the network, or use --model offline"
    return ModelError(f"could not reach the model at {address}: {detail}; {advice}", kind=kind)
