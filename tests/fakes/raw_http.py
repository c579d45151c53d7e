"""A loopback server that writes whatever bytes a test wants, so that it can misbehave in every way."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

Handler = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes | str = b"", status: str = "200 OK", **headers: str) -> bytes:
    """Return a whole HTTP answer; header names are given with underscores. Content-Length is added unless it is given."""
    body = body.encode() if isinstance(body, str) else body
    lines = {name.replace("_", "-"): value for name, value in headers.items()}
    lines.setdefault("Content-Length", str(len(body)))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode("latin-1") + body


def html(body: str, **headers: str) -> bytes:
    """Return an answer with an HTML page."""
    return answer(body, Content_Type="text/html; charset=utf-8", **headers)


_MISSING = answer("", "404 Not Found")
Answers = dict[str, bytes | Handler] | bytes | Handler


class RawServer:
    """Serves `answers[path]` (bytes, or an async function that writes), "404" for the rest; keeps what it was asked.

    With `tls` it speaks https, and `key` and `base` are those of `host`, a name that leads to this machine.
    """

    def __init__(self, answers: Answers, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.answers: Any = answers
        self._tls = tls
        self._host = host
        self.requests: list[str] = []
        self.connections = 0
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> RawServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.key = f"{self._host}:{self.port}"
        self.base = f"http{'s' if self._tls else ''}://{self.key}"
        self.allow = frozenset({self.key})
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                    self.requests.append(request)
                    path = request.split(" ")[1].partition("?")[0]
                    what = self.answers.get(path, _MISSING) if isinstance(self.answers, dict) else self.answers
                    if not isinstance(what, bytes):
                        return await what(request, writer)
                    writer.write(what)
                    await writer.drain()
        finally:
            self._writers.discard(writer)
            writer.close()
