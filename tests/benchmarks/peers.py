"""What peers need for the same work, measured in an environment that has them: `python -m tests.benchmarks` makes it.

    PYTHON -m tests.benchmarks.peers CONTENDER URL

Each contender runs in a process of its own and prints its figures as JSON. The package under test is not imported here, so
that what it depends on does not decide which versions its peers get.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from typing import Any

import anthropic
import httpx
from httpx_aiohttp import AiohttpTransport

MODEL = "claude-sonnet-5-5"
SYSTEM = "You answer questions with the help of a web search. Cite what you use."
TOOL = {
    "name": "web_search",
    "description": "Search the web. Returns results with their addresses and text.",
    "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}
QUESTIONS, TURNS, AT_ONCE = 60, 5, 50
Ask = Callable[[str], Awaitable[Any]]


class HandLoop:
    """The loop that somebody writes in an afternoon, the SDK and httpx over aiohttp: what it costs is the floor.

    It streams and runs the calls of a reply at the same time. It has no limits, retries of
    searches, ledger, cache or citations.
    """

    def __init__(self, model_url: str, search_url: str, *, model_key: str = "sk-ant-hand", search_key: str = "key") -> None:
        http_client = anthropic.DefaultAioHttpClient()
        self.client = anthropic.AsyncAnthropic(api_key=model_key, base_url=model_url, http_client=http_client)
        self.http = httpx.AsyncClient(transport=AiohttpTransport(), timeout=10)
        self.search_url = f"{search_url}/res/v1/web/search"
        self.search_key = search_key

    async def ask(self, question: str) -> str:
        """Return the answer."""
        return "".join([piece async for piece in self.stream(question)])

    async def stream(self, question: str) -> AsyncIterator[str]:
        """Yield the answer as it is written."""
        messages: list[Any] = [{"role": "user", "content": question}]
        while True:
            async with self.client.messages.stream(
                model=MODEL, max_tokens=16_000, system=SYSTEM, tools=[TOOL], messages=messages
            ) as stream:
                async for piece in stream.text_stream:
                    yield piece
                reply = await stream.get_final_message()
            messages.append({"role": "assistant", "content": reply.content})
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                return
            found = await asyncio.gather(*map(self.result, calls))
            messages.append({"role": "user", "content": found})

    async def result(self, call: Any) -> dict[str, Any]:
        """Return the result of one call for the model."""
        return {"type": "tool_result", "tool_use_id": call.id, "content": await self.search(call.input["query"])}

    async def search(self, query: str) -> list[dict[str, Any]]:
        """Return what one search finds, as blocks for the model."""
        headers = {"X-Subscription-Token": self.search_key}
        response = await self.http.get(self.search_url, params={"q": query, "count": 5}, headers=headers)
        return [
            {
                "type": "search_result",
                "source": result["url"],
                "title": result["title"],
                "content": [{"type": "text", "text": t} for t in (result["description"], *result.get("extra_snippets", ()))],
                "citations": {"enabled": True},
            }
            for result in response.raise_for_status().json()["web"]["results"]
        ]

    async def aclose(self) -> None:
        """Close both clients."""
        await self.client.close()
        await self.http.aclose()


def by_hand(url: str) -> Ask:
    """The hand loop of this folder."""
    return HandLoop(url, url).ask


def sdk_runner(url: str) -> Ask:
    """The SDK's own tool runner over aiohttp, streaming."""
    from anthropic import beta_async_tool

    hand = HandLoop(url, url)

    @beta_async_tool
    async def web_search(query: str) -> Any:
        """Search the web. Returns results with their addresses and text."""
        return await hand.search(query)

    client = anthropic.AsyncAnthropic(api_key="k", base_url=url, http_client=anthropic.DefaultAioHttpClient())

    async def ask(question: str) -> str:
        runner = client.beta.messages.tool_runner(
            model=MODEL,
            max_tokens=16_000,
            system=SYSTEM,
            tools=[web_search],
            messages=[{"role": "user", "content": question}],
            stream=True,
            thread=False,  # the server here keeps no conversations
        )
        pieces = []
        async for stream in runner:
            pieces += [piece async for piece in stream.text_stream]
        return "".join(pieces)

    return ask


def pydantic_ai(url: str) -> Ask:
    """An agent with a plain tool, run as a stream of text."""
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    hand = HandLoop(url, url)
    client = anthropic.AsyncAnthropic(api_key="k", base_url=url, http_client=anthropic.DefaultAioHttpClient())
    agent = Agent(AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client)), instructions=SYSTEM)

    @agent.tool_plain
    async def web_search(query: str) -> str:
        """Search the web. Returns results with their addresses and text."""
        return json.dumps(await hand.search(query))

    async def ask(question: str) -> str:
        async with agent.run_stream(question) as run:
            return "".join([piece async for piece in run.stream_text(delta=True, debounce_by=None)])

    return ask


LOOPS = {"hand": by_hand, "SDK tool runner": sdk_runner, "pydantic-ai": pydantic_ai}


async def loop_figures(make: Callable[[str], Ask], url: str) -> dict[str, float]:
    """Return CPU ms a question at one and at fifty at once, and the wall-clock ms of 3 × 3 searches of 100 ms."""
    ask = make(url)
    serial = iter(range(10**9))

    def question(plan: str) -> str:
        return f"id{next(serial)} {plan}"

    for _ in range(5):
        assert "Piece" in await ask(question("r=1 p=1 n=8"))
    figures = {}
    for at_once in (1, AT_ONCE):
        took = []
        for _ in range(TURNS):
            begin = time.process_time()
            for _ in range(0, QUESTIONS, at_once):
                await asyncio.gather(*(ask(question("r=1 p=1 n=8")) for _ in range(at_once)))
            took.append((time.process_time() - begin) * 1000 / (-(-QUESTIONS // at_once) * at_once))
        figures[f"cpu_{at_once}"] = statistics.median(took)
    walls = []
    for _ in range(TURNS):
        begin = time.perf_counter()
        await ask(question("r=3 p=3 d=100 n=8"))
        walls.append((time.perf_counter() - begin) * 1000)
    return {**figures, "rounds_ms": statistics.median(walls)}


def main(arguments: list[str]) -> None:
    """Print the figures of one contender, or the versions of those that are installed."""
    if arguments == ["versions"]:
        found: Any = ", ".join(f"{name} {version(name)}" for name in ("anthropic", "pydantic-ai-slim"))
    else:
        found = asyncio.run(loop_figures(LOOPS[arguments[0]], arguments[1]))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
