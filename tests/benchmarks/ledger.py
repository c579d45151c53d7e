"""The ledger's speed: its reports. `python -m tests.benchmarks.ledger [rows]`.

To reach is what the design asks: 0.3 s of CPU for a report over 100,000 rows, which is every grouping.
"""

import random
import sys
import tempfile
import time
import timeit
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from ipy_websearch.money.ledger import GROUPS, Ledger, LedgerRow, cost_frame
from ipy_websearch.results import Usage
from tests.benchmarks import keep, table

ROWS = 100_000
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
        )


def measured(ledger: Ledger, by: str) -> float:
    """Return the CPU seconds of a report, the best of a few laps."""
    return min(timeit.repeat(lambda: cost_frame(ledger, by=by), timer=time.process_time, number=1, repeat=LAPS))


def main() -> None:
    """Measure, print, and keep the table in RESULTS.md when it is over all rows."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        ledger.book(list(rows(count)))
        cost_frame(ledger, session="session0001", by="day")  # bring pandas in before the clock starts
        found = [(f"cost by {by}", f"{measured(ledger, by):.3g} s", "≤ 0.3 s") for by in GROUPS]
    body = table(f"over {count:,} rows, CPU time | measured | to reach", found)
    keep("Ledger", body, "`python -m tests.benchmarks.ledger`", write=count == ROWS)


if __name__ == "__main__":
    main()
