"""What a server answers where the Messages API should be: other services, too much, broken bytes, and clients that change."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ipy_websearch.errors import ModelError
from ipy_websearch.model import batches
from ipy_websearch.model.client import ModelClient
from tests.proxy.running import Wire, raw_answer

BODY: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello?"}]}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "stop_reason": "end_turn"}
JSON, STREAM, HTML = "Content-Type: application/json", "Content-Type: text/event-stream", "Content-Type: text/html"
BAD_UTF8 = json.dumps(MESSAGE | {"content": [{"type": "text", "text": "caf?"}], "usage": {}}).encode().replace(b"?", b"\xe9")


@asynccontextmanager
async def opened(api_key: str = "k") -> AsyncIterator[ModelClient]:
    client = ModelClient(api_key=lambda: api_key)
    try:
        yield client
    finally:
        await client.aclose()


def answered(monkeypatch: pytest.MonkeyPatch, wire: Wire, *, whole: bool) -> Any:
    """Return what a client makes of the server's answer: the message, or all events."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)

    async def work() -> Any:
        async with opened() as client:
            return await client.message(BODY) if whole else [event async for events in client.events(BODY) for event in events]

    return asyncio.run(work())


def refused(monkeypatch: pytest.MonkeyPatch, wire: Wire, *, whole: bool) -> ModelError:
    with pytest.raises(ModelError) as caught:
        answered(monkeypatch, wire, whole=whole)
    return caught.value


@pytest.mark.parametrize("whole", [False, True], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (raw_answer(b'{"hello": 1}', "200 OK", JSON), '{"hello": 1}'),
        (raw_answer(b"null", "200 OK", JSON), "null"),
        (raw_answer(b"[" * 100_000, "200 OK", JSON), "[[[["),
        (raw_answer(b"<html><h1>Sign in</h1><script>x</script>", "200 OK", HTML), "Sign in"),
        (raw_answer(b'data: {"choices": []}\n\ndata: [DONE]\n\n', "200 OK", "Content-Type: text/plain"), "choices"),
        (raw_answer(b"ok", "200 OK", "Content-Type: text/plain"), "ok"),
    ],
    ids=["json", "null", "deep", "login page", "another API's stream", "text"],
)
def test_what_is_no_messages_api_is_told_and_not_asked_again(
    answer: bytes, shown: str, whole: bool, monkeypatch: pytest.MonkeyPatch, shell: Any
) -> None:
    """One line with the beginning of what came; a question ends at once, and its cell fails."""
    with Wire(lambda line: answer) as wire:
        error = refused(monkeypatch, wire, whole=whole)
        assert "no message of the Messages API" in str(error) and "is ANTHROPIC_BASE_URL right" in str(error)
        assert shown in str(error) and "\n" not in str(error) and error.status == 200
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        ran = shell.run("%ask --max-searches 0 say hello")
        assert not ran.ok and "is ANTHROPIC_BASE_URL right" in str(ran.error)
        assert len(wire.lines) == 2


@pytest.mark.parametrize(
    ("answer", "whole"),
    [
        (raw_answer(b"", "200 OK", STREAM), False),
        (raw_answer(b'event: message_start\ndata: {"type": "mess', "200 OK", STREAM), False),
        (raw_answer(b'{"type": "message", "content": [', "200 OK", JSON), False),
        (raw_answer(b'{"type": "message", "content": [', "200 OK", JSON), True),
        (raw_answer(b"", "200 OK", JSON), True),
    ],
)
def test_an_answer_that_broke_off_may_be_asked_for_again(answer: bytes, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an answer of the API as far as it came: a stream without events, or an error of the kind that is retried."""
    with Wire(lambda line: answer) as wire:
        if STREAM.encode() in answer:
            assert answered(monkeypatch, wire, whole=whole) == []
        else:
            assert refused(monkeypatch, wire, whole=whole).kind == "truncated"


@pytest.mark.parametrize("data", [b"{not json", b"[" * 100_000], ids=["broken", "deep"])
def test_an_event_that_is_no_json_is_an_error_in_one_line(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as a stream or as the answer to a request for none, which some servers stream all the same."""
    with Wire(lambda line: raw_answer(b"event: ping\ndata: " + data + b"\n\n", "200 OK", STREAM)) as wire:
        for whole in (False, True):
            assert "not JSON" in str(refused(monkeypatch, wire, whole=whole))


def test_an_error_with_status_200_is_the_apis_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some proxies send the API's error object under a status of success."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with Wire(lambda line: raw_answer(json.dumps(error).encode(), "200 OK", JSON)) as wire:
        for whole in (False, True):
            assert refused(monkeypatch, wire, whole=whole).kind == "overloaded_error"


@pytest.mark.parametrize("whole", [False, True], ids=["stream", "whole"])
def test_bytes_that_are_no_utf8_are_replaced_in_a_whole_message_too(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a stream's are: one bad byte loses no answer that was paid for."""
    with Wire(lambda line: raw_answer(BAD_UTF8, "200 OK", JSON)) as wire:
        got = answered(monkeypatch, wire, whole=whole)
        blocks = got["content"] if whole else [e["content_block"] for e in got if e["type"] == "content_block_start"]
        assert blocks == [{"type": "text", "text": "caf\ufffd"}] and len(wire.lines) == 1


def test_bytes_that_are_no_utf8_are_replaced_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their state as well as their results."""
    state = {"id": "b\xe9", "processing_status": "ended", "request_counts": {"succeeded": 1}, "results_url": None}
    state |= {"created_at": "2026-11-01T00:00:00Z"}
    line = json.dumps({"custom_id": "r1", "result": {"type": "succeeded", "message": "caf?"}}).encode().replace(b"?", b"\xe9")

    def reply(asked: str) -> bytes:
        body = line if "results" in asked else json.dumps(state, ensure_ascii=False).encode("latin-1")
        return raw_answer(body, "200 OK", JSON)

    async def work() -> Any:
        async with opened() as client:
            found = await batches.look_up(client, "b")
            return found.id, [entry async for entry in batches.results(client, found)]

    with Wire(reply) as wire:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        name, results = asyncio.run(work())
    assert name == "b\ufffd" and results == [("r1", {"type": "succeeded", "message": "caf\ufffd"})]


def test_a_packed_answer_is_unpacked_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages come compressed from some proxies."""
    packed = gzip.compress(BAD_UTF8.replace(b"\xe9", b"e"))
    with Wire(lambda line: raw_answer(packed, "200 OK", JSON, "Content-Encoding: gzip")) as wire:
        assert answered(monkeypatch, wire, whole=True)["content"][0]["text"] == "cafe"


@pytest.mark.parametrize(
    ("header", "said"),
    [("99999", "for 27.8 h"), ("600", "for 10 min"), ("30", "for 30 s"), ("864000", "for 10 days"), ("1", "wait a moment")],
)
def test_a_limit_says_for_how_long(header: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own figure, however long it is."""
    error = json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}).encode()
    answer = raw_answer(error, "429 Too Many Requests", JSON, f"Retry-After: {header}")
    with Wire(lambda line: answer) as wire:
        got = refused(monkeypatch, wire, whole=False)
    assert said in str(got) and got.retry_after == float(header)
