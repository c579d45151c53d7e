"""The conversation in a request: the question that is open now, and what was done and found for it since.

The open question is the newest user message that has text and no tool results; everything after it belongs to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipy_websearch.model.offline.sources import Source, from_block, from_text
from ipy_websearch.text import visible

Block = Mapping[str, Any]
_EMPTY = re.compile(
    r"\s*(?:no\s+(?:search\s+)?(?:results?|hits?|pages?)\b|nothing\s+(?:was\s+)?found|0\s+results|"
    r"search\s+(?:failed|unavailable)|error\s*:)",
    re.IGNORECASE,
)
"""How tools say that there is nothing: not a source to quote from."""
_NUDGE = re.compile(
    r"(?:please\s+)?(?:write|call|give|use|continue|go\s+on|finish|answer)\b[^?]{0,120}\bnow\b[^?]*$", re.IGNORECASE
)
"""How a loop asks for the answer that is still missing: not a question of its own."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a request says, as far as it bears on the open question.

    `previous` is the question before and `about` the titles that its answer cited. `calls` are the tool calls made for the
    open question as (name, input), `rounds` the replies that held them, `failures` the texts of results marked as errors.
    `sources` came back for it; `older` are all that the request held before.
    """

    question: str
    previous: str = ""
    about: tuple[str, ...] = ()
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    rounds: int = 0
    failures: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    older: tuple[Source, ...] = ()


def read_conversation(messages: Sequence[Mapping[str, Any]]) -> Conversation:
    """Return the conversation of a (valid) request's messages."""
    turns = [(str(message.get("role")), blocks_of(message.get("content"))) for message in messages]
    start = _open_question(turns)
    before, since = turns[:start], turns[start + 1 :]
    calls = {str(b.get("id")): (str(b.get("name")), b.get("input") or {}) for b in _of_type(turns, "tool_use")}
    made = [calls[str(b.get("id"))] for b in _of_type(since, "tool_use")]
    known, found = _sources(turns, start, calls)
    results = _of_type(since, "tool_result")
    return Conversation(
        question=_text(turns[start][1]) if turns else "",
        previous=next((_text(blocks) for role, blocks in reversed(before) if _asks(role, blocks)), ""),
        about=_cited_titles(before),
        calls=tuple(made),
        rounds=sum(role == "assistant" and any(b.get("type") == "tool_use" for b in blocks) for role, blocks in since),
        failures=tuple(_text(blocks_of(b.get("content"))) for b in results if b.get("is_error")),
        sources=tuple(found),
        older=tuple(known),
    )


def blocks_of(content: Any) -> list[Block]:
    """Return a message's content as blocks; a string is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or [] if isinstance(block, Mapping)]


def _open_question(turns: Sequence[tuple[str, list[Block]]]) -> int:
    asking = [i for i, (role, blocks) in enumerate(turns) if _asks(role, blocks)]
    # a history kept legal after an interrupt may carry the next question behind the results in one message
    if turns and turns[-1][0] == "user" and _text(turns[-1][1]).rstrip().endswith("?"):
        return len(turns) - 1
    return asking[-1] if asking else 0


def _asks(role: str, blocks: Sequence[Block]) -> bool:
    text = _text(blocks)
    return role == "user" and bool(text) and not _NUDGE.match(text) and not any(b.get("type") == "tool_result" for b in blocks)


def _text(blocks: Sequence[Block]) -> str:
    return visible("\n".join(str(b.get("text") or "") for b in blocks if b.get("type") == "text")).strip()


def _of_type(turns: Sequence[tuple[str, list[Block]]], kind: str) -> list[Block]:
    return [block for _, blocks in turns for block in blocks if block.get("type") == kind]


def _cited_titles(turns: Sequence[tuple[str, list[Block]]]) -> tuple[str, ...]:
    """Return the titles that the newest answer cited, in order."""
    for role, blocks in reversed(turns):
        if role == "assistant" and any(b.get("type") == "text" for b in blocks):
            cited = [c.get("title") for b in blocks for c in b.get("citations") or [] if isinstance(c, Mapping)]
            return tuple(dict.fromkeys(str(title) for title in cited if title))
    return ()


def _sources(
    turns: Sequence[tuple[str, list[Block]]], start: int, calls: Mapping[str, tuple[str, Mapping[str, Any]]]
) -> tuple[list[Source], list[Source]]:
    """Return the sources before the open question and those that came with it or after it."""
    known: list[Source] = []
    found: list[Source] = []
    count = 0
    for at, (role, blocks) in enumerate(turns):
        if role != "user":
            continue
        for block, call in _result_parts(blocks, calls):
            into = found if at >= start else known
            if block.get("type") == "search_result":
                into.append(from_block(block, count))
                count += 1
            elif call is not None:
                text = visible(str(block.get("text") or ""))
                into.extend([] if _EMPTY.match(text) else from_text(text, url=str(call[1].get("url") or "")))
    return known, found


def _result_parts(
    blocks: Sequence[Block], calls: Mapping[str, tuple[str, Mapping[str, Any]]]
) -> Iterator[tuple[Block, tuple[str, Mapping[str, Any]] | None]]:
    """Yield search results of a user's message, and the text blocks of tool results with the call they answer."""
    for block in blocks:
        if block.get("type") == "search_result":
            yield block, None
        elif block.get("type") == "tool_result":
            call = calls.get(str(block.get("tool_use_id")), ("tool", {}))
            for part in blocks_of(block.get("content")):
                if part.get("type") == "search_result" or not block.get("is_error"):
                    yield part, call
