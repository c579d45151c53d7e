"""Judging an address before anything is sent: first its text, then the IP address in it or behind it. Pure, no network.

Invariant: `check_url` takes an address apart once and puts it together again from canonical parts, so no later parser can
read another host out of it. The host is read as browsers read it (WHATWG URL, read 2026-11): percent escapes, IDNA, then
decimal, octal, hexadecimal and short forms of IPv4. Where browsers repair (tabs, line feeds, backslashes in the host,
missing slashes), the address is refused. A name is judged again by the addresses it resolves to, in `guard`.

IPv4 is open except for the ranges listed here; IPv6 is closed except for global unicast without the ranges listed here.
`ipaddress.is_global` is not used: it differs between Python's patch releases and calls some translated loopback addresses
global. Sources: IANA's "IPv4/IPv6 Special-Purpose Address Registry" (RFC 6890 and updates), the clouds' documentation of
their metadata services (both read 2026-11), and `tests/data/addresses.tsv`.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import quote, unquote_to_bytes

from ipy_websearch.errors import BlockedAddressError, ConfigError
from ipy_websearch.text import shorten, visible

ALLOW_VARIABLE = "IPY_WEBSEARCH_FETCH_ALLOW"
TO_OPEN = "; to open it, set"
"""Where the advice in a refusal begins. It is left out for an address that a page chose."""
MAX_URL = 8_192
"""Characters that an address may have; common servers take no more."""
WEB_PORTS = frozenset({80, 443, 8000, 8008, 8080, 8443})
"""Ports that serve pages. Any other (SSH, mail, databases, caches) has to be opened with the allow list."""

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

_DEFAULT_PORT = {"http": 80, "https": 443}
_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\\]*)(?::([0-9]{0,5}))?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_USER_INFO = re.compile(r"^([^/?#]*//)?[^/?#]*@")
# What the WHATWG path and query sets leave as it is. "%" is among it, as escapes are the writer's.
_PATH_SAFE = "!$%&'()*+,-./:;=@_~[]|"
_QUERY_SAFE = "!$%&()*+,-./:;=@_~[]|?`{}^"

# Special-use and private-use zones: RFC 6761, 6762, 7686 and 8375, ICANN on .internal, .corp and .home, and habit.
_LOCAL_ZONES = frozenset(
    ("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa", "onion")
)
_METADATA_NAMES = frozenset(
    ("metadata", "instance-data", "instance-data.ec2.internal", "metadata.google.internal", "metadata.goog")
    + ("metadata.tencentyun.com", "metadata.packet.net", "metadata.platformequinix.com")
)


def _table(text: str) -> tuple[tuple[IPNetwork, str], ...]:
    rows = (line.split(None, 1) for line in text.strip().splitlines())
    return tuple((ip_network(network), name) for network, name in rows)


# Services that hand out a machine's credentials: not even the allow list opens these.
_METADATA = _table("""
169.254.0.0/16      link-local, cloud metadata
168.63.129.16/32    Azure's host service
100.100.100.200/32  Alibaba Cloud's metadata service
192.0.0.192/32      Oracle Cloud's metadata service
fe80::/10           link-local
fd00:ec2::/32       AWS's metadata service
fd20:ce::/32        Google Cloud's metadata service
fd00:c1::/32        Oracle Cloud's metadata service
""")
# Of the IPv6 rows, those outside 2000::/3 are refused in any case; they are here for their names.
_NOT_PUBLIC = _table("""
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
::/96             IPv4-compatible address
::ffff:0:0/96     IPv4-mapped address
::ffff:0:0:0/96   IPv4-translated address
64:ff9b:1::/48    local NAT64
100::/64          discard prefix
fc00::/7          private network
fec0::/10         site-local
ff00::/8          multicast
2001::/32         Teredo tunnel
2001::/23         protocol assignments
2001:db8::/32     documentation
2002::/16         6to4 tunnel
3fff::/20         documentation
""")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")


@dataclass(frozen=True, slots=True)
class SafeUrl:
    """An address whose text was judged. `url` is canonical and has no fragment; `host` has no brackets.

    `literal_ip` is the host when that is an IP address; None means a name, which is still to be resolved and judged.
    `opened` says that the allow list names this host and port.
    """

    url: str
    scheme: str
    host: str
    port: int
    literal_ip: str | None = None
    opened: bool = False

    @property
    def key(self) -> str:
        """Host and port as the allow list writes them ("127.0.0.1:8080", "[::1]:8080")."""
        return host_key(self.host, self.port)


class _RefusedError(Exception):
    """A rule was broken. `opens` is the entry of the allow list that would help, if any. Never leaves this module."""

    def __init__(self, rule: str, opens: str = "") -> None:
        super().__init__(rule)
        self.opens = opens


def check_url(url: str, *, allow: frozenset[str] = frozenset()) -> SafeUrl:
    """Return the canonical form of an address that may be requested; `allow` is the value of `allow_list`.

    Raises:
        BlockedAddressError: the address is malformed or not the public web; the message names the rule.
    """
    with _refusals_of(url):
        target = _parse(url)
        target = replace(target, opened=target.key in allow)
        _judge(target)
        return target


def canonical_url(url: str) -> str:
    """Return the canonical form of an http or https address, for comparing. Whether it may be fetched is not judged.

    Raises:
        BlockedAddressError: the address is malformed, or has another scheme.
    """
    with _refusals_of(url):
        return _parse(url).url


@contextmanager
def _refusals_of(url: object) -> Iterator[None]:
    try:
        yield
    except _RefusedError as exc:
        how = f'{TO_OPEN} {ALLOW_VARIABLE}="{exc.opens}"' if exc.opens else ""
        raise BlockedAddressError(f"{shown(url)} was refused: {exc}{how}") from None


def ip_rule(ip: str | IPAddress, *, opened: bool = False) -> str | None:
    """Return the rule that forbids packets to an IP address, None when they are allowed.

    An `opened` address may be private, but never a metadata service.
    """
    try:
        ip = ip_address(ip) if isinstance(ip, str) else ip
    except ValueError:
        return "it is not an IP address"
    inner = _embedded(ip)
    if service := _named(ip, _METADATA) or _named(inner or ip, _METADATA):
        return f"{ip} is {service}"
    if opened:
        return None
    if isinstance(ip, IPv6Address) and ip.scope_id is not None:
        return f"{ip} carries a zone, which public addresses never do"
    known = _named(ip, _NOT_PUBLIC)
    if known or (isinstance(ip, IPv6Address) and ip not in _GLOBAL_UNICAST and ip not in _NAT64):
        return f"{ip} is not public ({known or 'outside of 2000::/3'})"
    if inner is not None and (rule := ip_rule(inner)) is not None:
        return f"{ip} leads to another address: {rule}"
    return None


def host_key(host: str, port: int) -> str:
    """Return host and port as the allow list has them ("127.0.0.1:8080", "[::1]:8080")."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def shown(url: object) -> str:
    """Return an address as messages show it: printable, at most 200 characters, without user name and password.

    White space is escaped, so that an address made up by a server is no sentence in a message of ours.
    """
    text = re.sub(r"\s", "%20", visible(url.strip())) if isinstance(url, str) else repr(url)
    return shorten(_USER_INFO.sub(r"\1…@", text[: MAX_URL * 2]), 200) or "an empty address"


