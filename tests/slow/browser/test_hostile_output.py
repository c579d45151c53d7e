"""Hostile text in every place of every output, in a real JupyterLab: nothing runs, nothing is fetched, no command is offered.

A magic's output counts as trusted there: no sanitiser stands between it and the user's notebook, kernels and terminals. The
trace widget, which is a page of its own there, steps through such texts.
"""

import json
import os
from collections.abc import Iterator, Mapping

import pytest

from tests.conftest import SECRET
from tests.fakes.shown import outputs
from tests.slow.browser import lab
from tests.slow.browser.payloads import payloads

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())]

SETUP = """
import json
from datetime import UTC, datetime
from ipy_websearch import results as ev
from ipy_websearch.display.formatters import register
from ipy_websearch.display.answer import live_answer
from ipy_websearch.results import Answer, Attempt, Citation, Page, Panel, SearchResult, SearchResults, Step
register(get_ipython())
texts = json.load(open(PAYLOADS))
now = datetime.now(UTC)

def citations(t):
    return (Citation(1, t, t, t, now), Citation(2, t, "https://ok.example/?" + t, t))

def answer_of(t):
    panels = (Panel("P1", t, t, t),)
    text = f"{t}\\n\\n{t} [1] **{t}** [2]\\n\\n- {t}\\n\\n> {t}\\n\\n| a |\\n|---|\\n| {t} |\\n\\n# {t}\\n"
    return Answer(t, text, t, citations(t), panels, stop_reason=t, notices=(t,), trace=(Step(1, "tool", t, t),))

def search_of(t):
    hits = (SearchResult(t, t, t, now), SearchResult(t, "https://ok.example/" + t, t))
    return SearchResults(hits, t, t, attempts=(Attempt(t, t),), notices=(t,))

def forms_of(t, n):
    "An answer made of t, and by turns a search, a page or a panel, as HTML and as Markdown."
    answer = answer_of(t)
    others = (search_of(t).to_frame, lambda: Page("https://ok.example", t, t, t, 1, 2, now, note=t), lambda: answer.panels[0])
    shown = [get_ipython().display_formatter.format(value)[0] for value in (answer, others[n % 3]())]
    return ["".join(forms.get(kind, "") for forms in shown) for kind in ("text/html", "text/markdown")]

def show_all(names):
    "The same of many texts in two outputs, since many outputs are slow to lay out; their names must be seen between them."
    htmls, markdowns = zip(*(forms_of(texts[name], n) for n, name in enumerate(names)))
    display({"text/html": "".join(f"{html}<p>seen {name}.</p>" for name, html in zip(names, htmls))}, raw=True)
    display({"text/markdown": "\\n\\n".join(f"{m}\\n\\nseen {name}." for name, m in zip(names, markdowns))}, raw=True)

def stream(t, end):
    live = live_answer(get_ipython())
    live.show(ev.ModelRequested(1, t, {}))
    live.show(ev.ToolStarted("a", t, {"query": t}))
    live.show(ev.ToolStarted("b", t, {"url": t, t: t}))
    live.show(ev.ToolFinished("a", t, t, True))
    live.show(ev.Notice(t))
    live.show(ev.LimitReached("budget", t))
    for piece in (t[i : i + 3] for i in range(0, len(t), 3)):
        live.show(ev.TextDelta(piece))
    live.finish(None, "failed" if end == "fail" else "interrupted")
"""
CELLS = [
    "1",
    "PAYLOADS = 'payloads.json'",
    SETUP,
    "t = texts['img']; display(answer_of(t), search_of(t), search_of(t).to_frame(), *answer_of(t).panels)",
    "for n in range(0, len(texts), 12): show_all(list(texts)[n : n + 12])",
    "for n, t in enumerate(list(texts.values())[::6]): stream(t, 'fail' if n % 2 else 'interrupt')",
    "display({'text/html': texts['img'].replace('/img', '/control')}, raw=True); open(PAYLOADS + '.ran', 'a').write('x');",
]
WIDGET = """
import json
from ipy_websearch.display.trace import trace_widget
from ipy_websearch.results import Answer, Step
texts = list(json.load(open('payloads.json')).values())
body = {"model": "m", "system": texts[0], "messages": [{"role": t, "content": t} for t in texts]}
got = [{"type": "text", "text": t} for t in texts]
trace = tuple(Step(n, "model", t, t, 100.0 * n, request=body, response=got) for n, t in enumerate(texts[:4], 1))
widget = trace_widget(Answer(texts[0], "t", "m", trace=trace))
"""
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

# The same of the widget, whose buttons are its own.
IN_WIDGET = """() => [...document.querySelectorAll('.ipyws-t *')].filter(e =>
    /^(IMG|SCRIPT|IFRAME|A|VIDEO|AUDIO|STYLE|LINK|FORM|SVG|OBJECT|EMBED)$/i.test(e.tagName) ||
    [...e.attributes].some(a => /^on/.test(a.name))).map(e => e.outerHTML.slice(0, 200))"""


def look(opened: lab.Opened) -> tuple[list[str], list[str]]:
    """Return what ran, and which elements should not be there."""
    opened.page.wait_for_timeout(500)  # a fetch or a handler that was set off needs a moment
    return opened.page.evaluate("() => window.__ran || []"), opened.page.evaluate(FOUND)


