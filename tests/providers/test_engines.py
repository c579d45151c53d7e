"""Every engine alike: the request that it is sent, how recorded answers are read, and its refusals. One table each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError, ProviderError, RateLimitedError
from ipy_websearch.providers import base
from ipy_websearch.providers.base import Place, SearchRequest
from ipy_websearch.providers.brave import BraveProvider, catalogue
from ipy_websearch.providers.router import create
from ipy_websearch.providers.wikipedia import search_words
from ipy_websearch.results import Charge, SearchResults
from tests.fakes.wire import (
    NO_HITS,
    Service,
    check_every_filter,
    check_sound,
    check_survives,
    context,
    damaged,
    key_of,
    odd_json,
    recorded,
    run,
    search,
)

KEYED = ["brave", "google", "firecrawl", "tavily", "perplexity", "exa"]
ALL = [*KEYED, "searxng", "wikipedia"]
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
    check_every_filter(name)


SENT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "brave",
        FULL,
        {"q": "a b", "count": "7", "freshness": "pw", "country": "GB", "search_lang": "de", "safesearch": "strict"},
    ),
    ("brave", {"language": "ja"}, {"search_lang": "jp", "extra_snippets": "true", "enable_rich_callback": "1"}),
    ("brave", {"blocked_domains": ("a.com",)}, {"goggles": "$discard,site=a.com", "text_decorations": "false"}),
    ("google", FULL, {"q": "a b", "num": "7", "dateRestrict": "w1", "gl": "uk", "lr": "lang_de", "safe": "active"}),
    ("google", {"allowed_domains": ("a.com",)}, {"q": "a b", "siteSearch": "a.com", "siteSearchFilter": "i"}),
    ("google", {"allowed_domains": ("a.com", "b.org")}, {"q": "a b (site:a.com OR site:b.org)"}),
    ("google", {"freshness": "2026-01-05to2026-06-30"}, {"sort": "date:r:20260105:20260630"}),
    ("firecrawl", FULL, {"query": "a b", "limit": 7, "tbs": "qdr:w", "country": "GB", "highlights": False}),
    ("firecrawl", {"freshness": "2026-01-05to2026-06-30"}, {"tbs": "cdr:1,cd_min:01/05/2026,cd_max:06/30/2026"}),
    ("firecrawl", {"allowed_domains": ("a.com",)}, {"includeDomains": ["a.com"], "sources": ["web"], "timeout": 28_000}),
    ("tavily", FULL, {"query": "a b", "max_results": 7, "time_range": "week", "country": "united kingdom"}),
    ("tavily", {"blocked_domains": ("a.com",)}, {"exclude_domains": ["a.com"], "include_usage": True}),
    ("perplexity", FULL, {"query": "a b", "search_recency_filter": "week", "country": "GB", "search_language_filter": ["de"]}),
    ("perplexity", {"blocked_domains": ("a.com",)}, {"search_domain_filter": ["-a.com"], "max_results": 5}),
    ("exa", FULL, {"query": "a b", "type": "auto", "numResults": 7, "userLocation": "GB", "moderation": True}),
    ("exa", {"freshness": "2026-01-05to2026-06-30"}, {"endPublishedDate": "2026-06-30T23:59:59.999Z"}),
    ("searxng", FULL, {"q": "a b", "format": "json", "language": "de-CH", "time_range": "week", "safesearch": "2"}),
    ("searxng", {"blocked_domains": ("a.com", "b.org")}, {"q": "a b -site:a.com -site:b.org", "safesearch": "1"}),
    ("wikipedia", {"count": 7}, {"list": "search", "srsearch": "a b", "srlimit": "7", "formatversion": "2"}),
]


@pytest.mark.parametrize(("name", "fields", "expected"), SENT)
def test_a_search_sends_the_documented_parameters(
    served: Callable[[str], Service], name: str, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Under the engine's own names, with the key in its header (Google's in the query)."""
    server = served(name)
    server.answer(NO_HITS[name])
    search(name, "a b", **fields)
    sent = server.requests[0]
    assert expected.items() <= (sent.body or sent.params).items()
    key = key_of(f"{name.upper()}_API_KEY")
    places = {"brave": "x-subscription-token", "exa": "x-api-key", "google": "", "searxng": "", "wikipedia": ""}
    if header := places.get(name, "authorization"):
        assert sent.headers[header].removeprefix("Bearer ") == key


READ: list[tuple[str, Any, int, dict[str, Any], Charge]] = [
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
    ("firecrawl", FIRECRAWL, 2, {"title": "A", "description": "About A"}, Charge("firecrawl", units=Decimal(3), unit="credit")),
]


