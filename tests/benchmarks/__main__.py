"""Runs the benchmarks side by side with peers and keeps what was measured in RESULTS.md.

    python -m tests.benchmarks [NAME …] [--peers FOLDER] [--pages AEB WCXB]

NAMEs are load, ledger, loop, peers, interception, enrichment, extraction; without one all are run, which takes about half an
hour on an idle machine. The peers are installed into an environment of their own at
FOLDER (default: one in the user's cache). Extraction needs checkouts of article-extraction-benchmark and
web-content-extraction-benchmark, named by `--pages`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs

from tests.benchmarks import ROOT, keep, table
from tests.benchmarks.server import BenchmarkServer

PEERS = ("anthropic[aiohttp]", "httpx-aiohttp", "pydantic-ai-slim[anthropic]")
LOOPS = ("hand", "SDK tool runner", "pydantic-ai")
PATIENCE_S = 300
ABOUT = (
    "The peers alone, each in a process of its own, against the server of the section Loop, where our own figures are: one "
    "search and a streamed answer a question."
)


def run(*command: str) -> None:
    """Run a benchmark of its own; its failure ends everything."""
    print(f"── {' '.join(command)}", flush=True)
    subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=True)


def peers_python(folder: Path) -> str:
    """Return the Python of the peers' environment, which is made at the first call."""
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return str(python)


def measured(python: str, *arguments: str) -> Any:
    """Return what `tests.benchmarks.peers` prints, None when a peer hangs or fails."""
    try:
        done = subprocess.run(
            [python, "-m", "tests.benchmarks.peers", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
        )
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return None


def peers(python: str) -> None:
    """Measure the peers and write their section."""
    with BenchmarkServer() as server:
        rows = [(name, *_cells(measured(python, name, server.url))) for name in LOOPS]
    shown = table("loop | CPU a question, 1 at once | 50 at once | 3 rounds × 3 searches of 100 ms", rows)
    keep("Peers", f"{ABOUT} Versions: {measured(python, 'versions')}.\n\n{shown}", "`python -m tests.benchmarks peers`")


def _cells(found: dict[str, float] | None) -> tuple[str, ...]:
    if found is None:
        return "failed", "", ""
    return f"{found['cpu_1']:.2f} ms", f"{found['cpu_50']:.2f} ms", f"{found['rounds_ms']:.0f} ms"


def main() -> None:
    """Run what was named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument(
        "--peers", type=Path, default=Path(platformdirs.user_cache_dir("ipy_websearch-benchmarks", appauthor=False))
    )
    parser.add_argument("--pages", nargs=2, metavar=("AEB", "WCXB"))
    arguments = parser.parse_args()
    benchmarks: dict[str, Callable[[], None]] = {
        "load": lambda: run("tests.benchmarks.load", "--write"),
        "ledger": lambda: run("tests.benchmarks.ledger"),
        "loop": lambda: run("tests.benchmarks.loop", "--write"),
        "peers": lambda: peers(peers_python(arguments.peers)),
        "interception": lambda: run("tests.benchmarks.intercept", "--write"),
        "enrichment": lambda: run("tests.benchmarks.enrich", "--write"),
        "extraction": lambda: run("tests.benchmarks.extraction", *(arguments.pages or ()), "--write"),
    }
    if unknown := set(arguments.names) - set(benchmarks):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(benchmarks)}")
    if "extraction" in arguments.names and not arguments.pages:
        parser.error("extraction needs --pages AEB WCXB, the two checkouts")
    for name in arguments.names or [name for name in benchmarks if arguments.pages or name != "extraction"]:
        benchmarks[name]()


if __name__ == "__main__":
    main()
