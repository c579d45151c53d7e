"""The sentences of an answer are held against what the model was given, from the question to `answer.claims`."""

from __future__ import annotations

from typing import Any

import pytest

import ipy_websearch as web
from ipy_websearch.errors import ConfigError
from tests.fakes.engine import hit
from tests.fakes.replies import text, tool_use

HITS = [
    hit("https://a.example/x?utm_source=n", "Home", "Matz wrote Ruby in 1993."),
    hit("https://b.example/y", "Home", "Guido wrote Python in 1991."),
]
LIE = {
    "type": "search_result_location",
    "source": "https://a.example/x?utm_source=n",
    "title": "Home",
    "cited_text": "Ruby is dead.",
    "search_result_index": 0,
    "start_block_index": 0,
    "end_block_index": 1,
}


@pytest.fixture
def asked(messages_api: Any, brave_api: Any, shell: Any) -> Any:
    """Ask a question whose answer is the given parts, after one search that found `HITS`."""

    def ask(*parts: Any, options: str = "") -> Any:
        brave_api.reply(HITS)
        messages_api.reply(tool_use("web_search", {"query": "ruby author"}))
        messages_api.reply(*parts)
        ran = shell.run(f"a = %ask {options} who wrote Ruby?")
        assert ran.ok, ran
        return shell.ns["a"]

    return ask


def test_a_sentence_with_another_number_than_its_source_is_unsupported(asked: Any) -> None:
    answer = asked(
        text("Matz wrote Ruby in 1995.", citations=[(0, 0)]), text(" Guido wrote Python in 1991.", citations=[(1, 0)])
    )
    claims = answer.claims
    assert list(claims.columns) == ["sentence", "verdict", "n", "missing"]
    assert list(claims.verdict) == ["unsupported", "supported"]
    assert list(claims.n) == [(1,), (2,)] and list(claims.missing) == [("1995",), ()]
    assert list(answer.sources.url) == ["https://a.example/x?utm_source=n", "https://b.example/y"], (
        "two pages of one title keep their addresses"
    )


def test_a_citation_of_words_that_were_not_given_is_no_mark(asked: Any) -> None:
    answer = asked(text("Ruby is a dead language now.", citations=[LIE]))
    assert answer.text == "Ruby is a dead language now." and not answer.citations
    assert list(answer.claims.verdict) == ["uncited"]


def test_a_mark_that_the_model_wrote_is_plain_text_outside_code(asked: Any) -> None:
    answer = asked(text("Matz wrote Ruby in 1993 [1], see `list[1]`.", citations=[(1, 0)]))
    assert answer.text == r"Matz wrote Ruby in 1993 \[1], see `list[1]`.[1]"


def test_the_check_can_be_switched_off(asked: Any) -> None:
    assert asked(text("Matz wrote Ruby.", citations=[(0, 0)]), options="--check off").claims.empty


def test_an_unknown_check_is_refused_in_one_line(session: Any) -> None:
    with pytest.raises(ConfigError, match="check is 'strict'"):
        session.start("who?", check="strict")


def test_a_source_keeps_its_date_in_a_follow_up() -> None:
    """The built-in model cites the article of the answer before."""
    first = web.ask("How tall is Mount Everest?", provider="local").sources.set_index("url").published_date
    again = web.ask("and when was it first climbed?", follow=True, provider="local").sources.set_index("url").published_date
    shared = first.index.intersection(again.index)
    assert len(shared) and first.notna().all() and (again[shared] == first[shared]).all()
