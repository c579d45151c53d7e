"""The fakes themselves: each rule refuses the request that breaks it and takes the corrected one; engines mind their keys."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from ipy_websearch.errors import ModelError
from tests.fakes.examination import Issued, examine
from tests.fakes.public_web import PublicWeb

JSON = dict[str, Any]


OBJECT: JSON = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": False}


def tool(name: str = "look", **more: Any) -> JSON:
    """A client's tool."""
    return {"name": name, "description": "Looks.", "input_schema": OBJECT} | more


def user(*content: Any) -> JSON:
    """A user's message: text, or blocks."""
    return {"role": "user", "content": content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)}


def said(*content: Any) -> JSON:
    """An assistant's message."""
    return user(*content) | {"role": "assistant"}


def call(id: str = "toolu_1", name: str = "look", **more: Any) -> JSON:
    """A call of a client's tool."""
    return {"type": "tool_use", "id": id, "name": name, "input": {"q": "x"}} | more


def result(id: str = "toolu_1", content: Any = "found", **more: Any) -> JSON:
    """The result of a call."""
    return {"type": "tool_result", "tool_use_id": id, "content": content} | more


def found(*parts: str, on: bool = True, **more: Any) -> JSON:
    """A search result."""
    content = [{"type": "text", "text": part} for part in parts]
    return {
        "type": "search_result",
        "source": "https://a.example/",
        "title": "A",
        "content": content,
        "citations": {"enabled": on},
    } | more


def words(content: str = "hi", **more: Any) -> JSON:
    """A text block."""
    return {"type": "text", "text": content} | more


def body(*messages: JSON, **more: Any) -> JSON:
    """A request, by default one that is in order."""
    return {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": list(messages) or [user("hi")]} | more


def talk(*results: Any, calls: Any = None, **more: Any) -> JSON:
    """A request whose last message answers calls, by default one."""
    return body(user("hi"), said(*(calls or [call()])), user(*results), **({"tools": [tool()]} | more))


MARK = {"type": "ephemeral"}


SEARCH = {"type": "web_search_20250305", "name": "web_search"}


SERVER_CALL = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}


SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


BASH = {"type": "bash_20250124", "name": "bash"}


def schema(names: int = 1, required: bool = True, **kind: Any) -> JSON:
    """A closed schema with some properties of a type."""
    properties = {f"p{n}": kind or {"type": "string"} for n in range(names)}
    return OBJECT | {"properties": properties, "required": list(properties) if required else []}


OPEN_OBJECT = {"type": "object", "properties": {}}


NULLABLE = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def formed(schema: JSON) -> JSON:
    """A request for structured output."""
    return body(output_config={"format": {"type": "json_schema", "schema": schema}})


FORMAT = {"format": {"type": "json_schema", "schema": OBJECT}}


FOREIGN = {"type": "web_search_result", "url": "https://a.example/", "title": "A", "encrypted_content": "made up"}


THOUGHT = {"type": "thinking", "thinking": "Let me think.", "signature": "sig1"}


TIED = THOUGHT | {"signature": "tied"}


CITED = words(citations=[{"type": "char_location", "cited_text": "a", "document_index": 0}])

