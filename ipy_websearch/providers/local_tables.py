"""The tables of the local index and every statement on them. Each function is given a connection and leaves it open.

The invariant: the full-text table `words` holds exactly `index_form` of title and body of each document. It keeps no text
of its own, so a row can only be taken out with the very words that were put in: `_drop` makes them again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ipy_websearch.providers.local_files import Document
from ipy_websearch.providers.local_query import Question, bare_title, index_form, title_share

SCHEMA_VERSION = 1
"""To be raised with every change of the tables, `index_form` or `bare_title`: an index of another version is made anew."""

CORPUS = "corpus"
CANDIDATES = 40
LEAST_COVERAGE = 0.34

# A title counts eight times: it says what the document is about. bm25() is negative and smaller is better
# (https://www.sqlite.org/fts5.html, "The bm25() function", read 2026-11).
_RANK = "bm25(words, 8.0, 1.0)"
_COLUMNS = "url, title, body, date, site, origin, changed, size"
_DOCUMENT = "SELECT url, title, body, date, site FROM documents"
_SCHEMA = (
    "CREATE TABLE origins (name TEXT PRIMARY KEY, stamp TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE documents (
        id INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE, title TEXT NOT NULL, body TEXT NOT NULL, date TEXT NOT NULL,
        site TEXT NOT NULL, origin TEXT NOT NULL, changed INTEGER NOT NULL, size INTEGER NOT NULL)""",
    "CREATE INDEX documents_by_origin ON documents (origin)",
    "CREATE VIRTUAL TABLE words USING fts5(title, body, content='', tokenize='porter unicode61 remove_diacritics 2')",
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found. `score` is its BM25, weighted with what it covers of the question; higher is better."""

    document: Document
    score: float


@dataclass(frozen=True, slots=True)
class Entry:
    """A document to store, with the time (ns) and size (bytes) of its file, both 0 for the corpus."""

    document: Document
    changed: int = 0
    size: int = 0


def create_tables(connection: sqlite3.Connection) -> list[str]:
    """Make the tables, anew when they are of another version; return the folders whose documents that threw out."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA_VERSION:
        return []
    lost: list[str] = []
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if "origins" in tables:
        lost = [name for (name,) in connection.execute("SELECT name FROM origins WHERE name != ?", (CORPUS,))]
    for name in ("words", "documents", "origins"):
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION:d}")
    return lost


def load_corpus(connection: sqlite3.Connection, stamp: str, documents: Iterable[Document]) -> None:
    """Replace the corpus in the index by `documents`, unless it is already the one with this stamp."""
    row = connection.execute("SELECT stamp FROM origins WHERE name = ?", (CORPUS,)).fetchone()
    if row == (stamp,):
        return
    remove_origin(connection, CORPUS)
    connection.execute("INSERT INTO origins VALUES (?, ?)", (CORPUS, stamp))
    put(connection, map(Entry, documents), CORPUS)


