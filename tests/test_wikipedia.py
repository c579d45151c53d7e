"""Wikipedia: questions turned into searches, introductions to read, etiquette, and errors that come with status 200."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipy_websearch.errors import ProviderError, RateLimitedError
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.registry import create
from ipy_websearch.providers.wikipedia import search_words
from ipy_websearch.usage import Charge
from tests.fakes.engine_checks import AGENT, check_sound, check_survives, context, damaged, odd_json, run, search
from tests.fakes.scripted import Scripted
from tests.fakes.server import Received

WIRE = Path(__file__).parent / "data" / "wire" / "wikipedia"


@pytest.fixture
def wikipedia(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A scripted server in the place of every Wikipedia."""
    with Scripted() as server:
        monkeypatch.setenv("WIKIPEDIA_BASE_URL", server.url)
        yield server
        server.check()


def recorded(name: str) -> Any:
    """Return a recorded body."""
    return json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))


def article(title: str, pageid: int = 1, snippet: str = "words") -> dict[str, Any]:
    """Return one hit."""
    return {"ns": 0, "title": title, "pageid": pageid, "snippet": snippet, "timestamp": "2026-03-25T15:46:00Z"}


def found(*articles: dict[str, Any]) -> dict[str, Any]:
    """Return a search's answer."""
    return {"batchcomplete": True, "query": {"search": list(articles)}}


def introductions(texts: dict[int, str], **fields: Any) -> dict[str, Any]:
    """Return the answer with the articles' first paragraphs."""
    return {"query": {"pages": [{"pageid": number, "extract": text, **fields} for number, text in texts.items()]}}


# --- what is sent ---------------------------------------------------------------------------------------------------


def test_a_search_is_one_request_and_one_more_for_all_introductions(wikipedia: Scripted) -> None:
    """The search has no key and says who asks; the introductions of all hits come in one request."""
    wikipedia.answer(recorded("wikipedia_api_test_limit"))
    wikipedia.answer(introductions({23862: "Python is a language.\nIt has indentation.\n\n", 21356332: "Its history."}))
    results = search("wikipedia", "Python programming", count=3)
    first, second = wikipedia.requests
    assert first.path == second.path == "/w/api.php" and first.headers["user-agent"] == AGENT
    assert first.params["list"] == "search" and first.params["srsearch"] == "Python programming"
    assert (first.params["srlimit"], first.params["formatversion"], first.params["format"]) == ("3", "2", "json")
    assert second.params["prop"] == "extracts|info" and second.params["pageids"] == "23862|21356332|81118035"
    assert (second.params["exintro"], second.params["explaintext"], second.params["exlimit"]) == ("1", "1", "20")
    assert results[0].extra_snippets == ("Python is a language.", "It has indentation.")
    assert results[1].extra_snippets == ("Its history.",) and results[2].extra_snippets == ()


def test_a_recorded_answer_becomes_results(wikipedia: Scripted) -> None:
    """Markup is gone, addresses are built from titles, the last edit is no publication date, and all of it is free."""
    wikipedia.answer(recorded("wikipedia_api_test_default"))
    results = search("wikipedia", "Python programming", count=10)
    assert len(results) == 10
    assert results[0].title == "Python (programming language)"
    assert results[0].url == "https://en.wikipedia.org/wiki/Python_%28programming_language%29"
    assert results[0].description.startswith("Python is a high-level, general-purpose programming language. Its design")
    assert all(result.published_date is None and result.score is None for result in results)
    assert results.extra["last_edited"][results[0].url] == "2026-03-25T15:46:00Z"
    assert results.charges == (Charge("wikipedia", usd=Decimal(0)),)
    check_sound(results)


