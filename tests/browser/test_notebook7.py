"""The same outputs in Notebook 7, where it is installed: its server is JupyterLab's, its page another."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.browser import lab

_LACKS = lab.missing() or ("" if importlib.util.find_spec("notebook") else "not installed: notebook (pip install notebook)")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(_LACKS), reason=_LACKS or "can run")]


def test_a_table_and_an_answer_show_in_notebook_7(tmp_path: Path) -> None:
    """Run All shows both as HTML, with the cost line, and no error."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    cells = [
        "%load_ext ipy_websearch",
        "%search --provider local moons of Mars",
        "%ask -m offline --provider local moons of Mars",
    ]
    lab.write_notebook(folder / "both.ipynb", cells)
    with lab.server(folder) as address, lab.page() as opened:
        opened.goto(f"{address}/notebooks/both.ipynb", wait_until="domcontentloaded")
        opened.wait_for_function("() => !!window.jupyterapp")
        opened.wait_for_selector(".jp-Notebook .jp-Cell")
        opened.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
        )
        opened.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
        opened.wait_for_function("() => document.querySelectorAll('.jp-OutputArea-output .ipyws').length >= 2")
        seen = opened.evaluate("() => [...document.querySelectorAll('.jp-OutputArea-output')].map(e => e.innerText)")
    assert any("local · " in text for text in seen) and any("offline" in text for text in seen)
    assert not any("Error" in text for text in seen)
