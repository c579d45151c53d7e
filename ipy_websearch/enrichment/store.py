"""The enrichment store: values that were paid for are not asked for again. It is a table in the ledger's file, shared by all
kernels, so that a cell and its cost are written in one transaction.

A cell's key is a digest of everything that its value depends on: version, model, search (see `lookup_key`), question, type and
the row's inputs. Only answers are kept, "not found" among them; a failed search and a value that does not fit its type are
asked again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.columns import Cell, Column
from ipy_websearch.money.ledger import Ledger
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.router import request_key

if TYPE_CHECKING:
    import pandas as pd

# Part of every key: raise it when the way of asking changes so much that old values should be asked for again.
VERSION = 3

_FOUND = "SELECT key, cell, usd, seconds FROM answers WHERE time >= ? AND key IN"
_PUT = (
    "INSERT OR REPLACE INTO answers (key, model, name, template, kind, cell, usd, seconds, time) "
    "VALUES (:key, :model, :name, :template, :kind, :cell, :usd, :seconds, :time)"
)
_LISTED = (
    "SELECT model, name, kind, template, count(*), CASE WHEN count(usd) = count(*) THEN sum(usd) END, max(time) "
    "FROM answers GROUP BY model, name, kind, template ORDER BY max(time) DESC"
)


@dataclass(frozen=True, slots=True)
class Store:
    """The store in a ledger's file."""

    ledger: Ledger

    def get(self, columns: Mapping[bytes, Column], since: float = 0.0) -> dict[bytes, Cell]:
        """Return the stored cells that are no older than `since`; `columns` are the wanted keys with their columns."""
        query = f"{_FOUND} ({','.join('?' * len(columns))})"
        rows = self.ledger.read(lambda connection: connection.execute(query, (since, *columns)).fetchall())
        return {key: _read(columns[key], *values) for key, *values in rows}

    def put(self, model: str, cells: Sequence[tuple[bytes, Column, Cell]]) -> None:
        """Keep cells by their keys."""
        rows = [
            {
                "key": key,
                "model": model,
                "name": column.name,
                "template": column.template,
                "kind": column.type_name,
                "cell": json.dumps(cell[:6], ensure_ascii=False, separators=(",", ":"), default=date.isoformat),
                "usd": None if cell.cost_usd is None else float(cell.cost_usd),
                "seconds": cell.seconds,
                "time": time.time(),
            }
            for key, column, cell in cells
        ]
        self.ledger.write(lambda connection: connection.executemany(_PUT, rows))

    def listing(self) -> pd.DataFrame:
        """Return a row for each model and question in the store: cells, usd (NaN: unknown) and the time of the newest."""
        import pandas as pd

        rows = self.ledger.read(lambda connection: connection.execute(_LISTED).fetchall())
        frame = pd.DataFrame(rows, columns=["model", "column", "type", "question", "cells", "usd", "newest"])
        frame["newest"] = pd.to_datetime([datetime.fromtimestamp(t, UTC) for t in frame["newest"]], utc=True)
        return frame.astype({"usd": "float64"})

    def clear(self, column: str | None = None) -> int:
        """Delete all cells, or those of the columns of one name; return their number."""
        where = "1" if column is None else "name = :name"
        names = {"name": column}
        ((count,),) = self.ledger.read(lambda c: c.execute(f"SELECT count(*) FROM answers WHERE {where}", names).fetchall())
        self.ledger.write(lambda c: c.execute(f"DELETE FROM answers WHERE {where}", names))
        return int(count)


def cell_key(model: str, lookup: str, column: Column, values: Mapping[str, str | None]) -> bytes:
    """Return the key of a cell, a digest; `lookup` is the `lookup_key` of its run."""
    inputs = [[name, values[name]] for name in column.fields]
    parts = [VERSION, model, lookup, column.name, column.template, column.type_name, inputs]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode("utf-8", "replace")).digest()


def lookup_key(request: SearchRequest, provider: str, options: Mapping[str, Any], max_searches: int, pages: int) -> str:
    """Return the part of a key for a row's searches: the provider that answers, its options and every filter of `request` but
    the query (country, language, count, safe search, domains). Each search reads `pages` pages."""
    search = [provider, dict(options), *request_key(request)] if max_searches else None
    return json.dumps([search, max_searches, pages], default=str)


def _read(column: Column, text: str, usd: float | None, seconds: float) -> Cell:
    value, source, quote, confidence, missing, doubt = json.loads(text)
    value = date.fromisoformat(value) if column.kind is date and value else value
    cost_usd = None if usd is None else Decimal(str(usd))
    return Cell(value, source, quote, confidence, missing, doubt, cost_usd, seconds)
