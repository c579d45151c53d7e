"""An HTTP answer as a value: its bounded body, what a refusal says, and the words for an answer that never came.

Services wrap their error text in a dozen shapes; `service_message` knows those of the engines this package speaks to. Its
text is hostile: `client` shortens it, strips control characters and takes keys out before it is shown.

Only gzip and deflate are decoded, and one of them at a time. httpx decodes piece by piece, and a piece is 64 kB on the wire, so
at most some 66 MB are decoded before a limit is noticed. Other codings (brotli, or gzip in gzip) have no such bound.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import httpx

from ipy_websearch.errors import FailureReason
from ipy_websearch.text import plain

MAX_DEPTH = 100
"""Levels that an engine's JSON may have. The deepest real one seen has nine; what reads it is recursive."""

_CODINGS = ("", "identity", "gzip", "deflate")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*(?:,|$)")  # a header that comes twice is read as a list
_MESSAGE_KEYS = ("message", "detail", "error", "msg", "info", "errorMessage", "title", "code")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One answer: status, headers with lower-case names, the decoded body, and the address without its query.

    The query is left out of `url` because one engine takes its key there.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    url: str = ""

    @property
    def text(self) -> str:
        """The body as UTF-8, with replacement characters where it is not."""
        return self.body.decode("utf-8", errors="replace")

    @property
    def content_type(self) -> str:
        """The media type without parameters, "" when the answer names none."""
        return self.headers.get("content-type", "").split(";")[0].strip().lower()

    def json(self) -> Any:
        """Return the body parsed as JSON; half a surrogate pair in it ("\\ud83d") becomes a question mark.

        Raises:
            ValueError: it is not JSON, or nested deeper than `MAX_DEPTH`.
        """
        try:
            value = json.loads(self.body)
            if _is_deeper(value, MAX_DEPTH):
                raise RecursionError
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if _SURROGATE.search(self.body):  # text that cannot be encoded would fail wherever it is shown or stored
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        return value


class JsonObject(dict[str, Any]):
    """A JSON object that knows the text it was read from. What is made of it, or with it, is a plain dict."""

    __slots__ = ("body",)

    def __init__(self, value: Mapping[str, Any], body: bytes) -> None:
        super().__init__(value)
        self.body = body


class Reason(NamedTuple):
    """Why a service refused: its words, the seconds after which asking again may help, the kind of failure (None: not said)."""

    text: str
    retry_after: float | None = None
    kind: FailureReason | None = None


Explain = Callable[[HttpResponse], Reason | None]
"""Reads an engine's own refusal; None leaves it to `explain_any`."""


def explain_any(response: HttpResponse) -> Reason:
    """Return the reason that any refusal gives: the service's message if there is one, and its Retry-After."""
    return Reason(service_message(response), retry_after(response.headers))


def service_message(response: HttpResponse) -> str:
    """Return what the service itself says about its error, one line of plain text, "" when it says nothing."""
    try:
        return plain(_message(response.json()))
    except ValueError:
        text = response.text[:20_000]
    if text.lstrip().startswith("<"):
        found = _TITLE.search(text)
        return plain(found[1]) if found else ""
    return plain(text[:2_000])


def _message(node: Any) -> str:
    """Return the first text in an error object, looking where services put it; lists give their first item."""
    match node:
        case str():
            return node
        case [first, *_]:
            return _message(first)
        # An "error" object goes first: beside it, "message" and "code" tend to repeat the HTTP status.
        case {"error": dict() | list() as inner} if text := _message(inner):
            return text
        case dict():
            return next(filter(None, (_message(node.get(key)) for key in _MESSAGE_KEYS)), "")
    return ""


def _is_deeper(node: Any, levels: int) -> bool:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return levels < 0 or any(_is_deeper(child, levels - 1) for child in inner)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header (a number or an HTTP date), None when there is none or it is odd.

    `retry-after-ms`, which the Messages API sends too, is more exact and goes first.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if seconds := _SECONDS.match(value):
            return float(seconds[1]) * scale
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


# --- the body ----------------------------------------------------------------------------------------------------------


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


# --- no answer ---------------------------------------------------------------------------------------------------------


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
