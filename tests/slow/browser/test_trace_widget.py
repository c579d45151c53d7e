"""The trace widget in a real JupyterLab: buttons and arrow keys step through an answer, hostile text in it does nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.slow.browser import lab
from tests.slow.browser.payloads import payloads

SETUP = """
import json
from ipy_websearch.display.trace import trace_widget
from ipy_websearch.results import Answer, Step
texts = list(json.load(open(PAYLOADS)).values())
body = {"model": "m", "system": texts[0], "messages": [{"role": t, "content": t} for t in texts]}
got = [{"type": "text", "text": t} for t in texts]
trace = tuple(Step(n, "model", t, t, 100.0 * n, request=body, response=got) for n, t in enumerate(texts[:4], 1))
widget = trace_widget(Answer(texts[0], "t", "m", trace=trace))
"""
BAD = """() => [...document.querySelectorAll('.ipyws-t *')].filter(e =>
    /^(IMG|SCRIPT|IFRAME|A|VIDEO|AUDIO|STYLE|LINK|FORM|SVG|OBJECT|EMBED)$/i.test(e.tagName) ||
    [...e.attributes].some(a => /^on/.test(a.name))).map(e => e.outerHTML.slice(0, 200))"""


def test_arrow_keys_and_buttons_step_through_an_answer_and_hostile_text_in_it_is_harmless(
    open_notebook: Any, shared_lab: lab.Lab
) -> None:
    """The step moves on the page and in Python; every text is shown as it is, nothing of it runs or is fetched."""
    pytest.importorskip("anywidget")
    with lab.Listener() as listener:
        texts = payloads(listener.url)
        path = shared_lab.folder / "trace-payloads.json"
        path.write_text(json.dumps(texts))
        with open_notebook([f"PAYLOADS = {str(path)!r}\n{SETUP}", "widget", "print('at', widget.step)"]) as opened:
            opened.run(0)
            opened.run(1)
            page = opened.page
            page.wait_for_selector(".ipyws-t")
            page.wait_for_function(
                "() => [...document.querySelectorAll('div.mathjax_ignore:not(.ipyws-t)')].every(e => !e.checkVisibility())"
            )
            place = page.locator(".ipyws-t-place")
            assert place.text_content().startswith("step 1 of 4")
            page.locator(".ipyws-t").focus()
            for key, number in (
                ("ArrowRight", 2),
                ("ArrowRight", 3),
                ("ArrowLeft", 2),
                ("End", 4),
                ("ArrowRight", 4),
                ("Home", 1),
            ):
                page.keyboard.press(key)
                page.wait_for_function(
                    "(n) => document.querySelector('.ipyws-t-place').textContent.startsWith(`step ${n} `)", arg=number
                )
            page.get_by_role("button", name="One step forward").click()
            page.locator(".ipyws-t-row").nth(2).click()
            page.wait_for_function("() => document.querySelectorAll('.ipyws-t-later').length === 1")
            assert page.locator("[aria-current=step] .ipyws-t-n").text_content() == "3"
            assert page.get_by_role("button", name="One step back").is_enabled()
            page.evaluate("() => document.querySelectorAll('.ipyws-t details').forEach(e => e.open = true)")
            page.evaluate("() => document.querySelectorAll('.ipyws-t-pane *, .ipyws-t-title').forEach(e => e.click())")
            page.wait_for_timeout(300)
            shown = page.locator(".ipyws-t").text_content()
            assert texts["script"] in shown and texts["img"] in shown
            assert (page.evaluate("() => window.__ran || []"), page.evaluate(BAD), listener.hits) == ([], [], [])
            opened.run(2)
            opened.wait_for(2, "at 3")
