"""Variables are put into a question once, by name, and nothing is evaluated."""

from __future__ import annotations

from typing import Any

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError

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


def told(text: str, variables: dict[str, Any]) -> list[str]:
    notices: list[str] = []
    interpolate(text, variables, notices)
    return notices


def test_what_is_left_out_of_a_variable_is_told_to_who_asks() -> None:
    """The notice names the variable and how much of how much was put in, once for each variable."""
    variables = {"s": "word " * 10_000, "big": pd.DataFrame({"n": range(500)}), "wide": pd.Series(["x" * 300] * 200), "ok": "a"}
    assert told("{s} {s} {ok}", variables) == ["{s} was cut: 20,000 of 50,000 characters were put in"]
    assert told("{big}", variables) == ["{big} was cut: 100 of 500 rows were put in"]
    (both,) = told("{wide}", variables)
    assert both.startswith("{wide} was cut: 100 of 200 rows, 20,000 of 30,1")
    assert both.endswith(" characters of these were put in")


def test_a_misspelt_variable_is_told_with_the_name_that_was_meant() -> None:
    """A name in braces that nearly is a variable's is sent as typed, and told; JSON, format fields and escapes are quiet."""
    variables = {"shortlist": "A, B", "df": 1, "city": "Oslo"}
    assert interpolate("{shortlst}", variables) == "{shortlst}"
    assert told("compare {shortlst}", variables) == ["{shortlst} names no variable; did you mean shortlist?"]
    quiet = '{"shortlst": 1} {0} {} {name} {x} {{shortlst}} {city.x} {d} { shortlst }'
    assert told(quiet, variables) == []


def test_the_notices_are_on_the_answer_and_on_the_frame(offline: Any, shell: Any) -> None:
    """`Answer.notices` says what was cut, the search's notices which name was none; an estimate says it as well."""
    shell.run("big = list(range(9000)); moons = 1")
    asked = shell.run("%ask --model offline --provider local How many moons has Mars? {big}")
    (cut,) = [notice for notice in asked.value.notices if "{big}" in notice]
    assert cut == "{big} was cut: 20,000 of 52,890 characters were put in" and cut in asked.html
    meant = "{mons} names no variable; did you mean moons?"
    assert meant in shell.run("%search --provider local Mars {mons}").value.search.notices
    assert meant in shell.run("%ask --estimate --model offline --provider local Mars {mons}").stdout


def test_a_variable_without_a_text_is_one_clear_line(offline: Any, shell: Any) -> None:
    """What its `__repr__` raises is named; the cell fails before anything is sent, and without a traceback."""
    shell.run("class Odd:\n    def __repr__(self):\n        raise ZeroDivisionError('so odd')\ne, f = Odd(), [Odd()]")
    for name in "ef":
        ran = shell.run(f"%ask what is {{{name}}}?")
        assert isinstance(ran.error, UsageError)
        assert f"{{{name}}} cannot be written as text (ZeroDivisionError: so odd)" in str(ran.error)


@given(st.text())
def test_without_variables_any_text_stays_byte_for_byte(text: str) -> None:
    """With no variable to put in, the text is untouched."""
    assert interpolate(text, {}) == text
