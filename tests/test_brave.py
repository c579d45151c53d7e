"""Brave Search: what is sent, how answers are read, rich results, goggles, and which errors mean what."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings

from ipy_websearch.errors import ConfigError, MissingKeyError, ProviderError, RateLimitedError, WebSearchError
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.brave import BraveProvider
from ipy_websearch.providers.goggles import check_rules, domain_rules, is_address
from ipy_websearch.providers.registry import create
from ipy_websearch.results import SearchResults
from ipy_websearch.usage import Charge
from tests.fakes.engine_checks import (
    EVERY_FILTER,
    check_every_filter,
    check_sound,
    check_survives,
    context,
    damaged,
    odd_json,
    run,
    search,
)
from tests.fakes.scripted import Scripted

WIRE = Path(__file__).parent / "data" / "wire" / "brave"
WEB, RICH = "/res/v1/web/search", "/res/v1/web/rich"
KEY = "BSA-fake-key-for-the-tests-0000"


@pytest.fixture
def brave(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A scripted server in the place of Brave's, and a key."""
    with Scripted() as server:
        monkeypatch.setenv("BRAVE_BASE_URL", server.url + "/")
        monkeypatch.setenv("BRAVE_API_KEY", KEY)
        yield server
        server.check()


def recorded(name: str) -> Any:
    """Return a recorded body."""
    return json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))


def page(**fields: Any) -> dict[str, Any]:
    """Return a web answer with one result that has these fields."""
    return {"web": {"results": [{"title": "T", "url": "https://a.example/", "description": "D", **fields}]}}


def error(code: str, status: int, detail: str = "no", meta: Any = None) -> dict[str, Any]:
    """Return an error as Brave words it."""
    return {"type": "ErrorResponse", "error": {"code": code, "status": status, "detail": detail, "meta": meta or {}}}


# --- what is sent ---------------------------------------------------------------------------------------------------


def test_a_search_sends_the_documented_parameters(brave: Scripted) -> None:
    """Extra snippets and the rich call are always asked for, decorations never; the key goes into its header."""
    brave.answer(page(), path=WEB)
    search("brave", "a b", count=7, freshness="week", country="de", language="de", safe_search="strict")
    sent = brave.requests[0]
    assert (sent.method, sent.path, sent.headers["x-subscription-token"]) == ("GET", WEB, KEY)
    assert sent.params == {
        "q": "a b",
        "count": "7",
        "freshness": "pw",
        "country": "DE",
        "search_lang": "de",
        "safesearch": "strict",
        "extra_snippets": "true",
        "enable_rich_callback": "1",
        "text_decorations": "false",
    }


def test_what_was_not_chosen_is_not_sent(brave: Scripted) -> None:
    """Brave's own defaults hold for country, language and date."""
    brave.answer(page(), path=WEB)
    search("brave")
    assert not {"country", "search_lang", "freshness", "goggles", "goggles_id"} & set(brave.requests[0].params)


@pytest.mark.parametrize(("ours", "braves"), [("ja", "jp"), ("zh", "zh-hans"), ("zh-TW", "zh-hant"), ("pt-BR", "pt-br")])
def test_languages_are_spelt_as_brave_spells_them(brave: Scripted, ours: str, braves: str) -> None:
    """A few of Brave's language codes are its own."""
    brave.answer(page(), path=WEB)
    search("brave", language=ours)
    assert brave.requests[0].params["search_lang"] == braves


def test_a_long_query_is_cut_at_a_word_and_that_is_said(brave: Scripted) -> None:
    """Brave takes 400 characters and 50 words; a count above 20 is brought down to it."""
    brave.answer(page(), path=WEB)
    results = search("brave", "word " * 60, count=50)
    assert brave.requests[0].params["q"] == " ".join(["word"] * 50)
    assert brave.requests[0].params["count"] == "20"
    assert "cut" in results.notices[0] and "at most 20 results, not 50" in results.notices[1]
    search("brave", "abcdefghi " * 49)
    assert 390 <= len(brave.requests[1].params["q"]) <= 400 and brave.requests[1].params["q"].endswith("abcdefghi")


def test_domain_lists_become_goggles_and_are_kept_to(brave: Scripted) -> None:
    """Allowed and blocked domains are sent as inline rules, and checked on what comes back."""
    hits = [{"title": "T", "url": f"https://{host}/"} for host in ("docs.a.com", "b.org", "nota.com", "c.net")]
    brave.answer({"web": {"results": hits}}, path=WEB)
    allowed = search("brave", allowed_domains=("a.com", "b.org"))
    assert brave.requests[0].params["goggles"] == "$discard\n$boost,site=a.com\n$boost,site=b.org"
    assert [r.url for r in allowed] == ["https://docs.a.com/", "https://b.org/"]
    blocked = search("brave", blocked_domains=("a.com",))
    assert brave.requests[1].params["goggles"] == "$discard,site=a.com"
    assert [r.url for r in blocked] == ["https://b.org/", "https://nota.com/", "https://c.net/"]


