"""The engines alike (the request each is sent, how recorded answers are read, refusals), and the chain of them."""

import asyncio
import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st

from ipy_websearch.errors import ConfigError, ProviderError, RateLimitedError
from ipy_websearch.http.client import Cache
from ipy_websearch.providers import base
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.brave import BraveProvider
from ipy_websearch.providers.local import LocalProvider
from ipy_websearch.providers.router import SearchRouter, create, plugins, provider_to_ask
from ipy_websearch.providers.wikipedia import search_words
from ipy_websearch.results import Charge, SearchResults
from tests.fakes.engines import (
    EVERY_FILTER,
    check_sound,
    context,
    hit,
    odd_json,
    recorded,
    run,
    search,
)

ALL = ["brave", "google", "firecrawl", "tavily", "perplexity", "exa", "searxng", "wikipedia"]
FULL = {"freshness": "pw", "country": "uk", "language": "de-CH", "safe_search": "strict", "count": 7}
PERPLEXITY = {
    "results": [
        {"title": "A", "url": "https://a.example/", "snippet": "# A\n\nText &amp; more", "date": "2026-03-01"},
        {"title": "B", "url": "https://b.example/", "snippet": "word " * 2_000, "last_updated": "2026-05-05"},
    ]
}
FIRECRAWL = {
    "success": True,
    "creditsUsed": 3,
    "data": {
        "web": [{"url": "https://a.example/", "title": ["A"], "description": "About <b>A</b>", "markdown": "# A\n\nText"}],
        "news": [{"url": "https://n.example/", "title": "N", "snippet": "News", "date": "3 months ago"}],
    },
}


@pytest.mark.parametrize("name", ALL)
def test_a_strict_server_refuses_none_of_the_requests_that_can_be_made(engine: Callable[[str], Any], name: str) -> None:
    engine(name)
    for fields in EVERY_FILTER:
        results = search(name, **fields)
        check_sound(results)
        assert len(results) <= fields.get("count", 5)
    assert "the query was cut" in str(search(name, "palaeontology " * 300).notices)


