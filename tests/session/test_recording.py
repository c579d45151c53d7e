"""A session holds its recording: what it exchanges is put back, and nothing outside the session changes."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ipy_websearch import Session, background
from ipy_websearch.errors import ConfigError


def search(session: Session) -> Any:
    return background.run(lambda: session.search("ruby author", provider="searxng"))


def test_a_replay_gives_engines_their_addresses_without_touching_the_environment(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = engine("searxng")
    session = Session()
    with session.record("t.cassette"):
        recorded = search(session)
    monkeypatch.delenv("SEARXNG_BASE_URL")
    before, asked = dict(os.environ), len(server.requests)
    with session.replay("t.cassette", instant=True) as replaying:
        assert session.recording is replaying and replaying.path.name == "t.cassette"
        assert [hit.url for hit in search(session)] == [hit.url for hit in recorded]
        assert dict(os.environ) == before
    assert session.recording is None and len(server.requests) == asked
    with pytest.raises(ConfigError, match="SEARXNG_BASE_URL"):
        search(session)


def test_one_recording_runs_at_a_time_and_its_end_puts_everything_back() -> None:
    session = Session()
    parts = (session.http, session.claude, session.router, session.cache, session.keys)
    with session.record("t.cassette"), pytest.raises(ConfigError, match="recording t.cassette"):
        session.replay("t.cassette")
    assert parts == (session.http, session.claude, session.router, session.cache, session.keys)
    assert session.stop_recording() is None
