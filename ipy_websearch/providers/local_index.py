"""The local index: a file with the embedded corpus and the folders the user added, searched by SQLite FTS5.

The invariant: the index can always be made again from the corpus and the folders, so a file that is broken, foreign or of
another version costs a warning and the time to build it, never an error. Constructing an index opens and reads nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypedDict, TypeVar

from ipy_websearch.database import Database
from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.providers import local_tables as tables
from ipy_websearch.providers.local_files import UnreadableError, find_files, path_of, read_corpus, read_file
from ipy_websearch.providers.local_query import parse_question
from ipy_websearch.providers.local_tables import CORPUS, Entry, Hit

APPLICATION_ID = 0x69777369  # "iwsi"
BATCH = 50
"""Files stored in one transaction: other kernels that write wait for at most so many."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What `add_folder` did: counts of documents, and (path, reason) for each file that was not read."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    skipped: list[tuple[Path, str]] = field(default_factory=list)


class IndexStats(TypedDict):
    """How much the index holds: documents of the corpus and of folders, folders, and bytes on disk (0 in memory).

    `path` is None when the index is in memory.
    """

    corpus_documents: int
    folder_documents: int
    folders: int
    size_bytes: int
    path: Path | None


class LocalIndex:
    """The index in the file `path` (None: in memory). `corpus` is the folder of articles, by default the package's own."""

    def __init__(self, path: Path | None, *, corpus: Traversable | None = None) -> None:
        self._corpus = corpus
        self._database = Database(path, application_id=APPLICATION_ID, prepare=self._prepare, purpose="local search index")

    @property
    def warnings(self) -> list[str]:
        """One line for each thing that went wrong with the file; the index works all the same."""
        return self._database.warnings

    @property
    def is_open(self) -> bool:
        """Say whether the first use, which reads the corpus, is over."""
        return self._database.is_open

    def open(self) -> None:
        """Open the file and bring the corpus up to date: tens of milliseconds the first time, then nothing.

        Raises:
            ProviderError: this Python's SQLite cannot search text.
        """
        self._do(self._database.read, lambda connection: None)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def search(
        self,
        query: str,
        *,
        count: int = 5,
        since: str = "",
        until: str = "",
        allowed: Sequence[str] = (),
        blocked: Sequence[str] = (),
    ) -> list[Hit]:
        """Return the best documents for a query in words or a whole question, best first.

        `since` and `until` are "YYYY-MM-DD", both included; a document without a date then stays out. `allowed` and
        `blocked` name sites (see `Document.site`). A hit holds a third of the query's terms or has one in its title.

        Raises:
            ProviderError: this Python's SQLite cannot search text.
        """
        question = parse_question(query)
        if not question.terms:
            return []
        narrowed, values = tables.condition(since, until, allowed, blocked)
        return self._do(self._database.read, lambda c: tables.find(c, question, count, narrowed, values))

    def document(self, url: str) -> tuple[str, str, datetime | None] | None:
        """Return (title, Markdown, date) of a whole document, None when the index has none of that address.

        The Markdown begins with a heading; the date is midnight UTC of the document's day, None when it has none.
        """
        found = self._do(self._database.read, lambda c: tables.document(c, url.split("#", 1)[0]))
        if found is None:
            return None
        headed = found.body.startswith(("# ", "## "))
        return found.title, found.body if headed else f"# {found.title}\n\n{found.body}", moment(found.date)

    def add_folder(self, folder: Path) -> IndexReport:
        """Index the Markdown, text, HTML and notebook files of a folder, or bring it up to date; return what changed.

        A file is read again when its size or time changed, and leaves the index when it has vanished. A folder inside
        one that was added before is brought up to date there; one around others takes them over.

        Raises:
            ConfigError: it is not a folder.
            ProviderError: this Python's SQLite cannot search text, or the disk is full.
        """
        folder = Path(folder).expanduser().resolve()
        if not folder.is_dir():
            raise ConfigError(f"{str(folder)!r} is not a folder; give one that holds Markdown, text, HTML or notebook files")
        origin = self._do(self._database.write, lambda c: tables.claim_root(c, folder))
        known = self._do(self._database.read, lambda c: tables.known_files(c, origin, folder.as_uri()))
        return self._take_in(folder, origin, known)

    def _take_in(self, folder: Path, origin: str, known: dict[str, tuple[int, int]]) -> IndexReport:
        """Store what is new or changed below `folder`, and remove what is left of the `known` files."""
        root, skipped, batch = path_of(origin), list[tuple[Path, str]](), list[Entry]()
        added = updated = 0
        for path, status in find_files(folder):
            url = path.as_uri()
            if isinstance(status, str):
                skipped.append((path, status))
                continue
            stamp = (status.st_mtime_ns, status.st_size)
            if known.get(url) == stamp:
                del known[url]
                continue
            try:
                batch.append(Entry(read_file(path, root), *stamp))
            except UnreadableError as exc:
                skipped.append((path, str(exc)))
                continue
            before = known.pop(url, None)
            added, updated = added + (before is None), updated + (before is not None)
            if len(batch) == BATCH:
                self._store(batch, origin)
        self._store(batch, origin)
        self._do(self._database.write, lambda c: tables.remove(c, known))
        return IndexReport(added, updated, len(known), skipped)

    def _store(self, batch: list[Entry], origin: str) -> None:
        self._do(self._database.write, lambda c: tables.put(c, batch, origin))
        batch.clear()

    def remove_folder(self, folder: Path) -> int:
        """Take a folder's documents out of the index and return how many they were; its files stay as they are.

        Raises:
            ConfigError: the folder was not added; the message names those that were.
        """
        folder = Path(folder).expanduser().resolve()
        known = [path for path, _ in self.folders()]
        if folder not in known:
            names = ", ".join(map(str, known)) or "none"
            raise ConfigError(f"{str(folder)!r} was not added to the local index; its folders: {names}")
        return self._do(self._database.write, lambda c: tables.remove_origin(c, folder.as_uri()))

    def folders(self) -> list[tuple[Path, int]]:
        """Return (folder, number of documents) for every folder that was added."""
        counts = self._do(self._database.read, tables.counts)
        return [(path_of(name), number) for name, number in counts.items() if name != CORPUS]

    def stats(self) -> IndexStats:
        """Return how much the index holds."""
        counts = self._do(self._database.read, tables.counts)
        corpus = counts.pop(CORPUS, 0)
        path = None if self._database.in_memory else self._database.path
        return IndexStats(
            corpus_documents=corpus,
            folder_documents=sum(counts.values()),
            folders=len(counts),
            size_bytes=_size_on_disk(path) if path else 0,
            path=path,
        )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        lost = tables.create_tables(connection)
        tables.load_corpus(connection, *read_corpus(self._corpus or files("ipy_websearch.corpus")))
        if lost:
            names = ", ".join(str(path_of(name)) for name in lost)
            self.warnings.append(f"the local search index was made by another version; add its folders again: {names}")

    def _do(self, door: Callable[[Callable[[sqlite3.Connection], T]], T], work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` on the database, its errors translated."""
        try:
            return door(work)
        except sqlite3.Error as exc:
            if "no such module" in str(exc):
                reason = "this Python's SQLite was built without FTS5; use a Python that has it, or another engine"
            else:
                reason = f"the index failed ({exc})"
            raise ProviderError(f"local search: {reason}", provider="local") from exc


def _size_on_disk(path: Path) -> int:
    parts = (Path(f"{path}{ending}") for ending in ("", "-wal", "-shm"))
    return sum(part.stat().st_size for part in parts if part.exists())


def moment(day: str) -> datetime | None:
    """Return midnight UTC of a "YYYY-MM-DD" day, None for anything else."""
    try:
        return datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    except ValueError:
        return None
