"""The stop button of JupyterLab, pressed while something runs: what had come is kept and booked."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.fakes.replies import delay, slow, tool_use
from tests.slow.browser import lab

LOAD = "%load_ext ipy_websearch\n%config WebSearch.provider = 'brave'"
SPENT = "from ipy_websearch import api\nprint('spent', api.session().spent_usd > 0)"
BLANK = {"value": None, "source": "", "quote": "", "confidence": 0.5}
WORKS = "print('works', 6 * 7)"


def test_the_stop_button_ends_a_stream_a_search_and_a_page(
    messages_api: Any, brave_api: Any, open_notebook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partial answer says that it is partial, its cost is in the ledger, and the next cells work."""
    messages_api.reply("Matz wrote Ruby. " * 3000, slow(0.05))
    brave_api.reply(delay_s=100)
    with lab.Listener() as listener:
        monkeypatch.setenv("IPY_WEBSEARCH_FETCH_ALLOW", listener.key)
        cells = (LOAD, "%ask who wrote Ruby?", SPENT, "%search --fresh hangs", WORKS, f"%fetch {listener.address}/slow", WORKS)
        with open_notebook(cells) as notebook:
            notebook.run(0)
            notebook.run(1, wait=False)
            notebook.wait_for(1, "Matz wrote")
            notebook.stop()
            notebook.wait_for(1, "nterrupted")
            partial = notebook.text(1)
            assert "Matz wrote Ruby." in partial and "Traceback" not in partial
            notebook.run(2)
            notebook.wait_for(2, "spent True")
            notebook.run(3, wait=False)
            brave_api.wait(lambda api: api.active, 60)
            notebook.stop()
            notebook.run(4)
            notebook.wait_for(4, "works 42")
            notebook.run(5, wait=False)
            listener.wait("/slow")
            notebook.stop()
            notebook.run(6)
            notebook.wait_for(6, "works 42")
            for number in (3, 5):
                notebook.wait_for(number, "Interrupted: %")
                assert len(notebook.text(number).splitlines()) <= 4


def test_the_stop_button_ends_an_enrichment(messages_api: Any, brave_api: Any, open_notebook: Any) -> None:
    """The bar says how far it got, the rows that were filled are there, their cost is booked, the rest is marked."""

    def answer(body: Any) -> Any:
        number = int(re.findall(r"number (\d+)", json.dumps(body["messages"][0]))[-1])
        return tool_use("record", {"ceo": BLANK | {"value": f"Boss {number}"}}), delay(0 if number < 8 else 100)

    messages_api.behave(answer)
    cells = (
        LOAD + "\nimport pandas as pd\nf = pd.DataFrame({'company': [f'number {n}' for n in range(40)]})",
        "%%enrich f -o out --max-searches 0 --concurrency 4\nceo: Who is the CEO of {company}?",
        SPENT + "\nprint(len(out), dict(out.enrich_status.value_counts()))",
        WORKS,
    )
    with open_notebook(cells) as notebook:
        notebook.run(0)
        notebook.run(1, wait=False)
        notebook.wait_for(1, "8/40")
        notebook.stop()
        notebook.wait_for(1, "Interrupted")
        notebook.run(2)
        notebook.wait_for(2, "spent True")
        notebook.wait_for(2, "40 {")
        assert "'ok': 8" in notebook.text(2)
        notebook.run(3)
        notebook.wait_for(3, "works 42")
