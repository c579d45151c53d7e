"""`%trace --widget`: a class walks through an answer on a timeline; without anywidget it is a page to unfold."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from IPython.core.error import UsageError

from ipy_websearch.display import widget as door
from ipy_websearch.display.answer import starts
from ipy_websearch.display.trace import TraceFrame, trace_frame
from ipy_websearch.display.widget import CARD_CHARACTERS, WHOLE_CHARACTERS, step_views, trace_widget
from ipy_websearch.results import Answer, Step
from ipy_websearch.usage import Usage
from tests.fakes.engine import hit
from tests.fakes.notebook import errors
from tests.fakes.replies import text, tool_use

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def no_anywidget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Importing anywidget fails, as where the extra is not installed."""
    monkeypatch.setitem(sys.modules, "anywidget", None)
    door._widget_class.cache_clear()
    yield
    door._widget_class.cache_clear()


@pytest.fixture
def asked(messages_api: Any, brave_api: Any, shell: Any) -> Any:
    """A shell in which a question was answered: a request, two searches at once, a request."""
    brave_api.reply([hit("https://ruby.example/", "Ruby", "Matz wrote Ruby.")])
    messages_api.reply(
        "Let me look.", tool_use("web_search", {"query": "ruby author"}), tool_use("web_search", {"query": "ruby year"})
    )
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))
    assert shell.run("a = %ask who wrote Ruby?").ok
    return shell


def test_without_anywidget_the_trace_is_the_plain_one(asked: Any, no_anywidget: None) -> None:
    ran = asked.run("%trace --widget -o page")
    assert isinstance(asked.ns["page"], TraceFrame)
    html = unescape(ran.html)
    assert html.count("margin-left:") == 4 and html.count("<summary") == 8 and "ipy_websearch[widget]" in html
    assert "Matz wrote Ruby." in html and '"query": "ruby author"' in html and "<script" not in html
    assert "in all" in ran.texts()


def test_a_step_knows_when_it_began_and_what_was_spent_by_then(asked: Any) -> None:
    """Calls of one reply begin together when the reply has ended; the sums are those of the answer."""
    answer = asked.ns["a"]
    views = step_views(answer)
    first, one, two, last = views
    assert first["start"] == 0 and one["start"] == two["start"] == pytest.approx(first["ms"], abs=0.2)
    assert last["start"] == pytest.approx(max(one["until"], two["until"]), abs=0.2)
    tokens = f"{answer.usage.total_input_tokens:,} → {answer.usage.output_tokens:,} tokens"
    assert last["so_far"].startswith(tokens) and "USD" in last["so_far"]
    assert ["tokens out", f"{answer.trace[0].usage.output_tokens:,}"] in first["tokens"] and one["tokens"] == []
    json.dumps(views)


def test_a_step_shows_what_is_new_in_it_as_messages(asked: Any) -> None:
    """A request has its parts as cards, what was sent before is only named; a call has its input and its result."""
    first, one, _, last = step_views(asked.ns["a"])
    assert [card["who"] for card in first["sent"]] == ["settings", "system", "tools", "user"]
    assert first["sent"][3]["text"] == "who wrote Ruby?" and first["sent"][2]["kind"] == "web_search, web_fetch"
    assert [card["kind"] for card in first["got"]] == ["", "tool_use web_search", "tool_use web_search"]
    assert json.loads(one["sent"][0]["text"]) == {"query": "ruby author"} and "Matz wrote Ruby." in one["got"][0]["text"]
    assert "as in step 1" in last["sent"][1]["text"] and last["sent"][3]["who"] == "earlier"
    assert last["got"][0]["text"] == "Matz wrote Ruby.\n  ↳ https://ruby.example/"


def test_moments_of_an_empty_trace_and_of_repeated_rounds() -> None:
    """Each round begins where the slowest call of the one before ended."""
    kinds = [("model", 10.0), ("tool", 5.0), ("tool", 20.0), ("model", 1.0), ("tool", 2.0), ("model", 3.0)]
    steps = [Step(n, kind, "x", milliseconds=ms) for n, (kind, ms) in enumerate(kinds, 1)]
    assert list(starts(steps)) == [0, 10, 10, 30, 31, 33] and list(starts([])) == []


