"""Judging an address before anything is sent: its text first, then the IP address in it. Pure, no network.

Invariant: what `check_url` returns has been taken apart once, here, and put together again from canonical parts, so no
later parser can read another host out of it. The host is read as browsers read it (WHATWG URL, read 2026-11): percent
decoding, IDNA mapping, then decimal, octal, hexadecimal and short IPv4 forms. Where browsers repair (tabs, line feeds,
backslashes in the host, missing slashes), we refuse. Names are judged again by what they resolve to, in `guard`.

Limits: 8,192 characters an address (what common servers take); ports `WEB_PORTS` only; no user names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from ipaddress import ip_address
from urllib.parse import quote, unquote_to_bytes

from ipy_websearch.errors import BlockedAddressError, ConfigError
from ipy_websearch.http.ip import NAT64, IPAddress, metadata_rule, public_rule, written_ip
from ipy_websearch.text import shorten, visible

ALLOW_VARIABLE = "IPY_WEBSEARCH_FETCH_ALLOW"
TO_OPEN = "; to open it, set"
"""Where a refusal's advice begins; for an address that a page chose, and not the user, it is left out."""
MAX_URL = 8_192
WEB_PORTS = frozenset({80, 443, 8000, 8008, 8080, 8443})
"""Ports that serve pages. Others (SSH, mail, databases, caches) are opened one by one with the allow list."""

_DEFAULT_PORT = {"http": 80, "https": 443}
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_USERINFO = re.compile(r"^([^/?#]*//)?[^/?#]*@")
# What the WHATWG path and query sets leave as it is; "%" is in it because escapes have been made by whoever wrote them.
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


@dataclass(frozen=True, slots=True)
class SafeUrl:
    """An address whose text was judged. `url` is canonical and has no fragment; `host` has no brackets.

    `literal_ip` is the IP address when the host is one, else None: a name, still to be resolved and judged.
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


class _Refused(Exception):
    """A rule was broken; `check_url` makes the error out of it. `opens`: the allow-list entry that would help, if any."""

    def __init__(self, rule: str, opens: str = "") -> None:
        super().__init__(rule)
        self.opens = opens


def check_url(url: str, *, allow: frozenset[str] = frozenset()) -> SafeUrl:
    """Return the canonical form of an address that may be tried; `allow` is what `allow_list` gives.

    Raises:
        BlockedAddressError: the address is malformed or not the public web; the message names the rule.
    """
    try:
        target = _parse(url)
        target = replace(target, opened=target.key in allow)
        _judge(target)
        return target
    except _Refused as exc:
        how = f'{TO_OPEN} {ALLOW_VARIABLE}="{exc.opens}"' if exc.opens else ""
        raise BlockedAddressError(f"{shown(url)} was refused: {exc}{how}") from None


def canonical_url(url: str) -> str:
    """Return the canonical form of an http or https address, for comparing; whether it may be fetched is not judged.

    Raises:
        BlockedAddressError: the address is malformed, or has another scheme.
    """
    try:
        return _parse(url).url
    except _Refused as exc:
        raise BlockedAddressError(f"{shown(url)} was refused: {exc}") from None


def check_ip(ip: str | IPAddress, *, opened: bool = False) -> None:
    """Return when packets may be sent to an IP address; `opened` ones may be private, but never a metadata service.

    Raises:
        BlockedAddressError: it is not public, or is no IP address; the message names the rule.
    """
    if (rule := ip_rule(ip, opened=opened)) is not None:
        raise BlockedAddressError(f"{shown(str(ip))} was refused: {rule}")


def ip_rule(ip: str | IPAddress, *, opened: bool = False) -> str | None:
    """Return the rule by which packets may not be sent to an IP address, None when they may; see `check_ip`."""
    try:
        parsed = ip_address(ip) if isinstance(ip, str) else ip
    except ValueError:
        return "it is not an IP address"
    return metadata_rule(parsed) if opened else public_rule(parsed)


def host_key(host: str, port: int) -> str:
    """Return host and port as the allow list has them ("127.0.0.1:8080", "[::1]:8080")."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def shown(url: object) -> str:
    """Return an address as messages show it: printable, at most 200 characters, without user name and password.

    White space is shown as an escape: an address that a server made up is then no sentence in a message of ours.
    """
    text = re.sub(r"\s", "%20", visible(url.strip())) if isinstance(url, str) else repr(url)
    return shorten(_USERINFO.sub(r"\1…@", text[: MAX_URL * 2]), 200) or "an empty address"


def allow_list(text: str) -> frozenset[str]:
    """Return the entries of "host:port,…" in canonical form; each opens exactly that host, so written, on that port.

    Raises:
        ConfigError: an entry has no port or is no host.
    """
    entries = set()
    for entry in filter(None, (part.strip() for part in re.split(r"[,\s]+", text))):
        host, port = entry.rpartition(":")[::2]
        try:
            if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
                raise _Refused("the port is missing")
            entries.add(host_key(_host(host)[0], int(port)))
        except _Refused as exc:
            raise ConfigError(f'{ALLOW_VARIABLE}: {entry!r} is not host:port ({exc}); write "127.0.0.1:8000"') from None
    return frozenset(entries)


