"""Where the model runs decides what a request may hold; each platform's own limits are kept to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ipy_websearch.errors import ConfigError
from ipy_websearch.model.requests import PLATFORMS, platform_at, tool_result
from ipy_websearch.tools.base import Passage, ToolOutput
from tests.contract.helpers import ask, search
from tests.fakes.clouds import ACCESS_KEY, REGION, SECRET_KEY, Clouds
from tests.fakes.replies import text

HITS = ToolOutput("2 results", tuple(Passage(f"https://{n}.example/", f"Title {n}", (f"Text {n}. " * 40,)) for n in range(7)))


@pytest.mark.parametrize("name", ["ollama", "lmstudio", "llamacpp", "vllm", "anthropic"])
def test_results_are_citable_blocks_or_all_of_them_short_and_numbered(name: str) -> None:
    """Seed 000's form, about 200 characters each, as one text; no citations array in a block (the API refuses one)."""
    content = tool_result("toolu_1", HITS, PLATFORMS[name])["content"]
    if name == "anthropic":
        assert (
            len(content) == 7 and content[0]["citations"] == {"enabled": True} and "citations" not in content[0]["content"][0]
        )
        return
    (block,) = content
    assert block["text"].startswith("Search Results:\n\n1. Title 0\n   https://0.example/\n   Text 0.")
    assert "7. Title 6" in block["text"] and max(len(line) for line in block["text"].splitlines()) <= 203


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("anthropic", (None, "https://api.anthropic.com", "http://127.0.0.1:8999", "http://127.0.0.1:99999", "no address")),
        ("ollama", ("http://localhost:11434", "http://gpu.lan:11434/v1")),
        ("lmstudio", ("http://127.0.0.1:1234/", "http://host.docker.internal:1234")),
    ],
)
def test_the_platform_is_known_by_its_address(name: str, addresses: tuple[str | None, ...]) -> None:
    """Servers of open models by their usual ports, on any machine; anything else is taken to speak the whole API."""
    assert {platform_at(address).name for address in addresses} == {name}


@pytest.mark.parametrize("platform", ["bedrock", "vertex", "foundry"])
def test_a_cloud_that_is_not_set_up_is_one_clear_line(session: Any, platform: str) -> None:
    session.settings.platform = platform
    with pytest.raises(ConfigError) as caught:
        ask(session, model="claude-sonnet-5-5")
    assert platform in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("platform", ["ollama", "litellm"])
def test_a_local_server_is_asked_without_a_key(
    messages_api: Any, brave_api: Any, session: Any, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """Results go as plain text. Ollama gets no flags that it drops: no `is_error`, no breakpoints, and no tools where
    `tool_choice` would forbid them."""
    messages_api.key = "none"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    session.settings.platform = platform
    messages_api.models["llama-4"] = 32_000
    messages_api.replies(search("ruby author"), search("ruby date"), "Matz.")
    answer = ask(session, model="llama-4", max_searches=1)
    assert answer.text == "Matz." and answer.cost_usd is None
    _, second, last = messages_api.bodies
    assert second["messages"][-1]["content"][0]["content"][0]["type"] == "text"
    assert ("tools" in last) == ("cache_control" in str(last)) == ("is_error" in str(last)) == (platform == "litellm")
    roles = [message["role"] for message in last["messages"]]
    assert all(role != following for role, following in zip(roles, roles[1:], strict=False))


@pytest.fixture
def clouds(session: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The clouds, to which the environment leads."""
    aws = {"AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    with Clouds() as clouds:
        azure = {"ANTHROPIC_FOUNDRY_BASE_URL": f"{clouds.url}/anthropic/", "ANTHROPIC_FOUNDRY_API_KEY": "k"}
        for name, value in {"ANTHROPIC_BEDROCK_BASE_URL": clouds.url, **aws, **azure}.items():
            monkeypatch.setenv(name, value)
        yield clouds
        clouds.check()


@pytest.mark.parametrize("platform", ["bedrock", "foundry"])
def test_a_question_is_answered_on_a_cloud(clouds: Any, session: Any, brave_api: Any, platform: str) -> None:
    """Over real HTTP: one search, results that can be cited, text as it is written; the cost is booked."""
    session.settings.platform = platform
    clouds.replies(["Let me look.", search("ruby author")], text("Matz wrote Ruby.", citations=[(0, 0)]))
    answer = ask(session)
    assert "Matz wrote Ruby.[1]" in answer.text and brave_api.queries == ["ruby author"]
    assert len(answer.sources) == 1 and len(session.cost()) == 3
