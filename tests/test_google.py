"""Google Custom Search: what is sent, how answers are read, and which errors mean what."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from ipy_websearch.errors import MissingKeyError, ProviderError, RateLimitedError
from ipy_websearch.usage import Charge
from tests.fakes.engine_checks import check_every_filter, check_sound, check_survives, damaged, odd_json, search
from tests.fakes.scripted import Scripted

WIRE = Path(__file__).parent / "data" / "wire" / "google_cse"
KEY, ENGINE = "AIza-fake-key-for-the-tests-0000", "0123456789abcdef0"


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A scripted server in the place of Google's, a key and an engine."""
    with Scripted() as server:
        monkeypatch.setenv("GOOGLE_SEARCH_BASE_URL", server.url)
        monkeypatch.setenv("GOOGLE_SEARCH_API_KEY", KEY)
        monkeypatch.setenv("GOOGLE_SEARCH_ENGINE_ID", ENGINE)
        yield server
        server.check()


def recorded(name: str) -> Any:
    """Return a recorded body."""
    return json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))


def refusal(status: int, message: str, reason: str) -> dict[str, Any]:
    """Return an error as Google words it."""
    return {"error": {"code": status, "message": message, "errors": [{"message": message, "reason": reason}], "status": "X"}}


def test_google_takes_every_filter(engine: Callable[[str], Any]) -> None:
    """A strict server refuses none of the requests that can be made."""
    engine("google")
    check_every_filter("google")


def test_a_search_sends_the_documented_parameters(google: Scripted) -> None:
    """Key and engine id in the query, filters under Google's names."""
    google.answer({})
    search("google", "a b", count=7, freshness="pw", country="GB", language="de", safe_search="off")
    assert google.requests[0].path == "/customsearch/v1"
    assert google.requests[0].params == {
        "key": KEY,
        "cx": ENGINE,
        "q": "a b",
        "num": "7",
        "dateRestrict": "w1",
        "gl": "uk",
        "lr": "lang_de",
        "safe": "off",
    }


def test_one_domain_has_a_parameter_and_several_are_operators(google: Scripted) -> None:
    """No domain is silently dropped, and what comes back is checked."""
    google.answer({"items": [{"link": "https://docs.a.com/"}, {"link": "https://b.org/"}]})
    one = search("google", "q q", allowed_domains=("a.com",))
    search("google", "q q", blocked_domains=("a.com",))
    search("google", "q q", allowed_domains=("a.com", "b.org"))
    search("google", "q q", blocked_domains=("a.com", "b.org"))
    sent = [{k: v for k, v in r.params.items() if k in ("q", "siteSearch", "siteSearchFilter")} for r in google.requests]
    assert sent == [
        {"q": "q q", "siteSearch": "a.com", "siteSearchFilter": "i"},
        {"q": "q q", "siteSearch": "a.com", "siteSearchFilter": "e"},
        {"q": "q q (site:a.com OR site:b.org)"},
        {"q": "q q -site:a.com -site:b.org"},
    ]
    assert [result.url for result in one] == ["https://docs.a.com/"]


def test_a_range_of_dates_is_sent_as_google_wants_it(google: Scripted) -> None:
    """A range is a way of sorting there."""
    google.answer({})
    search("google", freshness="2026-01-05to2026-06-30")
    assert google.requests[0].params["sort"] == "date:r:20260105:20260630"


def test_more_than_ten_results_are_not_bought_silently(google: Scripted) -> None:
    """Ten come in one request; more would be more requests, so that is said instead."""
    google.answer({})
    results = search("google", count=20)
    assert len(google.requests) == 1 and google.requests[0].params["num"] == "10"
    assert "at most 10 results, not 20" in results.notices[0]


def test_a_recorded_answer_becomes_results(google: Scripted) -> None:
    """Dates are the page's own, else the day its snippet begins with, and never one of its odder tags."""
    google.answer(recorded("sk_google_what_is_the_semantic_kernel"))
    results = search("google", "What is the Semantic Kernel?", count=10)
    assert results[0].title == "Introduction to Semantic Kernel | Microsoft Learn"
    assert results[0].published_date == datetime(2024, 6, 24, tzinfo=UTC)
    assert results[1].published_date is None
    assert results[3].published_date == datetime(2023, 12, 19, 13, 45, 33, 495_000, tzinfo=UTC)
    assert "\n" not in results[0].description and "\u00a0" not in results[0].description
    assert results.charges == (Charge("google"),) and all(result.score is None for result in results)
    check_sound(results)


def test_recorded_items_without_dates_have_none(google: Scripted) -> None:
    """`article:modified_time` is no publication, and words are no date."""
    google.answer(recorded("vscode_google_inserter_items"))
    dates = [result.published_date for result in search("google", "hello", count=10)]
    assert dates[0] == datetime(2015, 10, 22, tzinfo=UTC) and dates[1:] == [None] * 9


def test_no_items_are_no_results(google: Scripted) -> None:
    """Google leaves the field out when nothing was found; a corrected query is passed on."""
    google.answer({"searchInformation": {"totalResults": "0"}, "spelling": {"correctedQuery": "<b>duckdb</b>"}})
    results = search("google", "dukcdb")
    assert len(results) == 0 and results.notices == ("google suggests 'duckdb'",)


def test_both_keys_are_needed(google: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is missing is named."""
    monkeypatch.delenv("GOOGLE_SEARCH_ENGINE_ID")
    with pytest.raises(MissingKeyError, match="GOOGLE_SEARCH_ENGINE_ID is not set"):
        search("google")
    monkeypatch.delenv("GOOGLE_SEARCH_API_KEY")
    with pytest.raises(MissingKeyError, match="GOOGLE_SEARCH_API_KEY is not set"):
        search("google")
    assert google.requests == []


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (400, "API key not valid. Please pass a valid API key.", "the key was refused.*%websearch key google"),
        (400, "Request contains an invalid argument.", "is GOOGLE_SEARCH_ENGINE_ID right"),
        (403, "This project does not have the access", "does not allow this: This project"),
    ],
)
def test_refusals_say_what_to_look_at(google: Scripted, status: int, message: str, words: str) -> None:
    """Google answers 400 to a wrong key and to a wrong engine alike."""
    google.answer(refusal(status, message, "x"), status=status)
    with pytest.raises(ProviderError, match=words) as caught:
        search("google")
    assert caught.value.status == status and KEY not in str(caught.value) and "key=" not in str(caught.value)


def test_the_key_in_the_query_is_in_no_error(google: Scripted) -> None:
    """Neither in what Google echoes, nor when it cannot be reached or redirects."""
    google.answer(refusal(429, f"Quota exceeded: https://x/?key={KEY}&cx={ENGINE}", "rateLimitExceeded"), status=429)
    with pytest.raises(RateLimitedError) as limited:
        search("google")
    google.stop()
    with pytest.raises(ProviderError) as gone:
        search("google")
    for error in (limited.value, gone.value):
        assert KEY not in str(error) and ENGINE not in str(error)


@given(body=odd_json | damaged(recorded("sk_google_what_is_the_semantic_kernel")))
@settings(max_examples=80)
def test_whatever_it_sends_nothing_but_our_errors_comes_out(body: Any) -> None:
    """Missing fields, nulls, wrong types and hostile text are read as far as they can be."""
    with Scripted() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOOGLE_SEARCH_BASE_URL", server.url)
        patch.setenv("GOOGLE_SEARCH_API_KEY", KEY)
        patch.setenv("GOOGLE_SEARCH_ENGINE_ID", ENGINE)
        server.answer(body)
        check_survives("google")
