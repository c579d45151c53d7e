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
            for number, is_there in enumerate(
                (
                    lambda: notebook.wait_for(1, "Matz wrote"),
                    lambda: brave_api.wait(lambda api: api.active, 60),
                    lambda: listener.wait(lambda server: "/slow" in server.hits, 20),
                    lambda: notebook.wait_for(7, "8/40"),
                )
            ):
                cell = 2 * number + 1
                notebook.run(cell, wait=False)
                is_there()
                notebook.stop()
                notebook.wait_for(cell, "nterrupted")
                assert "Traceback" not in notebook.text(cell)
                notebook.run(cell + 1)
                notebook.wait_for(cell + 1, ("spent True", "works 42", "works 42", "40 {")[number])
            assert "Matz wrote Ruby." in notebook.text(1) and "'ok': 8" in notebook.text(8)
            assert all(len(notebook.text(cell).splitlines()) <= 4 for cell in (3, 5))
