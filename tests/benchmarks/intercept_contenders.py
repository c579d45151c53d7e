"""Who answers an intercepted question: loops that somebody writes by hand, and our clients, each as `(ask, close)`.

A blocking client is measured in an async function all the same: what counts is the processor time of the whole process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import anthropic
import httpx

from ipy_websearch.interception import intercept
from tests.benchmarks.hand_loop import SYSTEM, TOOL, HandLoop, result_of

MODEL = "claude-sonnet-5-5"
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}

Ask = Callable[[str], Awaitable[Any]]
Made = tuple[Ask, Callable[[], Awaitable[None]]]


async def by_hand_streaming(url: str) -> Made:
    """The hand loop of this folder, which streams."""
    loop = HandLoop(url, url)
    return loop.ask, loop.aclose


async def by_hand(url: str) -> Made:
    """The same without streaming."""
    loop = HandLoop(url, url)
    return _whole(loop), loop.aclose


async def by_hand_lean(url: str) -> Made:
    """The same, searching with nothing but aiohttp: the least that such a loop can take."""
    loop, session = HandLoop(url, url), aiohttp.ClientSession()

    async def search(call: Any) -> dict[str, Any]:
        parameters = {"q": call.input["query"], "count": 5}
        async with session.get(loop.search_url, params=parameters, headers={"X-Subscription-Token": "key"}) as response:
            return result_of(call.id, await response.json())

    async def close() -> None:
        await loop.aclose()
        await session.close()

    loop.search = search  # type: ignore[method-assign]
    return _whole(loop), close


async def by_hand_usual(url: str) -> Made:
    """The same with the transports that the SDK and httpx have when nobody chooses."""
    loop = HandLoop(url, url)
    await loop.aclose()
    loop.client, loop.http = anthropic.AsyncAnthropic(api_key="k", base_url=url), httpx.AsyncClient(timeout=10)
    return _whole(loop), loop.aclose


def _whole(loop: HandLoop) -> Ask:
    """Return the hand loop that does not stream."""

    async def ask(text: str) -> Any:
        messages: list[Any] = [{"role": "user", "content": text}]
        while True:
            reply = await loop.client.messages.create(
                model=MODEL, max_tokens=16_000, system=SYSTEM, tools=[TOOL], messages=messages
            )
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                return reply
            messages.append({"role": "assistant", "content": reply.content})
            messages.append({"role": "user", "content": await asyncio.gather(*(loop.search(call) for call in calls))})

    return ask


def _intercepted(url: str, **options: Any) -> Any:
    os.environ |= {"BRAVE_BASE_URL": url, "BRAVE_API_KEY": "key"}
    return intercept(anthropic.AsyncAnthropic(api_key="k", base_url=url, **options), provider="brave")


def _asked(text: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": MODEL, "max_tokens": 16_000, "system": SYSTEM, "tools": [SEARCH], "messages": messages}


async def intercepted(url: str) -> Made:
    """One `create` of an intercepted client."""
    return _created(_intercepted(url, http_client=anthropic.DefaultAioHttpClient()))


async def intercepted_usual(url: str) -> Made:
    """The same with the transport that the SDK has when nobody chooses."""
    return _created(_intercepted(url))


def _created(client: Any) -> Made:
    async def ask(text: str) -> Any:
        reply = await client.messages.create(**_asked(text))
        assert [b.type for b in reply.content] == ["server_tool_use", "web_search_tool_result", "text"]
        return reply

    return ask, client.close


async def intercepted_streaming(url: str) -> Made:
    """One `stream` of an intercepted client, read as the hand loop reads its own."""
    client = _intercepted(url, http_client=anthropic.DefaultAioHttpClient())

    async def ask(text: str) -> str:
        async with client.messages.stream(**_asked(text)) as stream:
            text = "".join([piece async for piece in stream.text_stream])
            assert len((await stream.get_final_message()).content) == 3
            return text

    return ask, client.close


async def by_hand_blocking(url: str) -> Made:
    """The hand loop of somebody with a blocking client, who searches with another one."""
    client, http = anthropic.Anthropic(api_key="k", base_url=url), httpx.Client(timeout=10)

    def search(call: Any) -> dict[str, Any]:
        parameters = {"q": call.input["query"], "count": 5}
        response = http.get(f"{url}/res/v1/web/search", params=parameters, headers={"X-Subscription-Token": "key"})
        return result_of(call.id, response.raise_for_status().json())

    async def ask(text: str) -> Any:
        messages: list[Any] = [{"role": "user", "content": text}]
        while True:
            reply = client.messages.create(model=MODEL, max_tokens=16_000, system=SYSTEM, tools=[TOOL], messages=messages)
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                return reply
            messages.append({"role": "assistant", "content": reply.content})
            messages.append({"role": "user", "content": [search(call) for call in calls]})

    async def close() -> None:
        client.close()
        http.close()

    return ask, close


async def intercepted_blocking(url: str) -> Made:
    """One `create` of an intercepted blocking client."""
    os.environ |= {"BRAVE_BASE_URL": url, "BRAVE_API_KEY": "key"}
    client = intercept(anthropic.Anthropic(api_key="k", base_url=url), provider="brave")

    async def ask(text: str) -> Any:
        return client.messages.create(**_asked(text))

    async def close() -> None:
        client.close()

    return ask, close


CONTENDERS = {
    "hand": by_hand,
    "hand, lean": by_hand_lean,
    "intercept": intercepted,
    "hand, streaming": by_hand_streaming,
    "intercept, streaming": intercepted_streaming,
    "hand, usual": by_hand_usual,
    "intercept, usual": intercepted_usual,
    "hand, blocking": by_hand_blocking,
    "intercept, blocking": intercepted_blocking,
}

PAIRS = {
    "SDK over aiohttp; by hand, httpx over aiohttp": ("hand", "intercept"),
    "the same, streaming": ("hand, streaming", "intercept, streaming"),
    "SDK over aiohttp; by hand, aiohttp alone": ("hand, lean", "intercept"),
    "the SDK's and httpx's own transports": ("hand, usual", "intercept, usual"),
    "blocking clients": ("hand, blocking", "intercept, blocking"),
}
"""What is compared: the loop by hand, and the intercepted client."""

LITELLM = """
import asyncio, os, sys, time, statistics
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
from litellm.integrations.websearch_interception import WebSearchInterceptionLogger
from litellm.types.utils import LlmProviders
url, count = sys.argv[1], int(sys.argv[2])
litellm.suppress_debug_info = True
os.environ.update(PERPLEXITYAI_API_KEY="k", PERPLEXITY_API_KEY="k", PERPLEXITY_API_BASE=url)
litellm.callbacks = [WebSearchInterceptionLogger(enabled_providers=[LlmProviders.ANTHROPIC])]
async def ask(n):
    text = f"id{n}x{time.monotonic_ns()} r=1 p=1 d=0 n=40 g=0"
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
    return await litellm.anthropic.messages.acreate(model="anthropic/claude-sonnet-5-5", api_key="k", api_base=url,
        max_tokens=16000, messages=[{"role": "user", "content": text}], tools=[tool])
async def main():
    reply = await ask(0)
    kinds = [b["type"] for b in (reply["content"] if isinstance(reply, dict) else reply.content)]
    took = []
    for _ in range(5):
        begin = time.process_time()
        for n in range(count):
            await ask(n)
        took.append((time.process_time() - begin) / count * 1000)
    print(statistics.median(took), kinds)
asyncio.run(main())
"""
