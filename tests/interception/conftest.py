"""The client that most tests of interception ask, and the ways to ask it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import pytest

from ipy_websearch.interception import intercept
from tests.fakes.clouds import ACCESS_KEY, REGION, SECRET_KEY
from tests.fakes.replies import Content, tool_use

MODEL = "claude-sonnet-5-5"
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
FETCH: dict[str, Any] = {"type": "web_fetch_20250910", "name": "web_fetch"}
WEATHER = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
QUESTION = [{"role": "user", "content": "Who wrote Ruby?"}]
ASKED: dict[str, Any] = {"model": MODEL, "max_tokens": 1000, "messages": QUESTION, "tools": [SEARCH]}
PAIR = ["server_tool_use", "web_search_tool_result"]
MARS = "corpus://planets/mars"
THINKING = {"type": "adaptive"}
# The arguments of the clouds' clients at an address.
CLOUDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "Bedrock": lambda url: {
        "aws_access_key": ACCESS_KEY,
        "aws_secret_key": SECRET_KEY,
        "aws_region": REGION,
        "base_url": url,
    },
    "Vertex": lambda url: {"region": "us-east5", "project_id": "p", "access_token": "t", "base_url": f"{url}/v1"},
    "Foundry": lambda url: {"api_key": "k", "base_url": f"{url}/anthropic/"},
}


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(), provider="brave") as made:
        yield made


def ask(client: Any, way: str = "", **more: Any) -> Any:
    """Return the message: of a blocking or an async client, whole or put together from its stream, as `way` says."""
    asked = {**ASKED, **more}

    async def wait() -> Any:
        async with client:
            if "stream" not in way:
                return await client.messages.create(**asked)
            async with client.messages.stream(**asked) as stream:
                return await stream.get_final_message()

    if "async" in way:
        return asyncio.run(wait())
    if "stream" not in way:
        return client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        return stream.get_final_message()


def search(query: str = "ruby author") -> Content:
    """Return the part of a reply that searches."""
    return tool_use("ipy_web_search", {"query": query})


def fetch(url: str = MARS) -> Content:
    """Return the part of a reply that reads a page."""
    return tool_use("ipy_web_fetch", {"url": url})


def kinds(message: Any) -> list[str]:
    """Return the types of a message's blocks."""
    return [block.type for block in message.content]


def found(message: Any) -> list[Any]:
    """Return the contents of the web results in a message."""
    return [block.content for block in message.content if block.type.endswith("_tool_result")]


def going_on(message: Any, *more: Any) -> list[Any]:
    """Return the history with a reply in it and what the user says to it."""
    content = [block.to_dict() for block in message.content]
    return [*QUESTION, {"role": "assistant", "content": content}, {"role": "user", "content": list(more) or "Sure?"}]
