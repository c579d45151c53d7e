"""Searching with one engine alone: its context, recorded and odd answers, and what every answer has to be.

brave_api.reply(body=recorded("brave/helmut_web"))
assert search("brave", "hello")[0].title and brave_api.requests[0].params["q"] == "hello"
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from datetime import UTC
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st

from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import Keys
from ipy_websearch.providers.base import ProviderContext, SearchRequest
from ipy_websearch.providers.router import create
from ipy_websearch.results import Charge, SearchResults
from tests.fakes.replies import WIRE

T = TypeVar("T")


def recorded(name: str) -> Any:
    """Return a recorded body, such as "brave/helmut_web"."""
    return json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))


def context(folder: Path | str = ".") -> ProviderContext:
    """Return a context whose keys and addresses are those of the environment."""
    keys = Keys(Path(folder) / "settings")
    http = HttpClient(user_agent="ipy_websearch-tests/1 (https://tests.example/)", secrets=keys.secrets)
    return ProviderContext(http, keys, Path(folder))


def run(work: Coroutine[Any, Any, T], made: ProviderContext) -> T:
    """Return what a coroutine gives, and close the context's connections."""

    async def and_close() -> T:
        try:
            return await work
        finally:
            await made.http.aclose()

    return asyncio.run(and_close())


def search(name: str, query: str = "window functions", **fields: Any) -> SearchResults:
    """Return what an engine gives for one search."""
    made = context()
    return run(create(name, made).search(SearchRequest(query, **fields)), made)


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
