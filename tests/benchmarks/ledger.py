"""The ledger's speed: booking a row, reserving and settling, reports. `python -m tests.benchmarks.ledger [rows]`.

To reach is what the design asks: 0.3 s of CPU for a report over 100,000 rows, which is every grouping. A frame of all the rows,
and what a row costs to write, are measured beside it.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from ipy_websearch.money.ledger import GROUPS, Ledger, LedgerRow, Limit, cost_frame
from ipy_websearch.usage import Usage
from tests.benchmarks.report import write_section

ROWS = 100_000
SINGLE = 2_000
START = datetime(2026, 1, 1, tzinfo=UTC)
LAPS = 3


def rows(count: int) -> Iterator[LedgerRow]:
    """Yield rows as a year of use would make them: 100 sessions, seven rows a question, two models, four providers."""
    chance = random.Random(7)
    for n in range(count):
        question, search = n // 7, n % 7 in (1, 3)
        yield LedgerRow(
            time=START + timedelta(seconds=n * 300),
            session=f"session{question * 100 // (count // 7 + 1):04d}",
            question_id=f"{question:012x}",
            question=f"How did the price of part {question} change between 2020 and 2026, and why?",
            kind="search" if search else "model",
            name=chance.choice(("brave", "exa", "tavily") if search else ("claude-sonnet-5-5", "claude-haiku-5-5")),
            usage=Usage() if search else Usage(chance.randrange(4_000), chance.randrange(900), chance.randrange(30_000), 1_200),
            units=Decimal(1 if search else 0),
            unit="request" if search else "",
            cost_usd=Decimal(chance.randrange(1, 30_000_000)).scaleb(-9),
            cached=search and n % 5 == 0,
            notebook=f"notebook{question % 20}.ipynb",
        )


def measured(folder: Path, count: int) -> Iterator[tuple[str, float, float | None, str]]:
    """Yield (what, value, figure to reach or None, unit), all in CPU time, reports as the best of a few laps."""
    path = folder / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.book(list(rows(count)))
    ledger.close()  # the write-ahead log goes into the file
    yield "bytes a row", path.stat().st_size / count, None, "bytes"
    cost_frame(ledger, session="session0001", by="day")  # bring pandas in before the clock starts
    more = list(rows(SINGLE))
    yield "booking a row in a transaction of its own", _cpu_ms(lambda n: ledger.book([more[n]])), None, "ms"
    limits = [
        Limit("session budget", Decimal(1_000_000), "", "session", "session0042"),
        Limit("day's budget", Decimal(1_000_000), "", since=int(START.timestamp() * 1e6)),
    ]

    def pair(n: int) -> None:
        ledger.reserve("session0042", "q", Decimal("0.02"), lease_s=60, limits=limits).settle([more[n]])

    pair(0)
    yield "reserving under two limits and settling with a row", _cpu_ms(pair), None, "ms"
    reports: dict[str, Callable[[], object]] = {f"cost by {by}": lambda by=by: cost_frame(ledger, by=by) for by in GROUPS}
    reports["every row"] = lambda: cost_frame(ledger)
    for name, report in reports.items():
        laps = []
        for _ in range(LAPS):
            started = time.process_time()
            report()
            laps.append(time.process_time() - started)
        yield name, min(laps), None if name == "every row" else 0.3, "s"


def _cpu_ms(call: Callable[[int], object]) -> float:
    started = time.process_time()
    for n in range(SINGLE):
        call(n)
    return (time.process_time() - started) / SINGLE * 1000


def main() -> None:
    """Measure, print, and keep the table in RESULTS.md when it is over all rows."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    lines = [f"| over {count:,} rows, CPU time | measured | to reach |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for name, value, reach, unit in measured(Path(folder), count):
            lines.append(f"| {name} | {value:.3g} {unit} | {f'≤ {reach} {unit}' if reach else ''} |")
    print("\n".join(lines))
    if count == ROWS:
        write_section("Ledger", "\n".join(lines), "`python -m tests.benchmarks.ledger`")


if __name__ == "__main__":
    main()
