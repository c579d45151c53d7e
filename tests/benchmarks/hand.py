"""The loop that somebody writes by hand in an afternoon, over the SDK and httpx: what it costs is the floor for ours."""

import asyncio
from collections.abc import AsyncIterator
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


class HandLoop:
    """Streams, and runs the calls of a reply at the same time, over aiohttp.

    It has no limits, retries of searches, ledger, cache or citations.
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
