"""The proxy's command: what it says, what of its environment goes up, which addresses it takes."""

from __future__ import annotations

import json
import socket

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from ipy_websearch.proxy.__main__ import main  # noqa: E402
from tests.proxy.running import ASKED, Command, Wire, empty_message  # noqa: E402

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
        got = [line.lower() for line in head]
        assert (
            "x-api-key: sk-secret" in got and "x-two: a, b" in got and not any(line.startswith("authorization") for line in got)
        )


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
