"""Who may ask: programs, and not web pages, which a browser on this machine would let ask on anybody's behalf.

A page cannot hide where it comes from: the browser sends `Origin` with all that may change something, `Sec-Fetch-Site` with
the rest, and in `Host` the name by which the page found this machine (a name of the page's own may lead here). Pages of this
machine itself may ask.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers


def may_ask(headers: Headers, authority: str | None, *, local_only: bool) -> bool:
    """Say whether a request is answered; `authority` is the host in its request line, None where it has none.

    `local_only` refuses all that was sent to another name than this machine's own.
    """
    origins = headers.getlist("origin")
    if not all(_is_this_machine(origin) for origin in origins):
        return False
    if not origins and headers.get("sec-fetch-site", "none").lower() not in ("none", "same-origin"):
        return False
    hosts = [*headers.getlist("host"), *([authority] if authority is not None else [])]
    return not local_only or (bool(hosts) and all(_is_this_machine(f"//{host}") for host in hosts))


def is_loopback(host: str) -> bool:
    """Say whether a name or an address is this machine's alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_this_machine(address: str) -> bool:
    try:
        return is_loopback(urlsplit(address).hostname or "")
    except ValueError:
        return False
