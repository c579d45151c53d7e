"""The calls of one engine alone: Brave's rich results and LLM Context, Firecrawl's pages and maps, Wikipedia's questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from ipy_websearch.providers.base import Place, SearchRequest, create
from ipy_websearch.providers.brave import BraveProvider
from ipy_websearch.providers.wikipedia import search_words
from ipy_websearch.results import SearchResults
from ipy_websearch.usage import Charge
from tests.fakes.wire import EVERY_FILTER, Service, context, recorded, run, search

WEB, RICH = "/res/v1/web/search", "/res/v1/web/rich"
Served = Callable[[str], Service]


def brave(method: str, *args: Any, **options: Any) -> Any:
    """Return the result of one of Brave's calls."""
    made = context()
    return run(getattr(cast(BraveProvider, create("brave", made)), method)(*args, **options), made)


def llm_context(fields: dict[str, Any] | None = None, **options: Any) -> SearchResults:
    """Return the result of an LLM Context call."""
    found: SearchResults = brave("llm_context", SearchRequest("a b", **{"count": 20, **(fields or {})}), **options)
    return found


# --- Brave ------------------------------------------------------------------------------------------------------------


def test_rich_data_are_fetched_along(served: Served) -> None:
    """The callback key is followed; the data are in `extra` and beside the raw answer, and cost nothing more."""
    server = served("brave")
    rich = {"type": "rich", "results": [{"type": "rich", "subtype": "weather"}]}
    server.answer({"web": {}, "rich": {"hint": {"callback_key": "86d06a"}}, "query": {"altered": "oslo"}}, path=WEB)
    server.answer(rich, path=RICH)
    results = search("brave", "weather in Oslo")
    assert server.requests[1].params == {"callback_key": "86d06a"}
    assert results.extra["rich"] == rich and results.raw["rich_results"] == rich
    assert results.charges == (Charge("brave"),) and results.notices == ("brave searched for 'oslo'",)


def test_a_rich_call_that_fails_does_not_fail_the_search(served: Served) -> None:
    """It is said, and not repeated."""
    server = served("brave")
    server.answer({"web": {"results": [{"url": "https://a.example/"}]}, "rich": {"hint": {"callback_key": "old"}}}, path=WEB)
    server.answer({}, status=500, path=RICH)
    results = search("brave", "weather in Oslo")
    assert len(results) == 1 and "rich" not in results.extra and "could not be had" in results.notices[0]
    assert len(server.requests) == 2


def test_long_goggles_are_posted_and_a_place_goes_into_headers(served: Served) -> None:
    """Hundreds of domains go as a JSON body; header values are ASCII."""
    server = served("brave")
    server.answer({}, path=WEB)
    place = Place("São Paulo", "SP", "America/Sao_Paulo")
    search("brave", country="br", place=place, blocked_domains=tuple(f"spam{n}.example" for n in range(300)))
    sent = server.requests[0]
    assert (sent.method, sent.params, sent.body["goggles"][0].count("\n")) == ("POST", {}, 299)
    assert (sent.headers["x-loc-city"], sent.headers["x-loc-state"], sent.headers["x-loc-country"]) == ("Sao Paulo", "SP", "BR")


def test_an_llm_context_call_takes_every_filter(engine: Callable[[str], Any]) -> None:
    """What the design fixes is fixed, the rest is the caller's."""
    fake = engine("brave")
    for fields in EVERY_FILTER:
        llm_context(fields, tokens=2048, mode="strict")
    fixed = {"maximum_number_of_urls": "20", "maximum_number_of_tokens_per_url": "4096", "maximum_number_of_tokens": "2048"}
    assert fixed.items() <= fake.requests[0].params.items()


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
    page = {"url": "https://a.example/", "snippets": ["x" * 5_000, f"{table}\x1b[31m", {"text": "object"}, None]}
    server.answer({"grounding": {"generic": [page]}})
    assert (len(llm_context()[0].description), llm_context()[0].extra_snippets) == (5_000, (table, "object"))


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
    server.forget()
    server.answer(found)
    server.answer(b"", status=404)
    results = search("wikipedia", "Größe")
    assert len(results) == 1 and "introductions could not be had" in results.notices[0]


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
