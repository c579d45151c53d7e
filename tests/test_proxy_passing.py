"""What goes through the proxy, byte by byte, over real HTTP: methods, paths, headers, bodies, odd answers, hasty clients."""

from __future__ import annotations

import gzip
import json
import socket
import time
import zlib
from typing import Any

import httpx2
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from ipy_websearch import api  # noqa: E402
from ipy_websearch.proxy.bodies import MAX_BYTES, json_in  # noqa: E402
from tests.fakes.replies import tool_use  # noqa: E402
from tests.running_proxy import ASKED, SEARCH, Running, Wire, raw_answer  # noqa: E402


def names(head: list[str]) -> list[str]:
    """Return the names of the headers in a request."""
    return [line.partition(":")[0].lower() for line in head[1:]]


# --- methods, paths, headers ----------------------------------------------------------------------------------------

TARGETS = [
    "/",
    "/api/hello",
    "/v1/models?limit=5&after_id=a%2Fb&x=1+2&x=%20",
    "/v1/files/a%2Fb%3Fc%23d/content",
    "/v1/../x/./y//z/",
    "//v1/messages",
    "/v1/messages/",
    "/v1/%6Dessages",
    "/%C3%BC%00;p=1?",
    "/v1/messages?q=http://x/?y[]={z}|",
]


@pytest.mark.parametrize("method", ["HEAD", "GET", "OPTIONS", "DELETE", "PROPFIND"])
def test_every_method_and_path_arrives_as_it_was_written(proxy: Running, wire: Wire, method: str) -> None:
    """Claude Code begins with a HEAD of the base address; what is escaped in a path stays escaped."""
    for target in TARGETS:
        answer = proxy.asked(f"{method} {target}")
        assert answer.startswith(b"HTTP/1.1 200 "), answer
    assert wire.lines == [f"{method} {target.removesuffix('?')} HTTP/1.1" for target in TARGETS]


