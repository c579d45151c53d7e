"""Runs the benchmarks and keeps what was measured in RESULTS.md.

    python -m tests.benchmarks [NAME …] [--peers PYTHON] [--pages AEB WCXB]

NAMEs are load, ledger, loop, peers, interception, enrichment, extraction; without one all are run, which takes about half an
hour on an idle machine. The peers are in an environment of their own, whose Python `--peers` names (see `peers.py`).
Extraction needs checkouts of article-extraction-benchmark and web-content-extraction-benchmark, named by `--pages`.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable

from tests.benchmarks import ROOT


def run(*command: str) -> None:
    """Run a benchmark of its own; its failure ends everything."""
    print(f"── {' '.join(command)}", flush=True)
    subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=True)


def main() -> None:
    """Run what was named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--pages", nargs=2, metavar=("AEB", "WCXB"))
    arguments = parser.parse_args()
    benchmarks: dict[str, Callable[[], None]] = {
        "load": lambda: run("tests.benchmarks.load", "--write"),
        "ledger": lambda: run("tests.benchmarks.ledger"),
        "loop": lambda: run("tests.benchmarks.loop", "--write"),
        "peers": lambda: run("tests.benchmarks.peers", arguments.peers, "--write"),
        "interception": lambda: run("tests.benchmarks.intercept", "--write"),
        "enrichment": lambda: run("tests.benchmarks.enrich", "--write"),
        "extraction": lambda: run("tests.benchmarks.extraction", *(arguments.pages or ()), "--write"),
    }
    if unknown := set(arguments.names) - set(benchmarks):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(benchmarks)}")
    needs = {"extraction": arguments.pages, "peers": arguments.peers}
    if missing := [name for name in arguments.names if not needs.get(name, True)]:
        parser.error(f"{missing[0]} needs --{'pages AEB WCXB' if missing[0] == 'extraction' else 'peers PYTHON'}")
    for name in arguments.names or [name for name in benchmarks if needs.get(name, True)]:
        benchmarks[name]()


if __name__ == "__main__":
    main()
