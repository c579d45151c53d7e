"""What goes through the proxy, byte by byte, over real HTTP: methods, paths, headers, bodies, odd answers, hasty clients."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx2
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from ipy_websearch import api  # noqa: E402
from tests.fakes.replies import tool_use  # noqa: E402
from tests.proxy.running import ASKED, Running, Wire, raw_answer  # noqa: E402


def test_bodies_go_both_ways_up_to_what_the_api_takes(proxy: Running, wire: Wire) -> None:
    """A larger one is refused before it is read, and one without a length as soon as it is too large."""
    big = bytes(range(256)) * 2**16
    wire.reply = lambda line: raw_answer(big)
    assert httpx2.post(f"{proxy.url}/v1/files", content=big, timeout=30).content == big and wire.bodies == [big]
    for body in (big * 3, (big for _ in range(3))):
        assert httpx2.post(f"{proxy.url}/v1/files", content=body, timeout=30).status_code == 413
    assert len(wire.bodies) == 1


def test_an_answer_that_breaks_off_does_not_look_whole(proxy: Running, wire: Wire) -> None:
    """The client's connection breaks off too."""
    wire.reply = lambda line: raw_answer(b"half", "200 OK", "Connection: close", length=1_000)
    with pytest.raises(httpx2.RemoteProtocolError):
        httpx2.get(f"{proxy.url}/v1/models")


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
