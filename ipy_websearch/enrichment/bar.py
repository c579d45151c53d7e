"""The progress bar: rows done, failed and from the store, cost, rate and time left; drawn by tqdm."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from ipy_websearch.enrichment.report import money


@dataclass(slots=True)
class Tally:
    """The counts of a run as they stand, in distinct rows; written by the run, read by whoever shows them."""

    total: int = 0
    done: int = 0
    failed: int = 0
    cached: int = 0
    cost_usd: float = 0.0

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
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # tqdm warns where ipywidgets is missing, and then draws text
                from tqdm.auto import tqdm

                self._bar = tqdm(total=tally.total, desc="enrich", unit="row", mininterval=0.2)

    def update(self) -> None:
        """Draw the tally as it stands."""
        if self._bar is None:
            return
        if self._bar.total != self._tally.total:
            self._bar.total = self._tally.total
        facts = f"{self._tally.failed} failed, {self._tally.cached} from the store, {money(self._tally.cost_usd)}"
        self._bar.set_postfix_str(facts, refresh=False)
        self._bar.update(self._tally.finished - self._bar.n)

    def close(self) -> None:
        """Draw a last time and leave the bar as it is."""
        if self._bar is not None:
            self.update()
            self._bar.refresh()
            self._bar.close()
            self._bar = None
