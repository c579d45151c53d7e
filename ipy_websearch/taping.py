"""The session's side of cassettes: `record`, `replay` and `stop_tape`, and what changes in a session meanwhile.

While a tape runs, a session begins like a fresh one: an empty cache in which nothing grows old, engines that have not failed
yet, an enrichment's store without values. So the same cells make the same requests, whoever runs them and whenever. When it
stops, everything is put back as it was. While one plays, keys are stand-ins, calls are booked at nothing and marked
"replayed"; the ceilings count them at their price, so that limits are reached where they were, and forget that afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ipy_websearch.accounts import Accounts
from ipy_websearch.booking import UNTAPED, Booking
from ipy_websearch.errors import ConfigError
from ipy_websearch.results import SearchResults

if TYPE_CHECKING:
    from ipy_websearch.cassette.clients import Tape
    from ipy_websearch.cassette.player import Player

_TAPED = ("http", "claude", "cache", "router", "index", "reader", "enrich_store")
_PACKAGE = "ipy_websearch"


class Taping:
    """A tape that runs; as a context manager it stops at the end of the block, and `stop()` stops it at once."""

    def __init__(self, session: Tapes, tape: Tape) -> None:
        self._session = session
        self.tape = tape

    @property
    def path(self) -> Path:
        """The cassette."""
        return self.tape.path

    def stop(self) -> None:
        """Stop it, unless it has stopped already."""
        if self._session.tape is self.tape:
            self._session.stop_tape()

    def __enter__(self) -> Taping:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<{'replaying' if self.tape.replaying else 'recording'} {self.path}>"


class Tapes(Accounts):
    """A session that can be recorded and replayed. `tape` is the one that runs."""

    tape: Tape | None = None

    def record(self, path: str | Path, *, append: bool = False, force: bool = False) -> Taping:
        """Record everything that models, engines and pages are sent and answer, without keys, into one readable file.

        It goes on until `stop_tape()`, or the end of the `with` block (`aclose()` closes connections, not the tape). `append`
        goes on with a file that is there, `force` replaces it. The built-in offline model is no traffic and is not recorded: a
        replay runs it again, over the recorded searches. Nor are calls of intercepted clients, which are their owner's, and
        Message Batches, which are refused.

        >>> from ipy_websearch import Session
        >>> with Session().record("example.cassette") as tape:
        ...     print(tape)
        <recording example.cassette>

        Raises:
            ConfigError: the file is there already or cannot be written, or a tape is running.
        """
        from ipy_websearch.cassette.recorder import Recorder
        from ipy_websearch.cassette.redaction import Redactor

        if self.tape is not None:
            raise ConfigError(f"{self._doing()}; `%websearch stop` ends that")
        head = {"version": version(_PACKAGE), "platform": self.claude.platform.name}
        redactor = Redactor(self.credentials.secrets)
        tape = Recorder(_path(path), redactor=redactor, head=head, keys=lambda: _set_names(self), append=append, force=force)
        return self._begin(tape)

    def replay(self, path: str | Path, *, instant: bool = False) -> Taping:
        """Answer everything from a cassette, without keys, network or costs; a tape that plays already begins anew.

        Replies come in the rhythm in which they were recorded, or all at once (`instant`).

        >>> from ipy_websearch import Session
        >>> with Session().record("played.cassette"), Session().replay("played.cassette", instant=True) as tape:
        ...     print(tape)
        <replaying played.cassette>

        Raises:
            ConfigError: there is no such cassette, a line of it cannot be read, or one is being recorded.
        """
        from ipy_websearch.cassette.player import Player
        from ipy_websearch.cassette.redaction import Redactor

        if self.tape is not None and not self.tape.replaying:
            raise ConfigError(f"{self._doing()}; `%websearch stop` ends that")
        credentials = getattr(self.credentials, "real", self.credentials)
        tape = Player(_path(path), redactor=Redactor(credentials.secrets), version=version(_PACKAGE), pace=not instant)
        self.stop_tape()
        return self._begin(tape)

    def stop_tape(self) -> Tape | None:
        """Stop recording or replaying and put everything back as it was; return the tape, None when none was running."""
        tape, self.tape = self.tape, None
        if tape is None:
            return None
        for name in _TAPED:
            self.__dict__.pop(name, None)
        self.__dict__.update(self._before)
        self.credentials = getattr(self.credentials, "real", self.credentials)
        self.download = None
        for name, value in self._environment.items():
            _set_variable(name, value)
        if tape.replaying:
            self.budgets.resume()
        tape.close()
        return tape

    @property
    def replayed_from(self) -> str:
        """The name of the cassette that is played, "" when none is."""
        return player.name if (player := self._player) is not None else ""

    @property
    def has_model_key(self) -> bool:
        """Say whether questions can go to a real model: a key, a token, or the address of a server that wants none.

        While a tape plays, the tape says: it has answers of a model, or was recorded with the built-in one.
        """
        if (player := self._player) is not None:
            return player.has_model
        if self.credentials.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN"):
            return True
        own_server = bool(os.environ.get("ANTHROPIC_BASE_URL")) and not self.claude.platform.server_tools
        return own_server or self.settings.platform not in ("", "anthropic")

    def as_replayed(self, results: SearchResults) -> SearchResults:
        """Return the results of a search, marked when they come from a cassette."""
        if not self.replayed_from or results.provider in UNTAPED:
            return results
        return replace(results, cost_usd=Decimal(0), notices=(*results.notices, f"replayed from {self.replayed_from}"))

    def booking(self, question: str) -> Booking:
        """Return what books a new question (or search) of this session."""
        self.forget_miss()
        booking = super().booking(question)
        if self.tape is not None:
            booking.replayed_from, booking.check = self.replayed_from, self.tape.check
        return booking

    def forget_miss(self) -> None:
        """Forget what an earlier cell asked in vain of the tape."""
        if (player := self._player) is not None:
            player.missed = None

    @property
    def _player(self) -> Player | None:
        return cast("Player", self.tape) if self.tape is not None and self.tape.replaying else None

    def _doing(self) -> str:
        assert self.tape is not None
        return f"{self.tape.path} is being {'replayed' if self.tape.replaying else 'recorded'} already"

    def _begin(self, tape: Tape) -> Taping:
        from ipy_websearch.cassette.clients import (
            KeepingStore,
            RecordedKeys,
            TapedHttp,
            TapedModel,
            taped_download,
        )
        from ipy_websearch.enrichment.store import Store
        from ipy_websearch.http.cache import Cache

        http, claude, store = self.http, self.claude, self.enrich_store
        self._before: dict[str, Any] = {name: self.__dict__.pop(name) for name in _TAPED if name in self.__dict__}
        self._environment: dict[str, str | None] = {}
        if tape.replaying:
            self.budgets.rehearse()
            keys = cast("Player", tape).keys
            self.credentials = RecordedKeys(self.credentials, keys, tape.name)
            self._environment = {name: os.environ.get(name) for name in _addresses()}
            for name in self._environment:
                _set_variable(name, "http://recorded.invalid" if name in keys else None)
        self.__dict__["http"] = TapedHttp(http, tape, self.credentials)
        self.__dict__["claude"] = TapedModel(claude, tape)
        self.__dict__["cache"] = Cache(None, clock=float)
        self.__dict__["enrich_store"] = Store(None) if tape.replaying else KeepingStore(store)
        self.download = taped_download(tape)
        self.tape = tape
        return Taping(self, tape)


def _path(path: str | Path) -> Path:
    return Path(path).expanduser()  # not made absolute: what is printed stays in notebooks that others read


def _set_names(session: Accounts) -> list[str]:
    """Return the names of the keys that are set, and of the addresses that engines need."""
    from ipy_websearch.keys import KEYS
    from ipy_websearch.providers.registry import provider_infos

    names = dict.fromkeys((*KEYS, *(key for info in provider_infos().values() for key in info.keys)))
    found = [name for name in names if session.credentials.usable(name)]
    return [*found, *(name for name in _addresses() if os.environ.get(name, "").strip())]


def _addresses() -> Iterator[str]:
    """Yield the variables of engines that have no address of their own."""
    from ipy_websearch.providers.registry import provider_infos

    yield from (info.base_variable for info in provider_infos().values() if info.base_variable and not info.base_default)


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
