"""The same outputs in Notebook 7: its server is JupyterLab's, its page another."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.fakes.replies import slow

_LACKS = "" if importlib.util.find_spec("notebook") else "not installed: notebook"
pytestmark = pytest.mark.skipif(bool(_LACKS), reason=_LACKS or "can run")


def test_answers_tables_streams_and_the_stop_button_work_in_notebook_7(
    messages_api: Any, brave_api: Any, open_notebook: Any
) -> None:
    """A table and an answer show as HTML, a stream is seen growing, and ■ ends it."""
    messages_api.reply("Matz wrote Ruby. " * 3000, slow(0.05))
    cells = (
        "%load_ext ipy_websearch\n%config WebSearch.provider = 'brave'",
        "%search moons of Mars",
        "%ask who wrote Ruby?",
        "print('works', 6 * 7)",
    )
    with open_notebook(cells, notebook7=True) as notebook:
        notebook.run(0)
        notebook.run(1)
        notebook.wait_for(1, "brave · ")
        assert notebook.page.locator(".jp-OutputArea-output .mathjax_ignore strong a").count() >= 1
        notebook.run(2, wait=False)
        notebook.wait_for(2, "Matz wrote")
        first = len(notebook.text(2))
        notebook.page.wait_for_function("(n) => document.body.innerText.length > n + 200", arg=first)
        notebook.stop()
        notebook.wait_for(2, "Interrupted")
        assert "Traceback" not in notebook.text(2)
        notebook.run(3)
        notebook.wait_for(3, "works 42")
