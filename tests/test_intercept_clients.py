"""What people do with a client of the SDK beside `create`: tool runners, helpers, raw responses, copies, cancelling."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import httpx2
import pydantic
import pytest

from ipy_websearch import api
from ipy_websearch.interception import intercept
from tests.fakes.replies import block, delay, error, slow, text, thinking, tool_use, truncated

MODEL = "claude-sonnet-5-5"
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [SEARCH],
}
PAIR = ["server_tool_use", "web_search_tool_result"]


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(), provider="brave") as made:
        yield made


def search(query: str = "ruby author") -> Any:
    """Return the part of a reply that searches."""
    return tool_use("ipy_web_search", {"query": query})


def script(messages_api: Any) -> None:
    """Queue a search and an answer."""
    messages_api.reply("Let me look.", search())
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))


def kinds(message: Any) -> list[str]:
    """Return the types of a message's blocks."""
    return [block.type for block in message.content]


def headers(request: Any) -> dict[str, str]:
    """Return the headers that a request came with."""
    return {name.lower(): value for name, value in request.headers.items()}


# --- the tool runner ------------------------------------------------------------------------------------------------


def runner_script(messages_api: Any) -> None:
    """Queue turns in which searches and the caller's own tool go together, follow one another, and end."""
    messages_api.reply(thinking(), "Both.", search("rome weather"), tool_use("get_weather", {"city": "Rome"}))
    messages_api.reply(thinking(), search("oslo weather"))
    messages_api.reply(thinking(), tool_use("get_weather", {"city": "Oslo"}))
    messages_api.reply(text("Sunny in both.", citations=[(0, 0)]))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("options", [{}, {"thread": False}], ids=["threads", "histories"])
def test_the_tool_runner_runs_its_tools_beside_the_search(
    client: Any, messages_api: Any, brave_api: Any, stream: bool, options: Any
) -> None:
    """Where it would have the server keep the conversation, it is told to send it whole; nothing is searched twice."""
    ran = []

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Return the weather.

        Args:
            city: The city.
        """
        ran.append(city)
        return "Sunny."

    runner_script(messages_api)
    asked = {**ASKED, "tools": [SEARCH, get_weather]}
    turns = client.beta.messages.tool_runner(**asked, stream=stream, **options)
    messages = [turn.get_final_message() if stream else turn for turn in turns]
    assert [kinds(message) for message in messages] == [
        ["thinking", "text", *PAIR, "tool_use"],
        ["thinking", *PAIR, "thinking", "tool_use"],
        ["text"],
    ]
    assert ran == ["Rome", "Oslo"] and brave_api.queries == ["rome weather", "oslo weather"]
    assert len(messages_api.requests) == 4 and not any("thread" in body for body in messages_api.bodies)


def test_the_async_tool_runner_does_too(messages_api: Any, brave_api: Any) -> None:
    """With an async tool, to the final message."""

    @anthropic.beta_async_tool
    async def get_weather(city: str) -> str:
        """Return the weather.

        Args:
            city: The city.
        """
        return "Sunny."

    async def run() -> Any:
        async with intercept(anthropic.AsyncAnthropic(), provider="brave") as made:
            return await made.beta.messages.tool_runner(**{**ASKED, "tools": [SEARCH, get_weather]}).until_done()

    runner_script(messages_api)
    assert asyncio.run(run()).content[-1].text == "Sunny in both."


def test_a_thread_of_the_caller_is_refused_as_the_api_refuses_one(client: Any, messages_api: Any) -> None:
    """The error says what to do; nothing is sent."""
    with pytest.raises(anthropic.BadRequestError, match="whole history"):
        client.beta.messages.thread(model=MODEL, max_tokens=99, tools=[SEARCH]).send({"role": "user", "content": "Ruby?"})
    assert messages_api.requests == []


# --- the SDK's helpers ----------------------------------------------------------------------------------------------


def test_the_stream_helper_gives_its_events(client: Any, messages_api: Any) -> None:
    """Text, citations and input as events of their own, snapshots on the way, the final text."""
    script(messages_api)
    with client.messages.stream(**ASKED) as stream:
        events = list(stream)
        assert stream.get_final_text() == "Let me look.Matz wrote Ruby." and stream.request_id
    by_type: dict[str, list[Any]] = {}
    for event in events:
        by_type.setdefault(event.type, []).append(event)
    assert "".join(event.text for event in by_type["text"]) == "Let me look.Matz wrote Ruby."
    assert by_type["text"][-1].snapshot == "Matz wrote Ruby."
    assert by_type["input_json"][-1].snapshot == {"query": "ruby author"}
    assert by_type["citation"][0].citation.type == "web_search_result_location"
    assert [event.content_block.type for event in by_type["content_block_stop"]] == ["text", *PAIR, "text"]
    assert kinds(by_type["message_stop"][0].message) == ["text", *PAIR, "text"]


class Author(pydantic.BaseModel):
    """What is asked for."""

    name: str


def test_parsed_output_comes_from_the_last_reply(client: Any, messages_api: Any) -> None:
    """`parse`, and `stream` with an output format."""
    for beta in (False, True):
        messages = client.beta.messages if beta else client.messages
        messages_api.reply(search())
        messages_api.reply('{"name": "Matz"}')
        parsed = messages.parse(**ASKED, output_format=Author)
        assert parsed.parsed_output == Author(name="Matz") and kinds(parsed) == [*PAIR, "text"]
        messages_api.reply(search())
        messages_api.reply('{"name": "Matz"}')
        with messages.stream(**ASKED, output_format=Author) as stream:
            assert stream.get_final_message().parsed_output == Author(name="Matz")


def test_raw_and_streaming_responses_hold_the_whole_message(client: Any, messages_api: Any) -> None:
    """Headers of the first reply, the bytes of the whole: JSON, or server-sent events line by line."""
    script(messages_api)
    raw = client.messages.with_raw_response.create(**ASKED)
    assert json.loads(raw.text())["content"][1]["type"] == "server_tool_use" and raw.headers["request-id"]
    assert kinds(raw.parse()) == ["text", *PAIR, "text"] and raw.headers["content-type"] == "application/json"
    script(messages_api)
    with client.messages.with_streaming_response.create(**ASKED) as response:
        assert json.loads(response.read())["stop_reason"] == "end_turn"
    script(messages_api)
    with client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
        lines = [json.loads(line[6:])["type"] for line in response.iter_lines() if line.startswith("data: ")]
    assert lines[0] == "message_start" and lines[-1] == "message_stop" and lines.count("message_start") == 1
    script(messages_api)
    parsed = client.messages.with_raw_response.create(**ASKED, stream=True).parse()
    assert [event.type for event in parsed][-1] == "message_stop"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_bare_response_can_be_asked_for(client: Any, messages_api: Any, stream: bool) -> None:
    """`post` with the HTTP library's own class gives that, with the whole call in it, and how long it took."""
    script(messages_api)
    more = {"stream_cls": anthropic.Stream[Any]} if stream else {}
    body = {**ASKED, "stream": stream}
    response = client.post("/v1/messages", body=body, cast_to=httpx2.Response, stream=stream, **more)
    content = response.read().decode()
    assert type(response).__mro__.count(httpx2.Response) and response.elapsed.total_seconds() > 0
    assert content.count("message_start") == (2 if stream else 0) and "web_search_tool_result" in content


