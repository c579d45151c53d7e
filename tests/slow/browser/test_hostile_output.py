"""Hostile text in every place of every output, in a real JupyterLab: nothing runs, nothing is fetched, no command is offered.

A magic's output counts as trusted there: no sanitiser stands between it and the user's notebook, kernels and terminals.
"""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.hostile import outputs
from tests.slow.browser import lab
from tests.slow.browser.payloads import payloads

SETUP = """
import json
from datetime import UTC, datetime
from ipy_websearch import events as ev
from ipy_websearch.display.formatters import register
from ipy_websearch.display.live import LiveAnswer
from ipy_websearch.results import Answer, Attempt, Citation, Page, Panel, SearchResult, SearchResults, Step
register(get_ipython())
texts = json.load(open(PAYLOADS))
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

def show_all(t):
    "Everything that is made of t, as one output of HTML and one of Markdown: many outputs are slow to lay out."
    page, answer = Page(t, t, t, t, 1, 2, now, note=t), answer_of(t)
    values = (answer, search_of(t), search_of(t).to_frame(), page, Page("https://ok.example", t, t, t, 1, 1), *answer.panels)
    for kind, between in (("text/html", ""), ("text/markdown", "\\n\\n")):
        formatter = get_ipython().display_formatter.formatters[kind]
        display({kind: between.join(filter(None, map(formatter, values)))}, raw=True)

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
    live.stop("failed" if end == "fail" else "interrupted")
"""
CELLS = [
    SETUP,
    "t = texts['img']; display(answer_of(t), search_of(t), search_of(t).to_frame(), *answer_of(t).panels)",
    "for t in texts.values(): show_all(t)",
    "for n, t in enumerate(list(texts.values())[::6]): stream(t, 'fail' if n % 2 else 'interrupt')",
    "display({'text/html': texts['img'].replace('/img', '/control')}, raw=True); open(PAYLOADS + '.ran', 'a').write('x');",
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


def look(opened: lab.Opened) -> tuple[list[str], list[str], int]:
    """Return what ran, which elements should not be there, and how many outputs there are."""
    opened.page.wait_for_timeout(1000)
    count = opened.page.evaluate("() => document.querySelectorAll('.jp-OutputArea-output').length")
    return opened.page.evaluate("() => window.__ran || []"), opened.page.evaluate(FOUND), count


def click_everything(opened: lab.Opened) -> None:
    """Unfold what is folded and click on all that is neither a link nor a plain element of text."""
    opened.page.evaluate("() => document.querySelectorAll('.jp-OutputArea-output details').forEach(e => e.open = true)")
    plain = "a,p,td,th,tr,li,ul,ol,em,strong,code,pre,br,hr,blockquote,small,b,i,s,mark,span,thead,tbody"
    opened.page.evaluate(f"() => document.querySelectorAll('.jp-OutputArea-output *:not({plain})').forEach(e => e.click?.())")


def test_hostile_text_in_fresh_outputs_neither_runs_nor_fetches_nor_offers_a_command(
    open_notebook: Any, shared_lab: lab.Lab
) -> None:
    """Answers, running ones too, tables, pages and panels made of payloads are text; two dollar amounts stay amounts."""
    with lab.Listener() as listener:
        texts = payloads(listener.address)
        path = shared_lab.folder / "payloads.json"
        path.write_text(json.dumps(texts))
        with open_notebook([f"PAYLOADS = {str(path)!r}", *CELLS]) as opened:
            opened.run_all()
            ran, found, count = look(opened)
            assert count > 2 * len(texts)
            control = [element for element in found if "/control" in element]
            assert len(control) == 1 and "/control" in listener.hits, "the raw output that must be seen was not seen"
            assert (ran, [e for e in found if e not in control], set(listener.hits)) == ([], [], {"/control"})
            click_everything(opened)
            assert look(opened)[0] == []
            amounts = texts["math_dollars"]
            shown = opened.page.evaluate(
                "() => [...document.querySelectorAll('.jp-OutputArea-output')].map(e => e.textContent)"
            )
            assert sum(amounts in text for text in shown) >= 2
        assert set(listener.hits) == {"/control"}
        assert (path.parent / "payloads.json.ran").read_text() == "x", "a click ran the notebook again"


def test_hostile_text_in_a_file_that_somebody_sent_is_as_harmless(open_notebook: Any) -> None:
    """Our outputs stored in an unsigned notebook: Lab's sanitiser finds nothing that would fetch, and breaks nothing."""
    with lab.Listener() as listener:
        bundles = [bundle for text in payloads(listener.address).values() for bundle in stored(text)]
        control = {"text/html": f'<img src="{listener.address}/control">'}
        with open_notebook(["1"], outputs=[*bundles, control], env=None) as opened:
            opened.scroll()
            ran, found, count = look(opened)
            assert count == len(bundles) + 1
            click_everything(opened)
            assert (ran, [e for e in found if "/control" not in e]) == ([], [])
            assert look(opened)[0] == []
        assert set(listener.hits) == {"/control"}


def stored(text: str) -> list[dict[str, str]]:
    """Return what is stored of an answer, a table and a search that are made of a text: HTML alone and Markdown alone."""
    made = list(outputs(text))[:3]
    return [
        {"text/html": "".join(html for html, _, _ in made)},
        {"text/markdown": "\n\n".join(markdown for _, markdown, _ in made)},
    ]
