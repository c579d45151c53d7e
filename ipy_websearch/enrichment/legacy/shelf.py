"""A plan's cells in the store: which are there, and where new ones go. A store that fails stops nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ipy_websearch.enrichment.legacy.columns import Column
from ipy_websearch.enrichment.legacy.outcome import Cell
from ipy_websearch.enrichment.legacy.plan import Inputs, Plan
from ipy_websearch.enrichment.legacy.store import Store, Stored, cell_key

_AT_ONCE = 500


class Shelf:
    """The part of the store that belongs to one plan, model and set of tools."""

    def __init__(self, plan: Plan, store: Store, model: str, tools: str) -> None:
        self._plan = plan
        self._store = store
        self._model = model
        self._tools = tools
        self._failures: list[str] = []

    @property
    def warnings(self) -> list[str]:
        """One line for each thing that went wrong with the store."""
        return [*self._store.warnings, *self._failures]

    def look_up(self, rows: Sequence[Inputs], resume: bool = True) -> Iterator[tuple[int, dict[int, Stored]]]:
        """Yield each row's number with the cells that are there, by column number (none without `resume`)."""
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            keys = [self.keys(inputs) for inputs in part] if resume else [{} for _ in part]
            found = self._get([(key, c) for row in keys for c, key in row.items()]) if resume else {}
            for n, row in enumerate(keys, start):
                yield n, {c: found[key] for c, key in row.items() if key in found}

    def count(self, rows: Sequence[Inputs]) -> int:
        """Return how many rows need not be asked again."""
        return sum(0 < len(self._plan.askable(rows[n])) == len(stored) for n, stored in self.look_up(rows))

    def keep(self, inputs: Inputs, columns: Sequence[int], cells: Sequence[Cell], usd: float | None, seconds: float) -> None:
        """Keep a row's new cells; they are on disk when this returns, unless the store fails, which is warned of."""
        values = self._plan.values(inputs)
        kept = []
        for c, cell in zip(columns, cells, strict=True):
            column = self._plan.columns[c]
            kept.append((cell_key(self._model, self._tools, column, values), column, cell))
        try:
            self._store.put(self._model, kept, usd, seconds)
        except sqlite3.Error as exc:
            self.warn(f"the store could not be written ({exc}); the values are in the frame only")

    def keys(self, inputs: Inputs) -> dict[int, bytes]:
        """Return the keys of a row's cells, by column number."""
        values = self._plan.values(inputs)
        columns = self._plan.columns
        return {c: cell_key(self._model, self._tools, columns[c], values) for c in self._plan.askable(inputs)}

    def _get(self, keys: Sequence[tuple[bytes, int]]) -> dict[bytes, Stored]:
        columns = {key: self._plan.columns[c] for key, c in keys}
        try:
            found = self._store.get([*columns], [*columns.values()])
            return {key: _without_nothing(stored, columns[key]) for key, stored in found.items()}
        except sqlite3.Error as exc:
            self.warn(f"the store could not be read ({exc}); every row is asked")
            return {}

    def warn(self, text: str) -> None:
        """Note what went wrong, once."""
        if text not in self._failures:
            self._failures.append(text)


def _without_nothing(stored: Stored, column: Column) -> Stored:
    """Return what is stored with a null for "N/A" and its like, which earlier versions kept as text."""
    value = stored.cell.value
    return replace(stored, cell=Cell()) if value is not None and column.is_nothing(value) else stored