def test_goggles_are_sent_under_their_new_name(brave: Scripted) -> None:
    """Addresses go each on their own, inline rules together with the domain rules, as repeated `goggles`."""
    brave.answer(page(), path=WEB)
    hosted = "https://raw.githubusercontent.com/brave/goggles-quickstart/main/goggles/tech_blogs.goggle"
    search("brave", goggles=(hosted, "$boost=3,site=docs.python.org"), blocked_domains=("x.com",))
    assert brave.requests[0].params["goggles"] == [hosted, "$boost=3,site=docs.python.org\n$discard,site=x.com"]


def test_goggles_too_long_for_an_address_are_posted(brave: Scripted) -> None:
    """Hundreds of domains go as a JSON body with the same parameters."""
    brave.answer(page(), path=WEB)
    search("brave", blocked_domains=tuple(f"spam{n}.example" for n in range(300)))
    sent = brave.requests[0]
    assert sent.method == "POST" and sent.params == {} and sent.headers["x-subscription-token"] == KEY
    assert sent.body["q"] == "window functions" and sent.body["goggles"][0].count("\n") == 299


def test_a_faulty_goggle_is_named_by_its_line_before_anything_is_sent(brave: Scripted) -> None:
    """Brave would not say where the fault is."""
    with pytest.raises(ConfigError, match=r"line 3, .*unknown option 'boots'; did you mean 'boost'"):
        search("brave", goggles=("! mine\n$boost=2,site=a.com\n$boots=3,site=b.com",))
    assert brave.requests == []


def test_named_tools_may_set_braves_own_parameters(brave: Scripted) -> None:
    """Options that Brave has are passed on; others are an error that lists them."""
    brave.answer(page(), path=WEB)
    search("brave", options={"units": "metric"})
    assert brave.requests[0].params["units"] == "metric"
    with pytest.raises(ConfigError, match="did you mean 'units'"):
        search("brave", options={"unit": "metric"})


# --- how answers are read -------------------------------------------------------------------------------------------


def test_a_recorded_answer_becomes_results(brave: Scripted) -> None:
    """Tags and entities are gone, dates are aware UTC out of `page_age`, results without one have none, no score."""
    brave.answer(recorded("helmut_web"), path=WEB)
    results = search("brave", "hello world", count=20)
    first = results[0]
    assert (len(results), results.provider, results.query) == (20, "brave", "hello world")
    assert (first.title, first.url) == (
        '"Hello, World!" program - Wikipedia',
        "https://en.wikipedia.org/wiki/%22Hello,_World!%22_program",
    )
    assert first.description.startswith('A "Hello, World!" program is usually a simple computer program that emits')
    assert "language's basic syntax" in first.description
    assert first.published_date == datetime(2024, 12, 27, 15, 49, 55, tzinfo=UTC)
    assert all(result.score is None for result in results)
    assert results.charges == (Charge("brave", "search"),)
    assert results.raw == recorded("helmut_web")
    check_sound(results)


def test_no_date_is_made_up(brave: Scripted) -> None:
    """Where `page_age` is missing there is none, and "1 day ago" is never read as one."""
    brave.answer(recorded("sk_brave_what_is_the_semantic_kernel"), path=WEB)
    dates = [result.published_date for result in search("brave", count=10)]
    assert dates[0] is None and dates[4] is None and dates[7] is None
    assert dates[3] == datetime(2025, 4, 5, 6, 44, 24, tzinfo=UTC)
    brave.forget()
    for age in ("4 days ago", "September 6, 2019", "0001-01-01T00:00:00", 1735689600, "2025"):
        brave.answer(page(page_age=age, age="4 days ago"), path=WEB)
        assert search("brave")[0].published_date is None
        brave.forget()


