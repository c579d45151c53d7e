"""Puts values into a frame: the caller's rows, order and index, with the new columns behind the others."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.columns import NOT_ASKED, NOTED, PARTS, Column, added_names, earlier_names
from ipy_websearch.enrichment.plan import names_of
from ipy_websearch.enrichment.report import Outcome

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

    from ipy_websearch.frames import series

    rows = [outcomes[n] if n >= 0 else None for n in place]
    data: dict[str, Any] = {}
    for number, column in enumerate(columns):
        cells = [row.cells[number] if row is not None and row.cells else NOT_ASKED for row in rows]
        values = [cell.value for cell in cells]
        chosen = pd.Categorical(values, categories=list(column.choices)) if column.choices else None
        data[column.name] = series(values, column.kind).array if chosen is None else chosen
        if sources:
            for position, part in enumerate(PARTS, 1):
                data[f"{column.name}_{part}"] = pd.array([cell[position] for cell in cells], dtype=_DTYPES[part])
    data["enrich_status"] = pd.array([row.status if row is not None else None for row in rows], dtype="string")
    data["enrich_error"] = pd.array([(row.error or None) if row is not None else None for row in rows], dtype="string")
    data["enrich_cost_usd"] = pd.array(_costs(place, outcomes), dtype="Float64")
    added = pd.DataFrame({name: data[name] for name in added_names(columns, sources)}, index=frame.index)
    return joined(frame, added)


def _costs(place: array[int], outcomes: Sequence[Outcome | None]) -> list[float | None]:
    seen: set[int] = set()
    costs: list[float | None] = []
    for n in place:
        outcome = outcomes[n] if n >= 0 else None
        costs.append(None if outcome is None else 0.0 if n in seen else outcome.cost_usd)
        seen.add(n)
    return costs


def joined(frame: pd.DataFrame, added: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with added columns behind its own; they replace those of an earlier enrichment.

    The names are noted in `attrs`, so that the next enrichment can tell them from the caller's own columns.
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
