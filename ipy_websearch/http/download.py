"""Reading pages from the public web: judged, pinned, bounded in time and size, and never anything but bytes.

Invariants: one deadline runs over names, connections, headers, bodies and all redirects, and one cap holds on the wire and
decoded, while the body streams in. No packet goes to an address that was not judged: each name is resolved once, every answer
is judged, and a judged address is dialled. The URL keeps its name, so the Host header, SNI and the check of the certificate are
those of the name, and connections are kept by name.

An address is judged without the network first: `check_url` takes it apart once and puts it together again from canonical parts,
so no later parser can read another host out of it. The host is read as browsers read it (WHATWG URL, read 2026-11): percent
escapes, IDNA, then decimal, octal, hexadecimal and short forms of IPv4. Where browsers repair (tabs, line feeds, backslashes in
the host, missing slashes), the address is refused. A name is judged again by the addresses that it resolves to.

IPv4 is open except for the networks listed here; IPv6 is closed except for 2000::/3 without the networks listed here.
`ipaddress.is_global` is not used: it differs between Python's patch releases and calls some translated loopback addresses
global. Sources: IANA's "IPv4/IPv6 Special-Purpose Address Registry" (RFC 6890 and updates), the clouds' documentation of
their metadata services (both read 2026-11), and `tests/data/addresses.tsv`.

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
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote_to_bytes, urljoin
from weakref import WeakValueDictionary

import httpcore
import httpx
import idna

from ipy_websearch.errors import BlockedAddressError, ConfigError, FetchError, WebSearchError
from ipy_websearch.http.client import Cache, bad_proxy, failure_words, plain_request, read_body, tls_context, was_sent
from ipy_websearch.text import shorten, visible

if TYPE_CHECKING:
    from protego import Protego

# --- addresses --------------------------------------------------------------------------------------------------------

ALLOW_VARIABLE = "IPY_WEBSEARCH_FETCH_ALLOW"
# Where the advice in a refusal begins. It is left out for an address that a page chose.
TO_OPEN = "; to open it, set"
# Characters that an address may have; common servers take no more.
MAX_URL = 8_192
# Ports that serve pages. Any other (SSH, mail, databases, caches) has to be opened with the allow list.
WEB_PORTS = frozenset({80, 443, 8000, 8008, 8080, 8443})

IPAddress = IPv4Address | IPv6Address

_DEFAULT_PORT = {"http": 80, "https": 443}
_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\\]*)(?::([0-9]{0,5}))?")
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_USER_INFO = re.compile(r"^([^/?#]*//)?[^/?#]*@")
# What the WHATWG path and query sets leave as it is. "%" is among it, as escapes are the writer's.
_PATH_SAFE = "!$%&'()*+,-./:;=@_~[]|"
_QUERY_SAFE = "!$%&()*+,-./:;=@_~[]|?`{}^"
_MALFORMED = (
    (rf"(?s).{{{MAX_URL + 1}}}", f"it has more than {MAX_URL:,} characters"),
    (r"[\x00-\x1f\x7f]", "it has a control character, tab or line feed in it"),
    (r"^(?!https?://)", "it is not an http:// or https:// address; write https://example.com/page"),
    (r"^https?://[^/?#]{1001}", "its host is too long"),
    (r"^https?://[^/?#]*@", "it has a user name or password in it"),  # which serves to hide the host
)

# Special-use and private-use zones: RFC 6761, 6762, 7686 and 8375, ICANN on .internal, .corp and .home, and habit.
_LOCAL_ZONES = tuple(
    f".{zone}" for zone in "localhost localdomain local internal intranet private corp home lan home.arpa onion".split()
)
_METADATA_NAMES = frozenset(
    ("metadata", "instance-data", "instance-data.ec2.internal", "metadata.google.internal", "metadata.goog")
    + ("metadata.tencentyun.com", "metadata.packet.net", "metadata.platformequinix.com")
)
# Services that hand out a machine's credentials: not even the allow list opens these.
_METADATA = """
169.254.0.0/16      link-local, cloud metadata
168.63.129.16/32    Azure's host service
100.100.100.200/32  Alibaba Cloud's metadata service
192.0.0.192/32      Oracle Cloud's metadata service
fe80::/10           link-local
fd00:ec2::/32       AWS's metadata service
fd20:ce::/32        Google Cloud's metadata service
fd00:c1::/32        Oracle Cloud's metadata service
"""
_NOT_PUBLIC = """
0.0.0.0/8         this host
10.0.0.0/8        private network
100.64.0.0/10     carrier-grade NAT
127.0.0.0/8       loopback
172.16.0.0/12     private network
192.0.0.0/24      protocol assignments
192.0.2.0/24      documentation
192.88.99.0/24    6to4 relay
192.168.0.0/16    private network
198.18.0.0/15     benchmarking
198.51.100.0/24   documentation
203.0.113.0/24    documentation
224.0.0.0/4       multicast
240.0.0.0/4       reserved, broadcast
::1/128           loopback
::/64             IPv4 address in IPv6
fc00::/7          private network
ff00::/8          multicast
2001::/32         Teredo tunnel
2001::/23         protocol assignments
2001:db8::/32     documentation
2002::/16         6to4 tunnel
3fff::/20         documentation
::/3              outside of 2000::/3
4000::/2          outside of 2000::/3
8000::/1          outside of 2000::/3
"""
_TABLE = [
    (ip_network(row.split()[0]), row.split(None, 1)[1], rows is _METADATA)
    for rows in (_METADATA, _NOT_PUBLIC)
    for row in rows.strip().splitlines()
]
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")


@dataclass(frozen=True, slots=True)
class SafeUrl:
    """An address whose text was judged. `url` is canonical and has no fragment; `host` is a name or an IP address, without
    brackets."""

    url: str
    host: str
    port: int

    @property
    def key(self) -> str:
        """Host and port as the allow list writes them ("127.0.0.1:8080", "[::1]:8080")."""
        return host_key(self.host, self.port)


def check_url(url: str, *, allow: frozenset[str] = frozenset()) -> SafeUrl:
    """Return the canonical form of an address that may be requested; `allow` is the value of
    `allow_from_environment`.

    Raises:
        BlockedAddressError: the address is malformed or not the public web; the message names the rule.
    """
    target = parse_url(url)
    if (rule := _rule(target, opened=target.key in allow)) is not None:
        how = f'{TO_OPEN} {ALLOW_VARIABLE}="{target.key}"' if _rule(target, opened=True) is None else ""
        raise BlockedAddressError(f"{shown(url)} was refused: {rule}{how}")
    return target


def parse_url(url: str) -> SafeUrl:
    """Return an http or https address taken apart, in canonical form. Whether it may be fetched is not judged.

    Raises:
        BlockedAddressError: the address is malformed, or has another scheme.
    """
    try:
        return _parse(url.strip(" \t\r\n"))
    except ValueError as exc:
        raise BlockedAddressError(f"{shown(url)} was refused: {exc}") from None


def ip_rule(address: str | IPAddress, *, opened: bool = False) -> str | None:
    """Return the rule that forbids packets to an IP address, None when they are allowed.

    An `opened` address may be private, but never a metadata service.
    """
    ip = ip_address(address)
    # The IPv4 address that packets may end at: mapped, compatible, translated, NAT64, ISATAP. 6to4 and Teredo addresses are
    # refused whatever is inside them.
    leads_on = ip.version == 6 and (ip.packed[:8] == bytes(8) or ip in _NAT64 or ip.packed[8:12] in _ISATAP)
    inner = IPv4Address(ip.packed[12:]) if leads_on else None
    for judged in (inner,) if ip in _NAT64 else (ip, inner):
        for network, name, always in _TABLE:
            if judged is not None and judged in network and (always or not opened):
                return f"{ip} is not public ({name}, {network})"
    return None


def host_key(host: str, port: int) -> str:
    """Return host and port as the allow list has them ("127.0.0.1:8080", "[::1]:8080")."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def shown(url: str) -> str:
    """Return an address as messages show it: printable, at most 200 characters, without user name and password.

    White space is escaped, so that an address made up by a server is no sentence in a message of ours.
    """
    text = re.sub(r"\s", "%20", visible(url.strip()))
    return shorten(_USER_INFO.sub(r"\1…@", text[: MAX_URL * 2]), 200) or "an empty address"


