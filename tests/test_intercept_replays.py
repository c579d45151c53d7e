"""What fails at a later request of an intercepted call: nothing before it is done again, and no refusal is booked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import pytest
from aiohttp import web
from anthropic.lib.credentials import AccessToken

from ipy_websearch import api
from ipy_websearch.errors import ConfigError
from tests.fakes.answers import cut
from tests.fakes.replies import error, error_event, truncated
from tests.intercepting import ASKED, PAIR, WAYS, ask, at_once, kinds, made, search, statuses  # noqa: F401

KINDS = pytest.mark.parametrize("way", ["blocking", "async"])
STREAMS = pytest.mark.parametrize("way", ["blocking stream", "async stream"])


def turns(messages_api: Any) -> list[int]:
    """Return how many messages each request had: a call that begins anew has fewer than the one before."""
    return [len(body["messages"]) for body in messages_api.bodies]


def searching(messages_api: Any, *failures: Any, after: int = 2) -> None:
    """Let the model search twice and answer; the failures come after so many replies."""
    queue: list[Any] = [search("one"), search("two"), "Matz."]
    queue[after:after] = failures
    for parts in queue:
        messages_api.reply(*(parts if isinstance(parts, tuple) else (parts,)))


# --- a token that is refused ----------------------------------------------------------------------------------------


class Tokens:
    """Gives out a new token whenever it is asked; `client` has it for its credentials."""

    def __init__(self, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        self.given = 0
        self.way = way

    def client(self, **options: Any) -> Any:
        """Return an intercepted client."""
        return made(self.way, credentials=self._later if "async" in self.way else self._now, **options)

    def _now(self, *, force_refresh: bool = False) -> AccessToken:
        self.given += 1
        return AccessToken(token=f"token {self.given}", expires_at=int(time.time()) + 100_000)

    async def _later(self, *, force_refresh: bool = False) -> AccessToken:
        return self._now(force_refresh=force_refresh)


@WAYS
@pytest.mark.parametrize("first", ["ok", "busy"])
def test_a_token_that_expires_is_renewed_and_the_same_request_goes_on(
    messages_api: Any, brave_api: Any, way: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK would begin the whole call anew, and only where it sent nothing twice before."""
    tokens, replies = Tokens(way, monkeypatch), iter([search("one"), search("two"), error(401), "Matz."])
    messages_api.key = "token 1"
    if first == "busy":
        messages_api.reply(error(529))

    def reply(body: Any) -> Any:
        part = next(replies)
        if len(body["messages"]) == 5:
            messages_api.key = "token 2"
        return part

    messages_api.behave(reply)
    assert kinds(ask(way, tokens.client())) == [*PAIR, *PAIR, "text"]
    assert turns(messages_api) == [*([1] if first == "busy" else []), 1, 3, 5, 5]
    assert tokens.given == 2 and brave_api.queries == ["one", "two"] and statuses() == ["ok"] * 3


