"""What the tool loop costs, side by side with a hand-written one: `python -m tests.benchmarks.loop [--write]`.

Both loops run in this process, in turns, against a server in another one; each figure is the median over the turns. `--write`
puts the table into RESULTS.md. It takes about two minutes; other work on the machine makes the figures worse, not the
ratios.
"""

import argparse
import asyncio
import contextlib
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

from ipy_websearch.results import TextDelta
from tests.benchmarks import environment, keep, light_environment, table
from tests.benchmarks.hand import HandLoop
from tests.benchmarks.server import BenchmarkServer

TURNS = 7
STEPS, CONTEXT_TOKENS = 6, 12_000
# What a token counts that is written to the cache or read from it (platform.claude.com/docs, read 2026-11).
WRITTEN, READ = 1.25, 0.1

Ask = Callable[[str], Awaitable[Any]]

_serial = count()


def row(what: str, ours: float, hand: float, most: float, target: str, unit: str) -> tuple[str, ...]:
    """Return a row of the table: our figure, the hand-written loop's, and whether ours is at most `most`, which is `target`."""
    shown = (f"{value:,.{0 if value >= 1000 else 2}f} {unit}" for value in (ours, hand))
    return what, *shown, f"{ours / hand:.2f}", target, "yes" if ours <= most else "**no**"


@contextlib.asynccontextmanager
async def both(url: str, check: str = "mark") -> Any:
    """Give (ask of a fresh session, ask of a hand-written loop, the session, the loop); `check` as in `ask`."""
    from ipy_websearch.session import Session

    session, hand = Session(), HandLoop(url, url)
    yield partial(session.ask, provider="brave", max_searches=20, read_pages=0, check=check), hand.ask, session, hand
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


async def compared(asks: Sequence[Ask], plan: str, questions: int, concurrency: int, which: int = 0) -> tuple[float, float]:
    """Return the medians of figure number `which` of `run` for both, measured in turns."""
    for ask in asks:
        await run(ask, plan, max(questions // 4, concurrency), concurrency)
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(TURNS):
        for n in (0, 1) if turn % 2 else (1, 0):
            found[n].append((await run(asks[n], plan, questions, concurrency))[which])
    return statistics.median(found[0]), statistics.median(found[1])


async def measured(url: str) -> list[tuple[str, ...]]:
    """Return the CPU time for each question in all scenarios, and the time that rounds of searches of 100 ms take."""
    rows = []
    for name, plan, questions, most, check in (
        ("1 round × 1 search", "r=1 p=1 n=8", 100, 1.3, "mark"),
        ("1 round × 1 search, answer of 200 pieces", "r=1 p=1 n=200", 50, 0.8, "mark"),
        ("the same, its 200 sentences not checked", "r=1 p=1 n=200", 50, 0.8, "off"),
        ("3 rounds × 3 searches", "r=3 p=3 n=8", 50, 1.3, "mark"),
    ):
        for concurrency in (1, 50):
            async with both(url, check) as (*asks, _, _):
                ours, hand = await compared(asks, plan, questions, concurrency)
            what, target = f"CPU a question, {name}, {concurrency} at once", f"≤ {most} × hand"
            rows.append(row(what, ours, hand, most * hand, target, "ms"))
    async with both(url) as (*asks, _, _):
        ours, hand = await compared(asks, "r=3 p=3 d=100 n=8", 5, 1, which=1)
    return [*rows, row("3 rounds × 3 searches of 100 ms", ours, hand, 335.0, "≤ 335 ms", "ms")]


async def first_text(url: str) -> tuple[str, ...]:
    """Return the time from the question to the first text of the final answer, which comes in pieces 5 ms apart."""
    plan = "r=1 p=1 n=20 g=5"
    found: tuple[list[float], list[float]] = ([], [])
    async with both(url) as (_, _, session, hand):
        for _ in range(4 + 6 * TURNS):
            for times, start in zip(found, (partial(session.start, provider="brave", read_pages=0), hand.stream), strict=True):
                began, took = time.perf_counter(), 0.0
                async for event in start(question(plan)):
                    if isinstance(event, str | TextDelta):
                        took = took or (time.perf_counter() - began) * 1000
                times.append(took)
    ours, by_hand = (statistics.median(times[4:]) for times in found)
    return row("first text of the final answer", ours, by_hand, by_hand + 10, "≤ hand + 10 ms", "ms")


async def billed() -> tuple[float, float]:
    """Return how many input tokens six steps over a long question are billed, in units of plain input: ours, and those of a
    loop that caches nothing. The strict fake counts a token for four characters and plays the prompt cache."""
    from ipy_websearch.session import Session
    from tests.fakes.engines import Brave
    from tests.fakes.messages_api import MessagesAPI
    from tests.fakes.replies import tool_use

    def searches(body: dict[str, Any]) -> Any:
        done = sum(message["role"] == "assistant" for message in body["messages"])
        return "They say so." if done == STEPS - 1 else tool_use("web_search", {"query": f"topic number {done}"})

    asked = "What do these say?" + "Words. " * (CONTEXT_TOKENS * 4 // 7)
    with MessagesAPI() as api, Brave() as brave:
        api.behave(searches)
        with environment(**api.environment(), **brave.environment()):
            session = Session()
            answer = await session.ask(asked, provider="brave", read_pages=0)
            await session.aclose()
        hand = HandLoop(api.url, brave.url, model_key=api.key, search_key=brave.environment()["BRAVE_API_KEY"])
        await hand.ask(asked + " ")
        await hand.aclose()
        assert answer.searches == STEPS - 1 and len(api.usages) == 2 * STEPS and not api.refusals, api.refusals
        return _billed(api.usages[:STEPS]), _billed(api.usages[STEPS:])


def _billed(usages: list[dict[str, Any]]) -> float:
    weights = {"input_tokens": 1, "cache_creation_input_tokens": WRITTEN, "cache_read_input_tokens": READ}
    return sum(weight * usage.get(name, 0) for usage in usages for name, weight in weights.items())


async def measure(url: str) -> list[tuple[str, ...]]:
    """Return all rows."""
    with light_environment(url):
        rows = [*await measured(url), await first_text(url)]
    ours, naive = await billed()
    what = f"billed input, {STEPS} steps, {CONTEXT_TOKENS:,} tokens in the question"
    return [*rows, row(what, ours, naive, 0.40 * naive, "≤ 0.40 × naive", "tokens")]


def main() -> None:
    """Measure, print the table and, with --write, keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    args = parser.parse_args()
    with BenchmarkServer() as server:
        rows = asyncio.run(measure(server.url))
    body = table("what | ours | hand-written | ratio | target | reached", rows)
    keep("Loop", body, "`python -m tests.benchmarks.loop --write`", write=args.write)


if __name__ == "__main__":
    main()
