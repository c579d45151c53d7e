"""What bounds an intercepted call: money that runs out, limits of one tool beside another, domains, platforms, definitions."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from typing import Any

import anthropic
import httpx2
import pytest

from ipy_websearch import api
from ipy_websearch.errors import ConfigError
from ipy_websearch.interception import intercept
from tests.fakes.engine import hit
from tests.fakes.replies import tool_use

MODEL = "claude-sonnet-5-5"
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
FETCH: dict[str, Any] = {"type": "web_fetch_20250910", "name": "web_fetch"}
PAGE = "http://pages.example/ruby"
URL_NOTE = f"Read {PAGE}, please."


def ask(client: Any, *tools: Any, question: str = "Who wrote Ruby?", **options: Any) -> Any:
    """Ask with these tools."""
    messages = [{"role": "user", "content": question}]
    return client.messages.create(**{"model": MODEL, "max_tokens": 500, "messages": messages, "tools": list(tools), **options})


def kinds(message: Any) -> list[str]:
    """Return the types of a message's blocks."""
    return [block.type for block in message.content]


def search(query: str) -> Any:
    """Return a call of the search."""
    return tool_use("ipy_web_search", {"query": query})


def fetch(url: str = PAGE) -> Any:
    """Return a call of the fetch."""
    return tool_use("ipy_web_fetch", {"url": url})


def test_results_that_cost_too_much_to_read_are_left_out_and_the_answer_is_written(
    messages_api: Any, brave_api: Any, public_web: Any
) -> None:
    """What a page has is paid for with the request that reads it; words are affordable without it."""
    told = "".join(f"<p>{f'Matz wrote it, as witness {n} told everybody at great length. ' * 9}</p>" for n in range(90))
    public_web.page(PAGE, f"<article><h1>Ruby</h1>{told}</article>")
    api.session().settings.session_budget_usd = 0.03
    client = intercept(anthropic.Anthropic(), provider="brave")
    messages_api.reply("I read it.", fetch())
    messages_api.reply("I could not afford the page.")
    message = ask(client, FETCH, question=URL_NOTE)
    assert kinds(message) == ["text", "server_tool_use", "web_fetch_tool_result", "text"] and message.stop_reason == "end_turn"
    last = messages_api.bodies[-1]
    (result,) = last["messages"][-1]["content"]
    assert last["tool_choice"] == {"type": "none"} and result["is_error"] and "budget" in str(result["content"])
    assert api.session().budgets.session.reserved == 0 and float(api.session().budgets.session.spent) < 0.03


@pytest.mark.parametrize(
    ("first", "second", "tools"),
    [("search", "fetch", [{**SEARCH, "max_uses": 1}, FETCH]), ("fetch", "search", [{**FETCH, "max_uses": 1}, SEARCH])],
)
def test_a_limit_of_one_web_tool_leaves_the_other(
    messages_api: Any, brave_api: Any, public_web: Any, first: str, second: str, tools: list[Any]
) -> None:
    """`max_uses` is each tool's own."""
    public_web.page(PAGE, "<article><h1>Ruby</h1><p>Matz wrote it.</p></article>")
    public_web.page(PAGE + "/2", "<article><h1>Ruby</h1><p>Matz wrote it.</p></article>")
    calls: dict[str, Callable[[int], Any]] = {
        "search": lambda n: search(f"ruby {n}"),
        "fetch": lambda n: fetch(PAGE + "/2" * n),
    }
    client = intercept(anthropic.Anthropic(), provider="brave")
    messages_api.reply(calls[first](0), calls[first](1))
    messages_api.reply(calls[second](0))
    messages_api.reply("Matz.")
    message = ask(client, *tools, question=f"Read {PAGE} and {PAGE}/2")
    used = message.usage.server_tool_use
    assert (used.web_search_requests, used.web_fetch_requests) == (1, 1)
    assert "max_uses_exceeded" in str(message.content[3]) and "error" not in str(message.content[5])


@pytest.mark.parametrize(
    ("given", "reads"),
    [
        ({"blocked_domains": ["bücher.de"]}, False),
        ({"blocked_domains": ["BÜCHER.de:8080"]}, False),
        ({"allowed_domains": ["bücher.de"]}, True),
        ({"allowed_domains": ["xn--bcher-kva.de:80"]}, True),
        ({"allowed_domains": ["buecher.de"]}, False),
    ],
)
def test_domains_hold_for_pages_in_any_script_and_with_a_port(
    messages_api: Any, public_web: Any, given: dict[str, Any], reads: bool
) -> None:
    """The search reads them so, and a blocked domain that blocks nothing is worse than none."""
    page = "http://xn--bcher-kva.de/x"
    public_web.page(page, "<article><h1>Bücher</h1><p>Alle Bücher.</p></article>")
    client = intercept(anthropic.Anthropic(), enabled_platforms="anthropic")
    messages_api.reply(fetch(page))
    messages_api.reply("Done.")
    block = ask(client, {**FETCH, **given}, question=f"Read {page}").content[1]
    assert ("url_not_allowed" in str(block)) is not reads