def put(connection: sqlite3.Connection, entries: Iterable[Entry], origin: str) -> None:
    """Store the documents; one with the same address is replaced."""
    for entry in entries:
        d = entry.document
        remove(connection, (d.url,))
        row = (d.url, d.title, d.body, d.date, d.site, origin, entry.changed, entry.size)
        at = connection.execute(f"INSERT INTO documents ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row).lastrowid
        words = (at, index_form(bare_title(d.title)), index_form(d.body))
        connection.execute("INSERT INTO words (rowid, title, body) VALUES (?, ?, ?)", words)


def remove(connection: sqlite3.Connection, urls: Iterable[str]) -> None:
    """Take documents out of the index; addresses that it does not hold are passed over."""
    for url in urls:
        _drop(connection, connection.execute("SELECT id, title, body FROM documents WHERE url = ?", (url,)).fetchall())


def remove_origin(connection: sqlite3.Connection, origin: str) -> int:
    """Take the corpus or a folder out of the index and return how many documents that were."""
    rows = connection.execute("SELECT id, title, body FROM documents WHERE origin = ?", (origin,)).fetchall()
    _drop(connection, rows)
    connection.execute("DELETE FROM origins WHERE name = ?", (origin,))
    return len(rows)


def _drop(connection: sqlite3.Connection, rows: Sequence[tuple[int, str, str]]) -> None:
    for at, title, body in rows:
        words = (at, index_form(bare_title(title)), index_form(body))
        connection.execute("INSERT INTO words (words, rowid, title, body) VALUES ('delete', ?, ?, ?)", words)
        connection.execute("DELETE FROM documents WHERE id = ?", (at,))


def claim_root(connection: sqlite3.Connection, folder: Path) -> str:
    """Return the origin that holds the folder: the folder around it that was added before, or from now on itself.

    Folders inside it that were added before become part of it; their files are marked for reading again.
    """
    address = folder.as_uri()
    names = [name for (name,) in connection.execute("SELECT name FROM origins WHERE name != ?", (CORPUS,))]
    for name in names:
        if is_below(address, name):
            return str(name)
    connection.execute("INSERT INTO origins VALUES (?, '')", (address,))
    for name in names:
        if is_below(name, address):
            connection.execute("UPDATE documents SET origin = ?, changed = -1 WHERE origin = ?", (address, name))
            connection.execute("DELETE FROM origins WHERE name = ?", (name,))
    return address


def known_files(connection: sqlite3.Connection, origin: str, folder: str) -> dict[str, tuple[int, int]]:
    """Return the (time, size) of every document of the origin whose address is below `folder`, by address."""
    rows = connection.execute("SELECT url, changed, size FROM documents WHERE origin = ?", (origin,))
    return {url: (changed, size) for url, changed, size in rows if is_below(url, folder)}


def is_below(url: str, folder: str) -> bool:
    """Say whether an address is the folder's own or one inside it."""
    return url == folder or url.startswith(folder.rstrip("/") + "/")


def condition(since: str, until: str, allowed: Sequence[str], blocked: Sequence[str]) -> tuple[str, list[str]]:
    """Return the SQL that narrows a search, and its values."""
    parts, values = [""], []
    for operator, day in ((">=", since), ("<=", until)):
        if day:
            parts.append(f"d.date != '' AND d.date {operator} ?")
            values.append(day)
    for names, sense in ((allowed, ""), (blocked, "NOT ")):
        if names:
            parts.append(f"{sense}({' OR '.join(['instr(d.site, ?) > 0'] * len(names))})")
            values += [f"/{name}/" for name in names]
    return " AND ".join(parts), values


def document(connection: sqlite3.Connection, url: str) -> Document | None:
    """Return the document of that address, None when there is none."""
    row = connection.execute(f"{_DOCUMENT} WHERE url = ?", (url,)).fetchone()
    return Document(*row) if row else None


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of documents of every origin, in the order of their names; folders may have none."""
    return dict(
        connection.execute("SELECT name, (SELECT count(*) FROM documents WHERE origin = name) FROM origins ORDER BY name")
    )


def find(connection: sqlite3.Connection, question: Question, count: int, narrowed: str, values: Sequence[str]) -> list[Hit]:
    """Return the best documents for the question, best first; words that only begin alike count when nothing else does."""
    found: dict[int, tuple[str, float]] = {}
    for expression in (question.any_term, question.all_terms):
        found |= _matches(connection, expression, count, narrowed, values)
    if found:
        scores = _weighted(connection, found, question)
    else:
        begun = _matches(connection, question.beginnings, count, narrowed, values)
        scores = {at: rank for at, (_, rank) in begun.items()}
    best = sorted(scores, key=lambda at: (-scores[at], at))[:count]
    rows = (connection.execute(f"{_DOCUMENT} WHERE id = ?", (at,)).fetchone() for at in best)
    return [Hit(Document(*row), scores[at]) for at, row in zip(best, rows, strict=True)]


def _matches(
    connection: sqlite3.Connection, expression: str, count: int, narrowed: str, values: Sequence[str]
) -> dict[int, tuple[str, float]]:
    """Return title and rank (positive, higher is better) by number for the best documents."""
    if not expression:
        return {}
    statement = (
        f"SELECT d.id, d.title, -{_RANK} FROM words JOIN documents AS d ON d.id = words.rowid "
        f"WHERE words MATCH ?{narrowed} ORDER BY {_RANK} LIMIT ?"
    )
    rows = connection.execute(statement, (expression, *values, max(CANDIDATES, 2 * count)))
    return {at: (title, rank) for at, title, rank in rows}


def _weighted(connection: sqlite3.Connection, found: Mapping[int, tuple[str, float]], question: Question) -> dict[int, float]:
    """Return the final score of the documents that cover enough of the question.

    All terms together, and a title that is the subject asked about, say more than one rare word that occurs often.
    """
    held = dict.fromkeys(found, 0)
    numbers = ",".join(map(str, found))
    for term in question.expressions:
        for (at,) in connection.execute(f"SELECT rowid FROM words WHERE words MATCH ? AND rowid IN ({numbers})", (term,)):
            held[at] += 1
    scores = {}
    for at, (title, rank) in found.items():
        coverage, share = held[at] / len(question.terms), title_share(title, question)
        if coverage >= LEAST_COVERAGE or share > 0:
            scores[at] = rank * (0.4 + 0.6 * coverage) * (1.0 + share)
    return scores
