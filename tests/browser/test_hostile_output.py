"""Hostile text in every place of every output, in a real JupyterLab: nothing runs, nothing is fetched, no command is offered.

A magic's output counts as trusted there: no sanitiser stands between it and the user's notebook, kernels and terminals.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import lab
from tests.browser.payloads import payloads

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(lab.missing()), reason=lab.missing() or "can run")]

SETUP = """
import json
from datetime import UTC, datetime
from ipy_websearch import events as ev
from ipy_websearch.display.formatters import register
from ipy_websearch.display.live import LiveAnswer
from ipy_websearch.results import Answer, Attempt, Citation, Page, Panel, SearchResult, SearchResults, Step
register(get_ipython())
texts = json.load(open("payloads.json"))
now = datetime.now(UTC)

def citations(t):
    return (Citation(1, t, t, t, now), Citation(2, t, "https://ok.example/?" + t, t))

def answer_of(t):
    panels = (Panel("P1", t, "yaml", t, t), Panel("P2", t, "markdown", t, "web_fetch", True))
    text = f"{t}\\n\\n{t} [1] **{t}** [2]\\n\\n- {t}\\n\\n> {t}\\n\\n| a |\\n|---|\\n| {t} |\\n\\n# {t}\\n"
    return Answer(t, text, t, citations(t), panels, stop_reason=t, notices=(t,), trace=(Step(1, "tool", t, t),))

def search_of(t):
    hits = (SearchResult(t, t, t, now), SearchResult(t, "https://ok.example/" + t, t))
    return SearchResults(hits, t, t, attempts=(Attempt(t, t),), notices=(t,))

def show_markdown(value):
    formatter = get_ipython().display_formatter.formatters["text/markdown"]
    display({"text/markdown": formatter(value)}, raw=True)

def stream(t, end):
    live = LiveAnswer(get_ipython(), t)
    live.show(ev.ModelRequested(1, t, {}))
    live.show(ev.ToolStarted("a", t, {"query": t}))
    live.show(ev.ToolStarted("b", t, {"url": t, t: t}))
    live.show(ev.ToolFinished("a", t, t, True))
    live.show(ev.Notice(t))
    live.show(ev.LimitReached("budget", t))
    for piece in (t[i : i + 3] for i in range(0, len(t), 3)):
        live.show(ev.TextDelta(piece))
    live.fail(ValueError(t)) if end == "fail" else live.interrupted()
"""
CELLS = [
    SETUP,
    "for t in texts.values(): display(answer_of(t))",
    "for t in texts.values(): show_markdown(answer_of(t))",
    "for t in texts.values(): display(search_of(t), search_of(t).to_frame())",
    "for t in texts.values(): show_markdown(search_of(t))",
    "for t in texts.values(): display(Page(t, t, t, t, 1, 2, now, note=t), *answer_of(t).panels)",
    "for t in texts.values(): show_markdown(Page('https://ok.example', t, t, t, 1, 1)); show_markdown(answer_of(t).panels[0])",
    "for t in texts.values(): stream(t, 'fail')",
    "for t in texts.values(): stream(t, 'interrupt')",
    "display({'text/html': texts['img'].replace('/img', '/control')}, raw=True); open('ran', 'a').write('x');",
]
# Elements of the outputs that are in no table of ours; `a` without a checked address or with an attribute of its own.
FOUND = """() => { const bad = [];
    const tags = 'img script iframe object embed video audio svg form button input meta link base math mjx-container';
    for (const output of document.querySelectorAll('.jp-OutputArea-output')) {
        for (const tag of tags.split(' ')) for (const e of output.querySelectorAll(tag)) bad.push(e.outerHTML.slice(0, 200));
        for (const e of output.querySelectorAll('*')) for (const a of e.attributes)
            if (/^on|commandlinker|^(ping|id|srcdoc|formaction)$/.test(a.name) && a.value) bad.push(e.outerHTML.slice(0, 200));
        for (const e of output.querySelectorAll('[style]'))
            if (/url|position|z-index/.test(e.getAttribute('style'))) bad.push(e.outerHTML.slice(0, 200));
        for (const e of output.querySelectorAll('a:not(.jp-InternalAnchorLink)'))
            if (!/^(https?:\\/\\/|mailto:)/.test(e.getAttribute('href') || 'https://')) bad.push(e.outerHTML.slice(0, 200));
        for (const e of output.querySelectorAll('style'))
            if (/url\\(/.test(e.textContent)) bad.push(e.outerHTML.slice(0, 200));
    }
    return bad; }"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for notebooks, shared by the tests of this file."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def jupyter(folder: Path) -> Iterator[str]:
    """A running JupyterLab."""
    with lab.server(folder) as address:
        yield address


def look(opened: Any) -> tuple[list[str], list[str], int]:
    """Return what ran, which elements should not be there, and how many outputs there are."""
    opened.wait_for_timeout(1000)
    count = opened.evaluate("() => document.querySelectorAll('.jp-OutputArea-output').length")
    return opened.evaluate("() => window.__ran || []"), opened.evaluate(FOUND), count


def test_hostile_text_in_fresh_outputs_neither_runs_nor_fetches_nor_offers_a_command(jupyter: str, folder: Path) -> None:
    """Answers, running answers, tables, pages and panels made of payloads are text, in HTML and in Markdown outputs."""
    with lab.Listener() as listener, lab.page() as opened:
        texts = payloads(listener.address)
        (folder / "payloads.json").write_text(json.dumps(texts))
        lab.write_notebook(folder / "fresh.ipynb", CELLS)
        lab.open_notebook(opened, jupyter, "fresh.ipynb", run=True)
        ran, found, count = look(opened)
        assert count > 8 * len(texts)
        control = [element for element in found if "/control" in element]
        assert len(control) == 1 and "/control" in listener.hits, "the raw output that must be seen was not seen"
        assert (ran, [e for e in found if e not in control], set(listener.hits)) == ([], [], {"/control"})
        opened.evaluate("() => document.querySelectorAll('.jp-OutputArea-output details').forEach(e => e.open = true)")
        opened.evaluate(
            "() => document.querySelectorAll('.jp-OutputArea-output *').forEach(e => e.tagName != 'A' && e.click())"
        )
        assert look(opened)[0] == []
        assert set(listener.hits) == {"/control"}
        assert (folder / "ran").read_text() == "x", "a click ran the notebook again"


def test_dollar_amounts_stay_amounts_in_html_and_in_markdown(jupyter: str, folder: Path) -> None:
    """Two amounts in one paragraph are not typeset as mathematics."""
    amounts = "It costs $0.012 and then $1.340 in all, \\\\(x\\\\) and $$y$$."
    cells = [
        SETUP.replace('json.load(open("payloads.json"))', "{}"),
        f"a = answer_of('{amounts}'); display(a); show_markdown(a)",
    ]
    lab.write_notebook(folder / "dollars.ipynb", cells)
    with lab.page() as opened:
        lab.open_notebook(opened, jupyter, "dollars.ipynb", run=True)
        assert look(opened)[1] == []
        seen = opened.evaluate("() => [...document.querySelectorAll('.jp-OutputArea-output')].map(e => e.innerText)")
    assert len(seen) == 2
    assert all("$0.012 and then $1.340" in text for text in seen)
