"""Interception of streams: the events of one message in the native order, text as it is written, the SDK's helpers on it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import anthropic
import httpx2
import pytest

from ipy_websearch import api
from ipy_websearch.interception import intercept
from ipy_websearch.model.frames import FrameReader
from tests.fakes.replies import (
    broken_stream,
    delay,
    error,
    error_event,
    slow,
    stop,
    text,
    thinking,
    tool_use,
    truncated,
    usage,
)

MODEL = "claude-sonnet-5-5"
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
WEATHER = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
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


@pytest.mark.parametrize("beta", [False, True], ids=["messages", "beta"])
def test_the_sdks_helpers_put_the_same_message_together(client: Any, messages_api: Any, beta: bool) -> None:
    """`messages.stream` gives what `create` gives, and its text as a stream of its own."""

    def script() -> None:
        messages_api.reply("Let me look.", *searches("ruby author", "ruby year"))
        messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))

    messages = client.beta.messages if beta else client.messages
    script()
    whole = messages.create(**ASKED).to_dict()
    script()
    with messages.stream(**ASKED) as stream:
        words = list(stream.text_stream)
        streamed = stream.get_final_message().to_dict()
    assert "".join(words) == "Let me look.Matz wrote Ruby."
    for message in (whole, streamed):
        for block in message["content"]:
            for name in ("id", "tool_use_id", "parsed_output"):
                block.pop(name, None)
    assert streamed["content"] == whole["content"] and streamed["stop_reason"] == whole["stop_reason"]
    assert streamed["usage"]["server_tool_use"] == whole["usage"]["server_tool_use"]


def test_an_async_stream_does_the_same(messages_api: Any, brave_api: Any) -> None:
    """Raw events and the helper, on AsyncAnthropic."""

    async def run() -> None:
        async with intercept(anthropic.AsyncAnthropic(), provider="brave") as client:
            for _ in range(2):
                messages_api.reply("Let me look.", *searches("ruby author"))
                messages_api.reply("Matz.")
            events = [event async for event in await client.messages.create(**ASKED, stream=True)]
            assert check(events) == ["text", "server_tool_use", "web_search_tool_result", "text"]
            async with client.beta.messages.stream(**ASKED) as stream:
                assert "".join([word async for word in stream.text_stream]) == "Let me look.Matz."
                assert len((await stream.get_final_message()).content) == 4

    asyncio.run(run())


def test_text_arrives_while_it_is_written(client: Any, messages_api: Any) -> None:
    """The first words are there long before the reply has ended, in every round."""
    words = "one two three four five six seven eight nine ten eleven twelve"
    messages_api.reply(words, *searches("ruby author"), slow(0.03))
    messages_api.reply(words, delay(0.1), slow(0.03))
    began = time.perf_counter()
    seen: list[float] = []
    with client.messages.stream(**ASKED) as stream:
        for _ in stream.text_stream:
            seen.append(time.perf_counter() - began)
    gaps = [b - a for a, b in zip(seen, seen[1:], strict=False)]
    assert len(seen) >= 6 and seen[0] < seen[-1] / 2
    assert sum(gap > 0.015 for gap in gaps) >= len(gaps) // 2


def test_a_call_is_announced_before_its_search_has_ended(client: Any, messages_api: Any, brave_api: Any) -> None:
    """The reader of the stream can say what is being searched for."""
    brave_api.reply(delay_s=0.3)
    messages_api.reply(*searches("ruby author"))
    messages_api.reply("Matz.")
    at: dict[str, float] = {}
    for event in client.messages.create(**ASKED, stream=True):
        if event.type == "content_block_start":
            at[event.content_block.type] = time.perf_counter()
    assert at["web_search_tool_result"] - at["server_tool_use"] > 0.2


def test_a_mixed_turn_is_handed_back(client: Any, messages_api: Any) -> None:
    """The search comes with its result, the caller's call after it; the message stops for its result."""
    messages_api.reply("Both.", *searches("rome weather"), tool_use("get_weather", {"city": "Rome"}))
    with client.messages.stream(**{**ASKED, "tools": [SEARCH, WEATHER]}) as stream:
        events = list(stream)
        message = stream.get_final_message()
    assert message.stop_reason == "tool_use" and message.content[-1].input == {"city": "Rome"}
    assert [b.type for b in message.content] == ["text", "server_tool_use", "web_search_tool_result", "tool_use"]
    assert events and len(messages_api.requests) == 1


