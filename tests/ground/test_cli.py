"""What other programs call: the three executables as processes, the MCP server as the official client sees it.

Schemas and plain results are in tests/contract/test_doors.py.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from ipy_websearch import cost
from ipy_websearch.mcp import server
from ipy_websearch.session import Session
from tests.contract.helpers import boss, run
from tests.fakes.engines import hit
from tests.fakes.public_web import Page
from tests.fakes.replies import delay, text, tool_use

HEAVY = {"pandas", "anthropic", "pydantic", "IPython", "lxml", "trafilatura"}
CODE = """
import sys, warnings
warnings.simplefilter("error")
from ipy_websearch.cli import {function}
try:
    {function}()
finally:
    heavy = {heavy!r} & set(sys.modules)
    assert not heavy, heavy
"""


def call(function: str, given: Any, *, warm: bool = True, **env: str) -> tuple[int, Any, str]:
    """Return the status of an executable, the JSON it wrote, and its standard error.

    Where Python starts for it, which is not `warm` then, nothing heavy was imported.
    """
    code = CODE.format(function=function, heavy=set() if warm else HEAVY)
    done = run(code, given=given if isinstance(given, str) else json.dumps(given), warm=warm, **env)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_both_lists_of_domains_hold_and_the_output_is_utf_8(engine: Any, tmp_path: Path) -> None:
    """A mistake in the project's settings is a line on standard error, and stops no search."""
    (tmp_path / "pyproject.toml").write_text('[tool.ipy_websearch]\nmodel = "x"\ncount = 2')
    engine("google").reply([hit(f"https://{host}/", "日本", "x", date="2026-10-02") for host in ("a.example", "bad.a.example")])
    given = {"query": "window functions", "allowed_domains": ["a.example"], "blocked_domains": ["bad.a.example"], "odd": None}
    status, out, told = call("web_search_google", given, warm=False, PYTHONIOENCODING="ascii")
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
    """A refusal names the ways to set another key; no results are no failure."""
    monkeypatch.delenv("BRAVE_API_KEY")
    home = Path(os.environ["IPY_WEBSEARCH_HOME"])
    home.mkdir()
    (home / "brave-api-key").write_text(f"{brave_api.key}\n")
    given = {"query": "window functions"}
    brave_api.reply([])
    assert call("web_search_brave", given, warm=False) == (0, {"results": []}, "")
    assert list(cost(everything=True).name) == ["brave"]  # what it cost is in the ledger of all kernels
    brave_api.allow_refusals = True
    status, out, told = call("web_search_brave", given, BRAVE_API_KEY="BSA-wrong-and-secret")
    assert status == 1 and out["error"].startswith("Authentication required: BRAVE_API_KEY refused. Set environment variable")
    assert "secret" not in out["error"] + told


@pytest.mark.parametrize(
    ("function", "raw", "told"),
    [
        ("web_search_brave", "", "standard input must hold one JSON object"),
        ("web_search_brave", '[["query", "x"]]', "standard input must hold one JSON object"),
        ("web_search_brave", "{}", "query is required"),
        ("web_search_google", '{"query": "x"}', "a search needs 2 characters or more"),
        ("web_search_brave", '{"query": "xyz", "allowed_domains": [5]}', "it must be one text or a list of texts"),
        ("web_fetch", '{"url": "https://a.example", "limit": true}', "limit is True; it must be a whole number"),
        ("web_fetch", '{"url": "file:///etc/passwd"}', "Failed to fetch URL: "),
    ],
)
def test_a_wrong_input_is_told_as_json(function: str, raw: str, told: str) -> None:
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
    assert whole == {"content": "# Title\n\nOne paragraph of text.\n\nAnother one.", "lines_read": 5}
    assert part == {"content": "One paragraph of text.\n\nAnother one.", "lines_read": 3}
    assert past == {"content": "", "lines_read": 0}


# --- mcp ---


def calls(session: Session, *asked: tuple[str, dict[str, Any]]) -> tuple[list[Any], list[tuple[float, str | None]]]:
    """Call tools over the official client; return their results, and what they told of their progress."""
    seen: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, message))

    async def main() -> list[Any]:
        async with Client(server(session)) as client:
            return [await client.call_tool(name, arguments, progress_callback=progress) for name, arguments in asked]

    return asyncio.run(main()), seen


def test_an_agent_searches_reads_asks_and_sees_what_it_cost(messages_api: Any, brave_api: Any, session: Session) -> None:
    """An answer comes with its sources, and tells of its searches as they end."""
    messages_api.replies(tool_use("web_search", {"query": "ruby author"}), text("Matz wrote Ruby.", citations=[(0, 0)]))
    results, seen = calls(
        session,
        ("search", {"query": "who wrote Ruby", "provider": "brave", "count": 3}),
        ("fetch", {"url": "corpus://planets/mars", "limit": 2}),
        ("cost", {}),
        ("ask", {"question": "Who wrote Ruby?", "provider": "brave"}),
    )
    found, page, spent, answered = (result.structured_content for result in results)
    assert found["provider"] == "brave" and list(found["results"][0]) == ["title", "url", "description", "published_date"]
    assert page == {"url": "corpus://planets/mars", "title": "Mars", "content": "# Mars\n", "lines_read": 2, "total_lines": 11}
    assert spent["total_usd"] == pytest.approx(0.005) and spent["questions"][0]["question"] == "who wrote Ruby"
    assert "Matz wrote Ruby" in answered["text"] and answered["sources"][0]["n"] == answered["searches"] == len(seen) == 1


def test_rows_go_in_and_filled_rows_come_out_with_progress(messages_api: Any, session: Session) -> None:
    messages_api.behave(lambda body: (boss(body), delay(0.3)))
    rows = [{"company": "C01", "n": 2**53 + 1, "tags": ["a"]}, {"company": "C02", "n": None}]
    columns = {"ceo": "Who is the CEO of {company}?", "n_ok: bool": "Is {company} fine?"}
    (result,), seen = calls(session, ("enrich", {"rows": rows, "columns": columns, "max_searches": 0}))
    filled = result.structured_content
    assert [{name: row[name] for name in given} for row, given in zip(filled["rows"], rows, strict=True)] == rows
    assert [row["ceo"] for row in filled["rows"]] == ["Boss of C01", "Boss of C02"] and filled["errors"] == 0
    assert filled["rows"][0]["enrich_status"] == "ok" and filled["cost_usd"] > 0 and seen[-1] == (2, "2 of 2 rows")


def test_a_failure_is_a_tool_error_of_one_line(brave_api: Any, session: Session) -> None:
    session.settings.session_budget_usd = 0.001
    failures = {
        "query: Field required": ("search", {}),
        "{company}, which is no column": ("enrich", {"rows": [], "columns": {"ceo": "Who is the CEO of {company}?"}}),
        "offset: ": ("fetch", {"url": "https://example.org", "offset": "first"}),
        "brave": ("search", {"query": "ruby", "provider": "brve"}),
        "refused": ("fetch", {"url": "http://127.0.0.1:1/"}),
        "budget": ("search", {"query": "who wrote Ruby", "provider": "brave"}),
    }
    results, _ = calls(session, *failures.values())
    for words, failed in zip(failures, results, strict=True):
        assert failed.is_error and words in failed.content[0].text and "\n" not in failed.content[0].text
