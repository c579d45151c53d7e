"""Downloads: what comes back, and what is never connected to."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ipy_websearch.errors import BlockedAddressError, FetchError
from ipy_websearch.http.download import allow_from_environment, download
from ipy_websearch.http.guard import Gate, guarded_session
from tests.fakes.no_network import network_guard
from tests.fakes.raw_http import RawServer, answer, html

pytestmark = pytest.mark.anyio


@pytest.fixture
def pretended_web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A function that gives a name its addresses; connections to public ones end at a loopback port, unseen by the code."""
    dialled: dict[int, Any] = {}
    real_connect, real_peer = socket.socket.connect, socket.socket.getpeername

    def connect(self: socket.socket, address: Any) -> None:
        dialled[id(self)] = address
        real_connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "getpeername", lambda self: dialled.get(id(self)) or real_peer(self))

    def name(host: str, *addresses: str, to: RawServer | None = None) -> None:
        network_guard.names[host] = list(addresses)
        for address in addresses if to else ():
            network_guard.redirects[(address, 80)] = ("127.0.0.1", to.port)

    yield name
    network_guard.names.clear()
    network_guard.redirects.clear()


async def failure(server: RawServer, path: str = "/", **options: Any) -> str:
    """Return the text of the error that a download ends with."""
    with pytest.raises(FetchError) as caught:
        await download(server.base + path, allow=server.allow, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_a_page_comes_back_with_what_is_known_about_it() -> None:
    """Body, type, charset, status, headers, and the address without its fragment."""
    page = answer("grüße".encode("latin-1"), Content_Type='Text/HTML; Charset="ISO-8859-1"', X_Note="a\x1b[31mb")
    async with RawServer({"/p": page}) as server:
        got = await download(f"{server.base}/p?q=1#part", allow=server.allow, user_agent="test/1")
    assert got.body.decode("latin-1") == "grüße"
    assert (got.content_type, got.charset, got.status) == ("text/html", "iso-8859-1", 200)
    assert got.url.endswith("#part") and got.final_url == f"{server.base}/p?q=1"
    assert got.headers["x-note"] == "ab"
    request = server.requests[0]
    assert request.startswith("GET /p?q=1 HTTP/1.1\r\n") and f"Host: {server.key}\r\n" in request
    assert "User-Agent: test/1\r\n" in request and "Accept-Encoding: gzip, deflate\r\n" in request


async def test_nothing_about_the_user_is_told_to_a_server(
    pretended_web: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """No cookies kept between hops, no .netrc, no Referer; proxies of the environment are not used."""
    async with RawServer({}) as server, RawServer(html("proxy")) as proxy:
        pretended_web("page.example", "93.184.216.34", to=server)
        (tmp_path / "netrc").write_text("machine page.example login ann password secret\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        monkeypatch.delenv("NO_PROXY")
        for name in ("http_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.base)
        server.answers = {
            "/a": answer(status="302 Found", Location="/b", Set_Cookie="id=1; Path=/"),
            "/b": html("end", Set_Cookie="id=2"),
        }
        assert (await download("http://page.example/a")).body == b"end"
        assert proxy.connections == 0
    assert len(server.requests) == 2
    for request in server.requests:
        names = {line.partition(":")[0].lower() for line in request.split("\r\n")[1:] if line}
        assert names == {"host", "user-agent", "accept", "accept-encoding"}


async def test_the_connector_dials_nothing_that_was_not_admitted() -> None:
    """An IP address in a URL goes past the resolver; the gate before the socket stops it all the same."""
    async with RawServer(html("secret")) as inside, guarded_session(Gate(frozenset()), {}) as session:
        with pytest.raises(BlockedAddressError, match="was not judged"):
            await session.get(inside.base)
        assert inside.connections == 0


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_redirects_are_followed(status: str) -> None:
    """Relative, absolute and without a scheme; the final address is told."""
    async with RawServer({}) as server:
        server.answers = {
            "/a/1": answer(status=status, Location="../b?x=1"),
            "/b": answer(status=status, Location=f"//{server.key}/c d"),
            "/c%20d": html("end"),
        }
        got = await download(server.base + "/a/1", allow=server.allow)
    assert got.final_url == f"{server.base}/c%20d" and got.body == b"end"
    assert server.connections == 1


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.1:{port}/", "//127.0.0.1:{port}/", "http://localhost:{port}/", "http://0x7f.1:{port}/"]
    + ["http://[::ffff:127.0.0.1]:{port}/", "http://a@127.0.0.1:{port}/", "file:///etc/passwd", "gopher://127.0.0.1:{port}/"]
    + ["http://169.254.169.254/latest/meta-data/", "javascript:alert(1)", "/a\tb", "http://127.0.0.1:{port}\\@example.com/"],
)
async def test_each_redirect_is_judged_like_a_first_address(location: str) -> None:
    """A public page cannot send the reader into the private network: no connection is tried."""
    async with RawServer(html("secret")) as inside, RawServer({}) as server:
        server.answers = {"/": answer(status="302 Found", Location=location.format(port=inside.port))}
        with pytest.raises(BlockedAddressError):
            await download(server.base, allow=server.allow)
        assert inside.connections == 0


async def test_a_redirect_to_a_private_address_is_named_without_advice(pretended_web: Any) -> None:
    """The page chose it, so it is told which page it was, not how to open it; an address of the user's comes with advice."""
    async with RawServer(html("secret")) as inside, RawServer({}) as server:
        pretended_web("inner.example", "10.0.0.7", to=inside)
        server.answers = {"/": answer(status="302 Found", Location=f"http://127.0.0.1:{inside.port}/x")}
        server.answers["/name"] = answer(status="302 Found", Location="http://inner.example/x")
        server.answers["/on"] = answer(status="302 Found", Location="/")
        for path, rule in (("/", "loopback"), ("/on", "loopback"), ("/name", "private")):
            said = await failure(server, path)
            assert f"the page redirects to an address that may not be fetched: {server.base}{path} (" in said
            assert rule in said and "ALLOW" not in said and "to open it" not in said
        for url in (f"{inside.base}/x", "http://inner.example/x"):
            with pytest.raises(BlockedAddressError, match="; to open it, set IPY_WEBSEARCH_FETCH_ALLOW=") as caught:
                await download(url)
            assert "redirects" not in str(caught.value)
        assert inside.connections == 0


async def test_a_redirect_loop_ends() -> None:
    """After five hops, or as many as were allowed."""
    async with RawServer(answer(status="302 Found", Location="/again")) as server:
        assert "more than 5 redirects" in await failure(server)
        assert len(server.requests) == 6
        assert "more than 0 redirects" in await failure(server, max_redirects=0)


async def test_a_redirect_to_nowhere_is_an_error() -> None:
    """It says so, instead of giving an empty page."""
    async with RawServer(answer(status="302 Found")) as server:
        assert "answered 302 Found without saying where to" in await failure(server)


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        ["93.184.216.34", "127.0.0.1"],
        ["10.0.0.5", "93.184.216.34"],
        ["::1"],
        ["169.254.169.254"],
        ["64:ff9b::7f00:1"],
    ],
)
async def test_one_bad_answer_of_the_resolver_refuses_the_host(answers: list[str], pretended_web: Any) -> None:
    """Also when the other answers are public; nothing is connected to."""
    async with RawServer(html("secret")) as inside:
        pretended_web("page.example", *answers, to=inside)
        with pytest.raises(BlockedAddressError, match=r"'page\.example' leads to"):
            await download("http://page.example/")
        assert inside.connections == 0


async def test_the_connection_goes_to_the_address_that_was_judged(pretended_web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is looked up once, so a second answer (rebinding) is never seen; the Host header keeps the name."""
    async with RawServer(html("public")) as public, RawServer(html("secret")) as inside:
        pretended_web("rebind.example", "93.184.216.34", to=public)
        network_guard.redirects[("127.0.0.1", 80)] = ("127.0.0.1", inside.port)
        asked: list[str] = []
        real = socket.getaddrinfo

        def once(host: Any, *rest: Any, **named: Any) -> Any:
            asked.append(host)
            found = real(host, *rest, **named)
            network_guard.names["rebind.example"] = ["127.0.0.1"]
            return found

        monkeypatch.setattr(socket, "getaddrinfo", once)
        got = await download("http://rebind.example/x")
        assert got.body == b"public" and got.final_url == "http://rebind.example/x"
        assert asked == ["rebind.example"] and inside.connections == 0
        assert "Host: rebind.example\r\n" in public.requests[0]


async def test_a_socket_that_ended_up_elsewhere_gets_no_request(pretended_web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer is looked at once more when the connection stands, before anything is written."""
    async with RawServer(html("secret")) as inside:
        pretended_web("page.example", "93.184.216.34", to=inside)
        monkeypatch.setattr(socket.socket, "getpeername", lambda self: ("127.0.0.1", 80))
        with pytest.raises(BlockedAddressError, match=r"127\.0\.0\.1"):
            await download("http://page.example/")
        assert inside.requests == []


async def test_the_environment_opens_private_addresses(pretended_web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name on the list may lead into the private network, but not to a metadata service."""
    async with RawServer(html("intranet")) as inside:
        pretended_web("wiki.corp", "10.1.2.3", to=inside)
        pretended_web("trap.corp", "169.254.169.254", to=inside)
        monkeypatch.setenv("IPY_WEBSEARCH_FETCH_ALLOW", "WIKI.corp:80, trap.corp:80")
        allow = allow_from_environment()
        assert (await download("http://wiki.corp/", allow=allow)).body == b"intranet"
        with pytest.raises(BlockedAddressError, match="metadata"):
            await download("http://trap.corp/", allow=allow)
        with pytest.raises(BlockedAddressError):
            await download("http://wiki.corp/")
        assert inside.connections == 1


async def test_an_unknown_name_is_an_error(offline: list[str]) -> None:
    """It names the host."""
    with pytest.raises(FetchError, match=r"the host name 'nowhere\.example' could not be resolved"):
        await download("http://nowhere.example/")
