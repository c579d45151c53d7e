"""What the tests of the proxy stand on: the proxy itself in a thread, and a server behind it that keeps every byte it got."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn

from ipy_websearch.interception import WebSearchInterceptor
from ipy_websearch.proxy.__main__ import SERVER
from ipy_websearch.proxy.app import Proxy
from ipy_websearch.session import Session
from tests.fakes.server import run_there

SEARCH = {"type": "web_search_20250305", "name": "web_search"}
ASKED: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [SEARCH],
}
"""A request that wants the web."""


class Listening:
    """What can be asked byte by byte."""

    port: int

    def exchange(self, request: bytes) -> bytes:
        """Send bytes and return all that comes back until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(request)
            found = b""
            while piece := connection.recv(65_536):
                found += piece
            return found

    def asked(self, line: str, *heads: str, body: bytes = b"") -> bytes:
        """Return the answer to a request line and some headers."""
        lines = [f"{line} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Connection: close", *heads, "", ""]
        return self.exchange("\r\n".join(lines).encode("latin-1") + body)


class Running(Listening):
    """The proxy in a thread of its own, as the command runs it."""

    def __init__(self, upstream: str, **options: Any) -> None:
        app = Proxy(upstream, WebSearchInterceptor(provider="brave", session=Session()), **options)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = uvicorn.Server(uvicorn.Config(app, **{**SERVER, "timeout_graceful_shutdown": 1}))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)

    def __enter__(self) -> Running:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(5)
        self.listener.close()


class Command(Listening):
    """The proxy as its user starts it, in a process; `said` is all that it wrote, once it has been stopped."""

    said = ""

    def __init__(self, *arguments: str, **environment: str) -> None:
        command = [sys.executable, "-m", "ipy_websearch.proxy", "--port", "0", "--provider", "wikipedia", *arguments]
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


def empty_message() -> bytes:
    """Return an answer that is a message without a word."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [], "stop_reason": "end_turn"}
    return raw_answer(json.dumps({**message, "usage": {}}).encode(), "200 OK", "Content-Type: application/json")


def raw_answer(body: bytes = b"", status: str = "200 OK", *lines: str, length: int | None = None) -> bytes:
    """Return an HTTP answer with these header lines; `length` None is the body's own, below 0 none."""
    size = len(body) if length is None else length
    heads = [*lines, *([f"Content-Length: {size}"] if size >= 0 else [])]
    return "\r\n".join([f"HTTP/1.1 {status}", *heads, "", ""]).encode("latin-1") + body


class Wire:
    """A server that answers with whatever bytes `reply` gives for a request line; `heads` and `bodies` are what it got."""

    def __init__(self, reply: Callable[[str], bytes] = lambda line: raw_answer(b"", length=0)) -> None:
        self.reply = reply
        self.heads: list[list[str]] = []
        self.bodies: list[bytes] = []

    def __enter__(self) -> Wire:
        run_there(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        run_there(self._stop())

    @property
    def lines(self) -> list[str]:
        """The request lines."""
        return [head[0] for head in self.heads]

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _stop(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
                self.heads.append(head)
                self.bodies.append(await self._body(reader, "\n".join(head).lower()))
                answer = self.reply(head[0])
                writer.write(answer)
                await writer.drain()
                if b"Connection: close" in answer:
                    break
        writer.close()

    async def _body(self, reader: asyncio.StreamReader, head: str) -> bytes:
        if "\ntransfer-encoding: chunked" not in head:
            length = head.partition("\ncontent-length:")[2].partition("\n")[0].strip()
            return await reader.readexactly(int(length or 0))
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return body