SPAM = tuple(f"spam{n}.example" for n in range(300))  # more than fit into an address


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        (
            "brave",
            FULL,
            {"q": "a b", "count": "7", "freshness": "pw", "country": "GB", "search_lang": "de", "safesearch": "strict"},
        ),
        ("brave", {"language": "ja"}, {"search_lang": "jp", "extra_snippets": "true", "enable_rich_callback": "1"}),
        ("brave", {"blocked_domains": ("a.com",)}, {"goggles": "$discard,site=a.com", "text_decorations": "false"}),
        (
            "brave",
            {"blocked_domains": SPAM},
            {"goggles": ["\n".join(f"$discard,site={domain}" for domain in SPAM)]},
        ),  # is posted
        ("google", FULL, {"q": "a b", "num": "7", "dateRestrict": "w1", "gl": "uk", "lr": "lang_de", "safe": "active"}),
        ("google", {"allowed_domains": ("a.com",)}, {"q": "a b", "siteSearch": "a.com", "siteSearchFilter": "i"}),
        ("google", {"allowed_domains": ("a.com", "b.org")}, {"q": "a b (site:a.com OR site:b.org)"}),
        ("google", {"freshness": "2026-01-05to2026-06-30"}, {"sort": "date:r:20260105:20260630"}),
        ("firecrawl", FULL, {"query": "a b", "limit": 7, "tbs": "qdr:w", "country": "GB", "highlights": False}),
        ("firecrawl", {"freshness": "2026-01-05to2026-06-30"}, {"tbs": "cdr:1,cd_min:01/05/2026,cd_max:06/30/2026"}),
        ("firecrawl", {"allowed_domains": ("a.com",)}, {"includeDomains": ["a.com"], "sources": ["web"], "timeout": 28_000}),
        ("tavily", FULL, {"query": "a b", "max_results": 7, "time_range": "week", "country": "united kingdom"}),
        ("tavily", {"blocked_domains": ("a.com",)}, {"exclude_domains": ["a.com"], "include_usage": True}),
        (
            "perplexity",
            FULL,
            {"query": "a b", "search_recency_filter": "week", "country": "GB", "search_language_filter": ["de"]},
        ),
        ("perplexity", {"blocked_domains": ("a.com",)}, {"search_domain_filter": ["-a.com"], "max_results": 5}),
        ("exa", FULL, {"query": "a b", "type": "auto", "numResults": 7, "userLocation": "GB", "moderation": True}),
        ("exa", {"freshness": "2026-01-05to2026-06-30"}, {"endPublishedDate": "2026-06-30T23:59:59.999Z"}),
        ("searxng", FULL, {"q": "a b", "format": "json", "language": "de-CH", "time_range": "week", "safesearch": "2"}),
        ("searxng", {"blocked_domains": ("a.com", "b.org")}, {"q": "a b -site:a.com -site:b.org", "safesearch": "1"}),
        ("wikipedia", {"count": 7}, {"list": "search", "srsearch": "a b", "srlimit": "7", "formatversion": "2"}),
    ],
)
def test_a_search_sends_the_documented_parameters(
    engine: Callable[[str], Any], name: str, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Under the engine's own names, in the query or as JSON; a wrong key, or a wrong place for it, is refused."""
    server = engine(name)
    server.reply([])
    assert len(search(name, "a b", **fields)) == 0
    sent = server.requests[0]
    assert expected.items() <= (sent.body or sent.params).items() and not (sent.body and sent.params)


@pytest.mark.parametrize(
    ("name", "body", "most", "first", "charge"),
    [
        (
            "brave",
            recorded("brave/helmut_web"),
            20,
            {
                "title": '"Hello, World!" program - Wikipedia',
                "url": "https://en.wikipedia.org/wiki/%22Hello,_World!%22_program",
                "published_date": datetime(2024, 12, 27, 15, 49, 55, tzinfo=UTC),
                "score": None,
            },
            Charge("brave"),
        ),
        (
            "google",
            recorded("google_cse/vscode_google_inserter_items"),
            10,
            {"published_date": datetime(2015, 10, 22, tzinfo=UTC)},
            Charge("google"),
        ),
        (
            "tavily",
            recorded("tavily/pydantic_ai_test_basic_search"),
            5,
            {"title": "Pydantic AI: Agent Framework", "score": 0.9999875, "published_date": None},
            Charge("tavily", unit="credit"),
        ),
        (
            "exa",
            recorded("exa/crewai_search_text_0"),
            10,
            {"published_date": datetime(2025, 12, 29, tzinfo=UTC), "score": None},
            Charge("exa", usd=Decimal("0.015")),
        ),
        (
            "searxng",
            recorded("searxng/local_two_engines"),
            20,
            {"url": "https://en.wikipedia.org/wiki/Python%20(programming%20language)", "score": 1.0, "published_date": None},
            Charge("searxng"),
        ),
        (
            "wikipedia",
            recorded("wikipedia/wikipedia_api_test_default"),
            10,
            {"url": "https://en.wikipedia.org/wiki/Python_%28programming_language%29", "published_date": None, "score": None},
            Charge("wikipedia", usd=Decimal(0)),
        ),
        (
            "perplexity",
            PERPLEXITY,
            2,
            {"description": "# A Text & more", "published_date": datetime(2026, 3, 1, tzinfo=UTC)},
            Charge("perplexity"),
        ),
        (
            "firecrawl",
            FIRECRAWL,
            2,
            {"title": "A", "description": "About A"},
            Charge("firecrawl", units=Decimal(3), unit="credit"),
        ),
    ],
)
def test_a_recorded_answer_becomes_plain_results(
    engine: Callable[[str], Any], name: str, body: Any, most: int, first: dict[str, Any], charge: Charge
) -> None:
    """Tags and entities are gone, dates are aware UTC and never made up, and what the answer reports is booked."""
    engine(name).reply(body=body)
    results = search(name, "hello world", count=20)
    assert 2 <= len(results) <= most and results.provider == name and results.charges == (charge,)
    assert {field: getattr(results[0], field) for field in first} == first
    assert results.raw == body
    check_sound(results)


@pytest.mark.parametrize(
    ("name", "status", "body", "words", "reason"),
    [
        ("brave", 422, {"error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}}, "the key was refused; .*%websearch key brave", "key"),
        ("brave", 403, {"error": {"detail": "Not in your plan"}}, "does not allow this: Not in your plan", "key"),
        ("brave", 422, {"error": {"code": "VALIDATION", "detail": "Unable to validate"}}, "422: Unable to validate", "request"),
        ("google", 400, {"error": {"message": "API key not valid."}}, "the key was refused; .*%websearch key google", "key"),
        (
            "google",
            400,
            {"error": {"message": "Request contains an invalid argument."}},
            "GOOGLE_SEARCH_ENGINE_ID right",
            "request",
        ),
        ("google", 429, {"error": {"message": "Quota exceeded for 'Queries per day'"}}, "per day", "quota"),
        ("firecrawl", 402, {"success": False, "error": "Insufficient credits"}, "credits are used up: Insufficient", "credit"),
        ("firecrawl", 200, {"success": False, "error": "Search is down"}, "^firecrawl: Search is down$", "server"),
        ("firecrawl", 200, {"success": True, "data": {"web": {}}}, "no results that can be read", "server"),
        ("tavily", 432, {"detail": {"error": "Over the limit."}}, "limit is used up: Over the limit", "credit"),
        ("perplexity", 401, b"<html><title>401 Authorization Required</title></html>", "refused.*401 Authorization", "key"),
        ("perplexity", 422, {"detail": [{"msg": "field required"}]}, "422: field required", "request"),
        ("exa", 402, {"error": "no", "tag": "NO_MORE_CREDITS"}, "the plan's credits are used up: no", "credit"),
        ("exa", 503, {"error": "busy"}, r"answered 503 \(asked 3 times\): busy; try again later", "server"),
        ("searxng", 403, b"<title>403</title>", "add `json` to `search.formats`", "key"),
        ("searxng", 200, recorded("searxng/local_all_unresponsive"), "did not answer: slowone: Suspended: timeout", "server"),
        ("searxng", 200, {"results": [], "unresponsive_engines": ["bing"]}, "did not answer: bing", "server"),
        ("wikipedia", 200, {"error": {"code": "x", "info": "<b>busy</b>"}}, "^wikipedia: busy$", "server"),
        ("wikipedia", 200, {"error": {"code": "ratelimited", "info": "too many"}}, "too many", "rate"),
    ],
)
def test_a_refusal_says_what_to_do_and_its_kind(
    engine: Callable[[str], Any], name: str, status: int, body: Any, words: str, reason: str
) -> None:
    """In one line without the key; only 5xx is asked again."""
    server = engine(name)
    server.fail(status, times=3 if status == 503 else 1, body=body)
    with pytest.raises(ProviderError, match=words) as caught:
        search(name)
    assert (caught.value.reason, caught.value.permanent) == (reason, reason in ("key", "credit", "quota"))
    assert len(server.requests) == (3 if status == 503 else 1) and server.key not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "words", "wait", "reason"),
    [
        ({}, "per month is used up$", None, "quota"),
        ({"X-RateLimit-Reset": "1, 1419704", "X-RateLimit-Remaining": "0, 800"}, "per second", 1.0, "rate"),
        ({"X-RateLimit-Reset": "1, 1000", "X-RateLimit-Remaining": "1, 0"}, "per month", 1000.0, "quota"),
        ({"X-RateLimit-Remaining": "1, 0"}, "per month is used up$", None, "quota"),
        ({"X-RateLimit-Remaining": "49, 0", "X-RateLimit-Limit": "50, 0"}, "per second", 1.0, "rate"),
        ({"Retry-After": "7"}, r"per second was passed; ask again in 7\.0 s", 7.0, "rate"),
        ({"Retry-After": "400000"}, r"the plan's limit is used up; ask again at 20\d\d-", 400_000.0, "quota"),
    ],
)
def test_brave_tells_a_busy_second_from_a_used_up_month(
    brave_api: Any, headers: Any, words: str, wait: float | None, reason: str
) -> None:
    """The first passes at once, the other is an outage that nobody waits for; without headers the body tells."""
    meta = {} if headers else {"quota_limit": 2_000, "quota_current": 2_000}
    brave_api.fail(429, body={"error": {"code": "RATE_LIMITED", "meta": meta}}, headers=headers)
    with pytest.raises(RateLimitedError, match=words) as caught:
        search("brave")
    assert (caught.value.retry_after, caught.value.reason, len(brave_api.requests)) == (wait, reason, 1)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"error": {"message": "some words", "code": "X"}},
        {"web": 5, "items": {}, "results": "x", "data": 3, "query": {"search": 1}},
        {"web": {"results": [1]}, "items": [{"link": None}], "results": ["x"], "data": [None], "query": {"search": [{}]}},
    ],
)
def test_an_answer_without_results_is_a_failure_and_not_nothing_found(
    engine: Callable[[str], Any], name: str, body: Any
) -> None:
    """An error object under status 200, fields of a wrong type, and results that cannot be read."""
    engine(name).reply(body=body)
    with pytest.raises(ProviderError, match=f"^{name}: (the answer holds no .*; check {name.upper()}|some words)") as caught:
        search(name)
    assert caught.value.reason == "server" and caught.value.lost is ("error" not in body)


