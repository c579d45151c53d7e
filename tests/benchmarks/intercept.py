"""What an intercepted question costs, beside the loop that somebody writes by hand.

    python -m tests.benchmarks.intercept [--questions N] [--write]

Each question is one search and one answer of forty pieces, on the light server; what is measured is the CPU time of the
client's process, in milliseconds a question.
"""

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
TRANSPORTS = "SDK over aiohttp; by hand, httpx over aiohttp"

ABOUT = (
    "CPU milliseconds a question: one search and an answer of forty pieces, on a server in another process; same transports "
    "for the model, in turns. By hand is the loop of `hand.py`, without ledger, cache, limits and native shape. Medians."
)
Ask = Callable[[str], Awaitable[Any]]


def _asked(text: str, tool: dict[str, Any]) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": MODEL, "max_tokens": 16_000, "system": SYSTEM, "tools": [tool], "messages": messages}


def by_hand(hand: HandLoop) -> Ask:
    """The hand loop without streaming."""

    async def ask(text: str) -> None:
        asked = _asked(text, TOOL)
        while True:
            reply = await hand.client.messages.create(**asked)
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                return
            found = await asyncio.gather(*map(hand.result, calls))
            asked["messages"] += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": found}]

    return ask


def intercepted(client: Any, *, streams: bool) -> Ask:
    """One `create` or `stream` of an intercepted client."""

    async def ask(text: str) -> None:
        asked = _asked(text, SEARCH)
        if streams:
            async with client.messages.stream(**asked) as stream:
                message = await stream.get_final_message()
        else:
            message = await client.messages.create(**asked)
        assert len(message.content) == 3

    return ask


async def measure(url: str, questions: int) -> list[tuple[object, ...]]:
    """Return the rows of the table."""
    rows, hand = [], HandLoop(url, url)
    async with anthropic.AsyncAnthropic(api_key="k", base_url=url, http_client=anthropic.DefaultAioHttpClient()) as bare:
        client = intercept(bare, provider="brave")
        for label, theirs, streams in ((TRANSPORTS, by_hand(hand), False), ("the same, streaming", hand.ask, True)):
            cells = list[str]()
            for at_once in (1, 50):
                pair = intercepted(client, streams=streams), theirs
                ours, floor = await compared(pair, PLAN, questions, at_once)
                cells += [f"{floor:.2f}", f"{ours:.2f}", f"{ours / floor:.2f}"]
            rows.append((label, *cells))
    await hand.aclose()
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
