"""The progress bar: rows done, failed and from the store, cost, rate and time left; drawn by tqdm.

It is text in notebooks too: a bar made of widgets is gone when the notebook is opened again. All that is written stays in a
notebook that is run without a browser, so nothing is written while nothing changes.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Protocol

from ipy_websearch.enrichment.report import duration
from ipy_websearch.text import usd

SHOWN_FROM_S = 1.0
"""A `retry-after` of less than these seconds is not worth a word."""


class Waits(Protocol):
    """Knows how long the API wants to be left alone."""

    @property
    def seconds_to_wait(self) -> float:
        """Seconds for which a `retry-after` still holds."""
        ...


@dataclass(slots=True)
class Progress:
    """The counts of a run as they stand, in distinct rows and filled `cells`; written by the run, read by the bar.

    `note` says what the run is waiting for, "" when rows come in by themselves; `limiter` knows of the API's
    `retry-after`, None when nothing is sent; `name` is the bar's, `kept_in` where rows come from that need no asking.
    """

    total: int = 0
    done: int = 0
    cells: int = 0
    failed: int = 0
    cached: int = 0
    cost_usd: float = 0.0
    note: str = ""
    limiter: Waits | None = None
    name: str = "enrich"
    kept_in: str = "the store"

    @property
    def finished(self) -> int:
        """Rows that have ended, well or badly."""
        return self.done + self.failed + self.cached

    @property
    def waits_for(self) -> str:
        """What is being waited for, "" for nothing but answers."""
        limiter = self.limiter  # the run may take it away at any time
        wait_s = limiter.seconds_to_wait if limiter is not None else 0.0
        told = f"waiting for the API (retry-after) {duration(wait_s)}" if wait_s >= SHOWN_FROM_S else ""
        return ", ".join(filter(None, (self.note, told)))

    def end(self) -> list[str]:
        """Note that nothing is sent any more; return what the report should say of it."""
        left_s = self.limiter.seconds_to_wait if self.limiter is not None else 0.0
        self.note, self.limiter = "", None
        if left_s < SHOWN_FROM_S or self.finished >= self.total:
            return []
        return [f"when it ended, the API had asked to be left alone for another {duration(left_s)} (retry-after)"]


_INTERVAL_S = 0.2
"""Seconds between two drawings of a bar that moves."""

_CLOCK_S = 1.0
"""Seconds between two drawings in a terminal, where a bar that stands still shows its clock."""

_COUNTDOWN_S = 10.0
"""Seconds between two drawings elsewhere while only the time left of a wait changes."""


class Bar:
    """Shows progress; `update` may be called as often as one likes, it draws what is new. `show` False: nothing."""

    def __init__(self, progress: Progress, show: bool) -> None:
        self._progress = progress
        self._bar: Any = None
        self._drawn: tuple[Any, ...] = ()
        self._text = ""
        self._drawn_at = 0.0
        self._is_terminal = False
        if show:
            from tqdm import tqdm

            # Lab paints what comes on standard error like an error.
            where = sys.stdout if "ipykernel" in sys.modules else sys.stderr
            self._is_terminal = bool(getattr(where, "isatty", lambda: False)())
            self._bar = tqdm(
                total=progress.total, desc=progress.name, unit="row", mininterval=0, miniters=1, leave=False, file=where
            )

    def update(self) -> None:
        """Draw the counts as they stand, if that is news."""
        if self._bar is None:
            return
        progress, since = self._progress, time.monotonic() - self._drawn_at
        waits_for, facts = progress.waits_for, self._facts()
        state = (progress.finished, progress.total, facts, progress.note, bool(waits_for))
        text = ", ".join(filter(None, (facts, waits_for)))
        if state != self._drawn:
            due = since >= _INTERVAL_S
        else:
            due = since >= (_CLOCK_S if self._is_terminal else _COUNTDOWN_S) and (self._is_terminal or text != self._text)
        if due:
            self._drawn, self._text, self._drawn_at = state, text, time.monotonic()
            self._draw(text)

    def _facts(self) -> str:
        progress = self._progress
        counts = f"{progress.cells} cells, {progress.failed} failed, {progress.cached} from {progress.kept_in}"
        return f"{counts}, {usd(progress.cost_usd)}"

    def _draw(self, text: str) -> None:
        """Write the bar once: by moving it, so that tqdm reckons its rate, or as it stands."""
        self._bar.total = self._progress.total
        self._bar.set_postfix_str(text, refresh=False)
        if not self._bar.update(self._progress.finished - self._bar.n):
            self._bar.refresh()

    def close(self) -> None:
        """Draw a last time and take the bar away: the report stays."""
        if self._bar is not None:
            self._bar.total, self._bar.n = self._progress.total, self._progress.finished
            self._bar.set_postfix_str(", ".join(filter(None, (self._facts(), self._progress.waits_for))), refresh=False)
            self._bar.close()  # draws
            self._bar = None
