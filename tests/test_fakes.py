"""The fake Messages API: replies, streams and faults, seen through the official SDK."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import sse
from tests.fakes.messages_api import MessagesAPI
from tests.fakes.replies import (
    WIRE,
    broken_stream,
    delay,
    error,
    error_event,
    hang_up,
    recorded,
    refusal,
    server_fetch,
    server_search,
    slow,
    stop,
    text,
    thinking,
    tool_use,
    truncated,
    web_citation,
)
from tests.rule_cases import body, call, found, result, said, talk, tool, user

LONG = "one two three four five six seven eight nine ten eleven twelve"


@pytest.fixture
def api(messages_api: MessagesAPI) -> MessagesAPI:
    """The shared fixture under a short name."""
    return messages_api


@pytest.fixture
def client(api: MessagesAPI) -> Iterator[anthropic.Anthropic]:
    """The official client, pointed at the fake."""
    with anthropic.Anthropic(api_key=api.key, base_url=api.url) as made:
        yield made


def streamed(client: anthropic.Anthropic, **request: Any) -> tuple[list[str], Any]:
    """Stream a request; return the text's pieces and the final message."""
    with client.messages.stream(**(body() | request)) as stream:
        return list(stream.text_stream), stream.get_final_message()


def test_a_reply_has_blocks_in_order_and_the_stop_reason_they_imply(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """Text and calls make a message that the SDK reads; the ids are never the same."""
    api.reply("Let me look.", tool_use("look", {"q": "a"}), tool_use("look", {"q": "b"}))
    message = client.messages.create(**body(tools=[tool()]))
    assert [block.type for block in message.content] == ["text", "tool_use", "tool_use"]
    assert message.stop_reason == "tool_use"
    assert message.content[1].id != message.content[2].id
    assert message.content[2].input == {"q": "b"}
    assert api.requests[0].headers["anthropic-version"] == "2026-10-21"


def test_streamed_and_whole_messages_are_the_same(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """Every kind of block comes out of the stream as it went in."""
    parts = (
        thinking("Hm, what now?"),
        server_search("x", [("https://a.example/", "A")]),
        server_fetch("https://a.example/", "The page."),
        text(LONG, citations=[web_citation("https://a.example/", "A", "one two")]),
        tool_use("look", {"q": "some words that are long enough for two pieces"}),
    )
    api.reply(*parts)
    api.reply(*parts)
    whole = client.messages.create(**body(tools=[tool()])).to_dict()
    _, final = streamed(client, tools=[tool()])
    assert _without_ids(final.to_dict()) == _without_ids(whole)
    assert whole["usage"]["server_tool_use"] == {"web_search_requests": 1, "web_fetch_requests": 1}


def _without_ids(value: Any) -> Any:
    """Drop what is never the same twice, and fields that only one of the SDK's two message classes has."""
    dropped = ("id", "tool_use_id", "signature", "encrypted_content", "encrypted_index", "parsed_output")
    if isinstance(value, dict):
        return {k: _without_ids(v) for k, v in value.items() if k not in dropped and v is not None}
    return [_without_ids(part) for part in value] if isinstance(value, list) else value


def test_citations_point_at_the_requests_search_results(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """A citation counts search results over the whole request, and quotes the block; -1 is the last result."""
    api.reply("So ", text("Matz wrote it.", citations=[(1, 0), (-1, 1)]))
    results = [found("Ruby is a language."), found("Matz wrote Ruby.", "In 1993.", source="https://b.example/", title="B")]
    message = client.messages.create(**talk(result(content=results)))
    first, last = message.content[1].citations
    assert (first.cited_text, first.source, first.title) == ("Matz wrote Ruby.", "https://b.example/", "B")
    assert (first.search_result_index, first.start_block_index, first.end_block_index) == (1, 0, 1)
    assert (last.cited_text, last.search_result_index) == ("In 1993.", 1)


def test_text_arrives_piece_by_piece(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """A slow stream's first piece is there long before its last."""
    api.reply(LONG, slow(0.05))
    began = time.monotonic()
    with client.messages.stream(**body()) as stream:
        times = [time.monotonic() - began for _ in stream.text_stream]
    assert len(times) >= 3
    assert times[-1] - times[0] > 0.04


def test_a_delay_comes_before_the_answer(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """`delay` holds the whole answer back."""
    api.reply("ok", delay(0.05))
    began = time.monotonic()
    client.messages.create(**body())
    assert time.monotonic() - began >= 0.05


def test_a_broken_stream_is_a_broken_connection(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """The pieces before the cut arrive, then the transport fails."""
    import httpx2

    api.reply(LONG, broken_stream(after=2))
    got = []
    with pytest.raises(httpx2.RemoteProtocolError), client.messages.stream(**body()) as stream:
        got.extend(stream.text_stream)
    assert LONG.startswith("".join(got)) and len(got) == 2


def test_a_truncated_stream_ends_without_a_stop_reason(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """The SDK takes a stream without message_stop for whole; only the stop reason tells."""
    api.reply(LONG, truncated(after=1))
    api.reply(LONG, truncated())
    pieces, final = streamed(client)
    assert len(pieces) == 1 and final.stop_reason is None
    pieces, final = streamed(client)
    assert "".join(pieces) == LONG and final.stop_reason is None


def test_an_error_event_can_come_inside_a_stream(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """HTTP 200 has been sent by then; the SDK raises with the error's type."""
    api.reply(LONG, error_event(after=1))
    with pytest.raises(anthropic.APIStatusError) as caught:
        streamed(client)
    assert caught.value.status_code == 200 and caught.value.type == "overloaded_error"


def test_errors_are_retried_by_the_sdk_at_once(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """529 and a closed connection are followed by the next reply, without long waits."""
    api.reply(error(529))
    api.reply(error(429, message="Slow down.", retry_after_ms=2))
    api.reply("ok")
    began = time.monotonic()
    assert client.messages.create(**body()).content[0].text == "ok"
    assert time.monotonic() - began < 1.0, "the SDK's own waits would be longer"
    assert [request.status for request in api.requests] == [529, 429, 200]
    api.reply(hang_up())
    with pytest.raises(anthropic.APIConnectionError):
        client.with_options(max_retries=0).messages.create(**body())


@pytest.mark.parametrize("reason", ["max_tokens", "stop_sequence", "model_context_window_exceeded", "brand_new_reason"])
def test_any_stop_reason_can_be_scripted(client: anthropic.Anthropic, api: MessagesAPI, reason: str) -> None:
    """Known or not, it reaches the client, streamed or whole."""
    api.reply("x", stop(reason))
    api.reply("x", stop(reason))
    assert client.messages.create(**body()).stop_reason == reason
    assert streamed(client)[1].stop_reason == reason


def test_a_refusal_has_its_details(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """`refusal` sets stop reason and category, and the content may be empty."""
    api.reply(refusal("bio"))
    message = client.messages.create(**body())
    assert (message.stop_reason, message.stop_details.category, message.content) == ("refusal", "bio", [])


def test_replies_are_cut_at_max_tokens(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """Text is cut, and so is the JSON of a call: the SDK then reads an incomplete input."""
    api.reply(LONG)
    message = client.messages.create(**body(max_tokens=3))
    assert (message.stop_reason, message.content[0].text, message.usage.output_tokens) == ("max_tokens", LONG[:12], 3)
    api.reply(tool_use("look", {"q": "ab", "other": "more than there is room for"}))
    with client.messages.stream(**body(max_tokens=6, tools=[tool()])) as stream:
        final = stream.get_final_message()
    assert final.stop_reason == "max_tokens"
    assert final.content[0].input == {"q": "ab"}


@pytest.mark.parametrize("path", sorted((WIRE / "anthropic").glob("*.sse")), ids=lambda path: path.name)
def test_recorded_streams_are_served_as_they_are(client: anthropic.Anthropic, api: MessagesAPI, path: Any) -> None:
    """A recording reaches a streaming client byte by byte, and other clients as the message it makes."""
    api.reply(recorded(path.name))
    with client.messages.with_streaming_response.create(**body(), stream=True) as response:
        assert response.read() == path.read_bytes()
    api.reply(recorded(path.name))
    message = client.messages.create(**body())
    assert message.role == "assistant"


def test_recorded_messages_become_streams(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """A JSON recording with thinking, searches and citations comes out of its stream unchanged."""
    api.reply(recorded("pai_web_search_json_turn1.json"))
    whole = json.loads((WIRE / "anthropic" / "pai_web_search_json_turn1.json").read_text())
    _, final = streamed(client)
    blocks = [_without_ids(block) for block in final.to_dict()["content"]]
    assert blocks == [_without_ids(block) for block in whole["content"]]


def test_recorded_errors_have_their_status(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """An error body is served with the status that its type stands for."""
    api.reply(recorded("mira_error_401.json"))
    with pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"):
        client.messages.create(**body())


def test_a_behaviour_answers_when_nothing_is_queued(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """A function sees the request and decides: a scripted model."""

    def model(request: dict[str, Any]) -> Any:
        if request["messages"][-1]["content"] == "hi":
            return ["Looking.", tool_use("look", {"q": "x"})]
        return text("Found.", citations=[(0, 0)])

    api.behave(model)
    first = client.messages.create(**body(tools=[tool()]))
    answer = user(result(first.content[1].id, [found("a fact")]))
    second = client.messages.create(**body(user("hi"), first.to_param(), answer, tools=[tool()]))
    assert second.content[0].citations[0].cited_text == "a fact"


def test_the_script_is_checked_against_the_request(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """A call under tool_choice none is a mistake of the test, which `check` reports; so are requests without a reply."""
    api.reply(tool_use("look"))
    client.messages.create(**body(tools=[tool()], tool_choice={"type": "none"}))
    with pytest.raises(AssertionError, match="tool_choice none"):
        api.check()
    api.problems.clear()
    api.reply("I look.", tool_use("look"))
    client.messages.create(**body(tools=[tool()], tool_choice={"type": "any"}, model="claude-haiku-5-5"))
    with pytest.raises(AssertionError, match="writes text although"):
        api.check()
    api.problems.clear()
    with pytest.raises(anthropic.InternalServerError, match="no reply was scripted"):
        client.messages.create(**body())
    with pytest.raises(AssertionError, match="no reply was left"):
        api.check()
    api.problems.clear()
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(**body(user("")))
    with pytest.raises(AssertionError, match="refused a request"):
        api.check()
    api.allow_refusals = True
    api.reply("unused")
    with pytest.raises(AssertionError, match="1 queued replies"):
        api.check()
    client.messages.create(**body())


def test_a_request_that_the_client_gives_up_is_seen_to_end(api: MessagesAPI) -> None:
    """`wait` sees a request come and, when its client is gone, end before its answer was due."""
    api.reply("late", delay(20))

    async def give_up() -> None:
        transport = anthropic.DefaultAioHttpClient()
        async with anthropic.AsyncAnthropic(api_key=api.key, base_url=api.url, http_client=transport) as client:
            asking = asyncio.create_task(client.messages.create(**body()))
            await asyncio.to_thread(api.wait, lambda fake: fake.requests)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(give_up())
    api.wait(lambda fake: not fake.active)
    with pytest.raises(AssertionError, match=r"nothing happened within 0\.01 s"):
        api.wait(lambda fake: fake.active, timeout_s=0.01)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4), st.dictionaries(st.text(), st.text() | st.integers()))
def test_events_make_the_message_they_were_made_from(texts: list[str], input: dict[str, Any]) -> None:
    """Splitting a message into events loses nothing, whatever is in it."""
    blocks = [{"type": "text", "text": part} for part in texts] + [call(input=input)]
    message = said() | {"content": blocks, "stop_reason": "tool_use", "usage": {"output_tokens": 5}}
    stream = "".join(sse.encode(name, data).decode() for name, data in sse.events(message))
    rebuilt = sse.assemble(sse.decode(stream))
    assert (rebuilt["content"], rebuilt["stop_reason"], rebuilt["usage"]) == (blocks, "tool_use", {"output_tokens": 5})
