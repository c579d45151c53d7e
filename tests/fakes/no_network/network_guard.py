"""Refuses the network to a process: only loopback and unix sockets can be reached, and no name is resolved.

The refusals are OSErrors, as they are without a network, and each one is kept in `refused`, so that a test that went
there by mistake can be failed; names under `.example` just do not exist. `names` and `redirects` build a small pretended web:
`names["example.org"]` are its addresses, `redirects[("93.184.216.34", 80)]` is the loopback (host, port) that a connection
really goes to.
"""

import errno
import ipaddress
import socket
from typing import Any
from weakref import WeakKeyDictionary

refused: list[str] = []
names: dict[str, list[str]] = {}
redirects: dict[tuple[str, int], tuple[str, int]] = {}

RESERVED = (".example", ".invalid", ".test")

_real_getaddrinfo = socket.getaddrinfo
_real_connect, _real_connect_ex = socket.socket.connect, socket.socket.connect_ex
_real_getpeername = socket.socket.getpeername
_pretended_peers: WeakKeyDictionary[socket.socket, Any] = WeakKeyDictionary()


def is_local(host: Any) -> bool:
    """Return True for a loopback address or name, and for "" and None, which stand for this machine."""
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    address = _address(name)
    if address is None:
        return name in (None, "", "localhost", socket.gethostname())
    return address.is_loopback or address.is_unspecified


def _address(host: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(str(host).split("%")[0])
    except ValueError:
        return None


def refuse_network() -> None:
    """Patch the socket module of this process; a second call does nothing."""
    if socket.getaddrinfo is _getaddrinfo:
        return
    socket.getaddrinfo = _getaddrinfo
    socket.gethostbyname = lambda host: _getaddrinfo(host, None, socket.AF_INET)[0][4][0]
    socket.socket.connect = _connect  # type: ignore[method-assign]
    socket.socket.connect_ex = _connect_ex  # type: ignore[method-assign]
    socket.socket.getpeername = _getpeername  # type: ignore[method-assign]


def _note(what: str) -> str:
    refused.append(what)
    return f"the tests refuse the network: {what} (use one of the fakes, or the fixture `offline`)"


def _unknown(name: Any) -> str:
    """Return what is said of a name; those that can lead nowhere (RFC 2606) are no attempt to reach the network."""
    return "Name or service not known" if str(name).rstrip(".").endswith(RESERVED) else _note(f"lookup of the name {name!r}")


def _getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    key = name.rstrip(".").lower() if isinstance(name, str) else name
    if key in names:
        found = []
        for address in names[key]:
            try:
                found += _real_getaddrinfo(address, port, family, type, proto, socket.AI_NUMERICHOST)
            except socket.gaierror:
                continue  # an address of the other family
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return found
    if not is_local(host) and _address(name) is None:
        raise socket.gaierror(socket.EAI_NONAME, _unknown(name))
    return _real_getaddrinfo(host, port, family, type, proto, flags)


def _target(sock: socket.socket, address: Any) -> Any:
    """Return where a connection may go, or raise OSError."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return address
    if (place := redirects.get((address[0], address[1]))) is not None:
        return place if sock.family == socket.AF_INET else (f"::ffff:{place[0]}", place[1])
    if is_local(address[0]):
        return address
    raise OSError(errno.ENETUNREACH, _note(f"connection to {address[0]}:{address[1]}"))


def _connect(self: socket.socket, address: Any) -> None:
    target = _target(self, address)
    if target != address:
        _pretended_peers[self] = address
    return _real_connect(self, target)


def _getpeername(self: socket.socket) -> Any:
    """Return where the socket was meant to go: nobody can tell that it ended on loopback."""
    return _pretended_peers.get(self) or _real_getpeername(self)


def _connect_ex(self: socket.socket, address: Any) -> int:
    try:
        return _real_connect_ex(self, _target(self, address))
    except OSError as exc:
        return exc.errno or errno.ENETUNREACH