def test_each_address_is_one_result(engine: Callable[[str], Any]) -> None:
    """The first one counts; what is no address of the web is left out."""
    urls = ["https://a.example/"] * 2 + ["javascript:alert(1)", "/b", "https://a.example:99999/", "http://b.example"]
    engine("exa").reply(body={"results": [{"url": url, "title": f"T{n}", "text": "one<br>two"} for n, url in enumerate(urls)]})
    found = [(hit.title, hit.url, hit.description) for hit in search("exa", count=9)]
    assert found == [("T0", urls[0], "one two"), ("T5", urls[5], "one two")]


@pytest.mark.parametrize(
    ("name", "fields", "notices"),
    [
        ("brave", {"country": "vn", "language": "eo"}, ["no country 'VN'; the results of all", "no language 'eo'"]),
        ("google", {"goggles": ("$discard",), "count": 20}, ["at most 10 results, not 20", "cannot apply goggles; ignored"]),
        ("tavily", {"country": "zz", "language": "de"}, ["cannot apply language", "knows no country 'zz'"]),
        (
            "searxng",
            {"country": "de", "freshness": "2026-01-05to2026-06-30"},
            ["together with a language", "no range of dates"],
        ),
        ("wikipedia", {"freshness": "pw", "country": "de"}, ["cannot apply freshness, country; ignored"]),
        ("wikipedia", {"allowed_domains": ("duckdb.org",)}, ["no pages of duckdb.org"]),
        # a host that does not exist would read as a Wikipedia out of reach, and as one for the next minute too
        ("wikipedia", {"language": "gb"}, ["no edition in 'gb'; the English one was searched"]),
    ],
)
def test_what_an_engine_cannot_do_is_said(
    engine: Callable[[str], Any], name: str, fields: dict[str, Any], notices: list[str]
) -> None:
    engine(name)
    said = search(name, **fields).notices
    assert len(said) == len(notices) and all(words in notice for words, notice in zip(notices, said, strict=True))


@pytest.mark.parametrize("cost", [{}, {"costDollars": {"total": "free"}}, {"costDollars": {"total": 1e308}}])
def test_a_cost_that_cannot_be_believed_is_left_to_the_price_table(engine: Callable[[str], Any], cost: Any) -> None:
    engine("exa").reply(body={"results": [], **cost})
    assert search("exa").charges == (Charge("exa", usd=None),)


@pytest.mark.parametrize("name", ALL)
def test_whatever_an_engine_sends_nothing_but_our_errors_comes_out(engine: Callable[[str], Any], name: str) -> None:
    """In the place of its hits: missing fields, nulls, wrong types and hostile text are read as far as they can be."""
    fake = engine(name)
    places = {"brave": "web results", "google": "items", "firecrawl": "data web", "wikipedia": "query search"}

    @settings(max_examples=25)
    @given(st.lists(odd_json))
    def answered(body: Any) -> None:
        for field in reversed(places.get(name, "results").split()):
            body = {field: body}
        fake.reply(body=body)
        with suppress(ProviderError):
            check_sound(search(name))

    answered()


