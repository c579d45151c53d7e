"""Resolving a host once, judging every answer, and connecting to a judged address only.

Invariant: no packet goes to an address that was not judged. Three gates in a row: the resolver refuses a host when one
of its answers is not public (so a mixed answer never wins a race), the socket factory refuses to make a socket for an
address that was not admitted, and the peer of the connected socket is looked at once more before the request is
written. The connection is pinned to the answer while the URL keeps its name, so Host header, SNI and certificate check
stay those of the name, and the pool is keyed on it. Proxies and .netrc from the environment would go round all of this,
so the session is made with `trust_env=False`.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from ipaddress import ip_address
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from ipy_websearch.errors import BlockedAddressError
from ipy_websearch.http.address import ALLOW_VARIABLE, TO_OPEN, SafeUrl, host_key, ip_rule
from ipy_websearch.http.ip import IPAddress
from ipy_websearch.http.response import MAX_HEADER_LINE, MAX_HEADERS


class Gate:
    """Knows which addresses may be dialled in one download, and why."""

    def __init__(self, allow: frozenset[str]) -> None:
        self._allow = allow
        self._admitted: set[tuple[IPAddress, int]] = set()

    def admit(self, host: str, port: int, ips: list[str]) -> None:
        """Judge all addresses of a host and admit them.

        Raises:
            BlockedAddressError: one of them is not public (or, for a host on the allow list, a metadata service).
        """
        key = host_key(host, port)
        for ip in ips:
            if (rule := ip_rule(ip, opened=key in self._allow)) is not None:
                where = "" if ip == host else f"{host!r} leads to an address that is not the public web: "
                how = f'{TO_OPEN} {ALLOW_VARIABLE}="{key}"' if ip_rule(ip, opened=True) is None else ""
                raise BlockedAddressError(f"{where}{rule}{how}")
        self._admitted.update((_plain_ip(ip), port) for ip in ips)

    def admit_literal(self, target: SafeUrl) -> None:
        """Admit the IP address in a judged URL; aiohttp asks no resolver for those."""
        if target.literal_ip is not None:
            self.admit(target.host, target.port, [target.literal_ip])

    def confirm(self, sockaddr: Any) -> None:
        """Return when a socket address was admitted.

        Raises:
            BlockedAddressError: it was not.
        """
        ip, port = sockaddr[:2]
        if (_plain_ip(ip), port) not in self._admitted:
            raise BlockedAddressError(f"the connection to {ip}, port {port}, was refused: the address was not judged")

    def open_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Return a new socket for an admitted address; the socket factory of the connector."""
        family, kind, proto, _, sockaddr = info
        self.confirm(sockaddr)
        return socket.socket(family, kind, proto)


class GuardedResolver(AbstractResolver):
    """Asks the system's resolver once, and gives back what the gate admitted."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[ResolveResult]:
        """Return the addresses of a host, all of them judged.

        Raises:
            BlockedAddressError: one of them may not be dialled.
            OSError: the name is unknown.
        """
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        found = {str(info[4][0]): info for info in infos}
        if not found:
            raise OSError(None, "the name has no address")
        self._gate.admit(host, port, list(found))
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=ip, port=port, family=info[0], proto=info[2], flags=numeric)
            for ip, info in found.items()
        ]

    async def close(self) -> None:
        """Nothing is held open."""


class GuardedConnector(aiohttp.TCPConnector):
    """A connector that dials admitted addresses only."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(
            resolver=GuardedResolver(gate),
            use_dns_cache=False,
            socket_factory=gate.open_socket,
            ssl=tls_context(),
            limit=4,
        )
        self._gate = gate

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        """Return a connection whose peer was looked at again; nothing of the request has been written yet."""
        connection = await super().connect(req, traces, timeout)
        transport = connection.transport
        peer = transport.get_extra_info("peername") if transport is not None else None
        try:
            if peer is None:
                raise aiohttp.ClientConnectionError("the connection was lost at once")
            self._gate.confirm(peer)
        except BaseException:
            connection.close()
            raise
        return connection


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS settings of all downloads: the system's authorities and certifi's, where that is installed."""
    context = ssl.create_default_context()
    try:
        import certifi
    except ImportError:
        pass
    else:
        context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


def guarded_session(gate: Gate, headers: dict[str, str]) -> aiohttp.ClientSession:
    """Return a session that keeps no cookies, takes nothing from the environment and bounds header sizes.

    A header line may have 32 kB and an answer 200 of them. There is no timeout in it: the caller has one clock for all.
    """
    return aiohttp.ClientSession(
        connector=GuardedConnector(gate),
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        trust_env=False,
        auto_decompress=False,
        max_line_size=MAX_HEADER_LINE,
        max_field_size=MAX_HEADER_LINE,
        max_headers=MAX_HEADERS,
    )


def _plain_ip(text: str) -> IPAddress:
    return ip_address(text.partition("%")[0])
