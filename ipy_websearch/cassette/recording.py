"""Recording and replaying a session: one cassette at a time, with the session's connections exchanged while it runs.

While a cassette runs, the session starts fresh: an empty cache whose entries never expire, providers that have not failed
yet, an empty enrichment store. So the same cells make the same requests, whoever runs them. When it stops, everything is put
back. During a replay the keys are placeholders, calls are booked at zero and marked "replayed"; budgets count them at their
price, so that limits are reached where they were, and forget that afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ipy_websearch.cassette.clients import KeepingStore, RecordedKeys, TapedHttp, TapedModel, taped_download
from ipy_websearch.cassette.player import Player
from ipy_websearch.cassette.recorder import Recorder
from ipy_websearch.cassette.redaction import Redactor
from ipy_websearch.enrichment.store import Store
from ipy_websearch.http.cache import Cache
from ipy_websearch.keys import KEYS, Keys
from ipy_websearch.money.booking import UNRECORDED, Booking
from ipy_websearch.providers.base import provider_infos
from ipy_websearch.results import SearchResults

if TYPE_CHECKING:
    from ipy_websearch.session import Session

_EXCHANGED = ("http", "claude", "cache", "router", "index", "reader", "enrich_store", "keys", "download")
_PLACEHOLDER_ADDRESS = "http://recorded.invalid"


class Recording:
    """One cassette that a session records or replays; as a context manager it stops at the end of the block."""

    def __init__(self, session: Session, cassette: Recorder | Player) -> None:
        self.cassette = cassette
        self._session = session
        keys = session.keys
        if isinstance(cassette, Player):
            session.budgets.rehearse()
            keys = RecordedKeys(keys, cassette.keys, cassette.name)
            keys.environ = _recorded_environ(keys.real, cassette.keys)
        store = Store(None) if isinstance(cassette, Player) else KeepingStore(session.enrich_store)
        parts = {
            "http": TapedHttp(session.http, cassette, keys),
            "claude": TapedModel(session.claude, cassette),
            "cache": Cache(None, clock=float),
            "enrich_store": store,
            "keys": keys,
            "download": taped_download(cassette),
        }
        self._before = {name: session.__dict__.pop(name) for name in _EXCHANGED if name in session.__dict__}
        session.__dict__.update(parts)

    @classmethod
    def record(cls, session: Session, path: str | Path, *, append: bool, force: bool) -> Recording:
        """Begin to record; see `Session.record`."""
        keys = session.keys

        def names() -> list[str]:
            return [*filter(keys.usable, _key_names()), *(name for name in _addresses() if keys.environ.get(name, "").strip())]

        head = {"version": version("ipy_websearch"), "platform": session.claude.platform.name}
        redactor = Redactor(keys.secrets)
        return cls(session, Recorder(_path(path), redactor=redactor, head=head, keys=names, append=append, force=force))

    @classmethod
    def replay(cls, session: Session, path: str | Path, *, instant: bool) -> Recording:
        """Begin to replay; see `Session.replay`. A replay that is running ends once the new cassette has been read."""
        keys = session.keys.real if isinstance(session.keys, RecordedKeys) else session.keys
        player = Player(_path(path), redactor=Redactor(keys.secrets), version=version("ipy_websearch"), pace=not instant)
        session.stop_recording()
        return cls(session, player)

    @property
    def path(self) -> Path:
        """The cassette's file."""
        return self.cassette.path

    @property
    def replayed_from(self) -> str:
        """The name of the cassette that is replayed, "" while one is recorded."""
        return self.cassette.name if self.cassette.replaying else ""

    @property
    def has_model(self) -> bool | None:
        """Say whether the cassette that is replayed has answers of a model; None while one is recorded."""
        return self.cassette.has_model if isinstance(self.cassette, Player) else None

    def attach(self, booking: Booking) -> Booking:
        """Return a new question's booking, which says that its calls were replayed, and whether any was not on the cassette."""
        self.forget_miss()
        booking.replayed_from, booking.check = self.replayed_from, self.cassette.check
        return booking

    def forget_miss(self) -> None:
        """Forget which request of an earlier cell was not on the cassette."""
        if isinstance(self.cassette, Player):
            self.cassette.missed = None

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
        if self.cassette.replaying:
            session.budgets.resume()
        self.cassette.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<{'replaying' if self.cassette.replaying else 'recording'} {self.path}>"


def _path(path: str | Path) -> Path:
    return Path(path).expanduser()  # not made absolute: it is printed, and stays in notebooks that others read


def _key_names() -> dict[str, None]:
    return dict.fromkeys((*KEYS, *(key for info in provider_infos().values() for key in info.keys)))


def _addresses() -> list[str]:
    """Return the variables of providers that have no default address."""
    infos = provider_infos().values()
    return [info.base_variable for info in infos if info.base_variable and not info.base_default]


def _recorded_environ(real: Keys, names: list[str]) -> dict[str, str]:
    """Return the environment in which exactly the providers that had an address when it was recorded have one."""
    kept = {name: value for name, value in real.environ.items() if name not in _addresses()}
    return kept | {name: _PLACEHOLDER_ADDRESS for name in _addresses() if name in names}
