"""The proxy: whatever speaks the Messages API gains web search, on every platform; web pages gain nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest

pytest.importorskip("starlette")
uvicorn = pytest.importorskip("uvicorn")

from ipy_websearch import api  # noqa: E402
from ipy_websearch.proxy.__main__ import main  # noqa: E402
from tests.fakes.clouds import ACCESS_KEY, REGION, SECRET_KEY, Clouds  # noqa: E402
from tests.fakes.messages_api import KEY  # noqa: E402
from tests.fakes.replies import error, hang_up, text, thinking, tool_use  # noqa: E402
from tests.fakes.warm import python  # noqa: E402


class Command:
    """The proxy as its user starts it, in a process; `said` is all that it wrote, once it has been stopped."""

    said = ""

    def __init__(self, platform: str, **environment: str) -> None:
        command = [*python(), "-m", "ipy_websearch.proxy", "--port", "0", "--provider", "brave", "--platform", platform]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, **pipes)

    def __enter__(self) -> Command:
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline()
        self.url = self.first.partition(" ")[0]
        self.port = int(self.url.rpartition(":")[2])
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        rest, complaints = self.process.communicate(timeout=10)
        self.said = self.first + rest + complaints


SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
ASKED: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Perform a web search for the query: who wrote ruby"}],
    "tools": [SEARCH],
}
PLAIN = {name: value for name, value in ASKED.items() if name != "tools"}
HEADERS = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
BLOCKS = ["thinking", "text", "server_tool_use", "web_search_tool_result", "text"]
CALL = tool_use("ipy_web_search", {"query": "ruby author"})


@pytest.fixture
def proxy(messages_api: Any, brave_api: Any) -> Iterator[Command]:
    """A proxy in front of the fake."""
    with Command(messages_api.url) as running:
        yield running


@pytest.fixture
def post(proxy: Command) -> Any:
    """Sends a request of a client that has a key."""
    return lambda **request: httpx2.post(f"{proxy.url}/v1/messages", headers=HEADERS, timeout=30, **request)


def script(fake: Any) -> None:
    """Queue a search and an answer, with a busy moment between them."""
    fake.replies([thinking(), "Let me look.", CALL], error(529), text("Matz wrote Ruby.", citations=[(0, 0)]))


def test_a_client_that_points_at_it_can_search_and_all_else_passes(
    proxy: Command, messages_api: Any, brave_api: Any, post: Any
) -> None:
    with anthropic.Anthropic(base_url=proxy.url) as client:
        script(messages_api)
        with client.beta.messages.stream(**ASKED) as stream:
            assert "".join(stream.text_stream) == "Let me look.Matz wrote Ruby."
            assert [block.type for block in stream.get_final_message().content] == BLOCKS
        messages_api.reply("Hello.")
        assert client.messages.create(**PLAIN).content[0].text == "Hello." and client.models.list().data[0].id
        counted = client.messages.count_tokens(model=ASKED["model"], messages=ASKED["messages"], tools=[SEARCH])
        assert counted.input_tokens > 0
    messages_api.reply("Hello.")  # half of an emoji cannot be sent on, and is no reason to fail
    half = json.dumps({**PLAIN, "messages": [{"role": "user", "content": "\ud83d"}]})
    assert post(content=half).status_code == 200


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_request_form_of_claude_code_is_served_on_bedrock(
    brave_api: Any, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """Signed with the proxy's own credentials; Bedrock's binary stream reaches the client as text, searched or not."""
    pytest.importorskip("boto3")
    heads = {
        "authorization": "Bearer of-the-caller",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "claude-code-20250219,mid-conversation-system-2026-04-07",
        "x-app": "cli",
    }
    told = [*ASKED["messages"], {"role": "system", "content": "Be brief."}]
    forced = {"tool_choice": {"type": "tool", "name": "web_search"}, "messages": told, "stream": stream}
    with Clouds() as clouds:
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": REGION}
        for name, value in {**keys, "ANTHROPIC_BEDROCK_BASE_URL": clouds.url}.items():
            monkeypatch.setenv(name, value)
        with Command("bedrock") as running:
            script(clouds)
            searched = httpx2.post(f"{running.url}/v1/messages?beta=true", headers=heads, json={**ASKED, **forced})
            clouds.reply("Matz.")
            plain = httpx2.post(f"{running.url}/v1/messages", headers=heads, json={**PLAIN, "stream": stream})
            missing = [
                httpx2.get(f"{running.url}/v1/models"),
                httpx2.post(f"{running.url}/v1/messages/count_tokens", json=PLAIN),
            ]
        assert len(clouds.signatures) == 4 and clouds.betas[0] == heads["anthropic-beta"].split(",")
        assert clouds.bodies[0]["messages"][1]["role"] == clouds.bodies[2]["messages"][1]["role"] == "system"
        clouds.check()
    for response, last in ((searched, "web_search_requests"), (plain, "Matz.")):
        assert response.status_code == 200 and last in response.text
        assert response.headers["content-type"].startswith("text/event-stream" if stream else "application/json")
    for refused in missing:
        assert refused.status_code == 404 and refused.json()["error"]["type"] == "not_found_error"


def test_errors_come_through_with_what_a_client_needs(post: Any, messages_api: Any, brave_api: Any) -> None:
    """After a search, which is paid, the client's own retries are told to stop."""
    for failing, status in ((error(529), 529), (hang_up(), 502)):
        messages_api.replies(CALL, failing, failing, failing)
        response = post(json=ASKED)
        assert response.status_code == status and response.headers["x-should-retry"] == "false"
    messages_api.requests.clear()
    messages_api.reply(error(429, headers={"retry-after": "9"}))
    response = post(json=ASKED)
    assert response.status_code == 429 and response.headers["retry-after"] == "9" and response.headers["request-id"]
    assert response.json()["error"]["type"] == "rate_limit_error" and len(messages_api.requests) == 1
    wrong = {**SEARCH, "allowed_domains": ["a.com"], "blocked_domains": ["b.com"]}
    response = post(json={**ASKED, "tools": [wrong]})
    assert response.status_code == 400 and "allowed_domains" in response.text
    messages_api.replies(hang_up(), hang_up())
    for body in (ASKED, PLAIN):
        response = post(json=body)
        assert response.status_code == 502 and response.json()["error"]["type"] == "api_error"
    for content in (b"{", b"[" * 100_000, b"\xff"):
        response = post(content=content)
        assert response.status_code == 400 and "JSON" in response.text


