"""One request to an engine and its answer, over the connections of one event loop, and in plain words why none came.

Importing this module imports no HTTP library; the first `exchange` does. aiohttp is used without a layer above it, which took
as long again as the request itself: no cookies are kept, no redirect is followed, no netrc is read and no address is logged
(one engine takes its key in the query).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from ipy_websearch.http.inflate import DecodeError, TooMuch, decoder_for
from ipy_websearch.http.pool import Pool, progress
from ipy_websearch.http.response import HttpResponse

if TYPE_CHECKING:
    import aiohttp

Params = Mapping[str, Any] | Sequence[tuple[str, Any]]
"""Query parameters; None values are left out, a name may come several times in a sequence of pairs."""

USER_INFO = re.compile(r"//[^/@\s]+@")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it goes out, and who it goes to."""

    provider: str
    method: str
    url: str
    params: list[tuple[str, Any]] = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    json: Any = field(repr=False)
    connect_timeout_s: float
    max_bytes: int

    @property
    def host(self) -> str:
        """Host and port that it goes to."""
        return urlsplit(self.url).netloc.rsplit("@", 1)[-1]


async def exchange(pool: Pool, call: Call, proxy: str | None) -> HttpResponse:
    """Send one request and read its answer; an error's body is cut at `max_bytes`, a success's is refused.

    Raises:
        aiohttp.ClientError, OSError, ValueError: no answer came that could be read.
    """
    url = f"{call.url}{'&' if '?' in call.url else '?'}{urlencode(call.params)}" if call.params else call.url
    headers, body = call.headers, None
    if call.json is not None:
        headers, body = {**headers, "Content-Type": "application/json"}, _encode(call.json).encode()
    async with pool.request(call.method, url, headers, body, proxy, call.connect_timeout_s) as response:
        if (mark := progress.get()) is not None:
            mark.status = response.status
        received: dict[str, str] = {}
        for name, value in response.headers.items():
            name = name.lower()
            received[name] = f"{received[name]}, {value}" if name in received else value
        content = await _content(response, received.get("content-encoding", ""), call.max_bytes)
        return HttpResponse(response.status, received, content, call_address(call.url))


async def _content(response: aiohttp.ClientResponse, coding: str, max_bytes: int) -> bytes:
    decoder = decoder_for(coding)
    content = bytearray()
    try:
        async for chunk in response.content.iter_any():
            content += decoder.feed(chunk, max_bytes - len(content))
        decoder.finish()
    except TooMuch as more:
        if response.status < 300:
            raise DecodeError(f"the answer is larger than {max_bytes:,} bytes") from None
        content += more.content
    return bytes(content)


def pairs_of(params: Params | None) -> list[tuple[str, Any]]:
    """Return query parameters as they are written."""
    pairs = params.items() if isinstance(params, Mapping) else params or ()
    return [(name, _parameter(value)) for name, value in pairs if value is not None]


def _parameter(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def call_address(url: str) -> str:
    """Return an address without its query and user name, fit to be shown."""
    return USER_INFO.sub("//", url.split("?", 1)[0].split("#", 1)[0])


def hung_up(exc: BaseException) -> bool:
    """Say whether the server closed the connection before it had answered a byte."""
    import aiohttp

    refused = isinstance(exc, aiohttp.ClientConnectorError)
    return isinstance(exc, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError) and not refused


def what_happened(exc: BaseException, call: Call) -> str:
    """Return in plain words why no answer came."""
    import aiohttp

    if hung_up(exc):
        return "it closed the connection without an answer"
    if isinstance(exc, aiohttp.ClientConnectorDNSError):
        return "its name is not known here; check the network connection"
    if isinstance(exc, aiohttp.ClientSSLError):
        return f"its certificate is not accepted: {exc}"
    if isinstance(exc, aiohttp.ClientConnectorError):
        return f"{os.strerror(exc.os_error.errno or 0)}; check the network connection"
    if isinstance(exc, TimeoutError):
        return f"no connection within {call.connect_timeout_s:g} s; check the network connection"
    if isinstance(exc, aiohttp.ClientPayloadError):
        return "the answer broke off before its end"
    if isinstance(exc, DecodeError):
        return str(exc)
    if isinstance(exc, ValueError):
        return f"the request could not be put together ({type(exc).__name__})"
    return str(exc) or type(exc).__name__
