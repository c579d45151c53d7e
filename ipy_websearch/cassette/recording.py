"""Recording and replaying a session: one cassette at a time, with the session's connections exchanged while it runs.

While a cassette runs, the session starts fresh: an empty cache whose entries never expire, engines that have not failed yet,
an empty enrichment store. So the same cells make the same requests, whoever runs them. When it stops, everything is put back.
During a replay the keys are placeholders, calls are booked at zero and marked "replayed"; budgets count them at their price,
so that limits are reached where they were, and forget that afterwards.

A recorder lets requests pass and writes them down, a player answers from the file. Both have two methods, `stream` for a
model's replies and `call` for everything else, whose answers are the fields of the file, recorded or replayed; the clients in
front of them have the doors of the session's own. Recording never costs an answer: when the file cannot be written any more,
`problem` says so and the traffic goes on. A player sends nothing and waits as long as the recording did, unless told not to.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from ipy_websearch.cassette.format import (
    FORMAT,
    MARK,
    SECRET_PARAMETERS,
    Exchange,
    Kind,
    Matcher,
    Redactor,
    answer_fields,
    body_of,
    error_fields,
    error_of,
    read,
)
from ipy_websearch.database import Cache
from ipy_websearch.enrichment.store import Store
from ipy_websearch.errors import ConfigError, MissingKeyError, ReplayError, WebSearchError
from ipy_websearch.http.client import HttpClient, HttpResponse, Params, call_address, with_query
from ipy_websearch.keys import KEYS, Keys
from ipy_websearch.model.client import PLATFORMS, ModelClient, Platform
from ipy_websearch.money.budget import UNRECORDED
from ipy_websearch.providers.base import provider_infos
from ipy_websearch.results import SearchResults

if TYPE_CHECKING:
    from ipy_websearch.http.download import Download
    from ipy_websearch.session import Session

_EXCHANGED = ("http", "claude", "cache", "router", "index", "reader", "enrich_store", "keys", "download")
_PLACEHOLDER_KEY = "placeholder-for-a-key-of-the-recording"
_PLACEHOLDER_ADDRESS = "http://recorded.invalid"

Events = list[dict[str, Any]]
Fields = Mapping[str, Any]
# Sends a request to a model and gives its stream events as they arrive, together what came together.
Send = Callable[[Mapping[str, Any]], AsyncIterator[Events]]


class Recorder:
    """A cassette that is being recorded. `keys` gives the names of the keys that are set, `head` what else a player must know.

    Raises:
        ConfigError: the file exists (`force` replaces it), or cannot be written.
    """

    replaying = False
    has_model = None

    def __init__(self, path: Path, *, redactor: Redactor, head: Fields, keys: Callable[[], list[str]], force: bool) -> None:
        self.path = path
        self.count = 0
        self.problem = ""
        self.redactor = redactor
        self._keys = keys
        self._numbers = itertools.count(1)
        try:
            self._file = open(path, "wb" if force else "xb", buffering=0)  # noqa: SIM115 - open while it records
        except OSError as exc:
            advice = "; --force replaces it" if isinstance(exc, FileExistsError) else ""
            raise ConfigError(f"the cassette {path} cannot be written ({exc.strerror or exc}){advice}") from None
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
        exchange, start = Exchange(kind, to, request, next(self._numbers), datetime.now(UTC)), time.monotonic()
        try:
            yield exchange.outcome
        except WebSearchError as exc:
            exchange.outcome["error"] = error_fields(exc)
            raise
        except BaseException:
            events = exchange.outcome.get("stream")
            exchange.outcome["cut_off"] = not (events and events[-1][1].get("type") == "message_stop")
            raise
        finally:
            exchange.took_s = round(time.monotonic() - start, 3)
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
        start, exchange = time.monotonic(), self._find("model", str(body.get("model")), body)
        for moment, event in exchange.outcome["stream"]:
            await self._until(start + moment)
            yield [event]
        await self._ended(exchange, start)

    async def call(self, kind: Kind, to: str, request: Any, send: Callable[[], Awaitable[Fields]]) -> Fields:
        """Return the fields of the recorded answer of an engine or a page."""
        start, exchange = time.monotonic(), self._find(kind, to, request)
        await self._ended(exchange, start)
        return exchange.outcome

    def _find(self, kind: Kind, to: str, request: Any) -> Exchange:
        found = self._matcher.take(kind, to, request)
        if found is None:
            raise ReplayError(self._matcher.miss(kind, to, request, self.path.name))
        self.count += 1
        return found

    async def _ended(self, exchange: Exchange, start: float) -> None:
        """Wait for the end of an exchange, and end as it did.

        Raises:
            WebSearchError: it failed. TimeoutError: it was cut off.
        """
        await self._until(start + exchange.took_s)
        if fields := exchange.outcome.get("error"):
            raise error_of(fields)
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
    """The session's own client of the model, with a cassette in front of the network."""

    def __init__(self, real: ModelClient, cassette: Cassette) -> None:
        self.__dict__.update(real.__dict__)
        self._cassette = cassette

    @property
    def platform(self) -> Platform:
        """The platform that was recorded, or the one in force."""
        recorded = self._cassette.head.get("platform") if isinstance(self._cassette, Player) else None
        return PLATFORMS.get(str(recorded)) or super().platform

    async def events(self, body: Mapping[str, Any], *, streamed: bool = True) -> AsyncIterator[Events]:
        """Yield the events of a reply, which is always asked for as a stream; see `ModelClient.events`."""
        async for events in self._cassette.stream(body, super().events):
            yield events

    def _client(self) -> Any:
        if self._cassette.replaying:
            raise ConfigError(f"only single requests are on {self._cassette.path}; `%websearch stop` ends the replay")
        return super()._client()


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
        pairs = parse_qsl(with_query(url, params).partition("?")[2], keep_blank_values=True)
        shown = [[name, MARK if name.lower() in SECRET_PARAMETERS else value] for name, value in pairs]
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