def test_extra_snippets_and_the_searched_words_are_passed_on(brave: Scripted) -> None:
    """Snippets are plain, at most five, not the description again; a corrected query is said."""
    brave.answer(recorded("docs_web_search_extra_snippets_rich_hint"), path=WEB)
    brave.answer({}, path=RICH, status=404)
    results = search("brave", "python frameworks")
    assert results[0].extra_snippets == ("Additional excerpt 1...", "Additional excerpt 2...")
    assert results[0].published_date is None
    assert "brave searched for 'python web frameworks'" in results.notices
    brave.forget()
    brave.answer(page(extra_snippets=["D", "<b>1</b>", "1", "", None, "2", "3", "4", "5", "6"]), path=WEB)
    assert search("brave")[0].extra_snippets == ("1", "2", "3", "4", "5")


def test_a_long_description_is_cut_at_a_word(brave: Scripted) -> None:
    """2,000 characters are enough to judge a result by; the whole is in `raw`."""
    brave.answer(page(description="lorem " * 1_000), path=WEB)
    result = search("brave")[0]
    assert 1_900 < len(result.description) <= 2_000 and result.description.endswith("lorem…")


def test_results_without_a_web_address_are_left_out(brave: Scripted) -> None:
    """What cannot be opened is no result."""
    urls = ["javascript:alert(1)", "", None, 5, "http://[", "ftp://a.example/", "https://", "https://ok.example/a b"]
    brave.answer({"web": {"results": [{"title": "T", "url": url} for url in urls] + ["no object", None]}}, path=WEB)
    assert [result.url for result in search("brave", count=20)] == ["https://ok.example/a%20b"]


def test_no_results_are_an_answer(brave: Scripted) -> None:
    """Nothing found is an empty result that was billed."""
    brave.answer({"type": "search", "query": {"original": "x"}}, path=WEB)
    results = search("brave")
    assert len(results) == 0 and results.charges == (Charge("brave", "search"),)


# --- rich results -----------------------------------------------------------------------------------------------------


def test_rich_data_are_fetched_along(brave: Scripted) -> None:
    """A callback key is followed with the same key; the data are in `extra` and beside the raw answer."""
    rich = {"type": "rich", "results": [{"type": "rich", "subtype": "weather", "weather": {"temp": 9.5}}]}
    brave.answer(page() | {"rich": {"type": "rich", "hint": {"vertical": "weather", "callback_key": "86d06a"}}}, path=WEB)
    brave.answer(rich, path=RICH)
    results = search("brave", "weather in Oslo")
    assert brave.requests[1].params == {"callback_key": "86d06a"}
    assert brave.requests[1].headers["x-subscription-token"] == KEY
    assert results.extra["rich"] == rich and results.raw["rich_results"] == rich
    assert results.charges == (Charge("brave", "search"),) and results.notices == ()


@pytest.mark.parametrize(("body", "status"), [({}, 404), (b"not json", 200), ([], 200), ({}, 500), ({}, 429)])
def test_a_rich_call_that_fails_does_not_fail_the_search(brave: Scripted, body: Any, status: int) -> None:
    """The web results are there all the same, and the rich call is not repeated."""
    brave.answer(page() | {"rich": {"hint": {"callback_key": "old"}}}, path=WEB)
    brave.answer(body, status=status, path=RICH)
    results = search("brave", "weather in Oslo")
    assert len(results) == 1 and "rich" not in results.extra and "rich_results" not in results.raw
    assert len(brave.requests) == 2
    assert (len(results.notices) == 1) == (status != 200 or body == b"not json")


# --- errors -----------------------------------------------------------------------------------------------------------


