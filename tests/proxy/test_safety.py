"""The proxy as somebody else on the machine sees it, or a page in a browser: raw bytes, and no patience."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.proxy.running import Running, Wire  # noqa: E402

PAGES = {
    "post": ["Origin: https://evil.example"],
    "sandboxed": ["Origin: null"],
    "two origins": ["Origin: http://localhost:8888", "Origin: https://evil.example"],
    "like ours": ["Origin: http://localhost.evil.example"],
    "with a user": ["Origin: http://localhost@evil.example"],
    "image": ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"],
    "same site": ["Sec-Fetch-Site: same-site"],
}


@pytest.mark.parametrize("local", [True, False], ids=["local", "remote"])
@pytest.mark.parametrize("page", list(PAGES))
def test_no_page_of_another_machine_may_ask(wire: Wire, brave_api: Any, page: str, local: bool) -> None:
    """Neither by a form, nor a script, nor an image; a preflight gets no permission; also where other machines may."""
    with Running(wire.url, local_only=local) as running:
        for line in ("POST /v1/messages", "GET /v1/models", "OPTIONS /v1/messages"):
            answer = running.asked(line, *PAGES[page], "Access-Control-Request-Method: POST", "Content-Length: 0")
            assert answer.startswith(b"HTTP/1.1 403 ") and b"access-control" not in answer.lower()
    assert wire.heads == []


OTHERS = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "192.168.0.9", "[::2]"]


@pytest.mark.parametrize("host", OTHERS)
def test_no_other_name_leads_here(proxy: Running, wire: Wire, host: str) -> None:
    """A page's own name may lead to this machine (DNS rebinding); in the request line or in `Host`."""
    for line, named in (("GET /", host), (f"GET http://{host}/", f"127.0.0.1:{proxy.port}")):
        answer = proxy.exchange(f"{line} HTTP/1.1\r\nHost: {named}\r\nConnection: close\r\n\r\n".encode())
        assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 "))
    assert wire.heads == []


@pytest.mark.parametrize("host", ["localhost:8787", "127.0.0.1", "127.0.0.2:1", "[::1]:8787"])
def test_every_name_of_this_machine_does(proxy: Running, wire: Wire, host: str) -> None:
    """Also a page's on this machine."""
    plain = f"GET /v1/models?a=b HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\n\r\n"
    assert proxy.exchange(plain.encode()).startswith(b"HTTP/1.1 200 ")
    assert wire.lines == ["GET /v1/models?a=b HTTP/1.1"]


OUT = ["/../admin", "/v1/../../admin", "/%2e%2E/admin", "/..%2fadmin", "/%252e%252e/admin", "/.%2e/admin", "/..;/admin"]
OUT += ["/v1/%2e%2e%5c..%5cadmin", "//../admin", "/./../admin", "/a%2Fb/../../admin"]


@pytest.mark.parametrize("path", OUT)
def test_no_path_leads_out_of_the_servers_own(proxy: Running, wire: Wire, path: str) -> None:
    assert proxy.asked(f"GET {path}").startswith(b"HTTP/1.1 400 ") and wire.heads == []


def test_a_length_beside_chunks_does_not_reach_the_server(proxy: Running, wire: Wire) -> None:
    """What follows a body cannot become a second request there."""
    inner = b"GET /admin HTTP/1.1\r\nHost: x\r\n\r\n"
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner)
    answer = proxy.asked("POST /v1/files", "Content-Length: 4", "Transfer-Encoding: chunked", body=chunks)
    assert answer.startswith(b"HTTP/1.1 200 ") and wire.lines == ["POST /v1/files HTTP/1.1"] and wire.bodies == [inner]
    heads = "\n".join(wire.heads[0]).lower()
    assert ("content-length: 4" not in heads) and ("content-length" in heads) != ("transfer-encoding" in heads)


@pytest.mark.parametrize(
    "heads",
    [
        ["Content-Length: 4", "Content-Length: 5"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
        ["Transfer-Encoding : chunked"],
        ["Content-Length: +4"],
        ["X-A: b\rX-Evil: 1"],
        ["X-A: b\0c"],
        ["X A: b"],
        ["Host: evil.example"],
    ],
    ids=["lengths", "unknown", "two", "blank", "sign", "return", "zero", "name", "hosts"],
)
def test_what_two_servers_could_read_differently_is_refused(proxy: Running, wire: Wire, heads: list[str]) -> None:
    """Nothing of it goes on."""
    answer = proxy.asked("POST /v1/files", *heads, body=b"4\r\nabcd\r\n0\r\n\r\n")
    assert answer[9:10] in (b"4", b"5") and wire.heads == []
