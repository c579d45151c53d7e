"""Interception of streams: the events of one message in the native order, text as it is written, the SDK's helpers on it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import anthropic
import httpx2
import pytest

from ipy_websearch import api
from ipy_websearch.interception import intercept
from tests.fakes.replies import (
    broken_stream,
    error,
    error_event,
    slow,
    text,
    thinking,
    tool_use,
    truncated,
    usage,
)

MODEL = "claude-sonnet-5-5"
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [SEARCH],
}


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(), provider="brave") as made:
        yield made


def searches(*queries: str) -> list[Any]:
    """Return the parts of a reply that searches."""
    return [tool_use("ipy_web_search", {"query": query}) for query in queries]


def check(events: list[Any]) -> list[str]:
    """Check what holds for every stream of one message; return the types of its blocks."""
    types = [event.type for event in events]
    assert types[0] == "message_start" and types[-2:] == ["message_delta", "message_stop"]
    assert types.count("message_start") == types.count("message_delta") == types.count("message_stop") == 1
    blocks: list[str] = []
    opened = False
    for event in events[1:-2]:
        if event.type == "content_block_start":
            assert not opened and event.index == len(blocks)
            opened = True
            blocks.append(event.content_block.type)
        elif event.type == "content_block_delta":
            assert opened and event.index == len(blocks) - 1 and not blocks[-1].endswith("_tool_result")
        else:
            assert event.type == "content_block_stop" and opened and event.index == len(blocks) - 1
            opened = False
    return blocks


def test_the_events_of_all_rounds_are_those_of_one_message(client: Any, messages_api: Any, brave_api: Any) -> None:
    """One start, blocks one after the other with indices that go on, one delta with the whole usage, one stop."""
    messages_api.reply(
        thinking(), "Let me look.", *searches("one thing", "two things"), usage(input_tokens=10, output_tokens=1)
    )
    messages_api.reply("More.", *searches("three things"), usage(input_tokens=20, output_tokens=2))
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]), " So.", usage(input_tokens=30, output_tokens=3))
    events = list(client.messages.create(**ASKED, stream=True))
    pair = ["server_tool_use", "web_search_tool_result"]
    assert check(events) == ["thinking", "text", *pair, *pair, "text", *pair, "text", "text"]
    done = events[-2]
    assert done.delta.stop_reason == "end_turn"
    assert (done.usage.input_tokens, done.usage.output_tokens) == (60, 6)
    assert done.usage.server_tool_use.web_search_requests == 3
    started = [e.content_block for e in events if e.type == "content_block_start"]
    calls = [b for b in started if b.type == "server_tool_use"]
    found = [b for b in started if b.type == "web_search_tool_result"]
    assert [c.id for c in calls] == [f.tool_use_id for f in found] and all(c.input == {} for c in calls)
    assert all(f.content[0].url for f in found)
    written = "".join(
        e.delta.partial_json for e in events if getattr(getattr(e, "delta", None), "type", "") == "input_json_delta"
    )
    assert [json.loads(part + "}") for part in written.split("}")[:-1]] == [
        {"query": q} for q in ("one thing", "two things", "three things")
    ]
    cited = [e.delta.citation for e in events if getattr(getattr(e, "delta", None), "type", "") == "citations_delta"]
    assert [c.type for c in cited] == ["web_search_result_location"]


def test_text_arrives_while_it_is_written(client: Any, messages_api: Any) -> None:
    """The first words are there while the server still writes, in every round."""
    words = "one two three four five six seven eight nine ten eleven twelve"
    messages_api.reply(words, *searches("ruby author"), slow(0.05))
    messages_api.reply(words, slow(0.05))
    rounds: set[int] = set()
    with client.messages.stream(**ASKED) as stream:
        for _ in stream.text_stream:
            if messages_api.active:
                rounds.add(len(messages_api.requests))
    assert rounds == {1, 2}


def test_a_later_request_that_keeps_failing_ends_the_stream_with_the_apis_error(client: Any, messages_api: Any) -> None:
    """As the API's own streams end: an `error` event, which the SDK raises; what came before it was seen."""
    messages_api.reply("Let me look.", *searches("ruby author"))
    for _ in range(3):
        messages_api.reply(error(529))
    seen = []
    with pytest.raises(anthropic.APIStatusError) as caught:
        for event in client.messages.create(**ASKED, stream=True):
            seen.append(event.type)
    assert "overloaded" in str(caught.value) and "content_block_delta" in seen and "message_stop" not in seen


