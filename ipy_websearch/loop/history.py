"""Keeps a message history legal: every tool call answered, no empty turns, nothing that the API would refuse. Pure.

Rules: platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use, read 2026-11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ipy_websearch.model.requests import without_marks

Message = dict[str, Any]
THINKING = ("thinking", "redacted_thinking")


def content_of(message: Mapping[str, Any]) -> list[Any]:
    """Return a message's blocks; words alone are one."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def is_question(message: Mapping[str, Any]) -> bool:
    """Say whether a message is a question of the user's, and not what tools gave."""
    kinds = [block.get("type") for block in content_of(message) if isinstance(block, Mapping)]
    return message.get("role") == "user" and "tool_result" not in kinds


def user_message(text: str) -> Message:
    """Return a user turn with one text block."""
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def sendable(block: Mapping[str, Any]) -> bool:
    """Say whether a block of a reply may be sent back: empty text blocks may not."""
    return block.get("type") != "text" or bool(str(block.get("text") or "").strip())


def assistant_message(content: Sequence[Mapping[str, Any]]) -> Message | None:
    """Return the assistant turn for a reply's blocks, None when nothing sendable is in it."""
    blocks = [dict(block) for block in content if sendable(block)]
    return {"role": "assistant", "content": blocks} if blocks else None


def closed(messages: Sequence[Message]) -> list[Message]:
    """Return a history to which a next question can be added.

    Calls without a result (after an interrupt, a limit or an error) are taken out of the last assistant turn, as are server
    tool calls whose result never came and thinking that would be left without text; a turn of which nothing remains goes
    altogether.
    """
    history = [dict(message) for message in messages]
    if history and history[-1]["role"] == "assistant" and isinstance(history[-1]["content"], list):
        answered = {b.get("tool_use_id") for b in history[-1]["content"] if str(b.get("type")).endswith("_tool_result")}
        kept = [b for b in history[-1]["content"] if not _unanswered(b, answered)]
        if any(b.get("type") not in THINKING for b in kept):
            history[-1] = {**history[-1], "content": kept}
        else:
            history.pop()
    return history


def _unanswered(block: Mapping[str, Any], answered: set[Any]) -> bool:
    kind = block.get("type")
    return kind == "tool_use" or (kind == "server_tool_use" and block.get("id") not in answered)


def ended_by(messages: Sequence[Message], text: str) -> list[Message]:
    """Return a history that ends with an assistant turn: `text` stands in where the model's own turn is missing."""
    history = closed(messages)
    if not history or history[-1]["role"] != "assistant":
        history.append({"role": "assistant", "content": [{"type": "text", "text": text}]})
    return history


def with_nudge(messages: Sequence[Message], text: str) -> list[Message]:
    """Return the history with `text` at the end of the last user turn, after its results; once, however often it is asked."""
    last = messages[-1]
    blocks = content_of(last)
    nudge = {"type": "text", "text": text}
    return list(messages) if blocks[-1:] == [nudge] else [*messages[:-1], {**last, "content": [*blocks, nudge]}]


def without_newest_results(messages: Sequence[Message], left_out: Callable[[str], Mapping[str, Any]]) -> list[Message] | None:
    """Return the history with `left_out(call id)` in place of each of the newest results, None without any."""
    content = messages[-1]["content"]
    if isinstance(content, str):
        return None
    made = [left_out(str(b["tool_use_id"])) if b.get("type") == "tool_result" else b for b in content]
    return None if made == content else [*messages[:-1], {**messages[-1], "content": made}]


def without_thinking(messages: Sequence[Message]) -> list[Message]:
    """Return the history without what the model thought; a turn that was thinking alone goes altogether."""
    kept = []
    for message in messages:
        if message["role"] == "assistant" and not isinstance(message["content"], str):
            blocks = [b for b in message["content"] if b.get("type") not in THINKING]
            message = {**message, "content": blocks}
        if message["content"]:
            kept.append(message)
    return kept


def same_frame(body: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> bool:
    """Say whether a request has the model, the instructions and the tools of an earlier one.

    Only then does the API take back what the model thought there: a thinking block is tied to its model and to all that
    stands before it (platform.claude.com/docs/en/build-with-claude/preserved-thinking, read 2026-11).
    """
    return earlier is not None and all(
        without_marks(body.get(part)) == without_marks(earlier.get(part)) for part in ("model", "system", "tools")
    )


def turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Return the history in whole turns: each begins with a question and ends before the next one."""
    found: list[list[Message]] = []
    for message in messages:
        if not found or is_question(message):
            found.append([])
        found[-1].append(message)
    return found


def trimmed(
    messages: Sequence[Message], most_tokens: int, count: Callable[[Sequence[Message]], int]
) -> tuple[list[Message], int]:
    """Return the newest whole turns that fit into `most_tokens`, and how many older ones were left out.

    `count` estimates the tokens of messages. The newest turn stays, whatever its size: without it there is nothing to follow.
    """
    kept = turns(messages)
    dropped = 0
    while len(kept) > 1 and count([m for turn in kept for m in turn]) > most_tokens:
        kept.pop(0)
        dropped += 1
    return [m for turn in kept for m in turn], dropped
