"""Tables filled by the offline model: what a question asks for is looked up, and its subject is not given for an answer."""

from __future__ import annotations

from typing import Any

import pytest


def table(shell: Any, columns: str, question: str) -> list[dict[str, Any]]:
    """Return the rows of a question to the embedded corpus, without their sources."""
    ran = shell.run(f'a = %ask --model offline --provider local --table "{columns}" {question}')
    assert ran.ok, ran.error
    rows = shell.ns["a"].rows
    assert all(row["source"] for row in rows), "a row without a source"
    return [{name: value for name, value in row.items() if name != "source"} for row in rows]


def test_a_column_that_is_asked_holds_the_answer(shell: Any) -> None:
    """One column or several, asked by its name, by "who" or by "which": never what the question is about."""
    for columns, question, rows in (
        ("discoverer", "Who discovered Uranus?", [{"discoverer": "William Herschel"}]),
        ("capital", "What is the capital of Peru?", [{"capital": "Lima"}]),
        ("creator", "Who created Python?", [{"creator": "Guido van Rossum"}]),
        ("currency", "What is the currency of Japan?", [{"currency": "yen"}]),
        ("officialLanguage", "What is the official language of Brazil?", [{"officialLanguage": "Portuguese"}]),
        ("planet", "Which planet is the largest in the Solar System?", [{"planet": "Jupiter"}]),
        ("answer", "Who discovered Uranus?", [{"answer": "William Herschel"}]),
        ("name", "Who discovered Uranus?", [{"name": "William Herschel"}]),
        ("discoverer, year: int", "Who discovered Uranus, and when?", [{"discoverer": "William Herschel", "year": 1781}]),
        ("city, population: int", "What is the largest city of Japan?", [{"city": "Tokyo", "population": None}]),
    ):
        assert table(shell, columns, question) == rows, question


def test_a_column_of_the_subjects_kind_names_the_subject(shell: Any) -> None:
    """Where the sources say that it is one, or several are to be told apart."""
    for columns, question, rows in (
        (
            "country, capital",
            "What are the capitals of Peru and Chile?",
            [{"country": "Peru", "capital": "Lima"}, {"country": "Chile", "capital": "Santiago"}],
        ),
        ("capital, country", "What is the capital of Ghana?", [{"capital": "Accra", "country": "Ghana"}]),
        (
            "planet, moons: int",
            "How many moons do Mars and Jupiter have?",
            [{"planet": "Mars", "moons": 2}, {"planet": "Jupiter", "moons": 97}],
        ),
        ("element, symbol", "What is the symbol of iron?", [{"element": "iron", "symbol": "Fe"}]),
        ("name, year: int", "When was Python first released?", [{"name": "Python", "year": 1991}]),
    ):
        assert table(shell, columns, question) == rows, question


@pytest.mark.parametrize(
    ("columns", "question"),
    [
        ("president", "Who is the president of Kenya?"),
        ("river", "What is the longest river in Egypt?"),
        ("country", "Which country has Lima as its capital?"),
        ("author, year: int", "Who wrote Peru, and when?"),
    ],
)
def test_what_the_corpus_does_not_say_is_no_row(columns: str, question: str, shell: Any) -> None:
    """An empty table, where the subject's own name used to stand."""
    assert table(shell, columns, question) == []


def test_rows_that_are_listed_come_from_pages_that_answer(shell: Any) -> None:
    """Without a named thing the rows are pages, and each has to say what was asked; of a named one they are its things."""
    assert {"moon": "Phobos"} in table(shell, "moon", "What are the moons of Mars?")
    rows = table(shell, "planet", "Which planets have rings?")
    assert {"planet": "Saturn"} in rows and {"planet": "Venus"} not in rows
    assert len(table(shell, "planet, moons: int", "How many moons does each planet have?")) > 1