def test_the_limit_ends_in_an_answer(client: Any, messages_api: Any) -> None:
    """Errors in the stream are whole result blocks, as the API's."""
    messages_api.reply(*searches("one thing", "two things"))
    messages_api.reply("So.")
    events = list(client.messages.create(**{**ASKED, "tools": [{**SEARCH, "max_uses": 1}]}, stream=True))
    check(events)
    found = [e.content_block.content for e in events if e.type == "content_block_start" and "result" in e.content_block.type]
    assert isinstance(found[0], list) and found[1].error_code == "max_uses_exceeded"


def test_a_reply_cut_off_in_a_call_still_has_a_result(client: Any, messages_api: Any, brave_api: Any) -> None:
    """No call is left open, and nothing is searched."""
    messages_api.reply("Let me look.", *searches("ruby author"), stop("max_tokens"))
    with client.messages.stream(**ASKED) as stream:
        message = stream.get_final_message()
    assert message.stop_reason == "max_tokens" and message.content[-1].content.error_code == "invalid_tool_input"
    assert brave_api.queries == []


# --- what breaks ----------------------------------------------------------------------------------------------------


def test_a_failing_later_request_is_sent_again_in_the_middle(client: Any, messages_api: Any, brave_api: Any) -> None:
    """The reader sees nothing of it."""
    messages_api.reply("Let me look.", *searches("ruby author"))
    messages_api.reply(error(529))
    messages_api.reply(error(529))
    messages_api.reply("Matz.")
    events = list(client.messages.create(**ASKED, stream=True))
    assert check(events)[-1] == "text" and brave_api.queries == ["ruby author"]


def test_a_failing_first_request_is_the_sdks_matter(client: Any, messages_api: Any) -> None:
    """Nothing was shown yet, so the SDK sends it again."""
    messages_api.reply(error(529))
    messages_api.reply("Matz.")
    assert check(list(client.messages.create(**ASKED, stream=True))) == ["text"]


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


def test_requests_and_searches_are_in_the_ledger(client: Any, messages_api: Any) -> None:
    """One row for each, as without a stream."""
    messages_api.reply(*searches("ruby author"))
    messages_api.reply("Matz.")
    list(client.messages.create(**ASKED, stream=True))
    assert list(api.cost().kind) == ["model", "search", "model"]


# --- other servers --------------------------------------------------------------------------------------------------


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


def test_a_line_of_the_stream_is_a_line_for_every_client(client: Any, messages_api: Any) -> None:
    """Clients in Python split text where JSON need not escape anything; what is behind it must not be lost."""
    words = "before\u2028after\u2029and\x85end"
    messages_api.reply(words)
    with client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
        lines = b"".join(response.http_response.iter_raw()).decode().splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta") == words


def test_events_before_a_broken_one_are_not_lost_with_it() -> None:
    """They may say what was used, exactly; what is broken is said after them, at the next piece or at the end."""
    good, bad = b'data: {"type":"ping"}\n\n', b"data: {broken\n\n"
    for then in (lambda reader: reader.feed(b""), lambda reader: reader.end()):
        reader = FrameReader()
        assert reader.feed(good + good + bad + good) == [{"type": "ping"}] * 2
        with pytest.raises(ValueError):
            then(reader)
    with pytest.raises(ValueError):
        FrameReader().feed(bad)
