"""The local index: the embedded articles and the user's folders in one SQLite FTS5 file, and the engine that searches it.

The invariant: the index can always be made again from the articles and the folders, which a text file beside it lists, a line
each. An index that is broken, emptied, foreign or of another version costs a warning and the time to build it, never an error.
Constructing an index opens and reads nothing. Files are read, never run; links that lead out of a folder are not followed.
Ranking is FTS5's own bm25 with the title weighted (https://www.sqlite.org/fts5.html, read 2026-11), documents with all the
words first.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from ipy_websearch.database import Database
from ipy_websearch.errors import ConfigError, FetchError, ProviderError
from ipy_websearch.providers import base
from ipy_websearch.providers.base import Engine, ProviderContext, SearchRequest
from ipy_websearch.providers.passages import Piece, content_words, pieces_of, scores, stem
from ipy_websearch.results import Charge, SearchResult, SearchResults
from ipy_websearch.text import fenced, plain, shorten, visible

# To be raised with every change of the tables or of `_index_form`: an index of another version is made anew.
SCHEMA_VERSION = 11

# Files stored in one transaction: a commit for each would double the time, and other kernels wait for at most so many.
BATCH = 500

SKIPPED_FOLDERS = ("node_modules", "__pycache__", "site-packages")
KINDS = {
    **dict.fromkeys(("", ".txt", ".text", ".rst"), "text/plain"),
    **dict.fromkeys((".md", ".markdown", ".ipynb"), "text/markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "text/html"),
    ".py": "text/x-python",
    ".pdf": "application/pdf",
}
MAX_FILE_BYTES, MAX_PDF_BYTES = 2_000_000, 20_000_000
# The most documents with the words of a query that are ranked; a word that stands in more of them says nothing beside others.
COMMON = 2_000
# The share of a query's words that a document must hold, unless the query names it.
LEAST_COVERAGE = 0.33

_SCHEMA = (
    "DROP TABLE IF EXISTS words",
    "DROP TABLE IF EXISTS documents",
    """CREATE TABLE documents (
        id INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE, title TEXT NOT NULL, body TEXT NOT NULL, date TEXT NOT NULL,
        changed INTEGER NOT NULL, size INTEGER NOT NULL)""",
    "CREATE INDEX places ON documents (date, url)",
    "CREATE VIRTUAL TABLE words USING fts5(title, body, tokenize='porter unicode61 remove_diacritics 2')",
    "CREATE TRIGGER gone AFTER DELETE ON documents BEGIN DELETE FROM words WHERE rowid = old.rowid; END",
)
_STORE = "INSERT INTO documents (url, title, body, date, changed, size) VALUES (?, ?, ?, ?, ?, ?)"
# A word that stands in very many documents is ranked in the first of them alone.
_RANKED = f"""SELECT * FROM (
    SELECT rowid, -bm25(words, 8.0, 1.0) AS score FROM words WHERE words MATCH ? {{narrowed}} LIMIT {COMMON}
) ORDER BY score DESC LIMIT 40"""
_ON_SITE = "(replace(url, '%20', '-') LIKE '%/' || ? || '/%')"
# How many of some phrases (JSON) each document of a list (JSON) holds. FTS5 stops behind the last of them, but looks for a
# phrase that none holds until the end of the index: with the plus it does so once, not once for each document.
_HELD = """SELECT words.rowid, count(*) FROM json_each(?1) AS phrase CROSS JOIN words
WHERE words MATCH phrase.value AND words.rowid <= (SELECT max(value) FROM json_each(?2))
AND +words.rowid IN (SELECT value FROM json_each(?2)) GROUP BY 1"""
_NAMES = """SELECT documents.id, url, words.title FROM documents JOIN words ON words.rowid = documents.id
WHERE documents.id IN (SELECT value FROM json_each(?))"""
_IS_IN_MORE_THAN = "SELECT 1 FROM words WHERE words MATCH ? LIMIT 1 OFFSET ?"
_DOCUMENT = "SELECT title, body, date FROM documents WHERE url = ?"
_DROP = "DELETE FROM documents WHERE url = ?"
_COVERAGE = """SELECT substr(url, 10, instr(substr(url, 10), '/') - 1), count(*) FROM documents -- behind "corpus://"
WHERE url GLOB 'corpus://*' GROUP BY 1 ORDER BY 2 DESC, 1"""
_KNOWN = "SELECT url, changed, size FROM documents WHERE substr(url, 1, length(?1) + 1) = ?1 || '/'"
# Further names that an article's line of facts gives; they are searched as its title is.
_OTHER_NAMES = re.compile(r"^Facts: other names: ([^;\n]+)", re.MULTILINE)
_ARTICLE = re.compile(r"^# +(.+)\n+id: *(\S+) *\n(?:date: *(\S+) *\n)?", re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*\n", re.DOTALL)
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003134f"
_CJK_CHARACTER = re.compile(f"([{_CJK}])")
T = TypeVar("T")


# A document as it is indexed: its address, its title, its Markdown, and its day as "YYYY-MM-DD" ("" when unknown).
Document = tuple[str, str, str, str]


@dataclass(slots=True)
class IndexReport:
    """The outcome of `add_folder`: counts of documents, and (path, reason) for each file that was not read."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    skipped: list[tuple[Path, str]] = field(default_factory=list)


