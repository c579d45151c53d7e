"""The stop button of JupyterLab, pressed while something runs: over within a second, what had come is kept and booked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.browser import lab
from tests.fakes.replies import slow

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(lab.missing()), reason=lab.missing() or "can run")]

CELLS = (
    "%load_ext ipy_websearch\n%config WebSearch.provider = 'brave'",
    "%ask who wrote Ruby?",
    "print('spent', get_ipython().run_line_magic('cost', '').usd.sum() > 0)",
    "%search --fresh something that hangs",
    "print('works', 6 * 7)",
)
_RUN = """(n) => { const app = window.jupyterapp, panel = app.shell.currentWidget;
    panel.content.activeCellIndex = n; panel.content.deselectAll(); app.commands.execute('notebook:run-cell'); }"""
_TEXT = """(n) => { const cell = window.jupyterapp.shell.currentWidget.content.widgets[n];
    return cell.node.querySelector('.jp-OutputArea')?.innerText ?? ''; }"""
_IDLE = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"
_STOP = "button[data-command='notebook:interrupt-kernel'], jp-button[data-command='notebook:interrupt-kernel']"


def run(opened: Any, number: int, *, wait: bool = True) -> None:
    """Run one cell and, when told, wait until it has ended."""
    opened.evaluate(_RUN, number)
    if wait:
        opened.wait_for_timeout(300)
        opened.wait_for_function(_IDLE)


def stop(opened: Any) -> float:
    """Press ■ and return the seconds until the kernel is idle."""
    start = time.monotonic()
    opened.locator(_STOP).first.click()
    opened.wait_for_function(_IDLE, polling=20)
    return time.monotonic() - start


def shown(opened: Any, number: int) -> str:
    """Return what a cell's output says."""
    opened.wait_for_timeout(300)
    return str(opened.evaluate(_TEXT, number))


def test_the_stop_button_ends_a_stream_and_a_search_within_a_second(messages_api: Any, brave_api: Any, tmp_path: Path) -> None:
    """The partial answer says that it is partial, its cost is in the ledger, and the next cells work."""
    messages_api.reply("Matz wrote Ruby. " * 300, slow(0.05))
    brave_api.reply(delay_s=4)
    folder = tmp_path / "notebooks"
    folder.mkdir()
    lab.write_notebook(folder / "stop.ipynb", CELLS)
    with lab.server(folder) as address, lab.page() as opened:
        lab.open_notebook(opened, address, "stop.ipynb", run=False)
        opened.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
        )
        run(opened, 0)
        run(opened, 1, wait=False)
        opened.wait_for_function(f"() => ({_TEXT})(1).includes('Matz wrote')")
        assert stop(opened) < 1
        partial = shown(opened, 1)
        assert "Matz wrote Ruby." in partial and "nterrupted" in partial and "Traceback" not in partial
        run(opened, 2)
        assert "spent True" in shown(opened, 2)
        run(opened, 3, wait=False)
        brave_api.wait(lambda api: api.active, 20)
        assert stop(opened) < 1
        run(opened, 4)
        assert "works 42" in shown(opened, 4)
