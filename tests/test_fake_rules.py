"""The strict fake of the Messages API: each rule refuses the request that breaks it and takes the corrected one.

The requests go through the official SDK and real HTTP; they are in `rule_cases.py`, and no rule is without one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import pytest

from tests.fakes import rules_tools
from tests.fakes.examination import Call, Issued, Refused, all_rules, examine
from tests.fakes.messages_api import MessagesAPI
from tests.fakes.replies import WIRE, recorded, server_search, stop, text, thinking, tool_use
from tests.fakes.shapes import ALLOWED, FIELDS
from tests.rule_cases import CASES, JSON, PAUSED, SEARCH, THOUGHT, TIED, body, call, result, said, tool, user


@pytest.fixture(scope="module")
def api() -> Iterator[MessagesAPI]:
    """One fake for the module, which answers everything it does not refuse and knows what `CASES` replays."""
    with MessagesAPI() as fake:
        fake.allow_refusals = True
        fake.remember([THOUGHT])
        fake.remember([THOUGHT, call("toolu_thought")])
        fake.remember([TIED], body=body(user("hi")))
        fake.remember(PAUSED, paused=True)
        fake.behave(lambda request: text("Good"))
        yield fake


@pytest.fixture(scope="module")
def client(api: MessagesAPI) -> Iterator[anthropic.Anthropic]:
    """The official client, pointed at the fake."""
    with anthropic.Anthropic(api_key=api.key, base_url=api.url, max_retries=0) as made:
        yield made


def send(client: anthropic.Anthropic, request: JSON) -> Any:
    """Send a request as it is, also with fields that the SDK's signature does not know."""
    known = {name: request[name] for name in ("model", "max_tokens", "messages")}
    header = {"anthropic-beta": "a-beta-2026-01-01"} if is_beta(request) else {}
    rest = {name: value for name, value in request.items() if name not in known}
    return client.messages.create(**known, extra_body=rest, extra_headers=header)


def is_beta(request: JSON) -> bool:
    """Return whether a request has fields of a beta, and so needs the header that makes them known."""
    return any(name in request for name in FIELDS["beta request"])


@pytest.mark.parametrize(
    ("rule", "broken", "corrected", "says"), CASES, ids=[f"{n}-{case[0].__name__}" for n, case in enumerate(CASES)]
)
def test_a_broken_request_is_refused_and_the_corrected_one_answered(
    client: anthropic.Anthropic, rule: Callable[[Call], None], broken: JSON, corrected: JSON, says: str
) -> None:
    """The refusal is a 400 in the API's words and comes from the rule that is meant."""
    with pytest.raises(anthropic.BadRequestError) as caught:
        send(client, broken)
    assert says in caught.value.body["error"]["message"]
    assert caught.value.body["error"]["type"] == "invalid_request_error"
    assert caught.value.body["request_id"].startswith("req_")
    assert send(client, corrected).content[0].text == "Good"


@pytest.mark.parametrize(("rule", "broken"), [case[:2] for case in CASES])
def test_it_is_the_rule_meant_that_refuses(rule: Callable[[Call], None], broken: JSON) -> None:
    """Each case breaks its own rule first, so that no rule is proved by another."""
    issued = Issued()
    issued.note({"content": [THOUGHT]})
    issued.note({"content": [THOUGHT, call("toolu_thought")]})
    issued.note({"content": [TIED]}, body(user("hi")))
    for number, check in enumerate(all_rules()):
        try:
            check(Call(json.loads(json.dumps(broken)), issued, beta=is_beta(broken)))
        except Refused:
            assert check is rule, f"rule {number}, {check.__name__}, was first"
            return
    pytest.fail("no rule refused")


def test_no_rule_is_without_a_case(api: MessagesAPI, client: anthropic.Anthropic) -> None:
    """A rule that nothing breaks here would be a rule that nobody has tried."""
    send(client, body())
    assert {check.__name__ for check in all_rules()} == {case[0].__name__ for case in CASES}
    assert all(check.__doc__ for check in all_rules())


@pytest.mark.parametrize(
    "name",
    [
        "pai_parallel_tool_use_json_1",
        "pai_parallel_tool_use_json_2",
        "pai_server_plus_client_tool_inflight",
        "pai_web_search_json_turn1",
        "pai_web_search_json_turn2",
        "ruby_search_result_tool_1",
        "ruby_search_result_tool_2",
    ],
)
def test_requests_that_the_real_api_answered_are_not_refused(name: str) -> None:
    """The rules are no stricter than the API: recorded requests pass (under the API version they were sent with)."""
    request = json.loads((WIRE / "anthropic" / f"{name}.request.json").read_text())
    issued = Issued()
    if name.endswith("turn2"):
        issued.note(recorded("pai_web_search_json_turn1.json").message)
    examine(Call(request, issued, "2023-06-01"))


