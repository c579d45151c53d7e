"""A fake web for the tests of this package's users: no network, no keys, none of their files, the real loop.

>>> import ipy_websearch
>>> from ipy_websearch.testing import FakeWeb
>>> with FakeWeb() as web:
...     web.add_results("duckdb", ("https://duckdb.org/", "DuckDB", "DuckDB is an in-process database."))
...     web.reply(web.call("web_search", query="what is duckdb"))
...     web.reply("A database.")
...     answer = ipy_websearch.ask("What is DuckDB?")
>>> answer.text, web.queries
('A database.', ['what is duckdb'])

Inside the block, everything that shares the session (`ask`, `search`, `fetch`, `enrich`, `df.web`, magics, SQL functions) finds
one search provider with your results, your pages, and a model with your replies; without a reply, the offline model answers
from the results. Requests are checked as the API checks them (`check_request`), tools run, limits hold, costs are booked (apart
from yours, at the prices of the model named). A reply that is left over fails the block at its end. In a notebook,
`web = FakeWeb().start()` holds for all cells until `web.stop()`.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, ClassVar, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from ipy_websearch import api
from ipy_websearch.errors import FetchError, ModelError, ProviderError
from ipy_websearch.http.client import HttpClient, HttpResponse
from ipy_websearch.keys import Keys
from ipy_websearch.model.client import ModelClient, open_in_process
from ipy_websearch.model.offline.passages import Passage, cited_source, cited_text
from ipy_websearch.model.offline.rules import check as check_request, everywhere, turns
from ipy_websearch.model.offline.server import OfflineTransport, Reply, reply_to
from ipy_websearch.model.requests import PLATFORMS, Platform
from ipy_websearch.providers.base import ProviderContext, ProviderInfo, SearchRequest
from ipy_websearch.providers.router import SearchRouter, Target, provider_info
from ipy_websearch.results import Attempt, Charge, SearchResult, SearchResults
from ipy_websearch.session import Session
from ipy_websearch.settings import settings_in_force
from ipy_websearch.text import fold

if TYPE_CHECKING:
    from ipy_websearch.http.download import Download

__all__ = ["FakeWeb", "check_request"]

Result = SearchResult | tuple[str, ...]
Part = str | Mapping[str, Any]
_INFO = ProviderInfo("fake", "the fake provider", load=f"{__name__}:FakeWeb")


class FakeWeb:
    """The fake web; enter it with `with`. `queries` are the searches that reached it, `requests` the model's requests,
    `results` what searches find.

    A search costs `search_usd` US dollars and takes `search_s` seconds. `platform` is where the model seems to run, as in the
    setting of that name ("ollama": results reach it as plain text).
    """

    name: ClassVar[str] = "fake"

    def __init__(self, *, search_usd: Decimal | float | str = 0, search_s: float = 0.0, platform: str = "anthropic") -> None:
        self.search_usd = Decimal(str(search_usd))
        self.search_s = search_s
        self.platform = PLATFORMS[platform]
        self.queries: list[str] = []
        self.requests: list[Mapping[str, Any]] = []
        self._server: WSGIServer | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="ipy_websearch_", ignore_cleanup_errors=True)
        self.session = _Session(self, Path(self._folder.name))
        self.results: list[tuple[str, tuple[SearchResult, ...] | Exception]] = []
        self._pages: dict[str, str | bytes] = {}
        self._replies: deque[tuple[Part, ...] | ModelError] = deque()
        self._behaviour: Callable[[Mapping[str, Any]], Any] = lambda _: None
        self._ids = itertools.count(1)
        self._before: Session | None = None

    def add_results(self, words: str, *results: Result) -> None:
        """Give searches that contain `words` (any case; "": every search) these results: `SearchResult`s or (url, title, text).

        The first match in the order of addition counts; a search without one finds nothing.
        """
        made = (r if isinstance(r, SearchResult) else SearchResult(url=r[0], title=r[1], description=r[2]) for r in results)
        self.results.append((fold(words), tuple(made)))

    def fail_search(self, words: str = "", message: str = "the provider is down") -> None:
        """Let searches that contain `words` fail."""
        self.results.insert(0, (fold(words), ProviderError(message, provider="fake", status=503)))

    def add_page(self, url: str, content: str | bytes) -> None:
        """Put a page (HTML, or plain text) at an address; every other address fails."""
        self._pages[url] = content

    def reply(self, *parts: Part) -> None:
        """Queue the model's next reply: texts, and tool calls as `call` and `record` make them."""
        self._replies.append(parts)

    def fail(self, status: int = 529, message: str = "Overloaded") -> None:
        """Let the API refuse the model's next request; the package retries 429 and 5xx."""
        self._replies.append(ModelError(message, status=status))

    def behave(self, function: Callable[[Mapping[str, Any]], Any]) -> None:
        """Let `function` map requests without a queued reply to a part or a list of parts (None: the offline model answers)."""
        self._behaviour = function

    def call(self, tool: str, **values: Any) -> Part:
        """Return a tool call, as a part of a reply."""
        return {"type": "tool_use", "id": f"toolu_fake{next(self._ids):04}", "name": tool, "input": values}

    def cited(self, text: str, url: str, quote: str = "") -> Part:
        """Return text that cites the result at `url`, as a part of a reply; without `quote` its first paragraph."""
        return {"type": "text", "text": text, "citations": [{"source": url, "cited_text": quote}]}

    def record(self, **values: Any) -> Part:
        """Return the call that fills a row of `enrich`: each value bare, or with source, quote and confidence in a dict."""
        blank = {"value": None, "source": "", "quote": "", "confidence": 1.0}
        cells = {name: {**blank, **(v if isinstance(v, Mapping) else {"value": v})} for name, v in values.items()}
        return self.call("record", **cells)

    def answer(self, request: Mapping[str, Any]) -> Reply:
        """Return the model's reply and record the request."""
        self.requests.append(request)
        parts: Any = self._replies.popleft() if self._replies else self._behaviour(request)
        if isinstance(parts, ModelError):
            raise parts
        if parts is None:
            return reply_to(request)
        parts = parts if isinstance(parts, list | tuple) else (parts,)
        blocks = [{"type": "text", "text": part} if isinstance(part, str) else _with_places(part, request) for part in parts]
        return Reply(blocks, "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn")

    @property
    def price(self) -> tuple[Charge, ...]:
        """What a search costs: the fake web is its own search provider."""
        return (Charge(self.name, usd=self.search_usd),)

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results that were added for the query, and record it."""
        await asyncio.sleep(self.search_s)
        self.queries.append(request.query)
        found = next((found for words, found in self.results if words in fold(request.query)), ())
        if isinstance(found, Exception):
            raise found
        return SearchResults(found[: request.count], query=request.query, provider=self.name, charges=self.price)

    async def download(self, url: str, **_: Any) -> Download:
        """Return the page at an address, or raise `FetchError`."""
        from ipy_websearch.http.download import Download

        if url not in self._pages:
            raise FetchError(f"{url} cannot be fetched: the fake web has no such page")
        body = page if isinstance(page := self._pages[url], bytes) else page.encode()
        return Download(url, 200, "text/html" if body.lstrip()[:1] == b"<" else "text/plain", "utf-8", body)

    def client(self) -> Any:
        """Return an `anthropic.AsyncAnthropic` whose requests the fake model answers."""
        return open_in_process(reply=self.answer)

    def serve(self) -> str:
        """Serve the fake model to other programs on this machine until the end; return its address (an ANTHROPIC_BASE_URL)."""
        if self._server is None:
            self._server = make_server("127.0.0.1", 0, self._respond, _Server, _Quiet)
            threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def _respond(self, environ: Mapping[str, Any], begin: Callable[..., Any]) -> list[bytes]:
        """Answer a request that came over HTTP (a WSGI application)."""
        content = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0))
        response = OfflineTransport(self.answer).respond(environ["PATH_INFO"], content)
        begin(f"{response.status_code} {response.reason_phrase}", list(response.headers.items()))
        return [response.content]

    def start(self) -> Self:
        """Begin without a block, for several cells of a notebook; `stop` ends it."""
        self._before = api.use_session(self.session)
        return self

    def stop(self, kind: type[BaseException] | None = None, *_: object) -> None:
        """End as at the end of a block."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        api.end_session()
        api.use_session(self._before)
        self._folder.cleanup()
        assert not self._replies or kind, (
            f"{len(self._replies)} of the model's replies were never asked for: {[*self._replies]}"
        )

    __enter__, __exit__ = start, stop