CASES: list[tuple[JSON, JSON, str]] = [
    (body(temperature=1.0), body(), "temperature"),
    (body(top_k=5), body(), "top_k"),
    (body(frequency_penalty=1), body(metadata={"user_id": "u"}), "Extra inputs are not permitted"),
    (body(model=""), body(), "model"),
    (body(max_tokens=-1), body(max_tokens=1), "greater than or equal to 0"),
    (body() | {"messages": []}, body(), "at least one message"),
    (body({"role": "system", "content": "x"}, user("hi")), body(system="x"), 'must use the "user" role'),
    (body(user("hi"), said("ho"), user("")), body(user("hi"), user("you")), "non-empty content"),
    (body(user("hi"), {"role": "assistant"}), body(user("hi")), "messages.1: all messages must have non-empty content"),
    (body(system=[{"type": "image"}]), body(system="x"), "system.0.type"),
    (body(said("hi"), user("ho")), body(user("hi")), 'must use the "user" role'),
    (body(user(words(note="x"))), body(user(words())), "note: Extra inputs"),
    (body(user({"type": "video"})), body(user(words())), "Input tag 'video'"),
    (body() | {"messages": ["hi"]}, body(), "messages.0: Input should be a valid dictionary"),
    (body(tools=["look"]), body(tools=[tool()]), "tools.0.custom: Input should be a valid dictionary"),
    (
        body(user("hi"), said({"type": "document", "source": {"type": "text", "data": "x"}}), user("ho")),
        body(user({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}})),
        "Input tag 'document'",
    ),
    (body(user("hi"), said(found("x")), user("ho")), body(user(found("x"))), "search_result"),
    (body(system=[words("")]), body(system=[words()]), "system: text content blocks"),
    (body(user(words(""))), body(user(words("x"))), "must be non-empty"),
    (body(user(words(" \n"))), body(user(words("x"))), "non-whitespace"),
    (talk(result(content=[words("")])), talk(result(content="")), "must be non-empty"),
    (body(user(words("", cache_control=MARK))), body(user(words())), "cache_control cannot be set"),
    (body(user(CITED)), body(user(words(citations=[]))), "not permitted"),
    (
        talk(result(content=[found("x") | {"content": [CITED]}])),
        talk(result(content=[found("x")])),
        "not permitted on text blocks in user messages",
    ),
    (body(user("hi"), said("The answer is")), body(), "prefill"),
    (body(user("hi"), said(words("changed"), SERVER_CALL)), body(), "prefill"),
    (
        talk(result(), calls=[THOUGHT | {"thinking": "Let me thinK."}, call()]),
        talk(result(), calls=[THOUGHT, call()]),
        "cannot be modified",
    ),
    (
        talk(result(), calls=[THOUGHT | {"signature": "forged"}, call()]),
        talk(result(), calls=[THOUGHT, call()]),
        "Invalid `signature`",
    ),
    (
        talk(result("toolu_thought"), calls=[call("toolu_thought")]),
        talk(result("toolu_thought"), calls=[THOUGHT, call("toolu_thought")]),
        "left out",
    ),
    (
        body(user("ho"), said(TIED, words()), user("more")),
        body(user("hi"), said(TIED, words()), user("more")),
        "differs from the one",
    ),
    (
        body(user("hi"), said(SERVER_CALL, SERVER_RESULT | {"content": [FOREIGN]}), user("ho"), tools=[SEARCH]),
        body(user("hi"), said(SERVER_CALL, SERVER_RESULT), user("ho"), tools=[SEARCH]),
        "Invalid `encrypted_content`",
    ),
    (
        body(user("hi"), said(SERVER_CALL, SERVER_RESULT | {"content": None}), user("ho"), tools=[SEARCH]),
        body(user("hi"), said(SERVER_CALL, SERVER_RESULT), user("ho"), tools=[SEARCH]),
        "Input should be a valid",
    ),
    (body(user(found("x", title=""))), body(user(found("x"))), "title"),
    (body(user(found())), body(user(found("x"))), "at least 1 item"),
    (body(user(found("x", " "))), body(user(found("x", "y"))), "non-empty"),
    (body(tools=[SEARCH | {"type": "web_search_19990101"}]), body(tools=[SEARCH]), "match pattern"),
    (body(tools=[tool(price=1)]), body(tools=[tool()]), "price: Extra inputs"),
    (body(tools=[BASH | {"cache_control": "x"}]), body(tools=[BASH | {"cache_control": MARK}]), "cache_control"),
    (body(tools=[tool("a b")]), body(tools=[tool("a-b")]), "match pattern"),
    (body(tools=[tool(), tool()]), body(tools=[tool(), tool("b")]), "unique"),
    (body(tools=[tool(input_schema={})]), body(tools=[tool()]), "input_schema.type"),
    (
        body(tools=[tool(strict=True, input_schema=schema(items=OPEN_OBJECT, type="array"))]),
        body(tools=[tool(input_schema=OPEN_OBJECT), tool("b", strict=True, input_schema=schema(items=OBJECT, type="array"))]),
        "additionalProperties",
    ),
    (formed(OPEN_OBJECT), formed(schema()), "additionalProperties"),
    (
        body(tools=[tool(f"t{n}", strict=True) for n in range(21)]),
        body(tools=[tool(f"t{n}", strict=True) for n in range(20)]),
        "Too many strict tools (21)",
    ),
    (
        body(tools=[tool(strict=True, input_schema=schema(25, required=False))]),
        body(tools=[tool(strict=True, input_schema=schema(24, required=False))]),
        "too many optional parameters (25)",
    ),
    (
        body(tools=[tool(strict=True, input_schema=schema(17, **NULLABLE))]),
        body(tools=[tool(strict=True, input_schema=schema(16, **NULLABLE))]),
        "union types (17)",
    ),
    (formed(schema(17, type=["string", "null"])), formed(schema(16, type=["string", "null"])), "union types (17)"),
    (
        body(tools=[tool(strict=True, input_schema=schema(type="string", minLength=2))]),
        body(tools=[tool(input_schema=schema(type="string", minLength=2))]),
        "minLength are not supported",
    ),
    (formed(schema(type="integer", minimum=0)), formed(schema(type="integer")), "minimum are not supported"),
    (
        body(tools=[SEARCH | {"allowed_domains": ["https://a.example"]}]),
        body(tools=[SEARCH | {"allowed_domains": ["a.example/blog"]}]),
        "must not include a scheme",
    ),
    (
        body(tools=[SEARCH | {"allowed_domains": ["a.example"], "blocked_domains": ["b.example"]}]),
        body(tools=[SEARCH | {"allowed_domains": ["a.example"]}]),
        "Only one of",
    ),
    (body(tool_choice={"type": "auto"}), body(), "while providing tools"),
    (
        body(tools=[tool()], tool_choice={"type": "tool", "name": "other"}, model="claude-haiku-5-5"),
        body(tools=[tool()], tool_choice={"type": "none"}),
        "'other' not found",
    ),
    (
        body(tools=[tool()], tool_choice={"type": "any"}),
        body(tools=[tool()], tool_choice={"type": "any"}, model="claude-haiku-5-5"),
        'type "tool" and "any" are not supported for this model',
    ),
    (
        body(thinking={"type": "enabled", "budget_tokens": 2048}, max_tokens=2048),
        body(thinking={"type": "enabled", "budget_tokens": 2048}, max_tokens=2049),
        "must be greater than `thinking.budget_tokens`",
    ),
    (talk(result(), tools=[]), talk(result()), "must define tools"),
    (
        talk(result(), result(), calls=[call(), call()]),
        talk(result(), result("toolu_2"), calls=[call(), call("toolu_2")]),
        "ids must be unique",
    ),
    (talk(result(), result("T9")), talk(result()), "unexpected `tool_use_id`"),
    (talk(result(), result()), talk(result()), "single result"),
    (
        talk(result(), calls=[call(), call("toolu_2")]),
        talk(result(), result("toolu_2"), calls=[call(), call("toolu_2")]),
        "without `tool_result` blocks immediately after: toolu_2",
    ),
    (
        talk(words("so"), result()),
        talk(result(), words("so")),
        "immediately after: toolu_1",
    ),
    (
        body(user("hi"), said(SERVER_CALL, words()), user("ho"), tools=[SEARCH]),
        body(user("hi"), said(SERVER_CALL, SERVER_RESULT, words()), user("ho"), tools=[SEARCH]),
        "without a corresponding `web_search_tool_result`",
    ),
    (
        talk(result(), words("and"), calls=[SERVER_CALL, call()], tools=[tool(), SEARCH]),
        talk(result(), calls=[SERVER_CALL, call()], tools=[tool(), SEARCH]),
        "without a corresponding `web_search_tool_result`",
    ),
    (
        talk(result(content=[found("x"), words("a note")])),
        talk(result(content=[found("x"), found("a note")])),
        "all blocks must be",
    ),
    (
        talk(result(content=[found("x")], is_error=True)),
        talk(result(content="It failed.", is_error=True)),
        '"text" if `is_error` is true',
    ),
    (talk(result(content="", is_error=True)), talk(result(content="")), "empty if"),
    (
        talk(result(content=[found("x"), found("y", on=False)])),
        talk(result(content=[found("x", on=False), found("y", on=False)])),
        "for all `search_result` blocks",
    ),
    (
        talk(result(content=[found("x")]), output_config=FORMAT),
        talk(result(content=[found("x", on=False)]), output_config=FORMAT),
        "when citations are enabled",
    ),
    (
        body(user(*[words(str(n), cache_control=MARK) for n in range(5)])),
        body(user(*[words(str(n), cache_control=MARK) for n in range(4)])),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    (
        body(user(words(cache_control=MARK | {"ttl": "2h"}))),
        body(user(words(cache_control=MARK | {"ttl": "1h"}))),
        "'5m' or '1h'",
    ),
]


def examined(body: JSON) -> str:
    """Return the words of the refusal of a request, "" when it is in order."""
    issued = Issued()
    issued.note({"content": [THOUGHT]})
    issued.note({"content": [THOUGHT, call("toolu_thought")]})
    issued.note({"content": [TIED]}, {**CASES[0][1], "messages": [user("hi")]})
    issued.note({"content": [words("Let me look."), SERVER_CALL], "stop_reason": "pause_turn"})
    try:
        examine(json.loads(json.dumps(body)), issued)
    except ModelError as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize(("broken", "corrected", "says"), CASES)
def test_what_breaks_a_rule_is_refused_and_the_corrected_request_is_taken(broken: JSON, corrected: JSON, says: str) -> None:
    assert says in examined(broken)
    assert examined(corrected) == ""


def test_the_network_is_refused_but_for_the_pretended_web(offline: list[str]) -> None:
    with pytest.raises(OSError):
        urllib.request.urlopen("http://93.184.216.34/")
    assert offline == ["connection to 93.184.216.34:80"]
    with PublicWeb() as web:
        web.page("http://example.org/a", "<p>Hello</p>")
        with urllib.request.urlopen("http://example.org/a") as answer:
            assert answer.read() == b"<p>Hello</p>"
