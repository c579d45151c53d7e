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
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager
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
    Matcher,
    Redactor,
    answer_fields,
    body_of,
    error_fields,
    error_of,
    read,
)
from ipy_websearch.enrichment.store import Store
from ipy_websearch.errors import ConfigError, FetchError, MissingKeyError, ModelError, ProviderError, ReplayError
from ipy_websearch.http.client import Cache, HttpClient, HttpResponse, Params, call_address, with_query
from ipy_websearch.keys import KEYS, Keys
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.requests import PLATFORMS, Platform
from ipy_websearch.money.budget import UNRECORDED, Budget
from ipy_websearch.money.ledger import Ledger
from ipy_websearch.providers.router import provider_infos
from ipy_websearch.results import SearchResults

if TYPE_CHECKING:
    from ipy_websearch.http.download import Download
    from ipy_websearch.session import Session

_EXCHANGED = ("http", "claude", "cache", "router", "index", "reader", "enrich_store", "keys", "download", "budget")
_PLACEHOLDER = "http://recorded.invalid"  # stands for a key or an address

Events = list[dict[str, Any]]
Fields = Mapping[str, Any]
# Sends a request to a model and gives its stream events as they arrive, together what came together.
Send = Callable[[Mapping[str, Any]], AsyncIterator[Events]]


class Recording(AbstractContextManager["Recording"]):
    """One cassette that a session records or replays until `stop`; as a context manager it stops at the end of the block.

    `count` is the number of exchanges so far, `replayed_from` the name of a cassette that is replayed.
    """

    replayed_from = ""
    problem = ""
    head: Fields = {}
    has_model: bool | None = None

    def __init__(self, session: Session, path: str | Path) -> None:
        self.path = Path(path).expanduser()  # not made absolute: it is printed, and stays in notebooks that others read
        self.redactor = Redactor(session.keys.secrets)
        self.count = 0
        self._session = session

    @abstractmethod
    def stream(self, body: Mapping[str, Any], send: Send) -> AsyncIterator[Events]:
        """Yield the events of a reply."""

    @abstractmethod
    async def call(self, kind: str, to: str, request: Any, send: Callable[[], Awaitable[Fields]]) -> Fields:
        """Return the fields of the answer of an engine or a page."""

    def through(self, send: Send, headers: Mapping[str, Any]) -> Send:
        """Return a sender of model requests that goes through the cassette: for clients that are not the session's own.
        `headers` are those that their keys go up in."""
        self.redactor.learn(headers)
        return partial(self.stream, send=send)

    def marked(self, results: SearchResults) -> SearchResults:
        """Return a search's results, marked when they come from the cassette."""
        if not self.replayed_from or results.provider in UNRECORDED:
            return results
        return replace(results, cost_usd=Decimal(0), notices=(*results.notices, f"replayed from {self.replayed_from}"))

    def stop(self) -> None:
        """Stop, unless it has stopped already, and put everything back as it was."""
        session = self._session
        if session.recording is self:
            session.recording = None
            for name in _EXCHANGED:
                session.__dict__.pop(name, None)
            session.__dict__.update(self._before)

    def _begin(self, keys: Keys, budget: Budget) -> None:
        """Put the cassette in front of the session's connections."""
        session = self._session
        parts = {
            "http": RecordedHttp(session.http, self),
            "claude": RecordedModel(session.claude, self),
            "cache": Cache(None, clock=float),
            "enrich_store": Store(Ledger(None)),
            "keys": keys,
            "budget": budget,
            "download": recorded_download(self, session.download),
        }
        self._before = {name: session.__dict__.pop(name) for name in _EXCHANGED if name in session.__dict__}
        session.__dict__.update(parts)

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if raised is None and self.problem:
            raise ConfigError(self.problem)  # `%websearch stop` prints it

    def __str__(self) -> str:
        return f"{self.path.name} is being {'replayed' if self.replayed_from else 'recorded'}"


