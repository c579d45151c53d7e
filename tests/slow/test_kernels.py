"""A real kernel that nobody sits at, as in `jupyter execute`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.shell import errors, texts

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def test_a_notebook_runs_through_without_anybody_to_ask(run_notebook: Any) -> None:
    """A key that cannot be typed is one line that says what to set, and the next cells run; Tab and ? answer."""
    notebook = run_notebook(
        [
            "%load_ext ipy_websearch",
            "%websearch key anthropic   # typed without being shown",
            "hits = %search --provider local moons of Mars?\nprint(hits.title[0])",
            "k = get_ipython().kernel\n"
            "print(k.do_complete('%ask --max-s', 12)['matches'])\n"
            "print(k.do_complete('%%ask --tools standard,web_f', 28))\n"
            "print(k.do_inspect('%ask', 4)['data']['text/plain'])",
        ]
    )
    _, key, search, tab = (texts(cell) for cell in notebook.cells)
    assert errors(notebook) == [] and len(key.strip().splitlines()) == 1
    assert "set the environment variable ANTHROPIC_API_KEY" in key and search.strip() == "Mars"
    assert (
        "['--max-searches', '--max-steps']" in tab and "'matches': ['web_fetch'], 'cursor_end': 28, 'cursor_start': 23" in tab
    )
    assert "--max-searches" in tab and "How many moons does Mars have?" in tab
