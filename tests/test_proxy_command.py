"""The proxy's command: what it says, what of its environment goes up, which addresses it takes."""

from __future__ import annotations

import json
import socket

import httpx2
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from ipy_websearch.proxy.__main__ import main  # noqa: E402
from tests.running_proxy import ASKED, Command, Wire, empty_message, raw_answer  # noqa: E402

BODY = json.dumps(ASKED).encode()


SETTINGS = {
    "ANTHROPIC_API_KEY": "LEAK-1",
    "ANTHROPIC_AUTH_TOKEN": "LEAK-2",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/LEAK-3",
    "ANTHROPIC_CUSTOM_HEADERS": "x-custom: LEAK-4\nx-api-key: LEAK-5\nanthropic-beta: LEAK-6\nx-two: LEAK-7",
    "ANTHROPIC_BETAS": "LEAK-8",
    "ANTHROPIC_PROFILE": "LEAK-9",
    "ANTHROPIC_WEBHOOK_SIGNING_KEY": "LEAK-10",
    "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content",
    "ANTHROPIC_LOG": "debug",
}


def test_nothing_of_its_own_goes_up_and_nothing_is_written_down(wire: Wire) -> None:
    """The settings of its environment neither reach the server nor change what is sent; the caller's key is in no line."""
    wire.reply = lambda line: empty_message()
    lines = ["x-api-key: sk-SECRET", "X-Two: a", "X-Two: b", "Accept: */*"]
    with Command("--upstream", wire.url, **SETTINGS) as command:
        for body in (BODY, json.dumps({**ASKED, "tools": []}).encode()):
            for path in ("/v1/messages", "/v1/messages/count_tokens"):
                answer = command.asked(f"POST {path}?key=SECRET", *lines, f"Content-Length: {len(body)}", body=body)
                assert answer.startswith(b"HTTP/1.1 200 ")
    assert command.said.count("\n") == 1 and "SECRET" not in command.said and "LEAK" not in command.said
    assert len(wire.heads) == 4 and "LEAK" not in repr(wire.heads)
    for head in wire.heads:
        got = sorted(line.lower() for line in head[1:])
        ours = [line for line in got if line.startswith(("content-type: application/json", "accept-encoding: "))]
        theirs = [line for line in got if line not in ours and not line.startswith(("host: ", "content-length: "))]
        assert theirs in (["accept: */*", "x-api-key: sk-secret", *two] for two in (["x-two: a", "x-two: b"], ["x-two: a,b"]))


def test_a_user_in_the_servers_address_logs_in_there_and_is_not_shown(wire: Wire) -> None:
    """As Basic authorization in place of the caller's own, for what passes and for what is searched."""
    wire.reply = lambda line: empty_message()
    with Command("--upstream", wire.url.replace("http://", "http://user:p%40SSWORD@") + "/v1@2/") as command:
        for path in ("/v1/messages", "/v1/other"):
            for caller in ({}, {"authorization": "Bearer caller"}):
                assert httpx2.post(command.url + path, content=BODY, headers=caller).status_code == 200
    assert command.said == f"{command.url} searches for {wire.url}/v1@2\n"
    for head in wire.heads:
        logins = [line.partition(": ")[2] for line in head if line.lower().startswith("authorization")]
        assert logins == ["Basic dXNlcjpwQFNTV09SRA=="]


WRONG = ["ftp://user:SECRET@host", "user:SECRET@host", "http://user:SEC/SECRET@host", "http://user:SEC#SECRET@host"]
WRONG += ["http://user:SECRET@", "http://host/?key=SECRET", "http://user:SECRET@host:99999", "http:/user:SECRET@host"]


