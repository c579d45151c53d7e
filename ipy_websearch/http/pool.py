"""The connections of one event loop: httpx's transport interface over aiohttp, which costs a quarter of the CPU time.

Importing this module imports no HTTP library; the first `transport` does. The transport is used directly, without
httpx's client above it: no cookies are kept, no redirect is followed, no netrc is read and no address is logged (httpx
logs whole addresses at INFO level, and one engine takes its key in the query).
"""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from ipy_websearch.http.loops import PerLoop

if TYPE_CHECKING:
    import ssl

    import aiohttp
    import httpx


@dataclass(slots=True)
class Progress:
    """How far a request came: whether there was a connection for it, and the status of its answer (0: none yet)."""

    connected: bool = False
    status: int = 0


progress: ContextVar[Progress | None] = ContextVar("progress", default=None)
"""What notes how far the running request came."""


class Pool:
    """Connections of the running loop, one transport for direct ones and one for each proxy."""

    def __init__(self) -> None:
        self._transports: dict[str | None, httpx.AsyncBaseTransport] = {}
        self._sessions: list[aiohttp.ClientSession] = []

    def transport(self, proxy: str | None = None) -> httpx.AsyncBaseTransport:
        """Return the transport for direct connections, or for those through `proxy`."""
        known = self._transports.get(proxy)
        if known is None:
            known = self._transports[proxy] = self._open(proxy)
        return known

    def _open(self, proxy: str | None) -> httpx.AsyncBaseTransport:
        import aiohttp
        from httpx_aiohttp import AiohttpTransport

        context = _tls_context()
        # No limit: callers bound their own concurrency, and waiting for a free connection would count as connecting.
        connector = _connector()(limit=0, ssl=context)
        session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        self._sessions.append(session)
        return AiohttpTransport(verify=context, client=session, proxy=_proxy(proxy) if proxy else None)

    async def aclose(self) -> None:
        """Close every connection; must run in the loop that they belong to."""
        sessions, self._sessions, self._transports = self._sessions, [], {}
        for session in sessions:
            await session.close()

    def discard(self) -> None:
        """Close every connection at once, without waiting until they are: in their own loop, or when it is closed."""
        closing: Coroutine[Any, Any, None] = self.aclose()
        with contextlib.suppress(StopIteration, RuntimeError):
            closing.send(None)
        closing.close()


def _proxy(address: str) -> httpx.Proxy:
    """Return the proxy; its password goes into the header that aiohttp turns into Proxy-Authorization."""
    import httpx

    proxy = httpx.Proxy(address)
    if proxy.raw_auth is None:
        return proxy
    return httpx.Proxy(proxy.url, headers={"Authorization": "Basic " + b64encode(b":".join(proxy.raw_auth)).decode()})


@cache
def _connector() -> type[aiohttp.TCPConnector]:
    """Return the class that opens connections; it notes when there is one: what goes wrong from then on may be billed."""
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        async def connect(self, *args: Any, **options: Any) -> Any:
            """Return a connection, new or kept."""
            mark = progress.get()
            if mark is not None:
                mark.connected = False
            connection = await super().connect(*args, **options)
            if mark is not None:
                mark.connected = True
            return connection

    return Connector


@cache
def _tls_context() -> ssl.SSLContext:
    """Return the one TLS context (building it takes some 15 ms): certifi's roots, or those SSL_CERT_FILE names."""
    import httpx

    return httpx.create_ssl_context()


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
        else:
            closing = pool.aclose()
            try:
                loop.run_until_complete(closing)
            except RuntimeError:  # another loop runs in this thread
                closing.close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
