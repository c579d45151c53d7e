"""Pings in an intercepted stream: while something is waited for, the connection says that it is alive, as the API does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from ipy_websearch import api
from ipy_websearch.interception import intercept
from tests.fakes.replies import delay, error, tool_use, truncated

SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
ASKED: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [SEARCH],
}
FOUND, SAID = "web_search_tool_result", '"type":"text"'


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of a second of silence is enough here."""
    monkeypatch.setattr("ipy_websearch.model.driving.PING_S", 0.05)


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(), provider="brave") as made:
        yield made


def script(api: Any) -> None:
    """Queue a search and an answer."""
    api.reply("Let me look.", tool_use("ipy_web_search", {"query": "ruby author"}))
    api.reply("Matz wrote Ruby.")


def raw(client: Any) -> list[str]:
    """Return the data of the frames that a caller of the raw response reads."""
    with client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
        return [line for line in response.iter_lines() if line.startswith("data: ")]


async def raw_async(client: Any) -> list[str]:
    """The same on an async client."""
    async with client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
        return [line async for line in response.iter_lines() if line.startswith("data: ")]


def read(kind: str) -> list[str]:
    """Return the frames that a client of a kind reads."""
    if kind == "blocking":
        with intercept(anthropic.Anthropic(), provider="brave") as client:
            return raw(client)

    async def run() -> list[str]:
        async with intercept(anthropic.AsyncAnthropic(), provider="brave") as client:
            return await raw_async(client)

    return asyncio.run(run())


def pings_before(lines: list[str], mark: str) -> int:
    """Return how many pings come right before the last block whose first frame has a mark."""
    place = max(number for number, line in enumerate(lines) if mark in line)
    count = 0
    while lines[place - count - 1] == 'data: {"type":"ping"}':
        count += 1
    return count


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_a_stream_gets_pings_while_its_search_runs(messages_api: Any, brave_api: Any, kind: str) -> None:
    """Between the call and its result."""
    brave_api.reply(delay_s=0.35)
    script(messages_api)
    assert pings_before(read(kind), FOUND) >= 3


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_a_quick_search_gets_none(messages_api: Any, brave_api: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do the requests around it."""
    monkeypatch.setattr("ipy_websearch.model.driving.PING_S", 5.0)
    script(messages_api)
    lines = read(kind)
    assert pings_before(lines, FOUND) == pings_before(lines, SAID) == 0


@pytest.mark.parametrize("kind", ["blocking", "async"])
@pytest.mark.parametrize("trouble", [error(529, retry_after_ms=400), ("Matz", truncated(0))], ids=["busy", "truncated"])
def test_a_stream_gets_pings_while_it_waits_to_ask_again(messages_api: Any, brave_api: Any, kind: str, trouble: Any) -> None:
    """After a busy server, and after a reply that broke before its first word."""
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
    messages_api.reply(*(trouble if isinstance(trouble, tuple) else (trouble,)))
    messages_api.reply("Matz.")

    assert pings_before(read(kind), SAID) >= 2


def test_an_async_stream_gets_pings_while_the_server_is_silent(messages_api: Any, brave_api: Any) -> None:
    """A local model may read the results for minutes before its answer begins."""
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
    messages_api.reply("Matz.", delay(0.35))
    assert pings_before(read("async"), SAID) >= 2


def test_the_sdks_helpers_are_not_disturbed(client: Any, messages_api: Any, brave_api: Any) -> None:
    """The SDK reads over pings: no event, no text, the same message."""
    for beta in (False, True):
        brave_api.reply(delay_s=0.2)
        messages_api.reply("Let me look.", tool_use("ipy_web_search", {"query": f"ruby author {beta}"}))
        messages_api.reply("Matz.")
        messages = client.beta.messages if beta else client.messages
        with messages.stream(**ASKED) as stream:
            events = [event.type for event in stream]
            message = stream.get_final_message()
        assert "ping" not in events and [b.type for b in message.content] == ["text", "server_tool_use", FOUND, "text"]


# --- leaving while pings come ---------------------------------------------------------------------------------------


async def _until_ping(client: Any, then: Any) -> None:
    called = False
    async with client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
        async for line in response.iter_lines():
            called = called or "server_tool_use" in line
            if called and '"ping"' in line:
                await then()
                return


@pytest.mark.parametrize("how", ["left", "cancelled", "between"])
def test_leaving_an_async_stream_between_pings_stops_the_search(messages_api: Any, brave_api: Any, how: str) -> None:
    """Nothing is left running, the search counts, and the model is not asked again."""

    async def run() -> None:
        async with intercept(anthropic.AsyncAnthropic(), provider="brave") as client:
            seen = asyncio.Event()

            async def then() -> None:
                seen.set()
                if how == "cancelled":  # in the reader's own code
                    await asyncio.sleep(5)

            async def on() -> None:
                seen.set()
                async with client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
                    async for line in response.iter_lines():
                        assert FOUND not in line

            task = asyncio.create_task(on() if how == "between" else _until_ping(client, then))
            await asyncio.wait_for(seen.wait(), 5)
            while how == "between" and not brave_api.active:  # in the stream's own waiting
                await asyncio.sleep(0.01)
            if how != "left":
                task.cancel()
            began = time.monotonic()
            await asyncio.gather(task, return_exceptions=True)
            assert time.monotonic() - began < 2.0
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert not [task for task in others if "ipy_websearch" in repr(task.get_coro())]

    brave_api.reply(delay_s=3)
    messages_api.reply("Let me look.", tool_use("ipy_web_search", {"query": "ruby author"}))
    asyncio.run(run())
    brave_api.wait(lambda fake: not fake.active, timeout_s=2.0)
    rows = api.cost()
    assert list(rows.kind) == ["model", "search"] and list(rows.status) == ["ok", "interrupted"]
    assert len(messages_api.requests) == 1


def test_leaving_an_async_stream_while_the_server_is_silent_closes_its_request(messages_api: Any, brave_api: Any) -> None:
    """The later request is given up before its answer begins; what was done before is in the books."""

    async def run() -> None:
        async with intercept(anthropic.AsyncAnthropic(), provider="brave") as client:
            found = False
            async with client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
                async for line in response.iter_lines():
                    found = found or FOUND in line
                    if found and '"ping"' in line:
                        break
            messages_api.wait(lambda fake: not fake.active, timeout_s=2.0)

    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
    messages_api.reply("Too late.", delay(3))
    asyncio.run(run())
    rows = api.cost()
    assert list(rows.kind) == ["model", "search", "model"] and list(rows.status) == ["ok", "ok", "interrupted"]
    assert rows.usd.iloc[-1] > 0  # it went out, and may be billed


def test_leaving_a_blocking_stream_between_pings_stops_the_search(client: Any, messages_api: Any, brave_api: Any) -> None:
    """Closing the response cancels what runs on the background loop, and books it."""
    brave_api.reply(delay_s=3)
    messages_api.reply("Let me look.", tool_use("ipy_web_search", {"query": "ruby author"}))
    called = False
    with client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
        for line in response.iter_lines():
            called = called or "server_tool_use" in line
            if called and '"ping"' in line:
                break
    brave_api.wait(lambda fake: not fake.active, timeout_s=2.0)
    rows = api.cost()
    assert list(rows.kind) == ["model", "search"] and list(rows.status) == ["ok", "interrupted"]
    assert len(messages_api.requests) == 1
