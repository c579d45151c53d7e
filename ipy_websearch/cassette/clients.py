"""The session's clients with a tape between them and the network: the same doors, nothing else changed.

While a tape plays, keys are stand-ins: those that were set when it was recorded count as set, all others do not, so that the
same engines and tools are offered as then. What is set meanwhile is kept for afterwards.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ipy_websearch.cassette.player import Player
from ipy_websearch.cassette.recorder import Recorder
from ipy_websearch.enrichment.store import Store
from ipy_websearch.errors import ConfigError, MissingKeyError
from ipy_websearch.http.client import HttpClient, Params, call_address
from ipy_websearch.http.response import HttpResponse
from ipy_websearch.keys import Keys, KeySpec
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.platforms import PLATFORMS, Platform

Tape = Recorder | Player

STAND_IN = "stand-in-for-a-key-of-the-recording"


class TapedModel(ModelClient):
    """The model's client; everything goes over the tape to (or instead of) `real`."""

    def __init__(self, real: ModelClient, tape: Tape) -> None:
        super().__init__(api_key=str)
        self._real = real
        self._tape = tape

    @property
    def platform(self) -> Platform:
        """The platform that was recorded, or the one in force."""
        recorded = self._tape.head.get("platform") if isinstance(self._tape, Player) else None
        return PLATFORMS.get(str(recorded)) or self._real.platform

    async def events(self, body: Mapping[str, Any]) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield the events of a reply one by one, in lists; see `ModelClient.events`."""
        async for event in self._tape.stream(body, self._one_by_one, self._ready):
            yield [event]

    async def message(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a reply as one message; see `ModelClient.message`."""
        return await self._tape.whole(body, self._real.message, self._ready)

    async def _one_by_one(self, body: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        async for events in self._real.events(body):
            for event in events:
                yield event

    async def _ready(self) -> Any:
        return self._real._client()

    async def prepare(self) -> None:
        """Import the SDK, unless a cassette plays."""
        if not self._tape.replaying:
            await self._real.prepare()

    async def check(self) -> None:
        """Try the key; while a tape plays there is nothing to be tried."""
        if not self._tape.replaying:
            await self._real.check()

    def _client(self) -> Any:
        raise ConfigError(f"only single requests go onto cassettes; `%websearch stop` ends {self._tape.name} for anything else")

    async def aclose(self) -> None:
        """Close the real client."""
        await self._real.aclose()


class TapedHttp(HttpClient):
    """The engines' client; everything goes over the tape to (or instead of) `real`."""

    def __init__(self, real: HttpClient, tape: Tape, keys: Keys) -> None:
        super().__init__(user_agent=real.user_agent, secrets=keys.secrets)
        self._real = real
        self._tape = tape

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
        pairs = list(params.items() if isinstance(params, Mapping) else params or ())
        pairs = [*parse_qsl(url.partition("#")[0].partition("?")[2], keep_blank_values=True), *pairs]
        asked = {
            "method": method,
            "url": call_address(url),
            "params": [[name, _written(name, value)] for name, value in pairs if value is not None],
            **({} if json is None else {"json": json}),
        }
        if isinstance(self._tape, Player):
            return await self._tape.engine(options["provider"], asked)
        live = self._real.request(method, url, params=params, headers=headers, json=json, **options)
        return await self._tape.engine(options["provider"], asked, headers or {}, live)

    async def aclose(self) -> None:
        """Close the real client's connections."""
        await self._real.aclose()


def taped_download(tape: Tape) -> Any:
    """Return what reads pages over a tape; see `http.download.download`."""

    async def download(url: str, **options: Any) -> Any:
        if isinstance(tape, Player):
            return await tape.page(url)
        from ipy_websearch.http.download import download as real

        return await tape.page(url, real(url, **options))

    return download


class RecordedKeys(Keys):
    """The keys of a recording, by their names; the values are stand-ins. Changes go to the real ones."""

    def __init__(self, real: Keys, names: list[str], tape: str) -> None:
        super().__init__(real.settings_dir, real.env_file)
        self.real = real
        self._names = frozenset(names)
        self._tape_name = tape

    def find(self, name: str) -> tuple[str, str] | None:
        """Return a stand-in for a key that was set when the tape was recorded."""
        return (STAND_IN, self._tape_name) if self.spec(name).variable in self._names else None

    def secrets(self) -> list[str]:
        """Return the real keys: whatever is written meanwhile must not hold them."""
        return self.real.secrets()

    def set(self, name: str, value: str) -> None:
        """Set a real key, for afterwards."""
        self.real.set(name, value)

    def unset(self, name: str) -> None:
        """Take back a real key."""
        self.real.unset(name)

    def forget(self, name: str) -> list[str]:
        """Forget a real key."""
        return self.real.forget(name)

    def save(self, name: str, value: str) -> Path:
        """Save a real key."""
        return self.real.save(name, value)

    def missing(self, name: str) -> MissingKeyError:
        """Return the error that says that a key was not set when the tape was recorded."""
        spec: KeySpec = self.spec(name)
        return MissingKeyError(
            f"{spec.variable} was not set when {self._tape_name} was recorded, so nothing on it needs it; "
            "`%websearch stop` ends the replay"
        )


class KeepingStore(Store):
    """An enrichment's store that begins empty, so that all requests are made, and keeps what is found in the real one too."""

    def __init__(self, real: Store) -> None:
        super().__init__(None)
        self._real_store = real

    def put(self, *args: Any, **kwargs: Any) -> None:
        """Keep the cells of one row, in both."""
        self._real_store.put(*args, **kwargs)
        super().put(*args, **kwargs)


def _written(name: str, value: Any) -> str:
    from ipy_websearch.cassette.redaction import MARK, SECRET_PARAMETERS

    if name.lower() in SECRET_PARAMETERS:
        return MARK
    return str(value).lower() if isinstance(value, bool) else str(value)
