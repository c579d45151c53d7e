"""The proxy when something fails between the requests of one call: what was paid is paid once, booked, and said to be final."""

from __future__ import annotations

import json
import threading
from typing import Any

import anthropic
import httpx2
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from ipy_websearch import api  # noqa: E402
from tests.fakes.replies import delay, tool_use  # noqa: E402
from tests.proxy.running import ASKED, Command, Running, Wire, raw_answer  # noqa: E402

MODEL = "claude-sonnet-5-5"
JSON = "Content-Type: application/json"


def answer_of(stop_reason: str, block: dict[str, Any], *lines: str) -> bytes:
    """Return an answer with one block, and with these header lines."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": MODEL, "content": [block]}
    rest = {"stop_reason": stop_reason, "usage": {"input_tokens": 10, "output_tokens": 5}}
    return raw_answer(json.dumps({**message, **rest}).encode(), "200 OK", JSON, *lines)


def searching(*lines: str) -> bytes:
    """Return a first answer, which wants a search."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "ipy_web_search", "input": {"query": "ruby"}}
    return answer_of("tool_use", call, *lines)


def then(wire: Wire, *answers: bytes) -> None:
    """Have a server give these answers, the last one again and again."""
    waiting = list(answers)
    wire.reply = lambda line: waiting.pop(0) if len(waiting) > 1 else waiting[0]


CUT = raw_answer(b'{"id"', "200 OK", JSON, "Connection: close", length=1_000)
NO_HTTP = b"SECRET of somebody else\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "times"),
    [
        (CUT, 3),
        (NO_HTTP, 3),
        (raw_answer(b"<p>Sign in</p>", "200 OK", "Content-Type: text/html"), 1),
    ],
    ids=["cut", "no http", "page"],
)
def test_what_was_paid_is_not_paid_again(proxy: Running, wire: Wire, brave_api: Any, answer: bytes, times: int) -> None:
    """The later request alone is sent again, and then the client's own retries are told to stop."""
    then(wire, searching(), answer)
    with (
        anthropic.Anthropic(base_url=proxy.url, api_key="k") as client,
        pytest.raises(anthropic.InternalServerError) as caught,
    ):
        client.messages.create(**ASKED)
    assert caught.value.status_code == 502 and caught.value.response.headers["x-should-retry"] == "false"
    assert "SECRET" not in str(caught.value)
    assert [b"tool_result" in body for body in wire.bodies] == [False, *[True] * times]
    assert len(brave_api.queries) == 1


@pytest.mark.parametrize("later", [False, True], ids=["first", "later"])
def test_what_was_asked_when_it_is_stopped_is_booked_and_answered(messages_api: Any, brave_api: Any, later: bool) -> None:
    """The request that hangs is in the books; its caller gets an error that it can read, and is not to ask again."""
    if later:
        messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
        brave_api.reply(delay_s=30)
    else:
        messages_api.reply("Matz.", delay(30))
    got: list[httpx2.Response] = []
    heads = {"x-api-key": messages_api.key, "anthropic-version": "2023-06-01"}

    def ask(url: str) -> None:
        got.append(httpx2.post(f"{url}/v1/messages", json=ASKED, headers=heads, timeout=20))

    with Command("--upstream", messages_api.url, "--provider", "brave") as command:
        asking = threading.Thread(target=ask, args=(command.url,))
        asking.start()
        (brave_api if later else messages_api).wait(lambda fake: fake.active, timeout_s=10)
    asking.join(10)
    assert got[0].status_code == 503 and got[0].headers["x-should-retry"] == "false"
    assert got[0].json() == {"type": "error", "error": {"type": "api_error", "message": "the proxy is being stopped"}}
    assert "Traceback" not in command.said
    rows = api.cost(everything=True)
    assert list(rows.kind) == (["model", "search"] if later else ["model"]) and rows.usd[0] > 0
