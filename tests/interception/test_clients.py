"""Every kind of SDK client: the clouds, async, copies, threads, retries, tokens that expire, and streams that break."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.lib.credentials import AccessToken

import ipy_websearch as web
from ipy_websearch import api
from ipy_websearch.interception import intercept
from ipy_websearch.model import sdk_hook
from ipy_websearch.model.client import BINARY, message_events
from tests.fakes.clouds import ACCESS_KEY, REGION, SECRET_KEY, Clouds, aws_error, aws_frame
from tests.fakes.replies import broken_stream, error, error_event, hang_up, slow, text, thinking, tool_use, truncated, usage
from tests.interception.conftest import ASKED, MODEL, PAIR, ask, kinds, search

WAYS = pytest.mark.parametrize("way", ["blocking", "async", "blocking stream", "async stream"])


def made(way: str, **options: Any) -> Any:
    """Return an intercepted client."""
    kind: Any = anthropic.AsyncAnthropic if "async" in way else anthropic.Anthropic
    return web.intercept(kind(**{"timeout": 20, **options}), provider="brave")


@WAYS
@pytest.mark.parametrize("cloud", ["Bedrock", "Vertex", "Foundry"])
def test_a_clouds_client_searches(brave_api: Any, cloud: str, way: str) -> None:
    pytest.importorskip("boto3")
    with Clouds() as clouds:
        given: dict[str, Any] = {
            "Bedrock": {
                "aws_access_key": ACCESS_KEY,
                "aws_secret_key": SECRET_KEY,
                "aws_region": REGION,
                "base_url": clouds.url,
            },
            "Vertex": {"region": "us-east5", "project_id": "p", "access_token": "t", "base_url": f"{clouds.url}/v1"},
            "Foundry": {"api_key": "k", "base_url": f"{clouds.url}/anthropic/"},
        }[cloud]
        client = getattr(anthropic, f"{'Async' if 'async' in way else ''}Anthropic{cloud}")(**given)
        clouds.replies([thinking(), "Let me look.", search()], error(529), text("Matz wrote Ruby.", citations=[(0, 0)]))
        message = ask(web.intercept(client, provider="brave"), way)
        assert kinds(message) == ["thinking", "text", *PAIR, "text"]
        assert message.content[-1].citations[0].type == "web_search_result_location"
        assert len(clouds.signatures) == (3 if cloud == "Bedrock" else 0)
        clouds.check()


@pytest.mark.parametrize(
    ("end", "says"),
    [(aws_error("throttlingException", "Too many tokens"), "rate_limit_error.*Too many tokens"), (b"x" * 40, "ended too soon")],
)
def test_a_stream_of_bedrocks_that_fails_says_why(brave_api: Any, end: bytes, says: str) -> None:
    """After its first words, with the cloud's reason; before them the request is sent again. Damage is no crash."""
    pytest.importorskip("boto3")
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "usage": {"input_tokens": 1}}
    frames = [*map(aws_frame, message_events({**message, "content": [{"type": "text", "text": "Matz."}]}))]
    bodies = iter([end, b"".join(frames[:3]) + end])

    def handler(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=next(bodies), headers={"content-type": f"application/{BINARY}"})

    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    keys = {"aws_access_key": ACCESS_KEY, "aws_secret_key": SECRET_KEY, "aws_region": REGION}
    client = intercept(anthropic.AnthropicBedrock(**keys, http_client=http), provider="brave")
    with pytest.raises(anthropic.APIStatusError, match=says):
        ask(client, "stream")


def test_copies_search_too_and_keep_what_they_were_given(client: Any, messages_api: Any) -> None:
    for copy in (client.copy(), client.with_options(default_headers={"X-Team": "red"}, timeout=30)):
        messages_api.replies(search(), "Matz.")
        assert kinds(copy.beta.messages.create(**ASKED, extra_headers={"X-Call": "one"})) == [*PAIR, "text"]
    sent = [{name.lower(): value for name, value in request.headers.items()} for request in messages_api.requests]
    assert [head.get("x-team") for head in sent] == [None, None, "red", "red"]
    assert [head["x-call"] for head in sent] == ["one"] * 4


def test_counts_see_the_tool_as_the_model_gets_it_and_batches_pass(client: Any, messages_api: Any) -> None:
    counted = {name: value for name, value in ASKED.items() if name != "max_tokens"}
    assert client.messages.count_tokens(**counted).input_tokens > 0 and client.models.list().data
    messages_api.reply("Matz.")
    assert client.messages.batches.create(requests=[{"custom_id": "a", "params": ASKED}]).id
    assert messages_api.bodies[-1]["tools"] == ASKED["tools"]


