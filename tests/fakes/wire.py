"""The engines' servers behind httpx's own mock transport, without a socket: scripted or recorded answers, and odd ones.

    brave = served("brave")              # the fixture sets the engine's keys
    brave.answer(recorded("brave/helmut_web"))
    assert search("brave", "hello").title and brave.requests[0].params["q"] == "hello"

Answers are used in order, path by path; the last one of a path stays. A host that is not served cannot be reached.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from hypothesis import strategies as st

from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import Keys
from ipy_websearch.providers.base import Provider, ProviderContext, SearchRequest
from ipy_websearch.providers.router import PROVIDERS, create
from ipy_websearch.results import Charge, SearchResults
from tests.fakes.replies import WIRE
from tests.fakes.server import Received

T = TypeVar("T")
AGENT = "ipy_websearch-tests/1 (https://tests.example/)"


def key_of(variable: str) -> str:
    """Return the key that a variable has in these tests."""
    return f"fake-{variable.lower()}-0000"


def recorded(name: str) -> Any:
    """Return a recorded body, such as "brave/helmut_web"."""
    return json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))


# What each engine answers when it finds nothing.
NO_HITS: dict[str, Any] = defaultdict(
    lambda: {"results": []},
    brave={"type": "search"},
    google={"kind": "customsearch#search"},
    firecrawl={"success": True, "data": {}},
    wikipedia={"query": {"search": []}},
)


@dataclass(slots=True)
class Service:
    """One engine's server: `requests` are what came in, `most_active` how many of them at once."""

    requests: list[Received] = field(default_factory=list)
    most_active: int = 0
    _answers: dict[str, list[tuple[Any, int, Mapping[str, str], float]]] = field(default_factory=lambda: defaultdict(list))
    _active: int = 0

    def answer(
        self, body: Any, *, path: str = "", status: int = 200, headers: Mapping[str, str] | None = None, delay_s: float = 0
    ) -> None:
        """Script the next answer on a path ("": on every path): bytes as they are, or JSON."""
        self._answers[path].append((body, status, headers or {}, delay_s))

    def forget(self) -> None:
        """Forget all answers and requests."""
        self._answers.clear()
        self.requests.clear()

    async def respond(self, request: httpx.Request) -> httpx.Response:
        """Return the next answer."""
        body = json.loads(request.content) if request.content else None
        self.requests.append(Received(request.method, request.url.path, dict(request.url.params), dict(request.headers), body))
        waiting = self._answers.get(request.url.path) or self._answers[""]
        answer, status, headers, delay_s = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        self._active += 1
        self.most_active = max(self.most_active, self._active)
        try:
            await asyncio.sleep(delay_s)
        finally:
            self._active -= 1
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return httpx.Response(status, headers={"content-type": "application/json", **headers}, content=data)


# The services by host; the fixture `served` fills and empties it.
SERVED: dict[str, Service] = {}


def host_of(name: str) -> str:
    """Return the host of an engine's default address; a server of one's own is at wiki.example or searx.example."""
    address = PROVIDERS[name].base_default or f"https://{name}.example"
    return str(urlsplit(address.replace("{lang}", "en")).netloc)


async def _route(request: httpx.Request) -> httpx.Response:
    if (service := SERVED.get(request.url.host)) is None:
        raise httpx.ConnectError("no such host")
    return await service.respond(request)


def context(folder: Path | str = ".", options: Mapping[str, Any] | None = None) -> ProviderContext:
    """Return a context whose keys are those of the environment; with nothing served, it uses the network."""
    keys = Keys(Path(folder) / "settings")
    transport = httpx.MockTransport(_route) if SERVED else None
    http = HttpClient(user_agent=AGENT, secrets=keys.secrets, transport=transport)
    return ProviderContext(http, keys, Path(folder), options or {})


def run(work: Coroutine[Any, Any, T], made: ProviderContext) -> T:
    """Return what a coroutine gives, and close the context's connections."""

    async def and_close() -> T:
        try:
            return await work
        finally:
            await made.http.aclose()

    return asyncio.run(and_close())


def search(
    name: str, query: str = "window functions", *, options: Mapping[str, Any] | None = None, **fields: Any
) -> SearchResults:
    """Return what an engine gives for one search."""
    made = context(options=options)
    engine: Provider = create(name, made)
    return run(engine.search(SearchRequest(query, **fields)), made)


# Fields under the names that engines use, with anything in them: what a changed or broken engine might send.
_NAMES = st.sampled_from(
    str.split(
        "web results items query search pages title url link description snippet snippets content date page_age age rich "
        "hint callback_key grounding generic sources data news error detail meta score publishedDate published_date pagemap "
        "metatags answers unresponsive_engines costDollars total usage credits creditsUsed altered extra_snippets text "
        "highlights pageid extract timestamp metadata markdown links success"
    )
)
_TEXTS = st.sampled_from(
    [
        *("", "<b>x</b>&amp;\x1b[31m", "https://a.example/x", "http://[", "javascript:alert(1)", "3 days ago", "\ud800"),
        *("2026-01-01T00:00:00", "2026-13-01T00:00:00", "2026-01-01T00:00:00+99:00", "0001-01-01T00:00:00Z"),
        *("Tue, 11 Mar 2025 10:00:00 GMT", "Tue, 99 Mar 2025 10:00:00 GMT"),
    ]
) | st.text(max_size=20)
odd_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=6),
    max_leaves=25,
)


def check_sound(results: SearchResults) -> None:
    """Check that every field is of its type, plain, and of its length."""
    for result in results:
        assert result.url.startswith(("http://", "https://")) and " " not in result.url
        for text in (result.title, result.description, *result.extra_snippets):
            assert isinstance(text, str) and "\x1b" not in text and len(text) <= 2_000
        assert result.published_date is None or result.published_date.tzinfo is UTC
        assert result.score is None or isinstance(result.score, float)
        assert len(result.extra_snippets) <= 5 and "" not in result.extra_snippets
    assert all(isinstance(charge, Charge) and charge.provider for charge in results.charges)


# Fields of requests that between them use everything a request can have.
EVERY_FILTER: tuple[dict[str, Any], ...] = (
    {},
    {"count": 1},
    {"count": 50},
    *({"freshness": period} for period in ("pd", "pw", "pm", "py", "2026-01-05to2026-06-30")),
    *({"country": code} for code in ("us", "GB", "uk", "de", "tw", "ALL")),
    *({"language": code} for code in ("en", "de", "ja", "zh", "zh-TW", "pt-BR", "ALL")),
    {"country": "ch", "language": "de"},
    *({"safe_search": level} for level in ("off", "moderate", "strict")),
    {"allowed_domains": ("a.example",)},
    {"allowed_domains": tuple(f"site{n}.example" for n in range(1, 30))},
    {"blocked_domains": ("a.example",)},
    {"blocked_domains": tuple(f"spam{n}.example" for n in range(160))},
    {"goggles": ("$discard\n$boost=3,site=docs.python.org",)},
)
