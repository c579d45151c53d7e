"""The progress of a run with its bar, its report, and the estimate for the rows outside of a sample.

The bar is text in notebooks too: a widget is gone when the notebook is opened again. A notebook that runs without a browser
keeps every drawing, so the bar is drawn only when something has changed.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from ipy_websearch.enrichment.columns import NO_RESULTS, NOT_FOUND, Cell, Plan
from ipy_websearch.money.prices import add_money
from ipy_websearch.results import Money
from ipy_websearch.text import duration, plural, shorten, usd

if TYPE_CHECKING:
    from ipy_websearch.enrichment.limiter import ConcurrencyLimiter

Status = Literal["ok", "error", "budget", "interrupted", "skipped"]

_VARYING = re.compile(r"req_\w+|\d+(\.\d+)?|“.*”")
_SHOWN = 5
_ROWS = {
    "error": "failed",
    "budget": "left out by the budget",
    "interrupted": "interrupted",
    "skipped": "skipped for missing values",
    "stored": "from the store",
}
_CELLS = {"": "filled", NOT_FOUND: "not_found", NO_RESULTS: "no_results"}


@dataclass(slots=True)
class Outcome:
    """The result of a distinct row: its status ("interrupted" until it has ended), and its message ("": none).

    `asked` are the numbers of the columns to ask for, `cells` the known cells by their columns' numbers; a failed row has none.
    Asking took `cost_usd` (None: unknown) and `seconds`, without the wait for a free place; a row from the store (`cached`) has
    the values of its first time. A `permanent` failure will meet every further row too. `provider` answered in place of the
    planned one (None: the planned one answered; "": several answered, or the row is not to be stored); `notices` say why.
    `lacks` names the inputs that are missing.
    """

    status: Status = "interrupted"
    error: str = "interrupted"
    asked: tuple[int, ...] = ()
    cells: dict[int, Cell] = field(default_factory=dict)
    cost_usd: Money = Decimal(0)
    seconds: float = 0.0
    requests: int = 0
    cached: bool = False
    permanent: bool = False
    provider: str | None = None
    notices: tuple[str, ...] = ()
    lacks: str = ""

    @property
    def spent_usd(self) -> Money:
        """The cost of this run for the row."""
        return Decimal(0) if self.cached else self.cost_usd

    def fill(self, cells: Iterable[Cell]) -> None:
        """Take the cells of the columns that were asked for; the row has failed when no value fits its type."""
        self.cells |= zip(self.asked, cells, strict=True)
        faults = [cell.fault for cell in self.cells.values() if cell.fault]
        nothing = [NO_RESULTS] if any(cell.missing == NO_RESULTS for cell in self.cells.values()) else []
        self.status = "error" if faults and len(faults) == len(self.cells) else "ok"
        gap = [f"not all columns were asked: {self.lacks} is missing"] if self.lacks else []
        self.error = "; ".join([*faults, *nothing, *self.notices, *gap])


class Report(dict[str, Any]):
    """The report in `frame.attrs["report"]`: a dict of numbers and texts, so that the frame can be saved with it.

    Keys: rows, ok, error, budget, interrupted, skipped (rows by status); cells, filled, not_found (by the model), no_results
    (of the search), and the same by column in `columns`; asked and stored (distinct rows), requests, cost_usd (None: unknown),
    seconds, failures (a list of {message, rows, example}), notes (alike, of values that are left out because they fit no type
    and will be asked for again, and of those that are less sure than the model said), warnings.
    """

    def __str__(self) -> str:
        parts = [f"{self['filled']:,} of {plural(self['cells'], 'cell')} filled"]
        parts += [f"{self['not_found']:,} not found"] if self["not_found"] else []
        parts += [f"{self['no_results']:,} without a search result"] if self["no_results"] else []
        counts = [(self[name], words) for name, words in _ROWS.items() if self[name]]
        parts += [f"{plural(rows, 'row')} {words}" for rows, words in counts]
        head = f"{', '.join(parts)}; {_cost(self['cost_usd'])}, {duration(self['seconds'])}"
        columns = self["columns"].items() if len(self["columns"]) > 1 else ()
        by_column = ", ".join(f"{name} {column['filled']:,} of {column['cells']:,}" for name, column in columns)
        lines = [head, *([f"  {by_column}"] if by_column else [])]
        lines += [f"  {line}" for line in (*group_lines(self["failures"]), *group_lines(self["notes"]))]
        return "\n".join([*lines, *self["warnings"]])

    __repr__ = __str__


def group_lines(groups: Sequence[dict[str, Any]]) -> list[str]:
    """Return the first of the groups as lines, each with its rows and example."""
    lines = [f"{group['rows']:,} x {group['message']} (such as {group['example']})" for group in groups[:_SHOWN]]
    more = len(groups) - _SHOWN
    return [*lines, f"… and {more} other messages"] if more > 0 else lines


def grouped(messages: Iterable[tuple[str, int, str]]) -> list[dict[str, Any]]:
    """Return groups of like messages, the largest first: the first message of each, its rows and an example."""
    groups = dict[str, dict[str, Any]]()
    for message, rows, example in messages:
        group = groups.setdefault(alike(message), {"message": message, "rows": 0, "example": shorten(example, 60)})
        group["rows"] += rows
    return sorted(groups.values(), key=lambda group: -group["rows"])


def alike(message: str) -> str:
    """Return a message without its varying parts: numbers, ids and quoted values."""
    return _VARYING.sub("#", message)


def make_report(plan: Plan, outcomes: Sequence[Outcome], cost_usd: Money, **facts: Any) -> Report:
    """Return the report on the outcomes of a plan's distinct rows; `facts` are seconds and warnings. Rows without input are no
    cells to fill."""
    counts, names = Counter(plan.place), (", ".join(value or "–" for value in inputs) for inputs in plan.inputs)
    known = [(outcome, counts[n], name) for n, (outcome, name) in enumerate(zip(outcomes, names, strict=True))]
    by_status: Counter[str] = Counter()
    by_column = {column.name: Counter[str]() for column in plan.columns}
    notes: list[tuple[str, int, str]] = []
    for outcome, count, name in known:
        by_status[outcome.status] += count
        for number, column in enumerate(plan.columns):
            cell = outcome.cells.get(number)
            if outcome.status == "skipped" or (outcome.cells and cell is None):
                continue
            by_column[column.name]["cells"] += count
            if cell is not None:
                by_column[column.name][_CELLS.get(cell.missing, "fault")] += count
                if note := cell.fault or (cell.doubt and f"of lower confidence: {column.name} {cell.doubt}"):
                    notes.append((note, count, name))
    kinds, stored = ("cells", *_CELLS.values()), sum(outcome.cached for outcome, _, _ in known)
    return Report(
        rows=by_status.total(),
        **{status: by_status[status] for status in ("ok", "error", "budget", "interrupted", "skipped")},
        **{kind: sum(column[kind] for column in by_column.values()) for kind in kinds},
        columns={name: {kind: column[kind] for kind in kinds} for name, column in by_column.items()},
        asked=len(known) - stored - sum(outcome.status == "skipped" for outcome, _, _ in known),
        stored=stored,
        failures=grouped((o.error, count, name) for o, count, name in known if o.status == "error"),
        notes=grouped(notes),
        requests=sum(outcome.requests for outcome in outcomes),
        cost_usd=None if cost_usd is None else float(cost_usd),
        **facts,
    )


def rest_text(outcomes: Sequence[Outcome], left: int, concurrency: int) -> str:
    """Return the estimate for the `left` distinct rows outside of a sample, from the rows that it filled.

    Failed rows cost little or nothing: an estimate from them would be far too low.
    """
    filled = [outcome for outcome in outcomes if outcome.status == "ok"]
    if not filled:
        return "no row was filled, so what the others would take is not known"
    share, total = left / len(filled), add_money(*(outcome.cost_usd for outcome in filled))
    seconds = sum(outcome.seconds for outcome in filled) * share / max(min(concurrency, left), 1)
    cost = _cost(None if total is None else float(total) * share)
    return f"the {plural(left, 'other distinct row')} would take about {cost}, {duration(seconds)}"


def _cost(amount: Money | float) -> str:
    return "cost unknown" if amount is None else usd(amount)


# --- while it runs ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Progress:
    """The counts of a run as they stand, in distinct rows; written by the run, read by the bar.

    `note` names what the run waits for ("": only for answers); `limiter` has the API's `retry-after` (None: nothing is sent).
    """

    total: int = 0
    done: int = 0
    failed: int = 0
    cached: int = 0
    cost_usd: Money = Decimal(0)
    note: str = ""
    limiter: ConcurrencyLimiter | None = None

    @property
    def finished(self) -> int:
        """The number of rows that have ended, well or badly."""
        return self.done + self.failed + self.cached

    @property
    def text(self) -> str:
        """The counts, and what the run waits for with a time of day, so that the bar is not drawn anew each second."""
        wait_s = self.limiter.seconds_to_wait if self.limiter is not None else 0.0
        until = datetime.now() + timedelta(seconds=wait_s)
        told = f"waiting for the API until {until:%H:%M:%S} (retry-after)" if wait_s >= 1 else ""
        stored = f"{self.cached} from the store" if self.cached else ""
        return ", ".join(filter(None, (f"{self.failed} failed", stored, _cost(self.cost_usd), self.note, told)))


def progress_bar(progress: Progress, show: bool) -> Any:
    """Return a bar of tqdm; with `show` False, nothing is shown."""
    from tqdm import tqdm

    # Lab paints what comes on standard error like an error.
    where = sys.stdout if "ipykernel" in sys.modules else sys.stderr
    options: dict[str, Any] = {"mininterval": 0, "miniters": 1, "leave": False, "file": where, "disable": not show}
    return tqdm(total=progress.total, desc="enrich", unit="row", **options)


def draw(bar: Any, progress: Progress) -> None:
    """Draw the counts in a bar when they have changed."""
    text, moved = progress.text, progress.finished - bar.n
    if not bar.disable and (moved or text != bar.postfix):
        bar.set_postfix_str(text, refresh=not moved)
        bar.update(moved)  # it draws what moves, and reckons the rate
