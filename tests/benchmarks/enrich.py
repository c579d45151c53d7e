"""Enrichment against a server of its own process: speed, memory, refusals, Dask.

    python -m tests.benchmarks.enrich [scenario …] [--write]

Each scenario runs in fresh processes, so that processor time is its own; what is timed is repeated, and the median
stands in the table with the least and the most. `--write` puts the table into RESULTS.md. All of it takes about ten minutes
on a machine that does nothing else: other work makes all figures worse.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import ipy_websearch
from tests.benchmarks import ROOT, keep, table
from tests.benchmarks.server import BenchmarkServer

QUESTIONS = {"ceo": "Who is the CEO of {company}?"}
TURNS = 3
Rows = list[tuple[str, ...]]


def row(what: str, values: Sequence[float], limit: float | None, unit: str = "") -> tuple[str, ...]:
    """Return a row of the table: the median of what was measured, its spread, and the most that it may be (None: anything)."""
    middle = statistics.median(values)
    spread = f"{min(values):,.2f}–{max(values):,.2f}" if len(values) > 1 else ""
    if limit is None:
        return what, f"{middle:,.2f} {unit}".rstrip(), spread, "", ""
    reached = "yes" if middle <= limit else "**no**"
    return what, f"{middle:,.2f} {unit}".rstrip(), spread, f"≤ {limit:,.4g} {unit}".rstrip(), reached


def client(rows: int, concurrency: int, turns: int = 1, workers: int = 0) -> list[dict[str, Any]]:
    """Enrich frames in this process; return for each turn seconds, processor milliseconds and kilobytes a row, rows lost.

    With `workers`, each turn is run twice: here, and on a Dask cluster.
    """
    places: list[Any] = [None]
    with contextlib.ExitStack() as stack:
        if workers:
            from distributed import Client, LocalCluster

            cluster = stack.enter_context(LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0"))
            places.append(stack.enter_context(Client(cluster)))
        for place in places:
            warm = pd.DataFrame({"company": [f"warm {n}" for n in range(20)]})
            ipy_websearch.enrich(warm, QUESTIONS, progress=False, cluster=place)
        return [turn(f"{number} {bool(place)}", rows, concurrency, place) for number in range(turns) for place in places]


def turn(name: str, rows: int, concurrency: int, cluster: Any) -> dict[str, Any]:
    """Return the figures of one run."""
    frame = pd.DataFrame({"company": [f"Company {name} {n}" for n in range(rows)]})
    before, start, cpu = memory_kb(), time.perf_counter(), time.process_time()
    options: dict[str, Any] = {"concurrency": concurrency, "max_searches": 1, "cluster": cluster}
    found = ipy_websearch.enrich(frame, QUESTIONS, progress=False, **options)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "seconds": round(seconds, 2),
        "cpu_ms_row": round(cpu * 1000 / rows, 3),
        "kb_row": round((memory_kb() - before) / rows, 2),
        "lost": int((found.enrich_status != "ok").sum()),
    }


def memory_kb() -> float:
    """Return the memory of this process (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


def run(home: str, server: dict[str, Any], **arguments: Any) -> list[dict[str, Any]]:
    """Run `client` in a process of its own to its end, against a server with such settings, and return its figures."""
    code = f"""
import json
from tests.benchmarks.enrich import client
if __name__ == "__main__":
    print(json.dumps(client(**json.loads({json.dumps(arguments)!r}))))
"""
    with BenchmarkServer(**server) as served:
        own = {
            "ANTHROPIC_BASE_URL": served.url,
            "ANTHROPIC_API_KEY": "sk-ant-bench",
            "NO_PROXY": "*",
            "IPY_WEBSEARCH_HOME": home,
        }
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, check=True, timeout=900
        )
    found: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _all(found: list[dict[str, Any]], name: str, by: float = 1.0) -> tuple[float, ...]:
    return tuple(turn[name] / by for turn in found)


def plain(home: str) -> Rows:
    """2,000 rows of 200 ms, 100 at once; the best possible is 4.0 s."""
    found = run(home, {"latency": 0.2}, rows=2000, concurrency=100, turns=TURNS)
    return [
        row("2,000 rows, 200 ms, 100 at once: wall-clock time / limit", _all(found, "seconds", 4.0), 1.25),
        row("… processor time a row", _all(found, "cpu_ms_row"), 1.4, "ms"),
        row("… rows lost", _all(found, "lost"), 0),
    ]


def capped(home: str) -> Rows:
    """A server that takes 20 at once and says 429, retry-after 1 s, above; the best possible is 5.0 s."""
    found = run(home, {"latency": 0.2, "cap": 20, "retry_after": 1.0}, rows=500, concurrency=100, turns=TURNS)
    return [
        row("429 above 20 at once, 500 rows: wall-clock time / limit", _all(found, "seconds", 5.0), 1.3),
        row("… rows lost", _all(found, "lost"), 0),
    ]


def overloaded(home: str) -> Rows:
    """529 for 2 % of the requests."""
    found = run(home, {"latency": 0.2, "share_529": 0.02}, rows=2000, concurrency=100)
    return [
        row("529 for 2 %, 2,000 rows: rows lost", _all(found, "lost"), 0),
        row("… wall-clock time / limit", _all(found, "seconds", 4.0), None),
    ]


def large(home: str) -> Rows:
    """100,000 rows, by how much the process grows; the frame that comes back is in it."""
    found = run(home, {"latency": 0.0}, rows=100_000, concurrency=64)
    return [
        row("100,000 rows: memory growth a row", _all(found, "kb_row"), 1.5, "kB"),
        row("… processor time a row", _all(found, "cpu_ms_row"), 1.4, "ms"),
    ]


def dask(home: str) -> Rows:
    """2,000 rows of 200 ms, 100 at once, on a cluster of two workers, in turns with one process."""
    found = run(home, {"latency": 0.2}, rows=2000, concurrency=100, workers=2, turns=TURNS)
    one = statistics.median(_all(found[::2], "seconds"))
    return [
        row("Dask, two workers, 2,000 rows: wall-clock time / one process", _all(found[1::2], "seconds", one), 1.2),
        row("… rows lost", _all(found[1::2], "lost"), 0),
    ]


SCENARIOS: dict[str, Callable[[str], Rows]] = {
    scenario.__name__: scenario for scenario in (plain, capped, overloaded, large, dask)
}


def main() -> None:
    """Run the scenarios that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help=", ".join(SCENARIOS))
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    args = parser.parse_args()
    rows = Rows()
    for name in args.scenarios or SCENARIOS:
        with tempfile.TemporaryDirectory() as folder:
            rows += SCENARIOS[name](folder)
    body = table("what | measured | spread | reach | reached", rows)
    keep("Enrichment", body, "`python -m tests.benchmarks.enrich --write`", write=args.write)


if __name__ == "__main__":
    main()
