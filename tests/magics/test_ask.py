"""`%ask`, `%%ask`, `%trace`, `%panels` and `%cost` in a shell."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.fakes.engines import hit
from tests.fakes.replies import tool_use


def test_cost_is_the_bill_by_question_until_it_is_reset(messages_api: Any, shell: Any) -> None:
    messages_api.reply("Matz.")
    shell.run("%ask who wrote Ruby?")
    assert list(shell.run("%cost").value.question) == ["who wrote Ruby?"]
    assert list(shell.run("%cost --all --since 1h --by kind").value.kind) == ["model"]
    assert len(shell.run("%cost --reset").value) == 0


def test_a_budget_is_set_kept_and_removed(messages_api: Any, shell: Any) -> None:
    ran = shell.run("%cost --budget 0.000001 --day-budget $2")
    assert "0.000001 USD" in ran.stdout and "0% of the session's budget" in ran.html
    assert type(shell.run("%ask who wrote Ruby?").error).__name__ == "BudgetExceededError" and messages_api.requests == []
    assert shell.run("%cost --budget none --day-budget none").ok
    messages_api.reply("Matz.")
    assert shell.run("%ask who wrote Ruby?").ok


def test_before_the_first_answer_trace_and_panels_say_so_in_a_line(shell: Any) -> None:
    for cell in ("%trace", "%trace --step", "%panels"):
        ran = shell.run(cell)
        assert ran.ok and ran.value is None and len(ran.stdout.strip().splitlines()) == 1


def test_panels_are_listed_and_shown_whole(messages_api: Any, brave_api: Any, shell: Any) -> None:
    brave_api.reply([hit("https://a.example/", "Short <b>&", "one")])
    messages_api.replies(tool_use("web_search_brave", {"query": "short $5 one"}), "Done.")
    shell.run("a = %ask --tools web_search_brave what is it?")
    (panel,) = shell.ns["a"].panels
    for typed in ("P1", "p1", "1"):
        ran = shell.run(f"%panels {typed} -o kept")
        assert ran.value is panel is shell.ns["kept"] and "Short &lt;b&gt;&amp;" in ran.html
    shell.run("%ask --reset")
    assert list(shell.run("%panels").value.tool) == ["web_search_brave"] and list(shell.run("%panels").value.index) == ["P1"]


def test_an_enrichment_reads_a_line_for_each_column(messages_api: Any, shell: Any) -> None:
    shell.ns["firms"] = pd.DataFrame({"company": ["Acme"]})
    messages_api.reply(tool_use("record", {"ceo": None, "founded": None, "size": None}))
    ran = shell.run(
        "%%enrich firms --max-searches 0 --no-progress -o out\n# what's asked\nceo: Who leads {company}?\n"
        "founded: int = When was {company} founded?\nsize: [small, large] = How large is {company}?;"
    )
    assert ran.ok and ran.outputs == [] and str(shell.ns["out"].founded.dtype) == "Int64"
    assert list(shell.ns["out"]["size"].cat.categories) == ["small", "large"]


@pytest.mark.parametrize("cell", ["%ask who?\nx = 1\n%ask and who?", "%ask who?\n%ask and who?\n\n  # both are shown"])
def test_each_answer_of_a_cell_is_shown_once_and_the_last_is_its_value(messages_api: Any, shell: Any, cell: str) -> None:
    messages_api.replies("Matz.", "Larry.")
    ran = shell.run(cell)
    first, second = (output.data["text/plain"] for output in ran.shown())
    assert "Matz" in first and "Larry" in second
    assert ran.value.text == shell.ns["_"].text == "Larry." and shell.run("1 + 1").shown()
