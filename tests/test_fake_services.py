"""The fake Messages API: the prompt cache, token counts, models, batches and load, seen through the official SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import anthropic
import pytest

from tests.fakes.messages_api import MessagesAPI
from tests.fakes.replies import usage
from tests.rule_cases import body, tool, user, words


@pytest.fixture
def api(messages_api: MessagesAPI) -> MessagesAPI:
    """The shared fixture under a short name."""
    return messages_api


@pytest.fixture
def client(api: MessagesAPI) -> Iterator[anthropic.Anthropic]:
    """The official client, pointed at the fake."""
    with anthropic.Anthropic(api_key=api.key, base_url=api.url) as made:
        yield made


def test_the_prompt_cache_is_written_read_and_missed(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """A second request with the same prefix reads it; a changed tool or tool_choice loses what comes after."""
    api.behave(lambda request: "ok")
    system = [words("rule " * 2000, cache_control={"type": "ephemeral"})]
    first, again, other_tools, other_choice = (
        client.messages.create(**body(system=system, **more)).usage
        for more in (
            {"tools": [tool()]},
            {"tools": [tool()]},
            {"tools": [tool("other")]},
            {"tools": [tool()], "tool_choice": {"type": "none"}},
        )
    )
    assert first.cache_creation_input_tokens > 2000 and first.cache_read_input_tokens == 0
    assert again.cache_read_input_tokens == first.cache_creation_input_tokens and again.cache_creation_input_tokens == 0
    assert again.input_tokens == first.input_tokens < 20
    assert other_tools.cache_read_input_tokens == 0
    assert other_choice.cache_read_input_tokens == first.cache_creation_input_tokens, "tools and system come before it"


def test_a_moving_breakpoint_reads_what_the_last_one_wrote(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """A growing conversation reads the former prefix if it is at most 20 blocks away; short ones are not kept."""
    api.behave(lambda request: "ok")
    mark = {"cache_control": {"type": "ephemeral"}}
    start = [words("fact " * 2000, **mark)]
    wrote = client.messages.create(**body(user(*start))).usage.cache_creation_input_tokens
    near = client.messages.create(**body(user(words("fact " * 2000), *map(words, "abcdefgh"), words("i", **mark)))).usage
    assert near.cache_read_input_tokens == wrote and near.cache_creation_input_tokens > 0
    far = [words(str(n)) for n in range(30)]
    assert (
        client.messages.create(**body(user(words("fact " * 2000), *far, words("i", **mark)))).usage.cache_read_input_tokens == 0
    )
    assert client.messages.create(**body(user(words("short", **mark)))).usage.cache_creation_input_tokens == 0


def test_cached_prefixes_expire(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """Five minutes after the last use a prefix is gone; with ttl 1h it stays, and is counted apart."""
    api.behave(lambda request: "ok")
    now = [0.0]
    api.cache.clock = lambda: now[0]
    for ttl, field, still in (("5m", "ephemeral_5m_input_tokens", False), ("1h", "ephemeral_1h_input_tokens", True)):
        request = body(user(words(f"{ttl} " * 3000, cache_control={"type": "ephemeral", "ttl": ttl})))
        assert getattr(client.messages.create(**request).usage.cache_creation, field) > 2000
        now[0] += 301
        assert (client.messages.create(**request).usage.cache_read_input_tokens > 0) is still


def test_tokens_are_counted_without_an_answer(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """count_tokens agrees with the usage of the same request."""
    api.reply("ok", usage(inference_geo="us"))
    request = body(user("How many?"), tools=[tool()])
    counted = client.messages.count_tokens(**{k: v for k, v in request.items() if k != "max_tokens"})
    message = client.messages.create(**request)
    assert counted.input_tokens == message.usage.input_tokens > 10
    assert message.usage.inference_geo == "us"


def test_models_are_listed_with_what_they_can_do(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """The models endpoint names the models that requests may name."""
    names = [model.id for model in client.models.list()]
    assert {"claude-sonnet-5-5", "claude-haiku-5-5"} <= set(names)
    assert client.models.retrieve("claude-sonnet-5-5").capabilities.server_tools.web_search.supported
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("claude-nobody")


def test_a_batch_is_answered_request_by_request(client: anthropic.Anthropic, api: MessagesAPI) -> None:
    """A batch is in progress, then ends; a refused request is an error of its own, the others succeed."""
    api.batches.polls, api.allow_refusals = 1, True
    api.behave(lambda request: request["messages"][0]["content"].upper())
    good = {"custom_id": "a", "params": body(user("one"))}
    bad = {"custom_id": "b", "params": body(user("two"), max_tokens=0)}
    batch = client.messages.batches.create(requests=[good, bad])
    assert client.messages.batches.retrieve(batch.id).processing_status == "in_progress"
    ended = client.messages.batches.retrieve(batch.id)
    assert (ended.processing_status, ended.request_counts.succeeded, ended.request_counts.errored) == ("ended", 1, 1)
    results = {entry.custom_id: entry.result for entry in client.messages.batches.results(batch.id)}
    assert results["a"].message.content[0].text == "ONE" and results["a"].message.usage.service_tier == "batch"
    assert results["b"].error.error.type == "invalid_request_error"


def test_many_requests_are_served_at_once(api: MessagesAPI) -> None:
    """The asynchronous client over aiohttp: fifty requests that each wait 50 ms take far less than fifty waits."""
    api.latency_s = 0.05
    api.behave(lambda request: request["messages"][0]["content"])

    async def ask_all() -> list[str]:
        transport = anthropic.DefaultAioHttpClient()
        async with anthropic.AsyncAnthropic(api_key=api.key, base_url=api.url, http_client=transport) as client:
            replies = await asyncio.gather(*[client.messages.create(**body(user(str(n)))) for n in range(50)])
        return [reply.content[0].text for reply in replies]

    assert asyncio.run(ask_all()) == [str(n) for n in range(50)]
    assert api.most_active > 10