def allow_list(text: str) -> frozenset[str]:
    """Return the entries of "host:port,…" in canonical form; each opens exactly that host, so written, on that port.

    Raises:
        ConfigError: an entry has no port or is no host.
    """
    entries = set()
    for entry in filter(None, re.split(r"[,\s]+", text)):
        host, _, port = entry.rpartition(":")
        try:
            if re.fullmatch("[1-9][0-9]{0,4}", port) is None or int(port) > 65_535:
                raise _RefusedError("the port is missing")
            entries.add(host_key(_host(host)[0], int(port)))
        except _RefusedError as exc:
            raise ConfigError(f'{ALLOW_VARIABLE}: {entry!r} is not host:port ({exc}); write "127.0.0.1:8000"') from None
    return frozenset(entries)


def allow_from_environment() -> frozenset[str]:
    """Return the private addresses that IPY_WEBSEARCH_FETCH_ALLOW="host:port,…" opens, in canonical form.

    Raises:
        ConfigError: an entry is not host:port.
    """
    return allow_list(os.environ.get(ALLOW_VARIABLE, ""))


# --- the text ----------------------------------------------------------------------------------------------------------


def _parse(url: str) -> SafeUrl:
    """Take an address apart; every part is refused, or made canonical."""
    text = url.strip(" \t\r\n") if isinstance(url, str) else ""
    if len(text) > MAX_URL:
        raise _RefusedError(f"it has more than {MAX_URL:,} characters")
    if _CONTROL.search(text):
        raise _RefusedError("it has a control character, tab or line feed in it")
    if (parts := _URL.match(text)) is None:
        raise _RefusedError("it is not an http:// or https:// address; write https://example.com/page")
    scheme, authority, rest = parts[1].lower(), parts[2], _encoded(parts[3])
    if "@" in authority:  # which serves to hide the host
        raise _RefusedError("it has a user name or password in it")
    if (place := _AUTHORITY.fullmatch(authority)) is None:
        raise _RefusedError(f"{shorten(visible(authority), 80)!r} is not a host and port")
    (host, ip), port = _host(place[1]), int(place[2] or _DEFAULT_PORT[scheme])
    if not 0 < port < 65_536:
        raise _RefusedError(f"{port} is not a port")
    key = host_key(host, port)
    where = key if port != _DEFAULT_PORT[scheme] else key.rpartition(":")[0]
    return SafeUrl(f"{scheme}://{where}{rest}", scheme, host, port, str(ip) if ip is not None else None)