def test_without_a_key_the_error_names_every_way_to_set_it(brave: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent without a key."""
    monkeypatch.delenv("BRAVE_API_KEY")
    with pytest.raises(MissingKeyError, match="%websearch key brave.*BRAVE_API_KEY"):
        search("brave")
    assert brave.requests == []


@pytest.mark.parametrize("status", [401, 422])
def test_a_refused_key_is_said_to_be_one(brave: Scripted, status: int) -> None:
    """Brave answers 401 or 422: its code counts; the error says how to set the key and does not show it."""
    brave.answer(error("SUBSCRIPTION_TOKEN_INVALID", status, f"The token {KEY} is invalid"), status=status)
    with pytest.raises(ProviderError) as caught:
        search("brave")
    assert caught.value.status == status and len(brave.requests) == 1
    assert "key was refused" in str(caught.value) and "%websearch key brave" in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_plan_that_lacks_something_is_said_to(brave: Scripted) -> None:
    """403 is neither a wrong key nor worth a second try."""
    brave.answer(error("OPTION_NOT_IN_PLAN", 403, "The option is not in your plan"), status=403)
    with pytest.raises(ProviderError, match="does not allow this: The option is not in your plan") as caught:
        search("brave")
    assert caught.value.status == 403


def test_a_wrong_parameter_is_named(brave: Scripted) -> None:
    """What Brave's validation says about a parameter reaches the user."""
    meta = {"errors": [{"type": "enum", "loc": ["query", "country"], "msg": "Input should be 'AR', 'AU' or 'AT'"}]}
    brave.answer(error("VALIDATION", 422, "Unable to validate request parameter(s)", meta), status=422)
    with pytest.raises(ProviderError, match="Unable to validate .*country: Input should be 'AR'") as caught:
        search("brave", country="xx")
    assert caught.value.status == 422


@pytest.mark.parametrize(
    ("meta", "headers", "words", "seconds"),
    [
        ({"rate_limit": 1, "rate_current": 1, "quota_limit": 15_000, "quota_current": 3}, "1, 1419704", "per second (1)", 1.0),
        (
            {"rate_limit": 1, "rate_current": 0, "quota_limit": 15_000, "quota_current": 15_000},
            "1, 1419704",
            "month (15,000",
            1_419_704.0,
        ),
        ({}, None, "per second", 1.0),
        ({"rate_limit": "?", "quota_limit": None}, "soon, ", "per second", 1.0),
    ],
)
def test_which_rate_limit_was_passed_is_said(
    brave: Scripted, meta: Any, headers: str | None, words: str, seconds: float
) -> None:
    """The second's limit passes soon, the month's does not: the error tells them apart, and when they are over."""
    sent = {} if headers is None else {"X-RateLimit-Reset": headers}
    brave.answer(error("RATE_LIMITED", 429, "Request rate limit exceeded", meta), status=429, headers=sent)
    with pytest.raises(RateLimitedError) as caught:
        search("brave")
    assert words in str(caught.value) and caught.value.retry_after == seconds
    assert caught.value.status == 429 and len(brave.requests) == 1


def test_a_month_that_is_used_up_is_seen_in_the_headers_too(brave: Scripted) -> None:
    """Where the body says nothing, the remaining requests of both windows do."""
    headers = {"X-RateLimit-Reset": "1, 1000", "X-RateLimit-Remaining": "1, 0"}
    brave.answer(b"", status=429, headers=headers)
    with pytest.raises(RateLimitedError, match="per month") as caught:
        search("brave")
    assert caught.value.retry_after == 1000


def test_an_address_that_is_none_is_a_setting_to_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    """BRAVE_BASE_URL is checked before a key is sent anywhere."""
    monkeypatch.setenv("BRAVE_API_KEY", KEY)
    monkeypatch.setenv("BRAVE_BASE_URL", "api.search.brave.com")
    with pytest.raises(ConfigError, match="BRAVE_BASE_URL is 'api.search.brave.com'"):
        search("brave")


@given(body=odd_json | damaged(recorded("sk_brave_what_is_the_semantic_kernel")), rich=odd_json)
@settings(max_examples=80)
def test_whatever_brave_sends_nothing_but_our_errors_comes_out(body: Any, rich: Any) -> None:
    """Missing fields, nulls, wrong types and hostile text are read as far as they can be."""
    with Scripted() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRAVE_BASE_URL", server.url)
        patch.setenv("BRAVE_API_KEY", KEY)
        server.answer(body | {"rich": {"hint": {"callback_key": "x"}}} if isinstance(body, dict) else body, path=WEB)
        server.answer(rich, path=RICH)
        check_survives("brave")


# --- LLM context ------------------------------------------------------------------------------------------------------

CONTEXT = "/res/v1/llm/context"


def llm_context(query: str = "a b", *, request: dict[str, Any] | None = None, **options: Any) -> SearchResults:
    """Return what the LLM context gives."""
    made = context()
    engine = cast(BraveProvider, create("brave", made))
    return run(engine.llm_context(SearchRequest(query, **{"count": 20, **(request or {})}), **options), made)


def test_brave_takes_every_filter(engine: Callable[[str], Any]) -> None:
    """A strict server refuses none of the requests that can be made."""
    engine("brave")
    check_every_filter("brave")
    for fields in EVERY_FILTER:
        llm_context(request=fields)


def test_a_context_call_sends_the_documented_parameters(brave: Scripted) -> None:
    """What the design fixes is fixed, the rest is the caller's."""
    brave.answer({"grounding": {}}, path=CONTEXT)
    llm_context(maximum_number_of_tokens=2048, context_threshold_mode="strict", request={"freshness": "pd", "country": "us"})
    assert (brave.requests[0].method, brave.requests[0].headers["x-subscription-token"]) == ("GET", KEY)
    assert brave.requests[0].params == {
        "q": "a b",
        "count": "20",
        "freshness": "pd",
        "country": "US",
        "safesearch": "moderate",
        "maximum_number_of_urls": "20",
        "maximum_number_of_snippets": "50",
        "maximum_number_of_tokens_per_url": "4096",
        "maximum_number_of_tokens": "2048",
        "context_threshold_mode": "strict",
    }


def test_passages_come_whole(brave: Scripted) -> None:
    """The first is the description, the others are snippets; lines stay, dates are the ISO ones; one context call is booked."""
    brave.answer(recorded("docs_llm_context_standard"), path=CONTEXT)
    results = llm_context()
    assert results[0].description == "Relevant text chunk extracted from the page..."
    assert results[0].extra_snippets == ("Another relevant passage from the same page...",)
    assert results[0].published_date == datetime(2025, 1, 15, tzinfo=UTC)
    assert results.charges == (Charge("brave", "context"),) and results.raw == recorded("docs_llm_context_standard")
    brave.forget()
    table = '{"@type": "Table",\n "rows": [1, 2]}'
    pages = [{"url": "https://a.example/", "snippets": ["x" * 5_000, f"{table}\x1b[31m", {"text": "object"}, None, ""]}]
    brave.answer(
        {"grounding": {"generic": pages}, "sources": {"https://a.example/": {"title": "T", "age": ["long"]}}}, path=CONTEXT
    )
    page_ = llm_context()[0]
    assert (page_.title, len(page_.description), page_.extra_snippets) == ("T", 5_000, (table, "object"))
    assert page_.published_date is None


def test_places_are_pages_too(brave: Scripted) -> None:
    """`poi` is an object and `map` a list; `age` may be null."""
    brave.answer(recorded("docs_llm_context_local"), path=CONTEXT)
    assert [(r.url, r.title) for r in llm_context()] == [
        ("https://business.com", "Title of business.com website"),
        ("https://place.com", "Title of place.com website"),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maximum_number_of_tokens": 100}, "between 1024 and 32768"),
        ({"context_threshold_mode": "all"}, "one of strict, balanced"),
    ],
)
def test_context_values_that_brave_does_not_take_are_refused(brave: Scripted, options: dict[str, Any], words: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ConfigError, match=words):
        llm_context(**options)
    assert brave.requests == []


