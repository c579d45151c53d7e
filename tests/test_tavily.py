"""Tavily: what is sent, how answers are read, what it costs, and which errors mean what."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.providers.registry import create
from ipy_websearch.usage import Charge
from tests.fakes.engine_checks import check_every_filter, check_sound, check_survives, context, damaged, odd_json, search
from tests.fakes.scripted import Scripted

WIRE = Path(__file__).parent / "data" / "wire" / "tavily"
KEY = "tvly-fake-key-for-the-tests-0000"


@pytest.fixture
def tavily(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A scripted server in the place of Tavily's, and a key."""
    with Scripted() as server:
        monkeypatch.setenv("TAVILY_BASE_URL", server.url)
        monkeypatch.setenv("TAVILY_API_KEY", KEY)
        yield server
        server.check()


def recorded(name: str) -> Any:
    """Return a recorded body."""
    return json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))


def test_tavily_takes_every_filter(engine: Callable[[str], Any]) -> None:
    """A strict server refuses none of the requests that can be made."""
    engine("tavily")
    check_every_filter("tavily")


def test_a_search_sends_the_documented_body(tavily: Scripted) -> None:
    """Countries go by name, domains natively, the key as a bearer token, and the use of credits is asked for."""
    tavily.answer({})
    search("tavily", "a b", count=7, freshness="pw", country="US", allowed_domains=("a.com", "b.org"))
    sent = tavily.requests[0]
    assert (sent.method, sent.path, sent.headers["authorization"]) == ("POST", "/search", f"Bearer {KEY}")
    assert sent.body == {
        "query": "a b",
        "max_results": 7,
        "search_depth": "basic",
        "include_usage": True,
        "time_range": "week",
        "include_domains": ["a.com", "b.org"],
        "country": "united states",
    }
    search("tavily", "a b", freshness="2026-01-05to2026-06-30", blocked_domains=("a.com",))
    assert tavily.requests[1].body["start_date"] == "2026-01-05" and tavily.requests[1].body["end_date"] == "2026-06-30"
    assert tavily.requests[1].body["exclude_domains"] == ["a.com"]


def test_a_country_it_does_not_know_is_left_out_and_said(tavily: Scripted) -> None:
    """So is one that the chosen topic does not take."""
    tavily.answer({})
    assert "no country 'ZZ'" in search("tavily", country="ZZ").notices[0]
    search("tavily", country="us", options={"topic": "news"})
    assert all("country" not in request.body for request in tavily.requests)


def test_a_recorded_answer_becomes_results(tavily: Scripted) -> None:
    """Scores are Tavily's, no date is made up, Markdown stays text of one line."""
    tavily.answer(recorded("pydantic_ai_test_basic_search"))
    results = search("tavily", "What is Pydantic AI?")
    assert len(results) == 5 and results[0].score == 0.9999875
    assert results[0].title == "Pydantic AI: Agent Framework"
    assert results[0].description.startswith("## AI Agent Insider. # Pydantic AI: Agent Framework. Introducing")
    assert all(result.published_date is None for result in results)
    assert results.charges == (Charge("tavily", units=Decimal(1), unit="credit"),)
    check_sound(results)


def test_dates_of_news_are_read(tavily: Scripted) -> None:
    """RFC 1123 with a zone becomes UTC; anything else is no date."""
    dates = [
        "Tue, 11 Mar 2025 10:00:00 GMT",
        "Tue, 11 Mar 2025 10:00:00 +0200",
        "3 days ago",
        "Tue, 99 Mar 2025 10:00:00 GMT",
        5,
    ]
    tavily.answer({"results": [{"url": "https://a.example/", "published_date": date} for date in dates]})
    assert [result.published_date for result in search("tavily", options={"topic": "news"})] == [
        datetime(2025, 3, 11, 10, tzinfo=UTC),
        datetime(2025, 3, 11, 8, tzinfo=UTC),
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("answer", "options", "credits"),
    [
        ({"usage": {"credits": 2}}, {}, "2"),
        ({"usage": {"credits": 10.0}}, {}, "10"),
        ({"usage": {"credits": 0}}, {}, "0"),
        ({}, {}, "1"),
        ({"usage": {"credits": "many"}}, {"search_depth": "advanced"}, "2"),
    ],
)
def test_the_credits_that_were_used_are_booked(tavily: Scripted, answer: Any, options: Any, credits: str) -> None:
    """What the answer reports counts; without a report, what the depth costs."""
    tavily.answer(answer)
    (charge,) = search("tavily", options=options).charges
    assert (str(charge.units), charge.unit, charge.usd) == (credits, "credit", None)


def test_an_advanced_search_is_known_to_cost_two(tavily: Scripted) -> None:
    """For ceilings, the price of a named tool is that of its parameters."""
    assert getattr(create("tavily", context(options={"search_depth": "advanced"})), "price") == (  # noqa: B009
        Charge("tavily", units=Decimal(2), unit="credit"),
    )


def test_its_own_answer_is_passed_on_when_asked_for(tavily: Scripted) -> None:
    """A named tool may ask for Tavily's own answer; an unknown option is refused."""
    tavily.answer({"answer": "It is a <b>framework</b>.", "results": []})
    assert search("tavily", options={"include_answer": True}).extra["answer"] == "It is a framework."
    assert tavily.requests[0].body["include_answer"] is True
    with pytest.raises(ConfigError, match="did you mean 'search_depth'"):
        search("tavily", options={"searchdepth": "advanced"})


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "the key was refused; set TAVILY_API_KEY again with `%websearch key tavily`: Unauthorized"),
        (432, "the plan's limit is used up .Unauthorized"),
        (433, "the plan's limit is used up"),
    ],
)
def test_refusals_say_what_to_do(tavily: Scripted, status: int, words: str) -> None:
    """Tavily has statuses of its own."""
    tavily.answer({"detail": {"error": "Unauthorized: missing"}}, status=status)
    with pytest.raises(ProviderError, match=words) as caught:
        search("tavily")
    assert caught.value.status == status and len(tavily.requests) == 1


@given(body=odd_json | damaged(recorded("pydantic_ai_test_basic_search")))
@settings(max_examples=80)
def test_whatever_it_sends_nothing_but_our_errors_comes_out(body: Any) -> None:
    """Missing fields, nulls, wrong types and hostile text are read as far as they can be."""
    with Scripted() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAVILY_BASE_URL", server.url)
        patch.setenv("TAVILY_API_KEY", KEY)
        server.answer(body)
        check_survives("tavily")
