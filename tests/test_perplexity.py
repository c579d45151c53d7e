"""Perplexity's search: what is sent, how answers are read, and which errors mean what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings

from ipy_websearch.errors import ProviderError, RateLimitedError
from ipy_websearch.usage import Charge
from tests.fakes.engine_checks import check_every_filter, check_sound, check_survives, damaged, odd_json, search
from tests.fakes.scripted import Scripted

KEY = "pplx-fake-key-for-the-tests-0000"
BODY: dict[str, Any] = {
    "id": "0",
    "results": [
        {
            "title": "A",
            "url": "https://a.example/",
            "snippet": "# A\n\nText & more",
            "date": "2026-03-01",
            "last_updated": "2026-05-05",
        },
        {"title": "B", "url": "https://b.example/", "snippet": "word " * 2_000, "date": None, "last_updated": "2026-05-05"},
    ],
}


@pytest.fixture
def perplexity(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A scripted server in the place of Perplexity's, and a key."""
    with Scripted() as server:
        monkeypatch.setenv("PERPLEXITY_BASE_URL", server.url)
        monkeypatch.setenv("PERPLEXITY_API_KEY", KEY)
        yield server
        server.check()


def test_perplexity_takes_every_filter(engine: Callable[[str], Any]) -> None:
    """A strict server refuses none of the requests that can be made."""
    engine("perplexity")
    check_every_filter("perplexity")


def test_a_search_sends_the_documented_body(perplexity: Scripted) -> None:
    """Domains are one list, denied ones with a hyphen; dates are month, day, year."""
    perplexity.answer(BODY)
    search("perplexity", "a b", count=7, freshness="pm", country="uk", language="de-CH", allowed_domains=("a.com", "b.org"))
    sent = perplexity.requests[0]
    assert (sent.method, sent.path, sent.headers["authorization"]) == ("POST", "/search", f"Bearer {KEY}")
    assert sent.body == {
        "query": "a b",
        "max_results": 7,
        "search_domain_filter": ["a.com", "b.org"],
        "country": "GB",
        "search_language_filter": ["de"],
        "search_recency_filter": "month",
    }
    search("perplexity", "a b", freshness="2026-01-05to2026-06-30", blocked_domains=("a.com",))
    assert perplexity.requests[1].body["search_domain_filter"] == ["-a.com"]
    assert perplexity.requests[1].body["search_after_date_filter"] == "01/05/2026"
    assert perplexity.requests[1].body["search_before_date_filter"] == "06/30/2026"


def test_more_domains_than_it_takes_are_still_kept_to(perplexity: Scripted) -> None:
    """Twenty are sent, the others are checked on what comes back, and that is said."""
    perplexity.answer({"results": [{"url": f"https://d{n}.example/"} for n in range(30)]})
    results = search("perplexity", count=20, blocked_domains=tuple(f"d{n}.example" for n in range(25)))
    assert len(perplexity.requests[0].body["search_domain_filter"]) == 20
    assert [result.url for result in results] == [f"https://d{n}.example/" for n in range(25, 30)]
    assert "20 domains, not 25" in results.notices[0]


def test_results_are_read(perplexity: Scripted) -> None:
    """`date` is the publication and `last_updated` is not; long snippets are cut at a word and whole in `raw`."""
    perplexity.answer(BODY)
    results = search("perplexity")
    assert results[0].published_date == datetime(2026, 3, 1, tzinfo=UTC) and results[1].published_date is None
    assert results[0].description == "# A Text & more"
    assert len(results[1].description) <= 2_000 and results[1].description.endswith("word…")
    assert results.raw == BODY and results.charges == (Charge("perplexity"),)
    check_sound(results)


def test_nested_lists_are_one_list(perplexity: Scripted) -> None:
    """Several queries give one list each in older answers."""
    perplexity.answer({"results": [BODY["results"], [{"url": "https://c.example/"}], None]})
    assert [result.url for result in search("perplexity")] == ["https://a.example/", "https://b.example/", "https://c.example/"]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            401,
            b"<html><head><title>401 Authorization Required</title></head></html>",
            "key was refused.*401 Authorization Required",
        ),
        (422, {"detail": [{"loc": ["body", "query"], "msg": "field required", "type": "missing"}]}, "422: field required"),
        (400, {"error": {"message": "Bad country", "type": "bad_request", "code": 400}}, "400: Bad country"),
    ],
)
def test_refusals_are_read_in_every_form(perplexity: Scripted, status: int, body: Any, words: str) -> None:
    """JSON of two shapes, and HTML."""
    perplexity.answer(body, status=status)
    with pytest.raises(ProviderError, match=words) as caught:
        search("perplexity")
    assert caught.value.status == status


def test_a_rate_limit_goes_to_the_caller(perplexity: Scripted) -> None:
    """429 is not asked again."""
    perplexity.answer({"error": {"message": "Rate limit exceeded"}}, status=429, headers={"Retry-After": "2"})
    with pytest.raises(RateLimitedError) as caught:
        search("perplexity")
    assert caught.value.retry_after == 2 and len(perplexity.requests) == 1


@given(body=odd_json | damaged(BODY))
@settings(max_examples=80)
def test_whatever_it_sends_nothing_but_our_errors_comes_out(body: Any) -> None:
    """Missing fields, nulls, wrong types and hostile text are read as far as they can be."""
    with Scripted() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERPLEXITY_BASE_URL", server.url)
        patch.setenv("PERPLEXITY_API_KEY", KEY)
        server.answer(body)
        check_survives("perplexity")
