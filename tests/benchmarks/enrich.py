"""Enrichment against a server of its own process: speed, memory, refusals, kills, batches, Dask.

    python -m tests.benchmarks.enrich [scenario …] [--write]

Each scenario runs in fresh processes, so that processor time and memory are its own; what is timed is repeated, and the median
stands in the table with the least and the most. `--write` puts the table into RESULTS.md. All of it takes about four minutes
on a machine that does nothing else: other work makes all figures worse but those of memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

from tests.benchmarks.enrich_server import ROOT, EnrichServer
from tests.benchmarks.report import write_section

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


def client(
    rows: int,
    distinct: int,
    concurrency: int,
    searches: int = 1,
    mode: str | None = None,
    workers: int = 0,
    pyarrow: bool = True,
    hand: bool = False,
    turns: int = 1,
    name: str = "",
) -> list[dict[str, Any]]:
    """Enrich frames in this process; return for each turn seconds, processor milliseconds a row, megabytes, rows lost."""
    if not pyarrow:
        sys.modules["pyarrow"] = None  # type: ignore[assignment]  # pandas imports it wherever it is installed
    import pandas as pd

    import ipy_websearch

    def turn(number: int, dask: Any) -> dict[str, Any]:
        frame = pd.DataFrame({"company": [f"Company {name} {number} {n % distinct}" for n in range(rows)]})
        before, start, cpu = _memory_mb(), time.perf_counter(), time.process_time()
        options: dict[str, Any] = {"concurrency": concurrency, "max_searches": searches, "mode": mode, "cluster": dask}
        found = ipy_websearch.enrich(frame, QUESTIONS, progress=False, **options)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        return {
            "seconds": round(seconds, 2),
            "cpu_ms_row": round(cpu * 1000 / distinct, 3),
            "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "kb_row": round((_memory_mb() - before) * 1024 / rows, 2),
            "lost": int((found.enrich_status != "ok").sum()),
            "requests": found.attrs["report"]["requests"],
        }

    warm = pd.DataFrame({"company": ["warm"]})
    ipy_websearch.enrich(warm, QUESTIONS, progress=False)
    if not workers:
        return [turn(number, None) | (by_hand(rows, concurrency) if hand else {}) for number in range(turns)]
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as dask:
        many = pd.DataFrame({"company": [f"warm {n}" for n in range(20)]})
        ipy_websearch.enrich(many, QUESTIONS, cluster=dask, progress=False)
        return [turn(2 * n + bool(where), where) for n in range(turns) for where in (None, dask)]


def by_hand(rows: int, concurrency: int) -> dict[str, Any]:
    """Return what the same requests take in a loop over the SDK, which keeps, checks and books nothing."""
    import anthropic

    from ipy_websearch.enrichment.columns import parse_columns
    from ipy_websearch.enrichment.prompt import record_tool, system_text
    from ipy_websearch.tools.base import input_schema
    from ipy_websearch.tools.web_search import DESCRIPTION, WebSearchInput

    columns = parse_columns(QUESTIONS, ["company"])
    search = {"name": "web_search", "description": DESCRIPTION, "input_schema": input_schema(WebSearchInput)}
    body: dict[str, Any] = {
        "model": "claude-haiku-5-5",
        "max_tokens": 2_368,
        "system": [{"type": "text", "text": system_text(1, date.today()), "cache_control": {"type": "ephemeral"}}],
        "tools": [search, record_tool(columns)],
        "tool_choice": {"type": "any"},
    }

    async def ask_all() -> None:
        places = asyncio.Semaphore(concurrency)
        async with anthropic.AsyncAnthropic(http_client=anthropic.DefaultAioHttpClient(), max_retries=0) as sdk:

            async def ask(n: int) -> Any:
                async with places:
                    question = columns[0].question({"company": f"Company {n}"})
                    reply = await sdk.messages.create(**body, messages=[{"role": "user", "content": question}])
                    return next(block.input for block in reply.content if block.type == "tool_use")

            await asyncio.gather(*(ask(n) for n in range(rows)))

    start, cpu = time.perf_counter(), time.process_time()
    asyncio.run(ask_all())
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"hand_seconds": seconds, "hand_cpu_ms_row": cpu * 1000 / rows}


def _memory_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def start(server: EnrichServer, home: str, **arguments: Any) -> subprocess.Popen[str]:
    """Run `client` in a process of its own."""
    environment = {
        **os.environ,
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "sk-ant-bench",
        "IPY_WEBSEARCH_HOME": home,
        "NO_PROXY": "*",
    }
    code = f"""
import json
from tests.benchmarks.enrich import client
if __name__ == "__main__":
    print(json.dumps(client(**json.loads({json.dumps(arguments)!r}))))
"""
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Return the figures of a process when it has ended."""
    try:
        out, _ = process.communicate(timeout=900)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    found: list[dict[str, Any]] = json.loads(out.strip().splitlines()[-1])
    return found


def run(server: EnrichServer, home: str, **arguments: Any) -> list[dict[str, Any]]:
    """Run `client` in a process of its own to its end."""
    return finish(start(server, home, **arguments))


def _all(found: list[dict[str, Any]], name: str, by: float = 1.0) -> tuple[float, ...]:
    return tuple(turn[name] / by for turn in found)


