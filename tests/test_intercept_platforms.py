"""What is behind a client's address: what the setting says, what ports and models tell, and servers that refuse results."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import httpx2
import pytest

from ipy_websearch import api
from ipy_websearch.errors import ConfigError
from ipy_websearch.interception import intercept
from tests.fakes.replies import error, tool_use

SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
NOT_TEXT = "messages.2.content.0.content.0.type: Input should be 'text' or 'image'"
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"


def options(question: Any = "Who wrote Ruby?", **more: Any) -> dict[str, Any]:
    """Return the arguments of a call that wants the web."""
    messages = question if isinstance(question, list) else [{"role": "user", "content": question}]
    return {"model": "claude-sonnet-5-5", "max_tokens": 500, "messages": messages, "tools": [SEARCH], **more}


def ask(client: Any, question: Any = "Who wrote Ruby?", **more: Any) -> Any:
    """Ask with the native search."""
    return client.messages.create(**options(question, **more))


def search(query: str = "ruby author") -> Any:
    """Return a call of the search."""
    return tool_use("ipy_web_search", {"query": query})


def forms(body: dict[str, Any], position: int = -1) -> list[str]:
    """Return the types of the blocks of which the results in a message of a request are made."""
    return [part["type"] for block in body["messages"][position]["content"] for part in block["content"]]


# --- the setting ----------------------------------------------------------------------------------------------------


def test_the_setting_says_what_an_unknown_address_takes_whenever_it_is_set(messages_api: Any, brave_api: Any) -> None:
    """It is read at each call; results go as text to a server without blocks for them, and the native tool is run here."""
    client = intercept(anthropic.Anthropic())
    settings = api.session().settings
    for platform, form in (("vllm", "text"), ("litellm", "search_result"), ("llamacpp", "text")):
        settings.platform = platform
        messages_api.reply(search(f"ruby {platform}"))
        messages_api.reply("Matz.")
        ask(client)
        assert set(forms(messages_api.bodies[-1])) == {form}
    assert len(brave_api.queries) == 3 and len(messages_api.bodies) == 6


def server(*replies: httpx2.Response) -> tuple[Any, list[Any]]:
    """Return an HTTP client whose server answers so, and the list of what it will have been sent."""
    sent, waiting = [], list(replies)

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        return waiting.pop(0)

    return httpx2.Client(transport=httpx2.MockTransport(handler)), sent


def message(block: dict[str, Any], reason: str) -> httpx2.Response:
    """Return the answer with one block."""
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": [block]}
    return httpx2.Response(200, json={**head, "stop_reason": reason, "usage": {"input_tokens": 1, "output_tokens": 1}})


CALLED = {"type": "tool_use", "id": "toolu_1", "name": "ipy_web_search", "input": {"query": "ruby author"}}


def test_where_the_address_is_the_apis_own_the_setting_does_not_count(brave_api: Any) -> None:
    """It is for `%ask`; a client of the API stays one. What the API refuses is not sent again in another form."""
    api.session().settings.platform = "vllm"
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": NOT_TEXT}}
    http, sent = server(message(CALLED, "tool_use"), httpx2.Response(400, json=refusal))
    made = anthropic.Anthropic(api_key="k", base_url="https://api.anthropic.com", http_client=http)
    with pytest.raises(anthropic.BadRequestError):
        ask(intercept(made, provider="brave"))
    assert len(sent) == 2 and set(forms(sent[-1])) == {"search_result"}


@pytest.mark.parametrize("address", ["http://ollama:11434", "http://192.168.1.5:1234/v1", "http://host.docker.internal:11434"])
def test_a_servers_usual_port_counts_on_any_machine(brave_api: Any, address: str) -> None:
    """Containers and the machine under the desk have names of their own."""
    http, sent = server(message(CALLED, "tool_use"), message({"type": "text", "text": "Matz."}, "end_turn"))
    ask(intercept(anthropic.Anthropic(api_key="k", base_url=address, http_client=http)))
    assert set(forms(sent[-1])) == {"text"} and "ruby author" in str(sent[-1]["messages"][-1])


@pytest.mark.parametrize(("model", "form"), [("qwen3:8b", "text"), ("corp/Claude-Sonnet", "search_result")])
def test_without_a_setting_only_models_that_cite_get_blocks_to_cite(
    messages_api: Any, brave_api: Any, model: str, form: str
) -> None:
    """Servers of open models drop such blocks without a word: the model would see nothing of a paid search."""
    messages_api.models[model] = 32_000
    messages_api.reply(search())
    messages_api.reply("Matz.")
    ask(intercept(anthropic.Anthropic(), provider="brave"), model=model)
    assert set(forms(messages_api.bodies[-1])) == {form}


# --- servers that refuse --------------------------------------------------------------------------------------------


def refuse_once(messages_api: Any, text: str = NOT_TEXT) -> None:
    """Queue a call, a refusal of its results, and an answer."""
    messages_api.reply("Let me look.", search())
    messages_api.reply(error(400, message=text))
    messages_api.reply("Matz.")


def test_refused_results_go_up_once_more_as_text_and_that_is_learned(messages_api: Any, brave_api: Any) -> None:
    """The paid search is not lost, not made again, and the next call begins with text; another model's does not."""
    client = intercept(anthropic.Anthropic(max_retries=0), provider="brave")
    refuse_once(messages_api)
    reply = ask(client)
    assert [block.type for block in reply.content] == ["text", "server_tool_use", "web_search_tool_result", "text"]
    assert reply.content[-1].text == "Matz." and reply.usage.server_tool_use.web_search_requests == 1
    assert [set(forms(body)) for body in messages_api.bodies[1:]] == [{"search_result"}, {"text"}]
    blocks = messages_api.bodies[1]["messages"][-1]["content"][0]["content"]
    told = messages_api.bodies[2]["messages"][-1]["content"][0]["content"][0]["text"]
    assert all(block["source"] in told and block["content"][0]["text"] in told for block in blocks)
    assert brave_api.queries == ["ruby author"]
    for model, form in (("claude-sonnet-5-5", "text"), ("claude-opus-4-8", "search_result")):
        messages_api.reply(search(f"for {model}"))
        messages_api.reply("Matz.")
        ask(client, model=model)
        assert set(forms(messages_api.bodies[-1])) == {form}
    assert len(messages_api.bodies) == 7


