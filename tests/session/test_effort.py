"""How hard a model is to think: what is sent, to which models, and what it may cost."""

from __future__ import annotations

from typing import Any

import pytest

from ipy_websearch.errors import ConfigError
from tests.fakes.replies import text, thinking, tool_use

pytestmark = pytest.mark.anyio


async def test_an_effort_is_sent_with_adaptive_thinking_and_is_in_the_steps(
    messages_api: Any, brave_api: Any, session: Any
) -> None:
    """Without one, the requests are as they were."""
    messages_api.reply(thinking("Search."), tool_use("web_search", {"query": "ruby author"}))
    messages_api.reply(thinking("Found."), text("Matz."))
    answer = await session.ask("Who wrote Ruby?", effort="low", read_pages=0)
    for body in messages_api.bodies:
        assert body["output_config"] == {"effort": "low"} and body["thinking"] == {"type": "adaptive"}
    assert answer.text == "Matz." and list(answer.steps.effort) == ["low", "", "low"]
    messages_api.reply("Matz.")
    await session.ask("Who wrote Ruby?")
    assert not {"output_config", "thinking"} & set(messages_api.bodies[-1])


@pytest.mark.parametrize(("model", "fields"), [("claude-opus-4-5", {"output_config"}), ("claude-haiku-4-5", set())])
async def test_a_model_gets_what_it_takes(messages_api: Any, session: Any, model: str, fields: set[str]) -> None:
    messages_api.models.setdefault(model, 64_000)
    messages_api.reply("Matz.")
    answer = await session.ask("Who wrote Ruby?", model=model, effort="high")
    assert {"output_config", "thinking"} & set(messages_api.bodies[-1]) == fields
    assert [notice for notice in answer.notices if "takes no effort" in notice] == (
        [] if fields else ["claude-haiku-4-5 takes no effort; it answers as usual"]
    )


async def test_thinking_stays_within_the_budget(messages_api: Any, session: Any) -> None:
    """It counts as output, so the worst case of a request has it already."""
    messages_api.reply(thinking("Long." * 50), text("Matz."))
    answer = await session.ask("Who wrote Ruby?", effort="high", budget_usd=0.05, tools="none")
    assert answer.cost_usd <= 0.05 and messages_api.bodies[0]["max_tokens"] < 16_000


async def test_another_word_is_refused(messages_api: Any, session: Any) -> None:
    with pytest.raises(ConfigError, match="effort is 'most'; it must be one of low, medium, high"):
        session.start("Who wrote Ruby?", effort="most")
    assert messages_api.requests == []