def test_what_fails_beside_a_search_is_a_notice(brave_api: Any, wikipedia_api: Any) -> None:
    """Brave's rich data, which are not asked for twice, and the introductions of Wikipedia's articles."""
    brave_api.allow_refusals, wikipedia_api.is_read_only = True, True
    brave_api.reply([], fields={"rich": {"hint": {"callback_key": "old"}}})
    assert "could not be had" in search("brave", "weather").notices[-1] and len(brave_api.requests) == 2
    wikipedia_api.reply([hit("", "Größe", "<span>words</span>")])
    results = search("wikipedia", "Größe")
    assert results[0].description == "words" and "introductions are missing" in results.notices[0]


@pytest.mark.parametrize(
    ("body", "first"),
    [
        (
            recorded("brave/docs_llm_context_standard"),
            {
                "extra_snippets": ("Another relevant passage from the same page...",),
                "published_date": datetime(2025, 1, 15, tzinfo=UTC),
            },
        ),
        (recorded("brave/docs_llm_context_local"), {"url": "https://business.com"}),
        (
            {"grounding": {"generic": [{"url": "https://a.example/", "snippets": ["x" * 5_000, "{\n}\x1b[31m", None]}]}},
            {"description": "x" * 5_000, "extra_snippets": ("{\n}",)},
        ),
    ],
)
def test_the_passages_of_an_llm_context_come_whole(brave_api: Any, body: Any, first: dict[str, Any]) -> None:
    """Lines stay, the dates are the ISO ones, places are pages too, and one context call is booked."""
    brave_api.reply(body=body)
    made = context()
    results = run(cast(BraveProvider, create("brave", made)).llm_context(SearchRequest("a b", count=20)), made)
    assert {field: getattr(results[0], field) for field in first} == first
    assert results.charges == (Charge("brave", "context"),)


# --- Wikipedia --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Who is the CEO of OpenAI?", "CEO OpenAI"),
        ("What's the boiling point of water at 3,000 m?", "boiling point water 3 000 m"),
        ("how many moons does jupiter have", "moons jupiter"),
        ("Who is in The Who?", "The Who"),
        ("What is IT?", "IT"),
        ("What was the US population in 2020?", "US population 2020"),
        ("US population 2020", "US population 2020"),
        ("The Who band", "The Who band"),
        ("Can band", "Can band"),
        ("IT companies in India", "IT companies in India"),
        ("us population 2020", "us population 2020"),
        ("Will Smith movies", "Will Smith movies"),
        ("Who Framed Roger Rabbit", "Who Framed Roger Rabbit"),
        ("WHO IS THE CEO OF OPENAI?", "CEO OPENAI"),
        ("AT&T, C++ and C#", "AT&T C++ and C#"),
        ('"exact phrase" of mine?', '"exact phrase" of mine?'),
        ("jaguar -car", "jaguar -car"),
        ("???", "???"),
    ],
)
def test_a_question_is_searched_by_its_words_of_meaning(question: str, words: str) -> None:
    """Names that look like filler stay, and so does all of a query that is no question."""
    assert search_words(question, "en") == words
    assert search_words("Wer ist der Präsident?", "de") == "Wer ist der Präsident"


def test_at_most_three_requests_are_under_way_at_once(wikipedia_api: Any) -> None:
    """Wikipedia's etiquette, kept over all searches."""
    wikipedia_api.latency_s, made = 0.03, context()

    async def many() -> None:
        provider = create("wikipedia", made)
        await asyncio.gather(*(provider.search(SearchRequest(f"query {n}")) for n in range(8)))

    run(many(), made)
    assert wikipedia_api.most_active == 3 and len(wikipedia_api.requests) == 16


NO_DATES = [
    *("3 days ago", "yesterday", "September 6, 2019", "2025", "2025-W01", "20250101", "07/11/2023", "2024-06-24 10:09 PM"),
    *("2026-13-45", "2026-01-01T99:00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "In Jun 24, 2024"),
    *("Tue, 11 Mar 2025", "Tue, 99 Mar 2025 10:00:00 GMT", "Jum 24, 2024", "Feb 30, 2024", "24 Jun 2024"),
    *("", None, True, 1735689600, 1.5, [], {}),
]


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2024-12-27T15:49:55", datetime(2024, 12, 27, 15, 49, 55, tzinfo=UTC)),
        ("2025-12-29T00:00:00.000Z", datetime(2025, 12, 29, tzinfo=UTC)),
        ("2022-01-04T17:33:05-0500", datetime(2022, 1, 4, 22, 33, 5, tzinfo=UTC)),
        (" 2026-01-02 ", datetime(2026, 1, 2, tzinfo=UTC)),
        ("Tue, 11 Mar 2025 10:00:00 +0200", datetime(2025, 3, 11, 8, tzinfo=UTC)),
        ("Jun 24, 2024 ... In this article", datetime(2024, 6, 24, tzinfo=UTC)),
        *((value, None) for value in NO_DATES),
    ],
)
def test_dates_become_aware_utc_and_nothing_else_is_one(value: Any, moment: datetime | None) -> None:
    """The first of several values counts; words, other orders, days that do not exist and other types are no dates."""
    found = base.moment(None, "yesterday", value)
    assert found == moment and (found is None or found.tzinfo is UTC)


# === the chain of engines: which is asked, which may stand in, what is remembered, kept and shared, and what it costs

