"""SearXNG: what is sent, how answers are read, and when nothing found is a failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from ipy_websearch.errors import ConfigError, ProviderError, RateLimitedError
from ipy_websearch.providers.registry import availability, provider_info
from ipy_websearch.usage import Charge
from tests.fakes.engine_checks import check_every_filter, check_sound, check_survives, context, damaged, odd_json, search
from tests.fakes.scripted import Scripted

WIRE = Path(__file__).parent / "data" / "wire" / "searxng"


@pytest.fixture
def searxng(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A scripted server in the place of somebody's SearXNG, below a path of its host."""
    with Scripted() as server:
        monkeypatch.setenv("SEARXNG_BASE_URL", server.url + "/searx/")
        yield server
        server.check()


def recorded(name: str) -> Any:
    """Return a recorded body."""
    return json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))


def test_searxng_takes_every_filter(engine: Callable[[str], Any]) -> None:
    """A strict server refuses none of the requests that can be made."""
    engine("searxng")
    check_every_filter("searxng")


def test_it_is_there_once_it_has_an_address(searxng: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an address it cannot be used, and the variable is named."""
    keys = context().keys
    assert availability(provider_info("searxng"), keys) == (True, "no key needed; a server of your own")
    monkeypatch.delenv("SEARXNG_BASE_URL")
    assert availability(provider_info("searxng"), keys)[0] is False
    with pytest.raises(ConfigError, match="SEARXNG_BASE_URL is not set"):
        search("searxng")


def test_a_search_sends_the_documented_parameters(searxng: Scripted) -> None:
    """Domains are operators in the query, since there is no parameter for them."""
    searxng.answer({"results": []})
    search(
        "searxng", "a b", freshness="pw", country="ch", language="de", safe_search="strict", allowed_domains=("a.com", "b.org")
    )
    assert searxng.requests[0].path == "/searx/search"
    assert searxng.requests[0].params == {
        "q": "a b (site:a.com OR site:b.org)",
        "format": "json",
        "language": "de-CH",
        "time_range": "week",
        "safesearch": "2",
    }
    search("searxng", "a b", blocked_domains=("a.com", "b.org"), options={"categories": "news"})
    assert searxng.requests[1].params["q"] == "a b -site:a.com -site:b.org"
    assert searxng.requests[1].params["categories"] == "news" and searxng.requests[1].params["safesearch"] == "1"


def test_a_recorded_answer_becomes_results(searxng: Scripted) -> None:
    """Blanks in addresses are escaped, scores kept, no more than asked for, and silent engines named."""
    searxng.answer(recorded("local_two_engines"))
    results = search("searxng", "python programming", count=4)
    assert len(results) == 4 and results[0].score == 1.0 and results[0].published_date is None
    assert results[0].url == "https://en.wikipedia.org/wiki/Python%20(programming%20language)"
    assert results.notices == ("of searxng's engines did not answer: slowone (timeout)",)
    assert results.charges == (Charge("searxng"),) and results.cost_usd == 0
    check_sound(results)


def test_dates_without_a_zone_are_utc(searxng: Scripted) -> None:
    """`publishedDate` is ISO where an engine gives one, else `pubdate` may be."""
    dates = [
        {"publishedDate": "2026-03-01T10:00:00"},
        {"publishedDate": None, "pubdate": "2026-03-02 00:00:00+02:00"},
        {"publishedDate": "today"},
    ]
    searxng.answer({"results": [{"url": "https://a.example/", "title": "T", **date} for date in dates]})
    assert [result.published_date for result in search("searxng")] == [
        datetime(2026, 3, 1, 10, tzinfo=UTC),
        datetime(2026, 3, 1, 22, tzinfo=UTC),
        None,
    ]


def test_nothing_found_because_nobody_answered_is_a_failure(searxng: Scripted) -> None:
    """An outage is not "no results": the next engine shall be asked."""
    searxng.answer(recorded("local_all_unresponsive"))
    with pytest.raises(ProviderError, match=r"engines did not answer: slowone \(Suspended: timeout\)") as caught:
        search("searxng")
    assert caught.value.status == 200


def test_nothing_found_although_all_answered_is_an_answer(searxng: Scripted) -> None:
    """So it is when there is an instant answer, of the new form or the old."""
    searxng.answer({"results": [], "unresponsive_engines": []})
    assert len(search("searxng")) == 0
    searxng.forget()
    searxng.answer({"results": [], "answers": ["42", {"answer": "forty-<b>two</b>"}], "unresponsive_engines": [["x", "y"]]})
    assert search("searxng").extra["answers"] == ["42", "forty-two"]


def test_a_server_that_gives_no_json_is_explained(searxng: Scripted) -> None:
    """The default settings serve HTML only, and the answer says no more than 403."""
    searxng.answer(b"<!doctype html><title>403 Forbidden</title>", status=403, headers={"content-type": "text/html"})
    with pytest.raises(ProviderError, match="add `json` to `search.formats` in its settings.yml"):
        search("searxng")


def test_refusals_are_passed_on(searxng: Scripted) -> None:
    """A wrong parameter, and the server's own limiter."""
    searxng.answer(recorded("error_400_no_query"), status=400)
    with pytest.raises(ProviderError, match="searxng answered 400: No query"):
        search("searxng")
    searxng.forget()
    searxng.answer(b"Too Many Requests", status=429)
    with pytest.raises(RateLimitedError):
        search("searxng")


def test_what_it_cannot_do_is_said(searxng: Scripted) -> None:
    """Goggles, a country without a language, a range of dates."""
    searxng.answer({"results": []})
    notices = search("searxng", goggles=("$discard",), country="de", freshness="2026-01-05to2026-06-30").notices
    assert "cannot apply goggles, country" in notices[0] and "no range of dates" in notices[1]


@given(body=odd_json | damaged(recorded("local_two_engines")))
@settings(max_examples=80)
def test_whatever_it_sends_nothing_but_our_errors_comes_out(body: Any) -> None:
    """Missing fields, nulls, wrong types and hostile text are read as far as they can be."""
    with Scripted() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEARXNG_BASE_URL", server.url)
        server.answer(body)
        check_survives("searxng")
