"""What was handed in to the Message Batches API and has not come back yet, in the enrichment store's file.

The invariant: before a batch is sent, its requests are on disk under a token of its own, which begins every `custom_id`; the
API's id is added when it is known. So whatever dies in between, the next run finds the batch again, or knows that there may be
one without a name. A request goes in the same transaction that keeps its values: it is never collected twice.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ipy_websearch.enrichment.legacy.columns import Column
from ipy_websearch.enrichment.legacy.outcome import Cell
from ipy_websearch.enrichment.legacy.store import Store
from ipy_websearch.loop.table import TYPES

KEPT_DAYS = 30
"""The API keeps results for 29 days; what is older cannot be collected any more."""

_KEY_BYTES = 32


@dataclass(slots=True)
class Request:
    """A row's request: the numbers of its columns, their keys in the store, its inputs by column name.

    `turns` are the messages after the first, when it goes on with an earlier one, `usd` what those have cost (None: unknown);
    `origin` is the (batch, number) that it goes on with.
    """

    asked: tuple[int, ...]
    keys: tuple[bytes, ...]
    inputs: Mapping[str, str | None]
    turns: list[dict[str, Any]] = field(default_factory=list)
    usd: float | None = 0.0
    origin: tuple[int, int] | None = None


@dataclass(slots=True)
class Batch:
    """A batch: our number, the token in its custom ids, the API's id ("" as long as it is not known), when it was sent.

    `requests` are those not collected yet, `again` those that came back unfinished and wait to be sent again.
    """

    id: int
    token: str
    name: str
    model: str
    columns: tuple[Column, ...]
    submitted: datetime
    requests: dict[int, Request] = field(default_factory=dict)
    again: dict[int, Request] = field(default_factory=dict)

    def custom_id(self, number: int) -> str:
        """Return the name of a request within the batch."""
        return f"{self.token}-{number}"


@dataclass(slots=True)
class Collected:
    """What is to be written for one result: the cells, or (with `turns`) how it goes on; neither for a failure."""

    number: int
    request: Request
    cells: tuple[Cell, ...] = ()
    turns: list[dict[str, Any]] | None = None
    usd: float | None = 0.0


class HandedIn:
    """The batches in a store that were sent to one address."""

    def __init__(self, store: Store, address: str) -> None:
        self._store = store
        self._address = address

    def open(self, model: str) -> list[Batch]:
        """Return the batches for a model that are not collected yet, oldest first; forget what is too old to be had."""
        oldest = time.time() - KEPT_DAYS * 86_400

        def work(connection: sqlite3.Connection) -> list[Batch]:
            for (id,) in connection.execute("SELECT id FROM batches WHERE time < ?", (oldest,)).fetchall():
                _forget(connection, id)
            query = "SELECT id, token, batch, model, columns, time FROM batches WHERE address = ? AND model = ? ORDER BY id"
            found = connection.execute(query, (self._address, model)).fetchall()
            batches = [_batch(row) for row in found]
            for batch in batches:
                _read_requests(connection, batch)
            return batches

        return self._store.transaction(work)

    def begin(self, model: str, columns: Sequence[Column], requests: Sequence[Request], token: str) -> Batch:
        """Write down what is about to be sent under a token; requests that go on with earlier ones take those's place."""
        rows = dict(enumerate(requests))
        written = json.dumps([_column_facts(column) for column in columns])

        def work(connection: sqlite3.Connection) -> int:
            sql = "INSERT INTO batches (token, batch, address, model, columns, time) VALUES (?, NULL, ?, ?, ?, ?)"
            id = connection.execute(sql, (token, self._address, model, written, time.time())).lastrowid
            assert id is not None
            for number, request in rows.items():
                connection.execute("INSERT INTO handed_in VALUES (?, ?, ?, ?, ?, ?, ?, 0)", (id, number, *_facts(request)))
            for origin in filter(None, (request.origin for request in requests)):
                connection.execute("DELETE FROM handed_in WHERE batch = ? AND number = ?", origin)
                _forget_if_empty(connection, origin[0])
            return id

        id = self._store.transaction(work)
        return Batch(id, token, "", model, tuple(columns), datetime.now(UTC), rows)

    def name(self, batch: Batch, name: str) -> None:
        """Write down the API's id of a batch."""
        batch.name = name
        self._store.transaction(lambda c: c.execute("UPDATE batches SET batch = ? WHERE id = ?", (name, batch.id)))

    def collect(self, batch: Batch, results: Sequence[Collected]) -> list[bool]:
        """Keep what came back, all in one transaction; say for each whether it was still open (no other kernel had it)."""

        def work(connection: sqlite3.Connection) -> list[bool]:
            return [self._collect(connection, batch, result) for result in results]

        ours = self._store.transaction(work)
        for result in results:
            request = batch.requests.pop(result.number, result.request)
            if result.turns is not None:
                request.turns, request.usd, request.origin = result.turns, result.usd, (batch.id, result.number)
                batch.again[result.number] = request
        return ours

    def _collect(self, connection: sqlite3.Connection, batch: Batch, result: Collected) -> bool:
        place = (batch.id, result.number)
        if result.turns is not None:
            sql = "UPDATE handed_in SET turns = ?, usd = ?, again = 1 WHERE batch = ? AND number = ? AND again = 0"
            return connection.execute(sql, (json.dumps(result.turns), result.usd, *place)).rowcount > 0
        found = connection.execute("DELETE FROM handed_in WHERE batch = ? AND number = ?", place).rowcount > 0
        if result.cells:
            columns = [batch.columns[n] for n in result.request.asked]
            cells = list(zip(result.request.keys, columns, result.cells, strict=True))
            self._store.write(connection, batch.model, cells, result.usd, 0.0)
        _forget_if_empty(connection, batch.id)
        return found

    def forget(self, batch: Batch) -> None:
        """Forget a batch that never arrived, or that has no results any more."""
        self._store.transaction(lambda connection: _forget(connection, batch.id))