@pytest.mark.parametrize(("code", "host"), [("", "en"), ("de", "de"), ("pt-BR", "pt"), ("ALL", "en")])
def test_the_language_chooses_the_wikipedia(wikipedia: Scripted, code: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code before the hyphen is the subdomain, in what is asked and in what is found."""
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", wikipedia.url + "/{lang}")
    wikipedia.answer(found(article("Größe & Maß")))
    assert (
        search("wikipedia", "Größe", language=code)[0].url == f"https://{host}.wikipedia.org/wiki/Gr%C3%B6%C3%9Fe_%26_Ma%C3%9F"
    )
    assert wikipedia.requests[0].path == f"/{host}/w/api.php"


def test_another_mediawiki_says_where_its_pages_are(wikipedia: Scripted) -> None:
    """Behind an address of one's own, the pages' addresses are the server's, not Wikipedia's."""
    wikipedia.answer(found(article("Our page", 7)))
    wikipedia.answer(introductions({7: "Text."}, fullurl="https://wiki.example/view/Our_page"))
    assert search("wikipedia", "page")[0].url == "https://wiki.example/view/Our_page"


# --- questions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Who is the CEO of OpenAI?", "CEO OpenAI"),
        ("What's the boiling point of water at 3,000 m?", "boiling point water 3 000 m"),
        ("In what year was Alan Turing born?", "year Alan Turing born"),
        ("How many moons does Jupiter have?", "moons Jupiter"),
        ("AT&T, C++ and C#", "AT&T C++ C#"),
        ("The Who", "The Who"),
        ("Wer ist der Präsident?", "Wer ist der Präsident"),
        ('"exact phrase" of mine?', '"exact phrase" of mine?'),
        ("intitle:python what is it?", "intitle:python what is it?"),
        ("cats OR dogs", "cats OR dogs"),
        ("jaguar -car", "jaguar -car"),
        ("2026-01-05 event", "2026-01-05 event"),
        ("???", "???"),
    ],
)
def test_questions_become_the_words_that_matter(question: str, words: str) -> None:
    """Every word must be in the article, so the words that only make a question are taken out."""
    assert search_words(question, "en") == words


def test_only_english_words_are_taken_out() -> None:
    """Elsewhere "the" might mean something."""
    assert search_words("Was war das Attentat von Sarajevo?", "de") == "Was war das Attentat von Sarajevo"


@given(query=st.text(min_size=1, max_size=60).filter(lambda text: len(text.strip()) > 1))
def test_some_words_are_always_left(query: str) -> None:
    """No query becomes empty on the way."""
    assert search_words(query.strip(), "en").strip()


def test_when_no_article_has_all_words_those_with_some_are_taken(wikipedia: Scripted) -> None:
    """One more search, with OR; that it was looser is said."""

    def answer(received: Received) -> dict[str, Any]:
        return found(article("Keyboard")) if "OR" in received.params.get("srsearch", "") else found()

    wikipedia.answer(answer)
    results = search("wikipedia", "Which laptop has the best keyboard?")
    assert [request.params.get("srsearch") for request in wikipedia.requests][:2] == [
        "laptop best keyboard",
        "laptop OR best OR keyboard",
    ]
    assert [result.title for result in results] == ["Keyboard"]
    assert any("these have some of them" in notice for notice in results.notices)


def test_a_question_about_one_letter_is_asked(wikipedia: Scripted) -> None:
    """What is left of a question may be shorter than a query may be."""
    wikipedia.answer(found(article("C (programming language)")))
    assert len(search("wikipedia", "What is C?")) == 1 and wikipedia.requests[0].params["srsearch"] == "C"


def test_nothing_found_is_an_answer(wikipedia: Scripted) -> None:
    """No hits, no introductions, no error."""
    wikipedia.answer(found())
    results = search("wikipedia", "qqzzxx")
    assert len(results) == 0 and len(wikipedia.requests) == 1 and results.charges


# --- limits and errors --------------------------------------------------------------------------------------------------


def test_at_most_three_requests_are_under_way_at_once(wikipedia: Scripted) -> None:
    """Wikipedia's etiquette, kept over all searches of an event loop."""
    wikipedia.answer(found(article("A")), delay_s=0.03)
    made = context()

    async def many() -> None:
        engines = [create("wikipedia", made) for _ in range(2)]
        await asyncio.gather(*(engines[n % 2].search(SearchRequest(f"query {n}")) for n in range(8)))

    run(many(), made)
    assert wikipedia.most_active == 3 and len(wikipedia.requests) == 16


def test_what_wikipedia_cannot_do_is_said(wikipedia: Scripted) -> None:
    """Filters that it does not have are named, in one notice."""
    wikipedia.answer(found(article("A")))
    results = search("wikipedia", freshness="pw", goggles=("$discard",), safe_search="strict", country="de")
    assert results.notices == ("wikipedia cannot apply goggles, freshness, country, safe_search; ignored",)


def test_other_domains_are_not_searched_for_there(wikipedia: Scripted) -> None:
    """Wikipedia has no pages of other sites, so it is not asked for them; its own and blocked ones work."""
    results = search("wikipedia", allowed_domains=("duckdb.org",))
    assert len(results) == 0 and wikipedia.requests == [] and "no pages of duckdb.org" in results.notices[0]
    assert results.charges == ()
    wikipedia.answer(found(article("A")))
    assert len(search("wikipedia", allowed_domains=("wikipedia.org",))) == 1
    assert len(search("wikipedia", blocked_domains=("wikipedia.org",))) == 0


def test_introductions_that_cannot_be_had_do_not_fail_the_search(wikipedia: Scripted) -> None:
    """The hits are there all the same, and it is said."""
    wikipedia.answer(found(article("A")))
    wikipedia.answer(b"", status=404)
    results = search("wikipedia")
    assert [result.title for result in results] == ["A"] and "introductions could not be had" in results.notices[0]


def test_an_error_with_status_200_is_an_error(wikipedia: Scripted) -> None:
    """MediaWiki reports its errors in the body."""
    wikipedia.answer(
        {"error": {"code": "cirrussearch-too-busy-error", "info": "Search is <b>busy</b>", "*": "See"}, "servedby": "mw"}
    )
    with pytest.raises(ProviderError, match=r"^wikipedia: Search is busy \(cirrussearch-too-busy-error\)$") as caught:
        search("wikipedia")
    assert (caught.value.provider, caught.value.status) == ("wikipedia", 200)


def test_rate_limits_are_recognised_in_both_forms(wikipedia: Scripted) -> None:
    """As a status with Retry-After, and as an error in the body."""
    wikipedia.answer(b"Too many requests", status=429, headers={"Retry-After": "5"})
    with pytest.raises(RateLimitedError) as caught:
        search("wikipedia")
    assert caught.value.retry_after == 5 and len(wikipedia.requests) == 1
    wikipedia.forget()
    wikipedia.answer({"error": {"code": "ratelimited", "info": "You've exceeded your rate limit."}})
    with pytest.raises(RateLimitedError, match="exceeded your rate limit"):
        search("wikipedia")


def test_a_long_query_is_cut(wikipedia: Scripted) -> None:
    """MediaWiki takes 300 characters."""
    wikipedia.answer(found(article("A")))
    results = search("wikipedia", "palaeontology " * 40)
    assert len(wikipedia.requests[0].params["srsearch"]) <= 300 and "cut" in results.notices[-1]


@given(
    body=odd_json | damaged(recorded("wikipedia_api_test_limit")), pages=odd_json | damaged(introductions({23862: "x", 2: "y"}))
)
@settings(max_examples=80)
def test_whatever_it_sends_nothing_but_our_errors_comes_out(body: Any, pages: Any) -> None:
    """Missing fields, nulls, wrong types and hostile text are read as far as they can be."""
    with Scripted() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("WIKIPEDIA_BASE_URL", server.url)
        server.answer(body)
        server.answer(pages)
        check_survives("wikipedia", count=3)
