"""The proxy and bodies: what is packed, what JSON cannot say, what is too much, in both directions, over real HTTP."""

from __future__ import annotations

import gzip
import importlib
import json
import zlib
from typing import Any

import anthropic
import httpx2
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from ipy_websearch.proxy import app, bodies  # noqa: E402
from tests.fakes.replies import tool_use  # noqa: E402
from tests.running_proxy import ASKED, SEARCH, Running, Wire, raw_answer  # noqa: E402

MODEL = "claude-sonnet-5-5"
JSON = "Content-Type: application/json"
REFUSED = raw_answer(b'{"type":"error"}', "400 Bad Request", JSON)


def packed_answer(content: bytes, encoding: str, status: str = "200 OK") -> bytes:
    """Return a packed answer."""
    body = gzip.compress(content) if encoding == "gzip" else zlib.compress(content)
    return raw_answer(body, status, JSON, f"Content-Encoding: {encoding}")


# --- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_count_from_a_server_that_packs_can_be_read(proxy: Running, wire: Wire, encoding: str) -> None:
    """By the SDK, and by a client that can unpack nothing: what the proxy agreed on with the server is not the caller's."""
    wire.reply = lambda line: packed_answer(b'{"input_tokens": 42}', encoding)
    with anthropic.Anthropic(base_url=proxy.url, api_key="k") as client:
        messages: Any = ASKED["messages"]
        tools: Any = [SEARCH]
        assert client.messages.count_tokens(model=MODEL, messages=messages, tools=tools).input_tokens == 42
    counted = {**ASKED, "stream": True}  # which a count does not take
    heads = {"x-api-key": "k", "accept-encoding": "identity"}
    got = httpx2.post(f"{proxy.url}/v1/messages/count_tokens", json=counted, headers=heads)
    assert got.json() == {"input_tokens": 42} and "content-encoding" not in got.headers
    assert "stream" not in json.loads(wire.bodies[-1])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("status", ["200 OK", "307 Temporary Redirect", "400 Bad Request", "529 Overloaded"])
def test_any_packed_answer_to_a_searched_request_can_be_read(
    proxy: Running, wire: Wire, monkeypatch: pytest.MonkeyPatch, status: str, stream: bool
) -> None:
    """Messages, errors and redirects; also by a client that can unpack nothing."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [{"type": "text", "text": "Matz."}]}
    message |= {"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
    error = {"type": "error", "error": {"type": "some_error", "message": "Matz."}}
    wire.reply = lambda line: packed_answer(json.dumps(message if status.startswith("2") else error).encode(), "gzip", status)
    heads = {"x-api-key": "k", "accept-encoding": "identity"}
    got = httpx2.post(f"{proxy.url}/v1/messages", json={**ASKED, "stream": stream}, headers=heads, timeout=30)
    assert got.status_code == int(status[:3]) and "Matz." in got.text and "content-encoding" not in got.headers


def test_a_packed_answer_that_is_cut_is_said_to_be(proxy: Running, wire: Wire) -> None:
    """502 in the API's form, not half of it."""
    answer = packed_answer(b'{"input_tokens": 42}' * 50, "gzip")
    wire.reply = lambda line: answer.replace(gzip.compress(b"")[:2], b"no", 1)
    got = httpx2.post(f"{proxy.url}/v1/messages/count_tokens", json=ASKED, headers={"x-api-key": "k"})
    assert got.status_code == 502 and got.json()["error"]["type"] == "api_error"


# --- requests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_a_number_that_json_cannot_say_is_left_to_the_server(proxy: Running, wire: Wire, number: str, path: str) -> None:
    """Byte for byte; it says what is wrong."""
    wire.reply = lambda line: REFUSED
    content = json.dumps({**ASKED, "top_p": 0.5}).replace("0.5", number).encode()
    got = httpx2.post(proxy.url + path, content=content, headers={"x-api-key": "k"})
    assert got.status_code == 400 and got.json() == {"type": "error"} and wire.bodies == [content]


@pytest.mark.parametrize("levels", [200, 400, 900, 5_000])
def test_a_body_of_many_levels_is_searched_for_or_left_to_the_server(proxy: Running, wire: Wire, levels: int) -> None:
    """Never an error of the proxy's own."""
    wire.reply = lambda line: REFUSED
    deep = "[" * levels + "]" * levels
    content = json.dumps({**ASKED, "metadata": 0.5}).replace("0.5", deep).encode()
    got = httpx2.post(f"{proxy.url}/v1/messages", content=content, headers={"x-api-key": "k"})
    assert got.status_code == 400 and got.json() == {"type": "error"} and deep in wire.bodies[0].decode().replace(" ", "")


