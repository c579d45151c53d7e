"""`python -m ipy_websearch.proxy --platform bedrock`: starts the proxy and prints its address."""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from ipy_websearch.errors import ConfigError, WebSearchError

PORT = 8787
# No access log: what people ask is theirs. `date` and `server` are the upstream's own. One reader of HTTP, whatever else is
# installed: the strict one.
SERVER: dict[str, Any] = {
    "http": "h11",
    "ws": "none",
    "proxy_headers": False,
    "log_level": "warning",
    "access_log": False,
    "server_header": False,
    "date_header": False,
    "timeout_graceful_shutdown": 2,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "--platform": {
        "metavar": "NAME|URL",
        "default": "",
        "help": "where the model is: anthropic, bedrock, vertex, foundry, or the address of a Messages API server",
    },
    "--provider": {"help": "search engine (default: those with a key, then Wikipedia, then local)"},
    "--search-tool": {"help": "a named engine of the setting search_tools"},
    "--max-uses": {"type": int, "help": "most searches in one request (default: the request's, or 10)"},
    "--host": {"default": "127.0.0.1", "help": "address to listen on (default: this machine only)"},
    "--port": {"type": int, "default": PORT, "help": f"port (default: {PORT}; 0: any free one)"},
    "--allow-remote": {"action": "store_true", "help": "let --host be an address that others can reach"},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proxy until it is interrupted; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m ipy_websearch.proxy",
        description="A local proxy for the Messages API that runs web searches for models without one.",
        epilog="Then: ANTHROPIC_BASE_URL=http://127.0.0.1:8787 claude",
    )
    for name, option in OPTIONS.items():
        parser.add_argument(name, **option)
    options = parser.parse_args(arguments)
    try:
        serve(options)
    except (WebSearchError, OSError, OverflowError) as exc:  # the last one: no port has that number
        print(f"ipy_websearch.proxy: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def serve(options: argparse.Namespace) -> None:
    """Serve with parsed options.

    Raises:
        ConfigError: an option is wrong, or the extra is not installed.
        OSError: the port is not available.
    """
    try:
        import uvicorn

        from ipy_websearch.proxy.app import Proxy, is_loopback
    except ImportError as exc:
        raise ConfigError(f"the proxy needs {exc.name}: pip install 'ipy_websearch[proxy]'") from exc
    from ipy_websearch.interception import WebSearchInterceptor

    for name in ("anthropic", "httpx2"):  # ANTHROPIC_LOG would have the SDK write down requests with their keys
        logging.getLogger(name).setLevel(logging.WARNING)
    os.environ.pop("ANTHROPIC_CUSTOM_HEADERS", None)  # the SDK would send them, keys among them, with every caller's requests
    local = is_loopback(f"//{options.host}")
    if not local and not options.allow_remote:
        raise ConfigError(f"--host is {options.host!r}, which others can reach; say --allow-remote if that is meant")
    interceptor = WebSearchInterceptor(
        provider=options.provider, search_tool_name=options.search_tool, max_uses=options.max_uses
    )
    proxy = Proxy(options.platform, interceptor, local_only=local)
    # A wrong setting is an error at the start, not at the first request.
    interceptor.session.provider_to_ask(options.provider or options.search_tool)
    with socket.create_server((options.host, options.port)) as listener:
        port = listener.getsockname()[1]
        if urlsplit(proxy.server.name).port == port and is_loopback(proxy.server.name):
            raise ConfigError(f"--platform is {proxy.server.name}, the proxy's own address")
        print(f"http://{options.host}:{port} searches for {proxy.server.name}", flush=True)
        uvicorn.Server(uvicorn.Config(proxy, **SERVER)).run(sockets=[listener])


if __name__ == "__main__":
    sys.exit(main())