def allow_from_environment() -> frozenset[str]:
    """Return the private addresses that IPY_WEBSEARCH_FETCH_ALLOW="host:port,…" opens, in canonical form: each opens exactly
    that host, so written, on that port.

    Raises:
        ConfigError: an entry has no port or is no host.
    """
    said = os.environ.get(ALLOW_VARIABLE, "")
    entries = filter(None, re.split(r"[,\s]+", said))
    try:
        return frozenset(_parse(f"http://{e}/" if re.fullmatch(r"[^/?#]*:[0-9]+", e) else "").key for e in entries)
    except ValueError:
        raise ConfigError(f'{ALLOW_VARIABLE} is {said!r}; write "host:port,…", such as "127.0.0.1:8000"') from None


# --- the text ----------------------------------------------------------------------------------------------------------


def _parse(text: str) -> SafeUrl:
    """Take an address apart and put it together again; ValueError says in words why it cannot be."""
    for pattern, rule in _MALFORMED:
        if re.search(pattern, text, re.IGNORECASE):
            raise ValueError(rule)
    parts = _URL.match(text)
    assert parts is not None
    scheme, place = parts[1].lower(), _AUTHORITY.fullmatch(parts[2])
    if place is None:
        raise ValueError(f"{shorten(visible(parts[2]), 80)!r} is not a host and port")
    host, port = _host(place[1]), int(place[2] or _DEFAULT_PORT[scheme])
    if not 0 < port < 65_536:
        raise ValueError(f"{port} is not a port")
    where = host_key(host, port).removesuffix(f":{_DEFAULT_PORT[scheme]}")
    return SafeUrl(f"{scheme}://{where}{_encoded(parts[3])}", host, port)


