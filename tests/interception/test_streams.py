"""Streams of intercepted calls: the events of one message, text as it is written, and what happens when something breaks."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest

from ipy_websearch import api
from ipy_websearch.interception import intercept
from ipy_websearch.model import sdk_hook
from tests.fakes.replies import broken_stream, error_event, slow, text, thinking, truncated, usage
from tests.interception.conftest import ASKED, MODEL, PAIR, ask, kinds, search

WORDS = "one two three four five six seven eight nine ten eleven twelve"
BREAKS = pytest.mark.parametrize("manner", [truncated, broken_stream, error_event])


def blocks_of(events: list[Any]) -> list[str]:
    """Check what holds for every stream of one message; return the types of its blocks."""
    types = [event.type for event in events if event.type != "ping"]
    assert types[0] == "message_start" and types[-2:] == ["message_delta", "message_stop"]
    assert types.count("message_start") == types.count("message_delta") == 1
    blocks: list[str] = []
    opened = False
    for event in events:
        if event.type == "content_block_start":
            assert not opened and event.index == len(blocks)
            blocks.append(event.content_block.type)
        elif event.type.startswith("content_block_"):
            assert opened and event.index == len(blocks) - 1
        opened = event.type in ("content_block_start", "content_block_delta") or (opened and event.type == "ping")
    return blocks


def test_the_events_of_all_rounds_are_those_of_one_message(client: Any, messages_api: Any, brave_api: Any) -> None:
    spent = usage(input_tokens=20, output_tokens=2)
    messages_api.reply(thinking(), "Let me look.", search("one thing"), search("two things"), spent)
    messages_api.reply("More.", search("three things"), spent)
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]), " So.", spent)
    events = list(client.messages.create(**ASKED, stream=True))
    assert blocks_of(events) == ["thinking", "text", *PAIR, *PAIR, "text", *PAIR, "text", "text"]
    done = events[-2]
    assert done.delta.stop_reason == "end_turn" and (done.usage.input_tokens, done.usage.output_tokens) == (60, 6)
    assert done.usage.server_tool_use.web_search_requests == 3
    started = [e.content_block for e in events if e.type == "content_block_start"]
    calls, results = ([b for b in started if b.type == kind] for kind in PAIR)
    assert [c.id for c in calls] == [r.tool_use_id for r in results] and all(c.input == {} for c in calls)
    deltas = [e.delta for e in events if e.type == "content_block_delta"]
    queries = "".join(d.partial_json for d in deltas if d.type == "input_json_delta").replace("}{", "}\n{").splitlines()
    assert [json.loads(query)["query"] for query in queries] == ["one thing", "two things", "three things"]
    assert [d.citation.type for d in deltas if d.type == "citations_delta"] == ["web_search_result_location"]


def test_text_arrives_while_it_is_written_in_every_round(client: Any, messages_api: Any) -> None:
    messages_api.reply(WORDS, search(), slow(0.05))
    messages_api.reply(WORDS, slow(0.05))
    rounds: set[int] = set()
    with client.messages.stream(**ASKED) as stream:
        for _ in stream.text_stream:
            if messages_api.active:
                rounds.add(len(messages_api.requests))
    assert rounds == {1, 2}


def test_a_silent_stream_gets_pings_while_tools_run(
    client: Any, messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk_hook, "PING_S", 0.05)
    brave_api.reply(delay_s=0.4)
    messages_api.reply(search())
    messages_api.reply("Matz.")
    head = {"x-api-key": "k"}
    with client.messages.with_streaming_response.create(**ASKED, stream=True, extra_headers=head) as response:
        lines = list(response.iter_lines())
    assert lines.count("event: ping") >= 2 and "event: message_stop" in lines


@BREAKS
def test_a_later_reply_that_breaks_before_its_first_word_is_asked_for_again(
    client: Any, messages_api: Any, brave_api: Any, manner: Any
) -> None:
    messages_api.reply(search())
    messages_api.reply("Matz.", manner(0))
    messages_api.reply("Matz.")
    assert blocks_of(list(client.messages.create(**ASKED, stream=True))) == [*PAIR, "text"]
    assert brave_api.queries == ["ruby author"]


@BREAKS
def test_a_reply_that_breaks_in_its_words_ends_in_an_error(client: Any, messages_api: Any, manner: Any) -> None:
    messages_api.reply(WORDS, manner(2))
    with pytest.raises(anthropic.APIStatusError):
        list(client.messages.create(**ASKED, stream=True))
    assert len(messages_api.requests) == 1


def test_leaving_the_stream_stops_everything_and_books_it(client: Any, messages_api: Any, brave_api: Any) -> None:
    messages_api.reply(WORDS, search(), slow(0.02))
    with client.messages.stream(**ASKED) as stream:
        next(iter(stream.text_stream))
    assert brave_api.queries == [] and len(messages_api.requests) == 1 and list(api.cost().kind) == ["model"]


@pytest.mark.parametrize("closed", [True, False])
def test_a_stream_that_nobody_reads_gives_back_what_was_reserved(client: Any, messages_api: Any, closed: bool) -> None:
    session = api.session()
    session.settings.session_budget_usd = 1.0
    messages_api.reply(WORDS, slow(0.02))
    stream = client.messages.create(**ASKED, stream=True)
    budget = session.budgets.for_question("another")
    held = budget.left()
    if closed:
        stream.close()
    del stream
    messages_api.wait(lambda fake: budget.left() > held and list(api.cost().kind) == ["model"], timeout_s=5)


def test_a_server_that_sends_json_for_a_stream_is_understood(brave_api: Any) -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        first = len(json.loads(request.content)["messages"]) == 1
        call = {"type": "tool_use", "id": "call-1", "name": "ipy_web_search", "input": {"query": "ruby author"}}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "usage": {"input_tokens": 1}}
        content = [call] if first else [{"type": "text", "text": "Matz."}]
        return httpx2.Response(200, json={**message, "content": content, "stop_reason": "tool_use" if first else "end_turn"})

    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    client = intercept(anthropic.Anthropic(api_key="k", base_url="http://local.example", http_client=http), provider="brave")
    message = ask(client, "stream")
    assert kinds(message) == [*PAIR, "text"] and message.content[0].input == {"query": "ruby author"}
