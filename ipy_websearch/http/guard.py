"""Connections to the public web alone: each name is resolved once, every answer is judged, and a judged address is dialled.

Invariant: no packet goes to an address that was not judged. The URL keeps its name, so the Host header, SNI and the check of
the certificate are those of the name, and connections are kept by name.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from ipy_websearch.errors import BlockedAddressError
from ipy_websearch.http.address import ALLOW_VARIABLE, TO_OPEN, host_key, ip_rule
from ipy_websearch.http.client import bad_proxy, tls_context

ADDRESS_S = 3.0
"""Seconds for one address of a host that has several; the last one may take as long as the caller waits."""


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens TCP connections to public addresses, and to those private ones that `allow` names."""

    def __init__(self, allow: frozenset[str]) -> None:
        self._allow = allow
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Return a connection to the first address of the host that answers.

        Raises:
            BlockedAddressError: one of its addresses is not public.
            httpcore.ConnectError: the name is unknown, or no address takes the connection.
        """
        try:
            infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as exc:
            raise httpcore.ConnectError(str(exc)) from exc
        addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
        self._judge(host, port, addresses)
        for address in addresses[:-1]:
            limit = ADDRESS_S if timeout is None else min(ADDRESS_S, timeout)
            try:
                return await self._inner.connect_tcp(address, port, limit, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._inner.sleep(seconds)

    def _judge(self, host: str, port: int, addresses: list[str]) -> None:
        key = host_key(host, port)
        for address in addresses:
            if (rule := ip_rule(address, opened=key in self._allow)) is not None:
                where = "" if address == host else f"{host!r} leads to an address that is not the public web: "
                how = f'{TO_OPEN} {ALLOW_VARIABLE}="{key}"' if ip_rule(address, opened=True) is None else ""
                raise BlockedAddressError(f"{where}{rule}{how}")


def guarded_transport(allow: frozenset[str], proxy: str | None = None) -> httpx.AsyncHTTPTransport:
    """Return a transport that dials judged addresses only, or the `proxy`, which then resolves names itself.

    Raises:
        ConfigError: the proxy's address, or the certificates, cannot be used.
    """
    context = tls_context()
    if proxy:
        try:
            return httpx.AsyncHTTPTransport(verify=context, trust_env=False, proxy=proxy)
        except (ValueError, ImportError, httpx.InvalidURL):
            raise bad_proxy("fetch_proxy", proxy) from None
    transport = httpx.AsyncHTTPTransport(verify=context, trust_env=False)
    # httpx has no parameter for the network backend (0.28); httpcore's pool has.
    transport._pool = httpcore.AsyncConnectionPool(ssl_context=context, network_backend=GuardedBackend(allow))
    return transport
