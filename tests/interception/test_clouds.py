"""Interception on the clouds, with each one's own client over real HTTP: whole and streamed, blocking and async."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from ipy_websearch.interception import intercept
from tests.fakes.clouds import ACCESS_KEY, REGION, SECRET_KEY, Clouds
from tests.fakes.replies import error, text, thinking, tool_use

pytest.importorskip("botocore")

MODEL = "claude-sonnet-5-5"
BLOCKS = ["thinking", "text", "server_tool_use", "web_search_tool_result", "text"]
ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [{"type": "web_search_20260318", "name": "web_search", "max_uses": 3}],
}


@pytest.fixture
def clouds(brave_api: Any) -> Iterator[Clouds]:
    """The fake of all three."""
    with Clouds() as api:
        yield api
        api.check()


def client(kind: str, api: Clouds) -> Any:
    """Return a cloud's client that points at the fake."""
    made = getattr(anthropic, kind)
    if "Bedrock" in kind:
        return made(api_key=api.key, aws_region=REGION, base_url=api.url)
    if "Vertex" in kind:
        return made(region="us-east5", project_id="p", access_token="t", base_url=f"{api.url}/v1")
    return made(api_key="k", base_url=f"{api.url}/anthropic/")


def script(api: Clouds) -> None:
    """Queue a search and an answer, with a busy moment between them."""
    api.reply(thinking(), "Let me look.", tool_use("ipy_web_search", {"query": "ruby author"}))
    api.reply(error(529))
    api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))


def check(message: Any, words: str) -> None:
    """Check what every cloud's reply has."""
    assert [block.type for block in message.content] == BLOCKS and words == "Let me look.Matz wrote Ruby."
    assert message.content[-1].citations[0].type == "web_search_result_location"
    assert message.usage.server_tool_use.web_search_requests == 1 and message.stop_reason == "end_turn"


@pytest.mark.parametrize("kind", ["AnthropicBedrock", "AnthropicVertex", "AnthropicFoundry"])
def test_a_clouds_client_searches(clouds: Clouds, kind: str, brave_api: Any) -> None:
    """Whole, streamed, and through `beta.messages`."""
    with intercept(client(kind, clouds), provider="brave") as made:
        for messages in (made.messages, made.beta.messages):
            script(clouds)
            whole = messages.create(**ASKED)
            check(whole, "".join(block.text for block in whole.content if block.type == "text"))
            script(clouds)
            with messages.stream(**ASKED) as stream:
                words = "".join(stream.text_stream)
                check(stream.get_final_message(), words)
            script(clouds)
            events = list(messages.create(**ASKED, stream=True))
            assert [e.content_block.type for e in events if e.type == "content_block_start"] == BLOCKS
    assert brave_api.queries == ["ruby author"] and len(clouds.requests) == 18


@pytest.mark.parametrize("kind", ["AsyncAnthropicBedrock", "AsyncAnthropicVertex", "AsyncAnthropicFoundry"])
def test_a_clouds_async_client_searches(clouds: Clouds, kind: str) -> None:
    """The same, several at once where they are whole."""

    async def run() -> None:
        async with intercept(client(kind, clouds), provider="brave") as made:
            for messages in (made.messages, made.beta.messages):
                script(clouds)
                whole = await messages.create(**ASKED)
                check(whole, "".join(block.text for block in whole.content if block.type == "text"))
                script(clouds)
                async with messages.stream(**ASKED) as stream:
                    words = "".join([piece async for piece in stream.text_stream])
                    check(await stream.get_final_message(), words)

    asyncio.run(run())


def test_every_request_to_bedrock_is_signed_anew(clouds: Clouds) -> None:
    """Each hop has another body, so each has a signature of its own; the fake checks them."""
    pytest.importorskip("boto3")
    keys = {"aws_access_key": ACCESS_KEY, "aws_secret_key": SECRET_KEY, "aws_region": REGION}
    with intercept(anthropic.AnthropicBedrock(**keys, base_url=clouds.url), provider="brave") as made:
        script(clouds)
        with made.messages.stream(**ASKED) as stream:
            assert stream.get_final_text() == "Let me look.Matz wrote Ruby."
    assert len(clouds.signatures) == 3 and len(set(clouds.signatures)) >= 2


def test_a_cloud_refuses_the_tool_that_is_not_converted(clouds: Clouds) -> None:
    """What a client that is not intercepted gets: so the fake would tell."""
    clouds.allow_refusals = True
    with pytest.raises(anthropic.BadRequestError, match="does not match any of the expected tags"):
        client("AnthropicBedrock", clouds).messages.create(**ASKED)