@WAYS
@pytest.mark.parametrize("retries", [0, 3])
def test_a_token_that_stays_refused_is_renewed_once(
    messages_api: Any, brave_api: Any, way: str, retries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the error is the caller's, and nothing has begun anew."""
    tokens = Tokens(way, monkeypatch)

    def reply(body: Any) -> Any:
        messages_api.key = f"token {tokens.given + (len(body['messages']) > 1)}"
        return search() if len(body["messages"]) == 1 else error(401)

    messages_api.key = "token 1"
    messages_api.behave(reply)
    with pytest.raises(anthropic.APIStatusError, match="authentication_error"):
        ask(way, tokens.client(max_retries=retries))
    assert turns(messages_api) == ([1, 3, 3] if retries else [1, 3]) and brave_api.queries == ["ruby author"]
    assert statuses() == ["ok"]


# --- other middleware inside ours -----------------------------------------------------------------------------------


def busy() -> anthropic.APIStatusError:
    """Return what the SDK raises for a busy API."""
    response = httpx2.Response(529, request=httpx2.Request("POST", "http://localhost"))
    return anthropic.InternalServerError("Overloaded", response=response, body=None)


def caused() -> ValueError:
    """Return an error behind which the SDK sees a lost connection."""
    exc = ValueError("no answer")
    exc.__cause__ = anthropic.APIConnectionError(request=httpx2.Request("POST", "http://localhost"))
    return exc


RAISED: dict[str, Callable[[], Exception]] = {
    "retryable": lambda: anthropic.RetryableError("once more"),
    "busy": busy,
    "caused": caused,
}


def inside(
    way: str, client: Any, raised: Callable[[], Exception], when: str, at: Callable[[int], bool]
) -> tuple[Any, list[int]]:
    """Return a client with middleware inside ours that raises at some requests, and a list with an entry for each."""
    calls: list[int] = []

    def blocking(request: Any, call_next: Any) -> Any:
        calls.append(len(calls) + 1)
        fails = at(len(calls))
        if fails and when == "before":
            raise raised()
        response = call_next(request)
        if fails:
            response.http_response.close()
            raise raised()
        return response

    async def waiting(request: Any, call_next: Any) -> Any:
        calls.append(len(calls) + 1)
        fails = at(len(calls))
        if fails and when == "before":
            raise raised()
        response = await call_next(request)
        if fails:
            await response.http_response.aclose()
            raise raised()
        return response

    return client.with_middleware(waiting if "async" in way else blocking), calls


@WAYS
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("raised", RAISED)
def test_what_middleware_inside_ours_raises_is_a_failure_of_one_request(
    messages_api: Any, brave_api: Any, way: str, when: str, raised: str
) -> None:
    """Where the SDK would try again, that request is sent again; what may have been answered is booked, a refusal is not."""
    searching(messages_api, *(["Nobody hears this."] if when == "after" else []))
    client, calls = inside(way, made(way), RAISED[raised], when, lambda n: n == 3)
    assert kinds(ask(way, client)) == [*PAIR, *PAIR, "text"]
    assert turns(messages_api) == ([1, 3, 5, 5] if when == "after" else [1, 3, 5]) and len(calls) == 4
    assert brave_api.queries == ["one", "two"]
    assert statuses() == ["ok", "ok", *([] if raised == "busy" else ["interrupted"]), "ok"]


@WAYS
@pytest.mark.parametrize("raised", RAISED)
def test_middleware_inside_ours_that_always_raises_has_the_attempts_of_one_request(
    messages_api: Any, brave_api: Any, way: str, raised: str
) -> None:
    """Its own error goes to the caller in the end; all money that was held is given back."""
    api.session().settings.session_budget_usd = 1.0
    messages_api.reply(search())
    client, calls = inside(way, made(way, max_retries=2), RAISED[raised], "before", lambda n: n > 1)
    with pytest.raises(type(RAISED[raised]())):
        ask(way, client)
    assert len(calls) == 4 and turns(messages_api) == [1] and brave_api.queries == ["ruby author"]
    assert api.session().budgets.session.reserved == 0


@WAYS
def test_what_the_sdk_would_not_try_again_goes_to_the_caller_as_it_is(messages_api: Any, brave_api: Any, way: str) -> None:
    """The reply that middleware has had is booked, and the call has ended."""
    api.session().settings.session_budget_usd = 1.0
    messages_api.reply(search())
    messages_api.reply("Nobody hears this.")
    client, calls = inside(way, made(way), lambda: KeyError("mine"), "after", lambda n: n == 2)
    with pytest.raises(KeyError, match="mine"):
        ask(way, client)
    assert len(calls) == 2 and statuses() == ["ok", "interrupted"] and api.session().budgets.session.reserved == 0


# --- other middleware around ours -----------------------------------------------------------------------------------


def stubborn(request: Any, call_next: Any) -> Any:
    """Call again by itself."""
    response = call_next(request)
    return call_next(request) if response.status_code == 529 else response


def asks_the_sdk(request: Any, call_next: Any) -> Any:
    """Have the SDK call again."""
    response = call_next(request)
    if response.status_code == 529:
        raise anthropic.RetryableError("busy")
    return response


@pytest.mark.parametrize("around", [stubborn, asks_the_sdk])
def test_middleware_around_ours_that_calls_again_goes_on_from_the_request_that_failed(
    messages_api: Any, brave_api: Any, around: Any
) -> None:
    """One more attempt with a count of its own, or none where the SDK's attempts are used up; nothing is done twice."""
    searching(messages_api, *[error(529)] * 2, *([error(529)] if around is stubborn else []))
    client = made("blocking", max_retries=1 if around is stubborn else 2, middleware=[around])
    assert kinds(ask("blocking", client)) == [*PAIR, *PAIR, "text"]
    assert turns(messages_api) == [1, 3, *[5] * (4 if around is stubborn else 3)] and brave_api.queries == ["one", "two"]


def test_middleware_around_ours_does_not_make_more_of_the_sdks_attempts(messages_api: Any, brave_api: Any) -> None:
    """Used up, they are; the caller gets the error that the request ended with."""
    messages_api.reply(search())
    for _ in range(3):
        messages_api.reply(error(529))
    with pytest.raises(anthropic.InternalServerError, match="529"):
        ask("blocking", made("blocking", max_retries=2, middleware=[asks_the_sdk]))
    assert turns(messages_api) == [1, 3, 3, 3] and brave_api.queries == ["ruby author"]


# --- a body that breaks off -----------------------------------------------------------------------------------------


def half(messages_api: Any, monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """Let the answers to some requests, counted from 1, break off in the middle of their JSON."""
    send = messages_api._send

    async def sent(request: web.Request, received: Any, ready: Any) -> Any:
        answer = await send(request, received, ready)
        if len(messages_api.requests) not in numbers:
            return answer
        head = {"content-type": "application/json", "content-length": str(len(answer.body))}
        begun = web.StreamResponse(status=answer.status, headers=head)
        await begun.prepare(request)
        await begun.write(answer.body[:30])
        await asyncio.sleep(0.05)
        return cut(request, begun)

    monkeypatch.setattr(messages_api, "_send", sent)


@pytest.mark.parametrize("way", ["blocking later", "async later"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_body_that_is_read_later_and_breaks_off_is_a_lost_connection(
    messages_api: Any, brave_api: Any, way: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Booked as lost, and asked for again."""
    half(messages_api, monkeypatch, number)
    for parts in (search("none"), search(), "Matz.")[0 if number == 1 else 1 :]:
        messages_api.reply(parts)
        if number == 2 and parts == "Matz.":
            messages_api.reply("Matz.")
    assert kinds(ask(way, made(way))) == [*PAIR, "text"] and brave_api.queries == ["ruby author"]
    assert statuses() == (["interrupted", "ok", "ok"] if number == 1 else ["ok", "interrupted", "ok"])


@pytest.mark.parametrize("way", ["blocking later", "async later"])
def test_a_body_that_always_breaks_off_has_the_attempts_of_one_request(
    messages_api: Any, brave_api: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is the error that the SDK has for a lost connection."""
    half(messages_api, monkeypatch, 2, 3)
    for parts in (search(), "Matz.", "Matz."):
        messages_api.reply(parts)
    with pytest.raises(anthropic.APIConnectionError):
        ask(way, made(way, max_retries=1))
    assert turns(messages_api) == [1, 3, 3] and statuses() == ["ok", "interrupted", "interrupted"]


@pytest.mark.parametrize("way", ["blocking later", "async later", "blocking stream", "async stream"])
def test_an_error_whose_text_breaks_off_is_that_error(
    messages_api: Any, brave_api: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its status says whether it is asked again, and nothing is booked for it."""
    half(messages_api, monkeypatch, 2, 4)
    for parts in (search("one"), error(529), search("two"), error(400)):
        messages_api.reply(parts)
    with pytest.raises(anthropic.APIStatusError, match="400"):
        ask(way, made(way))
    assert turns(messages_api) == [1, 3, 3, 5] and statuses() == ["ok", "ok"]


# --- what the server says -------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize(("told", "sent"), [("true", 3), ("false", 2)])
def test_the_server_says_whether_a_later_request_is_sent_again(
    messages_api: Any, brave_api: Any, way: str, told: str, sent: int
) -> None:
    """`x-should-retry`, in both directions, as for the first."""
    messages_api.reply(search())
    messages_api.reply(error(400 if told == "true" else 529, headers={"x-should-retry": told}))
    if told == "true":
        messages_api.reply("Matz.")
        assert kinds(ask(way, made(way))) == [*PAIR, "text"]
    else:
        with pytest.raises(anthropic.APIStatusError):
            ask(way, made(way))
    assert len(messages_api.requests) == sent


# --- other event loops ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("host", [False, True], ids=["alone", "in asyncio's callbacks"])
def test_another_event_loop_is_refused_before_anything_is_sent(
    messages_api: Any, brave_api: Any, stream: bool, host: bool
) -> None:
    """As under trio, which has its own or is driven by asyncio's: no task of asyncio runs the call."""
    client = made("async", max_retries=0)

    def drive() -> None:
        call = client.messages.stream(**ASKED).__aenter__() if stream else client.messages.create(**ASKED)
        with pytest.raises(ConfigError, match="needs asyncio"):
            call.send(None)

    async def hosted() -> None:
        done = asyncio.get_running_loop().create_future()

        def callback() -> None:
            try:
                done.set_result(drive())
            except BaseException as exc:
                done.set_exception(exc)

        asyncio.get_running_loop().call_soon(callback)
        await done

    async def first() -> Any:
        return await client.messages.create(**ASKED)  # the SDK looks at the machine only once

    messages_api.reply("Matz.")
    asyncio.run(first())
    asyncio.run(hosted()) if host else drive()
    assert len(messages_api.requests) == 1 and api.session().budgets.session.reserved == 0


# --- a stream that is an error from the beginning -------------------------------------------------------------------


@STREAMS
@pytest.mark.parametrize("after", [0, 1])
def test_a_stream_that_begins_with_an_error_is_a_refusal_and_costs_nothing(
    messages_api: Any, brave_api: Any, way: str, after: int
) -> None:
    """As a status 529, which it stands for; what is held for it is held for the next attempt."""
    api.session().settings.session_budget_usd = 1.0
    queue: list[Any] = [search(), "Matz."]
    queue.insert(after, ("Matz.", error_event(0)))
    for parts in queue:
        messages_api.reply(*(parts if isinstance(parts, tuple) else (parts,)))
    assert kinds(ask(way, made(way))) == [*PAIR, "text"]
    assert statuses() == ["ok", "ok"] and api.session().budgets.session.reserved == 0


@STREAMS
def test_what_is_refused_to_the_end_gives_its_money_back(messages_api: Any, brave_api: Any, way: str) -> None:
    """Text was written before: it does not keep the refused request from being sent again."""
    api.session().settings.session_budget_usd = 1.0
    session = api.session().budgets.session
    messages_api.reply("Let me look.", search())
    for _ in range(3):
        messages_api.reply("Matz.", error_event(0))
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        ask(way, made(way, max_retries=2))
    spent = api.session().ledger.frame(session=api.session().id)
    assert statuses() == ["ok"] and len(messages_api.requests) == 4
    assert session.reserved == 0 and session.cut_off == 0 and len(spent) == 2


@STREAMS
def test_a_stream_that_ends_before_it_begins_is_lost(messages_api: Any, brave_api: Any, way: str) -> None:
    """Nobody said that it is refused: each is booked, as it may be billed."""
    messages_api.reply("Let me look.", search())
    for _ in range(2):
        messages_api.reply("Matz.", truncated(0))
    messages_api.reply("Matz.")
    assert kinds(ask(way, made(way))) == ["text", *PAIR, "text"]
    assert statuses() == ["ok", "interrupted", "interrupted", "ok"]


PING = b'event: ping\ndata: {"type": "ping"}\n\n'
REFUSED = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'


def begins(messages_api: Any, monkeypatch: pytest.MonkeyPatch, number: int, data: bytes, *, ends: bool) -> list[float]:
    """Let a request be answered with such a beginning of a stream, and nothing else; gives when that was."""
    send, began = messages_api._send, list[float]()

    async def sent(request: web.Request, received: Any, ready: Any) -> Any:
        if len(messages_api.requests) != number:
            return await send(request, received, ready)
        begun = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await begun.prepare(request)
        await begun.write(data)
        began.append(time.monotonic())
        while not ends and request.transport is not None:
            await asyncio.sleep(0.02)
        return begun

    monkeypatch.setattr(messages_api, "_send", sent)
    return began


@STREAMS
def test_a_ping_is_not_the_beginning_of_a_reply(
    messages_api: Any, brave_api: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is refused after one is refused all the same."""
    begins(messages_api, monkeypatch, 2, PING + REFUSED, ends=True)
    for parts in (search(), "Nobody hears this.", "Matz."):
        messages_api.reply(parts)
    assert kinds(ask(way, made(way))) == [*PAIR, "text"] and statuses() == ["ok", "ok"]


def test_a_stream_that_is_closed_before_it_begins_is_lost(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader has seen a ping, which goes through at once, and waits no longer."""
    begins(messages_api, monkeypatch, 1, PING, ends=False)
    messages_api.reply("Nobody hears this.")
    with made("blocking") as client, client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
        assert next(response.iter_lines()) == "event: ping"
    assert statuses() == ["interrupted"]


def test_a_stream_that_is_cancelled_before_it_begins_is_lost(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing but the head of a later reply is there."""
    began = begins(messages_api, monkeypatch, 2, PING, ends=False)
    messages_api.reply(search())
    messages_api.reply("Nobody hears this.")

    async def read(stream: Any) -> None:
        async for _ in stream:
            pass

    async def run() -> None:
        async with made("async") as client:
            stream = await client.messages.create(**ASKED, stream=True)
            reader = asyncio.create_task(read(stream))
            while not began or time.monotonic() < began[0] + 0.1:
                await asyncio.sleep(0.01)
            reader.cancel()
            await asyncio.wait([reader])
            await stream.close()

    asyncio.run(run())
    assert statuses() == ["ok", "interrupted"]