def test_a_stream_goes_on_after_such_a_refusal(messages_api: Any, brave_api: Any) -> None:
    """The caller sees nothing of it."""
    client = intercept(anthropic.Anthropic(), provider="brave")
    refuse_once(messages_api)
    with client.messages.stream(**options()) as stream:
        assert "".join(stream.text_stream) == "Let me look.Matz."
    assert len(messages_api.bodies) == 3 and len(brave_api.queries) == 1


def test_an_async_client_does_the_same(messages_api: Any, brave_api: Any) -> None:
    """Whole and streamed; each client learns for itself."""

    async def both() -> list[Any]:
        async with anthropic.AsyncAnthropic() as plain:
            whole = await intercept(plain, provider="brave").messages.create(**options())
            async with intercept(plain, provider="brave").messages.stream(**options()) as stream:
                return [whole, await stream.get_final_message()]

    refuse_once(messages_api)
    refuse_once(messages_api)
    assert [reply.content[-1].text for reply in asyncio.run(both())] == ["Matz.", "Matz."]
    assert len(messages_api.bodies) == 6


@pytest.mark.parametrize(
    ("replies", "sent"),
    [
        ([error(400, message=TOO_LONG)], 2),
        ([error(400, message="blocked by the content filter")], 2),
        ([error(400, message=NOT_TEXT)] * 2, 3),
    ],
    ids=["too long", "filtered", "refused as text too"],
)
def test_other_refusals_are_the_callers_at_once(messages_api: Any, brave_api: Any, replies: list[Any], sent: int) -> None:
    """Nothing is sent again that could not help, or a third time; and nothing is learned from it."""
    client = intercept(anthropic.Anthropic(), provider="brave")
    messages_api.reply(search())
    for reply in replies:
        messages_api.reply(reply)
    with pytest.raises(anthropic.BadRequestError):
        ask(client)
    assert len(messages_api.bodies) == sent
    messages_api.reply(search("again"))
    messages_api.reply("Matz.")
    ask(client)
    assert set(forms(messages_api.bodies[-1])) == {"search_result"}


