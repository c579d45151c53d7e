"""The three executables as real processes; their schemas and plain results are in tests/contract/test_doors.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.engines import hit
from tests.fakes.notebook import subprocess_environment
from tests.fakes.public_web import Page

COMMANDS = {
    "web-search-brave-tool": "web_search_brave",
    "web-search-google-tool": "web_search_google",
    "web-fetch-tool": "web_fetch",
}
HEAVY = {"pandas", "anthropic", "pydantic", "IPython", "lxml", "trafilatura"}
CODE = """
import sys
from ipy_websearch.cli import {function}
try:
    {function}()
finally:
    heavy = {heavy!r} & set(sys.modules)
    assert not heavy, heavy
"""


def call(function: str, given: Any = None, *arguments: str, **env: str) -> tuple[int, Any, str]:
    """Return the status of an executable, the JSON it wrote, and its standard error; nothing heavy was imported."""
    code = CODE.format(function=function, heavy=set() if function == "web_fetch" else HEAVY)
    sent = given if isinstance(given, bytes) else json.dumps(given).encode()
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    done = subprocess.run(command, input=sent, capture_output=True, env=subprocess_environment(env), timeout=60)
    return done.returncode, json.loads(done.stdout.decode()), done.stderr.decode()


def test_both_lists_of_domains_hold_and_the_output_is_utf_8(engine: Any, tmp_path: Path) -> None:
    """A mistake in the project's settings is a line on standard error, and stops no search."""
    (tmp_path / "pyproject.toml").write_text('[tool.ipy_websearch]\nmodel = "x"\ncount = 2')
    engine("google").reply([hit(f"https://{host}/", "日本", "x", date="2026-10-02") for host in ("a.example", "bad.a.example")])
    given = {"query": "window functions", "allowed_domains": ["a.example"], "blocked_domains": ["bad.a.example"], "odd": None}
    status, out, told = call("web_search_google", given, PYTHONIOENCODING="ascii")
    found = {"title": "日本", "url": "https://a.example/", "description": "x", "published_date": "2026-10-02T00:00:00Z"}
    assert (status, out) == (0, {"results": [found]})
    assert "may not set 'model'" in told and len(told.strip().splitlines()) == 1


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
    status, out, _ = call(function, {"query": "window functions"})
    assert status == 1 and out == {"error": told.format(home=os.environ["IPY_WEBSEARCH_HOME"])}


def test_a_key_in_a_file_is_found_and_a_refused_one_is_not_shown(brave_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal names the ways to set another key; a rate limit and no results are what they are."""
    monkeypatch.delenv("BRAVE_API_KEY")
    home = Path(os.environ["IPY_WEBSEARCH_HOME"])
    home.mkdir()
    (home / "brave-api-key").write_text(f"{brave_api.key}\n")
    given = {"query": "window functions"}
    brave_api.reply([])
    assert call("web_search_brave", given) == (0, {"results": []}, "")
    brave_api.allow_refusals = True
    status, out, told = call("web_search_brave", given, BRAVE_API_KEY="BSA-wrong-and-secret")
    assert status == 1 and out["error"].startswith("Authentication required: BRAVE_API_KEY refused. Set environment variable")
    assert "secret" not in out["error"] + told
    brave_api.fail(429)
    status, out, told = call("web_search_brave", given)
    assert status == 1 and out["error"].startswith("brave answered 429") and told == ""


@pytest.mark.parametrize(
    ("function", "raw", "told"),
    [
        ("web_search_brave", b"", "standard input must hold one JSON object"),
        ("web_search_brave", b"\xff\xfe", "standard input must hold one JSON object"),
        ("web_search_brave", b"[1]", "one JSON object, not a list"),
        ("web_search_brave", b"{}", "query is required"),
        ("web_search_google", b'{"query": "x"}', "query must be a string of 2 or more characters"),
        ("web_search_brave", b'{"query": "xyz", "allowed_domains": "a"}', "allowed_domains must be an array of strings"),
        ("web_search_brave", b'{"query": "xyz", "allowed_domains": ["no domain"]}', "'no domain' is not a domain"),
        ("web_fetch", b'{"url": "https://a.example", "offset": 0}', "offset must be an integer of 1 or more"),
        ("web_fetch", b'{"url": "https://a.example", "limit": true}', "limit must be an integer of 1 or more"),
        ("web_fetch", b'{"url": "file:///etc/passwd"}', "Failed to fetch URL: "),
    ],
)
def test_a_wrong_input_is_told_as_json(function: str, raw: bytes, told: str) -> None:
    status, out, errors = call(function, raw)
    assert status == 1 and told in out["error"] and list(out) == ["error"] and errors == ""


def test_a_page_is_fetched_as_markdown_and_cut_to_lines(public_web: Any) -> None:
    """A limit beyond the end gives what is left, an offset beyond it nothing."""
    page = b"<html><body><article><h1>Title</h1><p>One paragraph of text.</p><p>Another one.</p></article></body></html>"
    here = f"127.0.0.1:{public_web.port}"
    public_web.pages[f"{here}/"] = Page(page, headers={"Content-Type": "text/html; charset=utf-8"})
    whole, part, past = (
        call("web_fetch", {"url": f"http://{here}/", **lines}, IPY_WEBSEARCH_FETCH_ALLOW=here)[1]
        for lines in ({}, {"offset": 3, "limit": 99}, {"offset": 99})
    )
    lines = whole["content"].split("\n")
    assert lines[0] == "# Title" and whole["lines_read"] == len(lines)
    assert part == {"content": "\n".join(lines[2:]), "lines_read": len(lines) - 2} and past == {"content": "", "lines_read": 0}


@pytest.mark.parametrize(("command", "function"), COMMANDS.items())
def test_help_is_for_people_and_a_wrong_option_is_told(command: str, function: str) -> None:
    """Usage, the fields, and an example that can be pasted; the package installs the command."""
    root = Path(__file__).parents[2]
    scripts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts[command] == f"ipy_websearch.cli:{function}"
    code = f"from ipy_websearch.cli import {function}; {function}()"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, env=subprocess_environment())
    assert done.returncode == 0 and done.stdout.startswith(f"usage: {command} ") and f"| {command}" in done.stdout
    assert "standard input" in done.stdout and "(optional)" in done.stdout and "{" + "command" not in done.stdout
    status, out, _ = call(function, None, "--shema")
    assert status == 2 and "--shema" in out["error"] and f"{command} --help" in out["error"]