def _encoded(rest: str) -> str:
    path, mark, query = rest.partition("?")
    try:
        # Bytes of a Location header that are no UTF-8 arrive as surrogates, and go back as the bytes that they were.
        path = quote(path.encode("utf-8", "surrogateescape"), safe=_PATH_SAFE)
        query = quote(query.encode("utf-8", "surrogateescape"), safe=_QUERY_SAFE)
    except UnicodeEncodeError:
        raise _RefusedError("it is not valid Unicode") from None
    return (path or "/") + mark + query


def _host(text: str) -> tuple[str, IPAddress | None]:
    """Return the canonical host and, when it is an IP address in any notation, that address."""
    if text.startswith("["):
        try:
            if "%" in text or not text.endswith("]"):
                raise AddressValueError
            ip: IPAddress = IPv6Address(text[1:-1])
        except AddressValueError:
            raise _RefusedError(f"{shorten(text, 60)!r} is not an IPv6 address") from None
        return str(ip), ip
    name = _ascii_name(text).removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # then it is an IPv4 address or nothing (WHATWG, "ends in a number checker")
        try:
            if not all(map(_NUMBER.fullmatch, labels)):
                raise OSError
            ip = IPv4Address(socket.inet_aton(name))
        except OSError:
            raise _RefusedError(f"{shorten(name, 60)!r} is not an IPv4 address") from None
        return str(ip), ip
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise _RefusedError(f"{shorten(visible(text), 80)!r} is not a host name" if text else "it has no host")
    return name, None


def _ascii_name(text: str) -> str:
    """Return the name in lower-case ASCII, percent escapes and IDNA resolved, so that look-alikes show what they are."""
    if len(text) > 1_000:
        raise _RefusedError("its host is too long")
    try:
        text = unquote_to_bytes(text).decode("utf-8").lower()
        if text.isascii():
            return text
        import idna

        text = idna.uts46_remap(text, std3_rules=False, transitional=False)
        try:
            return ".".join(label if label.isascii() else idna.alabel(label).decode() for label in text.split("."))
        except idna.IDNAError:
            return text.encode("idna").decode()  # symbols, in names that older rules registered
    except ValueError:  # UnicodeError and IDNAError are kinds of it
        raise _RefusedError(f"{shorten(visible(text), 80)!r} is not a host name") from None


# --- the rules ---------------------------------------------------------------------------------------------------------


def _judge(target: SafeUrl) -> None:
    if (ip := target.literal_ip) is not None:
        if (rule := ip_rule(ip, opened=target.opened)) is not None:
            raise _RefusedError(rule, target.key if ip_rule(ip, opened=True) is None else "")
        if not target.opened and ip_address(ip) in _NAT64:
            # A resolver answers so on an IPv6-only network; nobody writes it for an honest reason.
            raise _RefusedError(f"{ip} is a translated IPv4 address; write that one instead")
    elif target.host in _METADATA_NAMES:
        raise _RefusedError(f"{target.host!r} is a cloud's metadata service")
    if target.opened:
        return
    labels = target.host.split(".")
    is_local = len(labels) == 1 or labels[-1] in _LOCAL_ZONES or ".".join(labels[-2:]) in _LOCAL_ZONES
    if ip is None and is_local:
        raise _RefusedError(f"{target.host!r} is a name of this machine or of a private network", target.key)
    if target.port not in WEB_PORTS:
        ports = ", ".join(map(str, sorted(WEB_PORTS)))
        raise _RefusedError(f"port {target.port} is not one of the web's ({ports})", target.key)


def _named(ip: IPAddress, table: tuple[tuple[IPNetwork, str], ...]) -> str:
    return next((f"{name}, {network}" for network, name in table if ip in network), "")


def _embedded(ip: IPAddress) -> IPv4Address | None:
    """Return the IPv4 address that packets to an IPv6 address may end at: mapped, compatible, translated, NAT64, ISATAP.

    6to4 and Teredo addresses are refused whatever is inside them.
    """
    if isinstance(ip, IPv4Address):
        return None
    leads_on = ip.packed[:10] == bytes(10) or ip in _TRANSLATED or ip in _NAT64 or ip.packed[8:12] in _ISATAP
    return IPv4Address(ip.packed[12:]) if leads_on else None