def _encoded(rest: str) -> str:
    # Bytes of a Location header that are no UTF-8 arrive as surrogates, and go back as the bytes that they were.
    path, mark, query = rest.encode("utf-8", "surrogateescape").partition(b"?")
    return (quote(path, safe=_PATH_SAFE) or "/") + mark.decode() + quote(query, safe=_QUERY_SAFE)


def _host(text: str) -> str:
    """Return the canonical host: an IP address in any notation as that address, or a name in lower-case ASCII, so that
    look-alikes show what they are."""
    with suppress(ValueError, OSError):  # UnicodeError and IDNAError are kinds of the first
        if text.startswith("[") and "%" not in text:
            return str(IPv6Address(text[1:-1]))
        name = unquote_to_bytes(text).decode("utf-8").lower()
        name = (name if name.isascii() else idna.encode(name, uts46=True).decode()).removesuffix(".")
        labels = name.split(".")
        if _NUMBER.fullmatch(labels[-1]):  # then it is an IPv4 address or nothing (WHATWG, "ends in a number checker")
            return socket.inet_ntoa(socket.inet_aton(name if all(map(_NUMBER.fullmatch, labels)) else ""))
        if len(name) <= 253 and all(map(_LABEL.fullmatch, labels)):
            return name
    raise ValueError(f"{shorten(visible(text), 80)!r} is not a host")


def _rule(target: SafeUrl, *, opened: bool) -> str | None:
    """Return the rule that an address breaks; one that the allow list opened may be of this machine, on any port."""
    if target.host in _METADATA_NAMES:
        return f"{target.host!r} is a cloud's metadata service"
    try:
        rule = ip_rule(target.host, opened=opened)
        if ip_address(target.host) in _NAT64 and not opened:
            # A resolver answers so on an IPv6-only network; nobody writes it for an honest reason.
            return f"{target.host} is a translated IPv4 address; write that one instead"
    except ValueError:  # a name, whose addresses are judged when it is resolved
        is_local = "." not in target.host or f".{target.host}".endswith(_LOCAL_ZONES)
        rule = f"{target.host!r} is a name of this machine or of a private network" if is_local and not opened else None
    if rule is None and not opened and target.port not in WEB_PORTS:
        return f"port {target.port} is not one of the web's ({', '.join(map(str, sorted(WEB_PORTS)))})"
    return rule


# --- a download -------------------------------------------------------------------------------------------------------

Admission = Callable[[SafeUrl], Awaitable[None]]

