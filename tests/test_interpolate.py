"""Variables are put into a question once, by name, and nothing is evaluated."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.magics.interpolate import MAX_CHARS, as_text, interpolate


def test_an_existing_variable_is_put_in_and_all_else_stays() -> None:
    """Unknown names, expressions, dictionaries and format fields are text."""
    text = "{city} {unknown} {city.x} {1+1} {city!r} {} { city } {'a': 1}"
    assert interpolate(text, {"city": "Oslo"}) == "Oslo {unknown} {city.x} {1+1} {city!r} {} { city } {'a': 1}"


def test_what_was_put_in_is_not_looked_at_again() -> None:
    """Text inside a variable cannot reach another variable."""
    assert interpolate("{a}", {"a": "{secret}", "secret": "s3cret"}) == "{secret}"


def test_doubled_braces_stand_for_the_name_itself() -> None:
    """{{name}} of a variable is a literal {name}; of anything else it stays as it is."""
    assert interpolate("{{city}} {{nothing}}", {"city": "Oslo"}) == "{city} {{nothing}}"


def test_a_frame_comes_as_a_compact_table_with_its_shape() -> None:
    """The model sees how many rows there are, the columns and the values."""
    text = as_text(pd.DataFrame({"name": ["A", "B"], "price": [1, 2]}))
    assert text == "table of 2 rows x 2 columns:\nname,price\nA,1\nB,2"


def test_a_long_frame_is_cut_and_says_so() -> None:
    """Only the first 100 rows are given; the shape tells of the rest."""
    text = as_text(pd.DataFrame({"n": range(1000)}))
    assert text.startswith("table of 1000 rows x 1 columns, the first 100:")
    assert text.endswith("\n99")


def test_a_very_long_text_is_cut_and_says_so() -> None:
    """20,000 characters are the most that a variable brings into a question."""
    text = as_text("word " * 10_000)
    assert len(text) < MAX_CHARS + 60 and text.endswith("(cut: 50,000 characters in all)")


@given(st.text())
def test_without_variables_any_text_stays_byte_for_byte(text: str) -> None:
    """With no variable to put in, the text is untouched."""
    assert interpolate(text, {}) == text
