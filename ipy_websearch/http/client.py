"""The HTTP client of the search engines: one request, one deadline, one way to fail; and the cache of what was answered.

Invariant: `request` returns a 2xx answer or raises `ProviderError` (`RateLimitedError` for 429), or `ConfigError` before
anything is sent. No message holds a key, a query string or more than 200 characters of the service's own words.

Retries: 5xx twice more, 1 s apart; 4xx never; 429 goes to the caller at once, and so does a host that cannot be reached. A
server that hangs up without a word is asked once more at once, because a kept connection that the server has closed looks
like that.

An error is `lost` when the engine may bill the request: it went out, and no answer came, or a 2xx that cannot be used.
httpx's exception classes say whether it went out; where a request was tried several times, one such try is enough.

Only gzip and deflate are decoded, and one of them at a time. httpx decodes piece by piece, and a piece is 64 kB on the wire, so
at most some 66 MB are decoded before a limit is noticed. Other codings (brotli, or gzip in gzip) have no such bound.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import sqlite3
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import httpx

from ipy_websearch.background import close_with
from ipy_websearch.database import Database
from ipy_websearch.errors import ConfigError, FailureReason, ProviderError, RateLimitedError
from ipy_websearch.keys import SHORTEST_SECRET
from ipy_websearch.text import plain, shorten, sound

# Query parameters. None values are left out; in a sequence of pairs, a name may come several times.
Params = Mapping[str, Any] | Sequence[tuple[str, Any]]

_USER_INFO = re.compile(r"//[^/@\s]+@")
_SECRET_HEADERS = ("authorization", "x-subscription-token", "x-api-key", "api-key")
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_ENVIRONMENT = (*_PROXIES, "NO_PROXY", "no_proxy", *_CERTIFICATES)
_LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")
# Seconds for which an idle connection is kept: as long as a model may think between two searches.
_KEPT_S = 60.0
_KEY_PARAMETER = re.compile(r"(?<=[?&]key=)[^&]*")

_CODINGS = ("", "identity", "gzip", "deflate")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*(?:,|$)")  # a header that comes twice is read as a list
_MESSAGE_KEYS = ("message", "detail", "error", "msg", "info", "errorMessage", "title", "code")


# --- answers ----------------------------------------------------------------------------------------------------------


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
        """Return the body parsed as JSON; half a surrogate pair in it ("\\ud83d") becomes U+FFFD.

        Raises:
            ValueError: it is not JSON, or nested too deeply.
        """
        try:
            value = json.loads(self.body)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        # Text that cannot be encoded would fail wherever it is shown or stored.
        return sound(value) if _SURROGATE.search(self.body) else value


class Reason(NamedTuple):
    """Why a service refused: its words, the seconds after which asking again may help, the kind of failure (None: not said)."""

    text: str
    retry_after: float | None = None
    kind: FailureReason | None = None


# Reads an engine's own refusal; None leaves it to `explain_any`.
Explain = Callable[[HttpResponse], Reason | None]


def explain_any(response: HttpResponse) -> Reason:
    """Return the reason that any refusal gives: the service's message if there is one, and its Retry-After."""
    try:
        words = _message(response.json())
    except (ValueError, RecursionError):
        text = response.text[:20_000]
        title = _TITLE.search(text)
        words = title[1] if title else text[:2_000]
    return Reason(plain(words), retry_after(response.headers))


def _message(node: Any) -> str:
    """Return the first text in an error object, looking where services put it; lists give their first item."""
    if isinstance(node, list):
        node = node[0] if node else ""
    if isinstance(node, dict):
        return next(filter(None, (_message(node.get(key)) for key in _MESSAGE_KEYS)), "")
    return node if isinstance(node, str) else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, None when there is none, or it is no number (HTTP allows a date too).

    `retry-after-ms`, which the Messages API sends too, is more exact and goes first.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if seconds := _SECONDS.match(headers.get(name, "").strip()):
            return float(seconds[1]) * scale
    return None


# --- the body ----------------------------------------------------------------------------------------------------------


