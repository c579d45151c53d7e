"""A pretended public web: names resolve to public addresses, and connections to these end at a server on loopback.

    web = PublicWeb().start()
    web.page("http://example.org/a", "<h1>Hello</h1>")

So the package's address checks run on the real values, over real TCP. Only http: there is no certificate.
"""

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.no_network import network_guard
from tests.fakes.server import Handler, Server, receive

FIRST_ADDRESS = "93.184.216."


@dataclass(slots=True)
class Page:
    """One answer: body, status and headers; `delay_s` before it."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0


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

    def page(self, url: str, body: str | bytes = "", *, status: int = 200, delay_s: float = 0.0, **headers: str) -> str:
        """Put a page on the web and return its address; underscores in header names become hyphens.

        Its host resolves to a public address of its own.
        """
        assert url.startswith("http://"), "the pretended web has no certificates: use http"
        host, _, path = url.removeprefix("http://").partition("/")
        name, _, port = host.partition(":")
        for address in network_guard.names.setdefault(name.lower(), [f"{FIRST_ADDRESS}{len(network_guard.names) + 10}"]):
            network_guard.redirects[(address, int(port or 80))] = ("127.0.0.1", self.port)
        sent = {"content_type": "text/html; charset=utf-8"} | headers
        fields = {name.replace("_", "-").title(): value for name, value in sent.items()}
        self.pages[f"{host}/{path}"] = Page(body.encode() if isinstance(body, str) else body, status, fields, delay_s)
        return url

    def redirect(self, url: str, target: str, status: int = 302) -> str:
        """Let one address lead to another."""
        return self.page(url, status=status, location=target)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await receive(request))
        page = self.pages.get(f"{request.host}{request.path_qs}")
        if page is None:
            return web.Response(status=404, text="<h1>Not found</h1>", content_type="text/html")
        await asyncio.sleep(page.delay_s)
        return web.Response(body=page.body, status=page.status, headers=page.headers)
