"""Runs the benchmarks and keeps what was measured in RESULTS.md.

    python -m tests.benchmarks [NAME …] [--pages AEB WCXB]

NAMEs are load, ledger, loop, interception, enrichment, extraction; without one all are run, which takes about half an hour on
an idle machine. Extraction needs checkouts of article-extraction-benchmark and web-content-extraction-benchmark, named by
`--pages`.
"""

from __future__ import annotations

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
    parser.add_argument("--pages", nargs=2, metavar=("AEB", "WCXB"))
    arguments = parser.parse_args()
    benchmarks: dict[str, Callable[[], None]] = {
        "load": lambda: run("tests.benchmarks.load", "--write"),
        "ledger": lambda: run("tests.benchmarks.ledger"),
        "loop": lambda: run("tests.benchmarks.loop", "--write"),
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