QUOTA = {"X-RateLimit-Reset": "1, 900", "X-RateLimit-Remaining": "1, 0", "X-RateLimit-Limit": "1, 2000"}


@pytest.fixture
def brave(brave_api: Any, wikipedia_api: Any) -> Any:
    """Brave's fake, with Wikipedia's behind it."""
    return brave_api


class Use:
    """A router with its context and a clock in the test's hand; connections are closed after each piece of work."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.now = 100.0
        self.cache: Cache = Cache(folder / "cache.sqlite")
        self.context = context(folder)
        self.router = SearchRouter(
            self.context, **{"cache": self.cache, "cache_ttl_s": 900, "clock": lambda: self.now} | settings
        )

    def search(
        self, query: str = "duckdb release", provider: str | None = None, fresh: bool = False, **fields: Any
    ) -> SearchResults:
        return run(self.router.search(SearchRequest(query, **fields), provider=provider, fresh=fresh), self.context)


# --- the chain --------------------------------------------------------------------------------------------------------


def test_no_results_are_an_answer_and_no_reason_to_pay_another_engine(brave: Any, wikipedia_api: Any, tmp_path: Path) -> None:
    brave.reply([])
    results = Use(tmp_path).search()
    assert (results.provider, len(results), results.attempts, wikipedia_api.requests) == ("brave", 0, (), [])


def test_a_stand_in_that_finds_nothing_hides_no_failure(brave: Any, wikipedia_api: Any, tmp_path: Path) -> None:
    """The search is an error with the reason of the engine that was to answer, and not an empty answer."""
    brave.fail(401)
    wikipedia_api.behave(lambda values: [])
    with pytest.raises(ProviderError, match="the search failed: brave answered 401.*; wikipedia found nothing") as caught:
        Use(tmp_path).search()
    assert (caught.value.provider, caught.value.reason) == ("brave", "key")


def test_without_a_key_and_a_network_the_local_index_answers(tmp_path: Path, offline: list[str]) -> None:
    """The notice says that Wikipedia was tried, and why it did not answer; where the index has nothing, the search failed."""
    use = Use(tmp_path)
    results = use.search("planets of the solar system")
    assert results.provider == "local" and results.cost_usd == 0
    assert "could not be reached" in results.notices[0] and "local was asked instead" in results.notices[0]
    with pytest.raises(ProviderError, match="wikipedia could not be reached"):
        use.search("Which laptop under $500 has the best keyboard?")


def test_a_key_or_an_address_that_is_none_is_said_and_hides_nothing(
    brave: Any, wikipedia_api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain goes on to other engines of the web; what was lost before stays booked."""
    monkeypatch.setenv("BRAVE_API_KEY", "two words")
    (notice,) = Use(tmp_path).search().notices
    assert "BRAVE_API_KEY (environment)" in notice and notice.endswith("wikipedia was asked instead")
    monkeypatch.setenv("BRAVE_API_KEY", brave.key)
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", "nowhere")
    brave.reply(body=b"no JSON")
    with pytest.raises(ProviderError, match="brave answered 200 .*; WIKIPEDIA_BASE_URL is 'nowhere'") as caught:
        Use(tmp_path).search()
    assert [charge.lost for charge in caught.value.charges] == [True]


