"""Examples that people copy are run: those of docstrings, of the README's session and of the magics' help."""

from __future__ import annotations

import builtins
import doctest
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch import search
from ipy_websearch.providers.router import PROVIDERS
from tests.fakes.replies import text, tool_use
from tests.fakes.scripted import Scripted

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ipy_websearch"
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if re.search(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_docstrings_give_what_they_say(name: str) -> None:
    """Each example of a module runs, without keys and without the network, and prints what stands under it."""
    done = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    vars(builtins).pop("_", None)  # where doctest keeps the last value; IPython would take it for gettext's
    assert done.attempted > 0 and done.failed == 0


def cells_of(block: str) -> list[str]:
    """Return the cells of a session: a %% cell ends at an empty line, of all else each line is one."""
    paragraphs = block.strip().split("\n\n")
    return [cell for text in paragraphs for cell in ([text] if text.startswith("%%") else text.splitlines())]


def test_the_session_of_the_readme_runs_as_it_stands(
    messages_api: Any, offline: Any, bare_shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line byte for byte, with its comment: without a key up to the one that asks for it, then with Claude."""
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setattr("getpass.getpass", lambda prompt: messages_api.key)
    messages_api.behave(answer_of)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    cells = cells_of(blocks[0])
    assert sum(cell.startswith(("%", "df")) for cell in cells) >= 8
    for n, cell in enumerate(cells):
        if cell.startswith("%%ask"):
            bare_shell.run("import pandas as pd; shortlist = 'A or B'; df = pd.DataFrame({'company': ['Acme']})")
        ran = bare_shell.run(cell)
        assert ran.ok, (cell, ran.error)
        if not cell.startswith("#") and n + 1 < len(cells) and cells[n + 1].startswith("# ["):
            assert repr(ran.value) == cells[n + 1][2:]
        if cell.startswith("df = %search"):
            assert bare_shell.ns["df"].search.query == "moons of Mars"
    assert len(messages_api.bodies) == 3


def test_the_engine_of_the_contributing_guide_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of one's own; that entry points are found is tested with the engines."""
    guide = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    (tmp_path / "hn_engine.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert 'entry-points."ipy_websearch.providers"]\nhn = "hn_engine:INFO"' in guide
    monkeypatch.setitem(PROVIDERS, "hn", importlib.import_module("hn_engine").INFO)
    with Scripted() as server:
        server.answer({"hits": [{"title": "T", "url": "https://a.example/", "story_text": "About it"}]}, path="/api/v1/search")
        monkeypatch.setenv("HN_BASE_URL", server.url)
        (found,) = search("duckdb", provider="hn", count=3)
        assert (found.title, found.description) == ("T", "About it")
        assert server.requests[0].params == {"query": "duckdb", "hitsPerPage": "3"}


def answer_of(body: Any) -> Any:
    """Return what the model says in the README's session."""
    fills = any(tool["name"] == "record" for tool in body["tools"])
    return tool_use("record", {"ceo": None, "founded": None}) if fills else text("A has.")
