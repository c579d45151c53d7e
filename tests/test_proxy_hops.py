"""The proxy when something fails between the requests of one call: what was paid is paid once, booked, and said to be final."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from ipy_websearch import api  # noqa: E402
from tests.fakes.replies import delay, tool_use  # noqa: E402
from tests.running_proxy import ASKED, Command, Running, Wire, raw_answer  # noqa: E402

MODEL = "claude-sonnet-5-5"
JSON = "Content-Type: application/json"
PLAIN = {**ASKED, "tools": []}


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed requests are sent again at once."""
    monkeypatch.setattr("ipy_websearch.model.retry._LONGEST_S", 0.0)


class Silent(Wire):
    """A server that answers nothing; `left` counts the connections on which it waited in vain."""

    left = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        self.bodies.append(await self._body(reader, "\n".join(head).lower()))
        self.heads.append(head)
        await reader.read(1)
        self.left += 1
        writer.close()


@pytest.fixture
def silent(clean_environment: None) -> Iterator[Silent]:
    """Such a server."""
    with Silent() as made:
        yield made


def answer_of(stop_reason: str, block: dict[str, Any], *lines: str) -> bytes:
    """Return an answer with one block, and with these header lines."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": MODEL, "content": [block]}
    rest = {"stop_reason": stop_reason, "usage": {"input_tokens": 10, "output_tokens": 5}}
    return raw_answer(json.dumps({**message, **rest}).encode(), "200 OK", JSON, *lines)


def searching(*lines: str) -> bytes:
    """Return a first answer, which wants a search."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "ipy_web_search", "input": {"query": "ruby"}}
    return answer_of("tool_use", call, *lines)


def answering() -> bytes:
    """Return a last answer."""
    return answer_of("end_turn", {"type": "text", "text": "Matz."})


def then(wire: Wire, *answers: bytes) -> None:
    """Have a server give these answers, the last one again and again."""
    waiting = list(answers)
    wire.reply = lambda line: waiting.pop(0) if len(waiting) > 1 else waiting[0]


def posted(body: Any) -> tuple[list[str], bytes]:
    """Return a request's body, and the headers that say how long it is."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return [f"Content-Length: {len(content)}", "x-api-key: k"], content


def seen(condition: Any) -> bool:
    """Wait for something, for two seconds at most."""
    for _ in range(200):
        if condition():
            return True
        threading.Event().wait(0.01)
    return False


# --- later requests that fail ---------------------------------------------------------------------------------------

CUT = raw_answer(b'{"id"', "200 OK", JSON, "Connection: close", length=1_000)
NO_HTTP = b"SECRET of somebody else\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "times"),
    [
        (CUT, 3),
        (NO_HTTP, 3),
        (raw_answer(b"", "700 Odd"), 3),
        (raw_answer(b"<p>Sign in</p>", "200 OK", "Content-Type: text/html"), 1),
    ],
    ids=["cut", "no http", "odd status", "page"],
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


def test_a_stream_that_breaks_off_does_not_quote_what_broke_it(proxy: Running, wire: Wire, brave_api: Any) -> None:
    """Nor does it say no more than that: the client reads why, in an event."""
    chunked = "Transfer-Encoding: chunked"
    then(wire, searching(), raw_answer(b"SECRET\r\n", "200 OK", JSON, chunked, "Connection: close", length=-1))
    got = httpx2.post(f"{proxy.url}/v1/messages", json={**ASKED, "stream": True}, headers={"x-api-key": "k"})
    assert '"type":"error"' in got.text and "illegal chunk header" in got.text and "SECRET" not in got.text


def test_what_nobody_foresaw_is_not_paid_again_either(proxy: Running, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a plug-in, or of our own, after the first answer."""

    async def broken(*_: Any) -> None:
        raise LookupError("odd")

    monkeypatch.setattr("ipy_websearch.interception.run.InterceptedRun.run_calls", broken)
    then(wire, searching())
    heads, content = posted(ASKED)
    answer = proxy.asked("POST /v1/messages", *heads, body=content)
    assert answer.startswith(b"HTTP/1.1 502 ") and b"x-should-retry: false" in answer and b"LookupError: odd" in answer


def test_a_first_request_that_fails_is_the_clients_to_send_again(proxy: Running, wire: Wire, brave_api: Any) -> None:
    """Nothing was paid for twice, and the client counts its own retries."""
    then(wire, CUT)
    got = httpx2.post(f"{proxy.url}/v1/messages", json=ASKED, headers={"x-api-key": "k"})
    assert got.status_code == 502 and "x-should-retry" not in got.headers and len(wire.heads) == 1


