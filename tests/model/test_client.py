"""How requests reach the model's API, how its streams come back, and what a server may answer in its place."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from ipy_websearch.errors import ModelError
from ipy_websearch.model import batches
from ipy_websearch.model.client import ModelClient
from tests.fakes.raw_http import RawServer, answer

T = TypeVar("T")
BODY: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1_000,
    "messages": [{"role": "user", "content": "Grüße, “Ruby” 日本 ❤️ \x00\u2028"}],
}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "stop_reason": "end_turn"}
CAFE = json.dumps(MESSAGE | {"content": [{"type": "text", "text": "caf?"}], "usage": {}}).encode()
JSON, STREAM = "application/json", "text/event-stream"
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def run(work: Callable[[ModelClient], Coroutine[Any, Any, T]]) -> T:
    """Do work with a client at ANTHROPIC_BASE_URL, which is closed afterwards."""

    async def whole() -> T:
        client = ModelClient(api_key=lambda: "sk-ant-api03-fake-key-of-the-tests")
        try:
            return await work(client)
        finally:
            await client.aclose()

    return asyncio.run(whole())


async def events(client: ModelClient, body: dict[str, Any] = BODY) -> list[dict[str, Any]]:
    return [event async for piece in client.events(body) for event in piece]


def answered(
    monkeypatch: pytest.MonkeyPatch, content: bytes, kind: str, *, whole: bool = False, ask: Any = None, **heads: str
) -> Any:
    """Return the events that a client makes of a server's answer, or what `ask` makes of it."""

    async def work(client: ModelClient) -> Any:
        async def write(_: str, writer: asyncio.StreamWriter) -> None:
            writer.write(answer(content, heads.pop("status", "200 OK"), Content_Type=kind, Connection="close", **heads))
            await writer.drain()

        async with RawServer(write) as server:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base)
            return await (ask(client) if ask else client.whole_reply(BODY) if whole else events(client))

    return run(work)


def refused(monkeypatch: pytest.MonkeyPatch, content: bytes, kind: str, **more: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        answered(monkeypatch, content, kind, **more)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("whole", [False, True], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("content", "kind", "shown"),
    [
        (b'{"hello": 1}', JSON, '{"hello": 1}'),
        (b"null", JSON, "null"),
        (b"[" * 100_000, JSON, "[[[["),
        (b"<html><h1>Sign in</h1><script>x</script>", "text/html", "Sign in"),
        (b'data: {"choices": []}\n\ndata: [DONE]\n\n', "text/plain", "choices"),
        (b"ok", "text/plain", "ok"),
    ],
    ids=["json", "null", "deep", "login page", "another API's stream", "text"],
)
def test_what_is_no_messages_api_is_told(
    content: bytes, kind: str, shown: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refused(monkeypatch, content, kind, whole=whole)
    assert "is ANTHROPIC_BASE_URL right" in str(error) and shown in str(error) and error.kind == "no_message"


@pytest.mark.parametrize(
    ("content", "kind", "whole"),
    [
        (b'{"type": "message", "content": [', JSON, False),
        (b"", JSON, True),
        (b"event: ping\ndata: {not json\n\n", STREAM, False),
        (b"event: ping\ndata: " + b"[" * 100_000 + b"\n\n", STREAM, True),
    ],
)
def test_an_answer_that_broke_off_may_be_asked_for_again(
    content: bytes, kind: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(monkeypatch, content, kind, whole=whole).kind == "truncated"
    for begun in (b"", b'event: message_start\ndata: {"type": "mess'):
        assert answered(monkeypatch, begun, STREAM, whole=False) == []


@pytest.mark.parametrize(("content", "kind"), [(b"<h1>Sign in</h1>", "text/html"), (b"{", JSON), (b"[]", JSON)])
@pytest.mark.parametrize(
    "ask",
    [
        lambda client: batches.submit(client, []),
        lambda client: batches.results(client, "msgbatch_1"),
        lambda client: batches.recent(client, datetime.now(UTC)),
    ],
    ids=["submit", "results", "recent"],
)
def test_what_is_no_batch_is_told(ask: Any, content: bytes, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused(monkeypatch, content, kind, ask=ask)
    assert "is ANTHROPIC_BASE_URL right" in str(error) and (error.kind == "truncated") == (content == b"{")


@pytest.mark.parametrize("whole", [False, True], ids=["stream", "whole"])
def test_odd_answers_are_understood(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API's error under a status of success, bytes that are no UTF-8, compressed messages."""
    assert refused(monkeypatch, json.dumps(OVERLOADED).encode(), JSON, whole=whole).kind == "overloaded_error"
    for content, heads, said in (
        (CAFE.replace(b"?", b"\xe9"), {}, "caf\ufffd"),
        (gzip.compress(CAFE.replace(b"?", b"e")), {"Content_Encoding": "gzip"}, "cafe"),
    ):
        got = answered(monkeypatch, content, JSON, whole=whole, **heads)
        assert [e["delta"]["text"] for e in got if e["type"] == "content_block_delta"] == [said]


@pytest.mark.parametrize(("seconds", "said"), [("99999", "for 27.8 h"), ("600", "for 10 min"), ("1", "wait a moment")])
def test_a_limit_says_for_how_long(seconds: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}).encode()
    error = refused(monkeypatch, body, JSON, whole=False, status="429 Too Many Requests", Retry_After=seconds)
    assert said in str(error) and error.retry_after == float(seconds)
