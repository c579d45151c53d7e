"""The progress bar: rows done, failed and from the store, cost, rate and time left; drawn by tqdm.

It is text in notebooks too: a bar made of widgets is gone when the notebook is opened again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from ipy_websearch.enrichment.report import money


@dataclass(slots=True)
class Tally:
    """The counts of a run as they stand, in distinct rows; written by the run, read by whoever shows them.

    `note` says what the run is waiting for, "" when rows come in by themselves; `name` is the bar's, `kept_in` where rows
    come from that need no asking.
    """

    total: int = 0
    done: int = 0
    failed: int = 0
    cached: int = 0
    cost_usd: float = 0.0
    note: str = ""
    name: str = "enrich"
    kept_in: str = "the store"

    @property
    def finished(self) -> int:
        """Rows that are through, well or badly."""
        return self.done + self.failed + self.cached


class Bar:
    """Shows a tally; `update` may be called as often as one likes, it draws a few times a second. `show` False: nothing."""

    def __init__(self, tally: Tally, show: bool) -> None:
        self._tally = tally
        self._bar: Any = None
        if show:
            from tqdm import tqdm

            # Lab paints what comes on standard error like an error.
            where = sys.stdout if "ipykernel" in sys.modules else None
            self._bar = tqdm(total=tally.total, desc=tally.name, unit="row", mininterval=0.2, file=where)

    def update(self) -> None:
        """Draw the tally as it stands."""
        if self._bar is None:
            return
        if self._bar.total != self._tally.total:
            self._bar.total = self._tally.total
        facts = f"{self._tally.failed} failed, {self._tally.cached} from {self._tally.kept_in}, {money(self._tally.cost_usd)}"
        note = f", {self._tally.note}" if self._tally.note else ""
        self._bar.set_postfix_str(f"{facts}{note}", refresh=bool(note))
        self._bar.update(self._tally.finished - self._bar.n)

    def close(self) -> None:
        """Draw a last time and leave the bar as it is."""
        if self._bar is not None:
            self.update()
            self._bar.refresh()
            self._bar.close()
            self._bar = None
