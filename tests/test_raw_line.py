"""IPython leaves the lines of our magics alone: a question mark at the end is part of the question."""

from __future__ import annotations

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from ipy_websearch.magics.raw_line import RawLineMagic


def transformed(cell: str) -> str:
    manager = TransformerManager()
    manager.token_transformers.insert(0, RawLineMagic)
    return manager.transform_cell(cell)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%ask How many moons?", "get_ipython().run_line_magic('ask', 'How many moons?')\n"),
        ("a = %ask is it so??", "a = get_ipython().run_line_magic('ask', 'is it so??')\n"),
        ("a = b = %search why?", "a = b = get_ipython().run_line_magic('search', 'why?')\n"),
        ("if 1:\n    %ask why?", "if 1:\n    get_ipython().run_line_magic('ask', 'why?')\n"),
        ("%ask what's \"new?", "get_ipython().run_line_magic('ask', 'what\\'s \"new?')\n"),
        ("%ask what is f(x?\ny = 1", "get_ipython().run_line_magic('ask', 'what is f(x?')\ny = 1\n"),
        ("df = %search what's new;", "df = get_ipython().run_line_magic('search', \"what's new\");\n"),
        ("%ask price of the C# book?", "get_ipython().run_line_magic('ask', 'price of the C# book?')\n"),
    ],
)
def test_a_question_mark_at_the_end_belongs_to_the_question(cell: str, expected: str) -> None:
    """The line reaches the magic whole, alone, in an assignment and in a block."""
    assert transformed(cell) == expected


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%ask?", "get_ipython().run_line_magic('pinfo', '%ask')\n"),
        ("%search??", "get_ipython().run_line_magic('pinfo2', '%search')\n"),
        ("df.head?", "get_ipython().run_line_magic('pinfo', 'df.head')\n"),
        ("%timeit f?", "get_ipython().run_line_magic('pinfo', 'f')\n"),
        ("n = 10 % ask", "n = 10 % ask\n"),
        ("'''\n%ask why?\n'''", "'''\n%ask why?\n'''\n"),
        ("%%ask -o a\nwhy?\n", "get_ipython().run_cell_magic('ask', '-o a', 'why?\\n')\n"),
    ],
)
def test_help_calls_other_magics_and_strings_stay_as_they_are(cell: str, expected: str) -> None:
    """Only lines of our own magics with something to say are taken."""
    assert transformed(cell) == expected
