"""The public fakes, used as a user's own tests would use them: through `%ask`, `search`, `fetch`, `enrich` and SQL."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

import ipy_websearch
from ipy_websearch import api
from ipy_websearch.errors import ConfigError, FetchError, MissingKeyError, ModelError, ProviderError
from ipy_websearch.results import SearchResult
from ipy_websearch.testing import FakeWeb

ACME = ("https://acme.example/", "Acme Corp", "The CEO of Acme is Jo Doe since 2019.")


def test_search_and_fetch_give_what_was_given() -> None:
    """Results in their order, up to the count; pages as Markdown; without a reply the offline model quotes the results."""
    dated = SearchResult("B", "https://b.example/", published_date=datetime(2026, 1, 2, tzinfo=UTC))
    with FakeWeb() as web:
        web.add_results("two words", ACME, dated)
        web.fail_search("broken", "no answer today")
        web.add_page(ACME[0], "<html><body><article><h1>Acme</h1><p>It makes anvils.</p></article></body></html>")
        found = ipy_websearch.search("Some TWO  Words", provider="brave")
        assert found[0].url == ACME[0] and found[1] is dated and found.provider == "fake"
        assert len(ipy_websearch.search("two words again", count=1)) == 1 and not len(ipy_websearch.search("others"))
        with pytest.raises(ProviderError, match="no answer today"):
            ipy_websearch.search("a broken one")
        with pytest.raises(ConfigError, match="did you mean 'brave'"):
            ipy_websearch.search("two words", provider="brav")
        assert "It makes anvils." in ipy_websearch.fetch("https://acme.example/").content
        with pytest.raises(FetchError, match="no such page"):
            ipy_websearch.fetch("https://other.example/")
        answer = ipy_websearch.ask("Who is the CEO of two words?", read_pages=0)
        assert "Jo Doe" in answer.text and ACME[0] in list(answer.sources.url)
        assert "published_date: '2026-01-02T00:00:00+00:00'" in answer.panels[0].content


def test_sentences_cite_what_was_found_and_searches_cost_what_was_said() -> None:
    """`cited` points to a result by its address; without one, and with a reply too many, the test fails. `start` and `stop` do
    without a block."""
    web = FakeWeb(search_usd="0.005").start()
    web.add_results("acme", ACME)
    web.reply(web.call("web_search", query="acme"))
    web.reply(web.cited("The CEO of Acme is Jo Doe since 2011.", ACME[0]))
    answer = ipy_websearch.ask("Who?", model="claude-haiku-5-5")
    web.stop()
    assert answer.citations[0].cited_text == ACME[2] and list(answer.claims.verdict) == ["unsupported"]
    assert answer.cost_usd is not None and answer.cost_usd > Decimal("0.005")
    with FakeWeb() as web:
        web.reply(web.cited("It never was.", "https://never.example/"))
        with pytest.raises(ModelError, match="never.example/ was not given to the model"):
            ipy_websearch.ask("Who?")
    with pytest.raises(AssertionError, match="1 of the model's replies were never asked for"), FakeWeb() as web:
        web.reply("too much")


def test_the_session_of_before_comes_back(brave_api: Any) -> None:
    """Its costs are as they were, and the machine's keys and engines are not used inside."""
    mine = api.session()
    with FakeWeb() as web:
        web.add_results("", ACME)
        assert ipy_websearch.search("anything").provider == "fake" and web.session.keys.get("brave") is None
        with pytest.raises(MissingKeyError):
            ipy_websearch.ask("x?", tools="brave_search")
    assert api.session() is mine and not len(ipy_websearch.cost()) and not brave_api.requests