def test_the_servers_own_path_stands_before_all_others(wire: Wire, brave_api: Any) -> None:
    """`--upstream http://host/prefix/`, for what passes and for what is intercepted."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [], "stop_reason": "end_turn"}
    content = json.dumps({**message, "usage": {}}).encode()
    wire.reply = lambda line: raw_answer(content * (line[0] == "P"), "200 OK", "Content-Type: application/json")
    with Running(f"{wire.url}/pre%2Ffix/") as running:
        running.asked("HEAD /v1/models?a=b")
        body = json.dumps(ASKED).encode()
        running.asked("POST /v1/messages?beta=true", f"Content-Length: {len(body)}", "x-api-key: k", body=body)
    assert wire.lines == ["HEAD /pre%2Ffix/v1/models?a=b HTTP/1.1", "POST /pre%2Ffix/v1/messages?beta=true HTTP/1.1"]


def test_headers_arrive_as_they_came_and_no_others(proxy: Running, wire: Wire) -> None:
    """Repeated ones in their order; those of the connection, and what `Connection` names, are for the proxy alone."""
    heads = ["X-One: 1", "X-Two: a", "X-Two: b", "Cookie: c=1", "TE: trailers", "Keep-Alive: timeout=5", "X-Hop: secret"]
    lines = ["GET / HTTP/1.1", f"Host: 127.0.0.1:{proxy.port}", "Connection: close, x-hop", *heads, "", ""]
    proxy.exchange("\r\n".join(lines).encode())
    (head,) = wire.heads
    assert names(head) == ["host", "x-one", "x-two", "x-two", "cookie"]
    assert head[3:5] == ["x-two: a", "x-two: b"] and head[1].lower() == f"host: {wire.url.removeprefix('http://')}"


def test_an_answers_headers_come_back_as_they_are(proxy: Running, wire: Wire) -> None:
    """Repeated cookies, length, date and server are the server's own; none is kept for the next caller."""
    own = ["Set-Cookie: a=1; Path=/", "Set-Cookie: b=2; Path=/", "Date: Thu, 01 Jan 2026 00:00:00 GMT", "Server: other"]
    own += ["X-A: 1", "X-A: 2", "Content-Encoding: gzip"]
    wire.reply = lambda line: raw_answer(gzip.compress(b"hello"), "200 Fine", *own)
    answer = proxy.asked("GET /v1/models")
    head, _, body = answer.partition(b"\r\n\r\n")
    got = head.decode().lower().split("\r\n")[1:]
    assert [line for line in got if line.startswith("set-cookie")] == ["set-cookie: a=1; path=/", "set-cookie: b=2; path=/"]
    assert sum(line.startswith("date:") for line in got) == sum(line.startswith("server:") for line in got) == 1
    assert f"content-length: {len(body)}" in got and gzip.decompress(body) == b"hello" and got.count("x-a: 1") == 1
    proxy.asked("GET /v1/models")
    posted = json.dumps({**ASKED, "stream": False}).encode()
    proxy.asked("POST /v1/messages", f"Content-Length: {len(posted)}", "x-api-key: k", body=posted)
    assert len(wire.heads) >= 3 and not any("cookie" in names(head) for head in wire.heads)


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("HEAD", raw_answer(b"", "200 OK", length=123)),
        ("GET", raw_answer(b"", "204 No Content", length=-1)),
        ("GET", raw_answer(b"", "304 Not Modified", 'ETag: "x"', length=-1)),
        ("GET", raw_answer(b"", "307 Temporary Redirect", "Location: /v1/other?a=%2F")),
        ("POST", raw_answer(b"", "308 Permanent Redirect", "Location: https://other.example/v1/messages")),
        ("GET", raw_answer(b"gone", "410 Gone")),
        ("DELETE", raw_answer(b"{}", "500 Oops", "Retry-After: 3")),
    ],
    ids=["head", "204", "304", "307", "308", "410", "500"],
)
def test_answers_without_a_body_and_redirects_pass(proxy: Running, wire: Wire, method: str, answer: bytes) -> None:
    """As they are; a redirect is the client's to follow, and the connection can be used again."""
    wire.reply = lambda line: answer
    status, length = int(answer.split(b" ")[1]), answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    with httpx2.Client(base_url=proxy.url) as client:
        for _ in range(2):
            got = client.request(method, "/v1/models")
            assert got.status_code == status and got.headers.get("content-length", "").encode() == length
            assert got.headers.get("location", "").encode() == answer.partition(b"Location: ")[2].partition(b"\r\n")[0]
    assert len(wire.heads) == 2


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (raw_answer(b"moved", "307 Temporary Redirect", "Location: /v2/messages"), 307, "moved"),
        (raw_answer(b"", "204 No Content", length=-1), 204, ""),
        (raw_answer(b"<html>Sign in</html>", "200 OK", "Content-Type: text/html"), 502, "no message: 'Sign in"),
        (raw_answer(b"[1]", "200 OK", "Content-Type: application/json"), 502, "no message: '[1]'"),
    ],
    ids=["redirect", "empty", "page", "list"],
)
def test_an_intercepted_request_may_be_answered_with_anything(
    proxy: Running, wire: Wire, answer: bytes, status: int, says: str, stream: bool
) -> None:
    """What is no reply at all passes; what is no message is said to be none, in the API's form."""
    wire.reply = lambda line: answer
    got = httpx2.post(f"{proxy.url}/v1/messages", json={**ASKED, "stream": stream}, headers={"x-api-key": "k"})
    if stream and status == 502:  # the stream has begun when that is noticed
        assert got.status_code == 200 and '"type":"error"' in got.text.splitlines()[-2]
    else:
        assert got.status_code == status and says in got.text
    assert len(wire.heads) <= 3