class LocalProvider(
    Engine,
    name="local",
    ignores=("goggles", "place", "country", "language", "safe_search"),
    price=(Charge("local", usd=Decimal(0)),),
):
    """Searches the local index, and keeps it; every answer is free and comes from this machine.

    A domain filter matches, for the corpus, the part after `corpus://` (`planets`, `elements`, …), and for files the name of
    any folder on their path, as a host name would be written ("My Notes" is `my-notes`). `corpus` is the folder of articles,
    by default the package's own.
    """

    def __init__(self, context: ProviderContext, *, corpus: Traversable | None = None) -> None:
        super().__init__(context)
        path = context.data_dir / "index.sqlite"
        self._corpus = corpus or files("ipy_websearch.corpus")
        self._list_file = path.with_suffix(".folders")
        self._to_restore: list[Path] = []
        self._database = Database(
            path,
            application_id=0x69777369,  # "iwsi"
            prepare=self._prepare,
            purpose="local search index",
        )
        # One line for each thing that went wrong with the file, until it was said; the index works all the same.
        self.warnings = self._database.warnings

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the best documents, each with the passage that fits best and up to four further ones.

        Those with all the words of the query, which may be a whole question, come first, then those with enough of them.
        `score` is the BM25 rank; higher is better and only comparable within one answer. With `freshness`, a document without
        a date is left out.

        Raises:
            ProviderError: this Python's SQLite cannot search text.
        """
        _, _, notices = self.fitted(request)
        results = await asyncio.to_thread(self._search, request)
        notices += self.warnings
        self.warnings.clear()
        return SearchResults(tuple(results), request.query, self.name, charges=self.price, notices=tuple(notices), body=None)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def _search(self, request: SearchRequest) -> list[SearchResult]:
        terms = [self._spelt(term) for term in query_terms(request.query)]
        if not terms:
            return []
        narrowed, values = _narrowed(request)
        select = _RANKED.format(narrowed=narrowed)
        quoted = [_quoted(term) for term in terms]
        every, some = " AND ".join(quoted), " OR ".join(quoted)
        complete = dict(self._rows(select, f"{{title}} : ({every})", *values) + self._rows(select, every, *values))
        ranks = complete
        if len(complete) < request.count:
            telling = [term for term in quoted if not self._rows(_IS_IN_MORE_THAN, term, COMMON)]
            ranks = dict(self._rows(select, " OR ".join(telling) or some, *values)) | complete
        candidates, wanted, ranked = json.dumps(list(ranks)), set(map(stem, terms)), []
        held = dict(self._rows(_HELD, json.dumps(quoted), candidates))
        for at, url, names in self._rows(_NAMES, candidates):
            is_named = any(words and words <= wanted for words in map(_stems, names.split(", ")))
            if is_named or held.get(at, 0) >= LEAST_COVERAGE * len(terms):
                weight = 1.3 if is_named else 1.0
                ranked.append((at not in complete, -ranks[at] * weight, url))
        found = []
        for *_, rank, url in sorted(ranked)[: request.count]:
            for title, body, day in self._rows(_DOCUMENT, url):  # another kernel may have just taken it out
                description, further = best_passages(title, body, request.query)
                found.append(SearchResult(title, url, description, base.moment(day), further, round(-rank, 6)))
        return found

    def _spelt(self, term: str) -> str:
        """Return a word as it is searched: one that the index lacks becomes the word of a title of ours that it resembles."""
        if self._rows(_IS_IN_MORE_THAN, _quoted(term), 0):
            return term
        titles = self._rows("SELECT lower(title) FROM documents WHERE url GLOB 'corpus://*'")
        names = {word for (title,) in titles for word in title.split()}
        return next(iter(get_close_matches(term, names, 1, 0.8)), term)

    def document(self, url: str) -> tuple[str, str, datetime | None] | None:
        """Return (title, Markdown, date) of a whole document, None when the index has none of that address.

        The Markdown begins with a heading; the date is midnight UTC of the document's day, None when it has none.
        """
        for title, body, day in self._rows(_DOCUMENT, url.split("#", 1)[0]):
            return title, body if body.startswith(("# ", "## ")) else f"# {title}\n\n{body}", base.moment(day)
        return None

    def add_folder(self, folder: Path) -> IndexReport:
        """Index the readable files of a folder, or bring it up to date; return what changed.

        A file is read again when its size or time changed, and leaves the index when it has vanished.

        Raises:
            ConfigError: it is not a folder.
            ProviderError: this Python's SQLite cannot search text, or the disk is full.
        """
        folder = folder.expanduser().resolve()
        if not os.path.isdir(folder):  # a name that is too long is none either
            raise ConfigError(
                f"{str(folder)[:200]!r} is not a folder; give one that holds Markdown, text, HTML, PDF or notebook files"
            )
        self._list_folders(lambda listed: {*listed, folder})
        known, report, rows = self._known(folder), IndexReport(), list[tuple[Any, ...]]()
        for path in _files(folder):
            url = path.as_uri()
            try:
                stamp = _readable(path, folder)
                document = None if stamp == known.get(url) else _read_file(path)
            except Exception as exc:  # whatever is in one file, the others are read
                report.skipped.append((path, str(exc) or type(exc).__name__))
                continue
            if document is not None:
                rows.append((*document, *stamp))
                report.added, report.updated = report.added + (url not in known), report.updated + (url in known)
            known.pop(url, None)
            if len(rows) == BATCH:
                self._put(rows)
                rows.clear()
        self._put(rows)
        self._drop(known)
        report.removed = len(known)
        return report

    def remove_folder(self, folder: Path) -> int:
        """Take a folder's documents out of the index and return how many they were; its files stay as they are.

        Raises:
            ConfigError: the folder was not added; the message names those that were.
        """
        folder, listed = folder.expanduser().resolve(), dict(self.folders())
        if folder not in listed:
            raise ConfigError(
                f"{str(folder)!r} was not added to the local index; its folders: {', '.join(map(str, listed)) or 'none'}"
            )
        self._drop(self._known(folder))
        self._list_folders(lambda listed: {*listed} - {folder})
        return listed[folder]

    def folders(self) -> list[tuple[Path, int]]:
        """Return (folder, number of documents) for every folder that was added."""
        return [(folder, len(self._known(folder))) for folder in self._listed()]

    def coverage(self) -> dict[str, int]:
        """Return how many embedded articles there are of each subject, most first: countries, elements, …"""
        return dict(self._rows(_COVERAGE))

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables anew where they are missing, of another version, or made of other articles."""
        stamp, documents = read_corpus(self._corpus)
        if connection.execute("PRAGMA user_version").fetchone() == (stamp,):
            return
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {stamp:d}")
        _store(connection, [(*document, 0, 0) for document in documents])
        self._to_restore = [folder for folder in self._listed() if folder.is_dir()]

    def _listed(self) -> list[Path]:
        """Return the folders that were added, in order."""
        with suppress(OSError):  # none was, or the file cannot be read
            return [Path(line) for line in self._list_file.read_text("utf-8", "replace").splitlines() if os.path.isabs(line)]
        return []

    def _list_folders(self, changed: Callable[[list[Path]], set[Path]]) -> None:
        """Write the list of folders as `changed` returns it; the index is locked meanwhile, so no kernel loses another's.

        The list is replaced as a whole: neither a kill nor a full disk leaves half of it.
        """

        def write(connection: sqlite3.Connection) -> None:
            written = self._list_file.with_suffix(".new")
            with suppress(OSError):  # the place is read-only: the index is in memory, and forgotten as well
                written.write_text("".join(f"{folder}\n" for folder in sorted(changed(self._listed()))), "utf-8")
                written.replace(self._list_file)

        self._use(write, write=True)

    def _known(self, folder: Path) -> dict[str, tuple[int, int]]:
        """Return the (time, size) of every document below a folder, by address."""
        return {url: (changed, size) for url, changed, size in self._rows(_KNOWN, folder.as_uri())}

    def _put(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._use(lambda db: _store(db, rows), write=True)

    def _drop(self, urls: Iterable[str]) -> None:
        self._use(lambda db: db.executemany(_DROP, [(url,) for url in urls]), write=True)

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self._use(lambda db: db.execute(query, values).fetchall())

    def _use(self, work: Callable[[sqlite3.Connection], T], *, write: bool = False) -> T:
        """Do `work` on the database (`write`: in one transaction), its errors translated; an index that was made anew gets its
        folders back first."""
        try:
            self._database.read(lambda connection: None)
            while self._to_restore:
                folder = self._to_restore.pop()
                self.add_folder(folder)
                self.warnings.append(f"the folder {folder} was read again, since the local search index was made anew")
            return self._database.write(work) if write else self._database.read(work)
        except sqlite3.Error as exc:
            raise ProviderError(f"local search: the index failed ({exc})", provider="local", reason="server") from exc


def _store(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Store documents, each with the time and size of its file, in place of those of the same address."""
    connection.executemany(_DROP, [row[:1] for row in rows])  # all first: a delete makes FTS5 write out what was added
    for row in rows:
        _, title, body, *_ = row
        at = connection.execute(_STORE, row).lastrowid
        names = ", ".join([title, *_OTHER_NAMES.findall(body)])
        words = (at, _index_form(names), _index_form(body))
        connection.execute("INSERT INTO words (rowid, title, body) VALUES (?, ?, ?)", words)


def _narrowed(request: SearchRequest) -> tuple[str, list[str]]:
    """Return the SQL, with its values, that keeps a search to the days and sites of a request; a folder on the path of a
    document counts as its site."""
    days, allowed, blocked = base.date_range(request.freshness), request.allowed_domains, request.blocked_domains
    conditions = ["date BETWEEN ? AND ?"] if days else []
    if sites := allowed or blocked:  # never both
        conditions.append(f"({' + '.join([_ON_SITE] * len(sites))} > 0) = {bool(allowed)}")
    # Without the plus, SQLite would search anew for each of the documents.
    narrowed = f"AND +rowid IN (SELECT id FROM documents WHERE {' AND '.join(conditions)})" if conditions else ""
    return narrowed, [*map(str, days or ()), *sites]


# --- queries and passages ---------------------------------------------------------------------------------------------


def _index_form(text: str) -> str:
    """Return `text` as it is indexed: C++ and C# as words, ß as ss, and each character of an unspaced script by itself."""
    return _with_symbols(text if text.isascii() else _CJK_CHARACTER.sub(r" \1 ", text))


def _with_symbols(text: str) -> str:
    return re.sub(r"\b([A-Za-z])\+\+", r"\1plusplus", re.sub(r"\b([A-Za-z])#", r"\1sharp", text)).replace("ß", "ss")


def _stems(text: str) -> set[str]:
    return {stem(word) for word in content_words(text)}


def query_terms(query: str) -> tuple[str, ...]:
    """Return the words of a query that say what it is about, each once; all of them when it has only function words.

    >>> query_terms("How many moons does Mars have?")
    ('moons', 'mars')
    """
    words = content_words(_with_symbols(re.sub(r"['\u2019](?:s|t|re|ve|ll|d|m)\b", "", query.lower())))
    return tuple(words or re.findall(r"\w+", query))[:32]


def _quoted(term: str) -> str:
    """Return a term as an FTS5 string; an unspaced run of Chinese, Japanese or Korean becomes a phrase of its characters."""
    return '"' + _CJK_CHARACTER.sub(r"\1 ", term).strip() + '"'


def best_passages(title: str, body: str, query: str) -> tuple[str, tuple[str, ...]]:
    """Return (description, further passages): the best paragraph for the query, then up to four in full, an article's line of
    facts always among them.

    When the best paragraph is longer than a description may be, it is among the passages as well: nothing is lost.
    """
    pieces = pieces_of(body) or [Piece((), body)]
    ranks = scores([stem(word) for word in content_words(query)], [title], [(0, piece) for piece in pieces])
    best = sorted(range(len(pieces)), key=lambda at: -ranks[at])
    texts = [text for at in best if (text := _as_text(pieces[at]))] or [plain(body)]
    description = shorten(texts[0], 300)
    further = sorted((text for text in texts if text != description), key=lambda text: not text.startswith("Facts: "))
    return description, tuple(further[:4])


def _as_text(piece: Piece) -> str:
    """Return a paragraph for people: prose as one line with its heading in front, code in its own lines."""
    if "```" in piece.text:
        return visible(re.sub(r"^ *```.*\n?", "", piece.text, flags=re.MULTILINE)).strip("\n")
    text = plain(piece.text)
    return f"{plain(piece.headings[-1])}: {text}" if piece.headings and text else text


# --- reading documents ------------------------------------------------------------------------------------------------


def read_corpus(folder: Traversable) -> tuple[int, list[Document]]:
    """Return (stamp, documents) of the articles in the `*.md` files of `folder`; the stamp changes when any file does."""
    stamp, documents = SCHEMA_VERSION, list[Document]()
    for file in sorted((f for f in folder.iterdir() if f.name.endswith(".md")), key=lambda f: f.name):
        data = file.read_bytes()
        stamp = zlib.crc32(data, stamp)
        _, *articles = _ARTICLE.split(data.decode("utf-8").replace("\r\n", "\n"))
        for title, url, day, body in zip(*(articles[n::4] for n in range(4)), strict=True):
            documents.append((url, title.strip(), body.strip(), day or ""))
    return stamp % 2**31, documents


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder; hidden files and folders, SKIPPED_FOLDERS and linked folders are passed over."""
    for parent, names, found in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in SKIPPED_FOLDERS)
        yield from (Path(parent, name) for name in sorted(found) if not name.startswith("."))


def _readable(path: Path, folder: Path) -> tuple[int, int]:
    """Return the (time in microseconds, size) of a file that can be a document; raise with the reason for any other."""
    status, most = path.stat(), MAX_PDF_BYTES if path.suffix.lower() == ".pdf" else MAX_FILE_BYTES
    rules = (
        (path.suffix.lower() not in KINDS, f"not a kind of file that is read ({path.suffix})"),
        (path.is_symlink() and not path.resolve().is_relative_to(folder), "a link that leads out of the folder"),
        (not path.is_file(), "not a regular file"),
        (status.st_size > most, f"{status.st_size:,} bytes; files up to {most:,} are read"),
    )
    for broken, message in rules:
        if broken:
            raise FetchError(message)
    return status.st_mtime_ns // 1_000, status.st_size


def _read_file(path: Path) -> Document:
    """Return a file as a document; its date is the one it states, else that of its last change."""
    from ipy_websearch.extract.page import extract

    data, suffix = path.read_bytes(), path.suffix.lower()
    kind = KINDS[suffix]
    page = extract(_notebook_text(data) if suffix == ".ipynb" else data, url=path.as_uri(), content_type=kind)
    title, text, stated = page.title, page.content, f"{page.published_date or ''}"[:10]
    if kind in ("text/plain", "text/markdown"):
        title, stated, text = _read_text(text)
    if not (data.strip() and text.strip()):
        raise FetchError(page.note or "there is no text in it")
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
    title = plain(title) or plain(path.name if suffix == ".py" else path.stem) or "untitled"
    return (path.as_uri(), title, text.strip(), stated or changed)


def _read_text(text: str) -> tuple[str, str, str]:
    """Return (title, date, text) of Markdown or plain text: from its front matter, else its first heading."""
    front = _FRONT_MATTER.match(text)
    fields = dict(re.findall(r"^(title|date): *[\"']?(.*?)[\"']? *$", front[1], re.MULTILINE)) if front else {}
    text = text[front.end() :] if front else text
    prose = "".join(text.split("```")[::2])  # a comment in code is no heading
    heading = re.search(r"^#{1,3} +(.+?) *#*$", prose, re.MULTILINE)
    stated = fields.get("date", "")[:10]
    return fields.get("title") or (heading[1] if heading else ""), stated if base.moment(stated) else "", text


def _notebook_text(data: bytes) -> bytes:
    """Return what people wrote into a notebook: its Markdown and its code; outputs are left out."""
    try:
        texts = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(data)["cells"]]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise FetchError("it is not a notebook that can be read") from None
    parts = (fenced(part, "python") if kind == "code" else part for kind, part in texts if part.strip())
    return "\n\n".join(parts).encode("utf-8", "replace")
