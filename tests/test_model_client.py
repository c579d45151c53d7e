"""How requests reach the model's API and its streams come back; what the loop makes of them is tested in `test_ask`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from ipy_websearch.errors import ModelError
from ipy_websearch.http.response import retry_after
from ipy_websearch.model.client import ModelClient
from tests.fakes.replies import delay, error_event, slow, text, tool_use

T = TypeVar("T")
BODY: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1_000,
    "messages": [{"role": "user", "content": "Grüße, “Ruby” 日本 ❤️ \x00\u2028"}],
}


@pytest.fixture
def use(messages_api: Any) -> Callable[[Callable[[ModelClient], Coroutine[Any, Any, T]]], T]:
    """Runs work with a client of the fake, which is closed afterwards."""

    def run(work: Callable[[ModelClient], Coroutine[Any, Any, T]]) -> T:
        async def whole() -> T:
            client = ModelClient(api_key=lambda: messages_api.key)
            try:
                return await work(client)
            finally:
                await client.aclose()

        return asyncio.run(whole())

    return run


async def pieces(client: ModelClient, body: dict[str, Any] = BODY) -> list[list[dict[str, Any]]]:
    return [piece async for piece in client.events(body)]


async def shown(client: ModelClient, body: dict[str, Any] = BODY) -> str:
    events = [event async for events in client.events(body) for event in events]
    return "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")


def sent_headers(api: Any) -> list[dict[str, str]]:
    """Return the headers of all requests, without what differs from one to the next."""
    varying = ("content-length", "x-stainless-retry-count", "idempotency-key", "host")
    return [{name: value for name, value in request.headers.items() if name not in varying} for request in api.requests]


def test_a_request_arrives_as_the_sdk_would_send_it(messages_api: Any, use: Any) -> None:
    """The same JSON under the same headers, though the SDK does not get to copy it."""

    async def both(client: ModelClient) -> None:
        await shown(client)
        with client.opened() as sdk:
            async for _ in await sdk.messages.create(**BODY, stream=True, timeout=600.0):
                pass

    messages_api.behave(lambda body: [text("Hello.")])
    use(both)
    ours, theirs = messages_api.bodies
    assert ours == theirs == {**BODY, "stream": True}
    first, second = sent_headers(messages_api)
    assert first == second and first["content-type"] == "application/json"


def test_events_come_as_they_arrive_and_none_is_lost(messages_api: Any, use: Any) -> None:
    """Those of one piece come in one list; a reply that is written slowly comes in several."""
    messages_api.reply("Word by word by word.", slow(0.1))
    found = use(pieces)
    assert all(found) and len(found) > 1
    events = [event["type"] for piece in found for event in piece]
    assert [events[0], events[-1]] == ["message_start", "message_stop"] and "content_block_delta" in events


def test_what_came_before_an_error_event_is_given_first(messages_api: Any, use: Any) -> None:
    """Text and error may stand in one piece; the text was written all the same."""
    messages_api.reply("As far as it came.", error_event(after=4))
    seen: list[str] = []

    async def read(client: ModelClient) -> None:
        async for events in client.events(BODY):
            seen.extend(event["type"] for event in events)

    with pytest.raises(ModelError, match="Overloaded") as caught:
        use(read)
    assert caught.value.status == 200 and caught.value.kind == "overloaded_error"
    assert "content_block_delta" in seen and "error" not in seen


def test_requests_at_the_same_time_keep_their_own_ids(messages_api: Any, use: Any) -> None:
    """What the API calls a request is told to whoever sent it."""
    messages_api.behave(lambda body: [text(body["messages"][0]["content"]), delay(0.05 if "a" in str(body) else 0.0)])

    async def one(client: ModelClient, word: str) -> str | None:
        await shown(client, {**BODY, "messages": [{"role": "user", "content": word}]})
        await asyncio.sleep(0.1)
        return client.request_id

    async def three(client: ModelClient) -> list[str | None]:
        return await asyncio.gather(*(one(client, word) for word in "abc"))

    ids = use(three)
    assert len(set(ids)) == 3 and None not in ids


def test_a_whole_message_comes_as_a_dict(messages_api: Any, use: Any) -> None:
    """Without a stream, from the same client."""
    messages_api.reply("So be it.", tool_use("t", {"q": 1}))
    tool = {"name": "t", "input_schema": {"type": "object", "properties": {"q": {"type": "integer"}}}}
    message = use(lambda client: client.message({**BODY, "tools": [tool]}))
    assert message["content"][0]["text"] == "So be it." and message["stop_reason"] == "tool_use"
    assert "stream" not in messages_api.bodies[0]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "2.5"}, 2.5),
        ({}, None),
    ],
)
def test_milliseconds_to_wait_are_more_exact(headers: dict[str, str], seconds: float | None) -> None:
    """The Messages API says both; what cannot be read is passed over."""
    assert retry_after(headers) == seconds
