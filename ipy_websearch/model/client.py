"""The one door to the model: the anthropic SDK, opened here and nowhere else.

The SDK (2.x) gives keys, headers, platforms and error classes; `stream` reads what it answers. Keys and addresses of a platform
come from the places that the SDK documents for it (2.12). Retries are off: the loop decides about them.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal

from ipy_websearch.background import close_with
from ipy_websearch.errors import ConfigError, ModelError
from ipy_websearch.model.platforms import OFFLINE, PLATFORMS, Platform, platform_at, settled
from ipy_websearch.model.stream import Event, connection_error, reply_events, status_error
from ipy_websearch.settings import OFFLINE_MODEL

if TYPE_CHECKING:
    import anthropic
    import httpx2

Lack = Literal["tools", "output_config"]

MESSAGES = "/v1/messages"
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 600.0
_HTTP_LIBRARIES = ("httpx2", "httpcore2", "httpcore", "aiohttp", "httpx_aiohttp")

CLOUDS = {
    "bedrock": ("AsyncAnthropicBedrock", "AWS credentials and AWS_REGION"),
    "vertex": ("AsyncAnthropicVertex", "Google credentials, ANTHROPIC_VERTEX_PROJECT_ID and CLOUD_ML_REGION"),
    "foundry": ("AsyncAnthropicFoundry", "ANTHROPIC_FOUNDRY_API_KEY and ANTHROPIC_FOUNDRY_RESOURCE"),
}
"""The SDK's client for each cloud, and what it wants to find."""


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
        http_client = anthropic.DefaultAioHttpClient()
    except OSError as exc:  # SSL_CERT_FILE or SSL_CERT_DIR leads nowhere
        raise ConfigError(
            f"the certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be read ({exc}); mend or unset it"
        ) from exc
    # A local server wants no key, but the SDK wants one to be given.
    return anthropic.AsyncAnthropic(api_key=key if key or token else "none", http_client=http_client, max_retries=0)


