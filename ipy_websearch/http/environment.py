"""Which proxy the environment names for an address. Pure reading of variables; nothing is sent.

HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY mean what they mean to the standard library (which takes 60 µs to find out
that there is none); they are read at every request, so that `%env HTTPS_PROXY=…` takes effect. Loopback addresses never
go through a proxy: they would mean the proxy's own machine.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from ipy_websearch.errors import ConfigError
from ipy_websearch.settings import server_address


def proxy_for(url: str) -> str | None:
    """Return the proxy's address for `url`, None to connect directly.

    Raises:
        ConfigError: the environment names a proxy that is not an HTTP proxy (the message leaves out its password).
    """
    scheme, _, _ = url.partition("://")
    proxy = _variable(f"{scheme}_proxy") or _variable("all_proxy")
    if not proxy:
        return None
    from urllib.request import proxy_bypass

    parts = urlsplit(url)
    if _is_loopback(parts.hostname or "") or proxy_bypass(parts.netloc.rsplit("@", 1)[-1]):
        return None
    return _checked(proxy.strip())


def _checked(proxy: str) -> str:
    scheme, _, rest = proxy.rpartition("://")
    scheme = scheme.lower() or "http"
    shown = f"{scheme}://{rest.rsplit('@', 1)[-1]}"
    if scheme not in ("http", "https"):
        raise ConfigError(f"the environment names the proxy {shown}; only http:// and https:// proxies can be used")
    proxy = f"{scheme}://{rest}"
    parts = server_address(proxy)
    if parts is None or "@" in parts.path:
        raise ConfigError(f"the environment names the proxy {shown}, which is no address; write http://host:port")
    return proxy


def _variable(name: str) -> str:
    """Return a variable whose name may be in lower case (which wins) or upper case."""
    if name == "http_proxy" and "REQUEST_METHOD" in os.environ:  # CGI: HTTP_PROXY would be a header of the visitor's
        return os.environ.get(name, "")
    value = os.environ.get(name)
    return os.environ.get(name.upper(), "") if value is None else value


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
