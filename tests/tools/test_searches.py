"""Which tools a question gets, `web_search`, and the pair of searches with one schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ipy_websearch.errors import ConfigError, MissingKeyError
from tests.fakes.engines import hit
from tests.fakes.replies import tool_use
from tests.tools.helpers import ask, offered, results_of, sources, words_of

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
BRAVE, GOOGLE = "web_search_brave", "web_search_google"


@pytest.fixture
def google(engine: Callable[[str], Any]) -> Any:
    """The fake of Google Custom Search."""
    return engine("google")


def test_none_offers_nothing_at_all(messages_api: Any, session: Any, tmp_path: Any) -> None:
    """Not even the research documents, which come with every other choice."""
    session.settings.research_root = str(tmp_path)
    ask(session, messages_api, tools="none")
    ask(session, messages_api, tools="web_search")
    assert [[tool["name"] for tool in body.get("tools", [])] for body in messages_api.bodies] == [
        [],
        ["web_search", "read_research"],
    ]


def test_a_set_shrinks_to_the_engines_with_a_key_and_says_so(messages_api: Any, session: Any) -> None:
    answer = ask(session, messages_api, tools="tiers")
    assert list(offered(messages_api)) == ["brave_search", "brave_llm_context"]
    (notice,) = answer.notices
    assert "firecrawl_scrape, firecrawl_search and firecrawl_map are not offered" in notice
    assert "FIRECRAWL_API_KEY is not set" in notice and "%websearch key firecrawl" in notice


@pytest.mark.parametrize(
    ("tools", "error", "told"),
    [
        ("brave_search,firecrawl_map", MissingKeyError, r"%websearch key firecrawl.*FIRECRAWL_API_KEY.*\.env.*keyring"),
        (["pair", GOOGLE], MissingKeyError, "GOOGLE_SEARCH_API_KEY is not set: run `%websearch key google`"),
        ("tier", ConfigError, "'tier'; did you mean 'tiers'"),
        ("read_research", ConfigError, "set WebSearch.research_root"),
    ],
)
@pytest.mark.anyio
async def test_a_tool_that_cannot_be_had_is_an_error_before_anything_is_sent(
    messages_api: Any, session: Any, tools: Any, error: Any, told: str
) -> None:
    with pytest.raises(error, match=told):
        await session.ask("Who?", tools=tools)
    assert messages_api.requests == []


def test_a_failed_search_tells_the_model_to_answer_from_its_knowledge(messages_api: Any, brave_api: Any, session: Any) -> None:
    """Seed 000's sentence, and the engine's reason behind it."""
    brave_api.fail(403)
    answer = ask(session, messages_api, tool_use("web_search", {"query": "ruby author"}), provider="brave")
    (result,) = results_of(messages_api)
    assert result["is_error"] and answer.text == "Done."
    assert words_of(result).startswith("Search unavailable. Please answer from your knowledge. (brave answered 403")


def test_the_pair_has_the_schemas_of_the_specification(messages_api: Any, session: Any, google: Any) -> None:
    """Word for word; byte for byte the same once the tool's and the engine's name are taken out."""
    ask(session, messages_api, tools="pair")
    tools = offered(messages_api)
    assert list(tools) == [BRAVE, GOOGLE, "web_fetch"]
    assert tools[BRAVE] == {
        "name": BRAVE,
        "description": DESCRIPTION.format("Brave Search API"),
        "input_schema": PARAMETERS,
    }
    assert json.dumps(tools[BRAVE]) == json.dumps(tools[GOOGLE]).replace(GOOGLE, BRAVE).replace(
        "Google Custom Search", "Brave Search"
    )


def test_each_of_the_pair_asks_its_own_engine(messages_api: Any, brave_api: Any, google: Any, session: Any) -> None:
    brave_api.reply([hit("https://brave.example/", "B", "From Brave.")])
    google.reply([hit("https://google.example/", "G", "From Google.")])
    query = {"query": "ruby author"}
    answer = ask(session, messages_api, tool_use(BRAVE, query), tool_use(GOOGLE, query), tools="pair")
    assert [sources(result) for result in results_of(messages_api)] == [["https://brave.example/"], ["https://google.example/"]]
    assert answer.searches == 2 and [panel.tool for panel in answer.panels] == [BRAVE, GOOGLE]


def test_the_failure_of_one_is_told_and_not_handed_on(messages_api: Any, brave_api: Any, google: Any, session: Any) -> None:
    brave_api.fail(429)
    ask(session, messages_api, tool_use(BRAVE, {"query": "ruby author"}), tools="pair")
    (result,) = results_of(messages_api)
    assert result["is_error"] and "Search unavailable. Please answer from your knowledge. (brave" in words_of(result)
    assert google.requests == []


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"allowed_domains": ["a.example"], "blocked_domains": ["bad.a.example"]}, {}),
        ({"allowed_domains": ["b.example"], "blocked_domains": ["bad.a.example"]}, {"allowed_domains": ["a.example"]}),
    ],
)
def test_both_domain_lists_hold_and_the_users_bind_the_model(
    messages_api: Any, brave_api: Any, session: Any, given: Any, options: Any
) -> None:
    brave_api.reply([hit(f"https://{host}/", host, host) for host in ("a.example", "bad.a.example", "b.example")])
    ask(session, messages_api, tool_use(BRAVE, {"query": "ruby author", **given}), tools=BRAVE, **options)
    assert sources(results_of(messages_api)[0]) == ["https://a.example/"]


@pytest.mark.parametrize(
    ("given", "told"),
    [({"query": "x"}, "at least 2 characters"), ({"query": "ruby", "blocked_domains": ["not a domain"]}, "is not a domain")],
)
@pytest.mark.parametrize("tool", [BRAVE, "web_search"])
def test_a_wrong_input_is_told_and_nothing_is_sent(
    messages_api: Any, brave_api: Any, session: Any, tool: str, given: dict[str, Any], told: str
) -> None:
    ask(session, messages_api, tool_use(tool, given), tools=tool)
    (result,) = results_of(messages_api)
    assert result["is_error"] and told in words_of(result) and brave_api.requests == []


@pytest.mark.parametrize("tool", [BRAVE, "brave_search"])
def test_live_data_come_first_and_can_be_cited(messages_api: Any, brave_api: Any, session: Any, tool: str) -> None:
    weather = {"type": "rich", "subtype": "weather", "weather": {"location": "Berlin", "temperature_c": 4.5}}
    brave_api.reply_rich("weather", [weather], [hit("https://a.example/", "Weather", "Cold.")])
    ask(session, messages_api, tool_use(tool, {"query": "weather berlin"}), tools=tool)
    rich, page = results_of(messages_api)[0]["content"]
    assert rich["title"] == "Brave rich result: weather" and "temperature_c: 4.5" in rich["content"][0]["text"]
    assert rich["source"] == "https://search.brave.com/search?q=weather+berlin" and page["source"] == "https://a.example/"
