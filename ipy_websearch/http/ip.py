"""Which IP addresses are the public web, and the many ways to write one. Pure: text in, addresses and rules out.

Invariant: an address is public only when no table here refuses it. IPv4 is open except for the listed ranges; IPv6 is
closed except for global unicast (2000::/3) without the listed ranges. Addresses that carry an IPv4 address inside
(NAT64, ISATAP) are judged by that one too. `ipaddress.is_global` is not used: what it says depends on the Python patch
release, and it calls some translated loopback addresses and multicast global.

Sources: IANA "IPv4/IPv6 Special-Purpose Address Registry" (RFC 6890 and its updates), the clouds' pages on their
metadata services, and our own measurements of November 2026.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network

IPAddress = IPv4Address | IPv6Address

_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

_V4 = tuple(
    (IPv4Network(network), name)
    for network, name in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private network"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local, cloud metadata"),
        ("172.16.0.0/12", "private network"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private network"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved, broadcast"),
    )
)

# The first rows only give better names to what lies outside of 2000::/3 and is refused in any case.
_V6 = tuple(
    (IPv6Network(network), name)
    for network, name in (
        ("::1/128", "loopback"),
        ("::/128", "this host"),
        ("::/96", "IPv4-compatible address"),
        ("::ffff:0:0/96", "IPv4-mapped address"),
        ("::ffff:0:0:0/96", "IPv4-translated address"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard prefix"),
        ("fc00::/7", "private network"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("2001::/32", "Teredo tunnel"),
        ("2001::/23", "protocol assignments"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4 tunnel"),
        ("3fff::/20", "documentation"),
    )
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")

# Cloud services that hand out credentials to whoever asks from inside: not even the allow list opens these.
_METADATA = tuple(
    (network, name)
    for network, name in (
        (IPv4Network("169.254.0.0/16"), "link-local, cloud metadata"),
        (IPv4Network("168.63.129.16/32"), "Azure's host service"),
        (IPv4Network("100.100.100.200/32"), "Alibaba Cloud's metadata service"),
        (IPv4Network("192.0.0.192/32"), "Oracle Cloud's metadata service"),
        (IPv6Network("fe80::/10"), "link-local"),
        (IPv6Network("fd00:ec2::/32"), "AWS's metadata service"),
        (IPv6Network("fd20:ce::/32"), "Google Cloud's metadata service"),
        (IPv6Network("fd00:c1::/32"), "Oracle Cloud's metadata service"),
    )
)


def metadata_rule(ip: IPAddress) -> str | None:
    """Return the name of the cloud service behind an address that nothing may open, None when it is none of them."""
    for candidate in (ip, *_embedded(ip)):
        for network, name in _METADATA:
            if candidate.version == network.version and candidate in network:
                return f"{ip} is {name}"
    return None


def public_rule(ip: IPAddress) -> str | None:
    """Return the rule by which an address is not the public web, None when it is."""
    if (rule := metadata_rule(ip)) is not None:
        return rule
    if isinstance(ip, IPv4Address):
        found = _named(ip, _V4)
        return f"{ip} is not public ({found})" if found else None
    if ip.scope_id is not None:
        return f"{ip} carries a zone, which public addresses never do"
    if ip not in NAT64 and (ip not in _GLOBAL_UNICAST or _named(ip, _V6)):
        return f"{ip} is not public ({_named(ip, _V6) or 'outside of 2000::/3'})"
    for inner in _embedded(ip):
        if (rule := public_rule(inner)) is not None:
            return f"{ip} leads to another address: {rule}"
    return None


def _named(ip: IPAddress, table: tuple[tuple[IPv4Network, str], ...] | tuple[tuple[IPv6Network, str], ...]) -> str:
    for network, name in table:
        if ip in network:
            return f"{name}, {network}"
    return ""


def _embedded(ip: IPAddress) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that packets to an IPv6 address may end at: mapped, compatible, translated, NAT64,
    6to4, Teredo (server and client) and ISATAP."""
    if isinstance(ip, IPv4Address):
        return ()
    packed, inner = ip.packed, []
    if packed[:10] == bytes(10) or packed[:12] == b"\0" * 8 + b"\xff\xff\0\0" or ip in NAT64 or packed[8:12] in _ISATAP:
        inner.append(IPv4Address(packed[12:]))
    if ip.sixtofour is not None:
        inner.append(ip.sixtofour)
    if ip.teredo is not None:
        inner.extend(ip.teredo)
    return tuple(inner)


def written_ip(host: str) -> IPAddress | None:
    """Return the address that a lower-case host is, in any notation; None when it is a name.

    A host that ends in a number is an IPv4 address or nothing (WHATWG URL, "ends in a number checker", read 2026-11).

    Raises:
        ValueError: it can only be an address, but is none.
    """
    if host.startswith("["):
        return _ipv6(host)
    labels = host.split(".")
    return _ipv4(labels) if _NUMBER.fullmatch(labels[-1]) else None


def _ipv4(labels: list[str]) -> IPv4Address:
    """Return the address as C libraries read it: decimal, octal and hexadecimal parts, four of them or fewer."""
    shown = f"{'.'.join(labels)[:60]!r} is not an IPv4 address"
    if len(labels) > 4 or not all(map(_NUMBER.fullmatch, labels)):
        raise ValueError(shown)
    try:
        *head, last = map(_number, labels)
    except ValueError:
        raise ValueError(shown) from None
    # No wrapping round: some libraries take the lowest 32 bits of a number that is too large, others refuse it.
    if any(value > 255 for value in head) or last >= 256 ** (4 - len(head)):
        raise ValueError(shown)
    return IPv4Address(sum(value << (8 * (3 - i)) for i, value in enumerate(head)) + last)


def _number(label: str) -> int:
    if label.startswith("0x"):
        return int(label[2:] or "0", 16)
    return int(label, 8 if label.startswith("0") else 10)


def _ipv6(host: str) -> IPv6Address:
    try:
        if not host.endswith("]") or "%" in host:
            raise AddressValueError
        return IPv6Address(host[1:-1])
    except AddressValueError:
        raise ValueError(f"{host[:60]!r} is not an IPv6 address") from None
