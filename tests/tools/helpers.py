"""A question whose model makes given calls, and what the model then reads."""

from __future__ import annotations

import asyncio
from typing import Any


def ask(session: Any, messages_api: Any, *calls: Any, then: Any = None, question: str = "Who?", **options: Any) -> Any:
    """Let the model make these calls in one reply (`then`: one more in the next) and answer; return the answer."""
    for reply in (calls, () if then is None else (then,), ("Done.",)):
        if reply:
            messages_api.reply(*reply)

    async def main() -> Any:
        try:
            return await session.ask(question, **options)
        finally:
            await session.aclose()

    return asyncio.run(main())


def offered(messages_api: Any) -> dict[str, dict[str, Any]]:
    """Return the tools of the first request by name."""
    return {tool["name"]: tool for tool in messages_api.bodies[0].get("tools", [])}


def results_of(messages_api: Any) -> list[dict[str, Any]]:
    """Return the tool results that the model got last."""
    return [block for block in messages_api.bodies[-1]["messages"][-1]["content"] if block["type"] == "tool_result"]


def words_of(result: dict[str, Any]) -> str:
    """Return all text in a tool result."""
    blocks = (block["content"] if block["type"] == "search_result" else [block] for block in result["content"])
    return "\n".join(part["text"] for inner in blocks for part in inner)


def sources(result: dict[str, Any]) -> list[str]:
    """Return the addresses of a result's blocks."""
    return [block["source"] for block in result["content"]]
