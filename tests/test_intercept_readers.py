"""Who else reads an intercepted reply than the SDK's streams: middleware around ours, who wants bytes, and nobody at all."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import pickle
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anthropic
import httpx2
import pydantic
import pytest
from anthropic import _tracing
from anthropic.lib.middleware import BetaRefusalFallbackMiddleware

from ipy_websearch import api
from ipy_websearch.interception import intercept
from tests.fakes.replies import stop, text, thinking, tool_use

ASKED: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [{"type": "web_search_20250305", "name": "web_search"}],
}
PAIR = ["server_tool_use", "web_search_tool_result"]
BOTH = pytest.mark.parametrize("kind", ["blocking", "async"])
Ask = Callable[..., Any]


def search(query: str = "ruby author") -> Any:
    """Return the part of a reply that searches."""
    return tool_use("ipy_web_search", {"query": query})


def script(messages_api: Any) -> None:
    """Queue a search and an answer."""
    messages_api.reply(thinking(), "Let me look.", search())
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))


def client_with(kind: str, middleware: Any = ()) -> Any:
    """Return an intercepted client with middleware of its own, outside of ours."""
    made: Any = anthropic.Anthropic if kind == "blocking" else anthropic.AsyncAnthropic
    return intercept(made(max_retries=0, middleware=list(middleware)), provider="brave")


def streamed(client: Any, *, beta: bool = False, **more: Any) -> Any:
    """Return the message that the SDK puts together from a stream."""
    if isinstance(client, anthropic.Anthropic):
        with client, (client.beta if beta else client).messages.stream(**ASKED, **more) as stream:
            return stream.get_final_message()

    async def run() -> Any:
        async with client, (client.beta if beta else client).messages.stream(**ASKED, **more) as stream:
            return await stream.get_final_message()

    return asyncio.run(run())


def kinds(message: Any) -> list[str]:
    """Return the types of a message's blocks."""
    return [block.type for block in message.content]


