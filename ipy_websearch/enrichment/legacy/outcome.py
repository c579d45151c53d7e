"""What came of a distinct row. Kept for every row of a run, so these hold no more than the frame will."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Status = Literal["ok", "error", "budget", "interrupted", "skipped"]


class Cell(NamedTuple):
    """A value in its column's type (None: not found), where it was found, the passage, how sure the model said it is.

    `fault` says why what the model gave is no value ("": it is one, or null): such a cell is never kept, so it is asked again.
    """

    value: Any = None
    source: str | None = None
    quote: str | None = None
    confidence: float | None = None
    fault: str = ""


NOT_ASKED = Cell()
"""Stands, as this very object, for a column that the row was not asked about."""


@dataclass(slots=True)
class Outcome:
    """A row's cells (one for each column), its status, what went wrong ("" for nothing).

    `cost_usd` is what this run spent on it (None: unknown). `worth_usd` and `seconds` are what asking for it takes, now or when
    its cells went into the store. `cached` says that nothing was asked.
    """

    status: Status
    cells: tuple[Cell, ...] = ()
    error: str = ""
    cost_usd: float | None = 0.0
    worth_usd: float | None = 0.0
    seconds: float = 0.0
    cached: bool = False


def answered(cells: tuple[Cell, ...], note: str = "") -> Outcome:
    """Return the outcome of a row that the model has answered; where all it gave is at fault, the row has failed."""
    faults = [cell.fault for cell in cells if cell.fault]
    failed = faults and len(faults) == sum(cell is not NOT_ASKED for cell in cells)
    return Outcome("error" if failed else "ok", () if failed else cells, "; ".join(filter(None, (*faults, note))))