def test_hostile_text_stays_text_on_the_page() -> None:
    """Markup, escapes and invisible characters in every place are harmless."""
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u202e\U000e0041\"'"
    response = [
        {"type": "text", "text": evil},
        {"type": evil, evil: evil},
        {"type": "tool_use", "id": "t", "name": evil, "input": evil},
    ]
    request = {"model": evil, "system": evil, "tools": [{"name": evil}], "messages": [{"role": evil, "content": evil}]}
    steps = (Step(1, "model", evil, evil, request=request, response=response), Step(2, "tool", evil, evil, request=evil))
    answer = Answer(evil, "t", "m", trace=steps)
    html = trace_frame(answer)._repr_mimebundle_()["text/html"]
    assert "<script" not in html and "<img" not in html and html.count("&lt;script&gt;") > 8
    assert not set("\x1b\u202e\U000e0041") & set(html + json.dumps(step_views(answer), ensure_ascii=False))


def test_a_key_in_a_question_is_not_in_the_widget(messages_api: Any, brave_api: Any, shell: Any, no_anywidget: None) -> None:
    """It is taken out of every card."""
    messages_api.reply("Better not.")
    shell.run(f"%ask is {messages_api.key} a good key?")
    ran = shell.run("%trace --widget")
    assert messages_api.key not in ran.html and "[key]" in ran.html


def test_a_large_trace_stays_bounded() -> None:
    """All cards together and the page have a bound; what was left out is counted."""
    blocks = [{"type": "text", "text": "ä" * 20_000}] * 10
    steps = tuple(Step(n, "model", "m", request={"messages": [], "n": n}, response=blocks) for n in range(1, 11))
    views = step_views(Answer("q", "t", "m", trace=steps))
    cards = [card for step in views for card in (*step["sent"], *step["got"])]
    assert sum(len(card["text"]) for card in cards) <= WHOLE_CHARACTERS + 1_000
    cut = next(card for card in cards if card["who"] == "assistant")
    assert 0 < len(cut["text"]) <= CARD_CHARACTERS and len(cut["text"]) + cut["more"] == 20_000


@pytest.mark.parametrize("line", ["%trace --widget --step", "%trace --widget 9"])
def test_a_widget_that_cannot_be_is_said_in_one_line(asked: Any, line: str) -> None:
    """Two ways of stepping at once, or a step that does not exist."""
    assert isinstance(asked.run(line).error, UsageError)


def test_the_widget_begins_at_a_step_and_stays_within_them() -> None:
    """`step` can be read and set; it never leaves the steps; the page stands beside the view."""
    pytest.importorskip("anywidget")
    steps = tuple(Step(n, "model", "m", usage=Usage(input_tokens=n)) for n in (1, 2, 3))
    widget = trace_widget(Answer("q", "t", "m", trace=steps), 2)
    assert (widget.step, widget.title, len(widget.steps)) == (2, "q", 3)
    for wanted, got in ((3, 3), (9, 3), (-1, 1)):
        widget.step = wanted
        assert widget.step == got
    data, _ = widget._repr_mimebundle_()
    assert {VIEW, "text/html", "text/plain"} <= set(data) and "margin-left:" in data["text/html"]
    assert "textContent" in widget._esm and "innerHTML" not in widget._esm and "http" not in widget._esm


def test_a_notebook_keeps_the_widget_and_the_page(messages_api: Any, brave_api: Any, run_notebook: Any) -> None:
    """A real kernel puts out the page, then the widget's view; the saved state has every step, our script, the page's mark."""
    pytest.importorskip("anywidget")
    messages_api.reply("Matz.")
    notebook = run_notebook(["%load_ext ipy_websearch", "a = %ask who?", "%trace --widget", "%websearch status"])
    assert errors(notebook) == []
    assert "<code>%websearch key tavily</code>" in notebook.cells[3].outputs[0].data["text/html"]
    page, view = (output.data for output in notebook.cells[2].outputs)
    assert "margin-left:" in page["text/html"] and "called" not in page["text/plain"] and set(view) == {VIEW, "text/plain"}
    state = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"].state[view[VIEW]["model_id"]].state
    assert f'class="{state["mark"]}"' in page["text/html"]
    assert [step["kind"] for step in state["steps"]] == ["model"] and state["step"] == 1 and "render" in state["_esm"]
