"""`%trace`: a reader sees what each step sent, got, took and cost, and a class walks through it step by step."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pandas as pd
import pytest
from IPython.core.error import UsageError

from ipy_websearch.display.trace import step_views, trace_frame, without_keys
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
    for words in (
        "who wrote them?",
        "web_search",
        "claude-sonnet-5-5",
        "called tools",
        "wrote the answer",
        tokens,
        "→ 77",
        " USD",
    ):
        assert words in ran.html and words in ran.texts()


def test_an_overview_folds_the_json_and_names_what_is_repeated(asked: Any) -> None:
    """A request after the first shows its new messages only; a tool step shows what the model was given."""
    parts = folds(asked.run("%trace").html)
    first, last = (json.loads(parts[f"{n} · claude-sonnet-5-5 · request"]) for n in (1, 4))
    assert first["messages"][0]["content"][0]["text"] == "who wrote them?" and first["tools"][0]["name"] == "web_search"
    assert last["messages"][0] == "… 1 message as in step 1" and last["system"] == last["tools"] == "… as in step 1"
    assert [m["role"] for m in last["messages"][1:]] == ["assistant", "user"] and len(parts) == 8
    assert json.loads(parts["2 · web_search · response"])["type"] == "tool_result"
    long = Step(1, "model", "m", request={"messages": [{"content": "ä" * 15_000}] * 9}, response=[{"text": "x" * 9_000}] * 9)
    assert len(html_of(trace_frame(Answer("q", "t", "m", trace=(long,) * 30))).encode()) < 90_000, (
        "what a notebook stores is cut"
    )


def test_step_walks_through_the_answer(asked: Any) -> None:
    """Each call shows the next step, a number restarts, and the last is told."""
    steps = [asked.run(f"%trace --step {number}") for number in ("", "", "", "", "", "3", "")]
    assert [list(ran.value.n) for ran in steps] == [[1], [2], [3], [4], [1], [3], [4]] and steps[0].value.head(1).view is None
    assert "%trace --step shows the next step" in steps[0].texts() and "this is the last step" in steps[3].texts()
    whole = folds(asked.run("%trace 4").html)["4 · claude-sonnet-5-5 · request"]
    assert json.loads(whole) == json.loads(json.dumps(asked.ns["a"].trace[3].request))


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


@pytest.mark.parametrize("line", ["x", "0", "5", "²", "--widget 9"])
def test_a_step_that_does_not_exist_is_said_in_one_line(asked: Any, line: str) -> None:
    error = asked.run(f"%trace {line}").error
    assert isinstance(error, UsageError) and "1 to 4" in str(error)


# --- the widget -----------------------------------------------------------------------------------------------------


def test_a_notebook_keeps_the_widget_and_the_page(messages_api: Any, run_notebook: Any) -> None:
    """A real kernel puts out the page, then the widget's view; the saved state has every step, our script, the page's mark."""
    pytest.importorskip("anywidget")
    messages_api.reply("Matz.")
    notebook = run_notebook(["%load_ext ipy_websearch", "a = %ask who?", "%trace --widget"])
    assert errors(notebook) == []
    page, view = (output.data for output in notebook.cells[2].outputs)
    assert "in all" in page["text/html"]
    state = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"].state[view[VIEW]["model_id"]].state
    assert f'class="{state["mark"]}"' in page["text/html"] and set(view) == {VIEW, "text/plain"}
    assert [step["kind"] for step in state["steps"]] == ["model"] and state["step"] == 1 and "render" in state["_esm"]
