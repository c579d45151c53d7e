"""Requests that went out and came to nothing are booked, whatever took them: a transport, or a reader who left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import pytest

from ipy_websearch import api
from ipy_websearch.interception import intercept
from tests.fakes.replies import delay, tool_use

ASKED: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 500,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [{"type": "web_search_20250305", "name": "web_search"}],
}


def booked() -> list[tuple[str, str]]:
    """Return kind and status of what the ledger has."""
    api.session().ledger.write_held()
    frame = api.session().ledger.frame(session=api.session().id)
    return sorted(zip(frame.kind, frame.status, strict=True))


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take a request, and say nothing."""
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take a request, and answer with something that is no HTTP."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"garbage\r\n\r\n")
    writer.close()


@pytest.mark.parametrize("manner", [hang_up, garbage])
@pytest.mark.parametrize("library", [anthropic.DefaultAsyncHttpxClient, anthropic.DefaultAioHttpClient])
def test_a_lost_request_is_booked_by_every_transport(
    brave_api: Any, library: Callable[[], Any], manner: Callable[..., Awaitable[None]]
) -> None:
    """The SDK's own, and its aiohttp one, which calls each loss a connection that never was."""

    async def run() -> None:
        server = await asyncio.start_server(manner, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        made = anthropic.AsyncAnthropic(api_key="k", base_url=f"http://127.0.0.1:{port}", max_retries=0, http_client=library())
        async with server, intercept(made, provider="brave") as client:
            with pytest.raises(anthropic.APIConnectionError):
                await client.messages.create(**ASKED)

    asyncio.run(run())
    assert booked() == [("model", "interrupted")]


@pytest.mark.parametrize("library", [anthropic.DefaultAsyncHttpxClient, anthropic.DefaultAioHttpClient])
def test_a_request_that_found_nobody_costs_nothing(brave_api: Any, library: Callable[[], Any], unused_port: int) -> None:
    """There is no server at all."""

    async def run() -> None:
        address = f"http://127.0.0.1:{unused_port}"
        made = anthropic.AsyncAnthropic(api_key="k", base_url=address, max_retries=0, http_client=library())
        async with intercept(made, provider="brave") as client:
            with pytest.raises(anthropic.APIConnectionError):
                await client.messages.create(**ASKED)

    asyncio.run(run())
    assert booked() == []


@pytest.fixture
def unused_port() -> int:
    """A port that nobody listens on."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_stream_that_is_left_when_the_next_reply_has_begun_books_it(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader was given a ping, and came back for nothing more; the request is out, and answered."""
    monkeypatch.setattr("ipy_websearch.model.driving.PING_S", 0.02)
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
    messages_api.reply(delay(0.1), "Matz.")

    async def run() -> None:
        client = intercept(anthropic.AsyncAnthropic(), provider="brave")
        async with client, client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
            seen = b""
            async for piece in response.http_response.aiter_raw():
                seen += piece
                if b'"ping"' in seen.partition(b'"web_search_tool_result"')[2]:
                    await asyncio.sleep(0.4)
                    break

    asyncio.run(run())
    assert booked() == [("model", "interrupted"), ("model", "ok"), ("search", "ok")]
