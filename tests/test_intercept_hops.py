"""What goes on from request to request of one intercepted call, and what is of one request alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from ipy_websearch import api
from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.interception import intercept
from tests.fakes.replies import Manner, block, stop, tool_use, usage

MODEL = "claude-sonnet-5-5"
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
FETCH: dict[str, Any] = {"type": "web_fetch_20250910", "name": "web_fetch"}
CODE = {"type": "code_execution_20250825", "name": "code_execution"}
WEATHER = {"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}
QUESTION = {"role": "user", "content": "Who wrote Ruby?"}
CALLED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "open('a', 'w')"}}
RAN = {
    "type": "code_execution_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {"type": "code_execution_result", "stdout": "", "stderr": "", "return_code": 0, "content": []},
}

either = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(max_retries=0), provider="brave") as made:
        yield made


def ask(messages: Any, *, stream: bool = False, **options: Any) -> Any:
    """Ask, whole or streamed."""
    asked = {"model": MODEL, "max_tokens": 1000, "messages": [QUESTION], "tools": [CODE, SEARCH], **options}
    if not stream:
        return messages.create(**asked)
    with messages.stream(**asked) as running:
        return running.get_final_message()


def search(query: str = "ruby author") -> Any:
    """Return the part of a reply that searches."""
    return tool_use("ipy_web_search", {"query": query})


def container(name: str | None) -> Manner:
    """Return the part of a reply that names its container; None says that there was none."""
    return Manner(extra={"container": name and {"id": name, "expires_at": "2026-12-01T00:00:00Z", "skills": None}})


# --- containers -----------------------------------------------------------------------------------------------------


@either
@pytest.mark.parametrize("beta", [False, True], ids=["messages", "beta"])
def test_code_that_waits_goes_on_in_its_container(client: Any, messages_api: Any, stream: bool, beta: bool) -> None:
    """The API refuses a request that goes on with it without the container's id."""
    messages_api.reply(block(CALLED), search(), container("container_1"))
    messages_api.reply(block(RAN), "Done.", container("container_1"))
    message = ask(client.beta.messages if beta else client.messages, stream=stream)
    assert [body.get("container") for body in messages_api.bodies] == [None, "container_1"]
    assert message.container.id == "container_1"


@either
@pytest.mark.parametrize(
    ("given", "then"),
    [
        (None, "container_2"),
        ("container_1", "container_2"),
        ({"skills": []}, {"skills": [], "id": "container_2"}),
        ({"id": "container_1", "skills": []}, {"id": "container_2", "skills": []}),
    ],
    ids=["none", "an-id", "skills", "both"],
)
def test_files_that_code_wrote_are_there_in_the_next_request(
    client: Any, messages_api: Any, stream: bool, given: Any, then: Any
) -> None:
    """The last container goes along with what the caller's own says beside; the caller gets the last that there was."""
    messages_api.reply(block(CALLED), block(RAN), search(), container("container_2"))
    messages_api.reply(search("ruby year"), container(None))
    messages_api.reply("Done.", container(None))
    message = ask(client.messages, stream=stream, **({"container": given} if given else {}))
    assert [body.get("container") for body in messages_api.bodies] == [given, then, then]
    assert message.container.id == "container_2"


def test_the_stream_names_the_container_where_the_api_does(client: Any, messages_api: Any) -> None:
    """In the delta of the end, and nowhere else."""
    messages_api.reply(block(CALLED), block(RAN), search(), container("container_1"))
    messages_api.reply("Done.", container(None))
    options = {"messages": [QUESTION], "tools": [CODE, SEARCH]}
    events = [event.to_dict() for event in client.messages.create(model=MODEL, max_tokens=999, stream=True, **options)]
    assert events[0]["message"]["container"] is None
    ends = [event for event in events if event["type"] == "message_delta"]
    assert [event["delta"]["container"]["id"] for event in ends] == ["container_1"] and "container" not in ends[0]


@either
def test_without_a_container_nothing_is_said_of_one(client: Any, messages_api: Any, stream: bool) -> None:
    """Most servers know none."""
    messages_api.reply(search())
    messages_api.reply("Done.")
    message = ask(client.messages, stream=stream)
    assert all("container" not in body for body in messages_api.bodies) and message.container is None


# --- counts ---------------------------------------------------------------------------------------------------------


@either
def test_server_tools_of_all_requests_and_ours_are_counted_once(client: Any, messages_api: Any, stream: bool) -> None:
    """What the platform ran beside our search is in its own counts, and every request has its own."""
    messages_api.reply(search(), usage(server_tool_use={"web_search_requests": 0, "web_fetch_requests": 2}))
    messages_api.reply("So.", usage(server_tool_use={"web_search_requests": 3, "web_fetch_requests": 1}))
    used = ask(client.messages, stream=stream).usage.server_tool_use
    assert (used.web_search_requests, used.web_fetch_requests) == (4, 3)


