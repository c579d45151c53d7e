"""The proxy in a thread of the tests, and as the command that its user starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import uvicorn

from ipy_websearch.interception import WebSearchInterceptor
from ipy_websearch.proxy.__main__ import SERVER
from ipy_websearch.proxy.app import Proxy
from ipy_websearch.session import Session


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
