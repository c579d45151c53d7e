"""Firecrawl: search, pages and site maps: what is sent, how answers are read, and the credits they report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings

from ipy_websearch.errors import ProviderError, RateLimitedError, WebSearchError
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.firecrawl import FirecrawlProvider
from ipy_websearch.providers.firecrawl_pages import ScrapedPage, SiteMap
from ipy_websearch.providers.registry import create
from ipy_websearch.results import SearchResults
from ipy_websearch.usage import Charge
from tests.fakes.engine_checks import check_every_filter, check_sound, check_survives, context, damaged, odd_json, run, search
from tests.fakes.scripted import Scripted

WIRE = Path(__file__).parent / "data" / "wire" / "firecrawl"
KEY = "fc-fake-key-for-the-tests-0000"
FOUND: dict[str, Any] = {
    "success": True,
    "creditsUsed": 3,
    "data": {
        "web": [
            {
                "url": "https://a.example/",
                "title": "A",
                "description": "About A",
                "position": 1,
                "markdown": "# A\n\nText",
                "links": ["https://x.example/"],
            },
            {"url": "https://b.example/", "title": "B", "description": "About B", "position": 2},
        ],
        "news": [{"url": "https://n.example/", "title": "N", "snippet": "News", "date": "3 months ago"}],
    },
}


@pytest.fixture
def firecrawl(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A scripted server in the place of Firecrawl's, and a key."""
    with Scripted() as server:
        monkeypatch.setenv("FIRECRAWL_BASE_URL", server.url)
        monkeypatch.setenv("FIRECRAWL_API_KEY", KEY)
        yield server
        server.check()


def recorded(name: str) -> Any:
    """Return a recorded body."""
    return json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))


def scrape(url: str = "https://firecrawl.dev", **options: Any) -> ScrapedPage:
    """Return one page."""
    made = context()
    return run(cast(FirecrawlProvider, create("firecrawl", made)).scrape(url, **options), made)


def site_map(url: str = "https://a.example", **options: Any) -> SiteMap:
    """Return the addresses of a site."""
    made = context()
    return run(cast(FirecrawlProvider, create("firecrawl", made)).map(url, **options), made)


def search_pages(query: str = "a b", *, count: int = 3, **options: Any) -> tuple[SearchResults, tuple[ScrapedPage, ...]]:
    """Return results with their pages."""
    made = context()
    return run(
        cast(FirecrawlProvider, create("firecrawl", made)).search_pages(SearchRequest(query, count=count), **options), made
    )


# --- search -----------------------------------------------------------------------------------------------------------


def test_firecrawl_takes_every_filter(engine: Callable[[str], Any]) -> None:
    """A strict server refuses none of the requests that can be made."""
    engine("firecrawl")
    check_every_filter("firecrawl")


def test_a_search_sends_the_documented_body(firecrawl: Scripted) -> None:
    """Domains go natively; highlights are off, since they would turn snippets into Markdown; no page is scraped."""
    firecrawl.answer(FOUND)
    search("firecrawl", "a b", count=7, freshness="pw", country="uk", allowed_domains=("a.example", "b.example"))
    sent = firecrawl.requests[0]
    assert (sent.method, sent.path, sent.headers["authorization"]) == ("POST", "/v2/search", f"Bearer {KEY}")
    assert sent.body == {
        "query": "a b",
        "limit": 7,
        "sources": ["web"],
        "highlights": False,
        "tbs": "qdr:w",
        "includeDomains": ["a.example", "b.example"],
        "country": "GB",
        "timeout": 28_000,
    }
    search("firecrawl", "a b", freshness="2026-01-05to2026-06-30", blocked_domains=("c.example",))
    assert firecrawl.requests[1].body["tbs"] == "cdr:1,cd_min:01/05/2026,cd_max:06/30/2026"
    assert firecrawl.requests[1].body["excludeDomains"] == ["c.example"]


def test_results_are_read_and_credits_booked_as_reported(firecrawl: Scripted) -> None:
    """ "3 months ago" is no date; the credits are those of the answer, whatever the price list says."""
    firecrawl.answer(FOUND)
    results = search("firecrawl")
    assert [(r.title, r.description, r.published_date) for r in results] == [
        ("A", "About A", None),
        ("B", "About B", None),
        ("N", "News", None),
    ]
    assert results.charges == (Charge("firecrawl", units=Decimal(3), unit="credit"),) and results.raw == FOUND
    check_sound(results)


def test_without_a_report_the_list_price_is_booked(firecrawl: Scripted) -> None:
    """Two credits for up to ten results; flat lists of self-hosted servers are read too."""
    firecrawl.answer({"success": True, "data": [{"url": "https://a.example/", "title": "A"}], "warning": "slow today"})
    results = search("firecrawl")
    assert len(results) == 1 and str(results.charges[0].units) == "2" and results.notices == ("firecrawl: slow today",)


def test_a_failure_with_status_200_is_one(firecrawl: Scripted) -> None:
    """`success` says it."""
    firecrawl.answer({"success": False, "error": "Search is down"})
    with pytest.raises(ProviderError, match="^firecrawl: Search is down$"):
        search("firecrawl")