def test_a_history_that_is_refused_goes_up_as_text_too(messages_api: Any, brave_api: Any) -> None:
    """A conversation that began elsewhere goes on where results have to be text; the caller's other blocks stay."""
    messages_api.reply(search())
    messages_api.reply("Matz.")
    first = ask(intercept(anthropic.Anthropic(), provider="brave"))
    turns = [
        {"role": "user", "content": "Who wrote Ruby?"},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": "Sure?"},
    ]
    messages_api.reply(error(400, message=NOT_TEXT))
    messages_api.reply("Yes.")
    assert ask(intercept(anthropic.Anthropic(), provider="brave"), turns).content[-1].text == "Yes."
    assert [set(forms(body, 2)) for body in messages_api.bodies[-2:]] == [{"search_result"}, {"text"}]
    assert len(brave_api.queries) == 1 and len(messages_api.bodies) == 4


def test_what_is_sent_back_is_what_was_taken(messages_api: Any, brave_api: Any) -> None:
    """In the next turn the results are word for word the text that the server took, thinking and caches go on from there."""
    client = intercept(anthropic.Anthropic(), provider="brave")
    refuse_once(messages_api)
    first = ask(client)
    question = {"role": "user", "content": "Who wrote Ruby?"}
    messages_api.reply("Yes.")
    ask(client, [question, {"role": "assistant", "content": first.content}, {"role": "user", "content": "Sure?"}])
    assert messages_api.bodies[-1]["messages"][2] == messages_api.bodies[-2]["messages"][2]


def test_what_the_call_cost_is_in_the_books_once(messages_api: Any, brave_api: Any) -> None:
    """The refused request is no reply: two requests and one search are booked, and no money stays held for it."""
    api.session().settings.session_budget_usd = 1.0
    refuse_once(messages_api)
    ask(intercept(anthropic.Anthropic(), provider="brave"))
    assert sorted(api.cost().kind) == ["model", "model", "search"]
    assert api.session().budgets.session.reserved == 0


# --- an intercepted client given again ------------------------------------------------------------------------------


def test_what_is_not_given_again_stays_as_it_was(messages_api: Any, brave_api: Any) -> None:
    """The engine with another bound, the bound with another engine."""
    first = intercept(anthropic.Anthropic(), provider="brave")
    bounded = intercept(first, max_uses=1)
    messages_api.reply(search("one"), search("two"))
    messages_api.reply("Matz.")
    reply = ask(bounded)
    assert brave_api.queries == ["one"] and reply.content[3].content.error_code == "max_uses_exceeded"
    api.session().settings.search_tools = {"mine": {"provider": "local"}}
    messages_api.reply(search("three"), search("four"))
    messages_api.reply("Matz.")
    reply = ask(intercept(bounded, search_tool_name="mine"))
    assert brave_api.queries == ["one"] and reply.content[3].content.error_code == "max_uses_exceeded"
    assert reply.content[1].content and "local" in set(api.cost()["name"])


@pytest.mark.parametrize(
    "wrong", [{"provider": 5}, {"search_tool_name": 5}, {"enabled_platforms": 5}, {"max_uses": 2.5}, {"max_uses": True}]
)
def test_a_wrong_kind_of_argument_is_one_line(messages_api: Any, wrong: dict[str, Any]) -> None:
    """It names the argument and the value."""
    with pytest.raises(ConfigError) as caught:
        intercept(anthropic.Anthropic(), **wrong)
    ((name, value),) = wrong.items()
    assert str(caught.value).startswith(f"{name} is {value}; it must be") and "\n" not in str(caught.value)


def test_numpys_whole_numbers_are_numbers(messages_api: Any, brave_api: Any) -> None:
    """They come out of tables."""
    numpy = pytest.importorskip("numpy")
    messages_api.reply(search("one"), search("two"))
    messages_api.reply("Matz.")
    ask(intercept(anthropic.Anthropic(), provider="brave", max_uses=numpy.int64(1)))
    assert brave_api.queries == ["one"]
