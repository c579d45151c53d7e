"""Recording and replaying a session: one cassette at a time, with the session's connections exchanged while it runs.

While a cassette runs, the session starts fresh: an empty cache whose entries never expire, engines that have not failed yet,
an empty enrichment store. So the same cells make the same requests, whoever runs them. When it stops, everything is put back.
During a replay the keys are placeholders, calls are booked at zero and marked "replayed"; budgets count them at their price,
so that limits are reached where they were, and forget that afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipy_websearch.cassette.format import Redactor
from ipy_websearch.cassette.traffic import (
    Cassette,
    Player,
    RecordedHttp,
    RecordedModel,
    Recorder,
    Send,
    recorded_download,
)
from ipy_websearch.database import Cache
from ipy_websearch.enrichment.store import Store
from ipy_websearch.errors import ConfigError, MissingKeyError
from ipy_websearch.keys import KEYS, Keys
from ipy_websearch.money.budget import UNRECORDED, Booking
from ipy_websearch.providers.base import provider_infos
from ipy_websearch.results import SearchResults

if TYPE_CHECKING:
    from ipy_websearch.session import Session

_EXCHANGED = ("http", "claude", "cache", "router", "index", "reader", "enrich_store", "keys", "download")
_PLACEHOLDER_KEY = "placeholder-for-a-key-of-the-recording"
_PLACEHOLDER_ADDRESS = "http://recorded.invalid"


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
    def record(cls, session: Session, path: str | Path, *, append: bool, force: bool) -> Recording:
        """Begin to record; see `Session.record`."""
        keys = session.keys

        def names() -> list[str]:
            known = dict.fromkeys((*KEYS, *(key for info in provider_infos().values() for key in info.keys)))
            return [*filter(keys.usable, known), *(name for name in _addresses() if keys.environ.get(name, "").strip())]

        head = {"version": version("ipy_websearch"), "platform": session.claude.platform.name}
        recorder = Recorder(
            Path(path).expanduser(),  # not made absolute: it is printed, and stays in notebooks that others read
            redactor=Redactor(keys.secrets),
            head=head,
            keys=names,
            append=append,
            force=force,
        )
        return cls(session, recorder)

    @classmethod
    def replay(cls, session: Session, path: str | Path, *, instant: bool) -> Recording:
        """Begin to replay; see `Session.replay`. A replay that is running ends once the new cassette has been read."""
        redactor = Redactor(session.keys.secrets)
        player = Player(Path(path).expanduser(), redactor=redactor, version=version("ipy_websearch"), pace=not instant)
        session.stop_recording()
        return cls(session, player)

    @property
    def path(self) -> Path:
        """The cassette's file."""
        return self.cassette.path

    @property
    def replayed_from(self) -> str:
        """The name of the cassette that is replayed, "" while one is recorded."""
        return self.path.name if self.cassette.replaying else ""

    @property
    def has_model(self) -> bool | None:
        """Whether the cassette that is replayed has answers of a model; None while one is recorded."""
        return self.cassette.has_model

    def through(self, send: Send, headers: Mapping[str, Any]) -> Send:
        """Return a sender of model requests that goes through the cassette: for clients that are not the session's own.
        `headers` are those that their keys go up in."""
        self.cassette.redactor.learn(headers)
        return partial(self.cassette.stream, send=send)

    def attach(self, booking: Booking) -> Booking:
        """Return a new question's booking, which says that its calls were replayed."""
        booking.replayed_from = self.replayed_from
        return booking

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
        return f"{self.path.name} is being {'replayed' if self.cassette.replaying else 'recorded'}"

    def __repr__(self) -> str:
        return f"<{self}>"


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