def test_the_shapes_are_those_of_the_official_sdk() -> None:
    """Known fields of requests, blocks and tools are read off the SDK's types, and are still the same there."""
    import anthropic.types as types
    from anthropic.types.beta.message_create_params import MessageCreateParamsBase as BetaParams
    from anthropic.types.message_create_params import MessageCreateParamsBase

    headers = {"workspace_id", "user_profile_id", "speed"}
    assert {*FIELDS["request"]} | headers == {*MessageCreateParamsBase.__annotations__, "stream"} | headers
    both = {*FIELDS["request"], *FIELDS["beta request"], "betas"}
    assert both | headers == {*BetaParams.__annotations__, "stream"} | headers
    assert set(FIELDS["container"]) == set(types.ContainerParams.__annotations__)
    for kind in {kind for kinds in ALLOWED.values() for kind in kinds} & set(FIELDS):
        camel = "".join(part.title() for part in kind.split("_"))
        assert set(FIELDS[kind]) == set(getattr(types, f"{camel}BlockParam").__annotations__), kind
    for version, fields in rules_tools.SERVER_TOOLS.items():
        tool_name, date = version.rsplit("_", 1)
        camel = "".join(part.title() for part in tool_name.split("_"))
        assert set(fields) == set(getattr(types, f"{camel}Tool{date}Param").__annotations__), version
    assert set(rules_tools.CUSTOM) == set(types.ToolParam.__annotations__)


def test_a_paused_turn_is_resumed_by_sending_it_back(api: MessagesAPI, client: anthropic.Anthropic) -> None:
    """After pause_turn the unchanged assistant message may be the last; its reply starts with the missing result."""
    api.reply("Let me look.", server_search("x", finished=False))
    first = client.messages.create(**body(tools=[SEARCH]))
    assert first.stop_reason == "pause_turn"
    api.reply({"type": "web_search_tool_result", "tool_use_id": first.content[1].id, "content": []}, "Nothing.")
    second = client.messages.create(**body(user("hi"), first.to_param(), tools=[SEARCH]))
    assert [block.type for block in second.content] == ["web_search_tool_result", "text"]
    history = [user("hi"), first.to_param(), second.to_param(), user("and?")]
    assert client.messages.create(**body(*history, tools=[SEARCH])).content[0].text == "Good"


def test_thinking_from_this_api_is_taken_back(api: MessagesAPI, client: anthropic.Anthropic) -> None:
    """What the fake sent passes when it comes back as the SDK writes it, and is missed when it is dropped."""
    api.reply(thinking("Hm."), tool_use("look", {"q": "x"}))
    first = client.messages.create(**body(tools=[tool()]))
    answers = user(result(first.content[1].id))
    assert client.messages.create(**body(user("hi"), first.to_param(), answers, tools=[tool()])).content[0].text == "Good"
    dropped = said(*first.to_param()["content"][1:])
    with pytest.raises(anthropic.BadRequestError, match="left out"):
        client.messages.create(**body(user("hi"), dropped, answers, tools=[tool()]))


def test_a_missing_or_wrong_key_is_an_authentication_error(api: MessagesAPI, client: anthropic.Anthropic) -> None:
    """From version 2026-10-21 on the key is a bearer token; anything else is answered 401."""
    for key, more in (("wrong", {}), (None, {"x-api-key": api.key})):
        other = client.with_options(api_key=key or "x", default_headers=more)
        if key is None:
            other = client.with_options(default_headers={"Authorization": anthropic.omit, "x-api-key": api.key})
        with pytest.raises(anthropic.AuthenticationError) as caught:
            other.messages.create(**body())
        assert caught.value.body["error"]["type"] == "authentication_error"
    older = {"anthropic-version": "2023-06-01", "Authorization": anthropic.omit, "x-api-key": api.key}
    assert send(client.with_options(default_headers=older), body(temperature=1.0)).stop_reason == "end_turn"


def test_unknown_models_and_sizes_beyond_the_limits_are_refused(api: MessagesAPI, client: anthropic.Anthropic) -> None:
    """404 for a model, 400 for too long a prompt or too many tokens, 413 for more than 32 MB."""
    with pytest.raises(anthropic.NotFoundError, match="claude-nobody"):
        client.messages.create(**body(model="claude-nobody"))
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: .* tokens > 200000 maximum"):
        client.messages.create(**body(user("word " * 200_000), model="claude-haiku-4-5"))
    with pytest.raises(anthropic.BadRequestError, match="maximum allowed number of output tokens"):
        client.with_options(timeout=60).messages.create(**body(max_tokens=128_001))
    with pytest.raises(anthropic.RequestTooLargeError):
        client.messages.create(**body(user("x" * 33 * 2**20)))
    api.reply(stop("end_turn"))
    assert client.messages.create(**body()).content == []
