"""Contract: one `messages.create` of a real SDK client searches by itself and returns the native shape."""

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

import ipy_websearch as web
from ipy_websearch.errors import BudgetExceededError
from tests.contract.helpers import search
from tests.fakes.replies import error, text, thinking, tool_use, usage
from tests.interception.conftest import ASKED, PAIR, SEARCH, WEATHER, kinds

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    with web.intercept(anthropic.Anthropic(), provider="brave") as made:
        yield made


def test_one_call_searches_and_answers_in_the_native_shape(client: Any, messages_api: Any, brave_api: Any) -> None:
    messages_api.reply("Let me look.", search("ruby author"), search("ruby year"), usage(input_tokens=100, output_tokens=10))
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]), usage(input_tokens=200, output_tokens=20))
    message = client.messages.create(**ASKED)
    assert kinds(message) == ["text", *PAIR, *PAIR, "text"] and message.stop_reason == "end_turn"
    assert sorted(brave_api.queries) == ["ruby author", "ruby year"]
    calls, answers = ([block for block in message.content if block.type == kind] for kind in PAIR)
    assert [call.id for call in calls] == [answer.tool_use_id for answer in answers] and calls[0].name == "web_search"
    (citation,) = message.content[-1].citations
    assert citation.type == "web_search_result_location" and citation.url == answers[0].content[0].url
    assert (message.usage.input_tokens, message.usage.output_tokens) == (300, 30)
    assert message.usage.server_tool_use.web_search_requests == 2


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search_20991231", "name": "web_search", "max_uses": 8},
        {"name": "web_search"},
        {"name": "ipy_web_search", "input_schema": SCHEMA},
        {"name": "litellm_web_search", "input_schema": SCHEMA},
        {"name": "WebSearch"},
        {"name": "web_search", "input_schema": SCHEMA},
        {"name": "WebSearch", "input_schema": SCHEMA},
    ],
    ids=lambda tool: f"{tool.get('type', '')} {tool['name']}{' with a schema' if 'input_schema' in tool else ''}",
)
def test_every_form_of_the_tool_is_taken(client: Any, messages_api: Any, tool: Any) -> None:
    messages_api.reply(search("ruby author"))
    messages_api.reply("Matz.")
    message = client.messages.create(**{**ASKED, "tools": [tool]})
    assert kinds(message) == [*PAIR, "text"] and "type" not in messages_api.bodies[0]["tools"][0]


def test_a_tool_with_a_schema_is_the_callers_own_unless_a_provider_was_named(messages_api: Any, brave_api: Any) -> None:
    messages_api.behave(lambda body: [tool_use(body["tools"][0]["name"], {"query": "x y"})])
    with web.intercept(anthropic.Anthropic()) as client:
        for name in ("WebSearch", "get_weather"):
            tool = {"name": name, "input_schema": SCHEMA}
            message = client.messages.create(**{**ASKED, "tools": [tool]})
            assert messages_api.bodies[-1]["tools"] == [tool] and kinds(message) == ["tool_use"]


def test_calls_of_other_tools_are_handed_back_and_the_conversation_goes_on(client: Any, messages_api: Any) -> None:
    messages_api.reply(thinking("Both."), search("ruby author"), tool_use("get_weather", {"city": "Matsue"}))
    messages_api.reply("It rains where Matz lives.")
    options = {**ASKED, "tools": [SEARCH, WEATHER], "thinking": {"type": "adaptive"}}
    first = client.messages.create(**options)
    assert first.stop_reason == "tool_use" and kinds(first)[-1] == "tool_use"
    result = {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": "rain"}
    turns = [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    last = client.messages.create(**{**options, "messages": [*ASKED["messages"], *turns]})
    assert last.content[-1].text == "It rains where Matz lives."
    assert any(
        block["type"] == "tool_result" and "search_result" in str(block)
        for block in messages_api.bodies[1]["messages"][-1]["content"]
    )


def test_what_an_intercepted_call_spends_is_in_the_ledger_and_bounded(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPY_WEBSEARCH_DAY_BUDGET_USD", "0.1")
    spent = usage(input_tokens=3000, output_tokens=50)
    messages_api.behave(lambda body: ["Matz." if len(body["messages"]) > 1 else search("ruby author"), spent])
    with web.intercept(anthropic.Anthropic(), provider="brave") as client:
        client.messages.create(**ASKED)
        assert sorted(web.cost().kind) == ["model", "model", "search"]
        with pytest.raises(BudgetExceededError):
            for _ in range(40):
                client.messages.create(**ASKED)
    assert web.cost().usd.sum() <= 0.1


def test_requests_without_a_web_tool_and_refusals_pass_through(client: Any, messages_api: Any) -> None:
    messages_api.reply("Hello.")
    messages_api.reply(error(400, message="too odd"))
    assert client.messages.create(**{**ASKED, "tools": anthropic.omit}).content[0].text == "Hello."
    with pytest.raises(anthropic.BadRequestError, match="too odd"):
        client.messages.create(**ASKED)
