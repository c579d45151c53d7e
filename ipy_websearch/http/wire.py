"""What every request of ours shares: TLS settings, bounded bodies, and the words for a failure.

Only gzip and deflate are decoded, and one of them at a time. httpx decodes piece by piece, and a piece is 64 kB on the wire, so
at most some 66 MB are decoded before a limit is noticed. Other codings (brotli, or gzip in gzip) have no such bound.
"""

from __future__ import annotations

import os
import socket
import ssl
from functools import cache

import httpx

from ipy_websearch.errors import ConfigError

_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
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


def bad_proxy(name: str, value: str) -> str:
    """Return the message for a setting that holds no usable proxy, without the password in it."""
    return f"{name} is {value.rpartition('@')[2]!r}, which cannot be used as a proxy; write http://host:port"


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


def failure_words(exc: BaseException) -> str:
    """Return why a request failed. The words are ours: a server that could choose them would speak outside of a page."""
    if isinstance(exc, httpx.ConnectError):
        return f"{_connection_words(exc)}; check the network connection"
    if isinstance(exc, httpx.RemoteProtocolError):
        # httpcore 1.0 and h11 0.16 tell these apart by their text alone.
        if "without sending a response" in str(exc):
            return "it closed the connection without an answer"
        return "the answer broke off before its end" if "complete" in str(exc) else "the answer is not HTTP that can be read"
    found = (words for kinds, words in _WORDS if isinstance(exc, kinds))
    return next(found, f"the connection failed ({type(exc).__name__})")


def _connection_words(exc: BaseException) -> str:
    cause: BaseException | None = exc
    while cause is not None:
        match cause:
            case socket.gaierror():
                return "its name is not known"
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted ({cause.verify_message})"
            case ssl.SSLError():
                return f"no secure connection ({cause.reason or 'the handshake failed'})"
            case OSError() if cause.errno:
                return os.strerror(cause.errno)
        # Of a group, one for each address that was tried, the first will do.
        cause = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause.__cause__ or cause.__context__
    return "no connection"


_WORDS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    (httpx.ConnectTimeout, "no connection in time; check the network connection"),
    (httpx.ProxyError, "the proxy refused the connection"),
    (httpx.NetworkError, "the connection broke off"),
    (httpx.DecodingError, "the answer is not encoded as gzip or deflate, which were asked for"),
    ((httpx.LocalProtocolError, httpx.InvalidURL, ValueError), "the request could not be put together"),
)
