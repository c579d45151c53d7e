"""The proxy: whatever speaks the Messages API gains web search, and everything else passes as it came."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from ipy_websearch.errors import ConfigError  # noqa: E402
from ipy_websearch.interception import WebSearchInterceptor  # noqa: E402
from ipy_websearch.proxy.__main__ import main  # noqa: E402
from ipy_websearch.proxy.app import Proxy  # noqa: E402
from ipy_websearch.session import Session  # noqa: E402
from tests.fakes.replies import error, slow, text, thinking, tool_use  # noqa: E402
from tests.proxy.running import Running  # noqa: E402

MODEL = "claude-sonnet-5-5"
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Perform a web search for the query: who wrote ruby"}],
    "tools": [SEARCH],
}


@pytest.fixture
def proxy(messages_api: Any, brave_api: Any) -> Iterator[str]:
    """The address of a proxy in front of the fake."""
    with Running(messages_api.url) as running:
        yield running.url


@pytest.fixture
def client(proxy: str) -> Iterator[anthropic.Anthropic]:
    """A client of the SDK that points at the proxy."""
    with anthropic.Anthropic(base_url=proxy) as made:
        yield made


def script(api: Any) -> None:
    """Queue a search and an answer."""
    api.reply(thinking(), "Let me look.", tool_use("ipy_web_search", {"query": "ruby author"}))
    api.reply(error(529))
    api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))


def test_a_client_that_points_at_it_can_search(client: Any, messages_api: Any, brave_api: Any) -> None:
    """Whole and streamed, with a busy server in the middle."""
    blocks = ["thinking", "text", "server_tool_use", "web_search_tool_result", "text"]
    script(messages_api)
    message = client.messages.create(**ASKED)
    assert [block.type for block in message.content] == blocks and message._request_id
    script(messages_api)
    with client.beta.messages.stream(**ASKED) as stream:
        assert "".join(stream.text_stream) == "Let me look.Matz wrote Ruby."
        assert [block.type for block in stream.get_final_message().content] == blocks
    assert brave_api.queries == ["ruby author"]  # the second time it came out of the cache


def test_the_request_form_of_claude_code_is_served(proxy: str, messages_api: Any) -> None:
    """`POST /v1/messages?beta=true` with betas, a key as `x-api-key` or bearer, a forced tool and a stream."""
    script(messages_api)
    heads = {"authorization": f"Bearer {messages_api.key}", "anthropic-version": "2023-06-01", "anthropic-beta": "a,b"}
    heads |= {"x-app": "cli", "user-agent": "claude-cli/9.9 (external, cli)"}
    body = {**ASKED, "stream": True, "tool_choice": {"type": "tool", "name": "web_search"}, "metadata": {"user_id": "u"}}
    response = httpx2.post(f"{proxy}/v1/messages?beta=true", headers=heads, json=body)
    assert response.status_code == 200 and response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    assert events[0]["type"] == "message_start" and events[-1]["type"] == "message_stop"
    assert events[-2]["usage"]["server_tool_use"]["web_search_requests"] == 1
    sent = messages_api.requests[0].headers
    got = {name.lower(): value for name, value in sent.items()}
    assert got["anthropic-beta"] == "a,b" and got["user-agent"].startswith("claude-cli")
    script(messages_api)
    heads = {"x-api-key": messages_api.key, "anthropic-version": "2023-06-01"}
    assert httpx2.post(f"{proxy}/v1/messages", headers=heads, json=ASKED).status_code == 200
    assert "authorization" not in {name.lower() for name in messages_api.requests[-1].headers}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_errors_come_through_with_what_a_client_needs(proxy: str, messages_api: Any, brave_api: Any, stream: bool) -> None:
    """Status, `request-id` and `retry-after`; once something was searched, the client is told not to begin anew."""
    heads = {"x-api-key": messages_api.key, "anthropic-version": "2023-06-01"}
    busy = error(429, headers={"retry-after": "9"})
    messages_api.reply(busy)
    response = httpx2.post(f"{proxy}/v1/messages", headers=heads, json={**ASKED, "stream": stream})
    assert response.status_code == 429 and response.headers["retry-after"] == "9" and response.headers["request-id"]
    assert response.json()["error"]["type"] == "rate_limit_error" and len(messages_api.requests) == 1
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
    for _ in range(3):
        messages_api.reply(error(529))
    response = httpx2.post(f"{proxy}/v1/messages", headers=heads, json={**ASKED, "stream": stream}, timeout=30)
    if stream:
        assert response.status_code == 200 and '"overloaded_error"' in response.text.splitlines()[-2]
    else:
        assert response.status_code == 529 and response.headers["x-should-retry"] == "false"
    assert brave_api.queries == ["ruby author"]


def test_a_client_that_goes_away_ends_the_request(proxy: str, messages_api: Any, brave_api: Any) -> None:
    """The server behind it is not kept writing, and is not asked again."""
    heads = {"x-api-key": messages_api.key, "anthropic-version": "2023-06-01"}
    words = "one two three four five six seven eight nine ten eleven twelve"
    messages_api.reply(words, tool_use("ipy_web_search", {"query": "ruby author"}), slow(0.3))
    with httpx2.stream("POST", f"{proxy}/v1/messages", headers=heads, json={**ASKED, "stream": True}) as response:
        next(response.iter_lines())
    messages_api.wait(lambda fake: not fake.active, timeout_s=1.0)
    assert brave_api.queries == [] and len(messages_api.requests) == 1


def test_everything_else_passes_as_it_came(client: Any, messages_api: Any) -> None:
    """Requests without a web tool, counts, lists, errors, streams."""
    plain = {name: value for name, value in ASKED.items() if name != "tools"}
    messages_api.reply("Hello.")
    assert client.messages.create(**plain).content[0].text == "Hello."
    messages_api.reply("Hello.")
    with client.messages.stream(**plain) as stream:
        assert stream.get_final_text() == "Hello."
    assert client.models.list().data[0].id
    assert client.messages.count_tokens(model=MODEL, messages=ASKED["messages"], tools=[SEARCH]).input_tokens > 0
    messages_api.allow_refusals = True
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        client.messages.create(**plain, extra_body={"temperature": 1})
    with pytest.raises(anthropic.AuthenticationError):
        client.with_options(api_key="wrong", max_retries=0).messages.create(**ASKED)


def test_a_key_of_its_own_environment_never_stands_in(proxy: str, messages_api: Any) -> None:
    """Without a key the caller is refused by the server, although the proxy's environment has one."""
    messages_api.allow_refusals = True
    heads = {"anthropic-version": "2026-10-21"}
    assert httpx2.post(f"{proxy}/v1/messages", headers=heads, json=ASKED).status_code == 401