@given(body=odd_json | damaged(recorded("docs_llm_context_standard")) | damaged(recorded("docs_llm_context_local")))
@settings(max_examples=80)
def test_whatever_a_context_call_gives_nothing_but_our_errors_comes_out(body: Any) -> None:
    """Here too."""
    with Scripted() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRAVE_BASE_URL", server.url)
        patch.setenv("BRAVE_API_KEY", KEY)
        server.answer(body)
        try:
            assert all(isinstance(result.description, str) for result in llm_context())
        except WebSearchError as exc:
            assert "\n" not in str(exc)


# --- goggles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules",
    [
        "! name: mine\n\n/docs/$boost=5\n/blog/$downrank=2\n$discard,site=x.com\n$discard",
        "|https://en.\n.html|\nfoo^bar*baz$inurl",
        "*rust*$boost=1,site=rs\n$site=community.brave.app,boost=2",
        "/section/opinion^$boost=4,site=nytimes.com",
        domain_rules(("a.com",)),
        domain_rules(blocked=("a.com", "b.com")),
    ],
)
def test_good_rules_pass(rules: str) -> None:
    """The forms that published goggles use are all understood."""
    check_rules(rules)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("$boost=11,site=a.com", "line 1, .* must be 1 to 10"),
        ("$boost=0", "must be 1 to 10"),
        ("x\n$boost,downrank", "line 2, .*one action"),
        ("a*b*c*d", r"two '\*'"),
        ("$site=", "needs a domain"),
        ("=3,site=docs.python.org", "swallowed by a shell"),
        (",site=docs.python.org", "swallowed by a shell"),
        ("two words$boost", "no blanks"),
        ("x" * 501, "at most 500 characters"),
        ("x\n" * 100_001, "100,001 rules"),
        ("! " + "x" * 2_000_001, "larger than"),
    ],
)
def test_faulty_rules_are_explained(rules: str, words: str) -> None:
    """Each of the limits and forms is checked, and the message says which it was."""
    with pytest.raises(ConfigError, match=words):
        check_rules(rules)


def test_an_address_is_told_from_rules() -> None:
    """A goggle is an address only if it is nothing else."""
    assert is_address(" https://raw.githubusercontent.com/a/b/main/c.goggle ")
    assert not is_address("|https://en.$boost") and not is_address("https://a.example\n$discard")
