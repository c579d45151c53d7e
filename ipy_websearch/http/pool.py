"""The connections of one event loop, by aiohttp. Importing this module imports no HTTP library; the first `request` does."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from base64 import b64encode
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from ipy_websearch.background import elsewhere
from ipy_websearch.errors import ConfigError
from ipy_websearch.http.loops import PerLoop
from ipy_websearch.http.response import MAX_HEADER_LINE, MAX_HEADERS, HttpResponse

if TYPE_CHECKING:
    import ssl

    import aiohttp

CLOSING_S = 1.0
"""Seconds that connections of a loop that does not run have to close in."""


@dataclass(slots=True)
class Progress:
    """How far a request came: whether there was a connection for it, and the head of its answer, without the body.

    `unanswered` says that an earlier try of the same request went out, and was not refused.
    """

    connected: bool = False
    head: HttpResponse | None = None
    unanswered: bool = False

    def again(self) -> None:
        """Say that the request is tried, for the first time or once more."""
        self.unanswered, self.connected, self.head = self.lost, False, None

    @property
    def lost(self) -> bool:
        """Whether the request may be billed although nothing came of it: it went out, and was not refused."""
        return self.unanswered or (self.connected and (self.head is None or 200 <= self.head.status < 300))


_LARGE = 2**20  # bytes of a body that aiohttp wants in pieces

progress: ContextVar[Progress | None] = ContextVar("progress", default=None)
"""What notes how far the running request came."""


class Pool:
    """Connections of the running loop, direct ones and those through proxies."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        proxy: str | None,
        connect_timeout_s: float,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Return what sends a request when it is entered, and gives the response, of which the body is still to be read.

        Nothing but connecting is timed: aiohttp's "connect" takes in the look-up of the name. The body comes as it was sent.
        """
        if self._session is None:
            self._session = _open()
        return self._session.request(
            method,
            url,
            headers=headers,
            data=io.BytesIO(body) if body and len(body) > _LARGE else body,
            allow_redirects=False,
            timeout=_connecting(connect_timeout_s),
            **(_through(proxy) if proxy else {}),
        )

    async def aclose(self) -> None:
        """Close every connection; must run in the loop that they belong to."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def discard(self) -> None:
        """Close every connection at once, without waiting until they are: in their own loop, or when it is closed."""
        closing: Coroutine[Any, Any, None] = self.aclose()
        with contextlib.suppress(StopIteration, RuntimeError):
            closing.send(None)
        closing.close()


def _open() -> aiohttp.ClientSession:
    import aiohttp

    # No limit: callers bound their own concurrency, and waiting for a free connection would count as connecting.
    connector = _connector()(limit=0, ssl=_tls_context())
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        max_line_size=MAX_HEADER_LINE,
        max_field_size=MAX_HEADER_LINE,
        max_headers=MAX_HEADERS,
    )


@cache
def _connecting(seconds: float) -> aiohttp.ClientTimeout:
    import aiohttp

    return aiohttp.ClientTimeout(total=None, connect=seconds, sock_connect=seconds)


def _through(proxy: str) -> dict[str, Any]:
    """Return what sends a request through a proxy; its password goes into the header that becomes Proxy-Authorization."""
    import yarl

    address = yarl.URL(proxy)
    if address.user is None:
        return {"proxy": address}
    words = f"{address.user}:{address.password or ''}".encode()
    return {
        "proxy": address.with_user(None),
        "proxy_headers": {"Authorization": "Basic " + b64encode(words).decode()},
    }


@cache
def _connector() -> type[aiohttp.TCPConnector]:
    """Return the class that opens connections; it notes when there is one: what goes wrong from then on may be billed."""
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        async def connect(self, *args: Any, **options: Any) -> Any:
            """Return a connection, new or kept."""
            mark = progress.get()
            if mark is not None:
                mark.again()
            connection = await super().connect(*args, **options)
            if mark is not None:
                mark.connected = True
            return connection

    return Connector


@cache
def _tls_context() -> ssl.SSLContext:
    """Return the one TLS context (building it takes some 15 ms): certifi's roots, or those SSL_CERT_FILE names.

    Raises:
        ConfigError: they cannot be read.
    """
    import httpx

    try:
        return httpx.create_ssl_context()
    except OSError as exc:
        named = next((v for v in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(v)), "the package certifi")
        raise ConfigError(f"the certificates of {named} cannot be read: {exc.strerror or exc}") from exc


class _Closable(Protocol):
    """What is closed in its loop: with a wait, or without one."""

    async def aclose(self) -> None: ...
    def discard(self) -> None: ...


def close_dropped(pools: PerLoop[Any]) -> None:
    """Close what every loop has, when what owned it is dropped."""
    close_all(pools.drain())


def close_all(pools: Sequence[tuple[asyncio.AbstractEventLoop, _Closable]]) -> None:
    """Close pools from wherever this runs; used when a client is dropped, and when Python ends."""
    for loop, pool in pools:
        if loop.is_closed() or loop is _running_loop():
            pool.discard()
        elif loop.is_running():
            with contextlib.suppress(RuntimeError):  # it has just been closed
                loop.call_soon_threadsafe(pool.discard)
        elif _running_loop() is None:
            _close_in(loop, pool)
        else:  # a thread runs one loop at a time
            elsewhere(partial(_close_in, loop, pool), CLOSING_S)


def _close_in(loop: asyncio.AbstractEventLoop, pool: _Closable) -> None:
    """Close a pool by letting its loop run, which closing takes."""

    async def within_time() -> None:
        async with asyncio.timeout(CLOSING_S):
            await pool.aclose()

    closing = within_time()
    with contextlib.suppress(Exception):
        loop.run_until_complete(closing)
    closing.close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
