"""Contract: the other doors: public names, executables, settings, recordings, fakes, the light import."""

import json
from pathlib import Path
from typing import Any

import pytest

import ipy_websearch as web
from ipy_websearch import api
from tests.contract.helpers import run, search
from tests.fakes.engines import hit
from tests.fakes.replies import text

NAMES = (
    "search fetch ask enrich intercept cost Session Answer SearchResults SearchResult Page Citation Usage Limits "
    "WebSearchError load_ipython_extension unload_ipython_extension __version__"
)


def test_the_public_names_are_these() -> None:
    assert sorted(web.__all__) == sorted(NAMES.split()) and all(hasattr(web, name) for name in web.__all__)
    code = "from ipy_websearch import errors, sql, testing; from ipy_websearch.providers import base; print(errors.__name__)"
    done = run(code, warm=False)
    assert done.returncode == 0, done.stderr


def test_errors_form_one_tree() -> None:
    from ipy_websearch import errors

    tree = {
        errors.WebSearchError: "ConfigError ProviderError FetchError ModelError BudgetExceededError EnrichmentError",
        errors.ConfigError: "MissingKeyError",
        errors.ProviderError: "RateLimitedError",
        errors.FetchError: "BlockedAddressError",
    }
    for base, names in tree.items():
        assert all(issubclass(getattr(errors, name), base) for name in names.split())


def test_importing_and_loading_is_silent_and_light() -> None:
    code = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = set(sys.modules)
shell.run_line_magic("load_ext", "ipy_websearch")
print({"pandas", "numpy", "anthropic", "httpx", "aiohttp", "lxml", "pydantic", "sqlite3"} & (set(sys.modules) - before))
"""
    done = run(code, warm=False)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")


def call(function: str, given: Any = None, *arguments: str, **env: str) -> tuple[int, Any]:
    """Run an executable with JSON on its standard input; return its status and the JSON that it wrote."""
    sent = "" if given is None else json.dumps(given)
    done = run(f"from ipy_websearch.cli import {function}; {function}()", *arguments, given=sent, **env)
    return done.returncode, json.loads(done.stdout)


def test_the_schemas_of_the_executables_are_those_of_seed_002() -> None:
    (_, brave), (_, google), (_, fetch) = (
        call(f"web_{name}", None, "--schema") for name in ("search_brave", "search_google", "fetch")
    )
    assert list(brave) == ["name", "description", "parameters"] and brave["parameters"]["required"] == ["query"]
    assert brave["parameters"]["properties"]["query"] == {
        "type": "string",
        "description": "The search query to use",
        "minLength": 2,
    }
    assert list(brave["parameters"]["properties"]) == ["query", "allowed_domains", "blocked_domains"]
    swapped = json.dumps(brave).replace("web_search_brave", "web_search_google").replace("Brave Search", "Google Custom Search")
    assert json.dumps(google) == swapped
    assert fetch["name"] == "web_fetch" and list(fetch["parameters"]["properties"]) == ["url", "offset", "limit"]
    assert (
        '    "required": ["query"]\n'
        in run("from ipy_websearch.cli import web_search_brave; web_search_brave()", "--schema").stdout
    )


def test_a_recorded_lesson_replays_the_same_answer_at_no_cost(
    messages_api: Any, brave_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    brave_api.reply([hit("https://ruby.example/", "Ruby", "Matz wrote Ruby in Japan.")])
    messages_api.reply(search("ruby author"))
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))
    cells = ["a = %ask --provider brave who wrote Ruby?", "df = %search --provider brave ruby author"]
    for cell in ["%websearch record lesson.cassette", *cells, "%websearch stop"]:
        assert shell.run(cell).ok
    first, frame = shell.ns["a"], shell.ns["df"]
    asked = len(messages_api.requests), len(brave_api.requests)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "BRAVE_API_KEY", "BRAVE_BASE_URL"):
        monkeypatch.delenv(name)
    for cell in ["%websearch replay lesson.cassette --instant", *cells]:
        ran = shell.run(cell)
        assert ran.ok, ran.error
    again = shell.ns["a"]
    assert again.text == first.text and list(again.sources.url) == list(first.sources.url)
    assert list(shell.ns["df"].url) == list(frame.url) and (len(messages_api.requests), len(brave_api.requests)) == asked
    other = shell.run("%ask --provider brave who wrote Perl?")
    assert isinstance(other.error, web.WebSearchError) and "\n" not in str(other.error)


def test_a_broken_file_is_set_aside_and_the_work_goes_on(wikipedia_api: Any, shell: Any, tmp_path: Path) -> None:
    """It is said at once, where the file is met first: at a search or at the bill."""
    home = tmp_path / "websearch"
    home.mkdir(exist_ok=True)
    for cell in ("%search --provider wikipedia moons of Mars", "%cost"):
        for name in ("ledger.sqlite", "cache.sqlite"):
            (home / name).write_bytes(b"this is no database " * 100)
        api.end_session()
        ran = shell.run(cell)
        assert ran.ok and "ledger.sqlite is broken" in " ".join((ran.texts() + ran.stdout).split())
    assert len(list(home.glob("*.broken-*"))) == 3
