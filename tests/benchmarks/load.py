"""What loading costs, in fresh processes: `python -m tests.benchmarks.load [--write]`.

Beside `%load_ext ipy_websearch` stand the imports that it avoids, and what the first search costs, which does pay for them.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

from tests.benchmarks import ROOT, keep, table

RUNS = 9
MEASURE = """
import gc, json, resource, time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
def mb():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20
def measured(work):
    gc.collect()
    before, cpu = mb(), time.process_time()
    work()
    return {{"cpu_ms": (time.process_time() - cpu) * 1000, "rss_mb": mb() - before}}
{setup}
print(json.dumps(measured(lambda: {work})))
"""
LOAD = 'shell.run_line_magic("load_ext", "ipy_websearch")'
SEARCH = 'shell.run_line_magic("search", "--provider local moons of Mars")'
CASES = (
    ("`%load_ext ipy_websearch`", "", LOAD, "≤ 10 ms, ≤ 2 MB"),
    ("`import pandas`", "", '__import__("pandas")', ""),
    ("`import anthropic`", "", '__import__("anthropic")', ""),
    ("the first `%search`, on the local index", LOAD, SEARCH, ""),
    ("a second `%search`, not from the cache", f"{LOAD}; {SEARCH}", SEARCH.replace("Mars", "Jupiter"), ""),
)


def measured(setup: str, work: str) -> dict[str, float]:
    """Return CPU milliseconds and megabytes: medians over fresh processes, which keep their compiled modules."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "IPY_WEBSEARCH_HOME": home, "IPYTHONDIR": home, "PYTHONPYCACHEPREFIX": f"{home}/compiled"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", MEASURE.format(setup=setup, work=work)]
        outputs = [
            subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
            for _ in range(RUNS + 1)
        ]
    runs = [json.loads(output.strip().splitlines()[-1]) for output in outputs[1:]]  # the first one compiled
    return {figure: statistics.median(run[figure] for run in runs) for figure in ("cpu_ms", "rss_mb")}


def main(arguments: list[str]) -> None:
    """Print the table; with `--write` put it into RESULTS.md."""
    rows = []
    for name, setup, work, reach in CASES:
        found = measured(setup, work)
        rows.append((name, f"{found['cpu_ms']:.1f} ms", f"{found['rss_mb']:.1f} MB", reach))
    body = table("what, in a fresh IPython | CPU | memory | to reach", rows)
    keep("Load", body, "`python -m tests.benchmarks.load --write`", write="--write" in arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
