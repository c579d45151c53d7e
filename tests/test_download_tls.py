"""Downloads over https: the judged address is dialled, under the page's own name, and its certificate counts."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from ipy_websearch.errors import FetchError
from ipy_websearch.http.download import download
from ipy_websearch.http.guard import tls_context
from tests.fakes.no_network import network_guard
from tests.fakes.raw_http import RawServer, answer, html

pytestmark = pytest.mark.anyio


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[trustme.CA]:
    """A certificate authority that this machine trusts, as a company's would be: through SSL_CERT_FILE."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls_context.cache_clear()
    for host in ("shop.example", "other.example"):
        network_guard.names[host] = ["127.0.0.1"]
    yield authority
    network_guard.names.clear()
    tls_context.cache_clear()


class SecureServer(RawServer):
    """A server whose certificate is for `names`; `asked_for` are the names that clients wanted to speak to (SNI)."""

    def __init__(self, authority: trustme.CA, names: list[str], answers: Any, host: str = "shop.example", **terms: Any) -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names, **terms).configure_cert(tls)
        self.asked_for: list[str | None] = []
        tls.sni_callback = lambda _socket, name, _context: self.asked_for.append(name)
        super().__init__(answers, tls=tls, host=host)


async def test_sni_host_header_and_certificate_keep_the_name(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is looked up once and the answer dialled; a second answer (rebinding) is never seen."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: Any, *rest: Any, **named: Any) -> Any:
        asked.append(host)
        found = real(host, *rest, **named)
        network_guard.names[host] = ["10.0.0.7"]
        return found

    async with SecureServer(authority, ["shop.example"], html("goods")) as server:
        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        got = await download(f"{server.base}/x", allow=server.allow)
    assert got.body == b"goods" and got.final_url == f"{server.base}/x"
    assert asked == ["shop.example"] == server.asked_for
    assert f"Host: {server.key}\r\n" in server.requests[0]


async def test_an_address_can_have_a_certificate_of_its_own(authority: trustme.CA) -> None:
    """The certificate is compared with the address then, and no name is sent."""
    async with SecureServer(authority, ["127.0.0.1"], html("x"), host="127.0.0.1") as server:
        assert (await download(server.base, allow=server.allow)).body == b"x"
    assert server.asked_for == [None]


BAD = {
    "another name": (["other.example"], {}, "Hostname mismatch"),
    "an address for a name": (["127.0.0.1"], {}, "Hostname mismatch"),
    "expired": (["shop.example"], {"not_after": datetime(2001, 1, 1, tzinfo=UTC)}, "certificate has expired"),
}


@pytest.mark.parametrize(("names", "terms", "said"), BAD.values(), ids=BAD)
async def test_a_wrong_certificate_is_an_error_that_says_why(
    names: list[str], terms: dict[str, Any], said: str, authority: trustme.CA
) -> None:
    """Nothing of the request has been sent by then."""
    async with SecureServer(authority, names, html("secret"), **terms) as server:
        with pytest.raises(
            FetchError, match=rf"the certificate of 'shop\.example' is not trusted \({said}.*\): {server.base}/"
        ):
            await download(server.base, allow=server.allow)
    assert server.requests == []


async def test_an_unknown_authority_is_not_trusted(authority: trustme.CA) -> None:
    """Nor is a certificate that vouches for itself."""
    async with SecureServer(trustme.CA(), ["shop.example"], html("secret")) as server:
        with pytest.raises(FetchError, match=r"the certificate of 'shop\.example' is not trusted \(unable to get local issuer"):
            await download(server.base, allow=server.allow)
    assert server.requests == []


async def test_hosts_behind_one_address_get_connections_of_their_own(authority: trustme.CA) -> None:
    """A redirect to another name at the same address and port is greeted by that name, and its certificate is looked at."""
    async with SecureServer(authority, ["shop.example"], {}) as server:
        other = f"other.example:{server.port}"
        server.answers = {"/a": answer("", "302 x", Location=f"https://{other}/b"), "/b": html("b")}
        with pytest.raises(FetchError, match=r"the certificate of 'other\.example' is not trusted"):
            await download(f"{server.base}/a", allow=server.allow | {other})
        assert server.asked_for == ["shop.example", "other.example"] and len(server.requests) == 1
