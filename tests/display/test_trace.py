"""`%trace`: a reader sees what each step sent, got, took and cost, and a class walks through it step by step."""

from __future__ import annotations

import json
import pickle
import re
from html import unescape
from typing import Any

import pandas as pd
import pytest
from IPython.core.error import UsageError

from ipy_websearch.display.trace import response_of, trace_frame
from ipy_websearch.results import Answer, Step
from ipy_websearch.usage import Usage
from tests.fakes.engine import hit
from tests.fakes.replies import text, tool_use, usage


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
    frame = ran.value
    assert len(ran.outputs) == 1 and isinstance(frame, pd.DataFrame)
    pd.testing.assert_frame_equal(pd.DataFrame(frame), pd.DataFrame(asked.ns["a"].steps))
    assert list(frame.kind) == ["model", "tool", "tool", "model"]
    for form in ("text/html", "text/plain"):
        shown = ran.texts(form)
        for words in ("who wrote them?", "web_search", "claude-sonnet-5-5", "called tools", "wrote the answer", "in all"):
            assert words in shown, (form, words)
        assert "→ 77" in shown and " USD" in shown and "$" not in shown.replace("$ref", "")
    assert f"{asked.ns['a'].trace[0].usage.total_input_tokens:,}" in ran.texts()


def test_an_overview_folds_the_json_and_names_what_is_repeated(asked: Any) -> None:
    """A request after the first shows its new messages only; a tool step shows what the model was given."""
    parts = folds(asked.run("%trace").html)
    assert len(parts) == 8
    first = json.loads(parts["1 · claude-sonnet-5-5 · request"])
    assert first["messages"][0]["content"][0]["text"] == "who wrote them?" and first["tools"][0]["name"] == "web_search"
    last = json.loads(parts["4 · claude-sonnet-5-5 · request"])
    assert last["messages"][0] == "… 1 message as in step 1" and last["system"] == last["tools"] == "… as in step 1"
    assert [m["role"] for m in last["messages"][1:]] == ["assistant", "user"]
    given = json.loads(parts["2 · web_search · request"])["query"]
    got = json.loads(parts["2 · web_search · response"])
    assert got["type"] == "tool_result" and given in got["content"][0]["source"]
    assert "Matz & Larry." in parts["4 · claude-sonnet-5-5 · response"]


def test_one_step_is_shown_whole(asked: Any) -> None:
    """Its request holds all messages and tools, in every form; the value has its one row."""
    ran = asked.run("t = %trace 4\nt")
    parts = folds(ran.html)
    request = json.loads(parts["request"])
    body = asked.ns["a"].trace[3].request
    assert request == json.loads(json.dumps(body)) and len(request["messages"]) == 3
    assert list(asked.ns["t"].n) == [4] and "step 4 of 4" in ran.texts() and '"max_tokens"' in ran.texts()
    assert '<details open="">' in ran.html


def test_step_walks_through_the_answer(asked: Any, messages_api: Any) -> None:
    """Each call shows the next step, a number restarts, the end is said, and a new answer begins anew."""
    seen = [asked.run("%trace --step").value for _ in range(4)]
    assert [list(frame.n) for frame in seen] == [[1], [2], [3], [4]]
    end = asked.run("%trace --step")
    assert end.value is None and "last of 4 steps" in end.stdout
    assert list(asked.run("%trace --step 2").value.n) == [2]
    ran = asked.run("%trace --step")
    assert list(ran.value.n) == [3] and "%trace --step shows the next step" in ran.texts()
    assert "this is the last step" in asked.run("%trace --step").texts()
    messages_api.reply("Nothing new.")
    asked.run("%ask and now?")
    assert list(asked.run("%trace --step").value.n) == [1] and "and now?" in asked.run("%trace").texts()


def test_what_is_made_from_a_trace_is_a_plain_frame(asked: Any) -> None:
    """Filters, columns, copies and pickles are tables, not traces."""
    frame = asked.run("%trace").value
    for made in (frame[frame.kind == "model"], frame[["n"]], frame.head(1), frame.copy(), pickle.loads(pickle.dumps(frame))):
        assert type(made) is pd.DataFrame


def test_a_key_in_a_question_is_not_in_the_trace(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """Requests hold no headers, and a key that somebody typed into a question is taken out."""
    messages_api.reply("Better not.")
    shell.run(f"%ask is {messages_api.key} a good key?")
    for line in ("%trace", "%trace 1"):
        ran = shell.run(line)
        for form in ("text/html", "text/plain"):
            assert messages_api.key not in ran.texts(form) and "[key]" in ran.texts(form)


def test_hostile_text_stays_text(shell: Any) -> None:
    """Markup, escapes and invisible characters of a page or a model are harmless in all forms."""
    evil = "<script>alert(1)</script><img src=x>\x1b[31m\u202e\U000e0041 ```\n# x"
    step = Step(1, "tool", evil, evil, request={evil: evil}, response=[{"type": "text", "text": evil}], is_error=True)
    for number in (None, 1):
        bundle = trace_frame(Answer(evil, "t", "m", trace=(step,)), number)._repr_mimebundle_()
        assert "<script" not in bundle["text/html"] and "<img" not in bundle["text/html"]
        for form in bundle.values():
            assert not set("\x1b\u202e\U000e0041") & set(form)


def test_a_large_trace_stays_small_in_the_notebook(messages_api: Any) -> None:
    """The overview cuts each JSON and says where all of it is; one step alone is given whole up to 200,000 characters."""
    body = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "ä" * 15_000}] * 40}]}
    steps = tuple(
        Step(n, "model", "m", request={**body, "n": n}, response=[{"type": "text", "text": "x" * 9_000}]) for n in range(1, 31)
    )
    answer = Answer("q", "t", "m", trace=steps)
    overview = trace_frame(answer)._repr_mimebundle_()
    assert len(overview["text/html"].encode()) < 90_000 and "%trace 30 shows all" in overview["text/html"]
    whole = trace_frame(answer, 3)._repr_mimebundle_()
    assert 300_000 < len(whole["text/html"].encode()) < 450_000 and "answer.trace has all" in whole["text/html"]
    assert "x" * 9_000 in whole["text/html"]


def test_equal_calls_of_one_reply_get_their_own_results() -> None:
    """The second of two equal calls is answered by the second result."""
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "s", "input": {"q": 1}} for n in (1, 2)]
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": str(n)} for n in (1, 2)]
    steps = (
        Step(1, "model", "m", request={"messages": []}, response=calls),
        Step(2, "tool", "s", request={"q": 1}),
        Step(3, "tool", "s", request={"q": 1}),
        Step(4, "tool", "s", request={"q": 2}),
    )
    answer = Answer("q", "t", "m", trace=steps, messages=({"role": "user", "content": results},))
    assert [(response_of(answer, step) or {}).get("content") for step in steps[1:]] == ["1", "2", None]


def test_unknown_costs_stay_unknown(asked: Any) -> None:
    """A price that nobody knows is not shown as 0."""
    step = Step(1, "model", "m", usage=Usage(input_tokens=1_234), cost_usd=None)
    answer = Answer("q", "t", "m", trace=(step, step), cost_usd=None)
    text_form = trace_frame(answer)._repr_mimebundle_()["text/plain"]
    assert text_form.count("cost unknown") == 3


@pytest.mark.parametrize("line", ["%trace x", "%trace 0", "%trace 5", "%trace 1 2", "%trace ²"])
def test_a_step_that_does_not_exist_is_said_in_one_line(asked: Any, line: str) -> None:
    """The error names the numbers there are."""
    error = asked.run(line).error
    assert isinstance(error, UsageError) and "1 to 4" in str(error)