def click_everything(opened: lab.Opened) -> None:
    """Unfold what is folded and click on all that is neither a link nor a plain element of text."""
    opened.page.evaluate("() => document.querySelectorAll('.jp-OutputArea-output details').forEach(e => e.open = true)")
    plain = "a,p,td,th,tr,li,ul,ol,em,strong,code,pre,br,hr,blockquote,small,b,i,s,mark,span,thead,tbody"
    opened.page.evaluate(f"() => document.querySelectorAll('.jp-OutputArea-output *:not({plain})').forEach(e => e.click?.())")


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Lab]:
    """A JupyterLab without the user's environment. It ends with this module: Playwright keeps an event loop running, under
    which tests of our own loop could not run."""
    with pytest.MonkeyPatch.context() as clean:
        for name in filter(SECRET.search, list(os.environ)):
            clean.delenv(name)
        with lab.lab(tmp_path_factory.mktemp("lab")) as running:
            yield running


@pytest.fixture
def listener() -> Iterator[lab.Listener]:
    """The server that payloads fetch from when they get through."""
    with lab.Listener() as made:
        yield made


@pytest.fixture
def texts(listener: lab.Listener, shared_lab: lab.Lab) -> Mapping[str, str]:
    """The payloads by name, which are in the file payloads.json beside the notebooks, too."""
    made = payloads(listener.url)
    (shared_lab.folder / "payloads.json").write_text(json.dumps(made))
    return made


def test_hostile_text_in_outputs_neither_runs_nor_fetches_nor_offers_a_command(
    texts: Mapping[str, str], listener: lab.Listener, shared_lab: lab.Lab
) -> None:
    """Answers, running ones too, tables, pages and panels made of payloads are text, and two dollar amounts stay amounts: in
    cells that just ran, and stored in a notebook that somebody sent (Lab's sanitiser finds nothing that would fetch)."""
    control = {"text/html": f'<img src="{listener.url}/sent-control">'}
    some = [*list(texts)[::5], "math_dollars"]  # what is stored is the same, and goes through Lab's sanitiser on top
    sent = stored({name: texts[name] for name in some})
    with shared_lab.open(CELLS, outputs=[*sent, control]) as opened:
        for number in range(1, len(CELLS)):
            opened.run(number)
        ran, found = look(opened)
        controls = [element for element in found if "control" in element]
        assert len(controls) == 2, "the raw outputs that must be seen were not seen"
        assert (ran, [e for e in found if e not in controls]) == ([], [])
        click_everything(opened)
        assert look(opened)[0] == []
        shown = opened.page.evaluate(
            "() => [...document.querySelectorAll('.jp-OutputArea-output')].map(e => e.textContent).join(' ')"
        )
        seen = {name: shown.count(f"seen {name}.") for name in texts}
        assert seen == {name: 4 if name in some else 2 for name in texts}, "a payload swallowed what follows it"
        assert shown.count(texts["math_dollars"]) >= 4
    assert set(listener.hits) == {"/control", "/sent-control"}
    assert (shared_lab.folder / "payloads.json.ran").read_text() == "x", "a click ran the notebook again"


def test_keys_and_buttons_step_through_the_trace_widget_and_hostile_text_in_it_is_harmless(
    texts: Mapping[str, str], listener: lab.Listener, shared_lab: lab.Lab
) -> None:
    """The step moves on the page and in Python; every text is shown as it is, nothing of it runs or is fetched."""
    pytest.importorskip("anywidget")
    with shared_lab.open([WIDGET, "widget", "print('at', widget.step)"]) as opened:
        opened.run(0)
        opened.run(1)
        page, at = opened.page, "(n) => document.querySelector('.ipyws-t-place')?.textContent.startsWith(`step ${n} of 4`)"
        page.wait_for_function(at, arg=1)
        page.locator(".ipyws-t").focus()
        for key, number in (("ArrowRight", 2), ("ArrowLeft", 1), ("End", 4), ("ArrowRight", 4), ("Home", 1)):
            page.keyboard.press(key)
            page.wait_for_function(at, arg=number)
        page.get_by_role("button", name="One step forward").click()
        page.locator(".ipyws-t-row").nth(2).click()
        page.wait_for_function(at, arg=3)
        page.evaluate("() => document.querySelectorAll('.ipyws-t details').forEach(e => e.open = true)")
        page.evaluate("() => document.querySelectorAll('.ipyws-t-pane *, .ipyws-t-title').forEach(e => e.click())")
        shown = page.locator(".ipyws-t").text_content()
        assert texts["script"] in shown and texts["img"] in shown
        assert (look(opened)[0], page.evaluate(IN_WIDGET), listener.hits) == ([], [], [])
        opened.run(2)
        page.wait_for_function("() => document.body.innerText.includes('at 3')")


def stored(texts: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what is stored of answers, tables and searches that are made of texts: HTML alone and Markdown alone."""
    made = {name: list(outputs(text))[:3] for name, text in texts.items()}
    htmls = [f"{''.join(html for html, _, _ in forms)}<p>seen {name}.</p>" for name, forms in made.items()]
    markdowns = ["\n\n".join([*(markdown for _, markdown, _ in forms), f"seen {name}."]) for name, forms in made.items()]
    return [{"text/html": "".join(htmls)}, {"text/markdown": "\n\n".join(markdowns)}]
