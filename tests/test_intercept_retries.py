"""Later requests of an intercepted call that fail: how often they are sent, what is booked for each, and what may be spent."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import anthropic
import pytest

from ipy_websearch import api
from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.model.requests import estimate_tokens
from ipy_websearch.pricing import worst_case
from tests.fakes.replies import delay, error, hang_up, truncated, usage
from tests.intercepting import ASKED, PAIR, WAYS, ask, at_once, kinds, made, search, statuses  # noqa: F401

MODEL = "claude-sonnet-5-5"

# --- how often ------------------------------------------------------------------------------------------------------

FAILURES = {"busy": (error(529),), "timed out": ("Too late.", delay(0.6)), "lost": (hang_up(),)}


def limits(failure: str) -> dict[str, Any]:
    """Return the options of a client for which that is a failure."""
    return {"timeout": 0.3} if failure == "timed out" else {}


@WAYS
@pytest.mark.parametrize("retries", [0, 3])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_later_request_is_sent_as_often_as_the_client_says(
    messages_api: Any, brave_api: Any, way: str, retries: int, failure: str
) -> None:
    """All attempts together, whoever makes them: ours and the SDK's do not multiply; nothing before is done again."""
    messages_api.reply(search())
    for _ in range(retries + 1):
        messages_api.reply(*FAILURES[failure])
    with pytest.raises(anthropic.APIError) as caught:
        ask(way, made(way, max_retries=retries, **limits(failure)))
    if "stream" not in way:
        kind = {"busy": anthropic.APIStatusError, "timed out": anthropic.APITimeoutError, "lost": anthropic.APIConnectionError}
        assert isinstance(caught.value, kind[failure])
    assert len(messages_api.requests) == retries + 2 and brave_api.queries == ["ruby author"]
    assert statuses() == ["ok", *(["interrupted"] * (retries + 1) if failure != "busy" else [])]
    assert api.session().budgets.session.reserved == 0


@WAYS
@pytest.mark.parametrize("failure", FAILURES)
def test_the_last_attempt_may_succeed(messages_api: Any, brave_api: Any, way: str, failure: str) -> None:
    """Those before it are booked each, where they may be billed."""
    messages_api.reply(search())
    for _ in range(2):
        messages_api.reply(*FAILURES[failure])
    messages_api.reply("Matz.")
    assert kinds(ask(way, made(way, **limits(failure)))) == [*PAIR, "text"]
    lost = ["interrupted"] * 2 if failure != "busy" else []
    assert statuses() == ["ok", *lost, "ok"] and brave_api.queries == ["ruby author"]


@WAYS
def test_each_request_has_all_its_attempts(messages_api: Any, brave_api: Any, way: str) -> None:
    """What the first needed is not taken from the second, and failures of all kinds count together."""
    for first in (True, False):
        messages_api.reply(error(529))
        messages_api.reply(error(529) if first else hang_up())
        messages_api.reply(search() if first else "Matz.")
    assert kinds(ask(way, made(way, max_retries=2))) == [*PAIR, "text"]
    assert len(messages_api.requests) == 6


def test_a_copy_of_the_client_has_its_own_number(messages_api: Any, brave_api: Any) -> None:
    """`with_options` after `intercept`: the copy has the same middleware."""
    client = made("blocking", max_retries=0)
    for retries in (2, 0):
        messages_api.reply(search(f"query {retries}"))
        for _ in range(retries + 1):
            messages_api.reply(error(529))
        before = len(messages_api.requests)
        with pytest.raises(anthropic.APIStatusError):
            client.with_options(max_retries=retries).messages.create(**ASKED)
        assert len(messages_api.requests) - before == retries + 2
    client.close()


def test_a_reply_that_breaks_off_and_one_that_fails_count_together(messages_api: Any, brave_api: Any) -> None:
    """Three in all, with two retries; then the stream ends in the error."""
    messages_api.reply(search())
    messages_api.reply("Matz.", truncated(0))
    messages_api.reply(error(529))
    messages_api.reply("Matz.", truncated(0))
    with pytest.raises(anthropic.APIStatusError, match="ended too soon"):
        ask("blocking stream", made("blocking", max_retries=2))
    assert len(messages_api.requests) == 4


@pytest.mark.parametrize("way", ["blocking", "async"])
def test_middleware_around_ours_changes_nothing_of_it(messages_api: Any, brave_api: Any, way: str) -> None:
    """It might ask for something else when it is called again, so a later request is sent again without it."""
    calls = []

    def around(request: Any, call_next: Any) -> Any:
        calls.append(request.retries_taken)
        return call_next(request)

    async def around_async(request: Any, call_next: Any) -> Any:
        calls.append(request.retries_taken)
        return await call_next(request)

    middleware = [around_async if way == "async" else around]
    messages_api.reply(search())
    for _ in range(2):
        messages_api.reply(hang_up())
    messages_api.reply("Matz.")
    assert kinds(ask(way, made(way, middleware=middleware))) == [*PAIR, "text"] and calls == [0]
    messages_api.reply(search("again"))
    for _ in range(3):
        messages_api.reply(hang_up())
    with pytest.raises(anthropic.APIConnectionError):
        ask(way, made(way, middleware=middleware))
    assert len(messages_api.requests) == 8 and brave_api.queries == ["ruby author", "again"]


