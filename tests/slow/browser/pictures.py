"""Pictures of every state of every output, in a real JupyterLab: `python -m tests.slow.browser.pictures FOLDER [STATE …]`.

`fresh` outputs come from cells that just ran, `untrusted` ones from the same notebook as somebody sent it (JupyterLab
sanitises them), `dark` and `narrow` (600 px) are the untrusted ones again. answer.png, enriched.png and cost.png
are the README's.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.slow.browser import lab

SETUP = """
import pandas as pd
from dataclasses import replace
from decimal import Decimal
from IPython.display import display
from ipy_websearch import events as ev
from ipy_websearch.display.formatters import register
from ipy_websearch.display.live import LiveAnswer
from ipy_websearch.display.trace import trace_frame
from ipy_websearch.frames import CostFrame, CostSummary, EnrichedFrame
from ipy_websearch.model.offline.passages import LABEL
from ipy_websearch.results import Answer, Citation, SearchResults
from ipy_websearch.settings import WebSearch, use_settings
from tests.fakes.shown import ANSWER, LAPTOPS, RUN, SEARCH
from tests.slow.browser.payloads import payloads
register(get_ipython())
use_settings(WebSearch(session_budget_usd=0.25))

def running(count):
    live = LiveAnswer(get_ipython(), "Which laptop?", spent=lambda: Decimal("0.0031"))
    for event in RUN[:count]:
        live.show(event)
    live._screen._send()
    live._screen._stop_timer()
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
facts = dict(unpriced={}, saved_calls_usd=Decimal("0.005"), saved_prompt_usd=Decimal("0.012"))
bill.summary = CostSummary(total_usd=Decimal("0.0687"), scope="this session", rows=3, **facts)
bill
"""
OFFLINE = """
quotes = "> **Mars** has two small **moons**, Phobos and Deimos.[1]\\n\\n> The **moons** were discovered in 1877.[2]"
found = (Citation(1, "Mars", "corpus://planets/mars", "two moons"), Citation(2, "Deimos", "corpus://planets/deimos", "1877"))
facts = dict(offline=True, searches=1, stop_reason="end_turn", seconds=0.1)
offline = Answer("How many?", f"{LABEL}\\n\\n{quotes}", "offline", found, **facts)
display(offline)
replace(offline, text=f"The search gave no passage for “best laptop”.\\n\\n{LABEL}", citations=())
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
    "done": ["LAPTOPS", "trace_frame(LAPTOPS)"],
    "stopped": [
        "replace(LAPTOPS, limit='max_searches', citations=LAPTOPS.citations[:1])",
        "running(12).stop('interrupted')",
        "running(12).stop('failed')",
        "replace(LAPTOPS, stop_reason='max_tokens', citations=())",
    ],
    "offline": [OFFLINE],
    "hostile": [HOSTILE],
    "tables": ["SEARCH.to_frame()", "SearchResults((), 'nothing there', 'brave')", ENRICHED, COST],
}
README = {"done": {0: "answer"}, "tables": {2: "enriched", 3: "cost"}}
"""Which outputs of a state are pictures of their own, small enough for the README, and their names."""
_THEME = """() => { const app = window.jupyterapp; app.commands.execute('application:toggle-left-area');
    return app.commands.execute('apputils:change-theme', {theme: 'JupyterLab %s'}); }"""
_UNFOLD = "() => document.querySelectorAll('.jp-OutputArea-output details').forEach(e => e.open = true)"


def shoot(opened: lab.Opened, path: Path) -> None:
    """Make a picture of the whole notebook."""
    opened.page.mouse.move(1, 1)
    opened.scroll()
    opened.page.evaluate("() => document.querySelector('.jp-Notebook .jp-WindowedPanel-outer, .jp-Notebook').scrollTo(0, 0)")
    opened.page.wait_for_timeout(400)
    opened.page.screenshot(path=str(path))


def pictures(folder: Path, states: list[str]) -> None:
    """Make the pictures of each state: fresh, untrusted, dark, narrow, and unfolded."""
    folder.mkdir(parents=True, exist_ok=True)
    root = Path(__file__).parents[3]
    with (
        tempfile.TemporaryDirectory() as place,
        lab.server(Path(place), {"PYTHONPATH": str(root)}) as address,
        lab.browser() as chromium,
    ):
        shared = lab.Lab(address, Path(place), chromium)
        for state in states:
            with shared.open([SETUP, *STATES[state]], env={}, height=1500) as opened:
                opened.page.evaluate(_THEME % "Light")
                opened.run_all()
                shoot(opened, folder / f"{state}_fresh.png")
                saved: Any = opened.save()
            outputs = [output for cell in saved["cells"][1:] for output in cell["outputs"] if "data" in output]
            bundles: list[Any] = [{kind: "".join(text) for kind, text in output["data"].items()} for output in outputs]
            bundles = [{"text/html": bundle["text/html"]} for bundle in bundles if "text/html" in bundle]
            looks: dict[str, dict[str, Any]] = {"untrusted": {}, "dark": {"width": 1000}, "narrow": {"width": 600}}
            for look, options in looks.items():
                with shared.open(["1"], outputs=bundles, env=None, height=1500, **options) as opened:
                    opened.page.evaluate(_THEME % ("Dark" if options else "Light"))
                    shoot(opened, folder / f"{state}_{look}.png")
                    if look == "dark":
                        opened.page.evaluate(_UNFOLD)
                        shoot(opened, folder / f"{state}_unfolded.png")
            for number, name in README.get(state, {}).items():
                with shared.open(["1"], outputs=[bundles[number]], env=None, width=940) as opened:
                    opened.page.evaluate(_THEME % "Light")
                    opened.page.wait_for_timeout(400)
                    opened.page.locator(".jp-OutputArea-output").first.screenshot(path=str(folder / f"{name}.png"))


if __name__ == "__main__":
    pictures(Path(sys.argv[1]), sys.argv[2:] or list(STATES))
