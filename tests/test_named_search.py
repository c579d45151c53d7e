"""Named search tools: engines with parameters under a name of the user's, and what a wrong name does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ipy_websearch.errors import ConfigError
from ipy_websearch.providers.chosen import engine_to_ask
from tests.fakes.replies import tool_use

TOOLS = {"my-tavily": {"provider": "tavily", "search_depth": "advanced", "topic": "news"}}


def test_a_named_tool_is_an_engine_with_its_parameters(engine: Callable[[str], Any], shell: Any) -> None:
    """`--provider` takes the name, the parameters go out, and the dearer depth is booked."""
    tavily = engine("tavily")
    assert shell.run(f"%config WebSearch.search_tools = {TOOLS}").ok
    ran = shell.run("%search --provider my-tavily window functions")
    assert ran.ok, ran.error
    assert tavily.requests[0].body.items() >= {"search_depth": "advanced", "topic": "news"}.items()
    assert float(ran.value.search.cost_usd) == 0.016 and ran.value.search.provider == "tavily"


def test_the_models_searches_go_to_a_named_tool(engine: Callable[[str], Any], messages_api: Any, session: Any) -> None:
    """As the default of the settings, without a word in the question."""
    tavily = engine("tavily")
    session.settings.search_tools, session.settings.provider = TOOLS, "my-tavily"
    messages_api.reply(tool_use("web_search", {"query": "ruby author"}))
    messages_api.reply("Done.")
    answer = asyncio.run(session.ask("Who wrote Ruby?"))
    assert tavily.queries == ["ruby author"] and tavily.requests[0].body["search_depth"] == "advanced"
    assert answer.notices == ()


@pytest.mark.parametrize("tools", [{}, {"my-tavly": {"provider": "tavly"}}])
def test_an_unknown_default_falls_back_and_says_so(
    messages_api: Any, brave_api: Any, session: Any, tools: dict[str, Any]
) -> None:
    """The first engine that can be used is asked; the notice names the setting and what was meant."""
    session.settings.provider, session.settings.search_tools = "my-tavly", tools
    messages_api.reply(tool_use("web_search", {"query": "ruby author"}))
    messages_api.reply("Done.")
    answer = asyncio.run(session.ask("Who wrote Ruby?"))
    assert brave_api.queries == ["ruby author"]
    assert answer.notices[0].startswith("WebSearch.provider is 'my-tavly', but there is no search engine")
    assert answer.notices[0].endswith("the first available engine was asked instead")


def test_an_unknown_name_that_was_typed_is_an_error(session: Any) -> None:
    """Whoever names an engine in a call wants that one; nothing is sent."""
    with pytest.raises(ConfigError, match="no search engine 'my-tavly'"):
        asyncio.run(session.ask("Who wrote Ruby?", provider="my-tavly"))


def test_what_is_asked_is_what_was_typed_before_what_is_set() -> None:
    """A typed name goes before the setting; without either it is the chain."""
    assert engine_to_ask("exa", "brave", {}) == ("exa", ())
    assert engine_to_ask(None, "brave", {}) == ("brave", ())
    assert engine_to_ask(None, "my-tavily", TOOLS) == ("my-tavily", ())
    assert engine_to_ask("", "", TOOLS) == (None, ())


def test_the_end_of_an_options_name_will_do(engine: Any, shell: Any) -> None:
    """The seed's "depth" means Tavily's search_depth."""
    tavily = engine("tavily")
    shell.run("from ipy_websearch import api")
    shell.run("api.session().settings.search_tools = {'my-tavily': {'provider': 'tavily', 'depth': 'advanced'}}")
    assert shell.run("%search --provider my-tavily ruby author").ok
    assert tavily.requests[0].body["search_depth"] == "advanced"