@pytest.mark.parametrize("body", [PLAIN, ASKED], ids=["plain", "search"])
def test_a_failure_says_why_without_what_anybody_wrote(proxy: Running, wire: Wire, brave_api: Any, body: Any) -> None:
    """A name, and the words of the library; bytes that it could not read may be another's answer."""
    then(wire, NO_HTTP)
    heads = {"x-api-key": "k"}
    got = httpx2.post(f"{proxy.url}/v1/messages", json=body, headers=heads)
    said = "the upstream server could not be asked (RemoteProtocolError: illegal status line)"
    assert got.status_code == 502 and got.json()["error"] == {"type": "api_error", "message": said}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Running(f"http://127.0.0.1:{port}") as running:
        got = httpx2.post(f"{running.url}/v1/messages", json=body, headers=heads)
    assert got.status_code == 502 and "(ConnectError: " in got.json()["error"]["message"]


# --- the headers of several requests --------------------------------------------------------------------------------


def test_what_holds_for_the_callers_body_does_not_go_up_with_ours(proxy: Running, wire: Wire, brave_api: Any) -> None:
    """Digests nowhere, the key of the request with the first one only; what passes keeps all of it."""
    digests = ["Content-MD5: zz", "Content-Digest: sha-256=:x:", "Repr-Digest: sha-256=:x:", "Digest: SHA-256=x"]
    for body, answers in ((ASKED, (searching(), answering())), (PLAIN, (answering(),))):
        then(wire, *answers)
        heads, content = posted(body)
        answer = proxy.asked("POST /v1/messages", *heads, *digests, "Idempotency-Key: abc", body=content)
        assert answer.startswith(b"HTTP/1.1 200 ")
    names = [{line.partition(":")[0].lower() for line in head} for head in wire.heads]
    body_bound = {"content-md5", "content-digest", "repr-digest", "digest"}
    assert [name & body_bound for name in names] == [set(), set(), body_bound]
    assert ["idempotency-key" in name for name in names] == [True, False, True]
    assert all("x-api-key" in name for name in names)


@pytest.mark.parametrize(
    "value", ["caf\xe9".encode("latin-1"), "café".encode(), "東京".encode()], ids=["latin", "utf-8", "wide"]
)
def test_an_answers_headers_are_the_servers_bytes(proxy: Running, wire: Wire, brave_api: Any, value: bytes) -> None:
    """Whatever encoding they are in, also after a search that was paid."""
    line = f"X-Region: {value.decode('latin-1')}"
    for body, stream in ((PLAIN, False), (ASKED, False), (ASKED, True)):
        then(wire, searching(line), answering()) if body is ASKED else then(wire, searching(line))
        heads, content = posted({**body, "stream": stream})
        answer = proxy.asked("POST /v1/messages", *heads, body=content)
        assert answer.startswith(b"HTTP/1.1 200 ") and b"\r\nx-region: " + value + b"\r\n" in answer


# --- patience -------------------------------------------------------------------------------------------------------


def test_it_has_no_patience_of_its_own(proxy: Running, wire: Wire, brave_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may think as long as the client lets it; only what the client's SDK says of its patience is a limit."""
    limits: list[float | None] = []
    sent = httpx2.AsyncHTTPTransport.handle_async_request

    async def noted(self: Any, request: httpx2.Request) -> httpx2.Response:
        if request.url.port == int(wire.url.rpartition(":")[2]):
            limits.append(request.extensions["timeout"]["read"])
        return await sent(self, request)

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", noted)
    then(wire, answering())
    for body, said in ((PLAIN, []), (ASKED, []), (ASKED, ["900"]), (ASKED, ["nan"]), (ASKED, ["NOT_GIVEN"])):
        heads, content = posted(body)
        proxy.asked("POST /v1/messages", *heads, *[f"X-Stainless-Timeout: {word}" for word in said], body=content)
    assert limits == [None, None, 900.0, None, None]


TARGETS = ["POST /v1/chat/completions", "POST /v1/complete", "GET /v1/models", "POST /v1/messages"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_client_that_leaves_is_noticed_on_every_path(silent: Silent, brave_api: Any, target: str) -> None:
    """Before the server has said anything."""
    heads, content = posted(PLAIN) if target.startswith("POST") else ([], b"")
    with Running(silent.url) as running:
        lines = [f"{target} HTTP/1.1", f"Host: 127.0.0.1:{running.port}", *heads, "", ""]
        with socket.create_connection(("127.0.0.1", running.port), timeout=5) as connection:
            connection.sendall("\r\n".join(lines).encode() + content)
            assert seen(lambda: silent.heads) and silent.bodies == [content]
        assert seen(lambda: silent.left)


# --- the end of the proxy -------------------------------------------------------------------------------------------


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
