"""What a run came to: rows by status, failures that are alike together, cost and time. Plain data that shows itself as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ipy_websearch.enrichment.legacy.outcome import Outcome
from ipy_websearch.text import shorten

_VARYING = re.compile(r"req_\w+|\d+(\.\d+)?")
_SHOWN = 5


class Report(dict[str, Any]):
    """The report in `frame.attrs["report"]`: a dict of numbers and texts (so that the frame can be saved with it).

    Keys: rows, ok, error, budget, interrupted, skipped (rows by status), empty (rows that are ok, with nothing found for any of
    their columns), asked and stored (distinct rows), requests, cost_usd (None: unknown), seconds, failures (a list of {message,
    rows, example}), faults (another one, of values that were left out of rows that are filled), warnings.
    """

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return str(self)

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        filled, empty = self["ok"] - self.get("empty", 0), self.get("empty", 0)
        parts = [f"{filled:,} of {self['rows']:,} row{'s' * (self['rows'] != 1)} filled"]
        parts += [f"{empty:,} without a value"] if empty else []
        parts += [f"{self[name]:,} {words}" for name, words in _WORDS.items() if self[name]]
        head = f"{', '.join(parts)}; {money(self['cost_usd'])}, {duration(self['seconds'])}"
        faults = _group_lines(self.get("faults", []))
        heading = ["values that fit no type are missing; the next call asks for them again:"] if faults else []
        return [head, *_group_lines(self["failures"]), *heading, *faults, *self["warnings"]]


_WORDS = {
    "error": "failed",
    "budget": "left out by the budget",
    "interrupted": "interrupted",
    "skipped": "skipped for missing values",
    "stored": "from the store",
}


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
    *,
    requests: int,
    cost_usd: float | None,
    seconds: float,
    warnings: Sequence[str] = (),
) -> Report:
    """Return the report; `counts` says how many rows of the frame each outcome stands for, `names` what they are about."""
    by_status: Counter[str] = Counter()
    failures: dict[str, Group] = {}
    faults: dict[str, Group] = {}
    empty = 0
    for outcome, count, name in zip(outcomes, counts, names, strict=True):
        if outcome is None or not count:
            continue
        by_status[outcome.status] += count
        empty += count * (outcome.status == "ok" and all(cell.value is None for cell in outcome.cells))
        if outcome.status == "error":
            _add(failures, alike(outcome.error), outcome.error, count, name)
        for fault in (cell.fault for cell in outcome.cells if cell.fault):
            _add(faults, fault.partition("“")[0], fault, count, name)
    known = [outcome for outcome, count in zip(outcomes, counts, strict=True) if outcome is not None and count]
    stored = sum(outcome.cached for outcome in known)
    return Report(
        rows=sum(by_status.values()),
        **{status: by_status[status] for status in ("ok", "error", "budget", "interrupted", "skipped")},
        empty=empty,
        asked=len(known) - stored - sum(outcome.status == "skipped" for outcome in known),
        stored=stored,
        requests=requests,
        cost_usd=cost_usd,
        seconds=round(seconds, 3),
        failures=_largest_first(failures),
        faults=_largest_first(faults),
        warnings=list(warnings),
    )


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
        text = f"looks like {self.rows:,} row{'s' * (self.rows != 1)} ≈ {money(self.cost_usd)}, {duration(self.seconds)}"
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


def money(usd: float | None) -> str:
    """Return an amount: two digits behind the point, more for small ones; never with a dollar sign."""
    if usd is None:
        return "cost unknown"
    return f"{usd:.2f} USD" if usd >= 1 or usd == 0 else f"{usd:.4f} USD" if usd >= 0.0001 else "under 0.0001 USD"


def duration(seconds: float) -> str:
    """Return a time in its largest sensible unit: "41 s", "6 min", "2.5 h"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
