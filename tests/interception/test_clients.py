"""What people do with a client of the SDK beside `create`: tool runners, helpers, raw responses, copies, cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import pytest

from ipy_websearch import api
from ipy_websearch.interception import intercept
from tests.fakes.replies import slow, text, tool_use

MODEL = "claude-sonnet-5-5"
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [SEARCH],
}
PAIR = ["server_tool_use", "web_search_tool_result"]


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(), provider="brave") as made:
        yield made


def search(query: str = "ruby author") -> Any:
    """Return the part of a reply that searches."""
    return tool_use("ipy_web_search", {"query": query})


def script(messages_api: Any) -> None:
    """Queue a search and an answer."""
    messages_api.reply("Let me look.", search())
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))


def kinds(message: Any) -> list[str]:
    """Return the types of a message's blocks."""
    return [block.type for block in message.content]


def headers(request: Any) -> dict[str, str]:
    """Return the headers that a request came with."""
    return {name.lower(): value for name, value in request.headers.items()}


def test_copies_search_too_and_keep_what_they_were_given(client: Any, messages_api: Any) -> None:
    """`copy` and `with_options`, with headers and keys of their own, on every request of a call."""
    for copy in (client.copy(), client.with_options(default_headers={"X-Team": "red"}, timeout=30)):
        script(messages_api)
        assert kinds(copy.messages.create(**ASKED, extra_headers={"X-Call": "one"})) == ["text", *PAIR, "text"]
    sent = [headers(request) for request in messages_api.requests]
    assert [head.get("x-team") for head in sent] == [None, None, "red", "red"]
    assert [head["x-call"] for head in sent] == ["one"] * 4


def test_counts_models_and_batches_pass(client: Any, messages_api: Any) -> None:
    """A count is that of the tool as the model gets it; a batch is answered elsewhere, so nothing of it is touched."""
    counted = {name: value for name, value in ASKED.items() if name != "max_tokens"}
    assert client.messages.count_tokens(**counted).input_tokens > 0
    assert client.beta.messages.count_tokens(**counted).input_tokens > 0
    assert client.models.list().data
    messages_api.reply("Matz.")
    batch = client.messages.batches.create(requests=[{"custom_id": "a", "params": ASKED}])
    assert messages_api.bodies[-1]["tools"] == [SEARCH] and batch.id


def test_a_cancelled_call_stops_and_is_booked(messages_api: Any, brave_api: Any) -> None:
    """Cancelled in the middle of a stream: the connection closes at once, no request follows, the reply is in the ledger."""

    async def run() -> None:
        async with intercept(anthropic.AsyncAnthropic(), provider="brave") as made:

            async def read() -> None:
                async with made.messages.stream(**ASKED) as stream:
                    async for _ in stream.text_stream:
                        seen.set()

            seen = asyncio.Event()
            task = asyncio.create_task(read())
            await asyncio.wait_for(seen.wait(), 5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while messages_api.active:
                await asyncio.sleep(0.005)

    messages_api.reply("one two three four five six seven eight nine ten eleven twelve", search(), slow(0.2))
    asyncio.run(run())
    assert brave_api.queries == [] and len(messages_api.requests) == 1
    assert list(api.cost().kind) == ["model"]


def test_one_client_serves_many_threads(client: Any, messages_api: Any, brave_api: Any) -> None:
    """Twenty at once, whole and streamed: each gets its own answer, with its own search."""

    def behave(body: Mapping[str, Any]) -> Any:
        asked = body["messages"][0]["content"]
        return [text(f"About {asked}.", citations=[(0, 0)])] if len(body["messages"]) > 1 else [search(f"{asked} topic")]

    def ask(number: int) -> tuple[str, str]:
        asked = {**ASKED, "messages": [{"role": "user", "content": f"n{number}"}]}
        if number % 2:
            message = client.messages.create(**asked)
        else:
            with client.messages.stream(**asked) as stream:
                message = stream.get_final_message()
        return message.content[0].input["query"], message.content[-1].text

    messages_api.behave(behave)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(ask, range(40)))
    assert answers == [(f"n{n} topic", f"About n{n}.") for n in range(40)]
    assert sorted(brave_api.queries) == sorted(f"n{n} topic" for n in range(40))
    assert len(api.cost()) == 120