# --- bodies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_packed_request_is_searched_for_too(messages_api: Any, brave_api: Any, encoding: str) -> None:
    """What goes on to the server is not packed any more."""
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
    messages_api.reply("Matz.")
    packed = (gzip if encoding == "gzip" else zlib).compress(json.dumps(ASKED).encode())
    heads = {"x-api-key": messages_api.key, "anthropic-version": "2023-06-01", "content-type": "application/json"}
    with Running(messages_api.url) as running:
        heads["content-encoding"] = encoding
        got = httpx2.post(f"{running.url}/v1/messages", headers=heads, content=packed)
    assert got.status_code == 200 and got.json()["usage"]["server_tool_use"]["web_search_requests"] == 1
    assert brave_api.queries == ["ruby author"]


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("gzip", b"not packed at all"),
        ("gzip", gzip.compress(json.dumps(ASKED).encode())[:-20]),
        ("gzip", gzip.compress(b" " * (MAX_BYTES + 1))),
        ("", b'{"model": '),
        ("", b"[" * 100_000),
        ("", b"\xff\xfe"),
        ("", b""),
        ("", json.dumps({**ASKED, "messages": ["hello", 5], "tools": [SEARCH]}).encode()),
        ("", json.dumps({**ASKED, "messages": [{"role": "user", "content": "\ud800"}]}).encode()),
    ],
    ids=["untrue", "cut", "bomb", "broken", "deep", "bytes", "empty", "odd", "half a character"],
)
def test_what_cannot_be_read_is_left_to_the_server(proxy: Running, wire: Wire, encoding: str, content: bytes) -> None:
    """Byte for byte, with its headers; the server refuses it in its own words."""
    wire.reply = lambda line: raw_answer(b'{"type":"error"}', "400 Bad Request", "Content-Type: application/json")
    heads = {"content-encoding": encoding} if encoding else {}
    got = httpx2.post(f"{proxy.url}/v1/messages", headers=heads, content=content)
    assert got.status_code == 400 and got.json() == {"type": "error"}
    assert wire.bodies == [content] and ("content-encoding" in names(wire.heads[0])) == bool(encoding)
    assert json_in(content, encoding) is None or content.startswith(b"{")


def test_big_bodies_go_both_ways(proxy: Running, wire: Wire) -> None:
    """Uploads with a length and without, and downloads, of tens of megabytes."""
    big = bytes(range(256)) * 2**16
    wire.reply = lambda line: raw_answer(big)
    assert httpx2.post(f"{proxy.url}/v1/files", content=big, timeout=30).content == big
    pieces = (big[start : start + 2**20] for start in range(0, len(big), 2**20))
    assert httpx2.post(f"{proxy.url}/v1/files", content=pieces, timeout=30).content == big
    assert wire.bodies == [big, big]
    lengths, chunked = (["content-length" in names(head) for head in wire.heads], "transfer-encoding" in names(wire.heads[1]))
    assert lengths == [True, False] and chunked


def test_an_answer_that_breaks_off_does_not_look_whole(proxy: Running, wire: Wire) -> None:
    """The client's connection breaks off too."""
    wire.reply = lambda line: raw_answer(b"half", "200 OK", "Connection: close", length=1_000)
    with pytest.raises(httpx2.RemoteProtocolError):
        httpx2.get(f"{proxy.url}/v1/models")


# --- clients that leave ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_client_that_leaves_while_it_is_searched_stops_the_search(messages_api: Any, brave_api: Any, stream: bool) -> None:
    """The engine's request is closed, the model is not asked again, and both are in the books."""
    brave_api.reply(delay_s=5)
    messages_api.reply("Let me look.", tool_use("ipy_web_search", {"query": "ruby author"}))
    body = json.dumps({**ASKED, "stream": stream}).encode()
    with Running(messages_api.url) as running:
        heads = [f"Host: 127.0.0.1:{running.port}", f"x-api-key: {messages_api.key}", "anthropic-version: 2023-06-01"]
        heads += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
        with socket.create_connection(("127.0.0.1", running.port), timeout=5) as connection:
            connection.sendall("\r\n".join(["POST /v1/messages HTTP/1.1", *heads]).encode() + body)
            brave_api.wait(lambda fake: fake.active)
        brave_api.wait(lambda fake: not fake.active, timeout_s=2.0)
    rows = api.cost(everything=True)
    assert list(rows.kind) == ["model", "search"] and list(rows.status) == ["ok", "interrupted"]
    assert len(messages_api.requests) == 1


def test_a_stream_that_searches_long_has_pings(messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They reach the client as they come, so that nothing in between takes the connection for dead."""
    monkeypatch.setattr("ipy_websearch.model.driving.PING_S", 0.05)
    brave_api.reply(delay_s=0.4)
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
    messages_api.reply("Matz.")
    heads = {"x-api-key": messages_api.key, "anthropic-version": "2023-06-01"}
    seen: list[float] = []
    with (
        Running(messages_api.url) as running,
        httpx2.stream("POST", f"{running.url}/v1/messages", headers=heads, json={**ASKED, "stream": True}) as response,
    ):
        lines = []
        for line in response.iter_lines():
            lines.append(line)
            if '"ping"' in line and '"content_block_stop","index":0' in "".join(lines):
                seen.append(time.monotonic())
    assert len(seen) >= 2 and seen[-1] - seen[0] > 0.03 and "Matz." in "".join(lines)
