"""Answers while they are written, on a page and in a terminal, and values as IPython shows them."""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from ipy_websearch import results as ev
from ipy_websearch.display.answer import LiveAnswer
from ipy_websearch.display.formatters import register
from ipy_websearch.frames import CostFrame
from ipy_websearch.model.offline.passages import LABEL
from ipy_websearch.results import Answer
from tests.fakes.forms import html_of, markdown_of, text_of, unstyled
from tests.fakes.shown import ANSWER, RUN, SEARCH

FORMS = {"text/html": html_of(ANSWER), "text/plain": text_of(ANSWER), "text/markdown": markdown_of(ANSWER)}


def played(shell: Any, events: tuple[ev.Event, ...], **settings: Any) -> LiveAnswer:
    shown = LiveAnswer(shell, **settings)
    for event in events:
        shown.show(event)
    return shown


def waited_for(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_notebook_has_one_display_whose_line_lives_and_which_ends_as_the_finished_answer(bare_shell: Any) -> None:
    recorded = bare_shell.ip.recorded
    shown = played(bare_shell.ip, RUN[:4])
    waited_for(lambda: "⋯ 1 s · searching" in recorded[-1].data["text/html"])
    for event in (*RUN[4:], ev.Finished(ANSWER)):
        shown.show(event)
    assert len({output.display_id for output in recorded}) == 1
    assert [output.update for output in recorded] == [False] + [True] * (len(recorded) - 1)
    assert recorded[-1].data == FORMS


def test_at_most_ten_updates_a_second_reach_the_page(bare_shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    times, publisher = list[float](), bare_shell.ip.display_pub
    publish = publisher.publish
    monkeypatch.setattr(publisher, "publish", lambda *a, **k: (times.append(time.monotonic()), publish(*a, **k)))
    shown = played(bare_shell.ip, RUN[:2])
    while time.monotonic() < times[0] + 0.5:
        shown.show(ev.TextDelta("word "))
        time.sleep(0.002)
    shown.show(ev.TextDelta("last"))
    waited_for(lambda: "word last" in bare_shell.ip.recorded[-1].data["text/plain"])
    assert 1 < len(times) <= 10 * (times[-1] - times[0]) + 2
    shown.finish(ANSWER)
    waited_for(lambda: not any(thread.name == "ipy_websearch display" for thread in threading.enumerate()))


def test_failures_and_interrupts_end_on_the_same_display(bare_shell: Any) -> None:
    played(bare_shell.ip, ()).finish(None, "failed")
    assert bare_shell.ip.recorded == [], "no empty box stands above an error"
    for number, (end, told) in enumerate((("failed", "The answer broke off"), ("interrupted", "Interrupted")), 1):
        played(bare_shell.ip, RUN[:2]).finish(None, end)
        assert told in bare_shell.ip.recorded[-1].data["text/html"]
        assert len({output.display_id for output in bare_shell.ip.recorded}) == number


class TerminalInteractiveShell:
    """Stands for IPython's shell in a terminal."""


class Tty(io.StringIO):
    """A terminal of 80 columns."""

    def isatty(self) -> bool:
        return True


def streamed(events: tuple[ev.Event, ...], answer: Answer | None = ANSWER, out: Any = None) -> str:
    out = out or io.StringIO()
    with contextlib.redirect_stdout(out):
        shown = played(TerminalInteractiveShell(), events)
        if answer is not None:
            shown.finish(answer)
    return str(out.getvalue())


def test_a_terminal_gets_text_calls_sources_and_facts_once_and_in_order() -> None:
    assert (
        streamed(RUN)
        == streamed((*RUN, ev.Finished(ANSWER)), None)
        == (
            "Let me look.\n\n"
            "⋯ searching: duckdb news\n⋯ reading: duckdb.org/news.html\n"
            "✓ 5 results from brave for “duckdb news” (0.4 s)\n✗ duckdb.org/news.html was not read\n"
            "· exa did not answer, brave did\n\n"
            "It is **faster** [1][2].\n\n"
            "[1] News · 2026-11-17 · snippet\n    https://www.duckdb.org/news\n[2] Article\n    corpus://databases/duckdb\n\n"
            "1 tool output: %panels · steps: %trace\nclaude-x · 3 searches · 1 notice · 12 s · 0.0123 USD\n"
        )
    )
    assert streamed(RUN[:1]) == text_of(ANSWER) + "\n"
    assert streamed((*RUN[:1], ev.TextDelta("Two:\n\n- one\n- tw")), None) == "Two:\n\n- one\n", "each item when it has ended"
    offline = replace(ANSWER, offline=True, model="offline")
    printed = streamed((ev.ModelRequested(1, "offline", {}), ev.TextDelta(f"{LABEL}\n\n> Mars has two moons.")), offline)
    assert printed.lower().count("no model read") == 1


@pytest.mark.parametrize("size", [1, 7, 500])
def test_prose_tables_and_code_fit_a_terminal_however_they_arrive(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are wrapped, bold is shown; tables are as wide as the terminal; code stays as it is."""
    monkeypatch.setenv("COLUMNS", "40")
    prose = "It is **very fast** and " + "long " * 30 + "word."
    table = "| laptop | price |\n|---|--:|\n| " + "ThinkPad " * 6 + "[1] | $489 |\n| Swift | $1,469 |"
    code = "```python\n# a comment that is longer than forty columns are\n\nx = a**2 + b**2\n```"
    text = f"{prose}\n\n{table}\n\n# Head\n\nUse `x**2 + y**2`, *not* `*z*`:\n\n{code}\n\n1. one\n2. two **words**"
    pieces = (ev.TextDelta(text[i : i + size]) for i in range(0, len(text), size))
    out = streamed((ev.ModelRequested(1, "m", {}), *pieces), out=Tty())
    said, *rows = unstyled(out[: out.index("Head")]).rstrip().split("\n\n")
    assert "\x1b[1mvery" in out and max(map(len, said.splitlines())) <= 40 and said.split() == prose.replace("**", "").split()
    head, rule, first, last = rows[0].splitlines()
    assert (head, rule, last) == (f"laptop{' ' * 29}price", "─" * 40, f"Swift{' ' * 29}$1,469") and first.endswith("    $489")
    assert f"Use `x**2 + y**2`, *not* `*z*`:\n\n{code}\n\n1. one\n2. two \x1b[1mwords" in out


# --- in IPython -----------------------------------------------------------------------------------------------------


@pytest.fixture
def ip(bare_shell: Any) -> Iterator[Any]:
    """A shell with the displays registered."""
    bare_shell.ns.update(answer=ANSWER, frame=SEARCH.to_frame(), results=SEARCH)
    with register(bare_shell.ip):
        yield bare_shell


def test_a_formatter_of_all_frames_leaves_ours_alone(ip: Any) -> None:
    """Colab has one of HTML."""
    formatter = ip.ip.display_formatter.formatters["text/html"]
    formatter.for_type(pd.DataFrame, lambda frame: "theirs")
    assert ip.run("frame").html == ip.run("results").html == formatter(ip.ns["frame"])
    assert ip.run("answer").outputs[-1].data == FORMS and "text/markdown" not in ip.run("frame").outputs[-1].data
    ip.ns["other"] = pd.DataFrame()
    assert ip.run("other").html == "theirs"


DERIVED = [
    *("d[['title', 'description']]", "d.drop(columns='url')", "d.T", "d.set_index('url')", "d.groupby('url').first()"),
    *("d.merge(pd.DataFrame({'x': [1]}), how='cross')[['title', 'x']]", "c[['question']]", "answer.sources"),
]


@pytest.mark.parametrize("made", DERIVED)
def test_what_pandas_makes_from_our_frames_shows_amounts_as_amounts(ip: Any, made: str) -> None:
    """A part of a search or cost frame is pandas' own table, out of MathJax's reach; other frames are left alone."""
    ip.ns.update(d=SEARCH.to_frame(), c=CostFrame({"question": ["is $5 or $6 dear?"], "usd": [0.1]}), pd=pd)
    assert 'class="dataframe tex2jax_ignore mathjax_ignore"' in ip.run(made).html
    assert "mathjax_ignore" not in ip.run("pd.DataFrame({'x': ['$5 and $6']})").html
