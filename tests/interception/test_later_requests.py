"""Later requests of an intercepted call that fail: sent again by themselves, booked once, and never the whole loop again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic.lib.credentials import AccessToken

import ipy_websearch as web
from tests.fakes.replies import error, hang_up, search_results, thinking, tool_use, truncated, usage

ASKED: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 500,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [{"type": "web_search_20250305", "name": "web_search"}],
}
PAIR = ["server_tool_use", "web_search_tool_result"]
WAYS = pytest.mark.parametrize("way", ["blocking", "async", "blocking stream", "async stream"])


def made(way: str, **options: Any) -> Any:
    """Return an intercepted client."""
    kind: Any = anthropic.AsyncAnthropic if "async" in way else anthropic.Anthropic
    return web.intercept(kind(**{"timeout": 20, **options}), provider="brave")


def ask(way: str, client: Any, **more: Any) -> Any:
    """Return the message, whole or put together from its stream."""

    async def wait() -> Any:
        async with client:
            if "stream" not in way:
                return await client.messages.create(**{**ASKED, **more})
            async with client.messages.stream(**{**ASKED, **more}) as stream:
                return await stream.get_final_message()

    if "async" in way:
        return asyncio.run(wait())
    with client:
        if "stream" not in way:
            return client.messages.create(**{**ASKED, **more})
        with client.messages.stream(**{**ASKED, **more}) as stream:
            return stream.get_final_message()


def kinds(message: Any) -> list[str]:
    """Return the types of a message's blocks."""
    return [block.type for block in message.content]


def search(query: str = "ruby author") -> Any:
    """Return the part of a reply that searches."""
    return tool_use("ipy_web_search", {"query": query})


@WAYS
@pytest.mark.parametrize("failure", ["busy", "lost"])
def test_a_later_request_is_sent_as_often_as_the_client_says(messages_api: Any, brave_api: Any, way: str, failure: str) -> None:
    failing = error(529) if failure == "busy" else hang_up()
    messages_api.reply(search())
    for _ in range(3):
        messages_api.reply(failing)
    with pytest.raises(anthropic.APIError):
        ask(way, made(way, max_retries=2))
    assert len(messages_api.requests) == 4 and brave_api.queries == ["ruby author"]
    for reply in (search("ruby year"), failing, failing, "Matz."):
        messages_api.reply(reply)
    assert kinds(ask(way, made(way, max_retries=2))) == [*PAIR, "text"]
    assert list(web.cost().kind).count("search") == 2


@WAYS
def test_a_token_that_expires_is_renewed_and_the_same_request_goes_on(
    messages_api: Any, brave_api: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    given: list[str] = []

    def now(*, force_refresh: bool = False) -> AccessToken:
        given.append(f"token {len(given) + 1}")
        return AccessToken(token=given[-1], expires_at=int(time.time()) + 100_000)

    async def later(*, force_refresh: bool = False) -> AccessToken:
        return now()

    replies = iter([search("one"), search("two"), error(401), "Matz."])

    def reply(body: Any) -> Any:
        messages_api.key = "token 2" if len(body["messages"]) == 5 else "token 1"
        return next(replies)

    messages_api.key = "token 1"
    messages_api.behave(reply)
    client = made(way, credentials=later if "async" in way else now)
    assert kinds(ask(way, client)) == [*PAIR, *PAIR, "text"]
    assert [len(body["messages"]) for body in messages_api.bodies] == [1, 3, 5, 5]
    assert len(given) == 2 and brave_api.queries == ["one", "two"]


@pytest.mark.parametrize("way", ["blocking stream", "async stream"])
def test_a_later_reply_that_breaks_before_its_first_word_is_asked_for_again(
    messages_api: Any, brave_api: Any, way: str
) -> None:
    messages_api.reply(search())
    messages_api.reply("Matz.", truncated(0))
    messages_api.reply("Matz.")
    assert ask(way, made(way)).content[-1].text == "Matz." and brave_api.queries == ["ruby author"]


def test_a_request_that_found_nobody_costs_nothing_and_a_lost_one_is_booked_once(messages_api: Any, brave_api: Any) -> None:
    with pytest.raises(anthropic.APIConnectionError):
        ask("blocking", made("blocking", base_url="http://127.0.0.1:9", max_retries=0))
    assert len(web.cost()) == 0
    messages_api.reply(hang_up())
    with pytest.raises(anthropic.APIConnectionError):
        ask("blocking", made("blocking", max_retries=0))
    assert list(web.cost().kind) == ["model"]


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A session that has money for little more than one request at a time."""
    monkeypatch.setenv("IPY_WEBSEARCH_SESSION_BUDGET_USD", "0.03")
    yield


def test_a_call_without_money_for_more_ends_with_what_it_has(small_budget: None, messages_api: Any, brave_api: Any) -> None:
    spent = usage(input_tokens=4000, output_tokens=20)

    def reply(body: Any) -> Any:
        last = body.get("tool_choice", {}).get("type") == "none"
        return ["What I have.", spent] if last else [search(f"query {len(body['messages'])}"), spent]

    messages_api.behave(reply)
    message = ask("blocking", made("blocking"))
    assert message.content[-1].type == "text" and web.cost().usd.sum() <= 0.03


def test_thinking_of_another_process_that_is_refused_is_left_out_once(messages_api: Any, brave_api: Any) -> None:
    messages_api.reply(thinking("Where?"), search())
    messages_api.reply("Matz.")
    first = ask("blocking", made("blocking"), thinking={"type": "adaptive"})
    content = [block.to_dict() for block in first.content]
    next(block for block in content if block["type"] == "thinking")["signature"] = "changed"
    messages_api.allow_refusals = True
    messages_api.reply("In Japan.")
    turns = [{"role": "assistant", "content": content}, {"role": "user", "content": "Where does he live?"}]
    again = ask("blocking", made("blocking"), messages=[*ASKED["messages"], *turns], thinking={"type": "adaptive"})
    assert again.content[-1].text == "In Japan." and search_results(messages_api.bodies[-1])