def test_the_tool_runner_of_the_sdk_searches_and_runs_its_own_tools(client: Any, messages_api: Any, brave_api: Any) -> None:
    """It asks for a conversation kept by the server first, and goes on with whole histories when that is refused."""

    @anthropic.beta_tool
    def add(left: int, right: int) -> str:
        """Add two numbers."""
        return str(left + right)

    messages_api.replies(search(), tool_use("add", {"left": 1, "right": 2}), "Matz, 3.")
    runner = client.beta.messages.tool_runner(**{**ASKED, "tools": [*ASKED["tools"], add]})
    assert runner.until_done().content[-1].text == "Matz, 3." and brave_api.queries == ["ruby author"]
    assert not any("thread" in body for body in messages_api.bodies)


def test_one_client_serves_many_threads(client: Any, messages_api: Any, brave_api: Any) -> None:
    def behave(body: Mapping[str, Any]) -> Any:
        asked = body["messages"][0]["content"]
        return text(f"About {asked}.", citations=[(0, 0)]) if len(body["messages"]) > 1 else search(f"{asked} topic")

    def asked(number: int) -> str:
        messages = [{"role": "user", "content": f"n{number}"}]
        return str(ask(client, "stream" if number % 2 else "whole", messages=messages).content[-1].text)

    messages_api.behave(behave)
    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(asked, range(40))) == [f"About n{n}." for n in range(40)]
    assert sorted(brave_api.queries) == sorted(f"n{n} topic" for n in range(40)) and len(api.cost()) == 120


@WAYS
@pytest.mark.parametrize("failing", [error(529), hang_up()], ids=["busy", "lost"])
def test_a_later_request_alone_is_sent_again(messages_api: Any, brave_api: Any, way: str, failing: Any) -> None:
    messages_api.replies(search(), failing, failing, failing)
    with pytest.raises(anthropic.APIError):
        ask(made(way, max_retries=2), way)
    assert len(messages_api.requests) == 4 and brave_api.queries == ["ruby author"]
    messages_api.replies(search("ruby year"), failing, failing, "Matz.")
    assert kinds(ask(made(way, max_retries=2), way)) == [*PAIR, "text"]
    assert list(web.cost().kind).count("search") == 2


@WAYS
def test_a_token_that_expires_is_renewed_and_the_same_request_goes_on(
    messages_api: Any, brave_api: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    given: list[str] = []

    def now(**_: Any) -> AccessToken:
        given.append(f"token {len(given) + 1}")
        return AccessToken(token=given[-1], expires_at=int(time.time()) + 100_000)

    async def later(**_: Any) -> AccessToken:
        return now()

    replies = iter([search("one"), search("two"), error(401), "Matz."])

    def reply(body: Any) -> Any:
        messages_api.key = "token 2" if len(body["messages"]) == 5 else "token 1"
        return next(replies)

    messages_api.key = "token 1"
    messages_api.behave(reply)
    assert kinds(ask(made(way, credentials=later if "async" in way else now), way)) == [*PAIR, *PAIR, "text"]
    assert [len(body["messages"]) for body in messages_api.bodies] == [1, 3, 5, 5]
    assert len(given) == 2 and brave_api.queries == ["one", "two"]


def test_a_request_that_found_nobody_costs_nothing_and_a_lost_one_is_booked_once(messages_api: Any, brave_api: Any) -> None:
    for options, booked in (({"base_url": "http://127.0.0.1:9"}, []), ({}, ["model"])):
        if booked:
            messages_api.reply(hang_up())
        with pytest.raises(anthropic.APIConnectionError):
            ask(made("blocking", max_retries=0, **options))  # type: ignore[arg-type]
        assert list(web.cost().kind) == booked


def canned(replies: list[list[Any]]) -> Any:
    """Return an intercepted client of a server that streams these events."""
    bodies = (b"".join(map(sdk_hook.frame, reply)) for reply in replies)
    head = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=next(bodies), headers=head))
    return intercept(anthropic.Anthropic(api_key="k", http_client=httpx2.Client(transport=transport)), provider="brave")


