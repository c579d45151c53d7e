"""The built-in model without a key, at the public door: exact facts of the corpus with their source, or nothing."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import ipy_websearch as web

OFFLINE: dict[str, Any] = {"model": "offline", "provider": "local"}


@pytest.mark.parametrize(
    ("question", "words", "title"),
    [
        ("How many moons does Mars have?", "two moons", "Mars"),
        ("What is the capital of Japan?", "Tokyo", "Japan"),
        ("What is the currency of Sweden?", "krona", "Sweden"),
    ],
)
def test_the_fact_stands_in_the_answer_with_its_source(question: str, words: str, title: str) -> None:
    answer = web.ask(question, **OFFLINE)
    assert words in answer.text and title in list(answer.sources.title)
    assert answer.cost_usd == 0 and answer.model == "offline" and answer.searches == 1
    assert web.ask(question, **OFFLINE).text == answer.text


def test_it_is_asked_through_the_same_loop_with_steps_and_panels() -> None:
    answer = web.ask("How many moons does Mars have?", **OFFLINE)
    assert len(answer.steps) >= 2 and answer.panels and answer.stop_reason == "end_turn"
    assert web.ask("And its diameter?", follow=True, **OFFLINE).text


def test_columns_are_filled_with_exact_values_and_quotes_of_their_own_page() -> None:
    frame = pd.DataFrame({"country": ["Japan", "France", "Sweden"]})
    columns = {"capital": "What is the capital of {country}?", "currency": "What is the currency of {country}?"}
    out = web.enrich(frame, columns, progress=False, **OFFLINE)
    assert list(out.capital) == ["Tokyo", "Paris", "Stockholm"] and set(out.enrich_status) == {"ok"}
    for _, row in out.dropna(subset=["capital_quote"]).iterrows():
        assert row.capital_quote in " ".join(web.fetch(row.capital_source).content.split())


def test_what_the_corpus_does_not_say_is_null() -> None:
    frame = pd.DataFrame({"country": ["Atlantis"]})
    out = web.enrich(frame, {"capital": "What is the capital of {country}?"}, progress=False, **OFFLINE)
    assert pd.isna(out.capital[0])


def test_a_table_has_a_row_for_each_thing_asked_about() -> None:
    frame = web.ask("Compare the capital of Japan and France", columns="country, capital", **OFFLINE).to_frame()
    assert set(frame.capital.dropna()) <= {"Tokyo", "Paris"} and "source" in frame
