"""Citations of an intercepted reply: ours become native ones, and the caller's own keep the numbers that the caller knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from ipy_websearch.interception import intercept
from tests.fakes.replies import text, tool_use

MODEL = "claude-sonnet-5-5"
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
NOTES = {"name": "read_notes", "input_schema": {"type": "object", "properties": {"about": {"type": "string"}}}}


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(), provider="brave") as made:
        yield made


def own_result(n: int) -> dict[str, Any]:
    """Return a search result of the caller's own."""
    return {
        "type": "search_result",
        "source": f"https://notes.example/{n}",
        "title": f"Note {n}",
        "content": [{"type": "text", "text": f"What note {n} says."}],
        "citations": {"enabled": True},
    }


def ask(client: Any, messages: list[Any], *, stream: bool, tools: Any = (SEARCH, NOTES)) -> Any:
    """Ask, whole or streamed."""
    options = {"model": MODEL, "max_tokens": 1000, "messages": messages, "tools": list(tools)}
    if not stream:
        return client.messages.create(**options)
    with client.messages.stream(**options) as running:
        return running.get_final_message()


def places(message: Any) -> list[tuple[str, Any]]:
    """Return what the citations of a message point to: the address, and the number of the caller's result."""
    found = []
    for block in message.content:
        for citation in getattr(block, "citations", None) or ():
            native = citation.type == "web_search_result_location"
            found.append((citation.url, None) if native else (citation.source, citation.search_result_index))
    return found


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_our_results_do_not_shift_the_callers(client: Any, messages_api: Any, brave_api: Any, stream: bool) -> None:
    """Two results of the caller's stand before a search, two more come after it: they are 0 to 3, ours have no number."""
    asked = {"role": "user", "content": [own_result(0), own_result(1), {"type": "text", "text": "Compare with the web."}]}
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}), tool_use("read_notes", {"about": "ruby"}))
    first = ask(client, [asked], stream=stream)
    call = next(block for block in first.content if block.type == "tool_use")
    hits = [hit.url for block in first.content if block.type == "web_search_tool_result" for hit in block.content]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [own_result(2), own_result(3)]}
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby year"}))
    # In the request: the caller's 0 and 1, five of ours, the caller's 2 and 3, five of ours.
    messages_api.reply(text("So.", citations=[(1, 0), (2, 0), (7, 0), (8, 0), (9, 0)]))
    history = [asked, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = ask(client, history, stream=stream)
    later = [hit.url for block in second.content if block.type == "web_search_tool_result" for hit in block.content]
    notes = [(f"https://notes.example/{n}", n) for n in (1, 2, 3)]
    assert places(second) == [notes[0], (hits[0], None), notes[1], notes[2], (later[0], None)]
