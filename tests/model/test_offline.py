"""Without a key: passages under one label, a first sentence only where the gate holds, exact values from fact lines."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ipy_websearch as ws
from ipy_websearch.model.offline.facts import facts_of
from ipy_websearch.model.offline.passages import LABEL, Source, best_passages

CORPUS = Path(ws.__file__).parent / "corpus"


def ask(question: str, **options: Any) -> ws.Answer:
    return ws.ask(question, model="offline", provider="local", **options)


@pytest.fixture(scope="module")
def corpus() -> list[Source]:
    """The built-in articles."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(CORPUS.glob("*.md"))]
    parts = [part.strip() for text in texts for part in re.split(r"(?m)^(?=# )", text) if part.strip()]
    return [Source(part.splitlines()[0][2:], f"corpus://{n}", tuple(part.split("\n\n")[1:]), n) for n, part in enumerate(parts)]


def test_an_answer_is_three_cited_passages_under_one_label_in_text_and_print(capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask("Why does Mars look red?")
    quotes = [line for line in answer.text.splitlines() if line.startswith("> ")]
    assert len(quotes) == 3 and all(re.search(r"\[\d+\]$", quote) for quote in quotes)
    assert answer.text.count("No model read these") == 1 and answer.text.startswith(LABEL)
    assert "%websearch key anthropic" in answer.text and "**Mars**" in answer.text
    facts = {
        question: "> **" in ask(question).text
        for question in ("What is the boiling point of gold?", "Which planet has the most moons?")
    }
    assert list(facts.values()) == [True, False], "a fact alone is shown where it is what was asked"
    print(answer)
    assert "No model read these" in capsys.readouterr().out


def test_a_sentence_goes_first_where_all_words_of_the_question_stand_in_it() -> None:
    answer = ask("How many moons does Mars have?")
    assert answer.text.startswith("Mars has two moons, Phobos and Deimos.[1]")
    assert all(citation.cited_text in ws.fetch(citation.url).content for citation in answer.citations)
    assert ask("What is the typing of Haskell?").text.startswith("Haskell is statically and strongly typed"), (
        "not its type classes"
    )


@pytest.mark.parametrize(
    "question",
    [
        "Who is the current president of the United States?",
        "Why is the sky blue?",
        "How many moons do Mars and Jupiter have together?",
        "Which planet is the largest?",
        "Is Venus larger than Mars?",
        "What is the population of France or Germany?",
        "How does photosynthesis work?",
        "What will the euro be worth next year?",
        "Who made Ruby?",
        "When was Perl released?",
        "What is in the Asteroid belt?",
        "How many versions of Rust are there?",
        "What are the moons of Charon?",  # "the largest of the five moons of Pluto"
        "What is the mass of Charon?",  # "about an eighth of the mass of Pluto"
        "planets of Jupiter",  # "the shortest day of all the planets"
    ],
)
def test_no_sentence_goes_first_for_what_is_current_largest_compared_computed_or_something_else(question: str) -> None:
    assert ask(question).text.startswith("**No model read these")


def test_the_passage_with_the_fact_is_shown_for_a_question_about_any_fact(corpus: list[Source]) -> None:
    cases = [(source, f"What is the {name} of {source.title}?", v) for source in corpus for name, v in facts_of(source).items()]
    missed = [
        question
        for source, question, value in cases
        if not any(value.split(" (")[0] in passage.text for passage in best_passages(question, [source]))
    ]
    assert len(cases) > 800 and len(missed) / len(cases) < 0.02, missed[:20]


@pytest.mark.parametrize(
    ("questions", "title", "fact"),
    [
        (["What is the capital of Japan?", "And what is its currency?"], "Japan", "currency: yen"),
        (["What is the capital of Japan?", "And the currency?", "What about Brazil?"], "Brazil", "currency: real"),
        (["How many moons does Mars have?", "How far is that from the Sun?", "and Jupiter?"], "Jupiter", "778 million"),
        (["How far is Mars from the Sun?", "Who discovered Ganymede?", "When was it discovered?"], "Ganymede", "1610"),
        (["What is the melting point of iron?", "and gold?", "and its symbol?"], "Gold", "symbol: Au"),
    ],
)
def test_a_follow_up_carries_what_it_leaves_out(questions: list[str], title: str, fact: str) -> None:
    ask(questions[0])
    for question in questions[1:]:
        answer = ask(question, follow=True)
    assert answer.sources.title[0] == title and fact in answer.text.replace("**", "")


@pytest.mark.parametrize(
    ("question", "facts"),
    [
        ("Which is bigger, Mars or Venus?", ["6,779 km", "12,104 km"]),
        ("Who has more people, Japan or Germany?", ["124 million", "84 million"]),
        ("How much does an atom of potassium weigh?", ["39.098"]),
        ("capital of the UK", ["capital: London"]),
        ("How does photosynthesis work?", ["sugar"]),
        ("Who invented the pneumatic tyre?", ["Dunlop"]),
        ("What is the largest country by area?", ["Russia"]),
        ("Which country has the largest population in the world?", ["India"]),
        ("What is the highest mountain in South Africa?", ["highest mountain: Mafadi"]),
        ("Hauptstadt von Frankreich", ["capital: Paris"]),
        ("capital of brasil", ["capital: Brasília"]),
    ],
)
def test_the_passages_shown_hold_the_facts_asked_for(question: str, facts: list[str]) -> None:
    shown = ask(question).text.replace("**", "")
    assert all(fact in shown for fact in facts)


def test_where_nothing_was_found_no_passages_are_announced() -> None:
    answer = ask("zzqx vwwk?")
    assert "no passage for “zzqx vwwk?”" in answer.text and "passages that share your words" not in answer.text
    assert "No model read these words" in answer.text and "%websearch key anthropic" in answer.text


def test_enrichment_takes_exact_values_from_the_rows_own_article_and_nothing_else() -> None:
    frame = pd.DataFrame({"country": ["France", "Japan", "New Mexico"]}, index=[7, 3, 9])
    columns = {
        "capital": "What is the capital of {country}?",
        "population": ("What is the population of {country}?", int),
        "ceo": "Who is the CEO of {country}?",
    }
    out = ws.enrich(frame, columns, model="offline", provider="local", progress=False)
    assert out.index.tolist() == [7, 3, 9]
    assert out.capital.tolist()[:2] == ["Paris", "Tokyo"] and out.population.tolist()[:2] == [68_000_000, 124_000_000]
    assert out.loc[9, ["capital", "population"]].isna().all() and out.ceo.isna().all()
    assert out.capital_source.tolist()[:2] == ["corpus://countries/france", "corpus://countries/japan"]
    assert all(quote in ws.fetch(url).content for quote, url in zip(out.capital_quote[:2], out.capital_source[:2], strict=True))


def test_a_table_has_a_row_for_each_article_with_the_fact() -> None:
    rows = ask("moons of Mars", columns="planet, moons: int").to_frame()
    assert dict(zip(rows.planet, rows.moons, strict=True))["Mars"] == 2 and rows.source.str.startswith("corpus://").all()
