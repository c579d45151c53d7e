"""Streams of intercepted clients that end early: never begun, refused, or closed by somebody else than their reader."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import Any

import anthropic
import httpx2
import pytest

from ipy_websearch import api
from ipy_websearch.interception import intercept
from tests.fakes.replies import delay, error, slow, tool_use

ASKED: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [{"type": "web_search_20250305", "name": "web_search"}],
}
SEARCH = tool_use("ipy_web_search", {"query": "ruby author"})
LONG = "word " * 400


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, that tries once."""
    with intercept(anthropic.Anthropic(max_retries=0), provider="brave") as made:
        yield made


@pytest.fixture(params=["reply", "search"])
def busy(request: Any, messages_api: Any, brave_api: Any) -> Callable[[], bool]:
    """A reply that takes seconds, or a search that does; gives what says that it is under way."""
    if request.param == "reply":
        messages_api.reply(LONG, slow(0.05))
        return lambda: bool(messages_api.bodies)
    brave_api.latency_s = 20
    messages_api.reply("Let me look.", SEARCH)
    return lambda: bool(brave_api.queries)


def reserved() -> Decimal:
    """Return what is held under the session's ceiling."""
    return api.session().budgets.session.reserved


@pytest.mark.parametrize("raw", [False, True])
def test_a_stream_that_nobody_reads_gives_its_connection_and_its_money_back(
    messages_api: Any, brave_api: Any, raw: bool
) -> None:
    """With one connection in the pool, the next request gets it."""
    api.session().settings.session_budget_usd = 1.0
    http = anthropic.DefaultHttpxClient(limits=httpx2.Limits(max_connections=1), timeout=5)
    with intercept(anthropic.Anthropic(max_retries=0, http_client=http), provider="brave") as client:
        for _ in range(3):
            messages_api.reply(LONG)
            if raw:
                with client.messages.with_streaming_response.create(**ASKED, stream=True):
                    pass
            else:
                with client.messages.stream(**ASKED):
                    pass
            assert reserved() == 0
        messages_api.reply("Matz.")
        assert client.messages.create(**ASKED).content[-1].text == "Matz."


def test_an_async_stream_that_nobody_reads_gives_its_money_back(messages_api: Any, brave_api: Any) -> None:
    """The same on an async client."""
    api.session().settings.session_budget_usd = 1.0
    messages_api.reply(LONG)

    async def run() -> None:
        async with intercept(anthropic.AsyncAnthropic(), provider="brave") as client:
            await (await client.messages.create(**ASKED, stream=True)).close()

    asyncio.run(run())
    assert reserved() == 0


def test_a_streamed_request_that_fails_gives_its_money_back(client: Any, messages_api: Any) -> None:
    """Refused by the API, or sent to nobody: nothing stays reserved."""
    api.session().settings.session_budget_usd = 1.0
    messages_api.reply(error(529))
    with pytest.raises(anthropic.APIStatusError), client.messages.stream(**ASKED):
        pass
    assert reserved() == 0
    with (
        pytest.raises(anthropic.APIConnectionError),
        client.with_options(base_url="http://127.0.0.1:9").messages.stream(**ASKED),
    ):
        pass
    assert reserved() == 0


def test_another_thread_can_stop_a_stream(client: Any, messages_api: Any, busy: Callable[[], bool]) -> None:
    """As in the SDK, its reader ends with a ReadError; what runs is stopped, and nothing more is sent."""
    stream = client.messages.create(**ASKED, stream=True)
    ended: list[BaseException | None] = []

    def read() -> None:
        try:
            list(stream)
            ended.append(None)
        except Exception as exc:
            ended.append(exc)

    reader = threading.Thread(target=read)
    reader.start()
    while not busy():
        time.sleep(0.01)
    time.sleep(0.1)
    start = time.monotonic()
    stream.close()
    reader.join(10)
    assert isinstance(ended[0], httpx2.ReadError) and ended[0].request.method == "POST" and time.monotonic() - start < 2
    assert len(messages_api.bodies) == 1


def test_another_task_can_stop_a_stream(messages_api: Any, brave_api: Any, busy: Callable[[], bool]) -> None:
    """The same on an async client."""

    async def run() -> tuple[BaseException | None, float]:
        async with intercept(anthropic.AsyncAnthropic(max_retries=0), provider="brave") as client:
            stream = await client.messages.create(**ASKED, stream=True)

            async def read() -> None:
                async for _ in stream:
                    pass

            reader = asyncio.create_task(read())
            while not busy():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            start = time.monotonic()
            await stream.close()
            await asyncio.wait([reader], timeout=10)
            return reader.exception(), time.monotonic() - start

    exc, seconds = asyncio.run(run())
    assert isinstance(exc, httpx2.ReadError) and exc.request.method == "POST" and seconds < 2
    assert len(messages_api.bodies) == 1


