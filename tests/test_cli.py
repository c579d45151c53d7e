"""The three executables as real processes: schemas, JSON in and out, errors, help, and how quickly they start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.engines import hit
from tests.fakes.notebook import subprocess_environment
from tests.fakes.public_web import Page
from tests.test_tools_pair import DESCRIPTION, PARAMETERS

ROOT = Path(__file__).parent.parent
COMMANDS = {
    "web-search-brave-tool": "web_search_brave",
    "web-search-google-tool": "web_search_google",
    "web-fetch-tool": "web_fetch",
}
SOON = "2026-10-02T08:00:00Z"


@dataclass
class Done:
    """What came of one call."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which is one JSON document."""
        return json.loads(self.out)


def call(function: str, given: Any = None, *arguments: str, raw: bytes | None = None, **env: str) -> Done:
    """Run an executable with `given` as JSON on its standard input."""
    code = f"from ipy_websearch.cli import {function}; {function}()"
    sent = raw if raw is not None else b"" if given is None else json.dumps(given).encode()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        input=sent,
        capture_output=True,
        env=subprocess_environment(env),
        timeout=30,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_the_package_installs_the_three_executables() -> None:
    """Each command leads to its function."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    wanted = {command: f"ipy_websearch.cli:{function}" for command, function in COMMANDS.items()}
    assert scripts.items() >= wanted.items()


def test_the_search_schemas_are_the_specified_ones() -> None:
    """`--schema` prints those of seed 002, which differ in name and engine alone."""
    brave, google = call("web_search_brave", None, "--schema"), call("web_search_google", None, "--schema")
    wanted = {"name": "web_search_brave", "description": DESCRIPTION.format("Brave Search API"), "parameters": PARAMETERS}
    assert brave.json == wanted and list(brave.json) == list(wanted)
    assert list(brave.json["parameters"]) == ["type", "properties", "required"]
    assert google.out == brave.out.replace("web_search_brave", "web_search_google").replace(
        "Brave Search", "Google Custom Search"
    )


def test_the_fetch_schema_is_the_specified_one() -> None:
    """Name, description and parameters of seed 002; the tool that the model gets has the same."""
    from ipy_websearch.tools.base import input_schema
    from ipy_websearch.tools.web_fetch import DESCRIPTION as FETCH_DESCRIPTION
    from ipy_websearch.tools.web_fetch import WebFetchInput

    schema = call("web_fetch", None, "--schema").json
    assert schema["name"] == "web_fetch" and schema["description"] == FETCH_DESCRIPTION
    assert schema["description"].startswith("Fetches content from a specified URL and returns it as markdown. Converts HTML")
    assert schema["parameters"] == input_schema(WebFetchInput)


def test_a_search_with_brave_gives_its_results(brave_api: Any) -> None:
    """Title, address, description and, where it is known, the date in UTC; nothing else, in UTF-8."""
    brave_api.reply(
        [hit("https://a.example/", "Übung", "日本", date="2026-10-02T08:00:00"), hit("https://b.example/", "B", "b")]
    )
    given = {"query": "window functions", "blocked_domains": ["spam.example"], "allowed_domains": None}
    done = call("web_search_brave", given, PYTHONIOENCODING="ascii")
    assert (done.status, done.err) == (0, "") and "日本" in done.out
    assert done.json == {
        "results": [
            {"title": "Übung", "url": "https://a.example/", "description": "日本", "published_date": SOON},
            {"title": "B", "url": "https://b.example/", "description": "b"},
        ]
    }
    assert brave_api.queries == ["window functions"] and "$discard,site=spam.example" in brave_api.requests[0].params["goggles"]


def test_a_search_with_google_has_the_same_form(engine: Callable[[str], Any]) -> None:
    """The same input, the same output; both lists of domains hold."""
    google = engine("google")
    google.reply([hit(f"https://{host}/", host, "x", date="2026-10-02") for host in ("a.example", "bad.a.example")])
    given = {"query": "window functions", "allowed_domains": ["a.example"], "blocked_domains": ["bad.a.example"]}
    done = call("web_search_google", given)
    found = {"title": "a.example", "url": "https://a.example/", "description": "x", "published_date": "2026-10-02T00:00:00Z"}
    assert done.json == {"results": [found]} and done.status == 0


def test_a_project_file_with_a_wrong_setting_stops_no_search(brave_api: Any, tmp_path: Path) -> None:
    """What it may not set is left out and told on standard error; what it may set is taken."""
    (tmp_path / "pyproject.toml").write_text('[tool.ipy_websearch]\nmodel = "x"\ncount = 2')
    done = call("web_search_brave", {"query": "window functions"})
    assert done.status == 0 and len(done.json["results"]) == 2
    assert "may not set 'model'" in done.err and len(done.err.strip().splitlines()) == 1


def test_no_results_are_an_empty_list(brave_api: Any) -> None:
    """Nothing found is no error."""
    brave_api.reply([])
    done = call("web_search_brave", {"query": "nothing at all"})
    assert (done.status, done.json) == (0, {"results": []})


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (
            "web_search_brave",
            "Authentication required: BRAVE_API_KEY not found. Set environment variable or create {home}/brave-api-key file, "
            "or use a .env file here or the system keyring. Get API key from https://brave.com/search/api/",
        ),
        (
            "web_search_google",
            "Authentication required: GOOGLE_SEARCH_API_KEY or GOOGLE_SEARCH_ENGINE_ID not found. Set environment variables or "
            "create {home}/google-search-api-key and {home}/google-search-engine-id files, or use a .env file here or the "
            "system keyring. Get credentials from https://developers.google.com/custom-search",
        ),
    ],
)
def test_a_missing_key_is_told_with_every_way_to_set_it(function: str, told: str) -> None:
    """The text of seed 002 with our places, as JSON, and a failing status."""
    done = call(function, {"query": "window functions"})
    assert done.status == 1 and done.json == {"error": told.format(home=os.environ["IPY_WEBSEARCH_HOME"])}


def test_a_key_is_found_in_a_file(brave_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that the error names works, a line feed at its end included."""
    monkeypatch.delenv("BRAVE_API_KEY")
    home = Path(os.environ["IPY_WEBSEARCH_HOME"])
    home.mkdir()
    (home / "brave-api-key").write_text(f"{brave_api.key}\n", encoding="utf-8")
    assert len(call("web_search_brave", {"query": "window functions"}).json["results"]) == 5


