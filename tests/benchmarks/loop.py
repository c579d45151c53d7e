"""What the tool loop costs, side by side with a hand-written one: `python -m tests.benchmarks.loop [--write]`.

Both loops run in this process, in turns, against a server in another one; each figure is the median over the turns. `--write`
puts the table into RESULTS.md. It takes about two minutes; other work on the machine makes the figures worse, not the
ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests.benchmarks.environment import light_environment
from tests.benchmarks.hand_loop import HandLoop
from tests.benchmarks.light_server import ROOT, LightServer
from tests.benchmarks.report import write_section

TURNS = 7
MEMORY_QUESTIONS = 200
Ask = Callable[[str], Awaitable[Any]]

_serial = count()


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table: ours, the hand-written loop's, what our figure may be at most (None: no target), the unit."""

    what: str
    ours: float
    hand: float | None
    limit: float | None
    target: str
    unit: str

    def cells(self) -> list[str]:
        """Return the row."""
        ratio = f"{self.ours / self.hand:.2f}" if self.hand and self.unit != "MB" else ""
        verdict = "" if self.limit is None else "yes" if self.ours <= self.limit else "**no**"
        return [self.what, self._shown(self.ours), self._shown(self.hand), ratio, self.target, verdict]

    def _shown(self, value: float | None) -> str:
        return "" if value is None else f"{value:,.{0 if abs(value) >= 1000 else 2}f} {self.unit}"


@contextlib.asynccontextmanager
async def both(url: str) -> Any:
    """Give (ask of a fresh session, ask of a hand-written loop, the session, the loop)."""
    from ipy_websearch.session import Session

    session, hand = Session(), HandLoop(url, url)

    async def ask(question: str) -> Any:
        return await session.ask(question, provider="brave", max_searches=20, read_pages=0)

    yield ask, hand.ask, session, hand
    await session.aclose()
    await hand.aclose()


def question(plan: str) -> str:
    """Return a question that was not asked before, so that no cache answers it."""
    return f"id{next(_serial)} {plan}"


async def run(ask: Ask, plan: str, questions: int, concurrency: int) -> tuple[float, float]:
    """Return (CPU, wall-clock) milliseconds for each question."""
    gate = asyncio.Semaphore(concurrency)

    async def one() -> None:
        async with gate:
            await ask(question(plan))

    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(one() for _ in range(questions)))
    return (time.process_time() - cpu) * 1000 / questions, (time.perf_counter() - wall) * 1000 / questions


async def turns(url: str, plan: str, questions: int, concurrency: int, which: int) -> tuple[float, float]:
    """Return the medians of (ours, the hand-written loop's) figure number `which` of `run`, both measured in turns."""
    async with both(url) as (ours, hand, _, _):
        for ask in (ours, hand):
            await run(ask, plan, max(questions // 4, concurrency), concurrency)
        found: tuple[list[float], list[float]] = ([], [])
        for turn in range(TURNS):
            for n in (0, 1) if turn % 2 else (1, 0):
                found[n].append((await run((ours, hand)[n], plan, questions, concurrency))[which])
    return statistics.median(found[0]), statistics.median(found[1])


async def cpu(url: str) -> list[Figure]:
    """Return the CPU time for each question in all scenarios."""
    figures = []
    for name, plan, questions in (
        ("1 round × 1 search", "r=1 p=1 n=8", 100),
        ("1 round × 1 search, answer of 200 pieces", "r=1 p=1 n=200", 50),
        ("3 rounds × 3 searches", "r=3 p=3 n=8", 50),
    ):
        for concurrency in (1, 50):
            ours, hand = await turns(url, plan, questions, concurrency, 0)
            what = f"CPU a question, {name}, {concurrency} at once"
            figures.append(Figure(what, ours, hand, 1.25 * hand, "≤ 1.25 × hand", "ms"))
    return figures


async def rounds(url: str) -> Figure:
    """Return the wall-clock time of three rounds of three searches that take 100 ms each."""
    ours, hand = await turns(url, "r=3 p=3 d=100 n=8", 5, 1, 1)
    return Figure("3 rounds × 3 searches of 100 ms", ours, hand, 330 + hand - 300, "≤ 330 ms + hand's overhead", "ms")


async def first_text(url: str) -> Figure:
    """Return the time from the question to the first text of the final answer, which comes in pieces 5 ms apart."""
    plan = "r=1 p=1 n=20 g=5"
    found: tuple[list[float], list[float]] = ([], [])
    async with both(url) as (_, _, session, hand):
        for n in range(4 + 6 * TURNS):
            start = time.perf_counter()
            async for event in session.start(question(plan), provider="brave", read_pages=0):
                if type(event).__name__ == "TextDelta" and len(found[0]) < n + 1:
                    found[0].append((time.perf_counter() - start) * 1000)
            start = time.perf_counter()
            async for _ in hand.stream(question(plan)):
                if len(found[1]) < n + 1:
                    found[1].append((time.perf_counter() - start) * 1000)
    ours, by_hand = (statistics.median(times[4:]) for times in found)
    return Figure("first text of the final answer", ours, by_hand, by_hand + 5, "≤ hand + 5 ms", "ms")


def memory(url: str) -> list[Figure]:
    """Return how much a session grows over 200 questions, each loop in a fresh process."""
    figures = []
    for name, plan in (("1 search of real size", "r=1 p=1 k=1"), ("3 × 3 searches of real size", "r=3 p=3 k=1")):
        grown = []
        for which in ("ours", "hand"):
            command = [sys.executable, "-m", "tests.benchmarks.loop", "--memory", which, "--url", url, "--plan", plan]
            grown.append(float(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout))
        what = f"memory, {MEMORY_QUESTIONS} questions with {name}"
        figures.append(Figure(what, grown[0], grown[1], 20.0, "< 20 MB", "MB"))
    return figures


async def grow(url: str, which: str, plan: str) -> float:
    """Return the MB by which this process grows over the questions that follow on the first five."""
    async with both(url) as (ours, hand, _, _):
        ask = ours if which == "ours" else hand
        await run(ask, plan, 5, 1)
        gc.collect()
        before = _resident_mb()
        await run(ask, plan, MEMORY_QUESTIONS, 1)
        gc.collect()
        return _resident_mb() - before


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


async def measure(url: str) -> list[Figure]:
    """Return all figures."""
    from tests.benchmarks.billing import billed

    with light_environment(url):
        figures = [*await cpu(url), await rounds(url), await first_text(url), *memory(url)]
    what, ours, naive = await billed("question")
    figures.append(Figure(what, ours, naive, 0.40 * naive, "≤ 0.40 × naive", "tokens"))
    # What comes step by step has to be written to the cache once, at 1.25: half of the naive loop's is the floor.
    what, ours, naive = await billed("results")
    return [*figures, Figure(what, ours, naive, None, "", "tokens")]


def main() -> None:
    """Measure, print the table and, with --write, keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    parser.add_argument("--memory", choices=("ours", "hand"), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory:
        with light_environment(args.url):
            print(asyncio.run(grow(args.url, args.memory, args.plan)))
        return
    with LightServer() as url:
        figures = asyncio.run(measure(url))
    heads = ["what", "ours", "hand-written", "ratio", "target", "reached"]
    rows = [heads, ["---"] * len(heads), *(figure.cells() for figure in figures)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    print(table)
    if args.write:
        write_section("Loop", table, "`python -m tests.benchmarks.loop --write`")


if __name__ == "__main__":
    main()
