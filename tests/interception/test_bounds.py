"""What bounds an intercepted call: money that runs out, limits of one tool beside another, domains, platforms, definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import pytest

from ipy_websearch.errors import ConfigError
from ipy_websearch.interception import intercept
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


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(), provider="brave") as made:
        yield made


MARS = "corpus://planets/mars"
WHOLE = {
    "allowed_callers": ["direct", "code_execution_20260120"],
    "cache_control": {"type": "ephemeral", "ttl": "1h"},
    "defer_loading": True,
    "max_uses": 3,
    "response_inclusion": "excluded",
    "strict": True,
}


def test_a_definition_with_every_field_is_taken(client: Any, messages_api: Any, brave_api: Any) -> None:
    """The model gets plain tools; calls are the model's own, so `response_inclusion` leaves their results in the reply."""
    place = {"type": "approximate", "city": "Rome", "country": "IT", "region": "Lazio", "timezone": "Europe/Rome"}
    search_tool = {**SEARCH, **WHOLE, "blocked_domains": ["evil.example"], "user_location": place}
    fetch_tool = {**FETCH, **WHOLE, "allowed_domains": ["planets"], "citations": {"enabled": True}, "max_content_tokens": 5_000}
    fetch_tool |= {"use_cache": False}
    messages_api.reply(tool_use("ipy_web_search", {"query": "mars moons"}), fetch(MARS))
    messages_api.reply("So.")
    message = ask(client, search_tool, fetch_tool, question=f"Read {MARS} please")
    pairs = ["server_tool_use", "web_search_tool_result", "server_tool_use", "web_fetch_tool_result"]
    assert [block.type for block in message.content] == [*pairs, "text"]
    sent = messages_api.bodies[0]["tools"]
    assert [tool["name"] for tool in sent] == ["ipy_web_search", "ipy_web_fetch"]
    assert {name for tool in sent for name in tool} == {"name", "description", "input_schema", "cache_control"}


ODD = [
    *((SEARCH, field, value) for field in [*WHOLE, "allowed_domains", "user_location"] for value in (7.5, {"type": 1})),
    *((FETCH, field, value) for field in ("citations", "max_content_tokens", "use_cache") for value in (7.5, "nonsense")),
    (SEARCH, "max_uses", True),
    (SEARCH, "allowed_domains", ["https://a.example"]),
    (SEARCH, "blocked_domains", ["a.example", ""]),
]


@pytest.mark.parametrize(("tool", "field", "value"), ODD)
def test_a_field_that_is_not_of_its_form_is_refused_in_a_line(
    client: Any, messages_api: Any, tool: Any, field: str, value: Any
) -> None:
    with pytest.raises(ConfigError, match=field) as caught:
        ask(client, {**tool, field: value})
    assert "\n" not in str(caught.value) and tool["name"] in str(caught.value) and messages_api.requests == []


@pytest.mark.parametrize("status", [401, 402, 403])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_engine_that_refuses_for_good_is_asked_once_a_call(
    client: Any, messages_api: Any, brave_api: Any, status: int
) -> None:
    brave_api.fail(status)
    messages_api.reply(search("ruby author"))
    messages_api.reply(search("ruby language author"), search("who made ruby"))
    messages_api.reply("I could not search.")
    message = ask(client, SEARCH)
    codes = [block.content.error_code for block in message.content if block.type == "web_search_tool_result"]
    assert codes == ["unavailable"] * 3 and brave_api.queries == ["ruby author"]
    messages_api.reply(search("ruby author"))
    messages_api.reply("Matz.")
    assert len(ask(client, SEARCH).content[1].content) == 5
