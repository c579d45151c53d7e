"""One guarded, bounded GET: the only way a page from the web comes in.

Invariant: every hop is judged before it is tried (`address`), dialled through the guard (`guard`), and everything runs
under one deadline: names, connections, headers and bodies of all hops together. Bytes are capped twice, on the wire and
decoded, while they stream in; header lines and their number are capped too. What comes back is bytes: reading them is
`extract`'s business.

Redirects: at most `max_redirects`, each judged like a first address; https to http is followed, since no cookie and no
key travels along. Nothing but the URL, a User-Agent and what we can read is told to the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urljoin

import aiohttp
import yarl

from ipy_websearch.errors import BlockedAddressError, FetchError
from ipy_websearch.http.address import ALLOW_VARIABLE, TO_OPEN, SafeUrl, allow_list, check_url, shown
from ipy_websearch.http.guard import Gate, guarded_session
from ipy_websearch.http.inflate import DecodeError, TooMuch, decoder_for
from ipy_websearch.http.response import library_words, retry_after
from ipy_websearch.text import plain, shorten

Admission = Callable[[SafeUrl], Awaitable[None]]

USER_AGENT = "ipy_websearch (a reader for notebooks)"
_ACCEPT = "text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.9,application/json;q=0.8,*/*;q=0.5"
_REDIRECTS = (301, 302, 303, 307, 308)
# Nothing in these can be read as text, or they never end, so the body is not even begun.
_UNREADABLE = re.compile(r"(?:audio|video|font|image(?!/svg)|multipart)/|text/event-stream")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,40}/[a-z0-9!#$&^_.+-]{1,80}")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Download:
    """An answer with status 2xx. `url` was asked, `final_url` answered; `body` is decoded, at most `max_bytes`.

    `content_type` is the bare media type in lower case and `charset` what was said beside it; "" when not said.
    `headers` has lower-case names and printable values.
    """

    url: str
    final_url: str
    status: int
    content_type: str
    charset: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def allow_from_environment() -> frozenset[str]:
    """Return the private addresses that IPY_WEBSEARCH_FETCH_ALLOW="host:port,…" opens, in canonical form.

    Raises:
        ConfigError: an entry is not host:port.
    """
    return allow_list(os.environ.get(ALLOW_VARIABLE, ""))


async def download(
    url: str,
    *,
    allow: frozenset[str] = frozenset(),
    user_agent: str = USER_AGENT,
    timeout_s: float = 30.0,
    max_bytes: int = 5_000_000,
    max_redirects: int = 5,
    cut: bool = False,
    admit: Admission | None = None,
) -> Download:
    """Return what the address answers, redirects followed, within `timeout_s` seconds and `max_bytes` decoded bytes.

    `cut` gives the beginning of an answer that is larger than that, instead of an error. `admit` is awaited before each
    request, redirects included, and refuses by raising; its time counts.

    Raises:
        BlockedAddressError: the address, or one that it redirects to, is not the public web.
        FetchError: no answer, an error status, too late, too large, or nothing that could be read.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _Getter(allow, user_agent, max_bytes, cut, admit).follow(url, max_redirects)
    except TimeoutError as exc:
        raise FetchError(f"Connection timeout: no complete answer within {timeout_s:g} s from {shown(url)}") from exc


