"""The one door to the model: what models and the places that serve them can take, and the anthropic SDK, opened here and
nowhere else.

Sources of the tables: platform.claude.com/docs (models, search results, server tools, prompt caching) and the servers' own
sources, read 2026-11: Ollama's anthropic.go drops unknown blocks, `is_error` and `tool_choice`; vLLM's protocol.py rejects
`search_result`; llama.cpp and LM Studio promise text and tools only. Requests are built from them.

The SDK (2.x) gives keys, headers, platforms and error classes; `stream` reads what it answers. Keys and addresses of a platform
come from the places that the SDK documents for it (2.12). Retries are off: the loop decides about them.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from ipy_websearch.background import close_with
from ipy_websearch.errors import ConfigError
from ipy_websearch.model.stream import Event, connection_error, reply_events, status_error
from ipy_websearch.settings import OFFLINE_MODEL

if TYPE_CHECKING:
    import anthropic

# --- platforms and models -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Platform:
    """What a platform takes.

    `search_results`: `search_result` blocks with citations. `is_error`: the flag on tool results. `tool_choice`: "none" for a
    last answer in words. `caching`: `cache_control`. `server_tools`: web search run by the API itself. `other_models`: it
    serves models that are not Anthropic's. `assumed`: nothing says that it is this one (see `settled`). `label`: what messages
    call it, where that is not its name.
    """

    name: str
    search_results: bool = True
    is_error: bool = True
    tool_choice: bool = True
    caching: bool = True
    server_tools: bool = False
    other_models: bool = False
    assumed: bool = False
    label: str = ""


def _text_and_tools(name: str) -> Platform:
    """Return a server of open models that promises text and tools only."""
    return Platform(name, search_results=False, is_error=False, tool_choice=False, caching=False, other_models=True)


ANTHROPIC = Platform("anthropic", server_tools=True)
OFFLINE = Platform("offline", other_models=True)
PLATFORMS = {
    platform.name: platform
    for platform in (
        ANTHROPIC,
        OFFLINE,
        Platform("bedrock"),
        Platform("vertex", server_tools=True),
        Platform("foundry"),
        _text_and_tools("ollama"),
        _text_and_tools("lmstudio"),
        _text_and_tools("llamacpp"),
        Platform("vllm", search_results=False, is_error=False, caching=False, other_models=True),
        Platform("litellm", other_models=True),
    )
}
_PORTS = {11434: "ollama", 1234: "lmstudio"}
_CITING = re.compile(r"claude|sonnet|opus|haiku|fable|mythos|^offline$", re.IGNORECASE)


@cache
def platform_at(base_url: str | None) -> Platform:
    """Return the platform behind a base address (None: the API's own); an unknown server is taken to speak all of its API.

    Ollama and LM Studio are known by their ports, on any machine.
    """
    try:
        port = urlsplit(base_url or "").port
    except ValueError:
        port = None
    return replace(PLATFORMS[_PORTS[port]] if port in _PORTS else ANTHROPIC, assumed=bool(base_url))


def settled(found: Platform, setting: str, model: object) -> Platform:
    """Return the platform to build a request to a model for.

    At an address that may be anybody's, `setting` counts where there is one ("": none). Where all kinds of models are served,
    only those that cite get results as blocks, and all others plain text: servers drop such blocks without a word.
    """
    if found.assumed and setting:
        return replace(PLATFORMS[setting], assumed=True)
    blocks = found.search_results and (cites(str(model)) or not (found.assumed or found.other_models))
    return replace(found, search_results=blocks)


# Short names that people say, and the ids that the API takes.
ALIASES = {
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}

_CLAUDE = re.compile(r"(^|[./])claude-(opus|sonnet|haiku|fable|mythos|\d)")
_SMALL_WINDOW = re.compile(r"claude-(3|haiku-4|opus-4-[015]|sonnet-4-[05])")
_VERSION = re.compile(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d{1,2}))?(?!\d)")


def model_id(name: str) -> str:
    """Return the id for a model's name; a name that is no alias is passed on as it is."""
    return ALIASES.get(name.strip().lower(), name.strip())


def cites(name: str) -> bool:
    """Say whether a model may be one that calls tools and cites: Anthropic's, under whatever name, and the offline one."""
    return bool(_CITING.search(name))


def _version(name: str) -> tuple[str, tuple[int, int]]:
    """Return the family of a model of Anthropic's and its version, ("", (0, 0)) for any other."""
    found = _VERSION.search(name)
    return (found[1], (int(found[2]), int(found[3] or 0))) if found else ("", (0, 0))


def forces_tools(name: str) -> bool:
    """Say whether a request may force a model to call a tool (`tool_choice` "any" or "tool").

    From Fable and Mythos 5.1, Opus and Sonnet 5.5 on the API answers 400 to that; Haiku takes it up to 5.5
    (platform.claude.com/docs/en/models/…/whats-new, "Forced tool use is not supported", read 2026-11). Later models are taken
    not to: "auto" with a request in words works everywhere.
    """
    family, version = _version(name)
    return version <= (5, 5) if family == "haiku" else version < (5, 1)


_EFFORT_FROM = {"opus": (4, 5), "sonnet": (4, 6), "haiku": (5, 5), "fable": (5, 0), "mythos": (5, 0)}


def thinking_fields(name: str, effort: str | None) -> dict[str, Any]:
    """Return the fields of a request that ask a model for an effort, with adaptive thinking; {} when it takes none.

    `output_config.effort` is there from Opus 4.5, Sonnet 4.6, Haiku 5.5, Fable 5 and Mythos 5 on, `thinking` of type "adaptive"
    in all of these but Opus 4.5. What is thought counts as output, within `max_tokens` (platform.claude.com/docs/en/
    build-with-claude/effort; docs.aws.amazon.com/bedrock, "Adaptive thinking"; support.claude.com, 8664678; read 2026-11).
    """
    family, version = _version(name)
    if effort is None or not family or version < _EFFORT_FROM[family]:
        return {}
    adaptive = {"thinking": {"type": "adaptive"}} if version > (4, 5) else {}
    return {"output_config": {"effort": effort}, **adaptive}


def context_window(name: str) -> int:
    """Return how many tokens a model reads at once; 32,000 for models that are not Anthropic's, whose size is not known."""
    if not _CLAUDE.search(name):
        return 32_000
    return 200_000 if _SMALL_WINDOW.search(name) and not name.endswith("[1m]") else 1_000_000


# --- the SDK's clients ----------------------------------------------------------------------------------------------------

Lack = Literal["tools", "output_config"]

MESSAGES = "/v1/messages"
_HTTP_LIBRARIES = ("httpx2", "httpcore2", "httpcore", "aiohttp", "httpx_aiohttp")

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
        return settled(self.platform, "", model)

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
            sent: dict[str, Any] = {"content": json.dumps(body, ensure_ascii=False).encode()}
            if self.platform.name in CLOUDS:
                sent = {"body": dict(body)}
            post: Any = client.post
            response = await post(
                MESSAGES, cast_to=httpx2.Response, options={"timeout": client.timeout}, stream=streamed, **sent
            )
            try:
                kind, request_id = response.headers.get("content-type", ""), response.headers.get("request-id")
                # Where no stream was asked for, what is none is read as JSON, so that what stands in its place is told.
                kind = kind if streamed or "event-stream" in kind else "json"
                async for events in reply_events(kind, response.aiter_bytes(), self.redact, request_id):
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
        except anthropic.AnthropicError as exc:
            raise connection_error(exc, address, self.redact) from None
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


async def _close_all(clients: dict[tuple[Any, ...], anthropic.AsyncAnthropic]) -> None:
    for settings in list(clients):
        await clients.pop(settings).close()
