"""Counts what an intercepted question takes in instructions, beside the loop that somebody writes by hand.

    python -m tests.benchmarks.intercept_instructions [--write]

Valgrind (a package of every Linux) counts those of all threads of a process, without the kernel's: the figures are the same in
each run, whatever else the machine does, and know nothing of memory that is slow.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile

from tests.benchmarks.intercept import ROOT, asked_of, served
from tests.benchmarks.intercept_contenders import PAIRS
from tests.benchmarks.report import write_section

FEW, MANY = 20, 60
"""Questions that two processes ask; what they differ by is the questions' own, without the start."""

ABOUT = "Millions of instructions a question outside of the kernel, counted by valgrind; the questions above, one at a time."


def instructions(url: str, name: str, count: int) -> int:
    """Return the instructions of a process in which a contender answers so many questions."""
    counter = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    here = [sys.executable, "-m", "tests.benchmarks.intercept_instructions", "one", url, name, str(count)]
    with tempfile.TemporaryDirectory() as home:
        fixed = {**os.environ, "IPY_WEBSEARCH_HOME": home, "PYTHONHASHSEED": "0"}
        done = subprocess.run([*counter, *here], cwd=ROOT, env=fixed, stderr=subprocess.PIPE, text=True, check=True)
    found = re.search(r"I +refs: +([\d,]+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1].replace(",", ""))


def main(arguments: list[str]) -> None:
    """Count for every pair and print a table."""
    if arguments[:1] == ["one"]:
        _, url, name, count = arguments
        asyncio.run(asked_of(url, name, int(count)))
        return
    lines = ["| transports | by hand | intercept | ratio |", "|---" * 4 + "|"]
    with served() as url:
        for label, pair in PAIRS.items():
            hand, ours = ((instructions(url, name, MANY) - instructions(url, name, FEW)) / (MANY - FEW) / 1e6 for name in pair)
            lines.append(f"| {label} | {hand:.2f} | {ours:.2f} | {ours / hand:.2f} |")
    print("\n".join(lines))
    if "--write" in arguments:
        table = "\n".join(lines)
        write_section(
            "Interception, in instructions", f"{ABOUT}\n\n{table}", "`python -m tests.benchmarks.intercept_instructions`"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
