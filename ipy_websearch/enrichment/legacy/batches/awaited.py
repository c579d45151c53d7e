"""Which cells the rows of a run wait for, and which rows a cell that came in is for. Pure bookkeeping."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence


class Awaited:
    """Rows by number, each with the keys of the cells that it lacks, by column number. Rows may share a cell."""

    def __init__(self) -> None:
        self._missing: dict[int, dict[int, bytes]] = {}
        self._places: dict[bytes, list[tuple[int, int]]] = defaultdict(list)

    def add(self, row: int, keys: Mapping[int, bytes]) -> None:
        """Let a row wait for these cells."""
        self._missing[row] = dict(keys)
        for column, key in keys.items():
            self._places[key].append((row, column))

    def items(self) -> Iterator[tuple[int, Mapping[int, bytes]]]:
        """Yield the rows that wait, with what they lack."""
        return iter(list(self._missing.items()))

    def concern(self, keys: Collection[bytes]) -> bool:
        """Return whether any row waits for one of these cells."""
        return any(key in self._places for key in keys)

    def columns(self, keys: Sequence[bytes]) -> tuple[int, ...] | None:
        """Return the columns of these cells, None when a row does not wait for all of them."""
        found = [self._places[key][0][1] for key in keys if key in self._places]
        return tuple(found) if len(found) == len(keys) else None

    def rows(self, keys: Sequence[bytes]) -> list[int]:
        """Return the rows that still wait for one of these cells."""
        rows = dict.fromkeys(row for key in keys for row, _ in self._places.get(key, ()))
        return [row for row in rows if row in self._missing]

    def places(self, key: bytes) -> list[tuple[int, int]]:
        """Return (row, column) of a cell, for the rows that still wait."""
        return [(row, column) for row, column in self._places.get(key, ()) if row in self._missing]

    def got(self, row: int, column: int) -> bool:
        """Note that a cell came in; return whether its row has all now, and no longer waits."""
        self._missing[row].pop(column, None)
        return not self._missing[row] and self.give_up(row)

    def give_up(self, row: int) -> bool:
        """Let a row wait no longer."""
        return self._missing.pop(row, None) is not None
