"""What passes between a session and the outside, written down by `Recorder` or answered from the file by `Player`.

Both have the same two methods, `stream` for a model's replies and `call` for everything else; the clients below have the
doors of the session's own. Recording never costs an answer: when the file cannot be written any more, `problem` says so and
the traffic goes on. A player sends nothing and waits as long as the recording did, unless told not to.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

from ipy_websearch.cassette.format import (
    FORMAT,
    MARK,
    SECRET_PARAMETERS,
    Exchange,
    Kind,
    Redactor,
    answer_fields,
    body_of,
    error_fields,
    error_of,
    read,
)
from ipy_websearch.cassette.match import Matcher
from ipy_websearch.errors import ConfigError, FetchError, ModelError, ProviderError, ReplayError
from ipy_websearch.http.client import HttpClient, HttpResponse, Params, call_address
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.platforms import PLATFORMS, Platform

if TYPE_CHECKING:
    from ipy_websearch.http.download import Download

T = TypeVar("T")
Events = list[dict[str, Any]]
Ask = Callable[[], Awaitable[T]]
Pack = Callable[[T], dict[str, Any]]
Unpack = Callable[[Mapping[str, Any]], T]
Send = Callable[[Mapping[str, Any]], AsyncIterator[Events]]
"""Sends a request to a model and gives its stream events as they arrive, together what came together."""


class Recorder:
    """A cassette that is being recorded. `keys` gives the names of the keys that are set, `head` what else a player must know.

    Raises:
        ConfigError: the file exists (`append` continues it, `force` replaces it), or cannot be written.
    """

    replaying = False

    def __init__(
        self,
        path: Path,
        *,
        redactor: Redactor,
        head: Mapping[str, Any],
        keys: Callable[[], list[str]],
        append: bool = False,
        force: bool = False,
    ) -> None:
        self.path = path
        self.count = 0
        self.problem = ""
        self.redactor = redactor
        self._keys = keys
        self._known_keys = list(keys())
        exists = path.exists() and path.stat().st_size > 0
        if exists and not (append or force):
            raise ConfigError(f"{path} is there already; --append goes on with it, --force replaces it")
        first = self._continue() if exists and append else 1
        self._numbers = itertools.count(first)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if force and not append else 0)
            self._file = open(os.open(path, flags, 0o644), "wb", buffering=0)  # noqa: SIM115 - open while it records
        except OSError as exc:
            raise ConfigError(f"the cassette {path} cannot be written ({exc.strerror or exc})") from None
        if not (exists and append):
            self._write(json.dumps({"cassette": FORMAT, **head, "keys": self._known_keys}))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    async def stream(self, body: Mapping[str, Any], send: Send) -> AsyncIterator[Events]:
        """Yield the events of a reply."""
        exchange, start = self._begin("model", str(body.get("model")), dict(body)), time.monotonic()
        events: list[tuple[float, dict[str, Any]]] = []
        ending: dict[str, Any] | None = {}
        try:
            async with aclosing(send(body)) as stream:  # type: ignore[type-var]
                async for arrived in stream:
                    moment = round(time.monotonic() - start, 3)
                    events += [(moment, event) for event in arrived]
                    yield arrived
        except BaseException as exc:
            whole = bool(events) and events[-1][1].get("type") == "message_stop"
            ending = {} if whole else _failure(exc)
            raise
        finally:
            if ending is not None:
                self._end(exchange, start, {"stream": self.redactor.stream(events), **ending})

    async def call(self, kind: Kind, to: str, request: Any, send: Ask[T], pack: Pack[T], unpack: Unpack[T]) -> T:
        """Return the answer of an engine or a page; `pack` gives its fields for the file, and `unpack` makes it of them."""
        exchange, start = self._begin(kind, to, request), time.monotonic()
        try:
            answer = await send()
        except BaseException as exc:
            if (failure := _failure(exc)) is not None:
                self._end(exchange, start, failure)
            raise
        self._end(exchange, start, pack(answer))
        return answer

    def _begin(self, kind: Kind, to: str, request: Any) -> Exchange:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return Exchange(kind, to, request, next(self._numbers), now)

    def _end(self, exchange: Exchange, start: float, outcome: dict[str, Any]) -> None:
        exchange.took_s, exchange.outcome = round(time.monotonic() - start, 3), outcome
        if (keys := list(self._keys())) != self._known_keys:
            self._known_keys = keys
            self._write(json.dumps({"keys": keys}))
        self._write(exchange.text())
        self.count += 1

    def _write(self, line: str) -> None:
        try:
            self._file.write(self.redactor.text(line).encode("utf-8", "backslashreplace") + b"\n")
        except (OSError, ValueError) as exc:
            self.problem = self.problem or f"{self.path} could not be written ({exc}); what came after is not on it"

    def _continue(self) -> int:
        """Take a line that is not whole off the end of the file; return the number of the next request."""
        head, exchanges, _ = read(self.path)
        data = self.path.read_bytes()
        os.truncate(self.path, data.rindex(b"\n") + 1)
        self._known_keys = list(head.get("keys") or ())
        return max((exchange.n for exchange in exchanges), default=0) + 1


class Player:
    """A cassette that is replayed; `version` is ours, `pace` whether to wait as long as the recording did.

    Raises:
        ConfigError: there is no such cassette, or a line of it cannot be read.
    """

    replaying = True

    def __init__(self, path: Path, *, redactor: Redactor, version: str, pace: bool = True) -> None:
        self.path = path
        self.redactor = redactor
        self.head, exchanges, self.warnings = read(path)
        self.keys = [str(name) for name in self.head.get("keys") or ()]
        self.has_model = any(exchange.kind == "model" for exchange in exchanges)
        self.count = 0
        self.missed: ReplayError | None = None
        self._pace = pace
        self._matcher = Matcher(exchanges, strict=self.head.get("version") == version, clean=redactor.text)

    def check(self) -> None:
        """Raise what was missed and has reached nobody yet: a tool makes a result of every failure.

        Raises:
            ReplayError: a request of a tool is not on the cassette.
        """
        missed, self.missed = self.missed, None
        if missed is not None:
            raise missed

    def close(self) -> None:
        """Nothing is open."""

    async def stream(self, body: Mapping[str, Any], send: Send) -> AsyncIterator[Events]:
        """Yield the events of a recorded reply."""
        self.check()
        start, (exchange, again) = time.monotonic(), self._find("model", str(body.get("model")), body)
        for moment, event in exchange.outcome["stream"]:
            await self._until(start + moment)
            yield [event]
        await self._ended(exchange, again, start)

    async def call(self, kind: Kind, to: str, request: Any, send: Ask[T], pack: Pack[T], unpack: Unpack[T]) -> T:
        """Return the recorded answer of an engine or a page."""
        start, (exchange, again) = time.monotonic(), self._find(kind, to, request)
        await self._ended(exchange, again, start)
        try:
            return unpack(exchange.outcome)
        except (ValueError, TypeError) as exc:
            raise ReplayError(f"the body at line {exchange.line} of {self.path} cannot be read ({exc})") from None

    def _find(self, kind: Kind, to: str, request: Any) -> tuple[Exchange, bool]:
        found = self._matcher.take(kind, to, request)
        if found is None:
            error = ReplayError(self._matcher.miss(kind, to, request, self.path.name))
            if kind != "model":
                self.missed = self.missed or error
            raise error
        self.count += 1
        return found

    async def _ended(self, exchange: Exchange, again: bool, start: float) -> None:
        """Wait for the end of an exchange, and end as it did.

        Raises:
            WebSearchError: it failed. TimeoutError: it was cut off.
        """
        await self._until(start + exchange.took_s)
        if fields := exchange.outcome.get("error"):
            error = error_of(fields)
            if not self._pace and again and isinstance(error, ModelError):
                error.retry_after = 0.0  # what follows is on the cassette
            raise error
        if exchange.cut_off:
            while self._pace:
                await asyncio.sleep(3600)
            raise TimeoutError

    async def _until(self, moment: float) -> None:
        if self._pace and (wait := moment - time.monotonic()) > 0:
            await asyncio.sleep(wait)


Cassette = Recorder | Player


def _failure(exc: BaseException) -> dict[str, Any] | None:
    """Return how an exchange failed, None when nothing was sent (a setting is wrong) or the failure is a bug."""
    if isinstance(exc, ModelError | ProviderError | FetchError):
        return {"error": error_fields(exc)}
    return {"cut_off": True} if isinstance(exc, asyncio.CancelledError | GeneratorExit | TimeoutError) else None


# --- the session's clients with a cassette in front of the network ----------------------------------------------------


class RecordedModel(ModelClient):
    """The model's client; everything goes through the cassette to (or instead of) `real`."""

    def __init__(self, real: ModelClient, cassette: Cassette) -> None:
        super().__init__(api_key=str)
        self._real = real
        self._cassette = cassette

    @property
    def platform(self) -> Platform:
        """The platform that was recorded, or the one in force."""
        recorded = self._cassette.head.get("platform") if isinstance(self._cassette, Player) else None
        return PLATFORMS.get(str(recorded)) or self._real.platform

    async def events(self, body: Mapping[str, Any]) -> AsyncIterator[Events]:
        """Yield the events of a reply; see `ModelClient.events`."""
        async for events in self._cassette.stream(body, self._real.events):
            yield events

    async def whole_reply(self, body: Mapping[str, Any]) -> Events:
        """Return all events of a reply; see `ModelClient.whole_reply`."""
        return [event async for events in self.events(body) for event in events]

    async def prepare(self) -> None:
        """Import the SDK, unless a cassette is replayed."""
        if not self._cassette.replaying:
            await self._real.prepare()

    async def check(self) -> None:
        """Try the key, unless a cassette is replayed."""
        if not self._cassette.replaying:
            await self._real.check()

    def _client(self) -> Any:
        raise ConfigError(f"only single requests go onto cassettes; `%websearch stop` ends {self._cassette.path} for others")

    async def aclose(self) -> None:
        """Close the real client."""
        await self._real.aclose()


