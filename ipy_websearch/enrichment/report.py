"""What a run came to: cells filled, rows by status, failures grouped by message, cost, time; and an estimate for all rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ipy_websearch.enrichment.columns import NO_RESULTS, NOT_ASKED, Cell, Column
from ipy_websearch.text import shorten, usd

Status = Literal["ok", "error", "budget", "interrupted", "skipped"]

_VARYING = re.compile(r"req_\w+|\d+(\.\d+)?")
_SHOWN = 5
_ROWS = {
    "error": "failed",
    "budget": "left out by the budget",
    "interrupted": "interrupted",
    "skipped": "skipped for missing values",
    "stored": "from the store",
}


@dataclass(slots=True)
class Outcome:
    """What came of a distinct row: its status, its cells (one for each column), what went wrong ("" for nothing).

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


def answered(cells: tuple[Cell, ...], notes: Iterable[str] = ()) -> Outcome:
    """Return the outcome of a row that the model has answered; it has failed when none of its values fits its type."""
    asked = [cell for cell in cells if cell is not NOT_ASKED]
    faults = [cell.fault for cell in asked if cell.fault]
    failed = bool(faults) and len(faults) == len(asked)
    nothing = [NO_RESULTS] if any(cell.missing == NO_RESULTS for cell in asked) else []
    return Outcome("error" if failed else "ok", () if failed else cells, "; ".join([*faults, *nothing, *notes]))


class Report(dict[str, Any]):
    """The report in `frame.attrs["report"]`: a dict of numbers and texts, so that the frame can be saved with it.

    Keys: rows, ok, error, budget, interrupted, skipped (rows by status); cells, filled, not_found (by the model), no_results
    (of the search), and the same by column in `columns`; asked and stored (distinct rows), requests, cost_usd (None: unknown),
    seconds, failures (a list of {message, rows, example}), faults (of values that fit no type), doubts (why values
    have a lower confidence than the model said), warnings.
    """

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return str(self)

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        parts = [f"{self['filled']:,} of {self['cells']:,} cell{'s' * (self['cells'] != 1)} filled"]
        parts += [f"{self['not_found']:,} not found"] if self["not_found"] else []
        parts += [f"{self['no_results']:,} without a search result"] if self["no_results"] else []
        counts = [(self[name], words) for name, words in _ROWS.items() if self[name]]
        parts += [f"{count:,} row{'s' * (count != 1)} {words}" for count, words in counts]
        head = f"{', '.join(parts)}; {_cost(self['cost_usd'])}, {duration(self['seconds'])}"
        columns = self["columns"].items() if len(self["columns"]) > 1 else ()
        by_column = ", ".join(f"{name} {column['filled']:,} of {column['cells']:,}" for name, column in columns)
        faults = _group_lines(self["faults"])
        heading = ["values that fit no type are missing; the next call asks for them again:"] if faults else []
        lines = [head, *([f"  {by_column}"] if by_column else []), *_group_lines(self["failures"]), *heading, *faults]
        doubts = _group_lines(self["doubts"])
        heading = ["values of lower confidence, because"] if doubts else []
        return [*lines, *heading, *doubts, *self["warnings"]]


Group = dict[str, Any]


def _group_lines(groups: Sequence[Group]) -> list[str]:
    more = len(groups) - _SHOWN
    examples = [f" (such as {group['example']})" if group["example"] else "" for group in groups]
    lines = [f"  {g['rows']:,} x {g['message']}{e}" for g, e in zip(groups[:_SHOWN], examples, strict=False)]
    return [*lines, *([f"  … and {more} other messages"] if more > 0 else [])]


def _add(groups: dict[str, Group], alike: str, message: str, rows: int, example: str) -> None:
    """Count rows into the group of messages that are alike; its first message stands for all."""
    group = groups.setdefault(alike, {"message": message, "rows": 0, "example": shorten(example, 60)})
    group["rows"] += rows


def _largest_first(groups: dict[str, Group]) -> list[Group]:
    return sorted(groups.values(), key=lambda group: -group["rows"])


