"""The public fakes, used as a user's own tests would use them: through `%ask`, `search`, `fetch`, `enrich` and SQL."""

import builtins
import doctest
import importlib
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import ipy_websearch
from ipy_websearch import api, search
from ipy_websearch.errors import ConfigError, FetchError, MissingKeyError, ModelError, ProviderError
from ipy_websearch.providers.router import PROVIDERS
from ipy_websearch.results import SearchResult
from ipy_websearch.testing import FakeWeb
from tests.fakes.replies import text, tool_use
from tests.fakes.server import Scripted

ACME = ("https://acme.example/", "Acme Corp", "The CEO of Acme is Jo Doe since 2019.")


def test_search_and_fetch_give_what_was_given() -> None:
    """Results in their order, up to the count; pages as Markdown; without a reply the offline model quotes the results."""
    dated = SearchResult("B", "https://b.example/", published_date=datetime(2026, 1, 2, tzinfo=UTC))
    with FakeWeb() as web:
        web.add_results("two words", ACME, dated)
        web.fail_search("broken", "no answer today")
        web.add_page(ACME[0], "<html><body><article><h1>Acme</h1><p>It makes anvils.</p></article></body></html>")
        found = ipy_websearch.search("Some TWO  Words", provider="brave")
        assert found[0].url == ACME[0] and found[1] is dated and found.provider == "fake"
        assert len(ipy_websearch.search("two words again", count=1)) == 1 and not len(ipy_websearch.search("others"))
        with pytest.raises(ProviderError, match="no answer today"):
            ipy_websearch.search("a broken one")
        with pytest.raises(ConfigError, match="did you mean 'brave'"):
            ipy_websearch.search("two words", provider="brav")
        assert "It makes anvils." in ipy_websearch.fetch("https://acme.example/").content
        with pytest.raises(FetchError, match="no such page"):
            ipy_websearch.fetch("https://other.example/")
        answer = ipy_websearch.ask("Who is the CEO of two words?", read_pages=0)
        assert "Jo Doe" in answer.text and ACME[0] in list(answer.sources.url)
        assert "published_date: '2026-01-02T00:00:00+00:00'" in answer.panels[0].content


def test_sentences_cite_what_was_found_and_searches_cost_what_was_said() -> None:
    """`cited` points to a result by its address; without one, and with a reply too many, the test fails. `start` and `stop` do
    without a block."""
    web = FakeWeb(search_usd="0.005").start()
    web.add_results("acme", ACME)
    web.reply(web.call("web_search", query="acme"))
    web.reply(web.cited("The CEO of Acme is Jo Doe since 2011.", ACME[0]))
    answer = ipy_websearch.ask("Who?", model="claude-haiku-5-5")
    web.stop()
    assert answer.citations[0].cited_text == ACME[2] and list(answer.claims.verdict) == ["unsupported"]
    assert answer.cost_usd is not None and answer.cost_usd > Decimal("0.005")
    with FakeWeb() as web:
        web.reply(web.cited("It never was.", "https://never.example/"))
        with pytest.raises(ModelError, match="never.example/ was not given to the model"):
            ipy_websearch.ask("Who?")
    with pytest.raises(AssertionError, match="1 of the model's replies were never asked for"), FakeWeb() as web:
        web.reply("too much")


def test_the_session_of_before_comes_back(brave_api: Any) -> None:
    """Its costs are as they were, and the machine's keys and engines are not used inside."""
    mine = api.session()
    with FakeWeb() as web:
        web.add_results("", ACME)
        assert ipy_websearch.search("anything").provider == "fake" and web.session.keys.get("brave") is None
        with pytest.raises(MissingKeyError):
            ipy_websearch.ask("x?", tools="brave_search")
    assert api.session() is mine and not len(ipy_websearch.cost()) and not brave_api.requests


# --- Examples that people copy are run: those of docstrings, of the README's session and of the magics' help ---------

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
