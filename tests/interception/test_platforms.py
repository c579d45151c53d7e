"""What is behind a client's address: what the setting says, what ports and models tell, and servers that refuse results."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from ipy_websearch import api
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
