"""The cache of answers: what it keeps, for how long, and that nothing which happens to its file stops a search."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.http.cache import HELD_S, Cache


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock in the test's hand."""
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the cache shall be; the folder does not exist yet."""
    return tmp_path / "data" / "cache.sqlite"


def test_what_was_put_is_had_back_with_its_age(path: Path, clock: Clock) -> None:
    """A value comes back as it was, with the seconds since it was put, also from another connection."""
    value = {"results": [["t", None, 1.5, True]], "raw": {"日本": "\ud800"}}
    cache = Cache(path, clock=clock)
    cache.put("search", "k", value)
    clock.now += 12.5
    assert cache.get("search", "k", 900) == (value, 12.5)
    assert Cache(path, clock=clock).get("search", "k", 900) == (value, 12.5)
    assert cache.get("search", "other", 900) is None and cache.get("page", "k", 900) is None


def test_an_entry_is_not_served_past_its_time(path: Path, clock: Clock) -> None:
    """The caller says how old is too old; 0 seconds serve nothing."""
    cache = Cache(path, clock=clock)
    cache.put("search", "k", 1)
    assert cache.get("search", "k", 0) is None
    clock.now += 900
    assert cache.get("search", "k", 900) is None and cache.get("search", "k", 901) == (1, 900.0)


def test_a_clock_that_was_set_back_does_not_keep_entries_for_ever(path: Path, clock: Clock) -> None:
    """An entry from the future has no age that could be trusted."""
    cache = Cache(path, clock=clock)
    cache.put("search", "k", 1)
    clock.now -= 3_600
    assert cache.get("search", "k", 900) is None


def test_a_newer_value_replaces_the_older(path: Path, clock: Clock) -> None:
    """One entry for each key."""
    cache = Cache(path, clock=clock)
    cache.put("search", "k", 1)
    clock.now += 10
    cache.put("search", "k", 2)
    assert cache.get("search", "k", 900) == (2, 0.0) and cache.stats()["entries"] == 1


def test_the_oldest_go_when_it_is_full(path: Path, clock: Clock) -> None:
    """The whole stays below `max_bytes`; what is left is the newest; a giant is not kept at all."""
    cache = Cache(path, clock=clock, max_bytes=100_000)
    for number in range(300):
        clock.now += 1
        cache.put("search", str(number), "x" * 1_000)
    assert cache.stats()["bytes"] <= 100_000
    assert cache.get("search", "299", 900) is not None and cache.get("search", "0", 900) is None
    kept = [number for number in range(300) if cache.get("search", str(number), 900)]
    assert kept == list(range(kept[0], 300)) and len(kept) >= 70
    cache.put("search", "giant", "x" * 50_000)
    assert cache.get("search", "giant", 900) is None and cache.get("search", "299", 900) is not None


def test_clearing_leaves_nothing_of_the_searches_in_the_file(path: Path) -> None:
    """One kind or all can be cleared; the words are gone from the file, and the file shrinks."""
    cache = Cache(path)
    cache.put("search", "large", "x" * 2_000_000)
    cache.put("search", "embarrassing question", {"q": "embarrassing question"})
    cache.put("page", "https://a.example/", {"content": "text"})
    assert cache.clear("search") == 2 and cache.stats()["kinds"] == {"page": 1}
    cache.close()
    assert not any(b"embarrassing" in file.read_bytes() for file in path.parent.iterdir())
    assert sum(file.stat().st_size for file in path.parent.iterdir()) < 200_000
    assert cache.clear() == 1 and cache.clear() == 0
    assert cache.stats() == {"path": str(path), "entries": 0, "bytes": 0, "kinds": {}}


def test_only_its_owner_can_read_it(path: Path) -> None:
    """What was searched for is nobody else's business."""
    cache = Cache(path)
    cache.put("search", "k", 1)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name


def test_nothing_is_opened_before_the_first_use(path: Path) -> None:
    """Making a cache touches no file."""
    Cache(path)
    assert not path.parent.exists()


@pytest.mark.parametrize(
    "content", [b"this is no database at all, only text" * 100, b"\x00" * 4096, b"SQLite format 3\x00" + b"\xff" * 8000]
)
def test_a_broken_file_is_moved_aside(path: Path, content: bytes) -> None:
    """A file that is no database is kept under another name, the cache begins anew, and that is said."""
    path.parent.mkdir()
    path.write_bytes(content)
    cache = Cache(path)
    assert cache.get("search", "k", 900) is None
    cache.put("search", "k", 1)
    assert cache.get("search", "k", 900) is not None
    moved = [file for file in path.parent.iterdir() if file.name.startswith("cache.sqlite.broken-")]
    assert len(moved) == 1 and moved[0].read_bytes() == content
    assert len(cache.warnings) == 1 and moved[0].name in cache.warnings[0]


def test_a_file_that_breaks_while_it_is_open_is_replaced(path: Path) -> None:
    """Damage found in the middle of a session does not end it."""
    cache = Cache(path)
    for number in range(200):
        cache.put("search", str(number), "x" * 3_000)
    cache.close()
    data = bytearray(path.read_bytes())
    data[4_096:] = b"\xa5" * (len(data) - 4_096)
    path.write_bytes(data)
    assert cache.get("search", "7", 900) is None
    cache.put("search", "k", 1)
    assert cache.get("search", "k", 900) is not None and cache.warnings


