"""Serves the tools over standard input and output, or over HTTP on this machine."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress

try:
    from ipy_websearch.mcp import serve
except ImportError as exc:
    raise SystemExit(str(exc)) from None
from ipy_websearch.session import Session


def main() -> None:
    """Serve until the agent or the user ends it."""
    parser = argparse.ArgumentParser(prog="python -m ipy_websearch.mcp", description="Web search and cited answers for agents.")
    parser.add_argument("--http", type=int, metavar="PORT", help="serve http://127.0.0.1:PORT/mcp instead of standard input")
    parser.add_argument("--budget", type=float, metavar="USD", help="US dollars that this process may spend in all")
    options = parser.parse_args()
    session = Session()
    if options.budget is not None:
        session.settings.session_budget_usd = options.budget
    try:
        with suppress(KeyboardInterrupt):
            serve(session, options.http)
    finally:
        asyncio.run(session.aclose())


main()
