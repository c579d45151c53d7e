"""What peers need for the same work, measured in an environment that has them: `python -m tests.benchmarks` makes it.

    PYTHON -m tests.benchmarks.peers CONTENDER URL

Each contender runs in a process of its own and prints its figures as JSON. The package under test is not imported here, so
that what it depends on does not decide which versions its peers get.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

from tests.benchmarks.hand_loop import SYSTEM, TOOL, HandLoop

MODEL = "claude-sonnet-5-5"
QUESTIONS, TURNS, AT_ONCE = 60, 5, 50
Ask = Callable[[str], Awaitable[Any]]


def by_hand(url: str) -> Ask:
    """The hand loop of this folder."""
    return HandLoop(url, url).ask


def sdk_runner(url: str) -> Ask:
    """The SDK's own tool runner over aiohttp, streaming."""
    import anthropic
    from anthropic import beta_async_tool

    hand = HandLoop(url, url)

    @beta_async_tool
    async def web_search(query: str) -> Any:
        """Search the web. Returns results with their addresses and text."""
        return (await hand.search(_Call(query)))["content"]

    client = anthropic.AsyncAnthropic(api_key="k", base_url=url, http_client=anthropic.DefaultAioHttpClient())

    async def ask(question: str) -> str:
        runner = client.beta.messages.tool_runner(
            model=MODEL,
            max_tokens=16_000,
            system=SYSTEM,
            tools=[web_search],
            messages=[_user(question)],
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
    import anthropic
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    hand = HandLoop(url, url)
    client = anthropic.AsyncAnthropic(api_key="k", base_url=url, http_client=anthropic.DefaultAioHttpClient())
    agent = Agent(AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client)), instructions=SYSTEM)

    @agent.tool_plain
    async def web_search(query: str) -> str:
        """Search the web. Returns results with their addresses and text."""
        return json.dumps((await hand.search(_Call(query)))["content"])

    async def ask(question: str) -> str:
        async with agent.run_stream(question) as run:
            return "".join([piece async for piece in run.stream_text(delta=True, debounce_by=None)])

    return ask


def litellm_loop(url: str) -> Ask:
    """A loop over LiteLLM's streamed completions."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    litellm.suppress_debug_info = True
    hand = HandLoop(url, url)
    schema = {k: v for k, v in TOOL.items() if k != "input_schema"} | {"parameters": TOOL["input_schema"]}
    tools = [{"type": "function", "function": schema}]

    async def ask(question: str) -> str:
        messages: list[Any] = [{"role": "system", "content": SYSTEM}, _user(question)]
        while True:
            stream = await litellm.acompletion(
                model=f"anthropic/{MODEL}",
                api_key="k",
                api_base=url,
                max_tokens=16_000,
                messages=messages,
                tools=tools,
                stream=True,
            )
            reply = litellm.stream_chunk_builder([chunk async for chunk in stream]).choices[0].message
            if not reply.tool_calls:
                return str(reply.content)
            messages.append(reply.model_dump())
            found = await asyncio.gather(
                *(hand.search(_Call(json.loads(call.function.arguments)["query"])) for call in reply.tool_calls)
            )
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result["content"])}
                for call, result in zip(reply.tool_calls, found, strict=True)
            ]

    return ask


LOOPS = {"hand": by_hand, "SDK tool runner": sdk_runner, "pydantic-ai": pydantic_ai, "LiteLLM": litellm_loop}


class _Call:
    """What the hand loop's search takes."""

    def __init__(self, query: str) -> None:
        self.id, self.input = "toolu_1", {"query": query}


def _user(text: str) -> Any:
    return {"role": "user", "content": text}


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


def versions() -> str:
    """Return the versions of the peers that are installed."""
    return ", ".join(f"{name} {version(name)}" for name in ("anthropic", "pydantic-ai-slim", "litellm"))


def main(arguments: list[str]) -> None:
    """Measure one contender and print its figures."""
    if arguments == ["versions"]:
        print(json.dumps(versions()))
        return
    name, url = arguments
    print(json.dumps(asyncio.run(loop_figures(LOOPS[name], url))))


if __name__ == "__main__":
    main(sys.argv[1:])
