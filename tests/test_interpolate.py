"""Variables are put into a question once, by name, and nothing is evaluated."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError

from ipy_websearch.magics.interpolate import interpolate
from ipy_websearch.magics.written import MAX_CHARS, as_text


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


COUNTRIES = pd.DataFrame({"c": ["Peru", "Chile", "Peru"], "n": pd.array([1, None, 3], dtype="Int64")})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (COUNTRIES.c.unique(), '["Peru", "Chile"]'),
        (COUNTRIES.c.array, '["Peru", "Chile", "Peru"]'),
        (COUNTRIES.c.astype("category").unique(), '["Peru", "Chile"]'),
        (COUNTRIES.n.unique(), "[1, null, 3]"),
        (pd.to_datetime(pd.Series(["2026-03-01", None])).array, '["2026-03-01", null]'),
        (pd.to_datetime(pd.Series(["2026-03-01"])).to_numpy(), '["2026-03-01'),
        (pd.Index(["Peru", "Chile"], name="c"), '["Peru", "Chile"]'),
        (COUNTRIES.columns, '["c", "n"]'),
        (pd.MultiIndex.from_product([["a"], [1, 2]]), '[["a", 1], ["a", 2]]'),
        (COUNTRIES.c, "table of 3 rows x 1 columns:\nc\nPeru\nChile\nPeru"),
        (COUNTRIES.c.value_counts(), "table of 2 rows x 1 columns:\nc,count\nPeru,2\nChile,1"),
        (np.array([[1.5, np.nan], [0, 1]]), "[[1.5, null], [0.0, 1.0]]"),
        (np.arange(1500), json.dumps(list(range(1500)))),
        ({"a": np.arange(1500)}, json.dumps({"a": list(range(1500))})),
        ([np.int64(3), pd.NA, COUNTRIES.c], '[3, null, "table of 3 rows x 1 columns:\\nc'),
        (np.float64(2.5), "2.5"),
        (np.array(5), "5"),
        (np.array([]), "[]"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_arrays_are_lists_and_nothing_in_them_is_left_out(value: Any, text: str) -> None:
    """Of numpy and of pandas, an index once; their own reprs leave out the middle of long ones."""
    assert as_text(value).startswith(text) and (text.startswith('["2026') or as_text(value) == text or "table" in text)


def test_a_long_array_is_cut_behind_a_value_and_says_so() -> None:
    """In the text and in the notice: how many of how many."""
    text = as_text(np.arange(100_000))
    (notice,) = told("{big}", {"big": np.arange(100_000)})
    shown = len(json.loads(text.split(" (")[0]))
    assert text.endswith(f"] (the first {shown:,} of 100,000 values)") and len(text) <= MAX_CHARS
    assert notice == f"{{big}} was cut: {shown:,} of 100,000 values were put in"
    assert "of 9,000 rows" in told("{m}", {"m": np.zeros((9_000, 3))})[0]


def test_frames_of_other_libraries_are_tables_too() -> None:
    """A DuckDB relation, an Arrow table, a Dask frame: their first rows, and how many there are."""
    import dask.dataframe as dd
    import duckdb
    import pyarrow as pa

    relation = duckdb.sql("select range as n, 'x' as t from range(150)")
    assert as_text(relation).startswith("table of 150 rows x 2 columns, the first 100:\nn,t\n0,x\n1,x")
    assert told("{r}", {"r": relation}) == ["{r} was cut: 100 of 150 rows were put in"]
    assert as_text(pa.table({"n": [1, 2]})) == "table of 2 rows x 1 columns:\nn\n1\n2"
    assert as_text(pa.array(["a", None])) == '["a", null]'
    assert as_text(dd.from_pandas(COUNTRIES, npartitions=2)).startswith("table of 3 rows x 2 columns:\nc,n\nPeru,1")
    long = dd.from_pandas(pd.DataFrame({"n": range(150)}), npartitions=3)
    assert as_text(long).startswith("table of more than 100 rows x 1 columns, the first 100:\nn\n0")


def test_the_values_of_a_column_reach_the_question(messages_api: Any, shell: Any) -> None:
    """`{names}` of `df.country.unique()`, whatever kind of array that is."""
    shell.run("import pandas as pd; names = pd.DataFrame({'country': ['Peru', 'Chile', 'Peru']}).country.unique()")
    messages_api.reply("Andes.")
    ran = shell.run("%ask What is between {names}?")
    assert ran.ok, ran.error
    assert messages_api.bodies[0]["messages"][-1]["content"][0]["text"] == 'What is between ["Peru", "Chile"]?'


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
