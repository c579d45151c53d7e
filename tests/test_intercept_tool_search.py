"""Web tools that a tool search finds: deferred as the caller defers them, and called by one name on each side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest

from ipy_websearch.interception import intercept
from ipy_websearch.interception.detection import wanted_tools
from ipy_websearch.model.platforms import PLATFORMS
from tests.fakes import sse
from tests.fakes.replies import Content, new_id, text, thinking, tool_use

MODEL = "claude-sonnet-5-5"
FINDER = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
SEARCH: dict[str, Any] = {"type": "web_search_20260318", "name": "web_search"}
FETCH: dict[str, Any] = {"type": "web_fetch_20260318", "name": "web_fetch"}
OBJECT = {"type": "object", "properties": {}}
WEATHER = {"name": "get_weather", "input_schema": OBJECT, "defer_loading": True}
FIND = {"name": "find_tools", "input_schema": OBJECT}
LATER = {"defer_loading": True}
MARK = {"cache_control": {"type": "ephemeral"}}
ASKED = {"role": "user", "content": "Who wrote Ruby?"}


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(max_retries=0), provider="brave") as made:
        yield made


def ask(messages: Any, tools: list[Any], history: list[Any], *, stream: bool = False) -> Any:
    """Ask with thinking, whole or streamed."""
    thinks = {"thinking": {"type": "adaptive"}}
    options = {"model": MODEL, "max_tokens": 1000, "messages": history, "tools": tools, **thinks}
    if not stream:
        return messages.create(**options)
    with messages.stream(**options) as running:
        return running.get_final_message()


def tool_search(*names: str) -> Content:
    """Return the part of a reply in which the API searched for tools and found some."""
    call = {"type": "server_tool_use", "id": new_id("srvtoolu"), "name": FINDER["name"], "input": {"query": "web"}}
    found = {"type": "tool_search_tool_search_result", "tool_references": references(*names)}
    return Content(lambda _: [call, {"type": "tool_search_tool_result", "tool_use_id": call["id"], "content": found}])


def references(*names: str) -> list[dict[str, Any]]:
    """Return references to tools."""
    return [{"type": "tool_reference", "tool_name": name} for name in names]


def referred(value: Any) -> list[str]:
    """Return the names in all references in a message, a history or a part of one."""
    if isinstance(value, list):
        return [name for part in value for name in referred(part)]
    if not isinstance(value, dict):
        return []
    if value.get("type") == "tool_reference":
        return [value.get("tool_name") or value["name"]]
    return [name for inner in value.values() for name in referred(inner)]


def bare(value: Any) -> Any:
    """Return a part of a request without fields that are null."""
    if isinstance(value, dict):
        return {name: bare(inner) for name, inner in value.items() if inner is not None}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


# --- both ways ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [False, True], ids=["messages", "beta"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_the_apis_tool_search_finds_has_the_callers_name(
    client: Any, messages_api: Any, brave_api: Any, stream: bool, beta: bool
) -> None:
    """The caller sees `web_search`, the model its own reply unchanged: in the call, and when the reply is sent back."""
    messages = client.beta.messages if beta else client.messages
    tools = [FINDER, {**SEARCH, **LATER}, WEATHER]
    called = tool_use("ipy_web_search", {"query": "ruby author"})
    messages_api.reply(thinking(), tool_search("ipy_web_search", "get_weather"), thinking(), called)
    messages_api.reply(thinking(), text("Matz did.", citations=[(0, 0)]))
    first = ask(messages, tools, [ASKED], stream=stream)
    assert referred(first.to_dict()["content"]) == ["web_search", "get_weather"]
    assert brave_api.queries == ["ruby author"]
    messages_api.reply(thinking(), tool_search("ipy_web_search"), "Matz, as I said.")
    second = ask(messages, tools, [ASKED, {"role": "assistant", "content": first.content}, ASKED], stream=stream)
    assert [block.type for block in second.content] == ["thinking", "server_tool_use", "tool_search_tool_result", "text"]
    assert referred(second.to_dict()["content"]) == ["web_search"]
    for before, after in zip(messages_api.requests, messages_api.requests[1:], strict=False):
        said = {"role": "assistant", "content": sse.public(before.answer)["content"]}
        assert bare(after.body["messages"][:-1]) == bare([*before.body["messages"], said])
    assert [tool.get("defer_loading") for tool in messages_api.bodies[-1]["tools"]] == [None, True, True]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("named", [SEARCH, {"name": "litellm_web_search"}, {"name": "WebSearch"}, {"name": "ipy_web_search"}])
def test_what_the_callers_tool_search_finds_has_our_name_upstream(
    client: Any, messages_api: Any, brave_api: Any, stream: bool, named: dict[str, Any]
) -> None:
    """The caller's tool gives a `tool_reference` by the name of its definition, whatever that is."""
    tools = [FIND, {**named, **LATER}, WEATHER]
    messages_api.reply(thinking(), tool_use("find_tools"))
    asked = ask(client.messages, tools, [ASKED], stream=stream)
    found = {"type": "tool_result", "tool_use_id": asked.content[-1].id, "content": references("get_weather", named["name"])}
    history = [ASKED, {"role": "assistant", "content": asked.content}, {"role": "user", "content": [found]}]
    messages_api.reply(thinking(), tool_use("ipy_web_search", {"query": "ruby author"}), tool_use("find_tools"))
    mixed = ask(client.messages, tools, history, stream=stream)
    found = {**found, "tool_use_id": mixed.content[-1].id}
    history += [{"role": "assistant", "content": mixed.content}, {"role": "user", "content": [found]}]
    messages_api.reply(thinking(), "Matz did.")
    assert ask(client.messages, tools, history, stream=stream).content[-1].text == "Matz did."
    assert referred(messages_api.bodies[-1]["messages"]) == ["get_weather", "ipy_web_search"] * 2
    assert history[2]["content"][0]["content"] == references("get_weather", named["name"])  # the caller's own is as it was


