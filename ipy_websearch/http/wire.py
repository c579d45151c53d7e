"""What every request of ours shares: TLS settings, bounded bodies, and the words for a failure.

Only gzip and deflate are decoded, and one of them at a time. httpx decodes piece by piece, and a piece is 64 kB on the wire, so
at most some 66 MB are decoded before a limit is noticed. Other codings (brotli, or gzip in gzip) have no such bound.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Mapping
from functools import cache

import httpx

from ipy_websearch.errors import ConfigError

_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
KEPT_S = 60.0
"""Seconds for which an idle connection is kept: as long as a model may think between two searches."""
PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_CODINGS = ("", "identity", "gzip", "deflate")


async def keep_location(response: httpx.Response) -> None:
    """Move the Location header out of sight of httpx, which would read it, and fail, though redirects are not followed."""
    response.extensions["location"] = response.headers.pop("location", "")


async def read_body(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    """Return the decoded body, at most `max_bytes` of it, and whether there was more.

    Raises:
        httpx.HTTPError: the answer broke off, or is encoded in another way than was asked for.
    """
    if response.headers.get("content-encoding", "").strip().lower() not in _CODINGS:
        raise httpx.DecodingError("an unknown coding", request=response.request)
    body = bytearray()
    async for piece in response.aiter_bytes():
        room = max_bytes - len(body)
        body += piece[:room]
        if len(piece) > room or response.num_bytes_downloaded > max_bytes:
            return bytes(body), True
    return bytes(body), False


def plain_request(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None, connect_s: float | None
) -> httpx.Request:
    """Return a request; unlike those that a client of httpx builds, it sends no cookies back."""
    timeout = {"connect": connect_s, "pool": connect_s}  # aiohttp counts the resolver's time to the pool
    return httpx.Request(method, url, headers=headers, content=body, extensions={"timeout": timeout})


def bad_proxy(name: str, value: str) -> ConfigError:
    """Return the error for a setting that holds no usable proxy, without the password in it."""
    return ConfigError(f"{name} is {value.rpartition('@')[2]!r}, which cannot be used as a proxy; write http://host:port")


def tls_context() -> ssl.SSLContext:
    """Return the TLS settings: certifi's authorities, or those in SSL_CERT_FILE or SSL_CERT_DIR.

    Raises:
        ConfigError: they cannot be read.
    """
    try:
        return _context(*map(os.environ.get, _CERTIFICATES))
    except OSError as exc:
        named = next((f"{v}={os.environ[v]}" for v in _CERTIFICATES if os.environ.get(v)), "the package certifi")
        raise ConfigError(f"the certificates of {named} cannot be read ({exc.strerror or exc}); mend or unset it") from exc


@cache  # building one takes some 15 ms
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    return httpx.create_ssl_context()


def engine_client(transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    """Return a client for the running event loop; `transport` replaces the network and the proxies of the environment.

    Raises:
        ConfigError: the environment names a proxy or certificates that cannot be used.
    """
    if transport is not None:
        return httpx.AsyncClient(transport=transport, event_hooks={"response": [keep_location]})
    from httpx_aiohttp import AiohttpTransport

    direct = AiohttpTransport(verify=tls_context(), limits=httpx.Limits(max_connections=0, keepalive_expiry=KEPT_S))
    session = direct.client = direct.get_client()

    async def forget_cookies(_: httpx.Response) -> None:
        session.cookie_jar.clear()

    # A mount for "all://" would stand in the way of ALL_PROXY.
    patterns = _LOOPBACK if any(map(os.environ.get, PROXIES[4:])) else ("all://", *_LOOPBACK)
    try:
        return httpx.AsyncClient(
            mounts=dict.fromkeys(patterns, direct),
            verify=tls_context(),
            event_hooks={"response": [keep_location, forget_cookies]},
        )
    except (ValueError, ImportError, httpx.InvalidURL):
        raise bad_proxy(*next((name, os.environ[name]) for name in PROXIES if os.environ.get(name))) from None


def is_failure(exc: Exception) -> bool:
    """Return whether an error comes from the HTTP libraries; httpx-aiohttp 0.2 lets some of aiohttp's through as they are."""
    return isinstance(exc, httpx.HTTPError | httpx.InvalidURL | ValueError) or type(exc).__module__.startswith("aiohttp")


def was_sent(exc: Exception) -> bool:
    """Return whether the request may have reached the server, which may then bill it."""
    not_made = isinstance(exc, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.InvalidURL | ValueError)
    return not not_made and not _NOT_CONNECTED.search(_kind(exc))


def hung_up(exc: Exception) -> bool:
    """Return whether the server closed the connection, which is how a kept connection looks that it has closed before."""
    return str(exc).startswith("Server disconnected") or _BROKEN.search(_kind(exc)) is not None


def failure_words(exc: Exception) -> str:
    """Return why a request failed. The words are ours: a server that could choose them would speak outside of a page."""
    described = f"{_kind(exc)} {exc}"
    for pattern, words in _WORDS:
        if re.match(pattern, described):
            return words or f"{_connection_words(exc)}; check the network connection"
    return "the request could not be put together" if not was_sent(exc) else f"the connection failed ({_kind(exc)})"


def _kind(exc: Exception) -> str:
    """Return the class name of the error below: httpx-aiohttp 0.2 calls lost connections ConnectTimeout."""
    return type(exc.__cause__ or exc).__name__


def _connection_words(exc: BaseException) -> str:
    chain = [exc]
    while below := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(below)
    for cause in reversed(chain):  # the libraries' own errors carry the numbers of other tables
        match cause:
            case socket.gaierror():
                return "its name is not known"
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted ({cause.verify_message})"
            case ssl.SSLError():
                return f"no secure connection ({cause.reason or 'the handshake failed'})"
            case OSError() if cause.errno:
                return os.strerror(cause.errno)
    return "no connection"


# Names of httpx's, httpcore's and aiohttp's (3.14) classes.
_NOT_CONNECTED = re.compile("Connector|Connect(ion)?Timeout|ConnectError|Proxy|PoolTimeout")
_BROKEN = re.compile("ClientOSError|ConnectionReset|ReadError|WriteError")
_WORDS = (
    ("Connect(ion)?Timeout|PoolTimeout", "no connection in time; check the network connection"),
    ("(Client)?(Http)?Proxy", "the proxy refused the connection"),
    (".*(Connector|ConnectError)", ""),
    (".* Server disconnected", "it closed the connection without an answer"),
    ("ClientPayloadError|RemoteProtocolError.*complete", "the answer broke off before its end"),
    ("RemoteProtocolError|ClientResponseError|.*Http", "the answer is not HTTP that can be read"),
    ("ReadError|WriteError|ClientOSError|.*ConnectionReset", "the connection broke off"),
    ("DecodingError|error", "the answer is not encoded as gzip or deflate, which were asked for"),
)
