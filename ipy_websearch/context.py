"""What a question would send: system prompt, tools, the conversation and the question, each with its tokens. Nothing is sent.

The request is the one that the loop would build, so that what is shown is what goes out. Tokens are our own count of
characters by their kind (`model.requests`), the usual figure and the cautious one that ceilings reckon with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.model.platforms import context_window
from ipy_websearch.model.tokens import prompt_tokens, text_tokens
from ipy_websearch.money.estimate import COMMON_SHARE

if TYPE_CHECKING:
    from ipy_websearch.session import Session

_NO_QUESTION = "(your question)"


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One part of a request: who says it, what it is, its text (JSON where it is not prose), and about how many tokens."""

    role: str
    what: str
    tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class Context:
    """A request that was not sent, taken apart.

    `input_tokens` is its usual size, `most_input_tokens` the cautious count, both with the prompts that the API adds for tools;
    `window` is how many tokens the model can read. What the API's own tools find comes on top of it, and is billed: `native`
    says whether there are any. `body` is what would go out, as it would.
    """

    model: str
    parts: tuple[ContextPart, ...]
    input_tokens: int
    most_input_tokens: int
    window: int
    body: Mapping[str, Any]
    native: bool = False


def context(session: Session, question: str, **options: Any) -> Context:
    """Return what `session.ask(question, **options)` would send first; without a question, what a follow-up would.

    Raises:
        ConfigError: an option is wrong, or there is neither a question nor a conversation.
        MissingKeyError: an engine was named without a key; a model needs none here.
    """
    if not question.strip() and not session.answers:
        raise ConfigError("there is no conversation yet; write a question: %ask --context How many moons does Mars have?")
    options["follow"] = options.get("follow") or not question.strip()
    loop = session.rehearsed(question if question.strip() else _NO_QUESTION, **options)
    body = loop.request(final=False)
    most = prompt_tokens(body)
    parts = [ContextPart(role, what, _usual(text_tokens(text)), text) for role, what, text in _parts(body)]
    rest = max(_usual(most) - sum(part.tokens for part in parts), 0)
    parts.append(ContextPart("api", "frame of the request", rest, "field names, and the prompts that the API adds for tools"))
    native, window = bool(loop.job.server_tools), context_window(loop.job.model)
    return Context(loop.job.model, tuple(parts), _usual(most), most, window, body, native)


def _usual(tokens: int) -> int:
    return int(tokens * COMMON_SHARE)


def _parts(body: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (role, what it is, text) in the order in which a model reads them: tools, system prompt, messages."""
    for tool in body.get("tools", ()):
        yield "tools", str(tool["name"]), _json({name: value for name, value in tool.items() if name != "name"})
    for block in body["system"]:
        yield "system", "instructions", block["text"]
    last = len(body["messages"]) - 1
    for n, message in enumerate(body["messages"]):
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        for block in blocks:
            yield message["role"], _what(block, message["role"], n == last), _text(block)


def _what(block: Mapping[str, Any], role: str, last: bool) -> str:
    """Return what a block is, in words; a user's text is a question, the last one the new one."""
    kind = str(block.get("type"))
    if kind == "text":
        return "text" if role == "assistant" else "question" if last else "earlier question"
    if kind in ("tool_use", "server_tool_use"):
        return f"call of {block.get('name')}"
    if kind == "tool_result":
        found = block.get("content")
        sources = sum(b.get("type") == "search_result" for b in found) if isinstance(found, list) else 0
        return f"result with {sources} source{'' if sources == 1 else 's'}" if sources else "result"
    return kind.replace("_", " ")


def _text(block: Mapping[str, Any]) -> str:
    if block.get("type") == "text":
        return str(block["text"])
    if block.get("type") == "tool_use":
        return _json(block.get("input"))
    return _json(block.get("content", block))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