def test_a_strict_client_stays_strict(messages_api: Any, brave_api: Any) -> None:
    """What is not of the SDK's form is refused where the message is asked for, as by the client that was given."""
    plain = anthropic.Anthropic(_strict_response_validation=True)
    with intercept(plain, provider="brave") as client:
        script(messages_api)
        assert kinds(client.messages.create(**ASKED)) == ["text", *PAIR, "text"]
        messages_api.reply(block({"type": "block_of_next_year"}))
        raw = client.messages.with_raw_response.create(**ASKED)
        with pytest.raises(anthropic.APIResponseValidationError):
            raw.parse()


def test_copies_search_too_and_keep_what_they_were_given(client: Any, messages_api: Any) -> None:
    """`copy` and `with_options`, with headers and keys of their own, on every request of a call."""
    for copy in (client.copy(), client.with_options(default_headers={"X-Team": "red"}, timeout=30)):
        script(messages_api)
        assert kinds(copy.messages.create(**ASKED, extra_headers={"X-Call": "one"})) == ["text", *PAIR, "text"]
    sent = [headers(request) for request in messages_api.requests]
    assert [head.get("x-team") for head in sent] == [None, None, "red", "red"]
    assert [head["x-call"] for head in sent] == ["one"] * 4


def test_counts_models_and_batches_pass(client: Any, messages_api: Any) -> None:
    """A count is that of the tool as the model gets it; a batch is answered elsewhere, so nothing of it is touched."""
    counted = {name: value for name, value in ASKED.items() if name != "max_tokens"}
    assert client.messages.count_tokens(**counted).input_tokens > 0
    assert client.beta.messages.count_tokens(**counted).input_tokens > 0
    assert client.models.list().data
    messages_api.reply("Matz.")
    batch = client.messages.batches.create(requests=[{"custom_id": "a", "params": ASKED}])
    assert messages_api.bodies[-1]["tools"] == [SEARCH] and batch.id


# --- trouble on the way ---------------------------------------------------------------------------------------------