def test_references_to_other_tools_keep_their_names(messages_api: Any) -> None:
    """Also one to a `web_search` that the caller runs itself, beside one that is run here."""
    own = {"name": "web_search", "input_schema": OBJECT, **LATER}
    tools = [FINDER, {"name": "ipy_web_search"}, own, WEATHER]
    with intercept(anthropic.Anthropic(max_retries=0)) as client:
        messages_api.reply(tool_search("web_search", "get_weather"), "There are two.")
        first = ask(client.messages, tools, [ASKED])
        messages_api.reply("Yes.")
        ask(client.messages, tools, [ASKED, {"role": "assistant", "content": first.content}, ASKED])
    assert referred(first.to_dict()["content"]) == ["web_search", "get_weather"]
    assert referred(messages_api.bodies[-1]["messages"]) == ["web_search", "get_weather"]


def test_a_reference_outlives_the_tool_where_its_calls_do(client: Any, messages_api: Any, brave_api: Any) -> None:
    """Tools that the history calls stay defined when the caller has them no more, and may be referred to."""
    messages_api.reply(tool_search("ipy_web_search"), tool_use("ipy_web_search", {"query": "ruby author"}))
    messages_api.reply("Matz did.")
    first = ask(client.messages, [FINDER, {**SEARCH, **LATER}], [ASKED])
    messages_api.reply("Yes.")
    ask(client.messages, [FINDER], [ASKED, {"role": "assistant", "content": first.content}, ASKED])
    assert referred(messages_api.bodies[-1]["messages"]) == ["ipy_web_search"]


def test_changes_of_the_tools_are_renamed_too(brave_api: Any) -> None:
    """A system turn adds and removes tools by name, and a compaction keeps such changes."""
    sent: list[Any] = []
    changes = [change("addition", "ipy_web_search"), change("removal", "get_weather")]
    compaction = {"type": "compaction", "content": "Nothing yet.", "signature": "Es==", "tool_changes": changes}
    reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "end_turn"}
    usage = {"input_tokens": 1, "output_tokens": 1}

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        content = [compaction, {"type": "text", "text": "So."}]
        return httpx2.Response(200, json={**reply, "content": content, "stop_sequence": None, "usage": usage})

    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    client = intercept(anthropic.Anthropic(api_key="k", base_url="http://local.example", http_client=http), provider="brave")
    tools = [FIND, {**SEARCH, **LATER}, WEATHER]
    changed = {"role": "system", "content": [change("addition", "web_search"), change("removal", "web_search")]}
    first = client.beta.messages.create(model=MODEL, max_tokens=100, messages=[ASKED, changed], tools=tools)
    assert referred(first.to_dict()["content"]) == ["web_search", "get_weather"]
    history = [ASKED, changed, {"role": "assistant", "content": first.content}, ASKED]
    client.beta.messages.create(model=MODEL, max_tokens=100, messages=history, tools=tools)
    assert referred(sent[-1]["messages"]) == ["ipy_web_search"] * 3 + ["get_weather"]
    assert sent[-1]["messages"][2]["content"][0] == compaction


