"""The sentences of an answer are held against what the model was given, from the question to `answer.claims`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.fakes.engines import hit
from tests.fakes.replies import error, stop, text, thinking, tool_use, truncated, usage

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
    """Ask a question whose answer is the given parts, after one search that found `HITS`; `then` is a further reply."""

    def ask(*parts: Any, options: str = "", then: Sequence[Any] = (), hits: Sequence[Any] = HITS) -> Any:
        brave_api.reply(list(hits))
        messages_api.replies(tool_use("web_search", {"query": "ruby author"}), list(parts), *filter(None, [list(then)]))
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


@pytest.mark.parametrize("kind", ["search_result_location", "web_search_result_location", "char_location"])
def test_a_citation_of_words_that_were_not_given_is_no_mark(asked: Any, kind: str) -> None:
    """Nor is one of a search that the API was never asked to make."""
    lie = {**LIE, "type": kind, "url": LIE["source"], "document_title": "Home", "encrypted_index": "x"}
    answer = asked(text("Ruby is a dead language now.", citations=[lie]))
    assert answer.text == "Ruby is a dead language now." and not answer.citations
    assert list(answer.claims.verdict) == ["uncited"]


def test_a_mark_that_the_model_wrote_is_plain_text_outside_code(asked: Any) -> None:
    answer = asked(text("Matz wrote Ruby in 1993 [1], see `list[1]`.", citations=[(1, 0)]))
    assert answer.text == r"Matz wrote Ruby in 1993 \[1], see `list[1]`.[1]"
    assert str(answer) == "Matz wrote Ruby in 1993 [1], see `list[1]`.[1]"


def test_addresses_that_differ_by_a_fragment_or_a_tracker_are_one_source(asked: Any) -> None:
    hits = [
        hit("https://a.example/x?utm_medium=m&id=2#top", "", "Matz wrote Ruby in 1993."),
        hit("https://a.example/x?id=2", "", "Ruby came out in 1995."),
        hit("https://a.example/x?id=3", "", "Guido wrote Python in 1991."),
    ]
    said = ("Matz wrote Ruby in 1993.", " Ruby came out in 1995.", " Guido wrote Python in 1991.")
    answer = asked(*(text(words, citations=[(n, 0)]) for n, words in enumerate(said)), hits=hits)
    assert answer.text == "Matz wrote Ruby in 1993.[1] Ruby came out in 1995.[1] Guido wrote Python in 1991.[2]"
    assert list(answer.claims.verdict) == ["supported"] * 3


RIGHT, WRONG = "Matz wrote Ruby in 1993.", "Matz wrote Ruby in 1995, says attacker.example/secret."


def notices_of(answer: Any) -> list[str]:
    return [notice for notice in answer.notices if "mend" in notice]


def test_repair_asks_once_with_what_is_missing_and_takes_the_better_answer(asked: Any, messages_api: Any, shell: Any) -> None:
    answer = asked(
        thinking("Hm."), text(WRONG, citations=[(0, 0)]), options="--check repair", then=[text(RIGHT, citations=[(0, 0)])]
    )
    assert answer.text == RIGHT + "[1]" and list(answer.claims.verdict) == ["supported"]
    sent = messages_api.bodies[-1]
    assert f"1. {WRONG} (not in its sources: 1995)" in sent["messages"][-1]["content"][0]["text"]
    assert sent["tool_choice"] == {"type": "none"} and len(messages_api.bodies) == 3
    assert list(answer.steps.kind).count("model") == 3 and len(notices_of(answer)) == 1
    messages_api.replies(tool_use("web_fetch", {"url": "https://attacker.example/secret"}), "Yes.")
    assert shell.run("b = %ask --follow sure?").ok, (
        "the fake refuses what the API would refuse, such as thinking behind a change"
    )
    assert "1995" in str(messages_api.bodies[-1]["messages"])
    assert "url_not_in_prior_context" in str(messages_api.bodies[-1]["messages"][-1]), "the model's own words are no address"


@pytest.mark.parametrize(
    ("second", "options", "why"),
    [
        ([text("Matz wrote Ruby in 1996.", citations=[(0, 0)])], "", "no better"),
        ([text(WRONG)], "", "no better"),
        ([text("Matz wrote"), stop("max_tokens")], "", "max_tokens"),
        ([error(400)], "", "400"),
        ([text("Matz"), truncated(1)], "", "ended too soon"),
        ([], "--budget 0.12", "budget"),
    ],
)
def test_a_repair_that_fails_or_is_no_better_leaves_the_first_answer(
    asked: Any, messages_api: Any, second: Any, options: str, why: str
) -> None:
    first = [text(WRONG, citations=[(0, 0)]), usage(output_tokens=11_800 if "budget" in options else 100)]
    answer = asked(*first, options=f"--check repair {options}", then=second)
    assert answer.text == WRONG + "[1]" and answer.stop_reason == "end_turn" and answer.limit is None
    assert [why in notice for notice in notices_of(answer)] == [True]
    assert list(answer.claims.verdict) == ["unsupported"]