# --- a session and its cassette ----------------------------------------------------------------------------------------


class Recording:
    """One cassette that a session records or replays; as a context manager it stops at the end of the block."""

    def __init__(self, session: Session, cassette: Cassette) -> None:
        self.cassette = cassette
        self._session = session
        parts = {
            "http": RecordedHttp(session.http, cassette),
            "claude": RecordedModel(session.claude, cassette),
            "cache": Cache(None, clock=float),
            "enrich_store": Store(None),
            "keys": session.keys,
            "download": recorded_download(cassette),
        }
        if isinstance(cassette, Player):
            session.budgets.rehearse()
            parts["keys"] = RecordedKeys(session.keys, cassette)
        self._before = {name: session.__dict__.pop(name) for name in _EXCHANGED if name in session.__dict__}
        session.__dict__.update(parts)

    @classmethod
    def record(cls, session: Session, path: str | Path, *, force: bool) -> Recording:
        """Begin to record; see `Session.record`."""
        keys = session.keys

        def names() -> list[str]:
            known = dict.fromkeys((*KEYS, *(key for info in provider_infos().values() for key in info.keys)))
            return [*filter(keys.usable, known), *(name for name in _addresses() if keys.environ.get(name, "").strip())]

        head = {"version": version("ipy_websearch"), "platform": session.claude.platform.name}
        path = Path(path).expanduser()  # not made absolute: it is printed, and stays in notebooks that others read
        recorder = Recorder(path, redactor=Redactor(keys.secrets), head=head, keys=names, force=force)
        return cls(session, recorder)

    @classmethod
    def replay(cls, session: Session, path: str | Path, *, instant: bool) -> Recording:
        """Begin to replay; see `Session.replay`. A replay that is running ends once the new cassette has been read."""
        redactor = Redactor(session.keys.secrets)
        player = Player(Path(path).expanduser(), redactor=redactor, version=version("ipy_websearch"), pace=not instant)
        session.stop_recording()
        return cls(session, player)

    @property
    def replayed_from(self) -> str:
        """The name of the cassette that is replayed, "" while one is recorded."""
        return self.cassette.path.name if self.cassette.replaying else ""

    def through(self, send: Send, headers: Mapping[str, Any]) -> Send:
        """Return a sender of model requests that goes through the cassette: for clients that are not the session's own.
        `headers` are those that their keys go up in."""
        self.cassette.redactor.learn(headers)
        return partial(self.cassette.stream, send=send)

    def marked(self, results: SearchResults) -> SearchResults:
        """Return a search's results, marked when they come from the cassette."""
        if not self.replayed_from or results.provider in UNRECORDED:
            return results
        return replace(results, cost_usd=Decimal(0), notices=(*results.notices, f"replayed from {self.replayed_from}"))

    def stop(self) -> None:
        """Stop, unless it has stopped already, and put everything back as it was."""
        session = self._session
        if session.recording is not self:
            return
        session.recording = None
        for name in _EXCHANGED:
            session.__dict__.pop(name, None)
        session.__dict__.update(self._before)
        if isinstance(self.cassette, Recorder):
            self.cassette.close()
        else:
            session.budgets.resume()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if raised is None and (problem := getattr(self.cassette, "problem", "")):
            raise ConfigError(problem)  # `%websearch stop` prints it

    def __str__(self) -> str:
        return f"{self.cassette.path.name} is being {'replayed' if self.cassette.replaying else 'recorded'}"


class RecordedKeys(Keys):
    """Placeholders for the keys that were set when a cassette was recorded, so that the same engines are offered.

    Everything else is shared with the real keys: what is set meanwhile is kept for afterwards.
    """

    def __init__(self, real: Keys, cassette: Player) -> None:
        self.__dict__.update(real.__dict__)
        self.secrets = real.secrets  # type: ignore[method-assign]
        self._cassette = cassette
        kept = {name: value for name, value in real.environ.items() if name not in _addresses()}
        self.environ = kept | {name: _PLACEHOLDER_ADDRESS for name in _addresses() if name in cassette.keys}

    def find(self, name: str) -> tuple[str, str] | None:
        """Return a placeholder for a key that was set when the cassette was recorded."""
        return (_PLACEHOLDER_KEY, self._cassette.path.name) if self.spec(name).variable in self._cassette.keys else None

    def missing(self, name: str) -> MissingKeyError:
        """Return the error that says that a key was not set when the cassette was recorded."""
        variable, path = self.spec(name).variable, self._cassette.path.name
        return MissingKeyError(f"{variable} was not set when {path} was recorded; `%websearch stop` ends the replay")


def _addresses() -> list[str]:
    """Return the variables of providers that have no default address."""
    infos = provider_infos().values()
    return [info.base_variable for info in infos if info.base_variable and not info.base_default]
