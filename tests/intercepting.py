"""What the tests of an intercepted call's later requests share: a question, clients of every way, what was booked."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import pytest

from ipy_websearch import api
from ipy_websearch.interception import intercept
from tests.fakes.replies import tool_use

ASKED: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 500,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [{"type": "web_search_20250305", "name": "web_search"}],
}
PAIR = ["server_tool_use", "web_search_tool_result"]
WAYS = pytest.mark.parametrize("way", ["blocking", "async", "blocking stream", "async stream"])


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long before a request is sent again."""
    monkeypatch.setattr("ipy_websearch.model.retry._LONGEST_S", 0.01)
    monkeypatch.setattr("anthropic._base_client.MAX_RETRY_DELAY", 0.01)


def search(query: str = "ruby author") -> Any:
    """Return the part of a reply that searches."""
    return tool_use("ipy_web_search", {"query": query})


def made(way: str, **options: Any) -> Any:
    """Return an intercepted client."""
    kind: Any = anthropic.AsyncAnthropic if "async" in way else anthropic.Anthropic
    return intercept(kind(**{"timeout": 20, **options}), provider="brave")


def ask(way: str, client: Any, **more: Any) -> Any:
    """Return the message: whole, streamed, or read out of a response whose body the SDK leaves to its caller."""
    request = {**ASKED, **more}
    if "async" in way:
        return asyncio.run(_ask(way, client, request))
    with client:
        if "stream" in way:
            with client.messages.stream(**request) as stream:
                return stream.get_final_message()
        if "later" not in way:
            return client.messages.create(**request)
        with client.messages.with_streaming_response.create(**request) as response:
            return response.parse()


async def _ask(way: str, client: Any, request: dict[str, Any]) -> Any:
    async with client:
        if "stream" in way:
            async with client.messages.stream(**request) as stream:
                return await stream.get_final_message()
        if "later" not in way:
            return await client.messages.create(**request)
        async with client.messages.with_streaming_response.create(**request) as response:
            return await response.parse()


def statuses() -> list[str]:
    """Return how the model's requests ended, as they are booked."""
    api.session().ledger.write_held()
    frame = api.session().ledger.frame(session=api.session().id)
    return list(frame.status[frame.kind == "model"])


def kinds(message: Any) -> list[str]:
    """Return the types of a message's blocks."""
    return [block.type for block in message.content]