@pytest.mark.parametrize(("status", "headers", "tries", "seconds"), [(422, {}, 1, 300), (429, QUOTA, 1, 900), (503, {}, 3, 30)])
def test_an_engine_is_asked_again_when_its_time_is_over(
    brave: Any, tmp_path: Path, status: int, headers: dict[str, str], tries: int, seconds: int
) -> None:
    brave.fail(status, times=tries, headers=headers, body={"error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}})
    use = Use(tmp_path)
    assert [use.search(query).attempts[0].status for query in ("first one", "second one")] == [status, status]
    assert len(brave.requests) == tries and use.router.plan(SearchRequest("fourth one")).provider == "wikipedia"
    assert re.search("ask(ed)? again (at|before)", {name: why for name, _, why in use.router.chain()}["brave"])
    use.now += seconds + 1
    assert use.search("third one").provider == "brave"


def test_a_new_key_ends_an_outage_and_an_engine_by_name_is_always_asked(
    brave: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brave.fail(401, times=2)
    use = Use(tmp_path)
    assert use.search().provider == "wikipedia"
    with pytest.raises(ProviderError, match="refused"):
        use.search(provider="brave")
    brave.key = "another-fake-key-0000"
    monkeypatch.setenv("BRAVE_API_KEY", brave.key)
    assert use.search("one more query").provider == "brave"


def test_a_short_429_is_forgotten_at_once(brave: Any, tmp_path: Path) -> None:
    """And the stand-in's answer is not served as the engine's."""
    brave.fail(429)
    use = Use(tmp_path)
    assert [use.search().provider, use.search().provider, use.search().cached] == ["wikipedia", "brave", True]


# --- by name ----------------------------------------------------------------------------------------------------------


def test_an_engine_that_cannot_be_asked_is_a_setting_to_correct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", "en.wikipedia.org")
    tools = {"odd": {"provider": "nobody"}, "none": 5}
    told = {
        "searxng": "SEARXNG_BASE_URL is not set",
        "wikipdia": r"no search engine 'wikipdia'; did you mean 'wikipedia'\?; there are: brave",
        "odd": "no search engine 'nobody'",
        "none": "search_tools: 'none' is 5; write it as",
        "": "WIKIPEDIA_BASE_URL is 'en.wikipedia.org'",
    }
    for name, words in told.items():
        with pytest.raises(ConfigError, match=words):
            Use(tmp_path, search_tools=lambda: tools).search(provider=name)


def test_a_named_tool_is_an_engine_with_options(engine: Callable[[str], Any], tmp_path: Path) -> None:
    """It costs what these cost, and its answers are kept apart from the plain engine's."""
    tavily = engine("tavily")
    use = Use(tmp_path, search_tools=lambda: {"deep": {"provider": "tavily", "search_depth": "advanced"}})
    assert use.search(provider="deep").charges == (Charge("tavily", units=Decimal(2), unit="credit"),)
    assert tavily.requests[0].body["search_depth"] == "advanced"
    assert not use.search(provider="tavily").cached and use.search(provider="deep").cached


@pytest.mark.parametrize(
    ("typed", "setting", "asked"),
    [("exa", "brave", "exa"), (None, "brave", "brave"), ("", "", "my-tavily"), (None, "", "my-tavily")],
)
def test_a_typed_name_goes_before_the_setting_and_the_setting_before_the_first_tool(
    typed: str | None, setting: str, asked: str
) -> None:
    assert provider_to_ask(typed, setting, {"my-tavily": {"provider": "tavily"}}) == asked
    assert provider_to_ask(None, "", {}) is None


# --- plans, costs, cache ----------------------------------------------------------------------------------------------


def test_a_plan_says_what_a_search_will_cost(brave: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, once the answer is in the cache; the worst is that of the dearest engine that may stand in."""
    monkeypatch.setenv("EXA_API_KEY", "fake-exa-key-0000")
    use, request = Use(tmp_path), SearchRequest("duckdb release", count=20)
    plan = use.router.plan(request)
    assert (plan.provider, plan.expected_charges, plan.cached) == ("brave", (Charge("brave"),), None)
    assert use.router.expected_charges(count=20, worst=True) == (Charge("exa", units=Decimal(3)),)
    run(use.router.run(plan), use.context)
    again = use.router.plan(request)
    assert again.expected_charges == () and again.cached is not None and again.cached.cached
    assert use.router.plan(request, fresh=True).expected_charges == (Charge("brave"),)


def test_the_same_search_is_paid_for_once(brave: Any, tmp_path: Path) -> None:
    """Within the cache's time it comes back whole, marked, with its age, for nothing, for the chain and by name."""
    brave.reply([hit("https://a.example/", "T", date="2026-01-02T03:04:05")], fields={"query": {"altered": "other"}})
    first = Use(tmp_path).search("DuckDB  Release")
    again = Use(tmp_path).search("duckdb release", provider="brave")
    assert len(brave.requests) == 1 and again.cached and again.cost_usd == 0
    assert again.charges == (Charge("brave", cached=True),) and 0 <= again.extra["cache_age_s"] < 60
    assert again.results == first.results and again.notices == first.notices and again.raw == first.raw
    assert again[0].published_date == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_another_filter_address_or_freshness_is_another_search(
    brave: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = Use(tmp_path)
    domains = ("a.example", "b.example")
    different: list[dict[str, Any]] = [
        *({}, {"count": 6}, {"freshness": "pd"}, {"country": "de"}, {"language": "de"}, {"safe_search": "off"}),
        *({"allowed_domains": domains}, {"blocked_domains": domains}, {"goggles": ("$discard",)}),
    ]
    assert not any(use.search(**fields).cached for fields in different)
    assert all(use.search(**fields).cached for fields in different)
    assert use.search(allowed_domains=domains[::-1]).cached and not use.search(fresh=True).cached
    monkeypatch.setenv("BRAVE_BASE_URL", brave.url.replace("127.0.0.1", "localhost"))
    assert not use.search().cached


# --- in flight ----------------------------------------------------------------------------------------------------------


def test_equal_searches_in_flight_are_one_and_one_of_them_pays(brave: Any, tmp_path: Path) -> None:
    """Also when the one who asked first leaves."""
    brave.latency_s = 0.1
    use = Use(tmp_path)

    async def four() -> list[SearchResults]:
        first, *others = (
            asyncio.create_task(use.router.search(SearchRequest(query))) for query in ("a b", "A b", "a  b", "a B")
        )
        while not brave.requests:
            await asyncio.sleep(0.01)
        first.cancel()
        return await asyncio.gather(*others)

    results = run(four(), use.context)
    assert len(brave.requests) == 1 and [r.cached for r in results].count(False) == 1
    assert sum(r.cost_usd or 0 for r in results) == Decimal("0.005")


# --- engines of other packages ------------------------------------------------------------------------------------------

PLUGIN = """
from decimal import Decimal
from ipy_websearch.errors import ProviderError
from ipy_websearch.providers import base
from ipy_websearch.providers.base import ProviderInfo
from ipy_websearch.results import Charge, SearchResult, SearchResults

class Down(ProviderError):
    def __init__(self, host, status):
        super().__init__(f"{host} is down", status=status)

class Engine(base.Engine):
    name = "mine"
    async def search(self, request):
        if "down" in request.query:
            raise Down("mine.example", 503)
        if "broken" in request.query:
            raise KeyError("oops")
        hits = tuple(SearchResult(u, f"https://{u}/") for u in ("a.example", "b.example"))
        return SearchResults(hits, request.query, "mine", charges=(Charge("mine", usd=Decimal("0.25")),))

MINE = ProviderInfo("mine", "My engine", "their_engine:Engine")
LOST = ProviderInfo("lost", "Lost engine", "no_such_module:Engine", keys=("LOST_API_KEY",))
TAKEN = ProviderInfo("brave", "Not Brave", "their_engine:Engine")
NONSENSE = "x"
"""
POINTS = "\n".join(
    ["[ipy_websearch.providers]", *(f"{n} = their_engine:{n}" for n in ("MINE", "LOST", "TAKEN", "NONSENSE", "GONE"))]
)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with an engine, as pip would install it."""
    info = tmp_path / "site" / "their_engine-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site" / "their_engine.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    plugins.cache_clear()
    yield
    plugins.cache_clear()
    sys.modules.pop("their_engine", None)


def test_another_package_can_bring_an_engine(plugin: None, wikipedia_api: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """It is asked before the free ones, held to the domain lists, and may report its price; broken ones stop nothing."""
    use = Use(tmp_path)
    with pytest.warns(UserWarning, match="cannot be loaded") as broken:
        results = use.search(blocked_domains=("b.example",))
    assert len(broken) == 3 and any("'brave' is taken" in str(warning.message) for warning in broken)
    assert (results.provider, results.cost_usd, [r.url for r in results]) == ("mine", Decimal("0.25"), ["https://a.example/"])
    assert use.search("a broken query").provider == "wikipedia"
    with pytest.raises(ProviderError, match="mine failed: KeyError"):
        use.search("a broken query", provider="MINE")
    with pytest.raises(ProviderError, match="mine.example is down"):
        use.search("who is down", provider="mine")
    monkeypatch.setenv("LOST_API_KEY", "fake-lost-key-0000")
    with pytest.raises(ConfigError, match="'lost' cannot be loaded from no_such_module"):
        use.search(provider="lost")


# --- The local index: what it finds, how it reads folders, and that it can always be made again ----------------------


def ask(index: LocalProvider, query: str, **options: Any) -> SearchResults:
    """Return the engine's answer to one query."""
    return asyncio.run(index.search(SearchRequest(query, **options)))


def titles(index: LocalProvider, query: str, **options: Any) -> list[str]:
    """Return the titles that a query finds."""
    return [hit.title for hit in ask(index, query, **options)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> LocalProvider:
    """An index of the embedded corpus."""
    return LocalProvider(context(tmp_path_factory.mktemp("home")))


@pytest.fixture
def index(tmp_path: Path) -> LocalProvider:
    """An empty index: a corpus folder without articles."""
    (tmp_path / "no-corpus").mkdir()
    return LocalProvider(context(tmp_path / "home"), corpus=tmp_path / "no-corpus")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder with a file of each kind that is read."""
    folder = tmp_path / "My Notes"
    folder.mkdir()
    cells = [
        {"cell_type": "markdown", "source": ["# Tide tables\n", "Spring tides in Brest."]},
        {"cell_type": "code", "source": "# not a title\nx = 3", "outputs": [{"text": "outputword"}]},
    ]
    texts = {
        "plan.md": "---\ntitle: The plan\ndate: 2024-05-06\n---\n\nWe shall brew zweigelt wine.\n",
        "README": "quince, medlar and sorb apples",
        "page.html": "<title>A page</title><script>secretword</script><h2>Lichens</h2><p>Xanthoria grows.</p>",
        "tool.py": "# comment\n\ndef neapheight(x):\n    return x",
        "tides.ipynb": json.dumps({"cells": cells, "nbformat": 4}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("How many moons does Mars have?", "Mars"),
        ("what is the capital of France", "France"),
        ("Who created Python?", "Python"),
        ("atomic number of iron", "Iron"),
        ("who discovered phosphorus", "Phosphorus"),
        ("C++", "C++"),
        ("R language", "R"),
        ("Brasilia", "Brazil"),
        ("Wie heißt die Hauptstadt von Österreich?", "Austria"),
        ("money of Morroco", "Morocco"),
        ("melting point of mercury", "Mercury (element)"),
        ('title:"iron" NEAR(atomic* number)', "Iron"),
        ("Which laptop under $500 has the best keyboard in 2026?", None),
        ("Current stock price AAPL", None),
        ("zxqv blorp", None),
    ],
)
def test_a_question_finds_its_subject_first_or_nothing(corpus: LocalProvider, query: str, title: str | None) -> None:
    """Function words, plurals, accents, German names, signs and a letter too many or too few do not hide the right article;
    operators are only words. A document that shares one word of many with the question is not an answer to it."""
    assert next(iter(titles(corpus, query)), None) == title


def test_an_answer_is_free_and_holds_the_passage_that_fits(corpus: LocalProvider) -> None:
    """The description is cut at a word, further paragraphs come in full, the line of facts among them."""
    results = ask(corpus, "who discovered phosphorus")
    hit = results[0]
    assert "Brand" in hit.description and len(hit.description) <= 300 and hit.url == "corpus://elements/phosphorus"
    assert any(text.startswith("Facts: ") for text in hit.extra_snippets) and len(hit.extra_snippets) <= 4
    assert (results.provider, results.cost_usd, hit.published_date and hit.published_date.tzinfo) == ("local", Decimal(0), UTC)
    assert ask(corpus, "mercury", goggles=("$discard",)).notices == ("local cannot apply goggles; ignored",)


@settings(max_examples=60)
@given(query=st.text(min_size=2) | st.lists(st.sampled_from("\"*^:(){}+-#'\0 NEAR AND OR NOT c++ a"), min_size=2).map("".join))
def test_no_text_is_a_syntax_error(corpus: LocalProvider, query: str) -> None:
    """Whatever a query holds, it is searched for and never obeyed."""
    if len(query.strip()) > 1:
        assert len(ask(corpus, query, count=3)) <= 3


def test_a_folder_of_every_kind_of_file_is_found(index: LocalProvider, notes: Path) -> None:
    """Scripts and outputs are not read; code keeps its lines; the folder's name serves as a domain."""
    report = index.add_folder(notes)
    assert (report.added, report.updated, report.removed, report.skipped) == (5, 0, 0, [])
    words = {"zweigelt": "The plan", "medlar": "README", "xanthoria": "A page", "brest": "Tide tables", "neapheight": "tool.py"}
    assert {word: titles(index, word) for word in words} == {word: [title] for word, title in words.items()}
    assert not any(titles(index, word) for word in ("secretword", "outputword"))
    assert titles(index, "quince", allowed_domains=("my-notes",)) and not titles(index, "quince", blocked_domains=("my-notes",))
    assert titles(index, "quince", freshness="pw") and not titles(index, "zweigelt", freshness="pw"), "it says 2024"
    assert "def neapheight(x):\n    return x" in (index.document((notes / "tool.py").as_uri()) or ("", ""))[1]
    assert index.document((notes / "plan.md").as_uri()) == (
        "The plan",
        "# The plan\n\nWe shall brew zweigelt wine.",
        datetime(2024, 5, 6, tzinfo=UTC),
    )
    assert index.document("corpus://planets/vulcan") is None


def test_adding_a_folder_again_takes_in_what_changed(index: LocalProvider, notes: Path) -> None:
    """Only new and changed files are read, vanished ones leave; a run without changes does nothing."""
    assert [index.add_folder(notes).added for _ in range(2)] == [5, 0]
    (notes / "README").write_text("nothing but rhubarb")
    (notes / "new.md").write_text("# New\n\nloquat")
    (notes / "page.html").unlink()
    report = index.add_folder(notes)
    assert (report.added, report.updated, report.removed) == (1, 1, 1) and index.folders() == [(notes, 5)]
    assert titles(index, "medlar") == titles(index, "xanthoria") == [] and titles(index, "rhubarb") and titles(index, "loquat")
    with pytest.raises(ConfigError, match="My Notes"):
        index.remove_folder(notes.parent)
    assert index.remove_folder(notes) == 5 and index.folders() == [] and titles(index, "rhubarb") == []
    with pytest.raises(ConfigError, match="is not a folder"):
        index.add_folder(notes / "nowhere")


def test_what_is_not_read_is_reported_with_its_reason(index: LocalProvider, tmp_path: Path) -> None:
    """Big, binary, broken, empty and foreign files and links out of the folder are skipped, hidden ones in silence."""
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    for part in (outside, folder / ".git", folder / "node_modules"):
        part.mkdir(parents=True)
        (part / "inside.md").write_text("verboten")
    contents = {
        **{"big.txt": b"x " * 1_000_001, "binary.txt": bytes(range(32)), "broken.ipynb": b'{"cells": 3}', "empty.md": b" \n"},
        **{"image.png": b"\x89PNG", "german.txt": "Größe 7".encode("utf-16"), "cjk.txt": "東京は日本の首都です。".encode()},
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    for name, target in {"out.md": outside / "inside.md", "linked": outside, "loop.md": folder / "loop.md"}.items():
        (folder / name).symlink_to(target)
    reasons = {path.name: reason for path, reason in index.add_folder(folder).skipped}
    assert set(reasons) == {*contents, "out.md", "loop.md"} - {"german.txt", "cjk.txt"}
    assert "2,000,000" in reasons["big.txt"] and "link" in reasons["out.md"] and "binary" in reasons["binary.txt"]
    found = {query: titles(index, query) for query in ("GRÖSSE", "grosse", "日本の首都", "verboten")}
    assert found == {"GRÖSSE": ["german"], "grosse": ["german"], "日本の首都": ["cjk"], "verboten": []}


@pytest.mark.parametrize("damage", ["another version", "emptied", "broken"])
def test_an_index_is_made_anew_with_its_folders(index: LocalProvider, notes: Path, tmp_path: Path, damage: str) -> None:
    """An index of another version, an emptied file and a broken one cost the time to read the folders again, and a notice."""
    index.add_folder(notes)
    index.close()
    file = tmp_path / "home" / "index.sqlite"
    if damage == "another version":
        with closing(sqlite3.connect(file)) as other:
            other.execute("PRAGMA user_version = 999")
    else:
        file.write_bytes(b"" if damage == "emptied" else b"no database " * 500)
    again = LocalProvider(context(tmp_path / "home"), corpus=tmp_path / "no-corpus")
    results = ask(again, "zweigelt")
    assert results[0].title == "The plan" and "My Notes was read again" in " ".join(results.notices)
    assert again.folders() == [(notes, 5)]


def test_kernels_that_add_folders_at_once_lose_none(tmp_path: Path) -> None:
    """The list that the index is made again from has the folders of all."""
    folders = [tmp_path / f"notes-{n}" for n in range(6)]
    for folder in (tmp_path / "no-corpus", *folders):
        folder.mkdir()
        (folder / "note.txt").write_text("loquat")
    kernels = [LocalProvider(context(tmp_path / "home"), corpus=tmp_path / "no-corpus") for _ in folders]
    with ThreadPoolExecutor(len(folders)) as pool:
        list(pool.map(LocalProvider.add_folder, kernels, folders))
    assert kernels[0].folders() == [(folder, 1) for folder in folders]
