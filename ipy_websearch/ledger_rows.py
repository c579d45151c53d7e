"""The rows of the ledger and how they are written: questions and labels once, each row with their numbers.

No key gets in: questions and the names of notebooks pass `redact` first. Every value can be written, whatever a server made
up, so no row is lost because of another: counts are cut at `MOST_COUNTED`, and an amount of money that does not fit is unknown.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Literal

from ipy_websearch.ledger_report import microseconds
from ipy_websearch.ledger_tables import NANO
from ipy_websearch.text import shorten, visible
from ipy_websearch.usage import MOST_COUNTED, Usage

QUESTION_CHARS = 200
_REMEMBERED = 4096  # questions and labels whose numbers are kept, so that a row takes one INSERT
_MOST_USD = MOST_COUNTED / NANO  # about nine million: a thousand such rows can still be summed up
_INSERT = """INSERT INTO entries (
    time, question, kind, name, status, cached, estimated, input_tokens, output_tokens, cache_read_tokens,
    cache_write_5m_tokens, cache_write_1h_tokens, server_searches, server_fetches, units, unit, usd, saved
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One model request or one call to an engine.

    `time` is aware (UTC), `name` the model's id or the engine, `units` how many `unit`s an engine billed. `cost_usd` is
    None when the price is unknown; `saved_usd` is what a cache hit would have cost or, for a model request, what its reads
    from the prompt cache saved. `estimated` counts are ours, because the answer broke off before the API said its own, or
    the call before the engine did. "replayed" rows come from a cassette and cost nothing. `notebook` is the notebook's path or
    name, "" when unknown.
    """

    time: datetime
    session: str
    question_id: str
    question: str
    kind: Literal["model", "search", "fetch", "context", "map"]
    name: str
    usage: Usage = Usage()
    units: Decimal = Decimal(0)
    unit: str = ""
    cost_usd: Decimal | None = None
    cached: bool = False
    status: Literal["ok", "error", "interrupted", "replayed"] = "ok"
    estimated: bool = False
    saved_usd: Decimal | None = None
    notebook: str = ""


class RowWriter:
    """Writes rows, and remembers the numbers of the texts that they share."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._remembered: dict[object, int] = {}
        self._remembered_of: sqlite3.Connection | None = None

    def write(self, connection: sqlite3.Connection, rows: Sequence[LedgerRow]) -> None:
        """Insert rows, inside the caller's transaction."""
        if connection is not self._remembered_of or len(self._remembered) > _REMEMBERED:
            self._remembered, self._remembered_of = {}, connection
        try:
            connection.executemany(_INSERT, [self._values(connection, row) for row in rows])
        except BaseException:
            self._remembered_of = None  # the transaction is undone, and with it the numbers given out in it
            raise

    def _values(self, connection: sqlite3.Connection, row: LedgerRow) -> tuple[object, ...]:
        return (
            microseconds(row.time),
            self._question(connection, row),
            *(self._label(connection, text) for text in (row.kind, row.name, row.status)),
            row.cached,
            row.estimated,
            *_counts(row.usage),
            _units(row.units),
            self._label(connection, row.unit),
            _nano_dollars(row.cost_usd),
            _nano_dollars(row.saved_usd),
        )

    def _question(self, connection: sqlite3.Connection, row: LedgerRow) -> int:
        key = (row.session, row.notebook, row.question_id, row.question)
        if (known := self._remembered.get(key)) is not None:
            return known
        # A key cut in half would no longer be recognised, so it is taken out before the question is shortened.
        question = shorten(" ".join(visible(self._redact(row.question)).split()), QUESTION_CHARS)
        numbers = (self._label(connection, row.session), self._notebook(connection, row.notebook))
        statement = "INSERT INTO questions (session, notebook, question_id, question) VALUES (?, ?, ?, ?)"
        number = connection.execute(statement, (*numbers, row.question_id, question)).lastrowid or 0
        self._remembered[key] = number
        return number

    def _notebook(self, connection: sqlite3.Connection, name: str) -> int:
        key = ("notebook", name)
        if (known := self._remembered.get(key)) is None:
            known = self._remembered[key] = self._label(connection, self._redact(name))
        return known

    def _label(self, connection: sqlite3.Connection, text: str) -> int:
        known = self._remembered.get(text := str(text))  # a server's name for its model may be no text
        if known is None:
            text_shown = visible(text)
            connection.execute("INSERT OR IGNORE INTO labels (text) VALUES (?)", (text_shown,))
            known = int(connection.execute("SELECT id FROM labels WHERE text = ?", (text_shown,)).fetchone()[0])
            self._remembered[text] = known
        return known


def _counts(usage: Usage) -> tuple[int, ...]:
    counts = a, b, c, d, e, f, g = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_5m_tokens,
        usage.cache_write_1h_tokens,
        usage.server_searches,
        usage.server_fetches,
    )
    if 0 <= (a | b | c | d | e | f | g) <= MOST_COUNTED:  # all of them are
        return counts
    return tuple(max(0, min(count, MOST_COUNTED)) for count in counts)


def _units(units: Decimal) -> int | str:
    """Return units as they are kept: whole ones as a number, others as text."""
    if not units.is_finite() or units < 0:
        return 0
    if units > MOST_COUNTED:
        return MOST_COUNTED
    return int(units) if units == units.to_integral_value() else str(units)


def _nano_dollars(usd: Decimal | None) -> int | None:
    """Return whole nano-dollars, half of one to the even neighbour; an amount that is no number, or too large, is unknown."""
    if usd is None or not usd.is_finite() or abs(usd) > _MOST_USD:
        return None
    return int((usd * NANO).to_integral_value(ROUND_HALF_EVEN))