def open_in_process(reply: Callable[..., Any] | None = None) -> Any:
    """Return the SDK's client for a Messages API inside this process; `reply` (None: the offline server's) answers it."""
    import anthropic

    from ipy_websearch.model.offline.server import OfflineTransport, reply_to

    http_client = anthropic.DefaultAsyncHttpxClient(transport=OfflineTransport(reply or reply_to))
    return anthropic.AsyncAnthropic(
        api_key=OFFLINE_MODEL, base_url="http://offline.invalid", http_client=http_client, max_retries=0
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
        self.redact = redact
        self._platform = platform
        self._api_key = api_key
        self._request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
        self._clients: dict[tuple[Any, ...], anthropic.AsyncAnthropic] = {}
        self._lacks: set[tuple[str | None, str, Lack]] = set()
        close_with(self, partial(_close_all, self._clients))

    @property
    def platform(self) -> Platform:
        """What the platform in force can take."""
        if self.offline:
            return OFFLINE
        return PLATFORMS[self._platform()] if self._platform() else platform_at(os.environ.get("ANTHROPIC_BASE_URL"))

    def platform_for(self, model: str) -> Platform:
        """Return what the platform in force can take with a model: a server at an address may serve any."""
        address = os.environ.get("ANTHROPIC_BASE_URL")
        assumed = bool(address) and not self.offline and not self._platform()
        return replace(settled(replace(self.platform, assumed=assumed), "", model), assumed=False)

    def lacks(self, model: str, what: Lack) -> bool:
        """Say whether the server has refused something of a request to a model before."""
        return (os.environ.get("ANTHROPIC_BASE_URL"), model, what) in self._lacks

    def note_lack(self, model: str, what: Lack) -> None:
        """Remember that the server refuses something for a model, or that the model does not use it."""
        self._lacks.add((os.environ.get("ANTHROPIC_BASE_URL"), model, what))

    async def prepare(self) -> None:
        """Import the SDK, which takes a second the first time: before the clock of any request starts."""
        if "anthropic" not in sys.modules:
            await asyncio.to_thread(importlib.import_module, "anthropic")

    @property
    def request_id(self) -> str | None:
        """The API's name for the newest request of the running task."""
        return self._request_id.get()

    async def events(self, body: Mapping[str, Any], *, streamed: bool = True) -> AsyncIterator[list[Event]]:
        """Send a Messages API request and give its stream events as dicts, as they arrive: together what came together.

        Raises:
            ModelError: the API refused it, could not be reached, or sent an `error` event (then `status` is 200).
            ConfigError: a key, an address or a package is missing; nothing was sent.
        """
        with self.opened() as client:
            response = await self._send(client, {**body, "stream": True} if streamed else body)
            try:
                self._request_id.set(response.headers.get("request-id"))
                kind = response.headers.get("content-type", "")
                # Where no stream was asked for, what is none is read as JSON, so that what stands in its place is told.
                kind = kind if streamed or "event-stream" in kind else "json"
                async for events in reply_events(kind, response.aiter_bytes(), self.redact, self.request_id):
                    yield events
            finally:
                await response.aclose()

    async def whole_reply(self, body: Mapping[str, Any]) -> list[Event]:
        """Send a Messages API request that nobody watches and return all events of its reply, at half the processor time.

        Raises:
            ModelError: the API refused it, could not be reached, or answered with something that is no message.
        """
        return [event async for events in self.events(body, streamed=False) for event in events]

    async def check(self) -> None:
        """Ask for the list of models, which is free, to see whether the key is taken.

        Raises:
            ModelError: the API refused, or could not be reached.
        """
        with self.opened() as client:
            await client.models.list(limit=1)

    @contextmanager
    def opened(self) -> Iterator[anthropic.AsyncAnthropic]:
        """Give the SDK's client for the key and address that are set now.

        Raises:
            ModelError: whatever the SDK and its HTTP libraries raise inside.
            ConfigError: a key, an address or a package is missing.
        """
        import anthropic

        client = self._client()
        address = str(client.base_url).rstrip("/")
        try:
            yield client
        except anthropic.APIStatusError as exc:
            raise status_error(exc, self.redact) from None
        except anthropic.APITimeoutError as exc:
            raise ModelError(f"the model did not answer in time ({address})", kind="timeout_error") from exc
        except anthropic.AnthropicError as exc:
            raise connection_error(exc, address, self.redact) from None
        except (json.JSONDecodeError, RecursionError) as exc:
            raise ModelError(f"the model's answer is not JSON; is {address} a Messages API?") from exc
        except Exception as exc:
            if type(exc).__module__.split(".")[0] not in _HTTP_LIBRARIES:
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

    async def _send(self, client: anthropic.AsyncAnthropic, body: Mapping[str, Any]) -> httpx2.Response:
        """Return the response to a request; that of a stream is still to be read, and to be closed."""
        import httpx2

        options: Any = {"timeout": request_timeout()}
        streamed = bool(body.get("stream"))
        if streamed and self.platform.name in CLOUDS:
            entered: Any = client.messages.with_streaming_response.create(**body, **options)
            return (await entered.__aenter__()).http_response
        # The body is JSON already; the SDK's own preparation, which the clouds need, copies all of it value by value.
        sent: dict[str, Any] = {"content": json.dumps(body, ensure_ascii=False).encode()}
        if self.platform.name in CLOUDS:
            sent = {"body": dict(body)}
        post: Any = client.post
        response: httpx2.Response = await post(MESSAGES, cast_to=httpx2.Response, options=options, stream=streamed, **sent)
        return response


async def _close_all(clients: dict[tuple[Any, ...], anthropic.AsyncAnthropic]) -> None:
    for settings in list(clients):
        await clients.pop(settings).close()


@cache
def request_timeout() -> Any:
    """Return how long the SDK waits for a connection, and for the next bytes."""
    import httpx2

    return httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
