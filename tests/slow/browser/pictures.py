"""Pictures of every state of every output, in a real JupyterLab: `python -m tests.slow.browser.pictures FOLDER [STATE …]`.

`fresh` outputs come from cells that just ran, `untrusted` ones from the same notebook as somebody sent it (JupyterLab
sanitises them), `dark`, `narrow` (600 px) and `unfolded` are the untrusted ones again. `plain` has neither styles nor scripts,
as on GitHub. export.png is an HTML file, printed.png that file on paper. answer.png, enriched.png and cost.png are
the README's.
"""

import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from ipy_websearch.display.export import export
from tests.fakes.shown import ANSWER, LAPTOPS
from tests.slow.browser import lab

SETUP = """
import pandas as pd
from dataclasses import replace
from decimal import Decimal
from IPython.display import display
from ipy_websearch import results as ev
from ipy_websearch.display.formatters import register
from ipy_websearch.display.tables import cost_png
from ipy_websearch.display.answer import live_answer
from ipy_websearch.display.render import render
from ipy_websearch.display.trace import trace_frame
from ipy_websearch.frames import CostFrame, CostSummary, EnrichedFrame
from ipy_websearch.model.offline.passages import LABEL
from ipy_websearch.results import Answer, Citation, Claim, Page, SearchResults
from ipy_websearch.settings import WebSearch, use_settings
from tests.fakes.shown import ANSWER, LAPTOPS, RUN, SEARCH
from tests.slow.browser.payloads import payloads
register(get_ipython())
use_settings(WebSearch(session_budget_usd=0.25))

def running(count):
    live = live_answer(get_ipython(), spent=lambda: Decimal("0.0031"))
    for event in RUN[:count]:
        live.show(event)
    live._send()
    live._over.set()
    return live
"""
ENRICHED = """
capitals = {"Germany": ("Berlin", 84.0, 0.62), "Canada": ("Ottawa", 41.0, 0.62), "Kenya": ("Nairobi", 47.6, 0.38)}
capitals["Atlantis"] = None
out = EnrichedFrame({"country": list(capitals)})
for i, name in enumerate(["capital", "population, million"]):
    found = [found and found[i] for found in capitals.values()]
    out[name] = pd.array(found, dtype="string" if i == 0 else "Float64")
    sources = [f and f"https://en.wikipedia.org/wiki/{c}" for c, f in capitals.items()]
    out[f"{name}_source"] = pd.array(sources, dtype="string")
    out[f"{name}_quote"] = pd.array([f and f"{c}: {f[i]}" for c, f in capitals.items()], dtype="string")
    out[f"{name}_confidence"] = pd.array([f and (f[2] if i else 0.9) for f in capitals.values()], dtype="Float64")
out["enrich_status"] = ["ok", "ok", "ok", "error"]
out["enrich_error"] = pd.array([None, None, None, "brave answered 429: too many requests"], dtype="string")
out["enrich_cost_usd"] = [0.005, 0.005, 0.01, 0.0]
out.attrs["report"] = {"seconds": 2.1}
out
"""
COST = """
names = ["Which laptop under $500 has the best keyboard?", "and which of them has a matte screen?", "capitals"]
bill = CostFrame({"question": names, "calls": [6, 3, 12], "searches": [3, 0, 4], "usd": [0.0385, 0.0102, 0.02]})
bill["cached"] = [0, 1, 0]
facts = dict(unpriced={}, saved_usd=Decimal("0.005"), saved_prompt_usd=Decimal("0.012"))
bill.summary = CostSummary(total_usd=Decimal("0.0687"), scope="this session", rows=3, **facts)
bill
"""
OFFLINE = """
quotes = "> **Mars** has two small **moons**, Phobos and Deimos.[1]\\n\\n> The **moons** were discovered in 1877.[2]"
found = (Citation(1, "Mars", "corpus://planets/mars", "two moons"), Citation(2, "Deimos", "corpus://planets/deimos", "1877"))
facts = dict(offline=True, searches=1, stop_reason="end_turn", seconds=0.1)
offline = Answer("How many?", f"{LABEL}\\n\\n{quotes}", "offline", found, **facts)
live = live_answer(get_ipython())
live.finish(offline)
display(offline)
replace(offline, text=f"The search gave no passage for “best laptop”.\\n\\n{LABEL}", citations=())
"""
CLAIMS = """
claims = (Claim("partly", ("$500",), "The ThinkPad E14 Gen 7 has the best keyboard under $500"),)
claims += (Claim("unsupported", (), "the Acer Swift Go 14 is the better all-rounder"),)
replace(LAPTOPS, checked=claims)
"""
PLOT = """
import pandas as pd
from IPython.display import Image
calls = pd.DataFrame({"time": pd.date_range("2026-11-20 09:00", periods=7, freq="7min", tz="UTC")})
calls["name"] = [f"claude-{'sonnet' if n % 3 else 'haiku'}" for n in range(7)]
calls["kind"] = "model"
calls["usd"] = calls.index / 1000
Image(cost_png(calls, "this session: 0.036 USD", "model"))
"""
STATUS = """
missing = [("BRAVE_API_KEY", "not set", "%websearch key brave"), ("extra dask", "not installed", '%pip install "x[dask]"')]
now = [("answers", "claude-sonnet-5-5, with the tools standard"), ("search", "wikipedia, local (asked in this order)")]
now += [("index", "196 built-in articles: countries, elements, planets, languages, 10 more"), ("data", "/home/me/_x_/data")]
display({"text/html": render("status", "html", {"sections": {"Works now": now, "Missing": missing}})}, raw=True)
Page("https://example.org/a", "https://example.org/a", "A page", "# A page\\n\\nSome **text**.\\n\\n- one\\n- two", 6, 40)
"""
HOSTILE = """
hostile = payloads("http://evil.example")
t = " ".join(hostile[name] for name in ("img", "script", "md_image", "math_dollars", "command_button"))
bad = f"{t} [1] [[2]](https://evil.example) [2]"
found = (Citation(1, t, "https://ok.example/", t), Citation(2, "Real", "https://real.example/", "q"))
Answer(t, bad, "claude-x", found, stop_reason="end_turn")
"""
STATES = {
    "streaming": ["live = running(5)", "live = running(12)"],
    "done": ["LAPTOPS", CLAIMS, "trace_frame(LAPTOPS)"],
    "stopped": [
        "replace(LAPTOPS, limit='max_searches', citations=LAPTOPS.citations[:1])",
        "running(12).finish(None, 'interrupted')",
        "running(12).finish(None, 'failed')",
        "replace(LAPTOPS, stop_reason='max_tokens', citations=())",
    ],
    "offline": [OFFLINE],
    "hostile": [HOSTILE],
    "tables": ["SEARCH.to_frame()", "SearchResults((), 'nothing there', 'brave')", ENRICHED, COST],
    "status": [STATUS, PLOT],
}
# Which outputs of a state are pictures of their own, small enough for the README, and their names.
README = {"done": {0: "answer"}, "tables": {2: "enriched", 3: "cost"}}
LOOKS = {"untrusted": ("Light", 1280), "dark": ("Dark", 1000), "narrow": ("Dark", 600), "unfolded": ("Light", 1000)}
_THEME = "() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab %s'}).then(() => 0)"
_UNFOLD = "() => document.querySelectorAll('.jp-OutputArea-output details').forEach(e => e.open = true)"