def _parse(url: str) -> SafeUrl:
    scheme, authority, rest = _split(url)
    host_text, port = _authority(authority, _DEFAULT_PORT[scheme])
    host, ip = _host(host_text)
    key = host_key(host, port)
    shown_host = key if port != _DEFAULT_PORT[scheme] else key.rpartition(":")[0]
    return SafeUrl(f"{scheme}://{shown_host}{rest}", scheme, host, port, str(ip) if ip is not None else None)


def _judge(target: SafeUrl) -> None:
    if target.literal_ip is not None:
        _judge_literal(ip_address(target.literal_ip), target)
    if target.opened:
        return
    if target.literal_ip is None:
        _judge_name(target.host, target.key)
    if target.port not in WEB_PORTS:
        ports = ", ".join(map(str, sorted(WEB_PORTS)))
        raise _Refused(f"port {target.port} is not one of the web's ({ports})", target.key)


def _split(url: str) -> tuple[str, str, str]:
    """Return scheme, authority and the encoded path and query of the text."""
    if not isinstance(url, str) or not (text := url.strip(" \t\r\n")):
        raise _Refused("it is not an address; write https://example.com/page")
    if len(text) > MAX_URL:
        raise _Refused(f"it has more than {MAX_URL:,} characters")
    if _CONTROL.search(text):
        raise _Refused("it has a control character, tab or line feed in it")
    match = _SCHEME.match(text)
    if match is None:
        raise _Refused("it has no scheme; write it with https:// in front")
    scheme = match[1].lower()
    if scheme not in _DEFAULT_PORT:
        raise _Refused(f"the scheme is {shorten(scheme, 30)!r}; only http and https are fetched")
    if not text.startswith("//", match.end()):
        raise _Refused("two slashes must follow the scheme")
    text = text[match.end() + 2 :].partition("#")[0]
    at = min((i for i in (text.find("/"), text.find("?")) if i >= 0), default=len(text))
    return scheme, text[:at], _encode(text[at:])


def _encode(rest: str) -> str:
    path, mark, query = rest.partition("?")
    try:
        # undecodable bytes of a Location header arrive as surrogates and go back as the bytes they were
        path = quote(path.encode("utf-8", "surrogateescape"), safe=_PATH_SAFE)
        query = quote(query.encode("utf-8", "surrogateescape"), safe=_QUERY_SAFE)
    except UnicodeEncodeError:
        raise _Refused("it is not valid Unicode") from None
    return (path or "/") + mark + query


def _authority(text: str, default_port: int) -> tuple[str, int]:
    """Return host text and port; user names are refused, since they serve to hide the host."""
    if "@" in text:
        raise _Refused("it has a user name or password in it")
    if "\\" in text:
        raise _Refused("it has a backslash in its host")
    host, colon, port = text, "", ""
    if not text.endswith("]"):
        head, colon, tail = text.rpartition(":")
        host, port = (head, tail) if colon else (text, "")
    if port and not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65_536):
        raise _Refused(f"{shorten(port, 20)!r} is not a port")
    return host, int(port) if port else default_port


def _host(text: str) -> tuple[str, IPAddress | None]:
    """Return the canonical host and, when it is an IP address in any notation, that address."""
    name = text if text.startswith("[") else _ascii_name(text).removesuffix(".")
    try:
        if (ip := written_ip(name)) is not None:
            return str(ip), ip
    except ValueError as exc:
        raise _Refused(str(exc)) from None
    if len(name) > 253 or not all(map(_LABEL.fullmatch, name.split("."))):
        raise _Refused(f"{shorten(visible(text), 80)!r} is not a host name" if text else "it has no host")
    return name, None


def _ascii_name(text: str) -> str:
    """Return the name in lower case ASCII, percent escapes and IDNA resolved, so that look-alikes show what they are."""
    if len(text) > 1_000:
        raise _Refused("its host is too long")
    try:
        text = unquote_to_bytes(text).decode("utf-8").lower()
        if text.isascii():
            return text
        import idna

        text = idna.uts46_remap(text, std3_rules=False, transitional=False)
        return ".".join(label if label.isascii() else _alabel(label) for label in text.split("."))
    except (UnicodeError, ValueError):
        raise _Refused(f"{shorten(visible(text), 80)!r} is not a host name") from None


def _alabel(label: str) -> str:
    import idna

    try:
        return idna.encode(label).decode("ascii")
    except idna.IDNAError:
        return label.encode("idna").decode("ascii").lower()  # symbols that older registrations hold, as browsers do


def _judge_literal(ip: IPAddress, target: SafeUrl) -> None:
    if (rule := metadata_rule(ip)) is not None:
        raise _Refused(rule)
    if target.opened:
        return
    if (rule := public_rule(ip)) is not None:
        raise _Refused(rule, target.key)
    if ip in NAT64:  # a resolver may answer so on an IPv6-only network; nobody writes it for an honest reason
        raise _Refused(f"{ip} is a translated IPv4 address; write that one instead")


def _judge_name(host: str, key: str) -> None:
    if host in _METADATA_NAMES:
        raise _Refused(f"{host!r} is a cloud's metadata service")
    labels = host.split(".")
    if len(labels) == 1:
        raise _Refused(f"{host!r} has no dot, so it is a name of this machine or of a private network", key)
    if labels[-1] in _LOCAL_ZONES or ".".join(labels[-2:]) in _LOCAL_ZONES:
        raise _Refused(f"{host!r} is a name of this machine or of a private network", key)
