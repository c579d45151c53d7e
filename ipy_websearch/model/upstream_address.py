"""The address of the server behind the proxy, and the user and password that may stand in it.

They are taken out of it before anything else sees it: no line, error or log may show them.
"""

from __future__ import annotations

import re

import httpx2

from ipy_websearch.errors import ConfigError

_WITH_USER = re.compile(r"^([a-z][a-z0-9+.-]*:/+)?.*@", re.I | re.S)


def address_and_login(url: str) -> tuple[str, httpx2.BasicAuth | None]:
    """Return an address without its user info and final slash, and that user info as Basic authorization (None: none).

    Raises:
        ConfigError: it is no http or https address of a server, or has a query.
    """
    try:
        found = httpx2.URL(url)
        wrong = found.scheme not in ("http", "https") or not found.host or not 0 <= (found.port or 0) < 2**16
    except (httpx2.InvalidURL, TypeError):
        wrong = True
    if wrong:
        hint = ", with %2F for a / in the password and %40 for an @" if "@" in url else ""
        raise ConfigError(f"--upstream is {shown(url)!r}; it must be an http:// or https:// address{hint}")
    if found.query or found.fragment or "?" in url:
        raise ConfigError(f"--upstream is {shown(url)!r} with a query; it must end before the ? or #")
    login = httpx2.BasicAuth(found.username, found.password) if found.userinfo else None
    bare = found.copy_with(username=None, password=None)
    return str(bare).rstrip("/"), login


def shown(url: str) -> str:
    """Return an address as it may be shown: without user, password and query, also where it is no true address."""
    return re.split(r"[?#]", _WITH_USER.sub(lambda match: match[1] or "", url))[0]
