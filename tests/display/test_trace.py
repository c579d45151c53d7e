"""`%trace`: a reader sees what each step sent, got, took and cost, and a class walks through it step by step."""

from __future__ import annotations

import json
import re
import sys
from html import unescape
from typing import Any

import pandas as pd
import pytest
from IPython.core.error import UsageError

from ipy_websearch.display import trace
from ipy_websearch.display.render import cost
from ipy_websearch.display.trace import WIDGET_CHARACTERS, step_views, trace_frame, without_keys
from ipy_websearch.results import Answer, Step
from tests.fakes.engines import hit
from tests.fakes.forms import html_of, text_of
from tests.fakes.notebook import errors
from tests.fakes.replies import text, tool_use, usage

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def asked(messages_api: Any, brave_api: Any, shell: Any) -> Any:
    """A shell in which a question was answered in four steps: a request, two searches at once, a request."""
    for name in ("ruby", "perl"):
        brave_api.reply([hit(f"https://{name}.example/", f"About {name}", f"{name} <b>text</b>")])
    messages_api.reply("Let me look.", tool_use("web_search", {"query": "ruby"}), tool_use("web_search", {"query": "perl"}))
    messages_api.reply(text("Matz & Larry.", citations=[(0, 0)]), usage(output_tokens=77))
    assert shell.run("a = %ask --provider brave who wrote them?").ok
    return shell


def folds(html: str) -> dict[str, str]:
    """Return the text of each folded part by its title."""
    found = re.findall(r"<details[^>]*><summary[^>]*>([^<]*)</summary><pre[^>]*>(.*?)</pre></details>", html, re.DOTALL)
    return {unescape(title): unescape(body) for title, body in found}


def test_trace_shows_every_step_with_its_figures(asked: Any) -> None:
    """Names, milliseconds, tokens by class and costs are in the table, with a sum; the value is the steps' DataFrame."""
    ran = asked.run("%trace")
    pd.testing.assert_frame_equal(pd.DataFrame(ran.value), pd.DataFrame(asked.ns["a"].steps))
    assert len(ran.outputs) == 1 and list(ran.value.kind) == ["model", "tool", "tool", "model"]
    tokens = f"{asked.ns['a'].trace[0].usage.total_input_tokens:,} → "
    for shown in (ran.html, ran.texts()):
        for words in ("who wrote them?", "web_search", "claude-sonnet-5-5", "called tools", "wrote the answer", tokens, "→ 77"):
            assert words in shown
        assert "in all" in shown and " USD" in shown and "$" not in shown.replace("$ref", "")


def test_an_overview_folds_the_json_and_names_what_is_repeated(asked: Any) -> None:
    """A request after the first shows its new messages only; a tool step shows what the model was given."""
    parts = folds(asked.run("%trace").html)
    first, last = (json.loads(parts[f"{n} · claude-sonnet-5-5 · request"]) for n in (1, 4))
    assert first["messages"][0]["content"][0]["text"] == "who wrote them?" and first["tools"][0]["name"] == "web_search"
    assert last["messages"][0] == "… 1 message as in step 1" and last["system"] == last["tools"] == "… as in step 1"
    assert [m["role"] for m in last["messages"][1:]] == ["assistant", "user"] and len(parts) == 8
    given, got = (json.loads(parts[f"2 · web_search · {part}"]) for part in ("request", "response"))
    assert got["type"] == "tool_result" and given["query"] in got["content"][0]["source"]
    assert "Matz & Larry." in parts["4 · claude-sonnet-5-5 · response"]


def test_step_walks_through_the_answer(asked: Any, messages_api: Any) -> None:
    """Each call shows the next step, a number restarts, the last is told, and a new answer begins anew."""
    steps = [asked.run(f"%trace --step {number}") for number in ("", "", "", "", "", "3", "")]
    assert [list(ran.value.n) for ran in steps] == [[1], [2], [3], [4], [1], [3], [4]] and steps[0].value.head(1).view is None
    assert "%trace --step shows the next step" in steps[0].texts() and "this is the last step" in steps[3].texts()
    whole = folds(asked.run("%trace 4").html)["4 · claude-sonnet-5-5 · request"]
    assert json.loads(whole) == json.loads(json.dumps(asked.ns["a"].trace[3].request))
    messages_api.reply("Nothing new.")
    asked.run("%ask and now?")
    assert list(asked.run("%trace --step").value.n) == [1] and "and now?" in asked.run("%trace").texts()