def replied(*content: Any) -> list[Any]:
    """Return the events of a reply with these blocks."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "end_turn"}
    return list(message_events({**message, "content": content, "usage": {"input_tokens": 1, "output_tokens": 1}}))


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "content_block_start", "index": 1, "content_block": "x"},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": 5}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": "x"}},
        {"type": "content_block_stop", "index": float("inf")},
    ],
    ids=["block", "text", "citation", "index"],
)
def test_a_reply_with_an_event_of_another_form_is_asked_for_again(brave_api: Any, odd: Any) -> None:
    begun = replied({"type": "text", "text": ""})[:2]
    message = ask(canned([[*begun, odd], replied({"type": "text", "text": "Matz."})]))
    assert [block.text for block in message.content] == ["Matz."]


# --- streams ---


WORDS = "one two three four five six seven eight nine ten eleven twelve"


def test_a_cancelled_call_stops_and_is_booked(messages_api: Any, brave_api: Any) -> None:
    async def run() -> None:
        async with made("async") as client, client.messages.stream(**ASKED) as stream:
            async for _ in stream.text_stream:
                asyncio.current_task().cancel()  # type: ignore[union-attr]

    messages_api.reply(WORDS, search(), slow(0.2))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    messages_api.wait(lambda fake: not fake.active)
    assert brave_api.queries == [] and len(messages_api.requests) == 1 and list(api.cost().kind) == ["model"]


BREAKS = pytest.mark.parametrize("manner", [truncated, broken_stream, error_event])


def test_the_events_of_all_rounds_are_those_of_one_message(client: Any, messages_api: Any) -> None:
    spent = usage(input_tokens=20, output_tokens=2)
    messages_api.replies(
        [thinking(), "Let me look.", search("one thing"), search("two things"), spent],
        ["More.", search("three things"), spent],
        [text("Matz wrote Ruby.", citations=[(0, 0)]), " So.", spent],
    )
    with client.messages.stream(**ASKED) as stream:  # the SDK puts them together
        events, message = list(stream), stream.get_final_message()
    assert kinds(message) == ["thinking", "text", *PAIR, *PAIR, "text", *PAIR, "text", "text"]
    calls, results = ([block for block in message.content if block.type == kind] for kind in PAIR)
    assert [call.id for call in calls] == [result.tool_use_id for result in results]
    assert [call.input["query"] for call in calls] == ["one thing", "two things", "three things"]
    assert message.content[-2].citations[0].type == "web_search_result_location" and message.stop_reason == "end_turn"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (60, 6)
    begun = [event.index for event in events if event.type == "content_block_start"]
    assert begun == list(range(len(message.content))) and sum(event.type == "message_start" for event in events) == 1


def test_text_arrives_while_it_is_written_in_every_round(client: Any, messages_api: Any) -> None:
    messages_api.replies([WORDS, search(), slow(0.05)], [WORDS, slow(0.05)])
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
    messages_api.replies(search(), "Matz.")
    head = {"x-api-key": "k"}
    with client.messages.with_streaming_response.create(**ASKED, stream=True, extra_headers=head) as response:
        lines = list(response.iter_lines())
    assert lines.count("event: ping") >= 2 and "event: message_stop" in lines


@BREAKS
def test_a_later_reply_that_breaks_before_its_first_word_is_asked_for_again(
    client: Any, messages_api: Any, brave_api: Any, manner: Any
) -> None:
    messages_api.replies(search(), ["Matz.", manner(0)], "Matz.")
    assert kinds(ask(client, "stream")) == [*PAIR, "text"]
    assert brave_api.queries == ["ruby author"]


@BREAKS
def test_a_reply_that_breaks_in_its_words_ends_in_an_error(client: Any, messages_api: Any, manner: Any) -> None:
    messages_api.reply(WORDS, manner(2))
    with pytest.raises(anthropic.APIStatusError):
        list(client.messages.create(**ASKED, stream=True))
    assert len(messages_api.requests) == 1


@pytest.mark.parametrize("closed", [True, False])
def test_a_stream_that_is_left_ends_and_gives_back_what_was_reserved(
    client: Any, messages_api: Any, brave_api: Any, closed: bool
) -> None:
    session = api.session()
    session.settings.session_budget_usd = 1.0
    messages_api.reply(WORDS, search(), slow(0.02))
    stream = client.messages.create(**ASKED, stream=True)
    budget = session.budgets.for_question("another")
    held = budget.left()
    if closed:
        stream.close()
    del stream
    messages_api.wait(lambda fake: budget.left() > held and list(api.cost().kind) == ["model"], timeout_s=5)
    assert brave_api.queries == []