class Recorder(Recording):
    """A cassette that is being recorded.

    Raises:
        ConfigError: the file exists (`force` replaces it), or cannot be written.
    """

    def __init__(self, session: Session, path: str | Path, *, force: bool) -> None:
        super().__init__(session, path)
        self._numbers = itertools.count(1)
        try:
            self._file = open(self.path, "wb" if force else "xb", buffering=0)  # noqa: SIM115 - open while it records
        except OSError as exc:
            advice = "; --force replaces it" if isinstance(exc, FileExistsError) else ""
            raise ConfigError(f"the cassette {self.path} cannot be written ({exc.strerror or exc}){advice}") from None
        head = {
            "cassette": FORMAT,
            "version": version("ipy_websearch"),
            "platform": session.claude.platform.name,
            "keys": _key_names(session.keys),
        }
        self._write(json.dumps(head))
        self._begin(session.keys, session.budget)

    async def stream(self, body: Mapping[str, Any], send: Send) -> AsyncIterator[Events]:
        """Yield the events of a reply as they come, and write them down."""
        events: list[tuple[float, dict[str, Any]]] = []
        start = time.monotonic()
        with self._exchange("model", str(body.get("model")), dict(body)) as exchange:
            try:
                async with aclosing(send(body)) as stream:  # type: ignore[type-var]
                    async for arrived in stream:
                        events += [(round(time.monotonic() - start, 3), event) for event in arrived]
                        yield arrived
            finally:
                exchange["stream"] = self.redactor.stream(events)

    async def call(self, kind: str, to: str, request: Any, send: Callable[[], Awaitable[Fields]]) -> Fields:
        """Return the fields of the answer that comes, and write them down."""
        with self._exchange(kind, to, request) as exchange:
            exchange |= await send()
        return exchange

    @contextmanager
    def _exchange(self, kind: str, to: str, request: Any) -> Iterator[Exchange]:
        """Write down a request and the outcome that is filled in meanwhile; nothing of one that was not sent, since a setting
        is wrong: once it is mended, the same cell finds its answer."""
        at, start = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"), time.monotonic()
        exchange = {"kind": kind, "to": to, "n": next(self._numbers), "at": at, "took_s": 0.0, "request": request}
        try:
            yield exchange
        except (ModelError, ProviderError, FetchError) as exc:
            self._end({**exchange, "error": error_fields(exc)}, start)
            raise
        except (asyncio.CancelledError, GeneratorExit, TimeoutError):
            events = exchange.get("stream")
            self._end({**exchange, "cut_off": not (events and events[-1][1].get("type") == "message_stop")}, start)
            raise
        self._end(exchange, start)

    def _end(self, exchange: Exchange, start: float) -> None:
        exchange["took_s"] = round(time.monotonic() - start, 3)
        self._write(json.dumps(exchange, ensure_ascii=False, default=str))
        self.count += 1

    def _write(self, line: str) -> None:
        try:
            self._file.write(self.redactor.text(line).encode("utf-8", "backslashreplace") + b"\n")
        except (OSError, ValueError) as exc:
            self.problem = self.problem or f"{self.path} could not be written ({exc}); what came after is not on it"

    def stop(self) -> None:
        """Stop, and close the file."""
        if self._session.recording is self:
            self._write(json.dumps({"keys": _key_names(self._session.keys)}))
        super().stop()
        self._file.close()


class CutOffError(ReplayError, TimeoutError):
    """What was recorded has no end: the time was over, or the cell was interrupted."""


class Player(Recording):
    """A cassette that is replayed, `instant` or at its own pace. A replay that is running ends once this one has been read.
    `warning` says that the cassette is not whole.

    Raises:
        ConfigError: there is no such cassette, or a line of it cannot be read.
    """

    def __init__(self, session: Session, path: str | Path, *, instant: bool) -> None:
        super().__init__(session, path)
        self.head, exchanges, self.warning = read(self.path)
        self.replayed_from = self.path.name
        self.has_model = any(exchange["kind"] == "model" for exchange in exchanges)
        self._pace = not instant
        self._matcher = Matcher(
            self.path.name,
            exchanges,
            strict=self.head.get("version") == version("ipy_websearch"),
            clean=self.redactor.text,
        )
        session.stop_recording()
        # Budgets count on a ledger that starts at nothing: a replay costs nothing and ends where its recording did.
        rehearsal = Ledger(None, clock=session.ledger.clock)
        self._begin(RecordedKeys(session.keys, self), Budget(rehearsal, session.id, lambda: session.settings))

    async def stream(self, body: Mapping[str, Any], send: Send) -> AsyncIterator[Events]:
        """Yield the events of a recorded reply."""
        start, exchange = time.monotonic(), self._find("model", str(body.get("model")), body)
        for moment, event in exchange["stream"]:
            await self._until(start + moment)
            yield [event]
        await self._ended(exchange, start)

    async def call(self, kind: str, to: str, request: Any, send: Callable[[], Awaitable[Fields]]) -> Fields:
        """Return the fields of a recorded answer."""
        start, exchange = time.monotonic(), self._find(kind, to, request)
        await self._ended(exchange, start)
        return exchange

    def _find(self, kind: str, to: str, request: Any) -> Exchange:
        found = self._matcher.take(kind, to, request)
        self.count += 1
        return found

    async def _ended(self, exchange: Exchange, start: float) -> None:
        """Wait for the end of an exchange, and end as it did.

        Raises:
            WebSearchError: it failed.
            CutOffError: it was cut off.
        """
        await self._until(start + exchange["took_s"])
        if fields := exchange.get("error"):
            raise error_of(fields)
        if exchange.get("cut_off"):
            raise CutOffError(f"the recording of this request on {self.path.name} was cut off")

    async def _until(self, moment: float) -> None:
        if self._pace and (wait := moment - time.monotonic()) > 0:
            await asyncio.sleep(wait)