def test_a_later_request_waits_as_long_as_it_is_told(client: Any, messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 429 with `retry-after` in the middle: that time, once, and nothing is done again."""
    waited: list[float] = []
    monkeypatch.setattr("ipy_websearch.model.blocking.time.sleep", waited.append)
    messages_api.reply(search())
    messages_api.reply(error(429, headers={"retry-after": "7"}))
    messages_api.reply("Matz.")
    assert client.messages.create(**ASKED).content[-1].text == "Matz."
    assert waited == [7.0] and len(messages_api.requests) == 3


def test_a_stream_that_ends_too_soon_twice_is_asked_for_again(client: Any, messages_api: Any, brave_api: Any) -> None:
    """Before its first word a later reply may break as often as the client retries."""
    messages_api.reply("Let me look.", search())
    messages_api.reply("Matz.", truncated(0))
    messages_api.reply("Matz.", truncated(0))
    messages_api.reply("Matz.")
    with client.messages.stream(**ASKED) as stream:
        assert stream.get_final_text() == "Let me look.Matz."
    assert brave_api.queries == ["ruby author"] and len(messages_api.requests) == 4


def test_a_later_request_that_times_out_is_sent_again(client: Any, messages_api: Any, brave_api: Any) -> None:
    """By itself, within the caller's own timeout for each request."""
    messages_api.reply(search())
    messages_api.reply("Too late.", delay(1.0))
    messages_api.reply("Matz.")
    message = client.with_options(timeout=0.3).messages.create(**ASKED)
    assert message.content[-1].text == "Matz." and brave_api.queries == ["ruby author"]


def test_a_cancelled_call_stops_and_is_booked(messages_api: Any, brave_api: Any) -> None:
    """Cancelled in the middle of a stream: the connection closes at once, no request follows, the reply is in the ledger."""

    async def run() -> None:
        async with intercept(anthropic.AsyncAnthropic(), provider="brave") as made:

            async def read() -> None:
                async with made.messages.stream(**ASKED) as stream:
                    async for _ in stream.text_stream:
                        seen.set()

            seen = asyncio.Event()
            task = asyncio.create_task(read())
            await asyncio.wait_for(seen.wait(), 5)
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while messages_api.active:
                await asyncio.sleep(0.005)
            assert time.monotonic() - began < 0.5

    messages_api.reply("one two three four five six seven eight nine ten eleven twelve", search(), slow(0.2))
    asyncio.run(run())
    assert brave_api.queries == [] and len(messages_api.requests) == 1
    assert list(api.cost().kind) == ["model"]


def test_a_call_cancelled_while_it_searches_books_both(messages_api: Any, brave_api: Any) -> None:
    """The search was sent, so it counts; the model is not asked again."""

    async def run() -> None:
        async with intercept(anthropic.AsyncAnthropic(), provider="brave") as made:
            task = asyncio.create_task(made.messages.create(**ASKED))
            while not brave_api.active:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    brave_api.reply(delay_s=3)
    messages_api.reply(search())
    asyncio.run(run())
    rows = api.cost()
    assert list(rows.kind) == ["model", "search"] and list(rows.status) == ["ok", "interrupted"]


def test_one_client_serves_many_threads(client: Any, messages_api: Any, brave_api: Any) -> None:
    """Twenty at once, whole and streamed: each gets its own answer, with its own search."""

    def behave(body: Mapping[str, Any]) -> Any:
        asked = body["messages"][0]["content"]
        return [text(f"About {asked}.", citations=[(0, 0)])] if len(body["messages"]) > 1 else [search(f"{asked} topic")]

    def ask(number: int) -> tuple[str, str]:
        asked = {**ASKED, "messages": [{"role": "user", "content": f"n{number}"}]}
        if number % 2:
            message = client.messages.create(**asked)
        else:
            with client.messages.stream(**asked) as stream:
                message = stream.get_final_message()
        return message.content[0].input["query"], message.content[-1].text

    messages_api.behave(behave)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(ask, range(40)))
    assert answers == [(f"n{n} topic", f"About n{n}.") for n in range(40)]
    assert sorted(brave_api.queries) == sorted(f"n{n} topic" for n in range(40))
    assert len(api.cost()) == 120


@pytest.mark.parametrize("content", [b"<html>Sign in</html>", b"[1]", b"null", b""], ids=["page", "list", "null", "nothing"])
def test_an_answer_that_is_no_message_is_said_to_be_none(brave_api: Any, content: bytes) -> None:
    """Some server in between may have answered; the SDK's own error says with what, and nothing is asked again."""
    asked: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, content=content, headers={"content-type": "application/json"})

    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    client = intercept(anthropic.Anthropic(api_key="k", base_url="http://local.example", http_client=http), provider="brave")
    with pytest.raises(anthropic.APIResponseValidationError, match="no message"):
        client.messages.create(**ASKED)
    assert len(asked) == 1
    with pytest.raises(anthropic.APIStatusError, match="no message"):
        list(client.messages.create(**ASKED, stream=True))