@pytest.mark.parametrize(("name", "body", "most", "first", "charge"), READ, ids=[row[0] for row in READ])
def test_a_recorded_answer_becomes_plain_results(
    served: Callable[[str], Service], name: str, body: Any, most: int, first: dict[str, Any], charge: Charge
) -> None:
    """Tags and entities are gone, dates are aware UTC and never made up, and what the answer reports is booked."""
    served(name).answer(body)
    results = search(name, "hello world", count=20)
    assert 2 <= len(results) <= most and results.provider == name and results.charges == (charge,)
    assert {field: getattr(results[0], field) for field in first} == first
    if name != "wikipedia":  # its second request was answered with the same body
        assert results.raw == body
    check_sound(results)


REFUSED: list[tuple[str, int, Any, str, str]] = [
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
    ("searxng", 403, b"<title>403</title>", "add `json` to `search.formats`", "request"),
    ("searxng", 200, recorded("searxng/local_all_unresponsive"), "did not answer: slowone: Suspended: timeout", "server"),
    ("wikipedia", 200, {"error": {"code": "x", "info": "<b>busy</b>"}}, "^wikipedia: busy$", "server"),
    ("wikipedia", 200, {"error": {"code": "ratelimited", "info": "too many"}}, "too many", "rate"),
]


@pytest.mark.parametrize(("name", "status", "body", "words", "reason"), REFUSED)
def test_a_refusal_says_what_to_do_and_its_kind(
    served: Callable[[str], Service], name: str, status: int, body: Any, words: str, reason: str
) -> None:
    """In one line without the key; only 5xx is asked again."""
    server = served(name)
    server.answer(body, status=status)
    with pytest.raises(ProviderError, match=words) as caught:
        search(name)
    assert (caught.value.reason, caught.value.permanent) == (reason, reason in ("key", "credit", "quota"))
    assert len(server.requests) == (3 if status == 503 else 1) and key_of(f"{name.upper()}_API_KEY") not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "words", "wait", "reason"),
    [
        ({"X-RateLimit-Reset": "1, 1419704", "X-RateLimit-Remaining": "0, 800"}, "per second", 1.0, "rate"),
        ({"X-RateLimit-Reset": "1, 1000", "X-RateLimit-Remaining": "1, 0"}, "per month", 1000.0, "quota"),
        ({"X-RateLimit-Remaining": "1, 0"}, "per month is used up$", None, "quota"),
        ({"X-RateLimit-Remaining": "49, 0", "X-RateLimit-Limit": "50, 0"}, "per second", 1.0, "rate"),
        ({"Retry-After": "7"}, r"per second was passed; ask again in 7\.0 s", 7.0, "rate"),
        ({"Retry-After": "400000"}, r"ask again at 20\d\d-", 400_000.0, "quota"),
    ],
)
def test_brave_tells_a_busy_second_from_a_used_up_month(
    served: Callable[[str], Service], headers: Any, words: str, wait: float | None, reason: str
) -> None:
    """The first passes at once, the other is an outage that nobody waits for."""
    server = served("brave")
    server.answer({"error": {"code": "RATE_LIMITED"}}, status=429, headers=headers)
    with pytest.raises(RateLimitedError, match=words) as caught:
        search("brave")
    assert (caught.value.retry_after, caught.value.reason, len(server.requests)) == (wait, reason, 1)


def test_brave_says_in_the_body_that_the_month_is_used_up(served: Callable[[str], Service]) -> None:
    """Some refusals have no rate-limit headers."""
    meta = {"quota_limit": 2_000, "quota_current": 2_000}
    served("brave").answer({"error": {"code": "RATE_LIMITED", "meta": meta}}, status=429)
    with pytest.raises(RateLimitedError, match="per month is used up") as caught:
        search("brave")
    assert (caught.value.retry_after, caught.value.reason) == (None, "quota")


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
    served: Callable[[str], Service], name: str, body: Any
) -> None:
    """An error object under status 200, fields of a wrong type, and results that cannot be read."""
    served(name).answer(body)
    with pytest.raises(ProviderError, match=f"^{name}: (the answer holds no .*; check {name.upper()}|some words)") as caught:
        search(name)
    assert caught.value.reason == "server" and caught.value.lost is ("error" not in body)
    served(name).forget()
    served(name).answer(NO_HITS[name])
    assert len(search(name)) == 0


