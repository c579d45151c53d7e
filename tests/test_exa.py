"""Exa: what is sent, how answers are read, what it reports to cost, and which errors mean what."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from ipy_websearch.errors import ProviderError
from ipy_websearch.usage import Charge
from tests.fakes.engine_checks import check_every_filter, check_sound, check_survives, damaged, odd_json, search
from tests.fakes.scripted import Scripted

WIRE = Path(__file__).parent / "data" / "wire" / "exa"
KEY = "exa-fake-key-for-the-tests-0000"


@pytest.fixture
def exa(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A scripted server in the place of Exa's, and a key."""
    with Scripted() as server:
        monkeypatch.setenv("EXA_BASE_URL", server.url)
        monkeypatch.setenv("EXA_API_KEY", KEY)
        yield server
        server.check()


def recorded(name: str) -> Any:
    """Return a recorded body."""
    return json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))


def test_exa_takes_every_filter(engine: Callable[[str], Any]) -> None:
    """A strict server refuses none of the requests that can be made."""
    engine("exa")
    check_every_filter("exa")


def test_a_search_sends_the_documented_body(exa: Scripted) -> None:
    """Contents are asked for, since there are none otherwise; domains and dates go natively."""
    exa.answer({})
    search(
        "exa",
        "a b",
        count=7,
        country="de",
        freshness="2026-01-05to2026-06-30",
        allowed_domains=("a.com",),
        safe_search="strict",
    )
    sent = exa.requests[0]
    assert (sent.method, sent.path, sent.headers["x-api-key"]) == ("POST", "/search", KEY)
    assert sent.body == {
        "query": "a b",
        "type": "auto",
        "numResults": 7,
        "contents": {"highlights": True, "text": {"maxCharacters": 2000}},
        "includeDomains": ["a.com"],
        "startPublishedDate": "2026-01-05T00:00:00.000Z",
        "endPublishedDate": "2026-06-30T23:59:59.999Z",
        "userLocation": "DE",
        "moderation": True,
    }


def test_the_past_week_begins_a_week_ago(exa: Scripted) -> None:
    """Periods become a first day, without a last one."""
    exa.answer({})
    search("exa", freshness="pw", blocked_domains=("a.com",))
    begun = datetime.fromisoformat(exa.requests[0].body["startPublishedDate"])
    assert timedelta(days=7) <= datetime.now(UTC) - begun < timedelta(days=8, minutes=1)
    assert "endPublishedDate" not in exa.requests[0].body and exa.requests[0].body["excludeDomains"] == ["a.com"]


def test_a_recorded_answer_becomes_results(exa: Scripted) -> None:
    """Dates are aware UTC, a missing score is None, and the cost is what the answer says."""
    exa.answer(recorded("crewai_search_text_0"))
    results = search("exa", "recent developments in autonomous AI agents 2025", count=10)
    assert results[0].title == "AI agents arrived in 2025 – here's what happened and the ..."
    assert results[0].published_date == datetime(2025, 12, 29, tzinfo=UTC)
    assert all(result.score is None for result in results)
    assert results[0].description.startswith("AI agents arrived in 2025 –here’s what happened")
    assert results.charges == (Charge("exa", usd=Decimal("0.015")),)
    check_sound(results)


def test_the_passages_that_fit_come_first(exa: Scripted) -> None:
    """Highlights make the description and the snippets; the beginning of the text is only used without them."""
    item = {"url": "https://a.example/", "highlights": ["one", "two", "<b>three</b>"], "text": "beginning", "score": 0.2}
    exa.answer({"results": [item, {"url": "https://b.example/", "text": "beginning"}]})
    first, second = search("exa")
    assert (first.description, first.extra_snippets, first.score) == ("one", ("two", "three"), 0.2)
    assert (second.description, second.extra_snippets, second.score) == ("beginning", (), None)


@pytest.mark.parametrize(
    "cost", [{}, {"costDollars": None}, {"costDollars": {"total": "free"}}, {"costDollars": {"total": -1}}]
)
def test_without_a_report_the_price_table_decides(exa: Scripted, cost: dict[str, Any]) -> None:
    """An unknown cost is None, and never 0."""
    exa.answer(cost)
    assert search("exa").charges == (Charge("exa", usd=None),)


@pytest.mark.parametrize(
    ("status", "tag", "words"),
    [
        (401, "INVALID_API_KEY", "the key was refused; set EXA_API_KEY again with `%websearch key exa`: no"),
        (402, "NO_MORE_CREDITS", "the plan's credits are used up: no"),
        (400, "INVALID_REQUEST_BODY", "exa answered 400: no"),
    ],
)
def test_refusals_say_what_to_do(exa: Scripted, status: int, tag: str, words: str) -> None:
    """Exa's message, with what it means."""
    exa.answer({"requestId": "1", "error": "no", "tag": tag}, status=status)
    with pytest.raises(ProviderError, match=words) as caught:
        search("exa")
    assert caught.value.status == status


@given(body=odd_json | damaged(recorded("crewai_search_text_0")))
@settings(max_examples=80)
def test_whatever_it_sends_nothing_but_our_errors_comes_out(body: Any) -> None:
    """Missing fields, nulls, wrong types and hostile text are read as far as they can be."""
    with Scripted() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXA_BASE_URL", server.url)
        patch.setenv("EXA_API_KEY", KEY)
        server.answer(body)
        check_survives("exa")
