"""Streams of intercepted clients that end early: never begun, refused, or closed by somebody else than their reader."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import anthropic
import httpx2
import pytest

from ipy_websearch import api
from ipy_websearch.interception import intercept
from tests.fakes.replies import error, slow, tool_use

ASKED: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [{"type": "web_search_20250305", "name": "web_search"}],
}
SEARCH = tool_use("ipy_web_search", {"query": "ruby author"})
LONG = "word " * 400


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, that tries once."""
    with intercept(anthropic.Anthropic(max_retries=0), provider="brave") as made:
        yield made


@pytest.fixture(params=["reply", "search"])
def busy(request: Any, messages_api: Any, brave_api: Any) -> Callable[[], bool]:
    """A reply that takes seconds, or a search that does; gives what says that it is under way."""
    if request.param == "reply":
        messages_api.reply(LONG, slow(0.05))
        return lambda: bool(messages_api.bodies)
    brave_api.latency_s = 20
    messages_api.reply("Let me look.", SEARCH)
    return lambda: bool(brave_api.queries)


def reserved() -> Decimal:
    """Return what is held under the session's ceiling."""
    return api.session().budgets.session.reserved


@pytest.mark.parametrize("raw", [False, True])
def test_a_stream_that_nobody_reads_gives_its_connection_and_its_money_back(
    messages_api: Any, brave_api: Any, raw: bool
) -> None:
    """With one connection in the pool, the next request gets it."""
    api.session().settings.session_budget_usd = 1.0
    http = anthropic.DefaultHttpxClient(limits=httpx2.Limits(max_connections=1), timeout=5)
    with intercept(anthropic.Anthropic(max_retries=0, http_client=http), provider="brave") as client:
        for _ in range(3):
            messages_api.reply(LONG)
            if raw:
                with client.messages.with_streaming_response.create(**ASKED, stream=True):
                    pass
            else:
                with client.messages.stream(**ASKED):
                    pass
            assert reserved() == 0
        messages_api.reply("Matz.")
        assert client.messages.create(**ASKED).content[-1].text == "Matz."


def test_an_async_stream_that_nobody_reads_gives_its_money_back(messages_api: Any, brave_api: Any) -> None:
    """The same on an async client."""
    api.session().settings.session_budget_usd = 1.0
    messages_api.reply(LONG)

    async def run() -> None:
        async with intercept(anthropic.AsyncAnthropic(), provider="brave") as client:
            await (await client.messages.create(**ASKED, stream=True)).close()

    asyncio.run(run())
    assert reserved() == 0


def test_a_streamed_request_that_fails_gives_its_money_back(client: Any, messages_api: Any) -> None:
    """Refused by the API, or sent to nobody: nothing stays reserved."""
    api.session().settings.session_budget_usd = 1.0
    messages_api.reply(error(529))
    with pytest.raises(anthropic.APIStatusError), client.messages.stream(**ASKED):
        pass
    assert reserved() == 0
    with (
        pytest.raises(anthropic.APIConnectionError),
        client.with_options(base_url="http://127.0.0.1:9").messages.stream(**ASKED),
    ):
        pass
    assert reserved() == 0


def test_another_thread_can_stop_a_stream(client: Any, messages_api: Any, busy: Callable[[], bool]) -> None:
    """As in the SDK, its reader ends with a ReadError; what runs is stopped, and nothing more is sent."""
    stream = client.messages.create(**ASKED, stream=True)
    ended: list[BaseException | None] = []

    def read() -> None:
        try:
            list(stream)
            ended.append(None)
        except Exception as exc:
            ended.append(exc)

    reader = threading.Thread(target=read)
    reader.start()
    while not busy():
        time.sleep(0.01)
    time.sleep(0.1)
    start = time.monotonic()
    stream.close()
    reader.join(10)
    assert isinstance(ended[0], httpx2.ReadError) and time.monotonic() - start < 2
    assert len(messages_api.bodies) == 1


def test_another_task_can_stop_a_stream(messages_api: Any, brave_api: Any, busy: Callable[[], bool]) -> None:
    """The same on an async client."""

    async def run() -> tuple[BaseException | None, float]:
        async with intercept(anthropic.AsyncAnthropic(max_retries=0), provider="brave") as client:
            stream = await client.messages.create(**ASKED, stream=True)

            async def read() -> None:
                async for _ in stream:
                    pass

            reader = asyncio.create_task(read())
            while not busy():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            start = time.monotonic()
            await stream.close()
            await asyncio.wait([reader], timeout=10)
            return reader.exception(), time.monotonic() - start

    exc, seconds = asyncio.run(run())
    assert isinstance(exc, httpx2.ReadError) and seconds < 2
    assert len(messages_api.bodies) == 1
