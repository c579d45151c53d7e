"""Every engine alike: the request that it is sent, how recorded answers are read, and its refusals. One table each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError, ProviderError, RateLimitedError
from ipy_websearch.usage import Charge
from tests.fakes.wire import (
    Service,
    check_every_filter,
    check_sound,
    check_survives,
    damaged,
    key_of,
    odd_json,
    recorded,
    search,
)

KEYED = ["brave", "google", "firecrawl", "tavily", "perplexity", "exa"]
ALL = [*KEYED, "searxng", "wikipedia"]
FULL = {"freshness": "pw", "country": "uk", "language": "de-CH", "safe_search": "strict", "count": 7}
PERPLEXITY = {
    "results": [
        {"title": "A", "url": "https://a.example/", "snippet": "# A\n\nText &amp; more", "date": "2026-03-01"},
        [{"title": "B", "url": "https://b.example/", "snippet": "word " * 2_000, "last_updated": "2026-05-05"}, None],
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
        {"q": "a b", "count": "7", "freshness": "pw", "country": "GB", "search_lang": "de-ch", "safesearch": "strict"},
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
    server.answer({})
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
    ("brave", 422, {"error": {"meta": {"errors": [{"loc": ["query", "country"], "msg": "bad"}]}}}, "country: bad", "request"),
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
    ("tavily", 432, {"detail": {"error": "Over the limit."}}, r"limit is used up \(Over the limit\)", "credit"),
    ("perplexity", 401, b"<html><title>401 Authorization Required</title></html>", "refused.*401 Authorization", "key"),
    ("perplexity", 422, {"detail": [{"msg": "field required"}]}, "422: field required", "request"),
    ("exa", 402, {"error": "no", "tag": "NO_MORE_CREDITS"}, "the plan's credits are used up: no", "credit"),
    ("exa", 503, {"error": "busy"}, r"answered 503 \(asked 3 times\): busy", "server"),
    ("searxng", 403, b"<title>403</title>", "add `json` to `search.formats`", "request"),
    ("searxng", 200, recorded("searxng/local_all_unresponsive"), r"did not answer: slowone \(Suspended: timeout\)", "server"),
    ("wikipedia", 200, {"error": {"code": "x", "info": "<b>busy</b>"}}, r"^wikipedia: busy \(x\)$", "server"),
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
    ("headers", "meta", "words", "wait", "reason"),
    [
        ({"X-RateLimit-Reset": "1, 1419704"}, {"rate_limit": 1, "rate_current": 1}, r"per second \(1\)", 1.0, "rate"),
        (
            {"X-RateLimit-Reset": "1, 1000"},
            {"quota_limit": 15_000, "quota_current": 15_000},
            r"month \(15,000",
            1000.0,
            "quota",
        ),
        ({"X-RateLimit-Reset": "1, 1000", "X-RateLimit-Remaining": "1, 0"}, {}, "per month", 1000.0, "quota"),
        ({"X-RateLimit-Remaining": "49, 0", "X-RateLimit-Limit": "50, 0"}, {}, "per second", 1.0, "rate"),
    ],
)
def test_brave_tells_a_busy_second_from_a_used_up_month(
    served: Callable[[str], Service], headers: Any, meta: Any, words: str, wait: float, reason: str
) -> None:
    """The first passes at once, the other is an outage that nobody waits for."""
    server = served("brave")
    server.answer({"error": {"code": "RATE_LIMITED", "meta": meta}}, status=429, headers=headers)
    with pytest.raises(RateLimitedError, match=words) as caught:
        search("brave")
    assert (caught.value.retry_after, caught.value.reason, len(server.requests)) == (wait, reason, 1)


def test_a_reset_that_is_far_away_is_a_quota_at_any_engine(served: Callable[[str], Service]) -> None:
    """And the message says when it is."""
    served("exa").answer({"error": "limit"}, status=429, headers={"Retry-After": "7200"})
    with pytest.raises(RateLimitedError, match=r"the limit is reset at 20\d\d-") as caught:
        search("exa")
    assert caught.value.reason == "quota"


@pytest.mark.parametrize(
    ("name", "fields", "notices"),
    [
        ("google", {"goggles": ("$discard",), "count": 20}, ["at most 10 results, not 20", "cannot apply goggles; ignored"]),
        ("tavily", {"country": "zz", "language": "de"}, ["cannot apply language", "knows no country 'zz'"]),
        (
            "searxng",
            {"country": "de", "freshness": "2026-01-05to2026-06-30"},
            ["together with a language", "no range of dates"],
        ),
        ("wikipedia", {"freshness": "pw", "country": "de"}, ["cannot apply freshness, country; ignored"]),
        ("wikipedia", {"allowed_domains": ("duckdb.org",)}, ["no pages of duckdb.org"]),
    ],
)
def test_what_an_engine_cannot_do_is_said(
    served: Callable[[str], Service], name: str, fields: dict[str, Any], notices: list[str]
) -> None:
    served(name).answer({})
    said = search(name, **fields).notices
    assert len(said) == len(notices) and all(words in notice for words, notice in zip(notices, said, strict=True))


def test_named_tools_may_set_an_engines_own_options(served: Callable[[str], Service]) -> None:
    """The end of a name will do; an unknown one is met with those there are."""
    server = served("tavily")
    server.answer({"answer": "A <b>framework</b>."})
    results = search("tavily", options={"depth": "advanced", "include_answer": True})
    assert server.requests[0].body["search_depth"] == "advanced" and results.extra["answer"] == "A framework."
    assert results.charges == (Charge("tavily", units=Decimal(2), unit="credit"),)
    with pytest.raises(ConfigError, match="no option 'dept'.*did you mean 'search_depth'|no option 'dept'"):
        search("tavily", options={"dept": "advanced"})


@pytest.mark.parametrize("cost", [{}, {"costDollars": {"total": "free"}}, {"costDollars": {"total": 1e308}}])
def test_a_cost_that_cannot_be_believed_is_left_to_the_price_table(served: Callable[[str], Service], cost: Any) -> None:
    served("exa").answer(cost)
    assert search("exa").charges == (Charge("exa", usd=None),)


def test_half_an_emoji_is_mended_everywhere(served: Callable[[str], Service]) -> None:
    """In the fields, and in the raw answer that goes into panels and files."""
    item = b'{"title": "x \\ud83d y", "url": "https://a.example/", "content": "\\uD83D\\uDE00"}'
    served("searxng").answer(b'{"results": [' + item + b"]}")
    results = search("searxng")
    assert (results[0].title, results[0].description) == ("x ? y", "\U0001f600")
    assert str(results.raw).encode()


@pytest.mark.parametrize("deep", [b"[" * 400 + b"]" * 400, b"[" * 100_000 + b"]" * 100_000])
def test_an_answer_nested_too_deeply_is_one_line(served: Callable[[str], Service], deep: bytes) -> None:
    """And counts as paid and lost."""
    served("brave").answer(b'{"web": ' + deep + b"}", headers={"content-type": "application/json"})
    with pytest.raises(ProviderError) as caught:
        search("brave")
    assert caught.value.lost and "\n" not in str(caught.value)


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
