"""A long answer streams into JupyterLab without the page falling behind, and leaves a small notebook."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.browser import lab
from tests.fakes.replies import slow, text, tool_use

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(lab.missing()), reason=lab.missing() or "can run")]

PARAGRAPH = "Ruby is a language by Yukihiro Matsumoto, and **paragraph {n}** says so with a list:\n\n- one\n- two\n\n"
ANSWER = "".join(PARAGRAPH.format(n=n) for n in range(280)) + "THE END."
CELLS = (
    "%load_ext ipy_websearch\nimport time",
    "a = %ask --provider brave --max-searches 5 who wrote Ruby?\nopen('done', 'w').write(repr(time.time()))\nNone",
)


def test_a_long_answer_keeps_up_and_leaves_a_small_notebook(messages_api: Any, brave_api: Any, tmp_path: Path) -> None:
    """26 kB: the page shows the end within 0.3 s of the kernel's; what is saved is one output, the final state."""
    assert len(ANSWER) > 26_000
    for number in range(5):
        messages_api.reply(tool_use("web_search", {"query": f"ruby author {number}"}))
    messages_api.reply(text(ANSWER), slow(0.001))
    folder = tmp_path / "notebooks"
    folder.mkdir()
    lab.write_notebook(folder / "stream.ipynb", CELLS)
    with lab.server(folder) as address, lab.page() as opened:
        lab.open_notebook(opened, address, "stream.ipynb", run=False)
        opened.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
        )
        opened.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
        opened.wait_for_function(
            "() => [...document.querySelectorAll('.jp-OutputArea-output')].some(e => e.textContent.includes('THE END.'))",
            polling=20,
        )
        seen = time.time()
        end = time.monotonic() + 20
        while not (folder / "done").exists() or not (folder / "done").read_text():
            assert time.monotonic() < end, "the cell did not end"
            time.sleep(0.02)
        lag = seen - float((folder / "done").read_text())
        assert lag <= 0.3, f"the page was {lag:.2f} s behind"
        opened.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    notebook = json.loads((folder / "stream.ipynb").read_text())
    outputs = notebook["cells"][1]["outputs"]
    assert len(outputs) == 1 and "THE END." in "".join(outputs[0]["data"]["text/plain"])


def test_an_answer_from_five_searches_is_stored_small(messages_api: Any, brave_api: Any, run_notebook: Any) -> None:
    """One output, the final state, at most 60 kB with all its representations, steps and sources."""
    for number in range(5):
        messages_api.reply(tool_use("web_search", {"query": f"ruby author {number}"}))
    messages_api.reply(text(ANSWER[:4_000], citations=[(n, 0) for n in range(10)]))
    notebook = run_notebook([CELLS[0], "%ask --provider brave who wrote Ruby?"])
    (output,) = notebook.cells[1].outputs
    assert len(brave_api.queries) == 5 and "paragraph 30" in output.data["text/html"]
    assert len(json.dumps(output).encode()) <= 60_000