class RecordedHttp(HttpClient):
    """The engines' client; everything goes through the cassette to (or instead of) `real`."""

    def __init__(self, real: HttpClient, cassette: Cassette) -> None:
        super().__init__(user_agent=real.user_agent, secrets=cassette.redactor.secrets)
        self._real = real
        self._cassette = cassette

    async def request(
        self,
        method: str,
        url: str,
        *,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        **options: Any,
    ) -> HttpResponse:
        """Return the answer to one request; see `HttpClient.request`."""
        given = list(params.items() if isinstance(params, Mapping) else params or ())
        pairs = [*parse_qsl(url.partition("#")[0].partition("?")[2], keep_blank_values=True), *given]
        shown = [[name, _parameter(name, value)] for name, value in pairs if value is not None]
        asked = {"method": method, "url": call_address(url), "params": shown, **({} if json is None else {"json": json})}
        redactor = self._cassette.redactor
        redactor.learn(headers or {})

        def pack(answer: HttpResponse) -> dict[str, Any]:
            is_json = answer.content_type == "application/json"
            return answer_fields(answer.status, answer.headers, answer.body, redactor, is_json=is_json)

        def unpack(fields: Mapping[str, Any]) -> HttpResponse:
            return HttpResponse(fields["status"], fields["headers"], body_of(fields), call_address(url))

        async def send() -> HttpResponse:
            return await self._real.request(method, url, params=params, headers=headers, json=json, **options)

        return await self._cassette.call("engine", options["provider"], asked, send, pack, unpack)

    async def aclose(self) -> None:
        """Close the real client's connections."""
        await self._real.aclose()


def recorded_download(cassette: Cassette) -> Any:
    """Return what reads pages through a cassette; see `http.download.download`."""

    async def download(url: str, **options: Any) -> Download:
        from ipy_websearch.http.download import Download
        from ipy_websearch.http.download import download as real

        def pack(got: Download) -> dict[str, Any]:
            facts = {"final_url": got.final_url, "content_type": got.content_type, "charset": got.charset}
            return {**facts, **answer_fields(got.status, got.headers, got.body, cassette.redactor, is_json=False)}

        def unpack(fields: Mapping[str, Any]) -> Download:
            final_url, content_type, charset = (str(fields.get(name, "")) for name in ("final_url", "content_type", "charset"))
            return Download(url, final_url, fields["status"], content_type, charset, body_of(fields), fields["headers"])

        return await cassette.call("page", url, None, lambda: real(url, **options), pack, unpack)

    return download


def _parameter(name: str, value: Any) -> str:
    if name.lower() in SECRET_PARAMETERS:
        return MARK
    return str(value).lower() if isinstance(value, bool) else str(value)
