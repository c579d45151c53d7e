"""Reading pages from the public web: judged, pinned, bounded in time and size, and never anything but bytes.

Invariants: one deadline runs over names, connections, headers, bodies and all redirects, and one cap holds on the wire and
decoded, while the body streams in. No packet goes to an address that was not judged: each name is resolved once, every answer
is judged, and a judged address is dialled. The URL keeps its name, so the Host header, SNI and the check of the certificate are
those of the name, and connections are kept by name.

Redirects: at most `max_redirects`, each judged like a first address. https to http is followed, as no cookie and no key
travels along: a server learns the URL, a User-Agent and what we can read. Proxies of the environment are not used.

robots.txt is for bulk reading: fetched once a host through the same door, kept for a day, asked before each request. A person
who opens one page is not a robot; only programs that read many pages are held to it. RFC 9309, section 2.3.1 (read 2026-11):
with 4xx, or too many redirects, everything may be read; while the server fails, or cannot be reached, nothing may. 429 counts
as a failing server, as it does for Google. `Crawl-delay` is not in the RFC; instead, at most `AT_ONCE` pages of a host are read
at the same time.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin
from weakref import WeakValueDictionary

import httpcore
import httpx

from ipy_websearch.errors import BlockedAddressError, ConfigError, FetchError
from ipy_websearch.http.address import ALLOW_VARIABLE, TO_OPEN, SafeUrl, check_url, host_key, ip_rule, shown
from ipy_websearch.http.client import (
    Cache,
    bad_proxy,
    failure_words,
    keep_location,
    plain_request,
    read_body,
    retry_after,
    tls_context,
    was_sent,
)

if TYPE_CHECKING:
    from protego import Protego

Admission = Callable[[SafeUrl], Awaitable[None]]

USER_AGENT = f"ipy_websearch (a reader for notebooks) httpx/{httpx.__version__}"
_ACCEPT = "text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.9,application/json;q=0.8,*/*;q=0.5"
_REDIRECTS = (301, 302, 303, 307, 308)
# Nothing in these can be read as text, or they never end, so the body is not even begun.
_UNREADABLE = re.compile(r"(?:audio|video|font|image(?!/svg)|multipart)/|text/event-stream")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,40}/[a-z0-9!#$&^_.+-]{1,80}")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Download:
    """An answer with status 2xx, of `final_url`; `body` is decoded, at most `max_bytes`.

    `content_type` is the bare media type in lower case and `charset` the one given beside it; "" when not said.
    """

    final_url: str
    status: int
    content_type: str
    charset: str
    body: bytes = field(repr=False)


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
    proxy: str | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Download:
    """Return what the address answers, redirects followed, within `timeout_s` seconds and `max_bytes` decoded bytes.

    `cut` gives the beginning of an answer that is larger than that, instead of an error. `admit` is awaited before each
    request, redirects included, and refuses by raising; its time counts. `proxy` is the address of a proxy, which then
    resolves the names. `transport` replaces the network, in tests and recordings.

    Raises:
        BlockedAddressError: the address, or one that it redirects to, is not the public web.
        FetchError: no answer, an error status, too late, too large, or nothing that could be read.
        ConfigError: the proxy or the certificates that are set cannot be used.
    """
    target = check_url(url, allow=allow)
    headers = {"User-Agent": user_agent, "Accept": _ACCEPT, "Accept-Encoding": "gzip, deflate"}
    transport = transport or guarded_transport(allow, proxy)
    options: Any = {"transport": transport, "trust_env": False, "event_hooks": {"response": [keep_location]}}
    location = ""
    try:
        async with asyncio.timeout(timeout_s), httpx.AsyncClient(**options) as client:
            for _ in range(max_redirects + 1):
                target = check_url(location, allow=allow) if location else target
                if admit is not None:
                    await admit(target)
                answer = await _hop(client, target, headers, max_bytes, cut)
                if isinstance(answer, Download):
                    return answer
                location = answer
    except BlockedAddressError as exc:
        if not location:
            raise
        reason = str(exc).partition(TO_OPEN)[0]  # no advice to open what that page chose
        refusal = f"the page redirects to an address that may not be fetched: {shown(url)} ({reason})"
        raise BlockedAddressError(refusal) from None
    except FetchError as exc:
        if not proxy or not isinstance(exc.__cause__, Exception) or was_sent(exc.__cause__):
            raise
        raise FetchError(f"{exc} (asked through the proxy {proxy.rpartition('@')[2]})") from exc.__cause__
    except TimeoutError as exc:
        raise FetchError(f"Connection timeout: no complete answer within {timeout_s:g} s from {shown(url)}") from exc
    raise FetchError(f"more than {max_redirects} redirects from {shown(url)}", status=HTTPStatus.FOUND)


def page_proxy(address: str, through_environment: bool) -> str | None:
    """Return the proxy for pages: `address`, else HTTPS_PROXY when `through_environment`, else None.

    Raises:
        ConfigError: HTTPS_PROXY is to be used, and is not set.
    """
    if address or not through_environment:
        return address or None
    found = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    if not found:
        raise ConfigError("fetch_through_proxy is on, but HTTPS_PROXY is not set; set it, or WebSearch.fetch_proxy")
    return found


async def _hop(
    client: httpx.AsyncClient, target: SafeUrl, headers: Mapping[str, str], max_bytes: int, cut: bool
) -> Download | str:
    """Return the download, or the address of a redirect that is still to be judged."""
    try:
        response = await client.send(plain_request("GET", target.url, headers, None, None), stream=True, follow_redirects=False)
        try:
            if not 200 <= response.status_code < 300:
                return _location(target, response)
            content_type, charset = _media_type(response.headers.get("content-type", ""))
            if _UNREADABLE.match(content_type):
                raise FetchError(f"the page is {content_type}, which has no text to read: {shown(target.url)}")
            too_large = f"the page is larger than {max_bytes / 1e6:g} MB: {shown(target.url)}"
            announced = response.headers.get("content-length", "")
            if announced.isdigit() and int(announced[:18]) > max_bytes and not cut:
                raise FetchError(too_large)
            body, is_cut = await read_body(response, max_bytes)
            if is_cut and not cut:
                raise FetchError(too_large)
        finally:
            await response.aclose()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as exc:
        raise FetchError(f"the page could not be read: {failure_words(exc)}: {shown(target.url)}") from exc
    return Download(target.url, response.status_code, content_type, charset, body)


def _location(target: SafeUrl, response: httpx.Response) -> str:
    """Return where a redirect leads to; any other status is an error, told in the standard's words, not in the server's."""
    status = f"{response.status_code} {httpx.codes.get_reason_phrase(response.status_code)}".strip()
    if response.status_code not in _REDIRECTS:
        seconds = retry_after(response.headers)
        status += f" (retry after {seconds:.0f} s)" if seconds is not None else ""
        raise FetchError(f"the page answered {status}: {shown(target.url)}", status=response.status_code)
    location = str(response.extensions["location"]).strip()
    if not location:
        text = f"the page answered {status} without saying where to: {shown(target.url)}"
        raise FetchError(text, status=response.status_code)
    # urljoin would drop some control characters, and another address would be judged.
    return location if re.search(r"[\x00-\x1f\x7f]", location) else urljoin(target.url, location)


def _media_type(header: str) -> tuple[str, str]:
    kind = header.partition(";")[0].strip().lower()
    charset = _CHARSET.search(header)
    return kind if _MEDIA_TYPE.fullmatch(kind) else "", charset[1].lower() if charset else ""


# --- connections ------------------------------------------------------------------------------------------------------

# Seconds for one address of a host that has several; the last one may take as long as the caller waits.
ADDRESS_S = 3.0


class GuardedBackend(httpcore.AnyIOBackend):
    """Opens TCP connections to public addresses, and to those private ones that `allow` names."""

    def __init__(self, allow: frozenset[str]) -> None:
        self._allow = allow

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
                return await super().connect_tcp(address, port, limit, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await super().connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

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
            raise bad_proxy("the proxy for pages (WebSearch.fetch_proxy or HTTPS_PROXY)", proxy) from None
    transport = httpx.AsyncHTTPTransport(verify=context, trust_env=False)
    # httpx has no parameter for the network backend (0.28); httpcore's pool has.
    transport._pool = httpcore.AsyncConnectionPool(ssl_context=context, network_backend=GuardedBackend(allow))
    return transport


# --- robots.txt -------------------------------------------------------------------------------------------------------

# Seconds that a file is kept; RFC 9309, section 2.4, allows no more.
KEPT_S = 86_400.0
# Seconds after which a server that failed is asked again.
FAILURE_KEPT_S = 600.0
# Bytes of a file that are read. Protego turns rules into regular expressions, and a stranger writes them.
MAX_BYTES = 64_000
AT_ONCE = 2

_TIMEOUT_S = 15.0
_KIND = "robots-3"


class RobotsFiles:
    """The files of the hosts that one reader has met. `user_agent` introduces us; its first word is our name in the files."""

    def __init__(
        self, *, user_agent: str, cache: Cache | None = None, download: Callable[..., Awaitable[Download]] | None = None
    ) -> None:
        self._user_agent = user_agent
        self._token = user_agent.partition("/")[0].partition(" ")[0]
        self._cache = cache or Cache(None)
        self._download = download
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def admit(self, target: SafeUrl, allow: frozenset[str] = frozenset()) -> None:
        """Return when the host's robots.txt lets us read the address; `allow` opens private addresses, as for a page.

        Raises:
            FetchError: it does not, or it could not be had.
            BlockedAddressError: the host is not the public web.
        """
        origin = urljoin(target.url, "/").removesuffix("/")
        async with self._locks.setdefault(origin, asyncio.Lock()):  # one request for the file, however many pages wait
            text, failure = await self._file(origin, allow)
        if failure:
            raise FetchError(f"{shown(target.url)} is not read in bulk, since its robots.txt could not be: {failure}")
        if not _rules(text).can_fetch(target.url, self._token):
            raise FetchError(f"{shown(target.url)} is not read in bulk: {origin}/robots.txt forbids it")

    def turn(self, host: str) -> asyncio.Semaphore:
        """Return what to hold while a page of the host is read: at most `AT_ONCE` readers have it."""
        return self._turns.setdefault(host, asyncio.Semaphore(AT_ONCE))

    async def _file(self, origin: str, allow: frozenset[str]) -> tuple[str, str]:
        """Return the text of a host's file, and why nothing of the host may be read ("" when the file could be had)."""
        (text, failure), age_s = self._cache.get(_KIND, origin, KEPT_S) or (("", ""), KEPT_S)
        if age_s >= (FAILURE_KEPT_S if failure else KEPT_S):
            text, failure = await self._fetch(origin, allow)
            self._cache.put(_KIND, origin, (text, failure))
        return text, failure

    async def _fetch(self, origin: str, allow: frozenset[str]) -> tuple[str, str]:
        options: dict[str, Any] = {"allow": allow, "user_agent": self._user_agent, "timeout_s": _TIMEOUT_S}
        try:
            got = await (self._download or download)(f"{origin}/robots.txt", max_bytes=MAX_BYTES, cut=True, **options)
        except BlockedAddressError:
            raise
        except FetchError as exc:
            is_missing = exc.status is not None and exc.status < 500 and exc.status != 429
            return "", "" if is_missing else str(exc)
        body = got.body if len(got.body) < MAX_BYTES else got.body[: got.body.rfind(b"\n") + 1]
        return body.decode("utf-8-sig", "replace"), ""


@lru_cache(256)
def _rules(text: str) -> Protego:
    from protego import Protego

    return Protego.parse(text)
