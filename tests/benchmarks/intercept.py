"""What an intercepted question costs, beside the loop that somebody writes by hand.

    python -m tests.benchmarks.intercept [--questions N] [--processes N] [--write]

Each question is one search and one answer of forty pieces, on the light server; what is measured is the CPU time of the
client's process, in milliseconds a question.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from operator import truediv
from typing import Any

import anthropic

from ipy_websearch.interception import intercept
from tests.benchmarks import light_environment, write_section
from tests.benchmarks.light_server import ROOT, LightServer
from tests.benchmarks.peers import SYSTEM, TOOL, HandLoop

MODEL = "claude-sonnet-5-5"
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
# Turns of the two that are compared: a virtual machine's speed changes within a second. Each ratio is of two turns that follow
# one another, in several processes, since one keeps for its life how its memory happened to be laid out.
ROUNDS = 40

ABOUT = (
    "CPU milliseconds a question: one search and an answer of forty pieces, on a server in another process; same transports "
    "for the model, turn about, each pair in processes of its own. By hand is the loop of `peers.py`, without a ledger, a "
    "cache, limits or the native shape. Medians of the processes, of the ratio in brackets the least and the most."
)
Ask = Callable[[str], Awaitable[Any]]


def _asked(text: str, tool: dict[str, Any]) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": MODEL, "max_tokens": 16_000, "system": SYSTEM, "tools": [tool], "messages": messages}


def _client(url: str) -> Any:
    http_client = anthropic.DefaultAioHttpClient()
    return intercept(anthropic.AsyncAnthropic(api_key="k", base_url=url, http_client=http_client), provider="brave")


def by_hand(url: str) -> Ask:
    """The hand loop without streaming."""
    loop = HandLoop(url, url)

    async def ask(text: str) -> None:
        asked = _asked(text, TOOL)
        while calls := _calls(await loop.client.messages.create(**asked), asked):
            found = await asyncio.gather(*map(loop.result, calls))
            asked["messages"].append({"role": "user", "content": found})

    return ask


def _calls(reply: Any, asked: dict[str, Any]) -> list[Any]:
    asked["messages"].append({"role": "assistant", "content": reply.content})
    return [block for block in reply.content if block.type == "tool_use"]


def intercepted(url: str) -> Ask:
    """One `create` of an intercepted client."""
    client = _client(url)

    async def ask(text: str) -> None:
        assert len((await client.messages.create(**_asked(text, SEARCH))).content) == 3

    return ask


def intercepted_streaming(url: str) -> Ask:
    """One `stream` of an intercepted client, read as the hand loop reads its own."""
    client = _client(url)

    async def ask(text: str) -> None:
        async with client.messages.stream(**_asked(text, SEARCH)) as stream:
            assert "".join([piece async for piece in stream.text_stream])
            assert len((await stream.get_final_message()).content) == 3

    return ask


PAIRS: dict[str, tuple[Callable[[str], Ask], Callable[[str], Ask]]] = {
    "SDK over aiohttp; by hand, httpx over aiohttp": (by_hand, intercepted),
    "the same, streaming": (lambda url: HandLoop(url, url).ask, intercepted_streaming),
}


async def measure(url: str, label: str, each: int, at_once: int) -> list[float]:
    """Return the CPU milliseconds of one question by hand and intercepted, and the ratio: medians of turns of `each`."""
    asks = [make(url) for make in PAIRS[label]]
    took: list[list[float]] = [[], []]
    for turn in range(ROUNDS + 1):
        for n in (0, 1) if turn % 2 else (1, 0):
            begin = time.process_time()
            for start in range(0, each, at_once):
                serials = (f"id{os.getpid()}x{time.monotonic_ns()}x{start + m} r=1 p=1 d=0 n=40" for m in range(at_once))
                await asyncio.gather(*map(asks[n], serials))
            took[n].append((time.process_time() - begin) / each * 1000)
    hand, ours = took[0][1:], took[1][1:]  # the first turn warms up
    return [*map(statistics.median, (hand, ours)), statistics.median(map(truediv, ours, hand))]


def cells(url: str, label: str, questions: int, at_once: int, processes: int) -> str:
    """Return what a pair took, measured in processes of its own."""
    job = json.dumps([url, label, max(at_once, questions // 5), at_once])
    command = [sys.executable, "-m", "tests.benchmarks.intercept", "--job", job]
    done = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True) for _ in range(processes)]
    hand, ours, ratios = zip(*(json.loads(each.stdout) for each in done), strict=True)
    spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
    return f"{statistics.median(hand):.2f} | {statistics.median(ours):.2f} | {spread}"


def main() -> None:
    """Measure the pairs side by side and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=100, help="questions of five turns (default 100)")
    parser.add_argument("--processes", type=int, default=7, help="processes for each pair (default 7)")
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        with light_environment(given.job[0]):
            print(json.dumps(asyncio.run(measure(*given.job))))
        return
    lines = [
        "| transports | by hand, 1 at a time | intercept | ratio | by hand, 50 at once | intercept | ratio |",
        "|---" * 7 + "|",
    ]
    with LightServer() as url:
        for label in PAIRS:
            found = [cells(url, label, given.questions, at_once, given.processes) for at_once in (1, 50)]
            lines.append(f"| {label} | {' | '.join(found)} |")
    table = "\n".join(lines)
    print(table)
    if given.write:
        write_section("Interception", f"{ABOUT}\n\n{table}", "`python -m tests.benchmarks.intercept --write`")


if __name__ == "__main__":
    main()
