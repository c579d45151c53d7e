"""The MCP server as the official client sees it, in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client

from ipy_websearch.mcp import server
from ipy_websearch.session import Session
from tests.contract.helpers import boss
from tests.fakes.replies import delay, text, tool_use


def calls(session: Session, *asked: tuple[str, dict[str, Any]]) -> tuple[list[Any], list[tuple[float, str | None]]]:
    """Call tools over the official client; return their results, and what they told of their progress."""
    seen: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, message))

    async def main() -> list[Any]:
        async with Client(server(session)) as client:
            return [await client.call_tool(name, arguments, progress_callback=progress) for name, arguments in asked]

    return asyncio.run(main()), seen


def test_tools_have_schemas_for_what_goes_in_and_comes_out() -> None:
    async def main() -> Any:
        async with Client(server(Session())) as client:
            return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in asyncio.run(main())}
    assert set(tools) == {"search", "fetch", "ask", "enrich", "cost"}
    assert tools["search"].input_schema["required"] == ["query"] and "context" not in tools["ask"].input_schema["properties"]
    assert all(tool.output_schema["type"] == "object" and tool.annotations.read_only_hint for tool in tools.values())


def test_an_agent_searches_reads_and_sees_what_it_cost(brave_api: Any, session: Session) -> None:
    (found, page, spent), _ = calls(
        session,
        ("search", {"query": "who wrote Ruby", "provider": "brave", "count": 3}),
        ("fetch", {"url": "corpus://planets/mars", "limit": 2}),
        ("cost", {}),
    )
    assert found.structured_content["provider"] == "brave" and found.structured_content["results"][0]["url"]
    assert page.structured_content["title"] == "Mars" and page.structured_content["lines_read"] == 2
    assert spent.structured_content["total_usd"] == pytest.approx(0.005)
    assert spent.structured_content["questions"][0]["question"] == "who wrote Ruby"


def test_an_answer_comes_with_its_sources_and_progress(messages_api: Any, brave_api: Any, session: Session) -> None:
    messages_api.replies(tool_use("web_search", {"query": "ruby author"}), text("Matz wrote Ruby.", citations=[(0, 0)]))
    (asked,), seen = calls(session, ("ask", {"question": "Who wrote Ruby?", "provider": "brave"}))
    answered = asked.structured_content
    assert "Matz wrote Ruby" in answered["text"] and answered["sources"][0]["n"] == 1 and answered["searches"] == 1
    assert len(seen) == 2 and seen[-1] == (2, "answered")


def test_rows_go_in_and_filled_rows_come_out_with_progress(messages_api: Any, session: Session) -> None:
    messages_api.behave(lambda body: (boss(body), delay(0.3)))
    rows = [{"company": "C01", "n": 2**53 + 1, "tags": ["a"]}, {"company": "C02", "n": None}]
    asked = {"rows": rows, "columns": {"ceo": "Who is the CEO of {company}?", "n_ok: bool": "Is {company} fine?"}}
    (result,), seen = calls(session, ("enrich", asked | {"max_searches": 0}))
    filled = result.structured_content
    assert [{name: row[name] for name in given} for row, given in zip(filled["rows"], rows, strict=True)] == rows
    assert [row["ceo"] for row in filled["rows"]] == ["Boss of C01", "Boss of C02"] and filled["errors"] == 0
    assert filled["rows"][0]["enrich_status"] == "ok" and filled["cost_usd"] > 0 and seen[-1] == (2, "2 of 2 rows")


def test_a_failure_is_a_tool_error_of_one_line(brave_api: Any, session: Session) -> None:
    session.settings.session_budget_usd = 0.001
    failures = {
        "query: Field required": ("search", {}),
        "offset: ": ("fetch", {"url": "https://example.org", "offset": "first"}),
        "brave": ("search", {"query": "ruby", "provider": "brve"}),
        "refused": ("fetch", {"url": "http://127.0.0.1:1/"}),
        "budget": ("search", {"query": "who wrote Ruby", "provider": "brave"}),
    }
    results, _ = calls(session, *failures.values())
    for words, failed in zip(failures, results, strict=True):
        (said,) = failed.content
        assert failed.is_error and words in said.text and "\n" not in said.text
