"""What came of a distinct row. Kept for every row of a run, so these hold no more than the frame will."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Status = Literal["ok", "error", "budget", "interrupted", "skipped"]


class Cell(NamedTuple):
    """A value in its column's type (None: not found), where it was found, the passage, how sure the model said it is."""

    value: Any = None
    source: str | None = None
    quote: str | None = None
    confidence: float | None = None


NOT_ASKED = Cell()


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