@pytest.mark.parametrize("address", WRONG)
def test_a_wrong_address_is_refused_without_its_password(capsys: pytest.CaptureFixture[str], address: str) -> None:
    """In one line."""
    assert main(["--upstream", address]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "--upstream" in said.err and "SEC" not in said.err


def test_it_does_not_ask_itself(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It would for ever."""
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert main(["--upstream", f"http://localhost:{port}/", "--port", str(port), "--provider", "wikipedia"]) == 2
    assert "this proxy itself" in capsys.readouterr().err


def test_a_server_that_breaks_off_leaves_one_line(wire: Wire) -> None:
    """No trace of the program's inside."""
    wire.reply = lambda line: raw_answer(b"half", "200 OK", "Connection: close", length=1_000)
    with Command("--upstream", wire.url) as command, pytest.raises(httpx2.RemoteProtocolError):
        httpx2.get(f"{command.url}/v1/models")
    assert command.said.count("\n") == 2 and "Traceback" not in command.said


SEARCHES = {"type": "tool_use", "id": "toolu_1", "name": "ipy_web_search", "input": {"query": "ruby"}}


def answered(*blocks: dict[str, str | dict[str, str]]) -> bytes:
    """Return a message of these blocks."""
    head = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": list(blocks), "usage": {}}
    reason = "tool_use" if SEARCHES in blocks else "end_turn"
    return raw_answer(json.dumps({**head, "stop_reason": reason}).encode(), "200 OK", "Content-Type: application/json")


def forms(wire: Wire) -> list[list[str]]:
    """Return the types of the blocks in the results of each request that has any."""
    last = [json.loads(body)["messages"][-1]["content"] for body in wire.bodies]
    return [[part["type"] for block in found for part in block["content"]] for found in last if isinstance(found, list)]


@pytest.mark.parametrize("told", ["option", "setting", ""])
def test_it_is_told_what_the_server_takes(wire: Wire, told: str) -> None:
    """By `--platform` or the setting; a model with a name of Anthropic's may be somebody else's under an alias."""
    replies = [answered(SEARCHES), answered({"type": "text", "text": "Matz."})]
    wire.reply = lambda line: replies.pop(0)
    given = ["--platform", "llamacpp"] if told == "option" else []
    setting = {"IPY_WEBSEARCH_PLATFORM": "llamacpp"} if told == "setting" else {}
    with Command("--upstream", wire.url, "--provider", "local", *given, **setting) as command:
        assert httpx2.post(f"{command.url}/v1/messages", content=BODY).status_code == 200
    (found,) = forms(wire)
    assert set(found) == ({"text"} if told else {"search_result"})


def test_a_server_that_refuses_results_as_blocks_is_asked_once_more_with_text(wire: Wire) -> None:
    """And the next request of anybody begins with text."""
    error = {"type": "invalid_request_error", "message": "messages.2.content.0.content.0.type: Input should be 'text'"}
    refusal = raw_answer(json.dumps({"type": "error", "error": error}).encode(), "400 Bad Request")
    done = answered({"type": "text", "text": "Matz."})
    replies = [answered(SEARCHES), refusal, done, answered(SEARCHES), done]
    wire.reply = lambda line: replies.pop(0)
    with Command("--upstream", wire.url, "--provider", "local") as command:
        for _ in range(2):
            answer = httpx2.post(f"{command.url}/v1/messages", content=BODY).json()
            assert [block["type"] for block in answer["content"]] == ["server_tool_use", "web_search_tool_result", "text"]
    assert [set(found) for found in forms(wire)] == [{"search_result"}, {"text"}, {"text"}]


@pytest.mark.parametrize("wrong", [["--port", "-1"], ["--port", "99999"], ["--port", "x"], ["--platform", "mainframe"]])
def test_a_wrong_option_is_refused_at_once(capsys: pytest.CaptureFixture[str], wrong: list[str]) -> None:
    """As all options are: with the usage and a line that says what may stand there."""
    with pytest.raises(SystemExit):
        main(["--upstream", "http://127.0.0.1:9", *wrong])
    assert f"argument {wrong[0]}: " in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SEARCH_TOOLS", "nosuch", "SEARCH_TOOLS"),
        ("PLATFORM", "mainframe", "PLATFORM"),
        ("PROVIDER", "tavily", "TAVILY_API_KEY"),
    ],
)
def test_a_wrong_setting_is_told_at_the_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    """In one line, instead of an error for each who asks."""
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    monkeypatch.setenv(f"IPY_WEBSEARCH_{name}", value)
    assert main(["--upstream", "http://127.0.0.1:9", "--port", "0"]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and said in told.err
