"""A line of a magic: options in front, then text that arrives byte for byte, with variables put in once by name."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import TransformerManager

from ipy_websearch.magics.arguments import MAX_CHARS, RawLine, as_text, interpolate, parse
from ipy_websearch.magics.ask import ask
from ipy_websearch.magics.search import fetch, search
from ipy_websearch.magics.websearch import websearch


@pytest.mark.parametrize(
    ("magic", "line", "options", "text"),
    [
        (search, "-n 10 moons", {"count": 10}, "moons"),
        (search, "-n3 moons", {"count": 3}, "moons"),
        (search, "--count=3 moons", {"count": 3}, "moons"),
        (search, "--site a.example --site b.example moons", {"allowed_domains": ["a.example", "b.example"]}, "moons"),
        (search, "--goggle '$boost=3,site=a.example' moons", {"goggles": ["$boost=3,site=a.example"]}, "moons"),
        (search, "--fresh --provider local moons", {"fresh": True, "provider": "local"}, "moons"),
        (search, '-n 0 --freshness "a b" moons', {"count": 0, "freshness": "a b"}, "moons"),
        (fetch, "https://a.example/?q='x'#y --limit 3", {"limit": 3}, "https://a.example/?q='x'#y"),
        (websearch, "record a # --force it", {}, "record a # --force it"),
        (websearch, 'export "my  notes -old"/b.md --force', {"force": True}, 'export "my  notes -old"/b.md'),
    ],
)
def test_only_the_given_options_are_passed_on_and_they_may_follow_names(
    magic: Any, line: str, options: dict[str, Any], text: str
) -> None:
    assert parse(magic.make_parser(), line, names=magic is not search) == (options, text)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_line_is_read_or_refused_in_one_line(line: str) -> None:
    assert parse(ask.make_parser(), f"-o a -- {line}")[1] == line.strip()
    assert parse(ask.make_parser(), f"-o a --follow -- {line}")[0] == {"follow": True, "output": "a"}
    with suppress(UsageError):
        assert parse(ask.make_parser(), line)[1] in line


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%ask How many moons?", "get_ipython().run_line_magic('ask', 'How many moons?')\n"),
        ("a = %search why??", "a = get_ipython().run_line_magic('search', 'why??')\n"),
        ("if 1:\n    %ask why?", "if 1:\n    get_ipython().run_line_magic('ask', 'why?')\n"),
        ("%ask what's f(x?\ny = 1", "get_ipython().run_line_magic('ask', \"what's f(x?\")\ny = 1\n"),
        ("df = %search what's new;", "df = get_ipython().run_line_magic('search', \"what's new\");\n"),
        ("%ask price of the C# book?", "get_ipython().run_line_magic('ask', 'price of the C# book?')\n"),
        ("%ask?", "get_ipython().run_line_magic('pinfo', '%ask')\n"),
        ("%timeit f?", "get_ipython().run_line_magic('pinfo', 'f')\n"),
        ("n = 10 % ask", "n = 10 % ask\n"),
        ("'''\n%ask why?\n'''", "'''\n%ask why?\n'''\n"),
    ],
)
def test_ipython_leaves_our_lines_alone_and_we_leave_all_others(cell: str, expected: str) -> None:
    manager = TransformerManager()
    manager.token_transformers += [RawLine]
    assert manager.transform_cell(cell) == expected


def test_an_existing_variable_is_put_in_once_and_nothing_is_evaluated() -> None:
    text = "{city} {{city}} {{nothing}} {unknown} {city.x} {1+1} {city!r} {} { city } {'a': 1}"
    filled = "{secret} {city} {{nothing}} {unknown} {city.x} {1+1} {city!r} {} { city } {'a': 1}"
    assert interpolate(text, {"city": "{secret}", "secret": "s3cret"}) == filled


COUNTRIES = pd.DataFrame({"c": ["Peru", "Chile"], "n": [1, 3]})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (COUNTRIES, "table of 2 rows x 2 columns:\nc,n\nPeru,1\nChile,3"),
        (COUNTRIES.c.value_counts(), "table of 2 rows x 1 columns:\nc,count\nPeru,1\nChile,1"),
        (pa.table({"n": [1, 2]}), 'table of 2 rows x 1 columns:\n"n"\n1\n2'),
        (COUNTRIES.c.unique(), '["Peru", "Chile"]'),
        (np.arange(1500), json.dumps(list(range(1500)))),
        ({"a": np.arange(3), "b": None}, '{"a": [0, 1, 2], "b": null}'),
        (["Peru", pd.Timestamp("2026-01-02")], '["Peru", "2026-01-02 00:00:00"]'),
        (np.float64(2.5), "2.5"),
    ],
)
def test_frames_are_tables_and_arrays_are_whole_lists(value: Any, text: str) -> None:
    assert as_text(value) == (text, "")


def test_what_is_cut_and_what_is_misspelt_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    variables = {"s": "word " * 10_000, "big": pd.DataFrame({"n": range(500)}), "shortlist": "A, B"}
    text = interpolate('{s} {s} {big} {shortlst} {"shortlst": 1}', variables)
    assert "(cut: 50,000 characters in all)" in text and len(text) < 2 * MAX_CHARS + 2_000
    assert "table of 500 rows x 1 columns, the first 100:\nn\n0\n" in text and "\n99 {shortlst}" in text
    assert capsys.readouterr().out.splitlines() == [
        "{s} was cut: 20,000 of 50,000 characters were put in",
        "{big} was cut: 100 of 500 rows were put in",
        "{shortlst} names no variable; did you mean 'shortlist'?",
    ]