def test_search_with_pages_always_reads_them(firecrawl: Scripted) -> None:
    """The tool's form: results of every source, and the Markdown of those pages that could be read."""
    firecrawl.answer(FOUND)
    results, pages = search_pages(sources=("web", "news"), tbs="qdr:d", location="Germany", categories=("github",))
    body = firecrawl.requests[0].body
    assert body["scrapeOptions"] == {"formats": ["markdown", "links"], "onlyMainContent": True}
    assert (body["sources"], body["tbs"], body["location"], body["categories"]) == (
        ["web", "news"],
        "qdr:d",
        "Germany",
        ["github"],
    )
    assert len(results) == 3
    assert [(page.url, page.title, page.markdown, page.links) for page in pages] == [
        ("https://a.example/", "A", "# A\n\nText", ("https://x.example/",))
    ]


# --- pages ------------------------------------------------------------------------------------------------------------


def test_a_page_is_asked_for_without_its_frame(firecrawl: Scripted) -> None:
    """Markdown and links by default; a location goes as an object."""
    firecrawl.answer({"success": True, "data": {}})
    scrape("https://a.example/x")
    scrape("https://a.example/x", formats=["html"], location={"country": "DE", "languages": ["de"]})
    assert firecrawl.requests[0].path == "/v2/scrape"
    assert firecrawl.requests[0].body == {
        "url": "https://a.example/x",
        "formats": ["markdown", "links"],
        "onlyMainContent": True,
        "timeout": 28_000,
    }
    assert firecrawl.requests[1].body["location"] == {"country": "DE", "languages": ["de"]}


def test_a_recorded_page_is_read(firecrawl: Scripted) -> None:
    """Markdown as it is, the address that answered, one credit."""
    firecrawl.answer(recorded("crewai_scrape_website_0"))
    page = scrape()
    assert (page.title, page.url) == ("Firecrawl - The Web Data API for AI", "https://www.firecrawl.dev/")
    assert page.markdown == recorded("crewai_scrape_website_0")["data"]["markdown"].strip()
    assert (page.status, page.error, page.published_date) == (200, "", None)
    assert page.charges == (Charge("firecrawl", "fetch", Decimal(1), "credit"),)


def test_a_page_that_refuses_is_billed_and_marked(firecrawl: Scripted) -> None:
    """Firecrawl answers 200 for a page whose own server answered 403."""
    metadata = {"statusCode": 403, "creditsUsed": 5, "title": ["One", "Two"], "article:published_time": "2026-01-02T00:00:00Z"}
    firecrawl.answer({"success": True, "data": {"markdown": "Forbidden\x1b[31m", "metadata": metadata}})
    page = scrape("https://a.example/x")
    assert (page.status, page.error, page.title) == (403, "the page's server answered 403", "One")
    assert (page.url, page.markdown) == ("https://a.example/x", "Forbidden")
    assert page.published_date == datetime(2026, 1, 2, tzinfo=UTC)
    assert page.charges[0].units == 5


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (408, "Scrape timed out", "firecrawl answered 408: Scrape timed out"),
        (402, "Insufficient credits to perform this request.", "credits are used up: Insufficient credits"),
        (401, "Unauthorized: Invalid token", "the key was refused; .*%websearch key firecrawl"),
    ],
)
def test_refusals_say_what_to_do(firecrawl: Scripted, status: int, error: str, words: str) -> None:
    """Firecrawl's message, with what it means."""
    firecrawl.answer({"success": False, "error": error}, status=status)
    with pytest.raises(ProviderError, match=words) as caught:
        scrape()
    assert caught.value.status == status and len(firecrawl.requests) == 1


def test_a_rate_limit_goes_to_the_caller(firecrawl: Scripted) -> None:
    """429 is not asked again."""
    firecrawl.answer({"success": False, "error": "Rate limit exceeded."}, status=429, headers={"Retry-After": "24"})
    with pytest.raises(RateLimitedError) as caught:
        scrape()
    assert caught.value.retry_after == 24 and len(firecrawl.requests) == 1


# --- site maps --------------------------------------------------------------------------------------------------------


def test_a_site_map_is_asked_for_and_read(firecrawl: Scripted) -> None:
    """Objects and plain addresses, each address once, no more than asked for, one credit."""
    links = [
        {"url": "https://a.example/1", "title": "One", "description": "<b>first</b>"},
        {"url": "https://a.example/1"},
        "https://a.example/2",
        {"url": "javascript:x"},
        {"url": "https://a.example/3"},
    ]
    firecrawl.answer({"success": True, "links": links})
    found = site_map(limit=2, search="docs")
    assert firecrawl.requests[0].path == "/v2/map"
    assert firecrawl.requests[0].body == {
        "url": "https://a.example",
        "limit": 2,
        "includeSubdomains": False,
        "search": "docs",
        "timeout": 28_000,
    }
    assert [(link.url, link.title, link.description) for link in found.links] == [
        ("https://a.example/1", "One", "first"),
        ("https://a.example/2", "", ""),
    ]
    assert found.charges == (Charge("firecrawl", "map", Decimal(1), "credit"),)


@given(body=odd_json | damaged(FOUND) | damaged(recorded("crewai_scrape_website_0")))
@settings(max_examples=80)
def test_whatever_it_sends_nothing_but_our_errors_comes_out(body: Any) -> None:
    """Missing fields, nulls, wrong types and hostile text are read as far as they can be."""
    with Scripted() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRECRAWL_BASE_URL", server.url)
        patch.setenv("FIRECRAWL_API_KEY", KEY)
        server.answer(body)
        check_survives("firecrawl")
        for work in (scrape, site_map, search_pages):
            try:
                work()
            except WebSearchError as exc:
                assert "\n" not in str(exc)
