"""What peers need for the same work, against the server of the section Loop.

    python -m tests.benchmarks.peers PYTHON [--write]
    PYTHON -m pip install "anthropic[aiohttp]" httpx-aiohttp "pydantic-ai-slim[anthropic]" litellm

PYTHON is that of an environment of their own, so that our dependencies do not decide which versions they get; each contender
runs there in a process of its own.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import anthropic

from tests.benchmarks import ROOT, keep, table
from tests.benchmarks.hand import MODEL, SYSTEM, TOOL, HandLoop

QUESTIONS, TURNS, AT_ONCE = 60, 5, 50
PATIENCE_S = 300
VERSIONS = """
from importlib.metadata import version
print(", ".join(f"{name} {version(name)}" for name in ("anthropic", "pydantic-ai-slim", "litellm")))
"""
Ask = Callable[[str], Awaitable[str]]


def by_hand(url: str) -> Ask:
    """The hand-written loop."""
    return HandLoop(url, url).ask


def sdk_runner(url: str) -> Ask:
    """The SDK's own tool runner, streaming."""
    hand = HandLoop(url, url)

    @anthropic.beta_async_tool
    async def web_search(query: str) -> Any:
        """Search the web. Returns results with their addresses and text."""
        return await hand.search(query)

    async def ask(question: str) -> str:
        runner = hand.client.beta.messages.tool_runner(
            model=MODEL,
            max_tokens=16_000,
            system=SYSTEM,
            tools=[web_search],
            messages=[{"role": "user", "content": question}],
            stream=True,
            thread=False,  # the server here keeps no conversations
        )
        return "".join([piece async for stream in runner async for piece in stream.text_stream])

    return ask


def pydantic_ai(url: str) -> Ask:
    """An agent of pydantic-ai with a plain tool, run as a stream of text."""
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    hand = HandLoop(url, url)
    agent = Agent(AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=hand.client)), instructions=SYSTEM)

    @agent.tool_plain
    async def web_search(query: str) -> str:
        """Search the web. Returns results with their addresses and text."""
        return json.dumps(await hand.search(query))

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
    tool = {"name": TOOL["name"], "description": TOOL["description"], "parameters": TOOL["input_schema"]}
    options = {"model": f"anthropic/{MODEL}", "api_key": "k", "api_base": url, "max_tokens": 16_000, "stream": True}

    async def ask(question: str) -> str:
        messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        while True:
            stream = await litellm.acompletion(**options, messages=messages, tools=[{"type": "function", "function": tool}])
            reply = litellm.stream_chunk_builder([chunk async for chunk in stream]).choices[0].message
            if not reply.tool_calls:
                return str(reply.content)
            found = await asyncio.gather(*(hand.search(json.loads(c.function.arguments)["query"]) for c in reply.tool_calls))
            results = zip(reply.tool_calls, found, strict=True)
            told = [{"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)} for call, result in results]
            messages += [reply.model_dump(), *told]

    return ask


LOOPS = {"hand": by_hand, "SDK tool runner": sdk_runner, "pydantic-ai": pydantic_ai, "LiteLLM": litellm_loop}


async def figures(ask: Ask) -> tuple[float, float, float]:
    """Return CPU ms a question at one and at fifty at once, and the wall-clock ms of 3 × 3 searches of 100 ms."""
    serial, cpu, walls = count(), [], []
    for _ in range(5):
        assert "Piece" in await ask(f"id{next(serial)} r=1 p=1 n=8")
    for at_once in (1, AT_ONCE):
        rounds, took = -(-QUESTIONS // at_once), []
        for _ in range(TURNS):
            begin = time.process_time()
            for _ in range(rounds):
                await asyncio.gather(*(ask(f"id{next(serial)} r=1 p=1 n=8") for _ in range(at_once)))
            took.append((time.process_time() - begin) * 1000 / (rounds * at_once))
        cpu.append(statistics.median(took))
    for _ in range(TURNS):
        begin = time.perf_counter()
        await ask(f"id{next(serial)} r=3 p=3 d=100 n=8")
        walls.append((time.perf_counter() - begin) * 1000)
    return cpu[0], cpu[1], statistics.median(walls)


def measured(python: str, name: str, url: str) -> tuple[str, ...]:
    """Return the row of a contender, "failed" when it hangs or breaks."""
    command = [python, "-m", "tests.benchmarks.peers", name, url]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
        one, many, rounds = json.loads(done.stdout.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return name, "failed", "", ""
    return name, f"{one:.2f} ms", f"{many:.2f} ms", f"{rounds:.0f} ms"


def main(arguments: list[str]) -> None:
    """Measure all contenders with the Python that is named, or be one of them."""
    if arguments[0] in LOOPS:
        name, url = arguments
        print(json.dumps(asyncio.run(figures(LOOPS[name](url)))))
        return
    from tests.benchmarks.server import BenchmarkServer  # it needs our package, which the contenders' environment lacks

    said = subprocess.run([arguments[0], "-c", VERSIONS], capture_output=True, text=True, check=True).stdout.strip()
    with BenchmarkServer() as server:
        rows = [measured(arguments[0], name, server.url) for name in LOOPS]
    shown = table("loop | CPU a question, 1 at once | 50 at once | 3 rounds × 3 searches of 100 ms", rows)
    about = f"The peers, each in a process of its own: one search and a streamed answer a question. Versions: {said}."
    write = "--write" in arguments
    keep("Peers", f"{about}\n\n{shown}", "`python -m tests.benchmarks.peers PYTHON --write`", write=write)


if __name__ == "__main__":
    main(sys.argv[1:])