@dataclass(frozen=True, slots=True)
class _Getter:
    allow: frozenset[str]
    user_agent: str
    max_bytes: int
    cut: bool
    admit: Admission | None

    async def follow(self, url: str, max_redirects: int) -> Download:
        target = check_url(url, allow=self.allow)
        gate = Gate(self.allow)
        headers = {"User-Agent": self.user_agent, "Accept": _ACCEPT, "Accept-Encoding": "gzip, deflate"}
        async with guarded_session(gate, headers) as session:
            location = ""
            for _ in range(max_redirects + 1):
                with _said_of_redirect(url, location):
                    target = check_url(location, allow=self.allow) if location else target
                    gate.admit_literal(target)
                    if self.admit is not None:
                        await self.admit(target)
                    answer = await self._hop(session, url, target)
                if isinstance(answer, Download):
                    return answer
                location = answer
        raise FetchError(f"more than {max_redirects} redirects from {shown(url)}", status=HTTPStatus.FOUND)

    async def _hop(self, session: aiohttp.ClientSession, asked: str, target: SafeUrl) -> Download | str:
        """Return the download, or the address of a redirect that is still to be judged."""
        try:
            async with session.get(yarl.URL(target.url, encoded=True), allow_redirects=False) as response:
                if response.status in _REDIRECTS:
                    return _location(target, response)
                _judge_status(target, response)
                content_type, charset = _media_type(response.headers.get("Content-Type", ""))
                if _UNREADABLE.match(content_type):
                    raise FetchError(f"the page is {content_type}, which has no text to read: {shown(target.url)}")
                body = await self._body(target, response)
                headers = {name.lower(): shorten(plain(value), 2_000) for name, value in response.headers.items()}
                return Download(asked, target.url, response.status, content_type, charset, body, headers)
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            if isinstance(exc, TimeoutError):
                raise
            raise FetchError(f"{_reason(exc, target)}: {shown(target.url)}") from exc

    async def _body(self, target: SafeUrl, response: aiohttp.ClientResponse) -> bytes:
        too_large = FetchError(f"the page is larger than {self.max_bytes / 1e6:g} MB: {shown(target.url)}")
        decoder = decoder_for(", ".join(response.headers.getall("Content-Encoding", [])))
        if (response.content_length or 0) > self.max_bytes and not self.cut:
            raise too_large
        body, on_wire = bytearray(), 0
        async for chunk in response.content.iter_any():
            on_wire += len(chunk)
            try:
                body += decoder.feed(chunk, self.max_bytes - len(body))
            except TooMuch as more:
                if not self.cut:
                    raise too_large from None
                return bytes(body) + more.content
            if on_wire > self.max_bytes:
                if not self.cut:
                    raise too_large
                return bytes(body)
        decoder.finish()
        return bytes(body)


@contextlib.contextmanager
def _said_of_redirect(url: str, location: str) -> Iterator[None]:
    """Name the page that redirects to what is refused, and give no advice to open what that page chose."""
    try:
        yield
    except BlockedAddressError as exc:
        if not location:
            raise
        reason = str(exc).partition(TO_OPEN)[0]
        raise BlockedAddressError(
            f"the page redirects to an address that may not be fetched: {shown(url)} ({reason})"
        ) from None


def _location(target: SafeUrl, response: aiohttp.ClientResponse) -> str:
    location = response.headers.get("Location", "").strip()
    if not location:
        raise FetchError(
            f"the page answered {_status(response.status)} without saying where to: {shown(target.url)}", status=response.status
        )
    if re.search(r"[\x00-\x1f\x7f]", location):  # urljoin would drop some of these, and judge another address
        return location
    return urljoin(target.url, location)


def _judge_status(target: SafeUrl, response: aiohttp.ClientResponse) -> None:
    if 200 <= response.status < 300:
        return
    seconds = retry_after({"retry-after": response.headers.get("Retry-After", "")})
    wait = f" (retry after {seconds:.0f} s)" if seconds is not None else ""
    raise FetchError(f"the page answered {_status(response.status)}{wait}: {shown(target.url)}", status=response.status)


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _media_type(header: str) -> tuple[str, str]:
    kind = header.partition(";")[0].strip().lower()
    charset = _CHARSET.search(header)
    return kind if _MEDIA_TYPE.fullmatch(kind) else "", charset[1].lower() if charset else ""


def _reason(exc: BaseException, target: SafeUrl) -> str:
    """Return what went wrong in our words: a server that could choose them would speak to the model outside of a page."""
    match exc:
        case DecodeError():
            return str(exc)
        case aiohttp.ClientConnectorDNSError():
            return f"the host name {target.host!r} could not be resolved"
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(exc.certificate_error, "verify_message", "") or "verification failed"
            return f"the certificate of {target.host!r} is not trusted ({why})"
        case aiohttp.ClientSSLError():
            return f"no secure connection to {target.host!r} ({getattr(exc.os_error, 'reason', None) or 'handshake failed'})"
        case aiohttp.ClientConnectorError():
            return f"no connection to {target.key} ({exc.os_error.strerror or 'it failed'})"
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection without an answer"
        case aiohttp.ClientPayloadError():
            return "the answer broke off before its end"
        case aiohttp.ClientResponseError():
            # the library's text goes on with the bytes that it could not read
            return f"the answer is not HTTP that can be read ({library_words(exc.message)})"
    return f"the connection failed ({type(exc).__name__})"