def change(kind: str, name: str) -> dict[str, Any]:
    """Return a change of the tools."""
    return {"type": f"tool_{kind}", "tool": {"type": "tool_reference", "name": name}}


# --- deferred tools -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tools", "deferred", "cached"),
    [
        ([FIND, {**SEARCH, **LATER}, {**FETCH, **LATER}], ["ipy_web_search", "ipy_web_fetch"], []),
        ([SEARCH, {**FETCH, **LATER}], ["ipy_web_fetch"], []),
        ([{**SEARCH, **MARK}, {**FETCH, **LATER}], ["ipy_web_fetch"], ["ipy_web_search"]),
        ([{**SEARCH, **LATER}, {**FETCH, **MARK}], ["ipy_web_search"], ["ipy_web_fetch"]),
        ([FIND, {**SEARCH, **LATER, **MARK}], [], ["ipy_web_search"]),
        ([{**SEARCH, **LATER}, {**FETCH, **LATER}], [], []),
        ([FIND, {**SEARCH, **LATER}, {"name": "litellm_web_search"}], [], []),
        ([FIND, {**SEARCH, "defer_loading": False}], [], []),
    ],
    ids=["both", "one", "mark-before", "mark-behind", "mark-on-it", "all-tools", "not-all-names", "not"],
)
def test_tools_are_deferred_as_far_as_the_api_takes_it(
    client: Any, messages_api: Any, tools: Any, deferred: list[str], cached: list[str]
) -> None:
    """Never one with a cache breakpoint, and never all tools of a request."""
    messages_api.reply("So.")
    ask(client.messages, tools, [ASKED])
    sent = [tool for tool in messages_api.bodies[-1]["tools"] if tool["name"].startswith("ipy_")]
    assert [tool["name"] for tool in sent if tool.get("defer_loading")] == deferred
    assert [tool["name"] for tool in sent if tool.get("cache_control")] == cached


def test_a_set_of_tools_does_not_count_as_loaded() -> None:
    """What a server has in it, and whether that is deferred, cannot be seen here."""
    toolset = {"type": "mcp_toolset", "mcp_server_name": "notes"}
    for others, deferred in (([toolset], frozenset()), ([toolset, FINDER], {"search"}), ([WEATHER], frozenset())):
        wanted = wanted_tools([*others, {**SEARCH, **LATER}], PLATFORMS["bedrock"], forced=False)
        assert wanted is not None and wanted.deferred == deferred


def test_a_streamed_compaction_goes_on_whole(brave_api: Any) -> None:
    """Its summary comes in a delta; what follows in the same call is asked behind all of it."""
    sent: list[Any] = []
    summary = {"content": "They asked about Ruby.", "encrypted_content": "Ea=="}
    opened = {"type": "compaction", "content": None, "signature": "Es=="}
    call = {"type": "tool_use", "id": "toolu_1", "name": "ipy_web_search", "input": {}}
    first = [
        started(),
        {"type": "content_block_start", "index": 0, "content_block": opened},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", **summary}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": call},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"query": "ruby"}'}},
        {"type": "content_block_stop", "index": 1},
        *ended("tool_use"),
    ]
    second = [started(), *sse_text("Matz.", 0), *ended("end_turn")]

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        events = first if len(sent) == 1 else second
        body = b"".join(sse.encode(event["type"], event) for event in events)
        return httpx2.Response(200, content=body, headers={"content-type": "text/event-stream"})

    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    client = intercept(anthropic.Anthropic(api_key="k", base_url="http://local.example", http_client=http), provider="brave")
    with client.beta.messages.stream(model=MODEL, max_tokens=100, messages=[ASKED], tools=[SEARCH]) as stream:
        message = stream.get_final_message()
    assert sent[1]["messages"][1]["content"][0] == {**opened, **summary}
    assert message.content[0].type == "compaction" and message.content[0].content == summary["content"]
    assert message.content[-1].type == "text" and message.content[-1].text == "Matz."


def started() -> dict[str, Any]:
    """Return the event that begins a reply."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [], "usage": usage}
    return {"type": "message_start", "message": {**reply, "stop_reason": None, "stop_sequence": None}}


def sse_text(words: str, index: int) -> list[dict[str, Any]]:
    """Return the events of a text."""
    return [
        {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": words}},
        {"type": "content_block_stop", "index": index},
    ]


def ended(reason: str) -> list[dict[str, Any]]:
    """Return the events that end a reply."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]
