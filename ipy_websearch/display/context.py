"""`%ask --context`: the request that a question would send, as a table of its parts and their tokens. Nothing is sent.

The request is the one that the loop builds. Tokens are our own count of characters by their kind (`model.requests`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ipy_websearch.frames import WebFrame, frame_of
from ipy_websearch.loop.ask import AnswerLoop
from ipy_websearch.model.client import context_window
from ipy_websearch.model.requests import prompt_tokens, text_tokens
from ipy_websearch.money.budget import COMMON_SHARE


class ContextFrame(WebFrame):
    """The parts of a request in the order in which a model reads them: role, what, tokens, text.

    `request` is the request itself. `input_tokens` is its usual size, `most_input_tokens` the cautious count that budgets use.
    """

    _metadata = ["request", "input_tokens", "most_input_tokens"]
    request: Mapping[str, Any] | None = None
    input_tokens: int = 0
    most_input_tokens: int = 0


def context_frame(loop: AnswerLoop, redact: Callable[[str], str]) -> ContextFrame:
    """Return the parts of a loop's first request, without keys."""
    body = json.loads(redact(json.dumps(loop.request(final=False), default=str)))
    most = prompt_tokens(body)
    rows = [(role, what, int(text_tokens(text) * COMMON_SHARE), text) for role, what, text in _parts(body)]
    rest = max(int(most * COMMON_SHARE) - sum(tokens for _, _, tokens, _ in rows), 0)
    rows.append(("api", "frame of the request", rest, "field names, and the prompts that the API adds for tools"))
    roles, whats, tokens, texts = zip(*rows, strict=True)
    columns = {"role": ("text", roles), "what": ("text", whats), "tokens": ("int64", tokens), "text": ("text", texts)}
    frame = frame_of(ContextFrame, columns)
    frame.request, frame.input_tokens, frame.most_input_tokens = body, sum(tokens), most
    return frame


def context_line(loop: AnswerLoop, frame: ContextFrame) -> str:
    """Return the sums of a context in one line."""
    window = context_window(loop.job.model)
    share = frame.most_input_tokens / window
    more = " What the API's own tools find comes on top: see --estimate." if loop.job.server_tools else ""
    return (
        f"about {frame.input_tokens:,} tokens, at most {frame.most_input_tokens:,}, to {loop.job.model} "
        f"({'under 1 %' if share < 0.01 else f'{share:.0%}'} of the {window:,} that it reads).{more} Nothing was sent."
    )


def _parts(body: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (role, what it is, text): tools, system prompt, messages."""
    for tool in body.get("tools", ()):
        yield "tools", str(tool["name"]), _json(tool)
    for block in body["system"]:
        yield "system", "instructions", block["text"]
    *earlier, question = body["messages"]
    for message in (*earlier, question):
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            what, text = _part(block)
            if what == "text":
                said = "question" if message["role"] == "user" else "answer"
                what = said if message is question else f"earlier {said}"
            yield message["role"], what, text


def _part(block: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a block is, in words, and its text."""
    match block.get("type"):
        case "text":
            return "text", str(block["text"])
        case "tool_use" | "server_tool_use":
            return f"call of {block.get('name')}", _json(block.get("input"))
        case "tool_result":
            return "result", _json(block.get("content"))
        case kind:
            return str(kind).replace("_", " "), _json(block)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
