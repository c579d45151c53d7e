"""`python -m ipy_websearch.mcp` in a process of its own, over standard input and over HTTP, with the official client."""

import asyncio
import os
import socket
import subprocess
import time
from typing import Any

import httpx
from mcp import Client, StdioServerParameters, stdio_client

from tests.fakes import warm

ARGUMENTS = ["-m", "ipy_websearch.mcp"]


def searched(place: Any) -> str:
    """Search through a server and return the title of the best result."""

    async def main() -> Any:
        async with Client(place) as client:
            return await client.call_tool("search", {"query": "moons of Mars", "provider": "local"})

    return str(asyncio.run(main()).structured_content["results"][0]["title"])


def test_it_serves_standard_input() -> None:
    python, *arguments = [*warm.python(), *ARGUMENTS, "--budget", "0.5"]
    command = StdioServerParameters(command=python, args=arguments, env=dict(os.environ))
    assert searched(stdio_client(command)) == "Mars"


def test_http_is_for_programs_of_this_machine_alone() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}/mcp"
    with subprocess.Popen([*warm.python(), *ARGUMENTS, "--http", str(port)]) as process:
        try:
            while not listens(port):
                assert process.poll() is None
                time.sleep(0.05)
            assert searched(address) == "Mars"
            for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403)):
                refused = httpx.post(address, json={}, headers={"Accept": "application/json, text/event-stream", **headers})
                assert refused.status_code == status
        finally:
            process.terminate()


def listens(port: int) -> bool:
    """Return whether a server listens on loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
