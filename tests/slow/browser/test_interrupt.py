"""The stop button of JupyterLab, pressed while something runs: what had come is kept and booked."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.fakes.replies import delay, slow, tool_use
from tests.slow.browser import lab

LOAD = """
%load_ext ipy_websearch
%config WebSearch.provider = 'brave'
import pandas as pd
f = pd.DataFrame({'company': [f'number {n}' for n in range(40)]})
"""
SPENT = "from ipy_websearch import api\nprint('spent', api.session().spent_usd > 0)"
BLANK = {"value": None, "source": "", "quote": "", "confidence": 0.5}
WORKS = "print('works', 6 * 7)"


def test_the_stop_button_ends_a_stream_a_search_a_page_and_an_enrichment(
    messages_api: Any, brave_api: Any, open_notebook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partial answer says that it is partial, rows that were filled are there and the rest is marked, what was spent is in
    the ledger, and the next cells work."""

    def answer(body: Any) -> Any:
        number = int((re.findall(r"number (\d+)", json.dumps(body["messages"][0])) or [-1])[-1])
        if number < 0:
            return "Matz wrote Ruby. " * 3000, slow(0.05)
        return tool_use("record", {"ceo": BLANK | {"value": f"Boss {number}"}}), delay(0 if number < 8 else 100)

    messages_api.behave(answer)
    brave_api.reply(delay_s=100)
    with lab.Listener() as listener:
        monkeypatch.setenv("IPY_WEBSEARCH_FETCH_ALLOW", f"127.0.0.1:{listener.port}")
        cells = (
            LOAD,
            "%ask who wrote Ruby?",
            SPENT,
            "%search --fresh hangs",
            WORKS,
            f"%fetch {listener.url}/slow",
            WORKS,
            "%%enrich f -o out --max-searches 0 --concurrency 4\nceo: Who is the CEO of {company}?",
            "print(len(out), dict(out.enrich_status.value_counts()))",
        )
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
            listener.wait(lambda server: "/slow" in server.hits, 20)
            notebook.stop()
            notebook.run(6)
            notebook.wait_for(6, "works 42")
            for number in (3, 5):
                notebook.wait_for(number, "Interrupted: %")
                assert len(notebook.text(number).splitlines()) <= 4
            notebook.run(7, wait=False)
            notebook.wait_for(7, "8/40")
            notebook.stop()
            notebook.wait_for(7, "Interrupted")
            notebook.run(8)
            notebook.wait_for(8, "40 {")
            assert "'ok': 8" in notebook.text(8)