def shoot(opened: lab.Opened, path: Path) -> None:
    """Make a picture of the whole notebook."""
    opened.page.mouse.move(1, 1)
    opened.scroll()
    opened.page.evaluate("() => document.querySelector('.jp-Notebook .jp-WindowedPanel-outer, .jp-Notebook').scrollTo(0, 0)")
    opened.page.wait_for_timeout(300)
    opened.page.screenshot(path=str(path))


def pictures(folder: Path, states: list[str]) -> None:
    """Make the pictures of each state."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, lab.lab(Path(place)) as shared:
        for state in states:
            with shared.open([SETUP, *STATES[state]], height=1500) as opened:
                opened.page.evaluate(_THEME % "Light")
                opened.run()
                shoot(opened, folder / f"{state}_fresh.png")
                saved: Any = opened.save()
            outputs = [output for cell in saved["cells"][1:] for output in cell["outputs"] if "data" in output]
            bundles: list[Any] = [{kind: "".join(text) for kind, text in output["data"].items()} for output in outputs]
            shown = [{k: b[k] for k in ("text/html", "image/png") if k in b} for b in bundles]
            with shared.open(["1"], outputs=list(filter(None, shown)), height=1500) as opened:
                for look, (theme, width) in LOOKS.items():
                    opened.page.set_viewport_size({"width": width, "height": 1500})
                    opened.page.evaluate(_THEME % theme)
                    opened.page.evaluate(_UNFOLD if look == "unfolded" else "() => 0")
                    shoot(opened, folder / f"{state}_{look}.png")
            html = "<hr>".join(bundle.get("text/html", "") for bundle in bundles)
            _shoot_plain(shared, re.sub(r' (?:style|class)="[^"]*"', "", html), folder / f"{state}_plain.png")
            for number, name in README.get(state, {}).items():
                with shared.open(["1"], outputs=[shown[number]], width=940) as opened:
                    opened.page.evaluate(_THEME % "Light")
                    opened.page.wait_for_timeout(300)
                    opened.page.locator(".jp-OutputArea-output").first.screenshot(path=str(folder / f"{name}.png"))
        export([LAPTOPS, replace(ANSWER, offline=True)], Path(place, "answers.html"))
        for media, name in (("screen", "export"), ("print", "printed")):
            _shoot_plain(shared, Path(place, "answers.html").read_text(), folder / f"{name}.png", media)


def _shoot_plain(shared: lab.Lab, html: str, path: Path, media: str = "screen") -> None:
    """Make a picture of a page on its own, on the screen or on paper."""
    page = shared.page.context.browser.new_page(viewport={"width": 1000, "height": 1500})
    page.emulate_media(media=media)
    page.set_content(html)
    page.screenshot(path=str(path))
    page.close()


if __name__ == "__main__":
    pictures(Path(sys.argv[1]), sys.argv[2:] or list(STATES))
