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
from ipy_websearch.http.response import HttpResponse, library_words

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
        return place_of(self.url)


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
        received: dict[str, str] = {}
        for name, value in response.headers.items():
            name = name.lower()
            received[name] = f"{received[name]}, {value}" if name in received else value
        head = HttpResponse(response.status, received, b"", call_address(call.url))
        if (mark := progress.get()) is not None:
            mark.head = head
        content = await _content(response, received.get("content-encoding", ""), call.max_bytes)
        return HttpResponse(head.status, received, content, head.url)


async def _content(response: aiohttp.ClientResponse, coding: str, max_bytes: int) -> bytes:
    """Return the body; of a refusal, as much as can be read."""
    import aiohttp

    content = bytearray()
    try:
        decoder = decoder_for(coding)
        async for chunk in response.content.iter_any():
            content += decoder.feed(chunk, max_bytes - len(content))
        decoder.finish()
    except TooMuch as more:
        if response.status < 300:
            raise DecodeError(f"the answer is larger than {max_bytes:,} bytes") from None
        content += more.content
    except (DecodeError, aiohttp.ClientPayloadError):
        if response.status < 300:
            raise
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


def place_of(url: str) -> str:
    """Return host and port of an address, "" when there is none in it."""
    try:
        return urlsplit(url).netloc.rsplit("@", 1)[-1]
    except ValueError:
        return ""


def hung_up(exc: BaseException) -> bool:
    """Say whether the server closed the connection before it had answered a byte."""
    import aiohttp

    if isinstance(exc, aiohttp.ServerDisconnectedError):
        return isinstance(exc.message, str)  # otherwise it is what had come by then
    return isinstance(exc, aiohttp.ClientOSError) and not isinstance(exc, aiohttp.ClientConnectorError)


def never_sent(exc: BaseException) -> bool:
    """Say whether the request could not even be put together."""
    return isinstance(exc, ValueError) and not isinstance(exc, DecodeError)


def what_happened(exc: BaseException, call: Call) -> str:
    """Return in our words why no answer came; the text of a lower error may hold the whole address."""
    import aiohttp

    match exc:
        case _ if hung_up(exc):
            return "it closed the connection without an answer"
        case aiohttp.ClientConnectorDNSError():
            return "its name is not known here; check the network connection"
        case aiohttp.ClientSSLError():
            return f"its certificate is not accepted: {exc}"
        case aiohttp.ClientConnectorError():
            return f"{_why(exc.os_error)}; check the network connection"
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            return "the answer broke off before its end"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered {exc.status}"
        case aiohttp.ClientResponseError():
            return f"the answer is not HTTP that can be read ({library_words(exc.message)})"
        case TimeoutError():
            return f"no connection within {call.connect_timeout_s:g} s; check the network connection"
        case DecodeError():
            return str(exc)
    what = "the request could not be put together" if never_sent(exc) else "the connection failed"
    return f"{what} ({type(exc).__name__})"


def _why(error: OSError) -> str:
    """Return why there was no connection; several addresses may have failed in several ways, and a server just hang up."""
    return os.strerror(error.errno) if error.errno else str(error) or "it was closed while it was set up"