@pytest.mark.parametrize("manner", [truncated(0), broken_stream(0), error_event(0)], ids=["truncated", "broken", "error"])
def test_a_later_reply_that_breaks_before_its_first_word_is_asked_for_again(
    client: Any, messages_api: Any, brave_api: Any, manner: Any
) -> None:
    """The whole is never replayed: one more request, no more searches."""
    messages_api.reply(*searches("ruby author"))
    messages_api.reply("Matz.", manner)
    messages_api.reply("Matz.")
    events = list(client.messages.create(**ASKED, stream=True))
    blocks = check(events)
    assert blocks[:2] == ["server_tool_use", "web_search_tool_result"] and blocks[-1] == "text"
    assert brave_api.queries == ["ruby author"]


@pytest.mark.parametrize("manner", [truncated(2), broken_stream(2), error_event(2)], ids=["truncated", "broken", "error"])
def test_a_reply_that_breaks_in_its_words_ends_in_an_error(client: Any, messages_api: Any, manner: Any) -> None:
    """What was written cannot be taken back; it is not passed off as a whole answer either."""
    messages_api.reply("one two three four five six seven eight nine ten", manner)
    with pytest.raises(anthropic.APIStatusError):
        list(client.messages.create(**ASKED, stream=True))
    assert len(messages_api.requests) == 1


def test_leaving_the_stream_stops_everything_and_books_it(client: Any, messages_api: Any, brave_api: Any) -> None:
    """No further request is made, and what was used is in the ledger."""
    messages_api.reply("one two three four five six seven eight nine ten", *searches("ruby author"), slow(0.02))
    with client.messages.stream(**ASKED) as stream:
        next(iter(stream.text_stream))
    assert brave_api.queries == [] and len(messages_api.requests) == 1
    assert list(api.cost().kind) == ["model"]


def test_a_server_that_sends_json_for_a_stream_is_understood(brave_api: Any) -> None:
    """Its whole blocks become the events that a stream would have had."""

    def handler(request: httpx2.Request) -> httpx2.Response:
        first = len(json.loads(request.content)["messages"]) == 1
        call = {"type": "tool_use", "id": "call-1", "name": "ipy_web_search", "input": {"query": "ruby author"}}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": {"input_tokens": 1}}
        content = [call] if first else [{"type": "text", "text": "Matz."}]
        reason = "tool_use" if first else "end_turn"
        return httpx2.Response(200, json={**message, "content": content, "stop_reason": reason})

    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    client = intercept(anthropic.Anthropic(api_key="k", base_url="http://local.example", http_client=http), provider="brave")
    with client.messages.stream(**ASKED) as stream:
        assert "".join(stream.text_stream) == "Matz."
        message = stream.get_final_message()
    assert message.content[0].input == {"query": "ruby author"} and message.content[0].id.startswith("srvtoolu_")


def _aws_frame(event: Mapping[str, Any]) -> bytes:
    """Return an event as Bedrock sends it: a binary frame around base64 (AWS event stream encoding)."""
    import base64
    import struct
    import zlib

    payload = json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}).encode()
    headers = b""
    for name, value in ((":event-type", "chunk"), (":content-type", "application/json"), (":message-type", "event")):
        headers += bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    head = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return head + struct.pack(">I", zlib.crc32(head))


def test_bedrocks_binary_stream_is_read_and_the_caller_streams_on(brave_api: Any) -> None:
    """The SDK decodes the frames of each reply; the caller's helper works as everywhere."""
    pytest.importorskip("botocore")
    paths: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        paths.append(request.url.path)
        first = len(paths) == 1
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta: dict[str, Any] = {"type": "text_delta", "text": "Matz."}
        if first:
            block = {"type": "tool_use", "id": "toolu_bdrk_1", "name": "ipy_web_search", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": '{"query": "ruby author"}'}
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "usage": {"input_tokens": 1},
        }
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use" if first else "end_turn"},
                "usage": {"output_tokens": 5},
            },
            {"type": "message_stop"},
        ]
        head = {"content-type": "application/vnd.amazon.eventstream"}
        return httpx2.Response(200, headers=head, content=b"".join(map(_aws_frame, events)))

    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    client = intercept(anthropic.AnthropicBedrock(api_key="k", aws_region="us-east-1", http_client=http))
    with client.messages.stream(**ASKED) as stream:
        assert "".join(stream.text_stream) == "Matz."
        message = stream.get_final_message()
    assert [b.type for b in message.content] == ["server_tool_use", "web_search_tool_result", "text"]
    assert message.usage.output_tokens == 10 and paths == [f"/model/{MODEL}/invoke-with-response-stream"] * 2