# --- the session's clients with a cassette in front of the network ----------------------------------------------------


class RecordedModel(ModelClient):
    """The session's own client of the model, with a cassette in front of the network."""

    def __init__(self, real: ModelClient, cassette: Recording) -> None:
        self.__dict__.update(real.__dict__)
        self._real = real  # it may be of a class of its own, as that of `testing.FakeWeb`
        self.without_tools = set()  # so that whoever replays it asks as the recording did
        self._cassette = cassette

    @property
    def platform(self) -> Platform:
        """The platform that was recorded, or the one in force."""
        return PLATFORMS.get(str(self._cassette.head.get("platform"))) or self._real.platform

    def events(self, body: Mapping[str, Any], *, streamed: bool = True) -> AsyncIterator[Events]:
        """Return the events of a reply, which is always asked for as a stream; see `ModelClient.events`."""
        return self._cassette.stream(body, self._real.events)


class RecordedHttp(HttpClient):
    """The engines' client; everything goes through the cassette to (or instead of) `real`."""

    def __init__(self, real: HttpClient, cassette: Recording) -> None:
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
        shown = [
            [name, MARK if name.lower() in SECRET_PARAMETERS else value]
            for name, value in parse_qsl(with_query(url, params).partition("?")[2], keep_blank_values=True)
        ]
        asked = {"method": method, "url": call_address(url), "params": shown, **({} if json is None else {"json": json})}
        self._cassette.redactor.learn(headers or {})

        async def send() -> Fields:
            got = await self._real.request(method, url, params=params, headers=headers, json=json, **options)
            is_json = got.content_type == "application/json"
            return answer_fields(got.status, got.headers, got.body, self._cassette.redactor, is_json=is_json)

        fields = await self._cassette.call("engine", options["provider"], asked, send)
        return HttpResponse(fields["status"], fields["headers"], body_of(fields), call_address(url))

    async def aclose(self) -> None:
        """Close the real client's connections."""
        await self._real.aclose()


def recorded_download(cassette: Recording, real: Any) -> Any:
    """Return a function that reads pages through a cassette, with `real` (None: `http.download.download`) behind it."""

    async def download(url: str, **options: Any) -> Download:
        from ipy_websearch.http import download as pages

        async def send() -> Fields:
            got = await (real or pages.download)(url, **options)
            facts = {"final_url": got.final_url, "content_type": got.content_type, "charset": got.charset}
            return {**facts, **answer_fields(got.status, {}, got.body, cassette.redactor, is_json=False)}

        told = await cassette.call("page", url, None, send)
        final_url, content_type, charset = (str(told.get(name, "")) for name in ("final_url", "content_type", "charset"))
        return pages.Download(final_url, told["status"], content_type, charset, body_of(told))

    return download


class RecordedKeys(Keys):
    """Placeholders for the keys and addresses that were set when a cassette was recorded, so that the same engines are offered.

    Everything else is shared with the real keys: what is set meanwhile is kept for afterwards.
    """

    def __init__(self, real: Keys, cassette: Player) -> None:
        self.__dict__.update(real.__dict__)
        self.secrets = real.secrets  # type: ignore[method-assign]
        self.environ = dict.fromkeys(cassette.head.get("keys") or (), _PLACEHOLDER)
        self._name = cassette.path.name

    def find(self, name: str) -> tuple[str, str] | None:
        """Return a placeholder for a key that was set when the cassette was recorded."""
        return (_PLACEHOLDER, self._name) if self.spec(name).variable in self.environ else None

    def missing(self, name: str) -> MissingKeyError:
        """Return the error that says that a key was not set when the cassette was recorded."""
        variable = self.spec(name).variable
        return MissingKeyError(f"{variable} was not set when {self._name} was recorded; `%websearch stop` ends the replay")


def _key_names(keys: Keys) -> list[str]:
    """Return the variables of the keys that are set, and of the addresses of providers that have none by default."""
    infos = provider_infos().values()
    known = dict.fromkeys((*KEYS, *(key for info in infos for key in info.keys)))
    return [*filter(keys.usable, known), *(i.base_variable for i in infos if not i.base_default and i.address(keys))]