def plain(home: str) -> list[Figure]:
    """2,000 rows of 200 ms, 100 at once; the best possible is 4.0 s."""
    with EnrichServer(latency=0.2) as server:
        first = run(server, home, rows=2000, distinct=2000, concurrency=100, pyarrow=False, name="first")
        found = run(server, home, rows=2000, distinct=2000, concurrency=100, turns=TURNS, hand=True)
    ratio = tuple(turn["cpu_ms_row"] / turn["hand_cpu_ms_row"] for turn in found)
    return [
        Figure("2,000 rows, 200 ms, 100 at once: wall-clock time / limit", _all(found, "seconds", 4.0), 1.25),
        Figure("… of a hand-written SDK loop beside it", _all(found, "hand_seconds", 4.0), None),
        Figure("… processor time a row", _all(found, "cpu_ms_row"), 1.4, "ms"),
        Figure("… of a hand-written SDK loop beside it", _all(found, "hand_cpu_ms_row"), None, "ms"),
        Figure("… ours / by hand", ratio, 1.2),
        Figure("… memory of the process, pandas without pyarrow", _all(first, "rss_mb"), 150, "MB"),
        Figure("… rows lost", _all(found, "lost"), 0),
    ]


def memory(home: str) -> list[Figure]:
    """What the imports alone take, which every figure of memory has in it."""
    shown = "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    code = f"import sys\n{{0}}\nimport pandas, anthropic, resource\n{shown}"
    sizes = []
    for line in ("sys.modules['pyarrow'] = None", ""):
        out = subprocess.run([sys.executable, "-c", code.format(line)], capture_output=True, text=True, check=True).stdout
        sizes.append(float(out))
    return [
        Figure("import pandas, anthropic (without pyarrow)", (sizes[0],), None, "MB"),
        Figure("import pandas, anthropic (pandas imports pyarrow)", (sizes[1],), None, "MB"),
    ]


def capped(home: str) -> list[Figure]:
    """A server that takes 20 at once and says 429, retry-after 1 s, above; the best possible is 5.0 s."""
    with EnrichServer(latency=0.2, cap=20, retry_after=1.0) as server:
        found = run(server, home, rows=500, distinct=500, concurrency=100, turns=TURNS)
    return [
        Figure("429 above 20 at once, 500 rows: wall-clock time / limit", _all(found, "seconds", 5.0), 1.3),
        Figure("… rows lost", _all(found, "lost"), 0),
    ]


def overloaded(home: str) -> list[Figure]:
    """529 for 2 % of the requests."""
    with EnrichServer(latency=0.2, share_529=0.02) as server:
        found = run(server, home, rows=2000, distinct=2000, concurrency=100)
    return [
        Figure("529 for 2 %, 2,000 rows: rows lost", _all(found, "lost"), 0),
        Figure("… wall-clock time / limit", _all(found, "seconds", 4.0), None),
    ]


def storm(home: str) -> list[Figure]:
    """Two seconds in which everything is refused."""
    with EnrichServer(latency=0.2, retry_after=1.0) as server:
        process = start(server, home, rows=1000, distinct=1000, concurrency=50)
        while server.stats()["answered"] < 200:
            time.sleep(0.02)
        server.set(storm_until=time.time() + 2.0)
        found, early = finish(process), server.stats()["early"]
    return [
        Figure("everything refused for 2 s, 1,000 rows: rows lost", _all(found, "lost"), 0),
        Figure("… requests before a retry-after was over", (early,), None),
    ]


def killed(home: str) -> list[Figure]:
    """`kill -9` at half, and the same again."""
    with EnrichServer(latency=0.2) as server:
        process = start(server, home, rows=1000, distinct=1000, concurrency=50)
        while server.stats()["answered"] < 500:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        found = run(server, home, rows=1000, distinct=1000, concurrency=50)
        wasted = server.stats()["requests"] - 1001
    return [
        Figure("killed at half and run again, 1,000 rows, 50 at once: requests wasted", (wasted,), 50),
        Figure("… rows lost", _all(found, "lost"), 0),
    ]


def equal(home: str) -> list[Figure]:
    """1,000 rows with 100 distinct ones."""
    with EnrichServer(latency=0.05) as server:
        found = run(server, home, rows=1000, distinct=100, concurrency=50)
    return [Figure("1,000 rows, 100 distinct: requests", _all(found, "requests"), 100)]


def large(home: str) -> list[Figure]:
    """100,000 rows, by how much the process grows; the frame that comes back is in it."""
    with EnrichServer(latency=0.0) as server:
        found = run(server, home, rows=100_000, distinct=100_000, concurrency=64)
    return [
        Figure("100,000 rows: memory growth a row", _all(found, "kb_row"), 1.5, "kB"),
        Figure("… processor time a row", _all(found, "cpu_ms_row"), 1.4, "ms"),
    ]


def batch(home: str) -> list[Figure]:
    """2,000 rows through Message Batches that end at once."""
    with EnrichServer() as server:
        found = run(server, home, rows=2000, distinct=2000, concurrency=100, mode="batch", turns=TURNS)
    return [
        Figure("2,000 rows in a batch: processor time a row", _all(found, "cpu_ms_row"), 1.2, "ms"),
        Figure("… rows lost", _all(found, "lost"), 0),
    ]


def dask(home: str) -> list[Figure]:
    """2,000 rows of 200 ms, 100 at once, on a cluster of two workers, in turns with one process."""
    with EnrichServer(latency=0.2) as server:
        found = run(server, home, rows=2000, distinct=2000, concurrency=100, workers=2, turns=TURNS)
    one, two = statistics.median(_all(found[::2], "seconds")), _all(found[1::2], "seconds")
    return [
        Figure("Dask, two workers, 2,000 rows: wall-clock time / one process", tuple(value / one for value in two), 1.2),
        Figure("… rows lost", _all(found[1::2], "lost"), 0),
    ]


SCENARIOS: dict[str, Callable[[str], list[Figure]]] = {
    scenario.__name__: scenario for scenario in (plain, memory, capped, overloaded, storm, killed, equal, large, batch, dask)
}


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
