"""Where the model runs decides what a request may hold; each platform's own limits are kept to."""

from __future__ import annotations

from typing import Any

import pytest

from ipy_websearch.errors import ConfigError
from ipy_websearch.model.client import ANTHROPIC, PLATFORMS, platform_at
from ipy_websearch.model.requests import build_request, tool_result
from ipy_websearch.tools.base import Passage, ToolOutput
from tests.fakes.clouds import ACCESS_KEY, REGION, SECRET_KEY, Clouds, aws_error
from tests.fakes.replies import text
from tests.test_ask import ask, search

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


@pytest.mark.parametrize("platform", ["ollama", "litellm"])
def test_a_local_server_is_asked_without_a_key(
    messages_api: Any, brave_api: Any, session: Any, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """With a platform named, no key is needed to ask, and the results go as plain text."""
    messages_api.key = "none"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    session.settings.platform = platform
    messages_api.models["llama-4"] = 32_000
    messages_api.reply(search("ruby author"))
    messages_api.reply("Matz.")
    answer = ask(session, model="llama-4")
    assert answer.text == "Matz." and answer.cost_usd is None
    assert messages_api.bodies[1]["messages"][-1]["content"][0]["content"][0]["type"] == "text"


@pytest.mark.parametrize("platform", ["bedrock", "vertex", "foundry"])
def test_a_cloud_that_is_not_set_up_is_one_clear_line(session: Any, platform: str) -> None:
    session.settings.platform = platform
    with pytest.raises(ConfigError) as caught:
        ask(session, model="claude-sonnet-5-5")
    assert platform in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("platform", ["bedrock", "foundry"])
def test_a_question_is_answered_on_a_cloud(session: Any, brave_api: Any, monkeypatch: Any, platform: str) -> None:
    """Over real HTTP: one search, results that can be cited, text as it is written; the cost is booked."""
    with Clouds() as clouds:
        aws = {"AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        variables = {
            "bedrock": {"ANTHROPIC_BEDROCK_BASE_URL": clouds.url, **aws},
            "foundry": {"ANTHROPIC_FOUNDRY_BASE_URL": f"{clouds.url}/anthropic/", "ANTHROPIC_FOUNDRY_API_KEY": "k"},
        }
        for name, value in variables[platform].items():
            monkeypatch.setenv(name, value)
        session.settings.platform = platform
        clouds.reply("Let me look.", search("ruby author"))
        clouds.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))
        answer = ask(session)
        assert "Matz wrote Ruby.[1]" in answer.text and brave_api.queries == ["ruby author"]
        assert len(answer.sources) == 1 and len(session.cost()) == 3
        clouds.check()


@pytest.mark.parametrize("end", [aws_error("throttlingException", "Too many tokens"), b"x" * 40])
def test_a_stream_of_bedrocks_that_fails_is_sent_again(session: Any, monkeypatch: Any, end: bytes) -> None:
    pytest.importorskip("boto3")
    with Clouds() as clouds:
        aws = {"AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        for name, value in {"ANTHROPIC_BEDROCK_BASE_URL": clouds.url, **aws}.items():
            monkeypatch.setenv(name, value)
        session.settings.platform = "bedrock"
        clouds.broken = [end]
        clouds.replies("Matz wrote it.", "Matz wrote Ruby.")
        assert ask(session).text == "Matz wrote Ruby." and len(clouds.requests) == 2