def open_batches(store: Store) -> list[tuple[str, str, int, datetime, str]]:
    """Return (id, model, requests, when, address) of all batches that were handed in and not collected."""
    query = (
        "SELECT coalesce(batches.batch, ''), model, count(number), time, address FROM batches "
        "LEFT JOIN handed_in ON handed_in.batch = batches.id GROUP BY batches.id ORDER BY time"
    )
    rows = store.read(lambda connection: connection.execute(query).fetchall())
    return [(name, model, count, datetime.fromtimestamp(moment, UTC), where) for name, model, count, moment, where in rows]


def _forget(connection: sqlite3.Connection, id: int) -> None:
    connection.execute("DELETE FROM handed_in WHERE batch = ?", (id,))
    connection.execute("DELETE FROM batches WHERE id = ?", (id,))


def _forget_if_empty(connection: sqlite3.Connection, id: int) -> None:
    connection.execute("DELETE FROM batches WHERE id = ? AND NOT EXISTS (SELECT 1 FROM handed_in WHERE batch = ?)", (id, id))


def _batch(row: tuple[Any, ...]) -> Batch:
    id, token, name, model, columns, moment = row
    parsed = tuple(_column(facts) for facts in json.loads(columns))
    return Batch(id, token, name or "", model, parsed, datetime.fromtimestamp(moment, UTC))


def _read_requests(connection: sqlite3.Connection, batch: Batch) -> None:
    query = "SELECT number, asked, keys, inputs, turns, usd, again FROM handed_in WHERE batch = ?"
    for number, asked, keys, inputs, turns, usd, again in connection.execute(query, (batch.id,)):
        parts = tuple(keys[at : at + _KEY_BYTES] for at in range(0, len(keys), _KEY_BYTES))
        origin = (batch.id, number) if again else None
        request = Request(tuple(json.loads(asked)), parts, json.loads(inputs), json.loads(turns), usd, origin)
        (batch.again if again else batch.requests)[number] = request


def _facts(request: Request) -> tuple[Any, ...]:
    turns, inputs = json.dumps(request.turns), json.dumps(request.inputs)
    return json.dumps(request.asked), b"".join(request.keys), inputs, turns, request.usd


def _column_facts(column: Column) -> list[Any]:
    return [column.name, column.template, column.kind.__name__, column.choices, column.fields, column.key]


def _column(facts: Sequence[Any]) -> Column:
    name, template, kind, choices, fields, key = facts
    return Column(name, template, TYPES[kind], tuple(choices), tuple(fields), key)