def test_each_address_is_one_result(served: Callable[[str], Service]) -> None:
    """The first one counts; what is no address of the web is left out."""
    urls = [
        "https://a.example/",
        "https://a.example/",
        "javascript:alert(1)",
        "/b",
        "https://a.example:99999/",
        "http://b.example",
    ]
    served("exa").answer({"results": [{"url": url, "title": f"T{n}", "text": "one<br>two"} for n, url in enumerate(urls)]})
    assert [(hit.title, hit.url) for hit in search("exa", count=9)] == [("T0", urls[0]), ("T5", urls[5])]
    assert search("exa")[0].description == "one two"


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
    served: Callable[[str], Service], name: str, fields: dict[str, Any], notices: list[str]
) -> None:
    served(name).answer(NO_HITS[name])
    said = search(name, **fields).notices
    assert len(said) == len(notices) and all(words in notice for words, notice in zip(notices, said, strict=True))


def test_named_tools_may_set_an_engines_own_options(served: Callable[[str], Service]) -> None:
    server = served("tavily")
    server.answer({"results": [], "answer": "A <b>framework</b>."})
    results = search("tavily", options={"search_depth": "advanced", "include_answer": True})
    assert server.requests[0].body["search_depth"] == "advanced" and results.extra["answer"] == "A framework."
    assert results.charges == (Charge("tavily", units=Decimal(2), unit="credit"),)


@pytest.mark.parametrize("cost", [{}, {"costDollars": {"total": "free"}}, {"costDollars": {"total": 1e308}}])
def test_a_cost_that_cannot_be_believed_is_left_to_the_price_table(served: Callable[[str], Service], cost: Any) -> None:
    served("exa").answer({"results": [], **cost})
    assert search("exa").charges == (Charge("exa", usd=None),)


BODIES = {name: body for name, body, *_ in READ}


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_an_engine_sends_nothing_but_our_errors_comes_out(
    served: Callable[[str], Service], name: str, data: st.DataObject
) -> None:
    """Missing fields, nulls, wrong types and hostile text are read as far as they can be."""
    service = served(name)
    service.forget()
    service.answer(data.draw(odd_json | damaged(BODIES[name])))
    check_survives(name)


WEB, RICH = "/res/v1/web/search", "/res/v1/web/rich"
Served = Callable[[str], Service]


def llm_context() -> SearchResults:
    """Return the result of an LLM Context call."""
    made = context()
    return run(cast(BraveProvider, create("brave", made)).llm_context(SearchRequest("a b", count=20)), made)


# --- Brave ------------------------------------------------------------------------------------------------------------


def test_rich_data_are_fetched_along(served: Served) -> None:
    """The callback key is followed; the data are in `extra` and beside the raw answer, and cost nothing more. When that call
    fails, it is said, and not repeated."""
    server = served("brave")
    rich = {"type": "rich", "results": [{"type": "rich", "subtype": "weather"}]}
    server.answer(
        {"web": {"results": []}, "rich": {"hint": {"callback_key": "86d06a"}}, "query": {"altered": "oslo"}}, path=WEB
    )
    server.answer(rich, path=RICH)
    results = search("brave", "weather in Oslo")
    assert server.requests[1].params == {"callback_key": "86d06a"}
    assert results.extra["rich"] == rich and results.raw["rich_results"] == rich
    assert results.charges == (Charge("brave"),) and results.notices == ("brave searched for 'oslo'",)
    server.forget()
    server.answer({"web": {"results": []}, "rich": {"hint": {"callback_key": "old"}}}, path=WEB)
    server.answer({}, status=500, path=RICH)
    assert "could not be had" in search("brave", "weather").notices[0] and len(server.requests) == 2


def test_long_goggles_are_posted_and_a_place_goes_into_headers(served: Served) -> None:
    """Hundreds of domains go as a JSON body; header values are ASCII."""
    server = served("brave")
    server.answer(NO_HITS["brave"], path=WEB)
    place = Place("São Paulo", "SP", "America/Sao_Paulo")
    search("brave", country="br", place=place, blocked_domains=tuple(f"spam{n}.example" for n in range(300)))
    sent = server.requests[0]
    assert (sent.method, sent.params, sent.body["goggles"][0].count("\n")) == ("POST", {}, 299)
    assert (sent.headers["x-loc-city"], sent.headers["x-loc-state"], sent.headers["x-loc-country"]) == ("Sao Paulo", "SP", "BR")


def test_passages_come_whole(served: Served) -> None:
    """Lines stay, the dates are the ISO ones, places are pages too, and one context call is booked."""
    server = served("brave")
    server.answer(recorded("brave/docs_llm_context_standard"))
    results = llm_context()
    assert results[0].extra_snippets == ("Another relevant passage from the same page...",)
    assert results[0].published_date == datetime(2025, 1, 15, tzinfo=UTC)
    assert results.charges == (Charge("brave", "context"),)
    server.forget()
    server.answer(recorded("brave/docs_llm_context_local"))
    assert [result.url for result in llm_context()] == ["https://business.com", "https://place.com"]
    server.forget()
    table = '{"@type": "Table",\n "rows": [1, 2]}'
    page = {"url": "https://a.example/", "snippets": ["x" * 5_000, f"{table}\x1b[31m", None]}
    server.answer({"grounding": {"generic": [page]}})
    (found,) = llm_context()
    assert (len(found.description), found.extra_snippets) == (5_000, (table,))


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


