"""Requests and answers through a cassette: a recorder lets them pass and writes them down, a player answers from the file.

Both have two methods, `stream` for a model's replies and `call` for everything else, whose answers are the fields of the file,
recorded or replayed. The clients below have the doors of the session's own. Recording never costs an answer: when the file
cannot be written any more, `problem` says so and the traffic goes on. A player sends nothing and waits as long as the recording
did, unless told not to.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
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

Events = list[dict[str, Any]]
Fields = Mapping[str, Any]
Send = Callable[[Mapping[str, Any]], AsyncIterator[Events]]
"""Sends a request to a model and gives its stream events as they arrive, together what came together."""


class Recorder:
    """A cassette that is being recorded. `keys` gives the names of the keys that are set, `head` what else a player must know.

    Raises:
        ConfigError: the file exists (`append` continues it, `force` replaces it), or cannot be written.
    """

    replaying = False
    has_model = None

    def __init__(
        self, path: Path, *, redactor: Redactor, head: Fields, keys: Callable[[], list[str]], append: bool, force: bool
    ) -> None:
        self.path = path
        self.count = 0
        self.problem = ""
        self.redactor = redactor
        self._keys = keys
        self._known_keys: list[str] = []
        exists = path.exists() and path.stat().st_size > 0
        if exists and not (append or force):
            raise ConfigError(f"{path} is there already; --append goes on with it, --force replaces it")
        goes_on = exists and append
        try:
            self._numbers = itertools.count(self._continue() if goes_on else 1)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if goes_on else os.O_TRUNC)
            self._file = open(os.open(path, flags, 0o644), "wb", buffering=0)  # noqa: SIM115 - open while it records
        except OSError as exc:
            raise ConfigError(f"the cassette {path} cannot be written ({exc.strerror or exc})") from None
        if not goes_on:
            self._known_keys = keys()
            self._write(json.dumps({"cassette": FORMAT, **head, "keys": self._known_keys}))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    async def stream(self, body: Mapping[str, Any], send: Send) -> AsyncIterator[Events]:
        """Yield the events of a reply."""
        events: list[tuple[float, dict[str, Any]]] = []
        start = time.monotonic()
        with self._exchange("model", str(body.get("model")), dict(body)) as outcome:
            try:
                async with aclosing(send(body)) as stream:  # type: ignore[type-var]
                    async for arrived in stream:
                        moment = round(time.monotonic() - start, 3)
                        events += [(moment, event) for event in arrived]
                        yield arrived
            finally:
                outcome["stream"] = self.redactor.stream(events)

    async def call(self, kind: Kind, to: str, request: Any, send: Callable[[], Awaitable[Fields]]) -> Fields:
        """Return the fields of the answer of an engine or a page."""
        with self._exchange(kind, to, request) as outcome:
            outcome |= await send()
        return outcome

    @contextmanager
    def _exchange(self, kind: Kind, to: str, request: Any) -> Iterator[dict[str, Any]]:
        """Write down a request and the outcome that is filled in meanwhile."""
        at, start = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"), time.monotonic()
        exchange = Exchange(kind, to, request, next(self._numbers), at)
        was_sent = True
        try:
            yield exchange.outcome
        except (ModelError, ProviderError, FetchError) as exc:
            exchange.outcome["error"] = error_fields(exc)
            raise
        except (asyncio.CancelledError, GeneratorExit, TimeoutError):
            events = exchange.outcome.get("stream")
            if not (events and events[-1][1].get("type") == "message_stop"):
                exchange.outcome["cut_off"] = True
            raise
        except Exception:  # a setting is wrong
            was_sent = False
            raise
        finally:
            exchange.took_s = round(time.monotonic() - start, 3)
            if was_sent:
                self._end(exchange)

    def _end(self, exchange: Exchange) -> None:
        if (keys := self._keys()) != self._known_keys:
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
        head, exchanges, warnings = read(self.path)
        data = self.path.read_bytes()
        whole = data[: data.rindex(b"\n") + 1] if warnings else data.rstrip(b"\n") + b"\n"
        if whole != data:
            self.path.write_bytes(whole)
        self._known_keys = list(head.get("keys") or ())
        return max((exchange.n for exchange in exchanges), default=0) + 1


class Player:
    """A cassette that is replayed; `version` is ours, `pace` whether to wait as long as the recording did.

    Raises:
        ConfigError: there is no such cassette, or a line of it cannot be read.
    """

    replaying = True

    def __init__(self, path: Path, *, redactor: Redactor, version: str, pace: bool) -> None:
        self.path = path
        self.redactor = redactor
        self.head, exchanges, self.warnings = read(path)
        self.keys = [str(name) for name in self.head.get("keys") or ()]
        self.has_model = any(exchange.kind == "model" for exchange in exchanges)
        self.count = 0
        self._pace = pace
        self._matcher = Matcher(exchanges, strict=self.head.get("version") == version, clean=redactor.text)

    async def stream(self, body: Mapping[str, Any], send: Send) -> AsyncIterator[Events]:
        """Yield the events of a recorded reply."""
        start, (exchange, again) = time.monotonic(), self._find("model", str(body.get("model")), body)
        for moment, event in exchange.outcome["stream"]:
            await self._until(start + moment)
            yield [event]
        await self._ended(exchange, again, start)

    async def call(self, kind: Kind, to: str, request: Any, send: Callable[[], Awaitable[Fields]]) -> Fields:
        """Return the fields of the recorded answer of an engine or a page."""
        start, (exchange, again) = time.monotonic(), self._find(kind, to, request)
        await self._ended(exchange, again, start)
        return exchange.outcome

    def _find(self, kind: Kind, to: str, request: Any) -> tuple[Exchange, bool]:
        found = self._matcher.take(kind, to, request)
        if found is None:
            raise ReplayError(self._matcher.miss(kind, to, request, self.path.name))
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
        if exchange.outcome.get("cut_off"):
            while self._pace:
                await asyncio.sleep(3600)
            raise TimeoutError

    async def _until(self, moment: float) -> None:
        if self._pace and (wait := moment - time.monotonic()) > 0:
            await asyncio.sleep(wait)


Cassette = Recorder | Player

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

    async def events(self, body: Mapping[str, Any], *, streamed: bool = True) -> AsyncIterator[Events]:
        """Yield the events of a reply, which is always asked for as a stream; see `ModelClient.events`."""
        async for events in self._cassette.stream(body, self._real.events):
            yield events

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

        async def send() -> Fields:
            got = await self._real.request(method, url, params=params, headers=headers, json=json, **options)
            is_json = got.content_type == "application/json"
            return answer_fields(got.status, got.headers, got.body, redactor, is_json=is_json)

        fields = await self._cassette.call("engine", options["provider"], asked, send)
        return HttpResponse(fields["status"], fields["headers"], body_of(fields), call_address(url))

    async def aclose(self) -> None:
        """Close the real client's connections."""
        await self._real.aclose()


def recorded_download(cassette: Cassette) -> Any:
    """Return what reads pages through a cassette; see `http.download.download`."""

    async def download(url: str, **options: Any) -> Download:
        from ipy_websearch.http.download import Download
        from ipy_websearch.http.download import download as real

        async def send() -> Fields:
            got = await real(url, **options)
            facts = {"final_url": got.final_url, "content_type": got.content_type, "charset": got.charset}
            return {**facts, **answer_fields(got.status, got.headers, got.body, cassette.redactor, is_json=False)}

        fields = await cassette.call("page", url, None, send)
        final_url, content_type, charset = (str(fields.get(name, "")) for name in ("final_url", "content_type", "charset"))
        return Download(url, final_url, fields["status"], content_type, charset, body_of(fields), fields["headers"])

    return download


def _parameter(name: str, value: Any) -> str:
    if name.lower() in SECRET_PARAMETERS:
        return MARK
    return str(value).lower() if isinstance(value, bool) else str(value)
