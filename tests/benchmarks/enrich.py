"""Enrichment against a server of its own process: speed and refusals.

    python -m tests.benchmarks.enrich [scenario …] [--write]

Each scenario runs in fresh processes, so that processor time is its own; what is timed is repeated, and the median
stands in the table with the least and the most. `--write` puts the table into RESULTS.md. All of it takes about two minutes
on a machine that does nothing else: other work makes all figures worse.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

import ipy_websearch
from tests.benchmarks import write_section
from tests.benchmarks.enrich_server import ROOT, EnrichServer

QUESTIONS = {"ceo": "Who is the CEO of {company}?"}
TURNS = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the table: what, the values measured, the most that it may be (None: no target), the unit."""

    what: str
    values: tuple[float, ...]
    limit: float | None
    unit: str = ""

    def cells(self) -> list[str]:
        """Return the row."""
        middle = statistics.median(self.values)
        spread = f"{min(self.values):,.2f}–{max(self.values):,.2f}" if len(self.values) > 1 else ""
        reach = "" if self.limit is None else f"≤ {self.limit:,.4g} {self.unit}".rstrip()
        verdict = "" if self.limit is None else "yes" if middle <= self.limit else "**no**"
        return [self.what, f"{middle:,.2f} {self.unit}".rstrip(), spread, reach, verdict]


def client(rows: int, concurrency: int, turns: int = 1) -> list[dict[str, Any]]:
    """Enrich frames in this process; return for each turn seconds, processor milliseconds a row, rows lost."""
    ipy_websearch.enrich(pd.DataFrame({"company": ["warm"]}), QUESTIONS, progress=False)
    figures = []
    for number in range(turns):
        frame = pd.DataFrame({"company": [f"Company {number} {n}" for n in range(rows)]})
        start, cpu = time.perf_counter(), time.process_time()
        found = ipy_websearch.enrich(frame, QUESTIONS, progress=False, concurrency=concurrency, max_searches=1)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        lost = int((found.enrich_status != "ok").sum())
        figures.append({"seconds": round(seconds, 2), "cpu_ms_row": round(cpu * 1000 / rows, 3), "lost": lost})
    return figures


def run(server: EnrichServer, home: str, **arguments: Any) -> list[dict[str, Any]]:
    """Run `client` in a process of its own to its end, and return its figures."""
    environment = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-bench", "NO_PROXY": "*"}
    code = f"""
import json
from tests.benchmarks.enrich import client
if __name__ == "__main__":
    print(json.dumps(client(**json.loads({json.dumps(arguments)!r}))))
"""
    environment["IPY_WEBSEARCH_HOME"] = home
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=900)
    found: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _all(found: list[dict[str, Any]], name: str, by: float = 1.0) -> tuple[float, ...]:
    return tuple(turn[name] / by for turn in found)


def plain(home: str) -> list[Figure]:
    """2,000 rows of 200 ms, 100 at once; the best possible is 4.0 s."""
    with EnrichServer(latency=0.2) as server:
        found = run(server, home, rows=2000, concurrency=100, turns=TURNS)
    return [
        Figure("2,000 rows, 200 ms, 100 at once: wall-clock time / limit", _all(found, "seconds", 4.0), 1.25),
        Figure("… processor time a row", _all(found, "cpu_ms_row"), 1.4, "ms"),
        Figure("… rows lost", _all(found, "lost"), 0),
    ]


def capped(home: str) -> list[Figure]:
    """A server that takes 20 at once and says 429, retry-after 1 s, above; the best possible is 5.0 s."""
    with EnrichServer(latency=0.2, cap=20, retry_after=1.0) as server:
        found = run(server, home, rows=500, concurrency=100, turns=TURNS)
    return [
        Figure("429 above 20 at once, 500 rows: wall-clock time / limit", _all(found, "seconds", 5.0), 1.3),
        Figure("… rows lost", _all(found, "lost"), 0),
    ]


def overloaded(home: str) -> list[Figure]:
    """529 for 2 % of the requests."""
    with EnrichServer(latency=0.2, share_529=0.02) as server:
        found = run(server, home, rows=2000, concurrency=100)
    return [
        Figure("529 for 2 %, 2,000 rows: rows lost", _all(found, "lost"), 0),
        Figure("… wall-clock time / limit", _all(found, "seconds", 4.0), None),
    ]


SCENARIOS: dict[str, Callable[[str], list[Figure]]] = {scenario.__name__: scenario for scenario in (plain, capped, overloaded)}


def main() -> None:
    """Run the scenarios that are named, or all, and print each row as it comes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help=", ".join(SCENARIOS))
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    args = parser.parse_args()
    lines = ["| what | measured | spread | reach | reached |", "|---|---|---|---|---|"]
    for name in args.scenarios or SCENARIOS:
        with tempfile.TemporaryDirectory() as folder:
            for figure in SCENARIOS[name](folder):
                lines.append(f"| {' | '.join(figure.cells())} |")
                print(lines[-1], flush=True)
    if args.write:
        write_section("Enrichment", "\n".join(lines), "`python -m tests.benchmarks.enrich --write`")


if __name__ == "__main__":
    main()
