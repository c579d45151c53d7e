"""What the Messages API refuses in a conversation with tools, in its words (recorded in 2026-11): status 400.

The offline server and the fakes of `testing` hold every request to it, so that a loop that passes here passes there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from ipy_websearch.errors import ModelError

_EACH_RESULT = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
_EACH_CALL = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."


def check(request: Mapping[str, Any]) -> None:
    """Check that calls and results of a request's messages belong together.

    Raises:
        ModelError: they do not; `status` is 400.
    """
    for words in _faults([*map(_blocks, request.get("messages") or ()), []]):
        raise ModelError(words, status=400, kind="invalid_request_error")


def _faults(turns: list[list[Mapping[str, Any]]]) -> Iterator[str]:
    asked: list[str] = []
    for n, blocks in enumerate(turns):
        leading = [block.get("tool_use_id") for block in takewhile(lambda block: block.get("type") == "tool_result", blocks)]
        if missing := [id for id in asked if id not in leading]:
            yield f"messages.{n - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: " + (
                f"{', '.join(missing)}. {_EACH_CALL}"
            )
        answered: set[Any] = set()
        for i, block in enumerate(blocks):
            if block.get("type") != "tool_result":
                continue
            place, id = f"messages.{n}.content.{i}", block.get("tool_use_id")
            if id not in asked:
                yield f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. {_EACH_RESULT}"
            if id in answered:
                yield f"{place}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            answered.add(id)
            kinds = {inner.get("type") for inner in _blocks(block)}
            if "search_result" in kinds and len(kinds) > 1:
                yield f"{place}.tool_result.content: if any block is of type `search_result`, all blocks must be"
        asked = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]


def _blocks(holder: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = holder.get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