def _with_places(part: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part as the API has it: its citations point to the results of the request that they quote."""
    blocks = [block for _, block in everywhere(turns(request["messages"])) if block["type"] == "search_result"]
    sources = [cited_source(block, n) for n, block in enumerate(blocks)]
    citations: list[Any] = []
    for citation in part.get("citations") or ():
        source = next((source for source in sources if source.url == citation["source"]), None)
        if source is None:
            raise ModelError(f"{citation['source']} was not given to the model, so it cannot be cited", status=400)
        quote = citation["cited_text"] or next(filter(None, source.paragraphs))
        at = next((n for n, text in enumerate(source.paragraphs) if quote in text), 0)
        citations += cited_text(Passage(source, at, quote), quote).get("citations", ())
    return {**part, "citations": citations} if citations else dict(part)


class _Server(ThreadingMixIn, WSGIServer):
    """Takes the requests of an enrichment, which come all at once."""

    daemon_threads, request_queue_size = True, 128


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Write nothing."""


class _Router(SearchRouter):
    """The real router with the fake provider alone in its chain, under every provider's name."""

    fake: Target

    def _usable(self, passed_over: list[Attempt], after: str = "", local_stands_in: bool = True) -> Iterator[Target]:
        yield from [] if after else [self.fake]

    def _named(self, provider: str) -> Target:
        if provider != self.fake.name and provider not in self._search_tools():
            provider_info(provider)  # an unknown name is an error here too
        return self.fake


class _Model(ModelClient):
    """The SDK's client of a Messages API inside this process."""

    def __init__(self, web: FakeWeb) -> None:
        super().__init__(api_key=lambda: None)
        self._web = web

    @property
    def platform(self) -> Platform:
        return replace(self._web.platform, name="the fake web", server_tools=False)

    def _client(self) -> Any:
        if () not in self._clients:
            self._clients[()] = open_in_process(reply=self._web.answer)
        return self._clients[()]


class _NoNetwork(HttpClient):
    async def request(self, method: str, url: str, *, provider: str, **options: Any) -> HttpResponse:
        raise ProviderError(f"{provider} cannot be reached: the fake web has no network", provider=provider)


class _Session(Session):
    """A session whose parts lead to the fake web, and whose files are in `folder`; its router too, when a cassette has it made
    anew."""

    def __init__(self, web: FakeWeb, folder: Path) -> None:
        super().__init__(settings_in_force())
        self._web = web
        self.data_dir = folder
        self.keys = Keys(folder, session={"ANTHROPIC_API_KEY": "key-of-the-fake-web"}, environ={}, keyring=False)
        self.download = web.download
        self.http = _NoNetwork(user_agent="ipy_websearch.testing")
        self.claude = _Model(web)

    @cached_property
    def router(self) -> SearchRouter:
        """The chain, of the fake provider alone."""
        router = _Router(
            ProviderContext(self.http, self.keys, self.data_dir),
            cache=self.cache,
            cache_ttl_s=lambda: self.settings.cache_ttl_s,
            search_tools=lambda: self.settings.search_tools,
        )
        router.fake = Target(self._web.name, _INFO, {}, self._web)
        return router