# --- closed between two events --------------------------------------------------------------------------------------


def script(messages_api: Any) -> None:
    """Queue an answer that takes its time."""
    messages_api.reply(LONG, slow(0.05))


def booked() -> list[tuple[str, str]]:
    """Return kind and status of the requests to the model that were booked."""
    api.session().ledger.write_held()
    frame = api.session().ledger.frame(session=api.session().id)
    return [row for row in zip(frame.kind, frame.status, strict=True) if row[0] == "model"]


class Upstream(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """The body of a reply that comes in; closing it waits until `go` is set, and sets `closing` meanwhile."""

    closing = threading.Event()
    go = threading.Event()

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.inner)

    def close(self) -> None:
        self.closing.set()
        self.go.wait(5)
        self.inner.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.inner:
            yield piece

    async def aclose(self) -> None:
        self.closing.set()
        while not self.go.is_set():
            await asyncio.sleep(0.01)
        await self.inner.aclose()


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> type[Upstream]:
    """The class of the bodies; closing them waits for nothing at first."""
    monkeypatch.setattr(Upstream, "closing", threading.Event())
    monkeypatch.setattr(Upstream, "go", threading.Event())
    Upstream.go.set()
    return Upstream


def put_in_place(response: Any) -> None:
    """Put our body around the one of a model's response."""
    if response.url.path == "/v1/messages":
        response.stream = Upstream(response.stream)


@pytest.fixture
def one(messages_api: Any, brave_api: Any, upstream: Any) -> Iterator[Any]:
    """A blocking client with one connection, and a session with a ceiling."""
    api.session().settings.session_budget_usd = 1.0
    hooks: Any = {"response": [put_in_place]}
    http = anthropic.DefaultHttpxClient(limits=httpx2.Limits(max_connections=1), timeout=5, event_hooks=hooks)
    with intercept(anthropic.Anthropic(max_retries=0, http_client=http), provider="brave") as made:
        yield made


def async_one() -> Any:
    """Return the same for async clients."""

    async def hook(response: Any) -> None:
        put_in_place(response)

    api.session().settings.session_budget_usd = 1.0
    hooks: Any = {"response": [hook]}
    http = anthropic.DefaultAsyncHttpxClient(limits=httpx2.Limits(max_connections=1), timeout=5, event_hooks=hooks)
    return intercept(anthropic.AsyncAnthropic(max_retries=0, http_client=http), provider="brave")


def in_thread(function: Callable[[], Any]) -> threading.Thread:
    """Begin something in another thread."""
    thread = threading.Thread(target=function)
    thread.start()
    return thread


@pytest.mark.parametrize("how", ["events", "bytes"])
def test_a_reader_does_not_take_a_closed_stream_for_a_whole_one(one: Any, messages_api: Any, how: str) -> None:
    """Its connection is free again, and each request booked once."""
    script(messages_api)
    stream = one.messages.create(**ASKED, stream=True)
    reader = stream if how == "events" else stream.response.iter_bytes()
    for _ in range(3):
        next(reader)
    in_thread(stream.close).join()
    with pytest.raises(httpx2.ReadError) as raised:
        next(reader)
    assert raised.value.request.url.path == "/v1/messages"
    assert reserved() == 0 and booked() == [("model", "error")]
    messages_api.reply("Matz.")
    assert one.messages.create(**ASKED).content[-1].text == "Matz." and len(booked()) == 2


def test_a_reader_may_come_while_another_thread_closes(one: Any, messages_api: Any, upstream: Any) -> None:
    """It hears of the closing, not of Python's generators."""
    script(messages_api)
    stream = one.messages.create(**ASKED, stream=True)
    next(stream)
    upstream.go.clear()
    closer = in_thread(stream.close)
    assert upstream.closing.wait(5)
    with pytest.raises(httpx2.ReadError):
        next(stream)
    upstream.go.set()
    closer.join(5)
    assert reserved() == 0 and booked() == [("model", "error")]


