"""Where the model runs decides what a request may hold; each platform's own limits are kept to."""

from __future__ import annotations

from typing import Any

import pytest

from ipy_websearch.errors import ConfigError
from ipy_websearch.model.platforms import ANTHROPIC, PLATFORMS, platform_at
from ipy_websearch.model.requests import build_request, tool_result
from ipy_websearch.tools.base import Passage, ToolOutput
from tests.test_ask import ask, search

HITS = ToolOutput("2 results", tuple(Passage(f"https://{n}.example/", f"Title {n}", (f"Text {n}. " * 40,)) for n in range(7)))


def test_a_platform_with_search_results_gets_citable_paragraphs() -> None:
    """Blocks with source, title and citations switched on; no citations array (the API refuses one)."""
    block = tool_result("toolu_1", HITS, ANTHROPIC)["content"][0]
    assert block["citations"] == {"enabled": True} and "citations" not in block["content"][0]


@pytest.mark.parametrize("name", ["ollama", "lmstudio", "llamacpp", "vllm"])
def test_other_platforms_get_all_results_short_and_numbered(name: str) -> None:
    """Seed 000's form, about 200 characters each, as one text; as many as were asked for."""
    (block,) = tool_result("toolu_1", HITS, PLATFORMS[name])["content"]
    assert block["type"] == "text" and block["text"].startswith(
        "Search Results:\n\n1. Title 0\n   https://0.example/\n   Text 0."
    )
    assert "5. Title 4" in block["text"] and f"{len(HITS.passages)}. " in block["text"]
    assert max(len(line) for line in block["text"].splitlines()) <= 203


def test_flags_that_a_platform_drops_are_not_sent() -> None:
    """Without is_error the text says it; without tool_choice the final request has no tools; without caching no breakpoints."""
    failed = ToolOutput("no", text="Search unavailable.", is_error=True)
    assert "is_error" not in tool_result("toolu_1", failed, PLATFORMS["ollama"])
    assert tool_result("toolu_1", failed, ANTHROPIC)["is_error"] is True
    question = [{"role": "user", "content": [{"type": "text", "text": "q"}]}]
    tool = {"name": "web_search", "input_schema": {"type": "object"}}
    common: Any = dict(model="m", system="s", messages=question, tools=[tool], max_tokens=9, tool_choice={"type": "none"})
    local = build_request(platform=PLATFORMS["ollama"], **common)
    assert "tools" not in local and "tool_choice" not in local and "cache_control" not in str(local)
    ours = build_request(platform=ANTHROPIC, **common)
    assert ours["tool_choice"] == {"type": "none"} and str(ours).count("cache_control") == 2
    assert question == [{"role": "user", "content": [{"type": "text", "text": "q"}]}]


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (None, "anthropic"),
        ("https://api.anthropic.com", "anthropic"),
        ("http://localhost:11434", "ollama"),
        ("http://127.0.0.1:1234/", "lmstudio"),
        ("http://gpu.lan:11434/v1", "ollama"),
        ("http://host.docker.internal:1234", "lmstudio"),
        ("http://127.0.0.1:8999", "anthropic"),
        ("http://127.0.0.1:99999", "anthropic"),
        ("not an address", "anthropic"),
    ],
)
def test_the_platform_is_known_by_its_address(address: str | None, name: str) -> None:
    """Servers of open models by their usual ports, on any machine; anything else is taken to speak the whole API."""
    assert platform_at(address).name == name


def test_a_local_server_is_asked_without_a_key(
    messages_api: Any, brave_api: Any, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a platform named, no key is needed to ask, and the results go as plain text."""
    messages_api.key = "none"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    session.settings.platform = "ollama"
    messages_api.models["llama-4"] = 32_000
    messages_api.reply(search("ruby author"))
    messages_api.reply("Matz.")
    answer = ask(session, model="llama-4")
    assert answer.text == "Matz." and answer.cost_usd is None
    assert messages_api.bodies[1]["messages"][-1]["content"][0]["content"][0]["type"] == "text"


@pytest.mark.parametrize("platform", ["bedrock", "vertex", "foundry"])
def test_a_cloud_that_is_not_set_up_is_one_clear_line(session: Any, platform: str) -> None:
    """Missing packages, regions or credentials are named; nothing was sent."""
    session.settings.platform = platform
    with pytest.raises(ConfigError) as caught:
        ask(session, model="claude-sonnet-5-5")
    assert platform in str(caught.value) and "\n" not in str(caught.value)