@pytest.mark.parametrize("ends", ["client", "proxy"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_runs_when_its_client_or_the_proxy_ends_stops_and_is_booked(
    messages_api: Any, brave_api: Any, ends: str, stream: bool
) -> None:
    messages_api.reply("Let me look.", CALL)
    brave_api.reply(delay_s=30)
    body = json.dumps({**ASKED, "stream": stream}).encode()
    with Command(messages_api.url) as command:
        lines = [f"Host: 127.0.0.1:{command.port}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in HEADERS.items()]
        with socket.create_connection(("127.0.0.1", command.port), timeout=10) as connection:
            connection.sendall("\r\n".join(["POST /v1/messages HTTP/1.1", *lines, "", ""]).encode() + body)
            brave_api.wait(lambda fake: fake.active, timeout_s=10)
            if ends == "proxy":
                command.process.terminate()
                answer = b"".join(iter(lambda: connection.recv(10_000), b""))
                assert stream or (b" 503 " in answer and b"x-should-retry: false" in answer)
        brave_api.wait(lambda fake: not fake.active, timeout_s=5.0)
    rows = api.cost(everything=True)
    assert list(rows.kind) == ["model", "search"] and rows.usd[0] > 0
    assert rows.status.iloc[-1] == "interrupted" and "Traceback" not in command.said


def test_nothing_of_its_own_environment_goes_up_and_nothing_is_written_down(messages_api: Any, brave_api: Any) -> None:
    messages_api.allow_refusals = True
    leaks = {"ANTHROPIC_API_KEY": "LEAK-1", "ANTHROPIC_AUTH_TOKEN": "LEAK-2", "ANTHROPIC_LOG": "debug"}
    leaks["ANTHROPIC_CUSTOM_HEADERS"] = "x-api-key: LEAK-3\nanthropic-beta: LEAK-4"
    with Command(messages_api.url, **leaks) as command:
        for body in (ASKED, PLAIN):
            assert httpx2.post(f"{command.url}/v1/messages", headers={"x-two": "SECRET"}, json=body).status_code == 401
    assert "LEAK" not in str([request.headers for request in messages_api.requests]) + command.said
    assert "SECRET" not in command.said and command.said.count("\n") == 1


def test_a_body_is_bounded(proxy: Command, messages_api: Any) -> None:
    for content in (b"x" * 2**25 + b"x", (b"x" * 2**20 for _ in range(33))):
        assert httpx2.post(f"{proxy.url}/v1/messages", content=content, timeout=30).status_code == 413
    assert messages_api.requests == []


def test_no_web_page_may_ask_nor_another_name_lead_here(proxy: Command, messages_api: Any) -> None:
    evil = ["https://evil.example", "null", "http://localhost.evil.example", "http://localhost@evil.example"]
    pages = [{"Origin": origin} for origin in evil] + [{"Sec-Fetch-Site": "cross-site"}]
    for headers in [*pages, {"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example"}]:
        for method, path in (("POST", "/v1/messages"), ("GET", "/v1/models"), ("OPTIONS", "/v1/messages")):
            response = httpx2.request(method, f"{proxy.url}{path}", headers=headers)
            assert response.status_code == 403 and "access-control-allow-origin" not in response.headers
    assert messages_api.requests == []


def test_no_path_leads_out_of_the_servers_own(proxy: Command, messages_api: Any) -> None:
    for path in ("/v1/../../admin", "/%2e%2E/admin", "/..%2fadmin", "/%252e%252e/admin", "/a%2Fb/../../admin"):
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    assert messages_api.requests == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([], "--platform"),
        (["--platform", "ftp://x"], "http://"),
        (["--platform", "http://[::1"], "http://"),
        (["--platform", "http://x"], "BRAVE_API_KEY"),  # the setting's engine has no key
        (["--platform", "http://user:SECRET@host"], "without a user"),
        (["--platform", "http://x", "--host", "0.0.0.0"], "--allow-remote"),
        (["--platform", "http://x", "--provider", "nosuch"], "nosuch"),
        (["--platform", "mainframe"], "bedrock"),
        (["--platform", "vertex"], "vertex"),
        (["--platform", "http://localhost:18787", "--port", "18787", "--provider", "wikipedia"], "own address"),
    ],
)
def test_wrong_options_and_settings_are_refused_in_a_line(monkeypatch: Any, capsys: Any, wrong: list[str], says: str) -> None:
    monkeypatch.setenv("IPY_WEBSEARCH_PROVIDER", "brave")
    assert main(["--port", "0", *wrong]) == 2
    said = capsys.readouterr()
    assert says in said.err and said.err.count("\n") == 1 and "SECRET" not in said.err and said.out == ""