@either
def test_a_search_that_failed_may_be_made_again(client: Any, messages_api: Any, brave_api: Any, stream: bool) -> None:
    """In the next request the engine may answer; what it failed is told as it was, and every try is one use."""
    brave_api.fail(429)
    for query in ("ruby author", "Ruby author", "ruby author", "ruby year"):
        messages_api.reply(search(query))
    messages_api.reply("Matz.")
    message = ask(client.messages, stream=stream, tools=[{**SEARCH, "max_uses": 2}])
    found = [part.content for part in message.content if part.type == "web_search_tool_result"]
    assert found[0].error_code == "too_many_requests" and found[3].error_code == "max_uses_exceeded"
    assert [hit.url for hit in found[1]] == [hit.url for hit in found[2]] != []
    assert len(brave_api.queries) == 2 and message.usage.server_tool_use.web_search_requests == 1


# --- names ----------------------------------------------------------------------------------------------------------


def test_the_edits_of_the_context_name_our_tools_upstream(client: Any, messages_api: Any) -> None:
    """Whose uses stay and whose inputs go is said by the names that the model's tools have; other names stay."""
    edits = [
        {
            "type": "clear_tool_uses_20250919",
            "exclude_tools": ["web_search", "get_weather"],
            "clear_tool_inputs": ["web_fetch"],
        },
        {"type": "clear_tool_uses_20250919", "clear_tool_inputs": True, "exclude_tools": None},
        {"type": "clear_thinking_20251015", "keep": "all"},
    ]
    messages_api.reply(search())
    messages_api.reply("So.")
    management = {"edits": edits}
    betas = ["context-management-2025-06-27"]
    ask(client.beta.messages, tools=[SEARCH, FETCH, WEATHER], context_management=management, betas=betas)
    ours = {**edits[0], "exclude_tools": ["ipy_web_search", "get_weather"], "clear_tool_inputs": ["ipy_web_fetch"]}
    for body in messages_api.bodies:
        assert body["context_management"] == {"edits": [ours, *edits[1:]]}
    assert management["edits"][0]["exclude_tools"] == ["web_search", "get_weather"]


# --- one request alone ----------------------------------------------------------------------------------------------


@either
@pytest.mark.parametrize("form", ["text", "object"])
def test_a_credit_for_a_refused_request_is_given_once(client: Any, messages_api: Any, stream: bool, form: str) -> None:
    """The API takes it with the refused request; the requests that follow are others."""
    details = {"type": "refusal", "category": "cyber", "explanation": "No.", "fallback_credit_token": "credit_1"}
    messages_api.reply(stop("refusal", stop_details={**details, "fallback_has_prefill_claim": False}))
    betas = ["fallback-credit-2026-07-01"]
    refused = ask(client.beta.messages, stream=stream, betas=betas)
    token = refused.stop_details.fallback_credit_token
    given = token if form == "text" else {"token": token, "mode": "strict"}
    messages_api.reply(search())
    messages_api.reply("Matz.")
    ask(client.beta.messages, stream=stream, model="claude-opus-4-8", betas=betas, fallback_credit_token=given)
    assert [body.get("fallback_credit_token") for body in messages_api.bodies] == [None, given, None]


# --- a cache that is filled beforehand ------------------------------------------------------------------------------


@pytest.mark.parametrize("ceiling", [None, 1.0], ids=["open", "ceiling"])
@pytest.mark.parametrize("choice", [{}, {"tool_choice": {"type": "auto"}}], ids=["no-choice", "auto"])
def test_a_request_that_only_fills_the_cache_goes_up_as_it_is(
    client: Any, messages_api: Any, ceiling: float | None, choice: dict[str, Any]
) -> None:
    """`max_tokens` 0 is no lack of money: another tool choice would make another cache entry."""
    api.session().settings.session_budget_usd = ceiling
    messages_api.reply("x")
    message = ask(client.messages, max_tokens=0, tools=[SEARCH, WEATHER], **choice)
    (body,) = messages_api.bodies
    assert body["max_tokens"] == 0 and body.get("tool_choice") == choice.get("tool_choice")
    assert (message.content, message.stop_reason) == ([], "max_tokens")
    session = api.session().budgets.session
    assert session.reserved == 0 and (ceiling is None or session.spent > 0)


def test_filling_the_cache_is_paid_for_too(client: Any, messages_api: Any) -> None:
    """Under a ceiling that does not reach for what is read, nothing is sent."""
    api.session().settings.session_budget_usd = 0.000001
    with pytest.raises(BudgetExceededError, match="session budget"):
        ask(client.messages, max_tokens=0)
    assert messages_api.bodies == []


def test_a_request_without_max_tokens_is_the_apis_matter(client: Any, messages_api: Any) -> None:
    """It is not made one that only fills the cache."""
    messages_api.allow_refusals = True
    body = {"model": MODEL, "messages": [QUESTION], "tools": [SEARCH]}
    for ceiling in (None, 1.0):
        api.session().settings.session_budget_usd = ceiling
        with pytest.raises(anthropic.BadRequestError, match="max_tokens: Field required"):
            client.post("/v1/messages", cast_to=object, body=body)
