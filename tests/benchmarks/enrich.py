"""Enrichment against a server of its own process: speed, memory, refusals, kills. `python -m tests.benchmarks.enrich [name …]`.

Each scenario runs in a fresh process, so that processor time and memory are its own. The figures to reach are DESIGN's (13).
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks.enrich_server import ROOT, EnrichServer

QUESTIONS = {"ceo": "Who is the CEO of {company}?"}


def client(rows: int, distinct: int, concurrency: int, searches: int = 1) -> dict[str, Any]:
    """Enrich a frame in this process; return seconds, processor milliseconds a row, megabytes, rows lost."""
    import pandas as pd

    import ipy_websearch
    from ipy_websearch import api
    from ipy_websearch.enriching import drive

    frame = pd.DataFrame({"company": [f"Company {n % distinct}" for n in range(rows)]})
    warm = frame.head(1).assign(company="warm")
    ipy_websearch.enrich(warm, QUESTIONS, progress=False)
    before, start, cpu = _memory_mb(), time.perf_counter(), time.process_time()
    work = api.session().enrichment(frame, QUESTIONS, concurrency=concurrency, max_searches=searches)
    drive(work, False)
    found = work.frame()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "seconds": round(seconds, 2),
        "cpu_ms_row": round(cpu * 1000 / distinct, 3),
        "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "kb_row": round((_memory_mb() - before) * 1024 / rows, 2),
        "lost": int((found.enrich_status != "ok").sum()),
        "requests": work.report()["requests"],
    }


def _memory_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def run(server: EnrichServer, home: str, *, wait: bool = True, **arguments: Any) -> Any:
    """Run `client` in a process of its own; return its figures (or the process, without `wait`)."""
    environment = {
        **os.environ,
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "sk-ant-bench",
        "IPY_WEBSEARCH_HOME": home,
        "NO_PROXY": "*",
    }
    call = f"client(**json.loads({json.dumps(arguments)!r}))"
    code = f"import json\nfrom tests.benchmarks.enrich import client\nprint(json.dumps({call}))"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if not wait:
        return process
    out, _ = process.communicate(timeout=300)
    return json.loads(out.strip().splitlines()[-1])


def plain(home: str) -> dict[str, Any]:
    """2,000 rows of 200 ms, 100 at once: within 1.2 of 4.0 s, 1.2 CPU ms a row, 150 MB."""
    with EnrichServer(latency=0.2) as server:
        figures = run(server, home, rows=2000, distinct=2000, concurrency=100)
    return {**figures, "times_limit": round(figures["seconds"] / 4.0, 2)}


def capped(home: str) -> dict[str, Any]:
    """A server that takes 20 at once: 500 rows, none lost, within 1.15 of 5.0 s."""
    with EnrichServer(latency=0.2, cap=20, retry_after=1.0) as server:
        figures = run(server, home, rows=500, distinct=500, concurrency=100)
        return {**figures, "times_limit": round(figures["seconds"] / 5.0, 2), "server": server.stats()}


def overloaded(home: str) -> dict[str, Any]:
    """529 for 2 % of the requests: none lost."""
    with EnrichServer(latency=0.2, share_529=0.02) as server:
        figures = run(server, home, rows=2000, distinct=2000, concurrency=100)
    return {**figures, "times_limit": round(figures["seconds"] / 4.0, 2)}


def storm(home: str) -> dict[str, Any]:
    """Two seconds in which everything is refused: none lost, and hardly a request before its retry-after is over."""
    with EnrichServer(latency=0.2, retry_after=1.0) as server:
        process = run(server, home, wait=False, rows=1000, distinct=1000, concurrency=50)
        while server.stats()["answered"] < 200:
            time.sleep(0.02)
        server.set(storm_until=time.time() + 2.0)
        out, _ = process.communicate(timeout=300)
        return {**json.loads(out.strip().splitlines()[-1]), "server": server.stats()}


def killed(home: str) -> dict[str, Any]:
    """`kill -9` at half and again: at most `concurrency` requests are wasted."""
    with EnrichServer(latency=0.2) as server:
        process = run(server, home, wait=False, rows=1000, distinct=1000, concurrency=50)
        while server.stats()["answered"] < 500:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        first = server.stats()["requests"]
        figures = run(server, home, rows=1000, distinct=1000, concurrency=50)
        wasted = server.stats()["requests"] - 1001
    return {**figures, "first_run": first, "wasted": wasted}


def equal(home: str) -> dict[str, Any]:
    """1,000 rows with 100 distinct ones: 100 requests."""
    with EnrichServer(latency=0.05) as server:
        return run(server, home, rows=1000, distinct=100, concurrency=50)


def large(home: str) -> dict[str, Any]:
    """100,000 rows: at most 1.5 kB of memory a row."""
    with EnrichServer(latency=0.0) as server:
        return run(server, home, rows=100_000, distinct=100_000, concurrency=64)


SCENARIOS: dict[str, Callable[[str], dict[str, Any]]] = {
    scenario.__name__: scenario for scenario in (plain, capped, overloaded, storm, killed, equal, large)
}

if __name__ == "__main__":
    for name in sys.argv[1:] or SCENARIOS:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name:>10}  {SCENARIOS[name].__doc__}\n{'':>10}  {json.dumps(SCENARIOS[name](folder))}", flush=True)