def events_in(data: bytes) -> list[dict[str, Any]]:
    """Return the events of a body, read as text."""
    assert data.endswith(b"\n\n")
    found = []
    for part in data.decode().strip().split("\n\n"):
        name, value = part.split("\n")
        found.append(json.loads(value.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


# --- middleware around ours -----------------------------------------------------------------------------------------


def refusal() -> Any:
    """Return a refusal as the API makes it where the caller may go on with another model."""
    details = {"type": "refusal", "category": "cyber", "fallback_credit_token": "credit_1", "fallback_has_prefill_claim": True}
    return stop("refusal", stop_details=details)


@BOTH
def test_the_sdks_refusal_fallback_works_on_an_intercepted_stream(messages_api: Any, brave_api: Any, kind: str) -> None:
    """As on the API's own: the words of the first model, the seam, and the other model's answer with its search."""
    messages_api.reply(search("one thing"))
    messages_api.reply("I can", refusal())
    messages_api.reply(search("another thing"))
    messages_api.reply("not, but this helps.")
    client = client_with(kind, [BetaRefusalFallbackMiddleware([{"model": "claude-opus-4-8"}])])
    message = streamed(client, beta=True)
    assert kinds(message) == [*PAIR, "text", "fallback", *PAIR, "text"]
    assert message.stop_reason == "end_turn" and message.model == "claude-opus-4-8"
    assert [body["model"] for body in messages_api.bodies] == ["claude-sonnet-5-5"] * 2 + ["claude-opus-4-8"] * 2
    assert brave_api.queries == ["one thing", "another thing"]


@BOTH
def test_a_stream_that_is_not_refused_passes_through_the_fallback(messages_api: Any, brave_api: Any, kind: str) -> None:
    """It reads every event as text and writes it again."""
    script(messages_api)
    plain = streamed(client_with(kind), beta=True)
    script(messages_api)
    message = streamed(client_with(kind, [BetaRefusalFallbackMiddleware([{"model": "claude-opus-4-8"}])]), beta=True)
    assert kinds(message) == kinds(plain) == ["thinking", "text", *PAIR, "text"]
    assert message.usage == plain.usage and message.content[-1].citations[0].url == plain.content[-1].citations[0].url


def reading(how: str, seen: list[bytes]) -> tuple[Callable[..., Any], Callable[..., Awaitable[Any]]]:
    """Return middleware for both kinds of clients that reads the body before anybody else does."""

    def blocking(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        body = response.http_response
        seen.append(response.read() if how == "wrapper" else body.read())
        return response

    async def not_blocking(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        body = response.http_response
        seen.append(await response.read() if how == "wrapper" else await body.aread())
        return response

    return blocking, not_blocking


@BOTH
@pytest.mark.parametrize("how", ["response", "wrapper"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_middleware_may_read_the_body_first(messages_api: Any, brave_api: Any, kind: str, how: str, stream: bool) -> None:
    """It gets all of it, and so does the SDK after it."""
    seen: list[bytes] = []
    script(messages_api)
    client = client_with(kind, [reading(how, seen)[kind == "async"]])
    if stream:
        message = streamed(client)
        types = [event["type"] for event in events_in(seen[0])]
        assert types[0] == "message_start" and types[-1] == "message_stop" and types.count("content_block_start") == 5
    else:
        message = client.messages.create(**ASKED)
        message = asyncio.run(message) if kind == "async" else message
        assert [block["type"] for block in json.loads(seen[0])["content"]] == kinds(message)
    assert kinds(message) == ["thinking", "text", *PAIR, "text"]


def test_middleware_may_put_its_own_body_in_place(messages_api: Any, brave_api: Any) -> None:
    """A response of its own with our pieces in it, or a stream around ours: it sees every byte, and the SDK what it gives."""
    passed: list[bytes] = []

    class Tee(httpx2.SyncByteStream):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __iter__(self) -> Iterator[bytes]:
            for piece in self.inner:
                passed.append(piece)
                yield piece.replace(b"Matz", b"M****")

        def close(self) -> None:
            self.inner.close()

    def around(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        response.http_response.stream = Tee(response.http_response.stream)
        return response

    def anew(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        given = response.http_response
        stream = Tee(given.stream)
        response.http_response = httpx2.Response(200, headers=given.headers, stream=stream, request=given.request)
        return response

    for middleware in (around, anew):
        passed.clear()
        script(messages_api)
        message = streamed(client_with("blocking", [middleware]))
        assert message.content[-1].text == "M**** wrote Ruby." and events_in(b"".join(passed))[-1] == {"type": "message_stop"}


def test_a_body_is_read_once(messages_api: Any, brave_api: Any) -> None:
    """As any other: what the stream has taken, nobody reads a second time, and the other way round."""
    with client_with("blocking") as client:
        script(messages_api)
        stream = client.messages.create(**ASKED, stream=True)
        assert next(stream).type == "message_start"
        with pytest.raises(httpx2.StreamConsumed):
            stream.response.read()
        assert [event.type for event in stream][-1] == "message_stop"
        messages_api.reply("Matz.")
        stream = client.messages.create(**ASKED, stream=True)
        assert next(stream.response.iter_lines()) == "event: message_start"
        with pytest.raises(httpx2.StreamConsumed):
            next(stream)
        messages_api.reply("Matz.")
        stream = client.messages.create(**ASKED, stream=True)
        stream.close()
        with pytest.raises(httpx2.StreamClosed):
            next(stream)


def test_a_stream_that_nobody_else_reads_is_not_written_as_text(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events go to the SDK as they are, traced or not: writing and reading them would take longer than all the rest."""
    monkeypatch.setattr("ipy_websearch.model.streamed.frame", None)
    observed: list[str] = []

    class Observer:
        def begin(self) -> None: ...

        def item(self, item: Any) -> None:
            observed.append(item.type)

        def end(self, how: str, error: Any = None) -> None:
            observed.append(how)

    def traced(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        response.http_response.stream = _tracing.span_ending_stream(response.http_response.stream, Observer())
        return response

    for kind, middleware in (("blocking", []), ("async", []), ("blocking", [traced])):
        script(messages_api)
        assert kinds(streamed(client_with(kind, middleware))) == ["thinking", "text", *PAIR, "text"]
    assert observed[0] == "message_start" and "read" in observed
    script(messages_api)
    with client_with("blocking") as client:
        raw = client.messages.with_raw_response.create(**ASKED, stream=True)
        assert [event.type for event in raw.parse()][-1] == "message_stop"


# --- bytes ----------------------------------------------------------------------------------------------------------


def test_a_message_can_be_read_raw(messages_api: Any, brave_api: Any) -> None:
    """`with_streaming_response` on a call that does not stream gives the bytes, in all the ways that there are."""
    with client_with("blocking") as client:
        read: list[Callable[[Any], Any]] = [
            lambda response: b"".join(response.http_response.iter_raw()),
            lambda response: b"".join(response.http_response.iter_raw(7)),
            lambda response: b"".join(response.http_response.stream),
            lambda response: b"".join(response.iter_bytes()),
            lambda response: response.read(),
        ]
        for each in read:
            script(messages_api)
            with client.messages.with_streaming_response.create(**ASKED) as response:
                assert json.loads(each(response))["stop_reason"] == "end_turn"
                assert kinds(response.parse())[-1] == "text"


def test_an_async_message_can_be_read_raw(messages_api: Any, brave_api: Any) -> None:
    """The same on an async client."""

    async def run() -> None:
        async with client_with("async") as client:
            for read in ("aiter_raw", "aiter_bytes"):
                script(messages_api)
                async with client.messages.with_streaming_response.create(**ASKED) as response:
                    pieces = [piece async for piece in getattr(response.http_response, read)()]
                    assert json.loads(b"".join(pieces))["stop_reason"] == "end_turn"

    asyncio.run(run())


# --- a message that is read as data ---------------------------------------------------------------------------------


class Author(pydantic.BaseModel):
    """What is asked for."""

    name: str


@BOTH
@pytest.mark.parametrize("how", ["raw", "parsed"])
def test_an_answer_that_does_not_fit_its_format_comes_all_the_same(
    messages_api: Any, brave_api: Any, kind: str, how: str
) -> None:
    """As natively: middleware sees a 200, a raw response has the text that was paid for, and who parses it hears why not."""
    seen: list[int] = []

    def blocking(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        seen.append(response.status_code)
        return response

    async def not_blocking(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        seen.append(response.status_code)
        return response

    messages_api.reply(search())
    messages_api.reply('{"name": "Ma', stop("max_tokens"))
    client = client_with(kind, [blocking if kind == "blocking" else not_blocking])
    beta = client.beta.messages

    def call(method: Any) -> Any:
        made = method(**ASKED, output_format=Author)
        return asyncio.run(made) if kind == "async" else made

    if how == "raw":
        raw = call(beta.with_raw_response.parse)
        assert json.loads(raw.http_response.text)["content"][-1]["text"] == '{"name": "Ma'
        with pytest.raises(pydantic.ValidationError):
            _ = asyncio.run(raw.parse()) if kind == "async" else raw.parse()
    else:
        with pytest.raises(pydantic.ValidationError):
            call(beta.parse)
    assert seen == [200] and len(messages_api.bodies) == 2


def test_whoever_takes_the_json_gets_a_copy(messages_api: Any, brave_api: Any) -> None:
    """A logger that cuts its own short leaves the next reader's whole, also where it is parsed as something else."""

    def logged(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        taken = response.http_response.json()
        taken["content"].clear()
        taken["usage"].clear()
        return response

    script(messages_api)
    with client_with("blocking", [logged]) as client:
        raw = client.messages.with_raw_response.create(**ASKED)
    taken = raw.http_response.json()
    assert len(taken["content"]) == 5 and taken["usage"]["input_tokens"] and json.loads(raw.text()) == taken
    taken["content"].clear()
    assert len(raw.json()["content"]) == len(raw.parse(to=anthropic.types.beta.BetaMessage).content) == 5


def test_whoever_changes_a_message_leaves_its_text_as_it_was(messages_api: Any, brave_api: Any) -> None:
    """The SDK's model of a raw response is the caller's own, down to what a call of theirs was given."""
    messages_api.reply(search())
    messages_api.reply(tool_use("save", {"to": {"names": ["Matz"]}}))
    tools = [*ASKED["tools"], {"name": "save", "input_schema": {"type": "object"}}]
    with client_with("blocking") as client:
        raw = client.messages.with_raw_response.create(**{**ASKED, "tools": tools})
    raw.parse().content[-1].input["to"]["names"].append("me")
    assert json.loads(raw.text())["content"][-1]["input"] == {"to": {"names": ["Matz"]}}


@pytest.mark.parametrize("when", ["unread", "half read", "read"])
def test_a_streamed_response_is_copied_and_pickled_as_any_other(messages_api: Any, brave_api: Any, when: str) -> None:
    """Its copy has the head and no body; the stream goes on."""
    script(messages_api)
    with client_with("blocking") as client:
        stream = client.messages.create(**ASKED, stream=True)
        types = [next(stream).type for _ in range({"unread": 0, "half read": 4, "read": 1}[when])]
        types += [event.type for event in stream] if when == "read" else []
        for copied in (pickle.loads(pickle.dumps(stream.response)), copy.deepcopy(stream.response)):
            assert copied.status_code == 200 and copied.headers == stream.response.headers and copied.is_closed
            with pytest.raises(httpx2.StreamError):
                copied.read()
        types += [event.type for event in stream]
    assert types[0] == "message_start" and types[-1] == "message_stop" and rows().count(("model", "ok")) == 2


# --- nobody ---------------------------------------------------------------------------------------------------------


def rows() -> list[tuple[str, str]]:
    """Return kind and status of what was booked."""
    api.session().ledger.write_held()
    frame = api.session().ledger.frame(session=api.session().id)
    return list(zip(frame.kind, frame.status, strict=True))


@pytest.fixture
def held(messages_api: Any, brave_api: Any) -> Iterator[Callable[[], Any]]:
    """A session with a ceiling; gives what says how much is held under it."""
    api.session().settings.session_budget_usd = 1.0
    yield lambda: api.session().budgets.session.reserved


def test_a_stream_that_is_forgotten_gives_its_money_and_connection_back(held: Any, messages_api: Any) -> None:
    """Never read and never closed: when it is collected, its request is booked, and the next one gets its connection."""
    http = anthropic.DefaultHttpxClient(limits=httpx2.Limits(max_connections=1), timeout=5)
    with intercept(anthropic.Anthropic(max_retries=0, http_client=http), provider="brave") as client:
        for make in (client.messages.create, client.messages.with_raw_response.create):
            messages_api.reply("Matz.")
            stream = make(**ASKED, stream=True)
            assert held() > 0
            del stream
            gc.collect()
            assert held() == 0
        messages_api.reply("Matz.")
        assert client.messages.create(**ASKED).content[0].text == "Matz."
    assert rows() == [("model", "interrupted")] * 2 + [("model", "ok")]


def test_an_async_stream_that_is_forgotten_gives_its_money_and_connection_back(held: Any, messages_api: Any) -> None:
    """The same; its connection is closed by the loop that it belongs to."""
    http = anthropic.DefaultAsyncHttpxClient(limits=httpx2.Limits(max_connections=1), timeout=5)

    async def run() -> None:
        async with intercept(anthropic.AsyncAnthropic(max_retries=0, http_client=http), provider="brave") as client:
            for _ in range(2):
                messages_api.reply("Matz.")
                stream = await client.messages.create(**ASKED, stream=True)
                assert held() > 0
                del stream
                gc.collect()
                assert held() == 0
            messages_api.reply("Matz.")
            assert (await client.messages.create(**ASKED)).content[0].text == "Matz."

    asyncio.run(run())
    assert rows() == [("model", "interrupted")] * 2 + [("model", "ok")]


def test_a_stream_is_forgotten_in_the_middle_of_the_books(held: Any, messages_api: Any) -> None:
    """The collector may run while this very thread holds the ceiling's lock: it does not wait for itself."""
    with client_with("blocking") as client:
        messages_api.reply("Matz.")
        stream = client.messages.create(**ASKED, stream=True)
        with api.session().budgets.session._lock:
            start = time.monotonic()
            del stream
            gc.collect()
            assert time.monotonic() - start < 2
        deadline = time.monotonic() + 5
        while held() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert held() == 0


def test_a_stream_that_is_closed_unread_is_booked_once(held: Any, messages_api: Any) -> None:
    """Its request went out; closing it twice, or collecting it afterwards, adds nothing."""
    with client_with("blocking") as client:
        messages_api.reply("Matz.")
        stream = client.messages.create(**ASKED, stream=True)
        stream.close()
        stream.close()
        del stream
        gc.collect()
    assert held() == 0 and rows() == [("model", "interrupted")]
