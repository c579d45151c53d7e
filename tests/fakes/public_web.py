"""A pretended public web: names resolve to public addresses, and connections to these end at a server on loopback.

    web = PublicWeb().start()
    web.page("http://example.org/a", "<h1>Hello</h1>")
    web.name("intranet.example", "10.0.0.7")

So the package's address checks run on the real values, over real TCP. Only http: there is no certificate.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.no_network import network_guard
from tests.fakes.server import Handler, Server, receive

FIRST_ADDRESS = "93.184.216."


@dataclass(slots=True)
class Page:
    """One answer: body, status and headers; `delay_s` before it, `piece_delay_s` between each of its 1,000-byte pieces."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    piece_delay_s: float = 0.0


class PublicWeb(Server):
    """The server behind every pretended host. Unknown hosts do not resolve, unknown paths are 404."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, Page] = {}

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve every path of every host."""
        return [("*", "/{rest:.*}", self._serve)]

    def stop(self) -> None:
        """Stop, and forget the names."""
        network_guard.names.clear()
        network_guard.redirects.clear()
        super().stop()

    def page(
        self,
        url: str,
        body: str | bytes = "",
        *,
        status: int = 200,
        delay_s: float = 0.0,
        piece_delay_s: float = 0.0,
        **headers: str,
    ) -> str:
        """Put a page on the web and return its address; underscores in header names become hyphens."""
        scheme, _, rest = url.partition("://")
        assert scheme == "http", "the pretended web has no certificates: use http"
        host = rest.split("/")[0]
        if host.split(":")[0] not in network_guard.names:
            self.name(host.split(":")[0])
        port = int(host.split(":")[1]) if ":" in host else 80
        for address in network_guard.names[host.split(":")[0]]:
            network_guard.redirects[(address, port)] = ("127.0.0.1", self.port)
        raw = body.encode() if isinstance(body, str) else body
        sent = {"content_type": "text/html; charset=utf-8"} | headers
        fields = {name.replace("_", "-").title(): value for name, value in sent.items()}
        self.pages[f"{host}/{rest.partition('/')[2]}"] = Page(raw, status, fields, delay_s, piece_delay_s)
        return url

    def redirect(self, url: str, target: str, status: int = 302) -> str:
        """Let one address lead to another."""
        return self.page(url, status=status, location=target)

    def name(self, host: str, *addresses: str) -> None:
        """Let a name resolve to these addresses, by default to a public one of its own."""
        chosen = list(addresses) or [f"{FIRST_ADDRESS}{len(network_guard.names) + 10}"]
        network_guard.names[host.lower()] = chosen

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        received = await receive(request)
        self.requests.append(received)
        page = self.pages.get(f"{request.host}{request.path_qs}")
        if page is None:
            return web.Response(status=404, text="<h1>Not found</h1>", content_type="text/html")
        await asyncio.sleep(page.delay_s)
        response = web.StreamResponse(status=page.status, headers=page.headers)
        await response.prepare(request)
        if not page.piece_delay_s:
            await response.write(page.body)
            return response
        for first in range(0, len(page.body), 1000):
            await response.write(page.body[first : first + 1000])
            await asyncio.sleep(page.piece_delay_s)
        return response
