"""Cache breakpoints and callers on the blocks of a reply that is sent back: they stay where the caller had them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ipy_websearch.interception import intercept
from tests.fakes.engine import hit
from tests.fakes.replies import block, server_search, text, tool_use

MODEL = "claude-sonnet-5-5"
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
FETCH: dict[str, Any] = {"type": "web_fetch_20250910", "name": "web_fetch"}
WEATHER = {"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}
MARS = "corpus://planets/mars"
QUESTION = {"role": "user", "content": f"Read {MARS} and search please"}
MORE = {"role": "user", "content": "And then?"}
SHORT, HOUR = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    brave_api.behave(lambda params: [] if params["q"] == "nothing" else [hit("https://a.example/", "A", "Text.")])
    with intercept(anthropic.Anthropic(max_retries=0), provider="brave") as made:
        yield made


def ask(client: Any, *messages: Any, **options: Any) -> Any:
    """Ask with web tools and one of the caller's own."""
    asked = {"model": MODEL, "max_tokens": 1000, "messages": list(messages), "tools": [SEARCH, FETCH, WEATHER]}
    return client.messages.create(**{**asked, **options})


def search(query: str = "ruby author") -> Any:
    """Return the part of a reply that searches."""
    return tool_use("ipy_web_search", {"query": query})


def content_of(message: Any) -> list[dict[str, Any]]:
    """Return the blocks of a reply as JSON."""
    return json.loads(json.dumps(message.to_dict()["content"]))  # type: ignore[no-any-return]


def marked(body: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the blocks of a request that are breakpoints: type, id, and the breakpoint."""
    blocks = [part for turn in body["messages"] if isinstance(turn["content"], list) for part in turn["content"]]
    ids = [(part, part.get("id") or part.get("tool_use_id") or part.get("text", "")) for part in blocks]
    return [(part["type"], name, part["cache_control"]) for part, name in ids if part.get("cache_control")]


# --- breakpoints ----------------------------------------------------------------------------------------------------


def test_breakpoints_on_our_blocks_stay_on_what_they_are_upstream(client: Any, messages_api: Any) -> None:
    """On a call, a result, a page and a failure; those that are null are none."""
    unknown = tool_use("ipy_web_fetch", {"url": "https://unknown.example/"})
    messages_api.reply(search(), tool_use("ipy_web_fetch", {"url": MARS}), unknown)
    messages_api.reply("So.")
    content = content_of(ask(client, QUESTION))
    for n in (0, 1, 3, 5):
        content[n]["cache_control"] = HOUR if n < 2 else SHORT
    content[2]["cache_control"] = None
    calls = [call["id"] for call in messages_api.bodies[-1]["messages"][1]["content"]]
    messages_api.reply("Yes.")
    ask(client, QUESTION, {"role": "assistant", "content": content}, MORE)
    assert marked(messages_api.bodies[-1]) == [
        ("tool_use", calls[0], HOUR),
        ("tool_result", calls[0], HOUR),
        ("tool_result", calls[1], SHORT),
        ("tool_result", calls[2], SHORT),
    ]
    assert "null" not in json.dumps([b for b in messages_api.bodies[-1]["messages"][1]["content"]])


def test_the_breakpoint_on_a_foreign_result_stays_on_the_words_for_it(client: Any, messages_api: Any) -> None:
    """Results of the API's own search become text where an engine was named."""
    call, found = server_search("ruby", [("https://b.example/", "About Ruby")]).make({})
    content = [call, {**found, "cache_control": SHORT}, {"type": "text", "text": "So."}]
    messages_api.reply("Yes.")
    ask(client, QUESTION, {"role": "assistant", "content": content}, MORE)
    ((kind, words, mark),) = marked(messages_api.bodies[-1])
    assert (kind, mark) == ("text", SHORT) and words.startswith("[Searched the web for 'ruby'")


_parts = st.sampled_from(["search", "nothing", "page", "text", "weather"])


@given(
    st.lists(st.lists(_parts, min_size=1, max_size=4), min_size=1, max_size=3),
    st.sets(st.integers(0, 19), max_size=4),
    st.integers(0, 4),
)
@example([["search", "text"]], {1, 2}, 1)
@example([["search", "search"]], {1, 2}, 1)
@example([["search", "weather", "text"]], {1, 3}, 1)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_breakpoints_that_the_api_would_take_are_taken(
    client: Any, messages_api: Any, replies: list[list[str]], places: set[int], hours: int
) -> None:
    """Up to four anywhere on a reply, those of an hour first: as many go up, and the API refuses none for its order."""
    for n, kinds in enumerate(replies):
        messages_api.reply(*(_part(kind, n, m) for m, kind in enumerate(kinds)))
        if not {"search", "nothing", "page"} & set(kinds) or "weather" in kinds:
            break
    else:
        messages_api.reply("That is all.")
    content = content_of(ask(client, QUESTION))
    there = sorted({place % len(content) for place in places})
    for rank, place in enumerate(there):
        content[place]["cache_control"] = HOUR if rank < hours else SHORT
    results = [{"type": "tool_result", "tool_use_id": b["id"], "content": "Sunny."} for b in content if b["type"] == "tool_use"]
    messages_api.reply("Yes.")
    ask(client, QUESTION, {"role": "assistant", "content": content}, {"role": "user", "content": results or "And then?"})
    assert len(marked(messages_api.bodies[-1])) == len(there)


def _part(kind: str, n: int, m: int) -> Any:
    match kind:
        case "page":
            return tool_use("ipy_web_fetch", {"url": MARS})
        case "text":
            return text(f"Text {n} {m}.")
        case "weather":
            return tool_use("get_weather")
    return search("nothing" if kind == "nothing" else f"query {n} {m}")


# --- callers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("caller", [{"type": "direct"}, None], ids=["said", "not-said"])
def test_a_call_says_who_made_it_as_the_model_said_it(client: Any, messages_api: Any, stream: bool, caller: Any) -> None:
    """On the call and on its result, and upstream again when it comes back; servers that do not say it get none."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "ipy_web_search", "input": {"query": "ruby"}}
    messages_api.reply(block({**call, **({"caller": caller} if caller else {})}, stop_reason="tool_use"))
    messages_api.reply("Matz.")
    asked = {"model": MODEL, "max_tokens": 99, "messages": [QUESTION], "tools": [SEARCH]}
    if stream:
        with client.messages.stream(**asked) as running:
            content = content_of(running.get_final_message())
    else:
        content = content_of(client.messages.create(**asked))
    assert [part.get("caller") for part in content] == [caller, caller, None]
    messages_api.reply("Yes.")
    ask(client, QUESTION, {"role": "assistant", "content": content}, MORE)
    first, second = (body["messages"][1]["content"] for body in messages_api.bodies[1:])
    assert first == second[:1] and first[0].get("caller") == caller
