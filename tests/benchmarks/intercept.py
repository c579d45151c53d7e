"""What an intercepted question costs, beside the loop that somebody writes by hand.

    python -m tests.benchmarks.intercept [--questions N] [--write]

Each question is one search and one answer of forty pieces, on the light server; what is measured is the CPU time of the
client's process, in milliseconds a question.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic

from ipy_websearch.interception import intercept
from tests.benchmarks import keep, light_environment, table
from tests.benchmarks.hand import SYSTEM, TOOL, HandLoop
from tests.benchmarks.loop import compared
from tests.benchmarks.server import BenchmarkServer

MODEL = "claude-sonnet-5-5"
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
PLAN = "r=1 p=1 n=40"

ABOUT = (
    "CPU milliseconds a question: one search and an answer of forty pieces, on a server in another process; same transports "
    "for the model, in turns. By hand is the loop of `hand.py`, without ledger, cache, limits and native shape. Medians."
)
Ask = Callable[[str], Awaitable[Any]]
_closers: list[Callable[[], Awaitable[None]]] = []  # of the clients that are measured


def _asked(text: str, tool: dict[str, Any]) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": MODEL, "max_tokens": 16_000, "system": SYSTEM, "tools": [tool], "messages": messages}


def _client(url: str) -> Any:
    client = anthropic.AsyncAnthropic(api_key="k", base_url=url, http_client=anthropic.DefaultAioHttpClient())
    _closers.append(client.close)
    return intercept(client, provider="brave")


def _hand(url: str) -> HandLoop:
    loop = HandLoop(url, url)
    _closers.append(loop.aclose)
    return loop


def by_hand(url: str) -> Ask:
    """The hand loop without streaming."""
    loop = _hand(url)

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
    "the same, streaming": (lambda url: _hand(url).ask, intercepted_streaming),
}


async def measure(url: str, questions: int) -> list[tuple[object, ...]]:
    """Return the rows of the table."""
    rows = []
    for label, (by_hand, intercepted) in PAIRS.items():
        cells = list[str]()
        for at_once in (1, 50):
            ours, hand = await compared((intercepted(url), by_hand(url)), PLAN, questions, at_once)
            cells += [f"{hand:.2f}", f"{ours:.2f}", f"{ours / hand:.2f}"]
        rows.append((label, *cells))
    for close in _closers:
        await close()
    return rows


def main() -> None:
    """Measure the pairs side by side and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=100, help="questions a turn (default 100)")
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    given = parser.parse_args()
    with BenchmarkServer() as server, light_environment(server.url):
        rows = asyncio.run(measure(server.url, given.questions))
    body = table("transports | by hand, 1 at a time | intercept | ratio | by hand, 50 at once | intercept | ratio", rows)
    keep("Interception", f"{ABOUT}\n\n{body}", "`python -m tests.benchmarks.intercept --write`", write=given.write)


if __name__ == "__main__":
    main()