def test_a_refused_key_is_told_and_not_shown(brave_api: Any) -> None:
    """What Brave said follows on how to set another one."""
    brave_api.allow_refusals = True
    done = call("web_search_brave", {"query": "window functions"}, BRAVE_API_KEY="BSA-wrong-and-secret")
    assert done.status == 1 and "secret" not in done.out + done.err
    assert done.json["error"].startswith("Authentication required: BRAVE_API_KEY refused. Set environment variable or create")


def test_an_engine_that_fails_is_told_as_json(brave_api: Any) -> None:
    """A rate limit is one line and a failing status."""
    brave_api.fail(429)
    done = call("web_search_brave", {"query": "window functions"})
    assert done.status == 1 and done.json["error"].startswith("brave answered 429") and done.err == ""


@pytest.mark.parametrize(
    ("function", "raw", "told"),
    [
        ("web_search_brave", b"", "standard input must hold one JSON object"),
        ("web_search_brave", b"{", "standard input must hold one JSON object"),
        ("web_search_brave", b"\xff\xfe", "standard input must hold one JSON object"),
        ("web_search_brave", b"[1]", "one JSON object, not a list"),
        ("web_search_brave", b"{}", "query is required"),
        ("web_search_google", b'{"query": "x"}', "query must be a string of 2 or more characters"),
        (
            "web_search_brave",
            b'{"query": "xyz", "allowed_domains": "a.example"}',
            "allowed_domains must be an array of strings",
        ),
        ("web_search_brave", b'{"query": "xyz", "allowed_domains": ["no domain"]}', "'no domain' is not a domain"),
        ("web_fetch", b'{"url": "https://a.example", "offset": 0}', "offset must be an integer of 1 or more"),
        ("web_fetch", b'{"url": "https://a.example", "limit": true}', "limit must be an integer of 1 or more"),
        ("web_fetch", b'{"url": ""}', "url must be a string"),
    ],
)
def test_a_wrong_input_is_told_as_json(function: str, raw: bytes, told: str) -> None:
    """The error names the field and what it should be."""
    done = call(function, raw=raw)
    assert done.status == 1 and told in done.json["error"] and list(done.json) == ["error"] and done.err == ""


