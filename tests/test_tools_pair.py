"""The tool set `pair`: two searches with one schema, each going to its own engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from ipy_websearch.errors import MissingKeyError
from tests.fakes.engines import hit
from tests.fakes.replies import tool_use

DESCRIPTION = (
    "Search the web using {} and use the results to inform responses. Provides up-to-date information for current events and "
    "recent data. Returns search result information formatted as search result blocks, including links as markdown hyperlinks."
)
PARAMETERS = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "The search query to use", "minLength": 2},
        "allowed_domains": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Only include search results from these domains",
        },
        "blocked_domains": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Never include search results from these domains",
        },
    },
    "required": ["query"],
}


@pytest.fixture
def google(engine: Callable[[str], Any]) -> Any:
    """The fake of Google Custom Search."""
    return engine("google")


def ask(session: Any, messages_api: Any, *calls: Any, **options: Any) -> Any:
    """Let the model make these calls in one reply and then answer; return the answer."""
    if calls:
        messages_api.reply(*calls)
    messages_api.reply("Done.")

    async def main() -> Any:
        try:
            return await session.ask("Who wrote Ruby?", **{"tools": "pair", **options})
        finally:
            await session.aclose()

    return asyncio.run(main())


def results_of(messages_api: Any) -> list[dict[str, Any]]:
    """Return the tool results that the model got last."""
    return [block for block in messages_api.bodies[-1]["messages"][-1]["content"] if block["type"] == "tool_result"]


def sources(result: dict[str, Any]) -> list[str]:
    """Return the addresses of a result's blocks."""
    return [block["source"] for block in result["content"]]


def test_the_schemas_are_the_specified_ones(messages_api: Any, session: Any, google: Any) -> None:
    """Word for word those of seed 002."""
    ask(session, messages_api)
    tools = {tool["name"]: tool for tool in messages_api.bodies[0]["tools"]}
    assert list(tools) == ["web_search_brave", "web_search_google", "web_fetch"]
    assert tools["web_search_brave"] == {
        "name": "web_search_brave",
        "description": DESCRIPTION.format("Brave Search API"),
        "input_schema": PARAMETERS,
    }
    assert tools["web_search_google"]["description"] == DESCRIPTION.format("Google Custom Search API")


def test_the_two_differ_in_nothing_but_their_names(messages_api: Any, session: Any, google: Any) -> None:
    """Byte for byte, once the tool's and the engine's name are taken out."""
    ask(session, messages_api)
    brave, google_tool = (json.dumps(tool) for tool in messages_api.bodies[0]["tools"][:2])
    assert brave.replace("web_search_brave", "N").replace("Brave Search", "E") == google_tool.replace(
        "web_search_google", "N"
    ).replace("Google Custom Search", "E")
    assert "same input" in messages_api.bodies[0]["system"][0]["text"]


def test_each_tool_asks_its_own_engine(messages_api: Any, brave_api: Any, google: Any, session: Any) -> None:
    """Two calls at the same time, one to each, and each result from where it was asked."""
    brave_api.reply([hit("https://brave.example/", "B", "From Brave.")])
    google.reply([hit("https://google.example/", "G", "From Google.")])
    query = {"query": "ruby author"}
    answer = ask(session, messages_api, tool_use("web_search_brave", query), tool_use("web_search_google", query))
    assert [sources(result) for result in results_of(messages_api)] == [["https://brave.example/"], ["https://google.example/"]]
    assert brave_api.queries == google.queries == ["ruby author"]
    assert answer.searches == 2 and [panel.tool for panel in answer.panels] == ["web_search_brave", "web_search_google"]


def test_the_failure_of_one_is_told_and_not_handed_on(messages_api: Any, brave_api: Any, google: Any, session: Any) -> None:
    """The model reads seed 000's words and decides itself whether to ask the other."""
    brave_api.fail(429)
    ask(session, messages_api, tool_use("web_search_brave", {"query": "ruby author"}))
    result = results_of(messages_api)[0]
    assert result["is_error"]
    assert result["content"][0]["text"].startswith("Search unavailable. Please answer from your knowledge. (brave answered 429")
    assert google.requests == []


def test_both_domain_lists_hold_at_once(messages_api: Any, brave_api: Any, session: Any) -> None:
    """Engines take one list; the other is applied to what comes back."""
    found = [hit(f"https://{host}/", host, host) for host in ("a.example", "bad.a.example", "b.example")]
    brave_api.reply(found)
    given = {"query": "ruby author", "allowed_domains": ["a.example"], "blocked_domains": ["bad.a.example"]}
    ask(session, messages_api, tool_use("web_search_brave", given), tools="web_search_brave")
    assert sources(results_of(messages_api)[0]) == ["https://a.example/"]


def test_the_users_domains_bind_the_model(messages_api: Any, brave_api: Any, session: Any) -> None:
    """It may narrow the list, never widen it."""
    brave_api.reply([hit("https://a.example/", "A", "A"), hit("https://b.example/", "B", "B")])
    given = {"query": "ruby author", "allowed_domains": ["b.example"]}
    ask(session, messages_api, tool_use("web_search_brave", given), tools="web_search_brave", allowed_domains=["a.example"])
    assert sources(results_of(messages_api)[0]) == ["https://a.example/"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"query": "x"}, "at least 2 characters"),
        ({"query": "ruby author", "allowed_domains": ["not a domain"]}, "is not a domain"),
        ({"query": "ruby author", "blocked_domains": ["not a domain"]}, "is not a domain"),
    ],
)
def test_a_wrong_input_is_told(messages_api: Any, brave_api: Any, session: Any, given: dict[str, Any], told: str) -> None:
    """The model reads what is wrong, and nothing is sent."""
    ask(session, messages_api, tool_use("web_search_brave", given), tools="web_search_brave")
    result = results_of(messages_api)[0]
    assert result["is_error"] and told in result["content"][0]["text"] and brave_api.requests == []


def test_without_googles_key_the_pair_is_brave_alone(messages_api: Any, session: Any) -> None:
    """Both of Google's variables are named, and by its own name the tool is an error."""
    answer = ask(session, messages_api)
    assert [tool["name"] for tool in messages_api.bodies[0]["tools"]] == ["web_search_brave", "web_fetch"]
    assert "GOOGLE_SEARCH_API_KEY and GOOGLE_SEARCH_ENGINE_ID are not set" in answer.notices[0]
    with pytest.raises(MissingKeyError, match="GOOGLE_SEARCH_API_KEY is not set: run `%websearch key google`"):
        asyncio.run(session.ask("Who?", tools=["pair", "web_search_google"]))


def test_live_data_reach_the_model_here_too(messages_api: Any, brave_api: Any, session: Any) -> None:
    """A calculation that Brave made is a block of its own, even without a hit."""
    brave_api.reply_rich("calculator", [{"type": "rich", "subtype": "calculator", "calculator": {"result": "42"}}])
    ask(session, messages_api, tool_use("web_search_brave", {"query": "6 * 7"}), tools="web_search_brave")
    block = results_of(messages_api)[0]["content"][0]
    assert block["title"] == "Brave rich result: calculator" and "result: '42'" in block["content"][0]["text"]
