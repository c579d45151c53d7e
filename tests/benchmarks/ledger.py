"""The ledger's speed and size: booking a row, reports over a million of them. `python -m tests.benchmarks.ledger [rows]`.

The figures to reach are DESIGN's (13): 0.3 ms a row, half a second a report over a million rows; and 300 bytes a row.
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

from ipy_websearch.ledger import GROUPS, Ledger
from ipy_websearch.ledger_costs import cost_frame
from ipy_websearch.ledger_rows import LedgerRow
from ipy_websearch.usage import Usage
from tests.benchmarks.report import write_section

ROWS = 1_000_000
BATCH = 20_000
SINGLE = 2_000
START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(count: int) -> Iterator[LedgerRow]:
    """Yield rows as a year of use would make them: 100 sessions, seven rows a question, three models, four engines."""
    chance = random.Random(7)
    for n in range(count):
        question = n // 7
        engine = n % 7 in (1, 3)
        yield LedgerRow(
            time=START + timedelta(seconds=n * 30),
            session=f"session{question * 100 // (count // 7 + 1):04d}",
            question_id=f"{question:012x}",
            question=f"How did the price of part {question} change between 2020 and 2026, and why?",
            kind="search" if engine else "model",
            name=chance.choice(
                ("brave", "exa", "tavily", "wikipedia") if engine else ("claude-sonnet-5-5", "claude-haiku-5-5")
            ),
            usage=Usage() if engine else Usage(chance.randrange(4_000), chance.randrange(900), chance.randrange(30_000), 1_200),
            units=Decimal(1 if engine else 0),
            unit="request" if engine else "",
            cost_usd=Decimal(chance.randrange(1, 30_000_000)).scaleb(-9),
            cached=engine and n % 5 == 0,
            notebook=f"notebook{question % 20}.ipynb",
        )


def measured(folder: Path, count: int) -> Iterator[tuple[str, float, float, str]]:
    """Yield (what, value, figure to reach, unit)."""
    path = folder / "ledger.sqlite"
    ledger = Ledger(path)
    batch: list[LedgerRow] = []
    for row in rows(count):
        batch.append(row)
        if len(batch) == BATCH:
            ledger.book_all(batch)
            batch = []
    ledger.book_all(batch)
    ledger.close()  # the write-ahead log goes into the file
    yield "bytes a row", path.stat().st_size / count, 300, "bytes"
    ledger = Ledger(path)
    ledger.total()  # open the file and bring pandas in before the clock starts
    cost_frame(ledger, session="session0001", by="day")
    more = [row for _, row in zip(range(SINGLE), rows(count), strict=False)]
    started = time.perf_counter()
    for row in more:
        ledger.book(row)
    yield "booking a row, each in its own transaction", (time.perf_counter() - started) / SINGLE * 1000, 0.3, "ms"
    reports: dict[str, Callable[[], object]] = {
        f"%cost --all --by {by}": lambda by=by: cost_frame(ledger, by=by) for by in GROUPS
    }
    last = START + timedelta(seconds=count * 30)
    reports["%cost --all --since 7d --by model"] = lambda: cost_frame(ledger, since=last - timedelta(days=7), by="model")
    reports["%cost, one session"] = lambda: cost_frame(ledger, session="session0042")
    reports["the sum of a day, for its ceiling"] = lambda: ledger.total(since=datetime(2026, 6, 1, tzinfo=UTC))
    reports["the curve of --plot"] = lambda: ledger.curve()
    for name, report in reports.items():
        started = time.perf_counter()
        report()
        yield name, time.perf_counter() - started, 0.5, "s"


def main() -> None:
    """Measure, print, and keep the table in RESULTS.md when it is over all rows."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    lines = [f"| over {count:,} rows | measured | to reach |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        lines += [
            f"| {name} | {value:.3g} {unit} | ≤ {reach} {unit} |" for name, value, reach, unit in measured(Path(folder), count)
        ]
    print("\n".join(lines))
    if count == ROWS:
        write_section("Ledger", "\n".join(lines), "`python -m tests.benchmarks.ledger`")


if __name__ == "__main__":
    main()