PACKERS = {
    "gzip of two parts": ("gzip", lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:])),
    "bare deflate": ("deflate", lambda data: zlib.compress(data)[2:-4]),
    "twice": ("deflate, gzip", lambda data: gzip.compress(zlib.compress(data))),
    "br": ("br", lambda data: pytest.importorskip("brotli", minversion="1.2").compress(data)),
    "zstd": ("zstd", lambda data: zstd().compress(data)),
}


def zstd() -> Any:
    """Return what packs as zstd, where something does."""
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    pytest.skip("nothing here packs as zstd")


@pytest.mark.parametrize("how", list(PACKERS))
def test_a_request_is_searched_for_however_it_is_packed(messages_api: Any, brave_api: Any, how: str) -> None:
    """What goes on to the server is not packed any more."""
    encoding, pack = PACKERS[how]
    content = pack(json.dumps(ASKED).encode())
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
    messages_api.reply("Matz.")
    heads = {"x-api-key": messages_api.key, "anthropic-version": "2023-06-01", "content-encoding": encoding}
    with Running(messages_api.url) as running:
        got = httpx2.post(f"{running.url}/v1/messages", headers=heads, content=content)
    assert got.status_code == 200 and got.json()["usage"]["server_tool_use"]["web_search_requests"] == 1


@pytest.mark.parametrize("how", ["gzip of two parts", "br", "zstd"])
def test_what_unfolds_to_too_much_is_not_unfolded(how: str) -> None:
    """Nor is what was cut."""
    encoding, pack = PACKERS[how]
    fits = b" " * (bodies.MAX_BYTES - 1) + b"1"
    assert bodies.json_in(pack(fits), encoding) == 1
    assert bodies.json_in(pack(b" " + fits), encoding) is None
    assert bodies.json_in(pack(json.dumps(ASKED).encode())[:-9], encoding) is None


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_an_encoding_that_cannot_be_read_is_refused_with_those_that_can(proxy: Running, wire: Wire, path: str) -> None:
    """415 in the API's form: the search would silently not happen. What needs not be read passes."""
    for encoding in ("compress", "gzip, compress", "gzip, gzip, gzip, gzip, gzip"):
        got = httpx2.post(proxy.url + path, content=b"x", headers={"content-encoding": encoding, "x-api-key": "k"})
        assert got.status_code == 415 and got.json()["error"]["type"] == "invalid_request_error"
        assert "gzip" in got.headers["accept-encoding"] and encoding.rpartition(" ")[2] in got.json()["error"]["message"]
    assert wire.heads == []
    httpx2.post(f"{proxy.url}/v1/files", content=b"x", headers={"content-encoding": "compress"})
    assert wire.bodies == [b"x"]


@pytest.mark.parametrize("name", ["br", "zstd"])
def test_a_package_that_is_missing_is_named(proxy: Running, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """With what to install."""
    monkeypatch.setattr(bodies, "_found", lambda *names: None)
    bodies._unpacker.cache_clear()
    try:
        got = httpx2.post(f"{proxy.url}/v1/messages", content=b"x", headers={"content-encoding": name})
    finally:
        bodies._unpacker.cache_clear()
    assert got.status_code == 415 and "pip install" in got.json()["error"]["message"]
    assert got.headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
def test_a_request_that_is_too_large_is_not_held(
    proxy: Running, wire: Wire, monkeypatch: pytest.MonkeyPatch, chunked: bool
) -> None:
    """413 in the API's form; the connection can be used again, and what is not read here may be as large as it likes."""
    monkeypatch.setattr(app, "MAX_BYTES", 2**20)
    content = b" " * (2**20 + 1)
    with httpx2.Client(base_url=proxy.url) as client:
        got = client.post("/v1/messages", content=iter([content[:700_000], content[700_000:]]) if chunked else content)
        assert got.status_code == 413 and got.json()["error"]["type"] == "request_too_large"
        assert wire.heads == []
        assert client.post("/v1/files", content=content).status_code == 200 and wire.bodies == [content]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_a_body_that_does_not_come_is_not_waited_for(proxy: Running, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """408 in the API's form, and the connection is closed."""
    monkeypatch.setattr(app, "PIECE_S", 0.1)
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{proxy.port}", "Content-Length: 100", "", '{"model":']
    answer = proxy.exchange("\r\n".join(lines).encode())
    assert answer.startswith(b"HTTP/1.1 408 ") and b'"type":"error"' in answer
