"""Enrichment against a server of its own process: speed, memory, refusals, Dask.

    python -m tests.benchmarks.enrich [scenario …] [--write]

Each scenario runs in fresh processes, so that processor time is its own; what is timed is repeated, and the median
stands in the table with the least and the most. `--write` puts the table into RESULTS.md. All of it takes about ten minutes
on a machine that does nothing else: other work makes all figures worse.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import ipy_websearch
from tests.benchmarks import ROOT, keep, table
from tests.benchmarks.server import BenchmarkServer

QUESTIONS = {"ceo": "Who is the CEO of {company}?"}
TURNS = {"rows": 2000, "concurrency": 100, "turns": 3}

# The settings of the server, the arguments of `client`, and the rows of the table: words, the figure, its divisor (the best
# possible), the most that it may be (None: anything), and its unit. A server with a cap says 429, retry-after 1 s, above it.
Figure = tuple[str, str, float, float | None, str]
SCENARIOS: dict[str, tuple[dict[str, Any], dict[str, Any], list[Figure]]] = {
    "plain": (
        {"latency": 0.2},
        TURNS,
        [
            ("2,000 rows, 200 ms, 100 at once: wall-clock time / limit", "seconds", 4.0, 1.25, ""),
            ("… processor time a row", "cpu_ms_row", 1, 1.4, "ms"),
            ("… rows lost", "lost", 1, 0, ""),
        ],
    ),
    "capped": (
        {"latency": 0.2, "cap": 20, "retry_after": 1.0},
        TURNS | {"rows": 500},
        [
            ("429 above 20 at once, 500 rows: wall-clock time / limit", "seconds", 5.0, 1.3, ""),
            ("… rows lost", "lost", 1, 0, ""),
        ],
    ),
    "overloaded": (
        {"latency": 0.2, "share_529": 0.02},
        TURNS | {"turns": 1},
        [
            ("529 for 2 %, 2,000 rows: rows lost", "lost", 1, 0, ""),
            ("… wall-clock time / limit", "seconds", 4.0, None, ""),
        ],
    ),
    "large": (
        {"latency": 0.0},
        {"rows": 100_000, "concurrency": 64},
        [
            ("100,000 rows: memory growth a row", "kb_row", 1, 1.5, "kB"),
            ("… processor time a row", "cpu_ms_row", 1, 1.4, "ms"),
        ],
    ),
    "dask": (
        {"latency": 0.2},
        TURNS | {"workers": 2},
        [
            ("Dask, two workers, 2,000 rows: wall-clock time / one process", "times_one", 1, 1.2, ""),
            ("… rows lost", "lost", 1, 0, ""),
        ],
    ),
}


def row(what: str, values: Sequence[float], limit: float | None, unit: str) -> tuple[str, ...]:
    """Return a row of the table: the median of what was measured, its spread, and the most that it may be (None: anything)."""
    middle = statistics.median(values)
    spread = f"{min(values):,.2f}–{max(values):,.2f}" if len(values) > 1 else ""
    reach = ("", "") if limit is None else (f"≤ {limit:,.4g} {unit}".rstrip(), "yes" if middle <= limit else "**no**")
    return what, f"{middle:,.2f} {unit}".rstrip(), spread, *reach


def client(rows: int, concurrency: int, turns: int = 1, workers: int = 0) -> list[dict[str, Any]]:
    """Enrich frames in this process; return for each turn seconds, processor milliseconds and kilobytes a row, rows lost.

    With `workers`, each turn is run twice, here and on a Dask cluster, and `times_one` compares their seconds.
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
        found = [[turn(f"{number} {bool(place)}", rows, concurrency, place) for place in places] for number in range(turns)]
    return [{**pair[-1], "times_one": pair[-1]["seconds"] / pair[0]["seconds"]} for pair in found]


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


def main() -> None:
    """Run the scenarios that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help=", ".join(SCENARIOS))
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    args = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    for name in args.scenarios or SCENARIOS:
        server, arguments, figures = SCENARIOS[name]
        with tempfile.TemporaryDirectory() as folder:
            found = run(folder, server, **arguments)
        rows += [row(what, [turn[key] / best for turn in found], most, unit) for what, key, best, most, unit in figures]
    body = table("what | measured | spread | reach | reached", rows)
    keep("Enrichment", body, "`python -m tests.benchmarks.enrich --write`", write=args.write)


if __name__ == "__main__":
    main()