def test_introductions_come_in_one_more_request(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another MediaWiki says where its pages are."""
    server = served("wikipedia")
    found = {"query": {"search": [{"title": "Größe & Maß", "pageid": 7, "snippet": "<span>words</span>"}]}}
    server.answer(found)
    server.answer({"query": {"pages": [{"pageid": 7, "extract": "One.\nTwo.", "fullurl": "https://wiki.example/x"}]}})
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", "https://en.wikipedia.org/other")
    results = search("wikipedia", "Größe")
    assert results[0].extra_snippets == ("One.", "Two.") and results[0].url == "https://wiki.example/x"
    assert server.requests[1].params["pageids"] == "7"


def test_articles_keep_their_snippets_when_the_introductions_fail(served: Served) -> None:
    """The second request adds to the answer; its failure is a notice."""
    server = served("wikipedia")
    server.answer({"query": {"search": [{"title": "Größe", "pageid": 7, "snippet": "<span>words</span>"}]}})
    server.answer({"error": {"code": "readonly", "info": "The wiki is read-only"}})
    results = search("wikipedia", "Größe")
    assert (results[0].description, results[0].extra_snippets) == ("words", ())
    assert "introductions are missing" in results.notices[0] and "read-only" in results.notices[0]


def test_at_most_three_requests_are_under_way_at_once(served: Served) -> None:
    """Wikipedia's etiquette, kept over all searches."""
    server = served("wikipedia")
    server.answer({"query": {"search": [{"title": "A", "pageid": 1}]}}, delay_s=0.03)
    made = context()

    async def many() -> None:
        engine = create("wikipedia", made)
        await asyncio.gather(*(engine.search(SearchRequest(f"query {n}")) for n in range(8)))

    run(many(), made)
    assert server.most_active == 3 and len(server.requests) == 16


DATES = [
    ("2024-12-27T15:49:55", datetime(2024, 12, 27, 15, 49, 55, tzinfo=UTC)),
    ("2025-12-29T00:00:00.000Z", datetime(2025, 12, 29, tzinfo=UTC)),
    ("2022-01-04T17:33:05-0500", datetime(2022, 1, 4, 22, 33, 5, tzinfo=UTC)),
    (" 2026-01-02 ", datetime(2026, 1, 2, tzinfo=UTC)),
    ("Tue, 11 Mar 2025 10:00:00 +0200", datetime(2025, 3, 11, 8, tzinfo=UTC)),
    ("Jun 24, 2024 ... In this article", datetime(2024, 6, 24, tzinfo=UTC)),
]
NO_DATES = [
    *("3 days ago", "yesterday", "September 6, 2019", "2025", "2025-W01", "20250101", "07/11/2023", "2024-06-24 10:09 PM"),
    *("2026-13-45", "2026-01-01T99:00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "In Jun 24, 2024"),
    *("Tue, 11 Mar 2025", "Tue, 99 Mar 2025 10:00:00 GMT", "Jum 24, 2024", "Feb 30, 2024", "24 Jun 2024"),
    *("", None, True, 1735689600, 1.5, [], {}),
]


@pytest.mark.parametrize(("value", "moment"), [*DATES, *((value, None) for value in NO_DATES)])
def test_dates_become_aware_utc_and_nothing_else_is_one(value: Any, moment: datetime | None) -> None:
    """The first of several values counts; words, other orders, days that do not exist and other types are no dates."""
    found = base.moment(None, "yesterday", value)
    assert found == moment and (found is None or found.tzinfo is UTC)


def test_a_search_takes_goggles_by_name_address_and_rule(brave_api: Any, shell: Any) -> None:
    """Addresses go out as they are, everything inline as one text; a misspelt name costs no search."""
    assert shell.run("%search --provider brave --goggle 'No Crap' --goggle academic --goggle $discard,site=x.example sleep").ok
    address, rules = brave_api.requests[0].params["goggles"]
    assert address == catalogue()["no-crap"].url and "goggles_id" not in brave_api.requests[0].params
    assert rules.splitlines() == [*catalogue()["academic"].rules.splitlines(), "$discard,site=x.example"]
    error = shell.run("%search --goggle techh sleep").error
    assert isinstance(error, ConfigError) and "did you mean 'tech'" in str(error) and len(brave_api.requests) == 1
