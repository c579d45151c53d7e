"""The cache of answers: how long it keeps them, what bounds it, and that no state of its file makes a call fail."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from ipy_websearch.http.client import Cache


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "cache.sqlite"


def test_an_entry_is_kept_for_its_time_in_the_file(path: Path) -> None:
    now = 1_000_000.0
    cache = Cache(path, clock=lambda: now)
    assert not path.parent.exists()  # nothing is opened before the first use
    cache.put("search", "k", {"a": [1, None, "ä"]})
    cache.put("page", "k", "another kind")
    cache.close()
    now += 899
    assert Cache(path, clock=lambda: now).get("search", "k", 900) == ({"a": [1, None, "ä"]}, 899)
    assert Cache(path, clock=lambda: now + 1).get("search", "k", 900) is None
    assert Cache(path, clock=lambda: now - 5_000).get("search", "k", 900) is None  # the clock was set back
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in path.parent.iterdir())


def test_the_oldest_entries_go_when_it_is_full_and_giants_are_not_kept(path: Path) -> None:
    now = 0.0
    cache = Cache(path, clock=lambda: now, max_bytes=100_000)
    for number in range(300):
        now += 1
        cache.put("search", str(number), "x" * 1_000)
    assert cache.get("search", "0", 900) is None  # also while the file stays open, as in a long run
    cache.close()
    assert cache.get("search", "0", 900) is None and cache.get("search", "299", 900) is not None
    cache.put("search", "giant", "x" * 50_000)
    cache.put("search", "no JSON", object())
    assert cache.get("search", "giant", 900) is None and cache.get("search", "no JSON", 900) is None


def test_clearing_leaves_nothing_of_the_searches_in_the_file(path: Path) -> None:
    cache = Cache(path)
    cache.put("search", "embarrassing question", {"q": "embarrassing question" * 10_000})
    cache.put("page", "https://a.example/", {"content": "text"})
    assert cache.clear() == 2 and cache.get("page", "https://a.example/", 900) is None
    cache.close()
    assert not any(b"embarrassing" in file.read_bytes() for file in path.parent.iterdir())


def test_a_locked_file_is_a_miss_and_no_error(path: Path) -> None:
    cache = Cache(path)
    cache.put("search", "k", 1)
    with sqlite3.connect(path) as other:
        other.execute("BEGIN EXCLUSIVE")
        cache.put("search", "k", 2)
        other.rollback()
    found = cache.get("search", "k", 900)
    assert found is not None and found[0] == 1 and cache.warnings == []