def make_report(
    outcomes: Sequence[Outcome | None],
    counts: Sequence[int],
    names: Iterable[str],
    columns: Sequence[Column],
    **facts: Any,
) -> Report:
    """Return the report; `counts` says how many rows of the frame each outcome stands for, `names` what they are about.

    `facts` are requests, cost_usd, seconds and warnings. Rows without input are no cells to fill.
    """
    known = [
        (outcome, count, name)
        for outcome, count, name in zip(outcomes, counts, names, strict=True)
        if outcome is not None and count
    ]
    by_status: Counter[str] = Counter()
    failures: dict[str, Group] = {}
    faults: dict[str, Group] = {}
    doubts: dict[str, Group] = {}
    for outcome, count, name in known:
        by_status[outcome.status] += count
        if outcome.status == "error":
            _add(failures, alike(outcome.error), outcome.error, count, name)
        for fault in (cell.fault for cell in outcome.cells if cell.fault):
            _add(faults, fault.partition("“")[0], fault, count, name)
        for column, cell in zip(columns, outcome.cells, strict=False):
            if cell.doubt:
                _add(doubts, f"{column.name} {cell.doubt}", f"{column.name} {cell.doubt}", count, name)
    by_column = {column.name: _cells(known, number) for number, column in enumerate(columns)}
    stored = sum(outcome.cached for outcome, _, _ in known)
    return Report(
        rows=sum(by_status.values()),
        **{status: by_status[status] for status in ("ok", "error", "budget", "interrupted", "skipped")},
        **{key: sum(column[key] for column in by_column.values()) for key in ("cells", "filled", "not_found", "no_results")},
        columns=by_column,
        asked=len(known) - stored - sum(outcome.status == "skipped" for outcome, _, _ in known),
        stored=stored,
        failures=_largest_first(failures),
        faults=_largest_first(faults),
        doubts=_largest_first(doubts),
        **facts,
    )


def _cells(known: Sequence[tuple[Outcome, int, str]], number: int) -> dict[str, int]:
    """Return how many cells of a column were to be filled, were filled, and why others are empty."""
    counts: Counter[str] = Counter()
    for outcome, count, _ in known:
        cell = outcome.cells[number] if outcome.cells else None
        if outcome.status == "skipped" or cell is NOT_ASKED:
            continue
        counts["cells"] += count
        if cell is not None:
            kind = "filled" if not cell.missing else "no_results" if cell.missing == NO_RESULTS else "not_found"
            counts[kind] += count * (not cell.fault)
    return {key: counts[key] for key in ("cells", "filled", "not_found", "no_results")}


def alike(message: str) -> str:
    """Return a message without what differs from one failure to the next: numbers and ids."""
    return _VARYING.sub("#", message)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an enrichment is expected to take, from a sample of its rows.

    `rows` of the frame, `distinct` ones among them, `stored` of those that need not be asked again; `cost_usd` (None: unknown)
    and `seconds` for all that are left, at the concurrency asked for. `sample` rows were tried, `failed` of them in vain.
    """

    rows: int
    distinct: int
    stored: int
    sample: int
    failed: int
    cost_usd: float | None
    seconds: float

    def __str__(self) -> str:
        notes = [f"{self.distinct:,} distinct"] if self.distinct < self.rows else []
        notes += [f"{self.stored:,} already in the store"] if self.stored else []
        notes += [f"{self.failed} of the {self.sample} rows tried failed"] if self.failed else []
        text = f"looks like {self.rows:,} row{'s' * (self.rows != 1)} ≈ {_cost(self.cost_usd)}, {duration(self.seconds)}"
        return text + (f" ({', '.join(notes)})" if notes else "")

    def __repr__(self) -> str:
        return str(self)


def make_estimate(outcomes: Sequence[Outcome | None], rows: int, distinct: int, stored: int, concurrency: int) -> Estimate:
    """Return the estimate for `rows` rows from the outcomes of a sample."""
    tried = [o for o in outcomes if o is not None and o.status in ("ok", "error")]
    left = max(distinct - stored, 0)
    prices = [o.worth_usd for o in tried if o.worth_usd is not None]
    mean = sum(prices) / len(tried) if tried and len(prices) == len(tried) else None
    seconds = sum(o.seconds for o in tried) / len(tried) if tried else 0.0
    waves = max(left / concurrency, 1.0) if left else 0.0
    failed = sum(o.status == "error" for o in tried)
    cost = 0.0 if not left else None if mean is None else mean * left
    return Estimate(rows, distinct, stored, len(tried), failed, cost, seconds * waves)


def why_no_estimate(outcomes: Sequence[Outcome | None]) -> str:
    """Return why a sample says nothing of the whole, in one line: all of it failed, or was left out; "" when it does say.

    What failed cost little or nothing: a price reckoned from it would be far too low.
    """
    asked = [o for o in outcomes if o is not None and o.status != "skipped"]
    failed = [o.error for o in asked if o.status == "error"]
    if not asked or any(o.status == "ok" for o in asked):
        return ""
    if not failed:
        return f"there is no estimate, since no row could be tried: {asked[0].error}"
    kinds = Counter(map(alike, failed))
    most = kinds.most_common(1)[0][0]
    others = f" (and {len(kinds) - 1} other reason{'s' * (len(kinds) > 2)})" if len(kinds) > 1 else ""
    tried = "the only row tried" if len(failed) == 1 else f"all {len(failed)} rows tried"
    return f"there is no estimate, since {tried} failed: {next(e for e in failed if alike(e) == most)}{others}"


def _cost(amount: float | None) -> str:
    return "cost unknown" if amount is None else usd(amount)


def duration(seconds: float) -> str:
    """Return a time in its largest sensible unit: "41 s", "6 min", "2.5 h"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
