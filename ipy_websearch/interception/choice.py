"""Which tool the model must use, in each of the requests that one call of the caller becomes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipy_websearch.interception.detection import FETCH_NAME, SEARCH_NAME, Wanted
from ipy_websearch.model.platforms import forces_tools

_FORCING = ("tool", "any")


def tool_choice(body: Mapping[str, Any], wanted: Wanted, *, first: bool) -> Mapping[str, Any] | None:
    """Return the `tool_choice` of a request: the caller's, under our names, and let go once it was used."""
    choice = body.get("tool_choice")
    if not isinstance(choice, Mapping):
        return None
    kind = wanted.names.get(str(choice.get("name"))) if choice.get("type") == "tool" else None
    # Claude Code forces its search on every model; those that cannot be forced are left the choice.
    ours = kind or (choice.get("type") == "any" and not wanted.others)
    if choice.get("type") in _FORCING and (not first or (ours and not forces_tools(str(body.get("model"))))):
        return {"type": "auto", **{k: v for k, v in choice.items() if k == "disable_parallel_tool_use"}}
    return {**choice, "name": SEARCH_NAME if kind == "search" else FETCH_NAME} if kind else choice
