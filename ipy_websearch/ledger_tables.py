"""The ledger's tables. Rows are only ever added; everything else in the file is derived from them.

A report over a million rows would take seconds if it read them, so sums are kept by a trigger, in the same transaction as
the row: on each line of `questions`, and in `by_day` (a line for each session, day, notebook, kind and name). The invariant:
both sum up exactly the rows of `entries`. Only `holds` is about what is under way: see `ledger_day`.

Texts that repeat (models, engines, sessions, notebooks) are kept once in `labels`, questions once in `questions`. Money is
whole nano-dollars (1e-9 USD: half a cached Haiku token is 5), NULL where the price is unknown. Times are microseconds
since 1970, days whole days since 1970, both UTC.

Migrations add tables and columns and never change what is there, so that an older release can write to a newer file.
"""

from __future__ import annotations

import sqlite3
from decimal import Decimal

APPLICATION_ID = 0x6977736C  # "iwsl"
DAY_US = 86_400_000_000
NANO = Decimal(10) ** 9
"""Amounts are whole billionths of a US dollar."""

MODEL, SEARCH = 1, 2
"""The numbers of the labels "model" and "search", known beforehand so that the trigger need not look them up."""

_PARTS = {
    "calls": "1",
    "model_calls": f"{{e}}.kind = {MODEL}",
    "searches": f"({{e}}.kind = {SEARCH}) + {{e}}.server_searches",
    "input_tokens": "{e}.input_tokens",
    "output_tokens": "{e}.output_tokens",
    "cached": "{e}.cached",
    "usd": "coalesce({e}.usd, 0)",
    "known": "{e}.usd IS NOT NULL",
    "unknown": "{e}.usd IS NULL",
    "saved": "coalesce({e}.saved, 0)",
}

COUNTS = tuple(_PARTS)
"""What is summed up; `known` and `unknown` are numbers of rows with and without a price, `usd` the sum of the former."""


def entry_counts(table: str) -> list[str]:
    """Return the expressions that make one entry a line of sums, in the order of `COUNTS`."""
    return [part.format(e=table) for part in _PARTS.values()]


_SUMS = ", ".join(f"{name} INTEGER NOT NULL DEFAULT 0" for name in COUNTS)
_ADDED = ", ".join(f"{name} = {name} + excluded.{name}" for name in COUNTS)
_NEW = ", ".join(entry_counts("new"))
_RAISED = ", ".join(f"{name} = {name} + ({part})" for name, part in zip(COUNTS, entry_counts("new"), strict=True))

_VERSION_1 = (
    "CREATE TABLE labels (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)",
    f"INSERT INTO labels VALUES ({MODEL}, 'model'), ({SEARCH}, 'search')",
    f"""CREATE TABLE questions (
        id INTEGER PRIMARY KEY, session INTEGER NOT NULL, notebook INTEGER NOT NULL, question_id TEXT NOT NULL,
        question TEXT NOT NULL, first INTEGER, last INTEGER, {_SUMS})""",
    "CREATE INDEX questions_by_id ON questions (question_id)",
    "CREATE INDEX questions_by_session ON questions (session)",
    """CREATE TABLE entries (
        id INTEGER PRIMARY KEY, time INTEGER NOT NULL, question INTEGER NOT NULL, kind INTEGER NOT NULL,
        name INTEGER NOT NULL, status INTEGER NOT NULL, cached INTEGER NOT NULL, estimated INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cache_read_tokens INTEGER NOT NULL,
        cache_write_5m_tokens INTEGER NOT NULL, cache_write_1h_tokens INTEGER NOT NULL,
        server_searches INTEGER NOT NULL, server_fetches INTEGER NOT NULL,
        units NOT NULL, unit INTEGER NOT NULL, usd INTEGER, saved INTEGER)""",
    "CREATE INDEX entries_by_question ON entries (question)",
    "CREATE INDEX entries_by_time ON entries (time)",
    f"""CREATE TABLE by_day (
        session INTEGER NOT NULL, day INTEGER NOT NULL, notebook INTEGER NOT NULL, kind INTEGER NOT NULL,
        name INTEGER NOT NULL, {_SUMS}, PRIMARY KEY (session, day, notebook, kind, name)) WITHOUT ROWID""",
    f"""CREATE TRIGGER entry_sums AFTER INSERT ON entries BEGIN
        UPDATE questions SET first = min(coalesce(first, new.time), new.time),
            last = max(coalesce(last, new.time), new.time), {_RAISED} WHERE id = new.question;
        INSERT INTO by_day SELECT session, new.time / {DAY_US}, notebook, new.kind, new.name, {_NEW}
            FROM questions WHERE id = new.question
            ON CONFLICT (session, day, notebook, kind, name) DO UPDATE SET {_ADDED};
    END""",
    "CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END",
    "CREATE TRIGGER entries_stay_too BEFORE DELETE ON entries BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END",
)

_VERSION_2 = (
    """CREATE TABLE holds (
        id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL, seen INTEGER NOT NULL,
        reserved INTEGER NOT NULL, spent INTEGER NOT NULL) WITHOUT ROWID""",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1, _VERSION_2)
"""The statements that lead from each version of the tables (`PRAGMA user_version`) to the next, beginning with none."""


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables up to date, inside the caller's transaction; a newer file is left as it is."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {max(version, len(MIGRATIONS)):d}")
