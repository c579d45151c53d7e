"""A question whose model makes given calls, and what the model then reads."""

from __future__ import annotations

from typing import Any

import ipy_websearch as web


def ask(messages_api: Any, *calls: Any, then: Any = None, question: str = "Who?", **options: Any) -> Any:
    """Let the model make these calls in one reply (`then`: one more in the next) and answer; return the answer."""
    messages_api.replies(*([[*calls]] if calls else []), *([then] if then else []), "Done.")
    return web.ask(question, **options)


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