def test_a_page_is_fetched_as_markdown_and_cut_to_lines(public_web: Any) -> None:
    """Lines are counted in the Markdown; a limit beyond the end gives what is left, an offset beyond it nothing."""
    page = b"<html><body><article><h1>Title</h1><p>One paragraph of text.</p><p>Another one.</p></article></body></html>"
    here = f"127.0.0.1:{public_web.port}"
    public_web.pages[f"{here}/"] = Page(page, headers={"Content-Type": "text/html; charset=utf-8"})
    env = {"IPY_WEBSEARCH_FETCH_ALLOW": here}
    whole, part, past = (
        call("web_fetch", {"url": f"http://{here}/", **lines}, **env)
        for lines in ({}, {"offset": 3, "limit": 99}, {"offset": 99})
    )
    lines = whole.json["content"].split("\n")
    assert whole.status == 0 and lines[0] == "# Title" and whole.json["lines_read"] == len(lines)
    assert part.json == {"content": "\n".join(lines[2:]), "lines_read": len(lines) - 2}
    assert past.json == {"content": "", "lines_read": 0}


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "file:///etc/passwd", "http://[::1]/", "not an address"])
def test_what_is_not_the_public_web_is_not_fetched(url: str) -> None:
    """The guard stands here too."""
    done = call("web_fetch", {"url": url})
    assert done.status == 1 and done.json["error"].startswith("Failed to fetch URL: ")


@pytest.mark.parametrize(("command", "function"), COMMANDS.items())
def test_help_is_for_people(command: str, function: str) -> None:
    """Usage, the fields, and an example that can be pasted."""
    done = call(function, None, "--help")
    assert done.status == 0 and done.out.startswith(f"usage: {command} ")
    assert f"| {command}" in done.out and "Input:" in done.out and "(optional)" in done.out


def test_an_unknown_argument_is_an_error_of_its_own() -> None:
    """The status says that the command line was wrong."""
    done = call("web_fetch", None, "--shema")
    assert done.status == 2 and "--shema" in done.json["error"] and "--help" in done.json["error"]


@pytest.mark.parametrize("function", COMMANDS.values())
def test_they_import_little(function: str) -> None:
    """Nothing heavy is imported for a schema and a refused input."""
    code = (
        "import sys\n"
        f"from ipy_websearch.cli import {function}\n"
        "try:\n"
        f"    {function}()\n"
        "except SystemExit:\n"
        "    heavy = {'pandas', 'anthropic', 'pydantic', 'IPython', 'aiohttp', 'httpx', 'lxml'} & set(sys.modules)\n"
        "    print(sorted(heavy), file=sys.stderr)\n"
    )
    for arguments in (["--schema"], []):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], input=b"{}", capture_output=True, env=subprocess_environment(), timeout=30
        )
        assert done.stderr.decode().strip() == "[]"


def test_a_whole_search_imports_neither_pandas_nor_the_sdk(brave_api: Any) -> None:
    """An HTTP library is all that it takes."""
    code = (
        "import sys\n"
        "from ipy_websearch.cli import web_search_brave\n"
        "try:\n"
        "    web_search_brave()\n"
        "except SystemExit as exc:\n"
        "    heavy = {'pandas', 'anthropic', 'pydantic', 'IPython', 'lxml', 'trafilatura'} & set(sys.modules)\n"
        "    print(exc.code, sorted(heavy), file=sys.stderr)\n"
    )
    given = b'{"query": "window functions"}'
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, env=subprocess_environment(), timeout=30
    )
    assert done.stderr.decode().strip() == "0 []"
