"""Judging an address before anything is sent: first its text, then the IP address in it or behind it. Pure, no network.

Invariant: `check_url` takes an address apart once and puts it together again from canonical parts, so no later parser can
read another host out of it. The host is read as browsers read it (WHATWG URL, read 2026-11): percent escapes, IDNA, then
decimal, octal, hexadecimal and short forms of IPv4. Where browsers repair (tabs, line feeds, backslashes in the host,
missing slashes), the address is refused. A name is judged again by the addresses it resolves to, in `guard`.

IPv4 is open except for the networks listed here; IPv6 is closed except for 2000::/3 without the networks listed here.
`ipaddress.is_global` is not used: it differs between Python's patch releases and calls some translated loopback addresses
global. Sources: IANA's "IPv4/IPv6 Special-Purpose Address Registry" (RFC 6890 and updates), the clouds' documentation of
their metadata services (both read 2026-11), and `tests/data/addresses.tsv`.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import quote, unquote_to_bytes

from ipy_websearch.errors import BlockedAddressError, ConfigError
from ipy_websearch.text import shorten, visible

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
_LOCAL_ZONES = frozenset(
    ("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa", "onion")
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
    """An address whose text was judged. `url` is canonical and has no fragment; `host` has no brackets.

    `literal_ip` is the host when that is an IP address; None means a name, which is still to be resolved and judged.
    """

    url: str
    host: str
    port: int
    literal_ip: str | None = None

    @property
    def key(self) -> str:
        """Host and port as the allow list writes them ("127.0.0.1:8080", "[::1]:8080")."""
        return host_key(self.host, self.port)


def check_url(url: str, *, allow: frozenset[str] = frozenset()) -> SafeUrl:
    """Return the canonical form of an address that may be requested; `allow` is the value of `allow_list`.

    Raises:
        BlockedAddressError: the address is malformed or not the public web; the message names the rule.
    """
    target = _parsed(url)
    if (rule := _rule(target, opened=target.key in allow)) is not None:
        how = f'{TO_OPEN} {ALLOW_VARIABLE}="{target.key}"' if _rule(target, opened=True) is None else ""
        raise BlockedAddressError(f"{shown(url)} was refused: {rule}{how}")
    return target


def canonical_url(url: str) -> str:
    """Return the canonical form of an http or https address, for comparing. Whether it may be fetched is not judged.

    Raises:
        BlockedAddressError: the address is malformed, or has another scheme.
    """
    return _parsed(url).url


def ip_rule(ip: str | IPAddress, *, opened: bool = False) -> str | None:
    """Return the rule that forbids packets to an IP address, None when they are allowed.

    An `opened` address may be private, but never a metadata service.
    """
    try:
        ip = ip_address(ip)
    except ValueError:
        return "it is not an IP address"
    if isinstance(ip, IPv6Address) and ip.scope_id and not opened:
        return f"{ip} carries a zone, which public addresses never do"
    inner = _embedded(ip)
    for judged in (inner,) if ip in _NAT64 else (ip, inner):
        for network, name, always in _TABLE:
            if judged is not None and judged in network and (always or not opened):
                return f"{ip} is not public ({name}, {network})"
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
        try:
            if not re.fullmatch(r"[^/?#]*:[0-9]+", entry):
                raise ValueError("the port is missing")
            entries.add(_parse(f"http://{entry}/").key)
        except ValueError as exc:
            raise ConfigError(f'{ALLOW_VARIABLE}: {entry!r} is not host:port ({exc}); write "127.0.0.1:8000"') from None
    return frozenset(entries)


def allow_from_environment() -> frozenset[str]:
    """Return the private addresses that IPY_WEBSEARCH_FETCH_ALLOW="host:port,…" opens, in canonical form.

    Raises:
        ConfigError: an entry is not host:port.
    """
    return allow_list(os.environ.get(ALLOW_VARIABLE, ""))


# --- the text ----------------------------------------------------------------------------------------------------------


def _parsed(url: str) -> SafeUrl:
    try:
        return _parse(url.strip(" \t\r\n") if isinstance(url, str) else "")
    except ValueError as exc:
        raise BlockedAddressError(f"{shown(url)} was refused: {exc}") from None


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
    where = host_key(str(host), port)
    where = where.rpartition(":")[0] if port == _DEFAULT_PORT[scheme] else where
    literal_ip = None if isinstance(host, str) else str(host)
    return SafeUrl(f"{scheme}://{where}{_encoded(parts[3])}", str(host), port, literal_ip)


def _encoded(rest: str) -> str:
    # Bytes of a Location header that are no UTF-8 arrive as surrogates, and go back as the bytes that they were.
    path, mark, query = rest.encode("utf-8", "surrogateescape").partition(b"?")
    return (quote(path, safe=_PATH_SAFE) or "/") + mark.decode() + quote(query, safe=_QUERY_SAFE)


def _host(text: str) -> str | IPAddress:
    """Return the canonical host: an IP address in any notation as that address, or a name."""
    try:
        if text.startswith("[") and "%" not in text:
            return IPv6Address(text[1:-1])
        name = _ascii_name(text).removesuffix(".")
        labels = name.split(".")
        if _NUMBER.fullmatch(labels[-1]):  # then it is an IPv4 address or nothing (WHATWG, "ends in a number checker")
            return IPv4Address(socket.inet_aton(name if all(map(_NUMBER.fullmatch, labels)) else ""))
        if len(name) <= 253 and all(map(_LABEL.fullmatch, labels)):
            return name
    except (ValueError, OSError):  # UnicodeError and IDNAError are kinds of the first
        pass
    raise ValueError(f"{shorten(visible(text), 80)!r} is not a host")


def _ascii_name(text: str) -> str:
    """Return the name in lower-case ASCII, percent escapes and IDNA resolved, so that look-alikes show what they are."""
    text = unquote_to_bytes(text).decode("utf-8").lower()
    if text.isascii():
        return text
    import idna

    text = idna.uts46_remap(text, std3_rules=False, transitional=False)
    try:
        return ".".join(label if label.isascii() else idna.alabel(label).decode() for label in text.split("."))
    except idna.IDNAError:
        return text.encode("idna").decode()  # symbols, in names that older rules registered


# --- the rules ---------------------------------------------------------------------------------------------------------


def _rule(target: SafeUrl, *, opened: bool) -> str | None:
    """Return the rule that an address breaks; one that the allow list opened may be of this machine, on any port."""
    if target.literal_ip is not None and (rule := ip_rule(target.literal_ip, opened=opened)) is not None:
        return rule
    if target.host in _METADATA_NAMES:
        return f"{target.host!r} is a cloud's metadata service"
    if opened:
        return None
    labels = target.host.split(".")
    is_local = len(labels) == 1 or labels[-1] in _LOCAL_ZONES or ".".join(labels[-2:]) in _LOCAL_ZONES
    if target.literal_ip is None and is_local:
        return f"{target.host!r} is a name of this machine or of a private network"
    if target.literal_ip is not None and ip_address(target.literal_ip) in _NAT64:
        # A resolver answers so on an IPv6-only network; nobody writes it for an honest reason.
        return f"{target.host} is a translated IPv4 address; write that one instead"
    if target.port not in WEB_PORTS:
        return f"port {target.port} is not one of the web's ({', '.join(map(str, sorted(WEB_PORTS)))})"
    return None


def _embedded(ip: IPAddress) -> IPv4Address | None:
    """Return the IPv4 address that packets to an IPv6 address may end at: mapped, compatible, translated, NAT64, ISATAP.

    6to4 and Teredo addresses are refused whatever is inside them.
    """
    leads_on = ip.version == 6 and (ip.packed[:8] == bytes(8) or ip in _NAT64 or ip.packed[8:12] in _ISATAP)
    return IPv4Address(ip.packed[12:]) if leads_on else None