def test_a_reader_need_not_come_back(one: Any, messages_api: Any, upstream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread closes in the moment in which an event is made; its reader takes it and goes."""
    from ipy_websearch.model import streamed

    inside, made = threading.Event(), streamed.Parsed

    def parsed(event: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            upstream.closing.wait(5)
        return made(event)

    monkeypatch.setattr(streamed, "Parsed", parsed)
    script(messages_api)
    stream = one.messages.create(**ASKED, stream=True)

    def read() -> None:
        while not inside.is_set():
            next(stream)

    next(stream)
    reader = in_thread(read)
    assert inside.wait(5)
    stream.close()
    reader.join(5)
    assert reserved() == 0 and booked() == [("model", "error")]


def test_a_stream_that_is_closed_between_two_requests_gives_nothing_of_the_second(one: Any, messages_api: Any) -> None:
    """The second is on its way: what comes is not read, but booked."""
    messages_api.reply("Let me look.", SEARCH)
    messages_api.reply(LONG, delay(0.3), slow(0.05))
    stream = one.messages.create(**ASKED, stream=True)
    words: list[str] = []
    ended: list[BaseException] = []

    def read() -> None:
        try:
            for event in stream:
                words.append(getattr(getattr(event, "delta", None), "text", None) or "")
        except Exception as exc:
            ended.append(exc)

    reader = in_thread(read)
    while len(messages_api.bodies) < 2:
        time.sleep(0.01)
    stream.close()
    reader.join(5)
    assert isinstance(ended[0], httpx2.ReadError) and "word" not in "".join(words)
    assert reserved() == 0 and booked() == [("model", "ok"), ("model", "error")]


@pytest.mark.parametrize("closed_at", ["its end", "its last event"])
def test_what_has_come_whole_stays_whole(one: Any, messages_api: Any, closed_at: str) -> None:
    """Closing it afterwards changes nothing for who asks for it later."""
    messages_api.reply("Let me look.", SEARCH)
    messages_api.reply(LONG)
    with one.messages.stream(**ASKED) as stream:
        for event in stream:
            if event.type == "message_stop" and closed_at == "its last event":
                break
    assert next(stream, None) is None and stream.get_final_message().content[-1].text == LONG
    assert booked() == [("model", "ok")] * 2


def test_an_async_stream_that_was_left_early_has_no_final_message(messages_api: Any, brave_api: Any, upstream: Any) -> None:
    """Neither while it is being closed nor afterwards; one that came whole keeps its own."""

    async def run() -> None:
        async with async_one() as client:
            script(messages_api)
            async with client.messages.stream(**ASKED) as stream:
                await anext(stream)
            with pytest.raises(httpx2.ReadError):
                await stream.get_final_message()
            script(messages_api)
            stream = await client.messages.create(**ASKED, stream=True)
            await anext(stream)
            upstream.closing.clear()
            upstream.go.clear()
            closer = asyncio.create_task(stream.close())
            while not upstream.closing.is_set():
                await asyncio.sleep(0)
            with pytest.raises(httpx2.ReadError):
                await anext(stream)
            upstream.go.set()
            await closer
            messages_api.reply("Let me look.", SEARCH)
            messages_api.reply(LONG)
            async with client.messages.stream(**ASKED) as stream:
                async for event in stream:
                    if event.type == "message_stop":
                        break
            assert (await stream.get_final_message()).content[-1].text == LONG

    asyncio.run(run())
    assert reserved() == 0 and booked() == [("model", "error")] * 2 + [("model", "ok")] * 2


def test_an_async_body_that_was_closed_is_not_read_on(messages_api: Any, brave_api: Any, upstream: Any) -> None:
    """The same for who reads the text."""

    async def run() -> None:
        async with async_one() as client:
            script(messages_api)
            stream = await client.messages.create(**ASKED, stream=True)
            pieces = stream.response.aiter_bytes()
            await anext(pieces)
            await stream.close()
            with pytest.raises(httpx2.ReadError):
                await anext(pieces)

    asyncio.run(run())
    assert reserved() == 0 and booked() == [("model", "error")]


def test_an_answer_that_comes_while_its_stream_is_closed_is_booked(messages_api: Any, brave_api: Any) -> None:
    """However the two meet: the second request is closed upon in the loop's first, second, third … turn after its answer."""
    api.session().settings.session_budget_usd = 1.0
    answers: list[Any] = []

    async def hook(response: Any) -> None:
        if response.url.path == "/v1/messages":
            answers.append(response)

    async def close_after(turns: int) -> None:
        answers.clear()
        messages_api.reply(SEARCH)
        messages_api.reply(LONG, slow(0.05))
        http = anthropic.DefaultAsyncHttpxClient(timeout=5, event_hooks={"response": [hook]})
        async with intercept(anthropic.AsyncAnthropic(max_retries=0, http_client=http), provider="brave") as client:
            stream = await client.messages.create(**ASKED, stream=True)

            async def read() -> None:
                async for _ in stream:
                    pass

            reader = asyncio.create_task(read())
            while len(answers) < 2:
                await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            await stream.close()
            await asyncio.wait([reader], timeout=5)
            assert isinstance(reader.exception(), httpx2.ReadError) and reserved() == 0

    for turns in range(6):
        asyncio.run(close_after(turns))
        assert len(booked()) == len(messages_api.bodies) == 2 * (turns + 1), turns