def test_middleware_that_tries_again_itself_goes_on_where_it_was(messages_api: Any, brave_api: Any) -> None:
    """The same request under the same key is the same call; another model's is another."""

    def stubborn(request: Any, call_next: Any) -> Any:
        try:
            return call_next(request)
        except anthropic.APIConnectionError:
            return call_next(request)

    def otherwise(request: Any, call_next: Any) -> Any:
        try:
            return call_next(request)
        except anthropic.APIConnectionError:
            return call_next(request.copy(body={**request.json, "model": "claude-opus-4-8"}))

    for middleware, asked in ((stubborn, [1, 3, 3]), (otherwise, [1, 3, 1])):
        messages_api.reply(search())
        messages_api.reply(hang_up())
        messages_api.reply("Matz.")
        message = ask("blocking", made("blocking", max_retries=0, middleware=[middleware]))
        assert message.content[-1].text == "Matz."
        assert [len(body["messages"]) for body in messages_api.bodies[-3:]] == asked


# --- what may be spent ----------------------------------------------------------------------------------------------

BIG = [{"role": "user", "content": "word " * 40_000}]
TOKENS = estimate_tokens({"messages": BIG})
READ = usage(input_tokens=TOKENS, output_tokens=10)


@pytest.fixture
def one() -> Iterator[Decimal]:
    """What a request may cost at most."""
    cost = worst_case(MODEL, TOKENS, 500, caching=True)
    assert cost is not None
    yield cost


def limited(usd: Decimal) -> Any:
    """Set the session's ceiling, and return it."""
    api.session().settings.session_budget_usd = float(usd)
    return api.session().budgets.session


@pytest.mark.parametrize(
    ("way", "broken"),
    [
        *((way, (hang_up(),)) for way in ("blocking", "async", "blocking stream", "async stream")),
        *((way, ("Matz.", READ, truncated(0))) for way in ("blocking stream", "async stream")),
    ],
    ids=["blocking", "async", "blocking stream", "async stream", "blocking broken stream", "async broken stream"],
)
@pytest.mark.parametrize("share", [2.2, 3.0, 6.0])
def test_a_request_that_is_sent_again_is_paid_for_again(
    messages_api: Any, brave_api: Any, way: str, broken: Any, share: float, one: Decimal
) -> None:
    """Each time money is held before it goes out; when there is no more, the call ends with what it has."""
    sent = 0

    def reply(body: Any) -> Any:
        nonlocal sent
        sent += 1
        return (search(), READ) if sent == 1 else broken if sent < 5 else ("Matz.", READ)

    messages_api.behave(reply)
    session = limited(one * Decimal(str(share)))
    ended: Any = None
    try:
        ended = ask(way, made(way, max_retries=5), messages=BIG)
    except anthropic.APIError as exc:
        assert sent == 6, exc
    assert session.spent <= session.limit and session.reserved == 0
    if sent < 5:
        assert ended.stop_reason == "pause_turn" and kinds(ended) == PAIR
    assert 1 < sent <= (5 if share == 6.0 else 4)


@WAYS
def test_a_call_that_goes_on_has_money_for_its_answer(messages_api: Any, brave_api: Any, way: str, one: Decimal) -> None:
    """What was given back when the connection was lost is held again, while it goes on."""
    held: list[Decimal] = []
    session = limited(one * 5)

    def reply(body: Any) -> Any:
        held.append(session.reserved)
        return [(search(), READ), (hang_up(),), ("Matz.", READ)][len(held) - 1]

    messages_api.behave(reply)
    assert kinds(ask(way, made(way, max_retries=1), messages=BIG)) == [*PAIR, "text"]
    assert min(held) >= one * 2 and session.reserved == 0


@WAYS
def test_a_first_reply_that_breaks_off_needs_money_too(messages_api: Any, brave_api: Any, way: str, one: Decimal) -> None:
    """There is nothing yet to end with: the error says what it would take."""
    messages_api.reply(*(("Matz.", READ, truncated(0)) if "stream" in way else (hang_up(),)))
    session = limited(one * Decimal("1.6"))
    with pytest.raises((BudgetExceededError, anthropic.APIStatusError), match="budget"):
        ask(way, made(way, max_retries=5), messages=BIG)
    assert len(messages_api.requests) == 1 and session.reserved == 0 and session.spent <= session.limit


# --- thinking under a ceiling ---------------------------------------------------------------------------------------


@WAYS
def test_thinking_has_its_budget_under_a_ceiling_or_nothing_is_sent(messages_api: Any, brave_api: Any, way: str) -> None:
    """`max_tokens` stays above `budget_tokens`, in the last request too."""
    more: dict[str, Any] = {"model": "claude-sonnet-4-6", "max_tokens": 16_000, "timeout": 20}
    more["thinking"] = {"type": "enabled", "budget_tokens": 10_000}
    whole = worst_case("claude-sonnet-4-6", 2_000, 16_000, caching=True)
    assert whole is not None
    limited(whole * Decimal("0.45"))
    with pytest.raises(BudgetExceededError):
        ask(way, made(way, max_retries=0), **more)
    assert messages_api.requests == []
    session = limited(whole * Decimal("1.6"))
    messages_api.behave(lambda body: search() if len(messages_api.bodies) == 1 else "Matz.")
    message = ask(way, made(way, max_retries=0), **more)
    assert kinds(message) == [*PAIR, "text"] and session.spent <= session.limit
    granted = [body["max_tokens"] for body in messages_api.bodies]
    assert len(granted) == 2 and all(10_000 < tokens <= 16_000 for tokens in granted) and granted[0] < 16_000
