"""Connections: a name is resolved once, every answer is judged, and only a judged address is dialled. Over loopback TCP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ipy_websearch.errors import BlockedAddressError, FetchError
from ipy_websearch.http.address import allow_from_environment
from ipy_websearch.http.client import HttpClient
from ipy_websearch.http.download import download
from tests.fakes.no_network import network_guard
from tests.fakes.raw_http import RawServer, answer, html

pytestmark = pytest.mark.anyio


@pytest.fixture
def name() -> Iterator[Callable[..., None]]:
    """A function that gives a name its addresses; connections to these end at a server on loopback."""

    def give(host: str, *addresses: str, to: RawServer) -> None:
        network_guard.names[host] = list(addresses)
        for address in addresses:
            network_guard.redirects[(address, 80)] = ("127.0.0.1", to.port)

    yield give
    network_guard.names.clear()
    network_guard.redirects.clear()


@pytest.mark.parametrize(
    "answers",
    ["127.0.0.1", "93.184.216.34 127.0.0.1", "10.0.0.5 93.184.216.34", "::1", "169.254.169.254", "64:ff9b::7f00:1"],
)
async def test_one_private_answer_of_the_resolver_refuses_the_host(answers: str, name: Any) -> None:
    async with RawServer(html("secret")) as inside:
        name("page.example", *answers.split(), to=inside)
        with pytest.raises(BlockedAddressError, match=r"'page\.example' leads to"):
            await download("http://page.example/")
        assert inside.connections == 0


async def test_the_connection_goes_to_the_judged_address_under_the_pages_name(name: Any, monkeypatch: Any) -> None:
    """A second answer of the resolver (rebinding) is never seen."""
    async with RawServer(html("public")) as public, RawServer(html("secret")) as inside:
        name("rebind.example", "93.184.216.34", to=public)
        network_guard.redirects[("127.0.0.1", 80)] = ("127.0.0.1", inside.port)
        asked: list[str] = []
        real = socket.getaddrinfo

        def once(host: Any, *rest: Any, **named: Any) -> Any:
            asked.append(host)
            found = real(host, *rest, **named)
            network_guard.names["rebind.example"] = ["127.0.0.1"]
            return found

        monkeypatch.setattr(socket, "getaddrinfo", once)
        assert (await download("http://rebind.example/x")).body == b"public"
        assert asked.count("rebind.example") == 1 and inside.connections == 0
        assert "Host: rebind.example\r\n" in public.requests[0]


async def test_an_address_that_does_not_answer_is_passed_over(name: Any, offline: Any) -> None:
    async with RawServer(html("second")) as server:
        name("page.example", "93.184.216.35", to=server)
        network_guard.names["page.example"].insert(0, "93.184.216.34")
        assert (await download("http://page.example/")).body == b"second"


async def test_the_environment_opens_private_addresses_but_no_metadata_service(name: Any, monkeypatch: Any) -> None:
    async with RawServer(html("intranet")) as inside:
        name("wiki.corp", "10.1.2.3", to=inside)
        name("trap.corp", "169.254.169.254", to=inside)
        monkeypatch.setenv("IPY_WEBSEARCH_FETCH_ALLOW", "WIKI.corp:80, trap.corp:80")
        allow = allow_from_environment()
        assert (await download("http://wiki.corp/", allow=allow)).body == b"intranet"
        with pytest.raises(BlockedAddressError, match="metadata"):
            await download("http://trap.corp/", allow=allow)
        assert inside.connections == 1


async def test_pages_use_no_proxy_of_the_environment_but_the_one_that_was_set(name: Any, monkeypatch: Any) -> None:
    async with RawServer(html("direct")) as server, RawServer(html("by proxy")) as proxy:
        name("page.example", "93.184.216.34", to=server)
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.setenv("HTTP_PROXY", proxy.base)
        assert (await download("http://page.example/")).body == b"direct" and proxy.connections == 0
        assert (await download("http://page.example/", proxy=proxy.base)).body == b"by proxy"
        assert proxy.requests[0].startswith("GET http://page.example/ ")
        with pytest.raises(BlockedAddressError):  # a literal is judged, whoever dials it
            await download("http://10.0.0.1/", proxy=proxy.base)


async def test_engines_use_the_proxies_of_the_environment_as_they_are_set_and_never_for_this_machine(monkeypatch: Any) -> None:
    async with RawServer(answer("{}")) as proxy, RawServer(answer("{}")) as local:
        engine = HttpClient(user_agent="tests/1")
        assert (await engine.request("GET", local.base, provider="searxng")).status == 200
        monkeypatch.setenv("NO_PROXY", "direct.example")
        monkeypatch.setenv("HTTP_PROXY", f"http://me:w%40rd@127.0.0.1:{proxy.port}")
        assert (await engine.request("GET", "http://engine.example/s", provider="brave")).status == 200
        assert (await engine.request("GET", local.base, provider="searxng")).status == 200
        await engine.aclose()
    assert proxy.requests[0].startswith("GET http://engine.example/s ") and "Basic bWU6d0ByZA==" in proxy.requests[0]
    assert len(proxy.requests) == 1 and len(local.requests) == 2


async def test_connections_are_kept_and_used_by_one_request_at_a_time() -> None:
    async with RawServer(answer("{}")) as server:
        engine = HttpClient(user_agent="tests/1")
        for _ in range(3):
            await engine.request("GET", server.base, provider="brave")
        assert server.connections == 1
        await asyncio.gather(*(engine.request("GET", server.base, provider="brave") for _ in range(4)))
        assert server.connections == 4 and len(server.requests) == 7
        await engine.aclose()


async def test_an_unknown_name_and_a_closed_port_are_told_apart(offline: list[str]) -> None:
    with pytest.raises(FetchError, match=r"its name is not known.*http://nowhere\.example/"):
        await download("http://nowhere.example/")
    with pytest.raises(FetchError, match=r"Connection refused"):
        await download("http://127.0.0.1:1/", allow=frozenset({"127.0.0.1:1"}))