def test_the_widget_counts_what_was_spent_up_to_each_step(asked: Any) -> None:
    first, *_, last = step_views(asked.ns["a"])
    assert first["so_far"] == cost(asked.ns["a"].trace[0].cost_usd) != last["so_far"] == cost(asked.ns["a"].cost_usd)


def test_a_key_in_a_question_is_in_no_trace(messages_api: Any, shell: Any) -> None:
    """Requests hold no headers, and a key that somebody typed into a question is taken out."""
    messages_api.reply("Better not.")
    shell.run(f"a = %ask is {messages_api.key} a good key?")
    shown = [shell.run(line) for line in ("%trace", "%trace 1")]
    views = json.dumps(step_views(without_keys(shell.ns["a"], lambda text: text.replace(messages_api.key, "[key]"))))
    for said in (*(ran.html + ran.texts() for ran in shown), views):
        assert messages_api.key not in said and "[key]" in said


EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u202e\U000e0041\"' ```\n# x"


def test_hostile_text_stays_text() -> None:
    """Markup, escapes and invisible characters of a page or a model are harmless in all forms, and in the widget's data."""
    response = [{"type": "text", "text": EVIL}, {"type": EVIL, EVIL: EVIL}, {"type": "tool_use", "name": EVIL, "input": EVIL}]
    request = {"model": EVIL, "system": EVIL, "tools": [{"name": EVIL}], "messages": [{"role": EVIL, "content": EVIL}]}
    model = Step(1, "model", EVIL, EVIL, request=request, response=response)
    answer = Answer(EVIL, "t", "m", trace=(model, Step(2, "tool", EVIL, EVIL, request={EVIL: EVIL}, is_error=True)))
    frames = [trace_frame(answer, number) for number in (0, 1, 2)]
    html = "".join(map(html_of, frames))
    assert "<script" not in html and "<img" not in html
    shown = html + "".join(map(text_of, frames)) + json.dumps(step_views(answer), ensure_ascii=False)
    assert not set("\x1b\u202e\U000e0041") & set(shown)


def test_a_large_trace_stays_small_in_the_notebook() -> None:
    """Texts are cut until an overview, a widget and one step have no more JSON than may be stored with them."""
    body = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "ä" * 15_000}] * 40}]}
    response = [{"type": "text", "text": "x" * 9_000}]
    answer = Answer(
        "q", "t", "m", trace=tuple(Step(n, "model", "m", request={**body, "n": n}, response=response) for n in range(1, 31))
    )
    overview, whole = (html_of(trace_frame(answer, number)) for number in (0, 3))
    assert len(overview.encode()) < 90_000 and len(whole.encode()) < 450_000 and "… (15,000 characters)" in overview
    assert whole.count("ä" * 1_000) == 40 and "ä" * 1_001 not in whole
    assert len(json.dumps(step_views(answer, WIDGET_CHARACTERS), ensure_ascii=False)) < 1.2 * WIDGET_CHARACTERS


@pytest.mark.parametrize("line", ["x", "0", "5", "1 2", "²", "--widget 9"])
def test_a_step_that_does_not_exist_is_said_in_one_line(asked: Any, line: str) -> None:
    error = asked.run(f"%trace {line}").error
    assert isinstance(error, UsageError) and "1 to 4" in str(error)


# --- the widget -----------------------------------------------------------------------------------------------------


def test_without_anywidget_the_trace_is_the_plain_one(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "ipy_websearch.display.widget", raising=False)
    ran = asked.run("%trace --widget -o page")
    assert isinstance(asked.ns["page"], trace.TraceFrame) and "ipy_websearch[widget]" in ran.html and "in all" in ran.texts()


def test_a_notebook_keeps_the_widget_and_the_page(messages_api: Any, run_notebook: Any) -> None:
    """A real kernel puts out the page, then the widget's view; the saved state has every step, our script, the page's mark."""
    pytest.importorskip("anywidget")
    messages_api.reply("Matz.")
    notebook = run_notebook(["%load_ext ipy_websearch", "a = %ask who?", "%trace --widget"])
    assert errors(notebook) == []
    page, view = (output.data for output in notebook.cells[2].outputs)
    state = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"].state[view[VIEW]["model_id"]].state
    assert (
        f'class="{state["mark"]}"' in page["text/html"]
        and "margin-left:" in page["text/html"]
        and set(view) == {VIEW, "text/plain"}
    )
    assert [step["kind"] for step in state["steps"]] == ["model"] and state["step"] == 1 and "render" in state["_esm"]