_ACCEPT = "text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.9,application/json;q=0.8,*/*;q=0.5"
# Nothing in these can be read as text, or they never end, so the body is not even begun.
_UNREADABLE = re.compile(r"(?:audio|video|font|image(?!/svg)|multipart)/|text/event-stream")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,40}/[a-z0-9!#$&^_.+-]{1,80}")


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
    user_agent: str = "ipy_websearch",
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
    location = ""
    try:
        # Without a client of httpx, which would keep cookies, and fail on a redirect to what is no web address.
        async with asyncio.timeout(timeout_s), transport:
            for _ in range(max_redirects + 1):
                target = check_url(location, allow=allow) if location else target
                if admit is not None:
                    await admit(target)
                answer = await _hop(transport, target, headers, max_bytes, cut)
                if isinstance(answer, Download):
                    return answer
                location = answer
    except BlockedAddressError as exc:
        if not location:
            raise
        reason = str(exc).partition(TO_OPEN)[0]  # no advice to open what that page chose
        refusal = f"the page redirects to an address that may not be fetched: {shown(url)} ({reason})"
        raise BlockedAddressError(refusal) from None
    except WebSearchError:
        raise
    except TimeoutError as exc:
        raise FetchError(f"Connection timeout: no complete answer within {timeout_s:g} s from {shown(url)}") from exc
    except Exception as exc:  # the HTTP libraries raise more than their own classes
        through = f" (asked through the proxy {proxy.rpartition('@')[2]})" if proxy and not was_sent(exc) else ""
        raise FetchError(f"the page could not be read: {failure_words(exc)}: {shown(target.url)}{through}") from exc
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
    transport: httpx.AsyncBaseTransport, target: SafeUrl, headers: Mapping[str, str], max_bytes: int, cut: bool
) -> Download | str:
    """Return the download, or the address of a redirect that is still to be judged.

    Any other status is an error, told in the standard's words, not in the server's.
    """
    response = await transport.handle_async_request(plain_request("GET", target.url, headers))
    try:
        if response.has_redirect_location:
            location = response.headers["location"].strip()
            # urljoin would drop some control characters, and another address would be judged.
            return location if re.search(r"[\x00-\x1f\x7f]", location) else urljoin(target.url, location)
        if not response.is_success:
            status = f"{response.status_code} {httpx.codes.get_reason_phrase(response.status_code)}".strip()
            raise FetchError(f"the page answered {status}: {shown(target.url)}", status=response.status_code)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        content_type = kind if _MEDIA_TYPE.fullmatch(kind) else ""
        if _UNREADABLE.match(content_type):
            raise FetchError(f"the page is {content_type}, which has no text to read: {shown(target.url)}")
        body, is_cut = await read_body(response, max_bytes)
        if is_cut and not cut:
            raise FetchError(f"the page is larger than {max_bytes / 1e6:g} MB: {shown(target.url)}")
    finally:
        await response.aclose()
    return Download(target.url, response.status_code, content_type, response.charset_encoding or "", body)


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
        key = host_key(host, port)
        for address in addresses:
            if (rule := ip_rule(address, opened=key in self._allow)) is not None:
                where = "" if address == host else f"{host!r} leads to an address that is not the public web: "
                how = f'{TO_OPEN} {ALLOW_VARIABLE}="{key}"' if ip_rule(address, opened=True) is None else ""
                raise BlockedAddressError(f"{where}{rule}{how}")
        for address in addresses[:-1]:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await super().connect_tcp(
                    address, port, min(ADDRESS_S, timeout or ADDRESS_S), local_address, socket_options
                )
        return await super().connect_tcp(addresses[-1], port, timeout, local_address, socket_options)


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

_KIND = "robots-3"
_TOKEN = "ipy_websearch"  # our name in the files, with which `user_agent` begins


class RobotsFiles:
    """The files of the hosts that one reader has met. `user_agent` introduces us."""

    def __init__(self, *, user_agent: str, cache: Cache, download: Callable[..., Awaitable[Download]]) -> None:
        self._user_agent = user_agent
        self._cache = cache
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
            (text, failure), age_s = self._cache.get(_KIND, origin, KEPT_S) or (("", ""), KEPT_S)
            if age_s >= (FAILURE_KEPT_S if failure else KEPT_S):
                text, failure = await self._fetch(origin, allow)
                self._cache.put(_KIND, origin, (text, failure))
        if failure:
            raise FetchError(f"{shown(target.url)} is not read in bulk, since its robots.txt could not be: {failure}")
        if not _robots_rules(text).can_fetch(target.url, _TOKEN):
            raise FetchError(f"{shown(target.url)} is not read in bulk: {origin}/robots.txt forbids it")

    def turn(self, host: str) -> asyncio.Semaphore:
        """Return what to hold while a page of the host is read: at most `AT_ONCE` readers have it."""
        return self._turns.setdefault(host, asyncio.Semaphore(AT_ONCE))

    async def _fetch(self, origin: str, allow: frozenset[str]) -> tuple[str, str]:
        """Return the text of a host's file, and why nothing of the host may be read ("" when the file could be had)."""
        try:
            got = await self._download(
                f"{origin}/robots.txt", allow=allow, user_agent=self._user_agent, timeout_s=15.0, max_bytes=MAX_BYTES, cut=True
            )
        except BlockedAddressError:
            raise
        except FetchError as exc:
            is_missing = exc.status is not None and exc.status < 500 and exc.status != 429
            return "", "" if is_missing else str(exc)
        body = got.body if len(got.body) < MAX_BYTES else got.body[: got.body.rfind(b"\n") + 1]
        return body.decode("utf-8-sig", "replace"), ""


@lru_cache(256)
def _robots_rules(text: str) -> Protego:
    from protego import Protego

    return Protego.parse(text)