def vertex(answer: Callable[[Any], Any]) -> Any:
    """Return an intercepted client of Vertex; `answer` gives the content of its reply to a body."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        content, stop = answer(json.loads(request.content))
        facts = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_sequence": None}
        counts = {"input_tokens": 1, "output_tokens": 1}
        return httpx2.Response(200, json={**facts, "content": content, "stop_reason": stop, "usage": counts})

    http = httpx2.Client(transport=httpx2.MockTransport(handle))
    return intercept(anthropic.AnthropicVertex(region="us-east5", project_id="p", access_token="t", http_client=http))


def test_what_the_platforms_own_search_found_may_be_read_in_the_same_call(public_web: Any) -> None:
    """Vertex searches by itself, and the fetch is ours."""
    public_web.page(PAGE, "<article><h1>Ruby</h1><p>Matz wrote it.</p></article>")
    found = {"type": "web_search_result", "url": PAGE, "title": "Ruby", "encrypted_content": "E", "page_age": None}

    def answer(body: Any) -> Any:
        if len(body["messages"]) > 1:
            return [{"type": "text", "text": "Matz."}], "end_turn"
        call = {"type": "tool_use", "id": "toolu_1", "name": "ipy_web_fetch", "input": {"url": PAGE}}
        own = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "ruby"}}
        return [own, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [found]}, call], "tool_use"

    assert "Matz wrote it." in str(ask(vertex(answer), SEARCH, FETCH).content[3])


def refusing(request: httpx2.Request) -> httpx2.Response:
    """Answer as a server without tools of its own does."""
    error = {"type": "invalid_request_error", "message": "tools.0: unknown type web_search_20250305"}
    return httpx2.Response(400, json={"type": "error", "error": error})


@pytest.mark.parametrize("platforms", [["bedrock"], []])
def test_platforms_that_are_not_listed_are_left_alone_when_they_refuse_too(brave_api: Any, platforms: list[str]) -> None:
    """The listed platforms are the only ones; the refusal is the caller's."""
    http = httpx2.Client(transport=httpx2.MockTransport(refusing))
    made = anthropic.Anthropic(api_key="k", base_url="http://127.0.0.1:9", http_client=http)
    with pytest.raises(anthropic.BadRequestError, match="unknown type"):
        ask(intercept(made, enabled_platforms=platforms), SEARCH)
    assert brave_api.queries == []


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_definitions_of_the_search_both_hold(messages_api: Any, brave_api: Any, turned: bool) -> None:
    """The smallest number of uses, and whatever is blocked by either."""
    strict = {**SEARCH, "max_uses": 1, "blocked_domains": ["example.org"]}
    loose = {"name": "ipy_web_search", "max_uses": 5}
    tools = [loose, strict] if turned else [strict, loose]
    brave_api.reply([hit("https://example.org/", "Blocked"), hit("https://a.example/", "Kept")])
    messages_api.reply(search("one"), search("two"))
    messages_api.reply("Done.")
    message = ask(intercept(anthropic.Anthropic(), provider="brave"), *tools)
    assert [found.url for found in message.content[1].content] == ["https://a.example/"]
    assert message.content[3].content.error_code == "max_uses_exceeded"


@pytest.mark.parametrize(
    "second", [{"blocked_domains": ["b.example"]}, {"allowed_domains": ["c.example"]}], ids=["other list", "other domain"]
)
def test_definitions_that_contradict_each_other_are_refused_before_anything_is_sent(
    messages_api: Any, brave_api: Any, second: dict[str, Any]
) -> None:
    """Which of the two was meant, nobody knows."""
    client = intercept(anthropic.Anthropic(), provider="brave")
    first = {**SEARCH, "allowed_domains": ["a.example"]}
    with pytest.raises(ConfigError, match="defined twice"):
        ask(client, first, {"name": "ipy_web_search", **second})
    assert messages_api.requests == []


class Clouds(Enum):
    """Platforms as other libraries name them."""

    BEDROCK = "bedrock"


@pytest.mark.parametrize("platforms", ["bedrock", Clouds.BEDROCK, [Clouds.BEDROCK]])
def test_one_platform_needs_no_list(messages_api: Any, platforms: Any) -> None:
    """A name alone is not taken for its letters; here it is another platform's."""
    client = intercept(anthropic.Anthropic(), enabled_platforms=platforms)
    messages_api.reply("Matz.")
    assert kinds(ask(client, SEARCH)) == ["text"] and messages_api.bodies[0]["tools"] == [SEARCH]


@pytest.mark.parametrize("uses", ["3", 2.5, True, 0])
def test_a_number_of_uses_that_is_none_is_refused_in_one_line(messages_api: Any, uses: Any) -> None:
    """Also where it only looks like one."""
    with pytest.raises(ConfigError, match="it must be a whole number, 1 or more"):
        intercept(anthropic.Anthropic(), max_uses=uses)


def test_the_class_is_no_client() -> None:
    """The brackets are forgotten easily."""
    with pytest.raises(ConfigError, match="the class Anthropic itself"):
        intercept(anthropic.Anthropic)