def test_web_pages_and_other_names_are_refused(proxy: str, messages_api: Any) -> None:
    """A browser on this machine must not lend the model to a page, not even by a name that leads here."""
    for heads in ({"origin": "https://evil.example"}, {"host": "evil.example"}, {"origin": "null"}):
        response = httpx2.post(f"{proxy}/v1/messages", headers=heads, json=ASKED)
        assert response.status_code == 403 and response.json()["error"]["type"] == "permission_error"
    assert messages_api.requests == []


def test_a_wrong_tool_is_an_error_in_the_apis_form(client: Any, messages_api: Any) -> None:
    """400, with what is wrong; nothing is sent."""
    with pytest.raises(anthropic.BadRequestError, match="allowed_domains"):
        client.messages.create(**{**ASKED, "tools": [{**SEARCH, "allowed_domains": ["a.com"], "blocked_domains": ["b.com"]}]})
    assert messages_api.requests == []


def test_a_server_that_cannot_be_reached_is_said_to_be(messages_api: Any, brave_api: Any) -> None:
    """502 for what passes, and for what is intercepted."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Running(f"http://127.0.0.1:{port}") as running:
        for body in (ASKED, {**ASKED, "tools": []}):
            response = httpx2.post(f"{running.url}/v1/messages", json=body, headers={"x-api-key": "k"})
            assert response.status_code == 502 and response.json()["type"] == "error"


def test_wrong_options_are_refused_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An address that is none, one that others can reach, an unknown engine."""
    for wrong, says in (
        (["--upstream", "ftp://x"], "http://"),
        (["--upstream", "http://x", "--host", "0.0.0.0"], "--allow-remote"),
        (["--upstream", "http://x", "--provider", "nosuch"], "nosuch"),
    ):
        assert main(wrong) == 2
        assert says in capsys.readouterr().err
    with pytest.raises(ConfigError):
        Proxy("nonsense", WebSearchInterceptor(session=Session()))
