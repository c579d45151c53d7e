"""What the contract tests share: scripted model behaviour, frames to enrich, and child processes."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tests.fakes.replies import Content, tool_use
from tests.fakes.shell import subprocess_environment
from tests.fakes.warm import python

CEO = {"ceo": "Who is the CEO of {company}?"}
# Options of an enrichment that answers from what the model knows.
ROW: dict[str, Any] = {"progress": False, "max_searches": 0}


def search(query: str, **more: Any) -> Content:
    """A call of the web search, by the name under which the request offers it."""

    def call(body: Mapping[str, Any]) -> list[dict[str, Any]]:
        name = next(tool["name"] for tool in body["tools"] if "search" in tool["name"].lower())
        return tool_use(name, {"query": query, **more}).make(dict(body))

    return Content(call, "tool_use")


def keeps_searching(body: Mapping[str, Any]) -> list[Any]:
    """A model that searches whenever it may, and answers when it may not."""
    if body.get("tool_choice", {}).get("type") == "none":
        return ["The answer from what there is."]
    return [search(f"query number {len(body['messages'])}")]


def results_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tool results in the last message of a request."""
    return [block for block in body["messages"][-1]["content"] if block["type"] == "tool_result"]


def ask(session: Any, question: str = "Who wrote Ruby?", **options: Any) -> Any:
    """Return the answer of a session, which is closed then."""

    async def main() -> Any:
        async with contextlib.aclosing(session):
            return await session.ask(question, provider="brave", **options)

    return asyncio.run(main())


def question_of(body: Mapping[str, Any]) -> str:
    """Return the text of the last message of a request."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def record(**cells: Any) -> Any:
    """A call of `record`; a cell is a value, or a dict with value, source, quote and confidence."""
    blank = {"value": None, "source": "", "quote": "", "confidence": 0.5}
    filled = {name: blank | (cell if isinstance(cell, dict) else {"value": cell}) for name, cell in cells.items()}
    return tool_use("record", filled)


def company_in(body: Mapping[str, Any]) -> str:
    """Return the company that a request for a row is about."""
    return str(body["messages"][0]["content"][0]["text"].partition("company: ")[2].partition("\n")[0])


def boss(body: Mapping[str, Any]) -> Any:
    """Answer a row with the boss of its company, without a source."""
    return record(ceo=f"Boss of {company_in(body)}")


def companies(*names: Any, **more: Any) -> pd.DataFrame:
    """Return a frame with a column company."""
    return pd.DataFrame({"company": list(names)}, **more)


def start(code: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
    """Start a Python process with this test's home and fakes."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*python(), "-c", code, *arguments], env=subprocess_environment(env), **pipes)


def run(code: str, *arguments: str, given: str = "", warm: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a Python process with this test's home and fakes to its end; one that is not `warm` has imported nothing yet."""
    command = [*(python() if warm else [sys.executable]), "-c", code, *arguments]
    options: Any = {"input": given, "capture_output": True, "text": True, "timeout": 180}
    return subprocess.run(command, env=subprocess_environment(env), **options)