def test_a_folder_that_cannot_be_written_turns_it_into_memory(tmp_path: Path) -> None:
    """Where there is no file there is still a cache, for this session."""
    (tmp_path / "file").write_text("not a folder")
    cache = Cache(tmp_path / "file" / "cache.sqlite")
    cache.put("search", "k", 1)
    assert cache.get("search", "k", 900) is not None
    assert cache.stats()["path"] is None and "memory" in cache.warnings[0]


def test_without_a_path_it_is_memory() -> None:
    """None as a path writes nothing and warns of nothing."""
    cache = Cache(None)
    cache.put("search", "k", [1])
    assert cache.get("search", "k", 900) is not None and cache.warnings == []


def test_a_table_of_another_make_turns_it_into_memory(path: Path) -> None:
    """A file that is a database but not ours is left as it is."""
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE entry_v1 (something TEXT)")
    cache = Cache(path)
    cache.put("search", "k", 1)
    assert cache.get("search", "k", 900) is not None and "memory" in cache.warnings[0]


def test_a_locked_file_is_a_miss_and_no_error(path: Path) -> None:
    """Another process that writes for long costs a quarter of a second, not the search."""
    cache = Cache(path)
    cache.put("search", "k", 1)
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")
    begun = time.monotonic()
    cache.put("search", "k", 2)
    assert time.monotonic() - begun < 2
    other.rollback()
    other.close()
    assert cache.get("search", "k", 900) is not None and cache.warnings == []


def test_many_threads_share_it(path: Path) -> None:
    """The background loop and the notebook's thread use one cache."""
    cache = Cache(path)

    def work(name: int) -> None:
        for number in range(30):
            cache.put("search", f"{name}-{number}", number)
            assert cache.get("search", f"{name}-{number}", 900) is not None

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.stats()["entries"] == 120


def test_looking_something_up_is_quick(path: Path) -> None:
    """A look-up takes less than a tenth of a millisecond, so that it never matters."""
    cache = Cache(path)
    cache.put("search", "k", {"results": ["x" * 200] * 10})
    best = min(_timed(lambda: cache.get("search", "k", 900)) for _ in range(50))
    assert best < 0.000_1


def _timed(work: Any) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(key=st.text(alphabet=st.characters(exclude_categories=["Cs"])), value=json_values)
def test_any_json_comes_back_as_it_was(key: str, value: Any) -> None:
    """No key and no value is changed on the way."""
    cache = Cache(None)
    cache.put("search", key, value)
    found = cache.get("search", key, 900)
    cache.close()
    assert found is not None and found[0] == value


# --- what waits a moment ----------------------------------------------------------------------------------------------


def test_what_is_held_is_there_at_once_and_in_the_file_a_moment_later(path: Path) -> None:
    """This process sees it as it is; another one after a quarter of a second, or when it is asked for."""

    async def held() -> list[Any]:
        cache = Cache(path)
        for n in range(3):
            cache.hold("search", f"k{n}", partial(int, n))
        seen: list[Any] = [cache.get("search", "k1", 900), Cache(path).get("search", "k1", 900)]
        await asyncio.sleep(HELD_S + 0.1)
        seen.append(Cache(path).stats()["entries"])
        cache.hold("search", "k1", lambda: "newer")
        seen += [cache.get("search", "k1", 900), cache.stats()["entries"]]
        cache.hold("search", "last", lambda: 4)
        cache.close()
        return [*seen, Cache(path).get("search", "last", 900)]

    now, elsewhere, entries, newer, counted, last = asyncio.run(held())
    assert now is not None and now[0] == 1 and elsewhere is None
    assert entries == counted == 3 and newer[0] == "newer" and last[0] == 4


def test_what_is_held_is_written_when_the_process_ends(path: Path) -> None:
    """A script that searches and ends has paid for what it found."""
    script = "import asyncio, sys; from pathlib import Path; from ipy_websearch.http.cache import Cache\n"
    script += "async def main():\n    cache.hold('search', 'k', lambda: 'v')\n"
    script += "cache = Cache(Path(sys.argv[1])); asyncio.run(main())"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=60)
    found = Cache(path).get("search", "k", 900)
    assert found is not None and found[0] == "v"


def test_without_an_event_loop_nothing_waits(path: Path) -> None:
    """There would be nobody to write it."""
    Cache(path).hold("search", "k", lambda: 1)
    assert Cache(path).stats()["entries"] == 1


def test_what_is_held_and_is_no_json_costs_nobody_anything(path: Path) -> None:
    """An engine of another package may put anything into its results: they are not kept, and those beside them are."""

    async def held() -> None:
        cache = Cache(path)
        cache.hold("search", "odd", object)
        cache.hold("search", "sound", lambda: [1])
        assert cache.get("search", "odd", 900) is None
        cache.close()

    asyncio.run(held())
    cache = Cache(path)
    found = cache.get("search", "sound", 900)
    assert found is not None and found[0] == [1] and cache.get("search", "odd", 900) is None and not cache.warnings
