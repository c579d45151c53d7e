"""What a model thought is taken along where the API takes it back, and left behind where it would refuse the conversation.

From Fable 5.1 on a thinking block is tied to its model and to all that stands before it
(platform.claude.com/docs/en/build-with-claude/preserved-thinking, read 2026-11); the fake holds the package to that.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ipy_websearch.model.platforms import forces_tools
from tests.fakes.replies import text, thinking, tool_use


def thoughts(body: dict[str, Any]) -> int:
    blocks = [b for m in body["messages"] if m["role"] == "assistant" for b in m["content"]]
    return sum(block["type"] == "thinking" for block in blocks)


def first_answer(messages_api: Any, session: Any, **options: Any) -> None:
    messages_api.reply(thinking("Search."), tool_use("web_search", {"query": "ruby author"}))
    messages_api.reply(thinking("Found."), text("Matz."))
    asyncio.run(session.ask("Who wrote Ruby?", **options))
    messages_api.reply(thinking("Year."), text("1995."))


def test_a_follow_up_takes_the_thinking_along(messages_api: Any, brave_api: Any, session: Any) -> None:
    """Same model, instructions and tools: everything goes back as it came."""
    first_answer(messages_api, session)
    asyncio.run(session.ask("When?", follow=True))
    assert thoughts(messages_api.bodies[-1]) == 2
    messages_api.reply(text("Yes."))
    asyncio.run(session.ask("Sure?", follow=True))
    assert thoughts(messages_api.bodies[-1]) == 3


@pytest.mark.parametrize(
    "change", [{"model": "opus"}, {"tools": "pair"}, {"system": "Be brief."}, {"columns": "name"}], ids=lambda c: next(iter(c))
)
def test_a_follow_up_under_other_conditions_leaves_it_behind(
    messages_api: Any, brave_api: Any, session: Any, change: dict[str, Any]
) -> None:
    """Another model, other tools or instructions would make the API refuse the old thoughts; words and results stay."""
    first_answer(messages_api, session)
    if "columns" in change:
        messages_api.reply(tool_use("answer_table", {"rows": [{"name": "Ruby", "source_url": None}]}))
    asyncio.run(session.ask("When?", follow=True, **change))
    body = messages_api.bodies[2]
    assert thoughts(body) == 0 and "ruby author" in str(body["messages"]) and "Matz." in str(body["messages"])
    if "columns" in change:
        messages_api._queue.clear()


def test_a_trimmed_conversation_leaves_it_behind(
    messages_api: Any, brave_api: Any, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the oldest turns are left out, the later ones no longer stand behind what they were thought after."""
    first_answer(messages_api, session)
    asyncio.run(session.ask("When?", follow=True))
    monkeypatch.setattr("ipy_websearch.session.HISTORY_SHARE", 0.0)
    messages_api.reply(text("Yes."))
    answer = asyncio.run(session.ask("Sure?", follow=True))
    assert thoughts(messages_api.bodies[-1]) == 0 and "left out" in answer.notices[0]


@pytest.mark.parametrize(
    ("name", "forced"),
    [
        ("claude-sonnet-5-5", False),
        ("us.anthropic.claude-opus-5-5-v1:0", False),
        ("claude-fable-5-1", False),
        ("claude-fable-5-2", False),
        ("claude-opus-6", False),
        ("claude-haiku-6", False),
        ("claude-haiku-5-5", True),
        ("claude-haiku-4-5-20251001", True),
        ("claude-opus-5", True),
        ("claude-opus-5-20260901", True),
        ("claude-sonnet-4-6", True),
        ("qwen3", True),
    ],
)
def test_which_models_can_be_forced_to_call_a_tool(name: str, forced: bool) -> None:
    """A date behind a version is no minor version; what is newer than we know is asked in words."""
    assert forces_tools(name) is forced
