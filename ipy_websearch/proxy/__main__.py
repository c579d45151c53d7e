"""`python -m ipy_websearch.proxy --upstream URL`: starts the proxy and prints its address."""

from __future__ import annotations

import argparse
import logging
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ipy_websearch.errors import ConfigError, WebSearchError
from ipy_websearch.model.platforms import PLATFORMS

if TYPE_CHECKING:
    from ipy_websearch.session import Session

PORT = 8787
_LAST_PORT = 65_535
# No access log: addresses may hold keys, and what people ask is theirs. `date` and `server` are the upstream's own. One reader
# of HTTP, whatever else is installed: the strict one.
SERVER: dict[str, Any] = {
    "http": "ipy_websearch.proxy.connections:Prompt",
    "ws": "none",
    "proxy_headers": False,
    "log_level": "warning",
    "access_log": False,
    "server_header": False,
    "date_header": False,
    "timeout_graceful_shutdown": 2,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proxy until it is interrupted; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        serve(options)
    except (WebSearchError, OSError) as exc:
        print(f"ipy_websearch.proxy: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def serve(options: argparse.Namespace) -> None:
    """Serve with parsed options.

    Raises:
        ConfigError: an option is wrong, or the extra is not installed.
        OSError: the port cannot be had.
    """
    try:
        import uvicorn

        from ipy_websearch.proxy.app import build_app
        from ipy_websearch.proxy.callers import is_loopback
    except ImportError as exc:
        raise ConfigError(f"the proxy needs {exc.name}: pip install 'ipy_websearch[proxy]'") from exc
    from ipy_websearch.interception.interceptor import WebSearchInterceptor
    from ipy_websearch.model.upstream_address import address_and_login

    _keep_quiet()
    upstream, _ = address_and_login(options.upstream)
    local = is_loopback(options.host)
    if not local and not options.allow_remote:
        raise ConfigError(f"--host is {options.host!r}, which others can reach; say --allow-remote if that is meant")
    interceptor = WebSearchInterceptor(
        provider=options.provider, search_tool_name=options.search_tool, max_uses=options.max_uses
    )
    _check(interceptor.session, options)
    app = build_app(options.upstream, interceptor, local_only=local)
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.create_server((options.host, options.port), family=family)
    there = urlsplit(upstream)
    if is_loopback(there.hostname or "") and there.port == listener.getsockname()[1]:
        listener.close()
        raise ConfigError(f"--upstream is {upstream!r}, this proxy itself; give the model's server, or another --port")
    host = f"[{options.host}]" if ":" in options.host else options.host
    print(f"http://{host}:{listener.getsockname()[1]} searches for {upstream}", flush=True)
    uvicorn.Server(uvicorn.Config(app, **SERVER)).run(sockets=[listener])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ipy_websearch.proxy",
        description="A local proxy for the Messages API that runs web searches for models without one.",
        epilog="Then: ANTHROPIC_BASE_URL=http://127.0.0.1:8787 claude",
    )
    upstream = "address of the server that speaks the Messages API (http://user:password@host logs in there as that user)"
    parser.add_argument("--upstream", required=True, help=upstream)
    parser.add_argument("--provider", help="search engine (default: those with a key, then Wikipedia, then local)")
    parser.add_argument("--search-tool", help="a named engine of the setting search_tools")
    parser.add_argument(
        "--platform",
        choices=[name for name in PLATFORMS if name != "offline"],
        metavar="NAME",
        help="what the server is, where its address does not say it: vllm, llamacpp, ollama, … (default: the setting platform)",
    )
    parser.add_argument("--max-uses", type=int, help="most searches in one request (default: the request's, or 10)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=_port, default=PORT, help=f"port (default: {PORT}; 0: any free one)")
    parser.add_argument("--allow-remote", action="store_true", help="let --host be an address that others can reach")
    return parser


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) <= _LAST_PORT):
        raise argparse.ArgumentTypeError(f"{text!r} is no port; it must be from 0 (any free one) to {_LAST_PORT}")
    return int(text)


def _check(session: Session, options: argparse.Namespace) -> None:
    """Look at the settings now: what is wrong with them shall be told here, and not to whoever asks first.

    Raises:
        ConfigError: a setting is wrong, or the engine that it names cannot be asked.
    """
    from ipy_websearch.providers.router import provider_to_ask

    settings = session.settings
    if options.platform:
        settings.platform = options.platform
    if not (options.provider or options.search_tool):
        engine, notes = provider_to_ask(None, settings.provider, settings.search_tools)
        session.router.check(engine)
        for note in notes:
            print(f"ipy_websearch.proxy: {note}", file=sys.stderr)


def _keep_quiet() -> None:
    """Turn off what `ANTHROPIC_LOG` turns on in the SDK: it writes down requests with their keys."""
    for name in ("anthropic", "httpx2"):
        logging.getLogger(name).setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
