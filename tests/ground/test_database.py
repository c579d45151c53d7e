"""The SQLite files and the cache: whatever state one is in, the next use works or says in one line why not."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from ipy_websearch.database import Database
from ipy_websearch.http.client import Cache

SCHEMA = "CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, session TEXT NOT NULL, usd INTEGER)"


def prepare(connection: sqlite3.Connection) -> None:
    connection.execute(SCHEMA)
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(title)")


def database(path: Path | None, timeout: float = 0.05) -> Database:
    return Database(path, application_id=77, prepare=prepare, purpose="ledger", busy_timeout_s=timeout)


def add(made: Database) -> None:
    made.write(lambda c: c.execute("INSERT INTO entries (session, usd) VALUES ('s', 1)"))
    made.write(lambda c: c.execute("INSERT INTO words VALUES ('a title')"))


def use(made: Database) -> tuple[int, int]:
    """Do what the package's rooms do: write and read."""
    add(made)
    sums = made.read(lambda c: c.execute("SELECT session, sum(usd) FROM entries GROUP BY session ORDER BY 2").fetchall())
    most = sums[-1][1] if sums else 0  # the file was replaced between the two
    return most, made.read(lambda c: len(c.execute("SELECT * FROM words WHERE words MATCH 'title'").fetchall()))


@pytest.fixture
def sound(tmp_path: Path) -> bytes:
    """The bytes of a file of ours."""
    made = database(tmp_path / "sound.sqlite")
    for _ in range(3):
        add(made)
    made.read(lambda c: c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
    made.close()
    return (tmp_path / "sound.sqlite").read_bytes()


def test_a_file_damaged_anywhere_is_used_or_set_aside(tmp_path: Path, sound: bytes) -> None:
    """Every page zeroed or full of noise."""
    pages = [
        sound[:at] + part + sound[at + 4096 :] for at in range(0, len(sound), 4096) for part in (bytes(4096), b"\xa5" * 4096)
    ]
    replaced = 0
    for n, content in enumerate(pages):
        path = tmp_path / str(n) / "ledger.sqlite"
        path.parent.mkdir()
        path.write_bytes(content)
        made = database(path)
        use(made)
        made.close()
        kept = list(path.parent.glob("*.broken-*Z"))
        assert len(kept) == len(made.warnings) <= 1
        replaced += len(kept)
        use(database(path))
    assert replaced > len(pages) / 2


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE precious (x)"],
        ["PRAGMA application_id = 5", "CREATE TABLE entries (id)"],
    ],
)
def test_a_file_that_is_not_ours_is_set_aside_whole(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)
    made = database(path)
    assert use(made) == (1, 1) and len(made.warnings) == 1 and "another program's" in made.warnings[0]
    (kept,) = tmp_path.glob("ledger.sqlite.broken-*Z")
    with closing(sqlite3.connect(kept)) as other:
        assert statements[-1] in str(other.execute("SELECT sql FROM sqlite_master").fetchall())


def test_a_file_that_cannot_be_opened_is_replaced_by_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for path in (tmp_path / "file" / "ledger.sqlite", tmp_path):
        made = database(path)
        assert use(made) == (1, 1) and made.in_memory
        assert len(made.warnings) == 1 and "until the kernel ends" in made.warnings[0]


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


def test_clearing_leaves_nothing_of_the_searches_in_the_file(path: Path) -> None:
    cache = Cache(path)
    cache.put("search", "embarrassing question", {"q": "embarrassing question" * 10_000})
    cache.put("page", "https://a.example/", {"content": "text"})
    assert cache.clear() == 2 and cache.get("page", "https://a.example/", 900) is None
    cache.close()
    assert not any(b"embarrassing" in file.read_bytes() for file in path.parent.iterdir())
