"""`ask` on Bedrock and Foundry over real HTTP: the loop streams, searches and cites there as it does at Anthropic's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.clouds import ACCESS_KEY, REGION, SECRET_KEY, Clouds
from tests.fakes.replies import text, tool_use


@pytest.fixture
def clouds(brave_api: Any) -> Iterator[Clouds]:
    """The fake of the clouds."""
    with Clouds() as api:
        yield api
        api.check()


@pytest.mark.parametrize("platform", ["bedrock", "foundry"])
def test_a_question_is_answered_on_a_cloud(
    clouds: Clouds, session: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """One search, results that can be cited, text as it is written; the cost is booked."""
    variables = {
        "bedrock": {
            "ANTHROPIC_BEDROCK_BASE_URL": clouds.url,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        },
        "foundry": {"ANTHROPIC_FOUNDRY_BASE_URL": f"{clouds.url}/anthropic/", "ANTHROPIC_FOUNDRY_API_KEY": "k"},
    }[platform]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    session.settings.platform = platform
    clouds.reply("Let me look.", tool_use("web_search", {"query": "ruby author"}))
    clouds.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))
    answer = asyncio.run(session.ask("who wrote Ruby?", provider="brave"))
    assert "Matz wrote Ruby.[1]" in answer.text and brave_api.queries == ["ruby author"]
    assert len(answer.sources) == 1 and len(session.cost()) == 3