async def read_body(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    """Return the decoded body, at most `max_bytes` of it, and whether there was more.

    Raises:
        httpx.HTTPError: the answer broke off, or is encoded in another way than was asked for.
    """
    if response.headers.get("content-encoding", "").strip().lower() not in _CODINGS:
        raise httpx.DecodingError("an unknown coding")
    body = bytearray()
    async for piece in response.aiter_bytes():
        room = max_bytes - len(body)
        body += piece[:room]
        if len(piece) > room or response.num_bytes_downloaded > max_bytes:
            return bytes(body), True
    return bytes(body), False


# --- no answer ---------------------------------------------------------------------------------------------------------


def was_sent(exc: Exception) -> bool:
    """Return whether the request may have reached the server, which may then bill it."""
    return not _NOT_SENT.match(_kind(exc))


def failure_words(exc: Exception) -> str:
    """Return why a request failed. The words are ours: a server that could choose them would speak outside of a page."""
    described = f"{_kind(exc)} {exc}"
    words = next(words for pattern, words in _WORDS if re.match(pattern, described))
    return words.format(kind=_kind(exc), connection=_connection_words(exc))


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


# Names of httpx's, httpcore's and aiohttp's (3.14) classes; each is looked for in turn, in front of the error's own text.
_NOT_MADE = "LocalProtocol|UnsupportedProtocol|Invalid|IDNA|NonHttpUrl|Unicode|ValueError"
_NOT_SENT = re.compile(f"{_NOT_MADE}|Connect(ion)?Timeout|PoolTimeout|.*(Connector|ConnectError|Proxy)")
# How a kept connection looks that the server has closed before.
_HUNG_UP = re.compile(".* Server disconnected|ClientOSError|.*ConnectionReset|ReadError|WriteError")
_WORDS = (
    (_NOT_MADE, "the request could not be put together"),
    ("Connect(ion)?Timeout|PoolTimeout", "no connection in time; check the network connection"),
    ("(Client)?(Http)?Proxy", "the proxy refused the connection"),
    (".*(Connector|ConnectError)", "{connection}; check the network connection"),
    (".* Server disconnected", "it closed the connection without an answer"),
    ("ClientPayloadError|RemoteProtocolError.*complete", "the answer broke off before its end"),
    ("RemoteProtocolError|ClientResponseError|.*Http", "the answer is not HTTP that can be read"),
    ("ReadError|WriteError|ClientOSError|.*ConnectionReset", "the connection broke off"),
    ("DecodingError|error", "the answer is not encoded as gzip or deflate, which were asked for"),
    ("", "the connection failed ({kind})"),
)


# --- the client -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Call:
    """One request, and how far it came: `head` is the answer without its body, `lost` says that it may be billed."""

    provider: str
    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    json: Any = field(repr=False)
    connect_timeout_s: float
    max_bytes: int
    head: HttpResponse | None = None
    lost: bool = False


class HttpClient:
    """Sends requests to search engines.

    `user_agent` is sent with every request (Wikipedia refuses clients without a contact in it). `secrets` returns every key
    there is, so that none is ever part of a message; it is called on errors alone. `transport` replaces the network, in
    tests and recordings. Proxies of the environment are used, but never for this machine.
    """

    def __init__(
        self,
        *,
        user_agent: str,
        secrets: Callable[[], Iterable[str]] = list,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.user_agent = user_agent
        self._secrets = secrets
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._made_under: tuple[Any, ...] = ()

    async def request(
        self,
        method: str,
        url: str,
        *,
        provider: str,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        timeout_s: float = 10.0,
        connect_timeout_s: float = 5.0,
        retries: int = 2,
        retry_wait_s: float = 1.0,
        max_bytes: int = 10_000_000,
        explain: Explain | None = None,
    ) -> HttpResponse:
        """Return the 2xx answer to one request.

        `timeout_s` bounds everything together: connecting, sending, reading, and the retries of 5xx with their pauses.
        `max_bytes` bounds the decoded body. `explain` reads an engine's own form of refusal.

        Raises:
            RateLimitedError: the engine answered 429; `retry_after` says for how long, where the engine says so.
            ProviderError: it could not be reached (`status` None), refused, redirected, or its answer cannot be used.
            ConfigError: the environment names a proxy or certificates that cannot be used.
        """
        sent = {"User-Agent": self.user_agent, "Accept": "application/json", "Accept-Encoding": "gzip", **(headers or {})}
        # Shorter than the deadline: a request that passes that one has been sent, and may be billed.
        connect_s = min(connect_timeout_s, timeout_s * 0.8)
        call = _Call(provider, method, with_query(url, params), sent, sound(json), connect_s, max_bytes)
        response: HttpResponse | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for tries in range(1, retries + 2):
                    response = await self._try(call)
                    if response.status < 500 or tries > retries:
                        break
                    await asyncio.sleep(retry_wait_s)
        if response is None:
            text = f"{provider} did not answer within {timeout_s:g} s ({_place(call.url)})"
            raise self.error(provider, text, lost=True)
        if 200 <= response.status < 300:
            return response
        raise self._refusal(call, response, explain, tries)

    async def request_json(self, method: str, url: str, *, provider: str, **options: Any) -> Any:
        """Return the JSON of the 2xx answer to one request; options and errors as for `request`.

        Raises:
            ProviderError: also when the answer is not JSON (`status` is then that of the answer).
        """
        response = await self.request(method, url, provider=provider, **options)
        try:
            return response.json()
        except ValueError:
            form = f"{response.content_type or 'no content type'}, {len(response.body)} bytes"
            text = (
                f"{provider} answered {response.status} with something that is not JSON ({form}); "
                f"check that its address {call_address(url)} is right and that no login page is in between"
            )
            raise self.error(provider, text, status=response.status, lost=True) from None

    async def aclose(self) -> None:
        """Close all connections; the client may be used again afterwards."""
        client, self._client = self._client, None
        if client is not None and self._made_under[0] is asyncio.get_running_loop():
            await client.aclose()

    def error(
        self,
        provider: str,
        text: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        lost: bool = False,
        reason: FailureReason | None = None,
    ) -> ProviderError:
        """Return a `ProviderError` (429: `RateLimitedError`) of one line without any key in it."""
        kind = RateLimitedError if status == 429 else ProviderError
        return kind(self.redact(text), provider=provider, status=status, retry_after=retry_after, lost=lost, reason=reason)

    def redact(self, text: str, sent: Mapping[str, str] | None = None) -> str:
        """Return `text` as one plain line without any key, and without user names in addresses.

        `sent` are the headers of a request, whose keys are taken out as well, whoever keeps them.
        """
        own = {value.removeprefix("Bearer ") for name, value in (sent or {}).items() if name.lower() in _SECRET_HEADERS}
        for secret in sorted({*self._secrets(), *own}, key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "***").replace(quote(secret, safe="", errors="replace"), "***")
        return plain(_USER_INFO.sub("//", text))

    # --- one try ---------------------------------------------------------------------------------------------------------

    async def _try(self, call: _Call, *, again: bool = True) -> HttpResponse:
        """Send once, or twice when the server hangs up without a word; translate every error of the HTTP libraries.

        The body of a refusal is cut at `max_bytes`.
        """
        call.head = None
        try:
            request = plain_request(call.method, call.url, call.headers, call.json, call.connect_timeout_s)
            response = await self._open().send(request, stream=True, follow_redirects=False)
            call.head = HttpResponse(response.status_code, {**response.headers}, b"", call_address(call.url))
            try:
                body, is_cut = await read_body(response, call.max_bytes)
            finally:
                await response.aclose()
        except ConfigError:
            raise
        except Exception as exc:  # the HTTP libraries raise more than their own classes
            call.lost = call.lost or was_sent(exc)
            if not (again and call.head is None and _HUNG_UP.match(f"{_kind(exc)} {exc}")):
                # Without the cause, whose text may hold the address or a header as it was sent.
                raise self._failure(call, exc) from None
            return await self._try(call, again=False)
        if is_cut and call.head.status < 300:
            text = f"{call.provider} answered {call.head.status} with more than {call.max_bytes:,} bytes"
            raise self.error(call.provider, text, status=call.head.status, lost=True)
        return replace(call.head, body=body)

    def _open(self) -> httpx.AsyncClient:
        """Return the client of this event loop and of the environment as it is now.

        aiohttp carries the requests, at a third of the processor time of httpcore's pool when 100 are under way (measured
        2026-11); those that go through a proxy of the environment stay with httpx's own transport.

        Raises:
            ConfigError: the environment names a proxy or certificates that cannot be used.
        """
        made_under = (asyncio.get_running_loop(), *map(os.environ.get, _ENVIRONMENT))
        if self._client is None or made_under != self._made_under:
            logging.getLogger("httpx").addFilter(_without_key)
            self._client, self._made_under = _engine_client(self._transport), made_under
            close_with(self, self._client.aclose)  # aiohttp prints about what nobody closes
        return self._client

    # --- what is said ----------------------------------------------------------------------------------------------------

    def _failure(self, call: _Call, exc: Exception) -> ProviderError:
        """Return the error for a request without an answer, or with one that cannot be used."""
        status = call.head.status if call.head else None
        what = (
            f"answered {status}, but with nothing that can be used" if status else f"could not be reached at {_place(call.url)}"
        )
        proxy = "" if call.lost else next(filter(os.environ.get, _PROXIES), "")
        through = f" (the proxy in {proxy} may be at fault)" if proxy else ""
        return self.error(
            call.provider, f"{call.provider} {what}: {failure_words(exc)}{through}", status=status, lost=call.lost
        )

    def _refusal(self, call: _Call, response: HttpResponse, explain: Explain | None, tries: int) -> ProviderError:
        reason = (explain(response) if explain else None) or explain_any(response)
        words = shorten(self.redact(reason.text, call.headers), 200)
        if 300 <= response.status < 400:
            to = shorten(_place(response.headers.get("location", "")), 100) or "elsewhere"
            words = f"a redirect to {to}, which is not followed; check the address {call_address(call.url)}"
        often = f" (asked {tries} times)" if tries > 1 else ""
        message = f"{call.provider} answered {response.status}{often}" + (f": {words}" if words else "")
        lost = call.lost or call.head is None or call.head.status < 300  # the last try was still under way at the deadline
        return self.error(
            call.provider,
            message,
            status=response.status,
            retry_after=reason.retry_after,
            lost=lost,
            reason=reason.kind,
        )


def user_agent() -> str:
    """Return our name, version and whom to ask (Wikipedia's etiquette, meta.wikimedia.org/wiki/User-Agent_policy, wants both);
    `IPY_WEBSEARCH_CONTACT` puts an address of your own there."""
    contact = plain(os.environ.get("IPY_WEBSEARCH_CONTACT", "")) or "a Jupyter extension; contact: the user of this notebook"
    return f"ipy_websearch/{version('ipy_websearch')} ({contact}) httpx/{version('httpx')}"


def base_url(variable: str, default: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return scheme, host and prefix of a service: the environment variable or the default, without a final slash.

    Raises:
        ConfigError: the value is not an http or https address, or carries a user name, a query or a fragment.
    """
    value = (environ.get(variable) or default).strip().rstrip("/")
    with suppress(ValueError):
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and not {*"?#"} & {*value}
        if usable and "@" not in parts.netloc and parts.port != 0:  # reading a port may raise
            return value
    shown = re.sub(r"//.*@", "//***@", value)
    raise ConfigError(f"{variable} is {shown!r}; it must be an http:// or https:// address without a user name, ? and #")


def call_address(url: str) -> str:
    """Return an address without its query and user name, fit to be shown."""
    return _USER_INFO.sub("//", url.split("?", 1)[0].split("#", 1)[0])


def with_query(url: str, params: Params | None) -> str:
    """Return an address with parameters as they are sent."""
    pairs = params.items() if isinstance(params, Mapping) else params or ()
    said = [(name, str(value).lower() if isinstance(value, bool) else value) for name, value in pairs if value is not None]
    query = urlencode(said, errors="replace")
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def _place(url: str) -> str:
    """Return host and port of an address, "" when there is none in it."""
    return url.partition("//")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]


def _without_key(record: logging.LogRecord) -> bool:
    """Take the key out of an address in httpx's log: Google has it in the query."""
    if isinstance(record.args, tuple):
        record.args = tuple(_KEY_PARAMETER.sub("***", str(arg)) if type(arg).__name__ == "URL" else arg for arg in record.args)
    return True


# --- connections, also those of pages -----------------------------------------------------------------------------------


def plain_request(
    method: str, url: str, headers: Mapping[str, str], json: Any = None, connect_s: float | None = None
) -> httpx.Request:
    """Return a request; unlike those that a client of httpx builds, it sends no cookies back."""
    timeout = {"connect": connect_s, "pool": connect_s}  # aiohttp counts the resolver's time to the pool
    return httpx.Request(method, url, headers=headers, json=json, extensions={"timeout": timeout})


def bad_proxy(name: str, value: str) -> ConfigError:
    """Return the error for a setting that holds no usable proxy, without the password in it."""
    return ConfigError(f"{name} is {value.rpartition('@')[2]!r}, which cannot be used as a proxy; write http://host:port")


def bad_environment() -> ConfigError:
    """Return the error for a proxy of the environment that cannot be used."""
    name = next(filter(os.environ.get, _PROXIES), "HTTPS_PROXY")
    return bad_proxy(name, os.environ.get(name, ""))


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


def _engine_client(transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    """Return a client for the running event loop; `transport` replaces the network and the proxies of the environment.

    Raises:
        ConfigError: the environment names a proxy or certificates that cannot be used.
    """
    if transport is not None:
        return httpx.AsyncClient(transport=transport)
    from httpx_aiohttp import AiohttpTransport

    direct = AiohttpTransport(verify=tls_context(), limits=httpx.Limits(max_connections=0, keepalive_expiry=_KEPT_S))
    session = direct.client = direct.get_client()
    # aiohttp would send each GET to a server that hangs up twice, unseen by our own law.
    session._retry_connection = False

    async def forget_cookies(_: httpx.Response) -> None:  # by which an engine would recognise the user
        session.cookie_jar.clear()

    # A mount for "all://" would stand in the way of ALL_PROXY.
    patterns = _LOOPBACK if any(map(os.environ.get, _PROXIES[4:])) else ("all://", *_LOOPBACK)
    try:
        mounts = dict.fromkeys(patterns, direct)
        return httpx.AsyncClient(mounts=mounts, verify=tls_context(), event_hooks={"response": [forget_cookies]})
    except (ValueError, ImportError, httpx.InvalidURL):
        if not any(map(os.environ.get, _PROXIES)):
            raise  # of the system's own settings
        raise bad_environment() from None


# --- what was answered before ---------------------------------------------------------------------------------------------

_TABLE = """
CREATE TABLE IF NOT EXISTS entry (
    kind TEXT NOT NULL, key TEXT NOT NULL, created REAL NOT NULL, size INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (kind, key)
)"""
# Now and then (a long run of enrichment opens the file once) the oldest values go, beyond 64 MB.
_PRUNE = """
CREATE TEMP TRIGGER prune AFTER INSERT ON entry WHEN new.rowid % 100 = 0 BEGIN
    DELETE FROM entry WHERE rowid IN (
        SELECT id FROM (SELECT rowid AS id, SUM(size) OVER (ORDER BY created DESC, rowid DESC) AS total FROM entry)
        WHERE total > 64000000
    );
END"""
# A clock that was set back leaves entries of the future, whose age says nothing.
_FIND = "SELECT created, value FROM entry WHERE kind = ? AND key = ? AND created > ? AND created < ?"

# A locked file, a full disk, a value that is no JSON (as a plug-in's results may be), and one that was damaged in the file.
_FAILURES = (sqlite3.Error, OSError, ValueError, TypeError, RecursionError)


class Cache:
    """JSON values by kind and key.

    Invariant: the cache never makes a call fail. A locked file or a full disk is a miss. `path` is the file, opened at first
    use (None: memory only); `warnings` has a line for each thing that happened to it. What is beyond 64 MB goes now and then,
    the oldest first; `clock` gives seconds since 1970.
    """

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.time) -> None:
        # Another process that writes is waited for a moment; then the search is made again instead.
        self._database = Database(
            path, application_id=0x69777363, prepare=self._prepare, purpose="cache", busy_timeout_s=0.25
        )  # fmt: skip
        self.warnings = self._database.warnings
        self._clock = clock

    def get(self, kind: str, key: str, ttl_s: float) -> tuple[Any, float] | None:
        """Return (value, age in seconds) of an entry younger than `ttl_s`, None when there is none."""
        now = self._clock()
        with suppress(*_FAILURES):
            if found := self._database.read(lambda db: db.execute(_FIND, (kind, key, now - ttl_s, now + 60)).fetchone()):
                return json.loads(found[1]), max(now - found[0], 0.0)
        return None

    def put(self, kind: str, key: str, value: Any) -> None:
        """Keep a JSON value in place of the one under that key."""
        with suppress(*_FAILURES):
            text = json.dumps(value, separators=(",", ":"))
            row = (kind, key, self._clock(), len(text) + len(key), text)
            self._database.write(lambda db: db.execute("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?)", row))

    def clear(self) -> int:
        """Remove all entries; return how many. The file is shrunk, so nothing stays in it."""
        count = 0
        with suppress(*_FAILURES):  # while another process is reading, the space is reused instead
            count = self._database.read(lambda db: db.execute("DELETE FROM entry").rowcount)
            self._database.read(lambda db: db.executescript("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"))
        return count

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute(_TABLE)
        db.execute(_PRUNE)
