"""Puts what was found into a frame: the caller's rows, order and index, with the new columns behind the others."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.legacy.columns import NOTED, PARTS, Column, added_names, earlier_names
from ipy_websearch.enrichment.legacy.outcome import NOT_ASKED, Outcome
from ipy_websearch.enrichment.legacy.plan import names_of

if TYPE_CHECKING:
    import pandas as pd

_DTYPES = {"source": "string", "quote": "string", "confidence": "Float64"}


def assemble(
    frame: pd.DataFrame, columns: Sequence[Column], place: array[int], outcomes: Sequence[Outcome | None], *, sources: bool
) -> pd.DataFrame:
    """Return n rows and their index as they came, with the added columns; the frame given is not changed.

    `place` says which outcome each row has; -1 is none, and all its added columns are missing. The cost of a distinct row
    stands in the first row that has it, so that the column adds up.
    """
    import pandas as pd

    rows = [outcomes[n] if n >= 0 else None for n in place]
    data: dict[str, Any] = {}
    for number, column in enumerate(columns):
        cells = [row.cells[number] if row is not None and row.cells else NOT_ASKED for row in rows]
        data[column.name] = _values(column, [cell.value for cell in cells])
        if sources:
            for position, part in enumerate(PARTS, 1):
                data[f"{column.name}_{part}"] = pd.array([cell[position] for cell in cells], dtype=_DTYPES[part])
    data["enrich_status"] = pd.array([row.status if row is not None else None for row in rows], dtype="string")
    data["enrich_error"] = pd.array([(row.error or None) if row is not None else None for row in rows], dtype="string")
    data["enrich_cost_usd"] = pd.array(_costs(place, outcomes), dtype="Float64")
    added = pd.DataFrame({name: data[name] for name in added_names(columns, sources)}, index=frame.index)
    return joined(frame, added)


def _values(column: Column, values: list[Any]) -> Any:
    """Return the values as an array of their nullable dtype."""
    import pandas as pd

    from ipy_websearch.frames import series

    if column.choices:
        return pd.Categorical(values, categories=list(column.choices))
    return series(values, column.kind).array


def _costs(place: array[int], outcomes: Sequence[Outcome | None]) -> list[float | None]:
    seen: set[int] = set()
    costs: list[float | None] = []
    for n in place:
        outcome = outcomes[n] if n >= 0 else None
        costs.append(None if outcome is None else 0.0 if n in seen else outcome.cost_usd)
        seen.add(n)
    return costs


def joined(frame: pd.DataFrame, added: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with added columns beside its own; those of an earlier enrichment give way to new ones of their name.

    What was added is noted in `attrs`, so that the next enrichment can tell it from the caller's own columns.
    """
    import pandas as pd

    names, new = names_of(frame), [str(name) for name in added.columns]
    about_values = {f"{name}_{part}" for name in new for part in PARTS}  # an old source would stand beside a new value
    gone = {*new, *(about_values & earlier_names(names, ()))}
    kept = frame.loc[:, [name not in gone for name in names]]
    if frame.columns.nlevels > 1:
        blanks = [""] * (frame.columns.nlevels - 1)
        added.columns = pd.MultiIndex.from_tuples([(name, *blanks) for name in added.columns])
    joined = pd.concat([kept, added], axis=1)
    joined.columns.names = frame.columns.names
    noted = frame.attrs.get(NOTED)
    before = noted if isinstance(noted, list) else []
    joined.attrs = {**frame.attrs, NOTED: [*(name for name in before if name in names and name not in gone), *new]}
    return joined
