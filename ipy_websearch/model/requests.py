"""Builds Messages API requests: the body, tool results in the form the platform takes, and the cache breakpoints. Pure.

Rules (platform.claude.com/docs/en/build-with-claude/{search-results,prompt-caching}, agents-and-tools/tool-use, read 2026-11):
all blocks of a tool result are `search_result`s or none is; each text block inside is what a citation points to, so pages
come in paragraphs; no `citations` array may stand on a user's text block (API version 2026-10-21); at most four
cache breakpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ipy_websearch.model.platforms import Platform
from ipy_websearch.text import shorten
from ipy_websearch.tools.base import Passage, ToolOutput

CACHE_CONTROL = {"type": "ephemeral"}
MESSAGE_BREAKPOINTS = 2
PLAIN_RESULTS = 5
PLAIN_WIDTH = 200


def build_request(
    *,
    model: str,
    system: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    max_tokens: int,
    platform: Platform,
    tool_choice: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the body of a request (without `stream`); `messages` are left untouched."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens,
        "system": [{"type": "text", "text": system}],
        "messages": [dict(message) for message in messages],
    }
    if tools and (platform.tool_choice or tool_choice is None):
        body["tools"] = [dict(tool) for tool in tools]
        if tool_choice is not None:
            body["tool_choice"] = dict(tool_choice)
    if platform.caching:
        body["system"][0]["cache_control"] = CACHE_CONTROL
        _mark_newest(body["messages"])
    return body


def _mark_newest(messages: list[dict[str, Any]]) -> None:
    """Put cache breakpoints on the last block of the newest user messages; the older one is where the next request,
    whose prefix it shares, finds the cache again even when more than 20 blocks were added since."""
    marked = 0
    for message in reversed(messages):
        if message["role"] != "user" or isinstance(message["content"], str) or not message["content"]:
            continue
        message["content"] = [*message["content"][:-1], {**message["content"][-1], "cache_control": CACHE_CONTROL}]
        marked += 1
        if marked == MESSAGE_BREAKPOINTS:
            return


def tool_result(call_id: str, output: ToolOutput, platform: Platform) -> dict[str, Any]:
    """Return the `tool_result` block for a call's output."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    if output.passages and not output.is_error and platform.search_results:
        block["content"] = [_search_result(passage) for passage in output.passages if any(passage.paragraphs)]
    else:
        text = output.text or plain_results(output.passages) or "No results."
        block["content"] = [{"type": "text", "text": text}]
    if output.is_error and platform.is_error:
        block["is_error"] = True
    return block


def _search_result(passage: Passage) -> dict[str, Any]:
    return {
        "type": "search_result",
        "source": passage.url,
        "title": passage.title or passage.url,
        "content": [{"type": "text", "text": paragraph} for paragraph in passage.paragraphs if paragraph.strip()],
        "citations": {"enabled": True},
    }


def plain_results(passages: Sequence[Passage]) -> str:
    """Return passages as numbered plain text for platforms without `search_result` blocks (seed 000's form).

    Several sources are search hits: the first five, each description cut at a word near 200 characters. One source is a
    page, given whole.
    """
    if len(passages) == 1:
        page = passages[0]
        return f"{page.title}\n{page.url}\n\n" + "\n\n".join(page.paragraphs)
    hits = [
        f"{n}. {p.title}\n   {p.url}\n   {shorten(' '.join(p.paragraphs), PLAIN_WIDTH)}"
        for n, p in enumerate(passages[:PLAIN_RESULTS], 1)
    ]
    return "Search Results:\n\n" + "\n\n".join(hits) if hits else ""


def estimate_tokens(body: Mapping[str, Any]) -> int:
    """Return a cautious estimate of a request's input tokens: a token for every three characters, plus the tool prompt.

    English prose has about 3.5 to 4 characters a token; 3 errs on the dear side, as a ceiling must.
    """
    import json

    visible = {name: body[name] for name in ("system", "messages", "tools") if name in body}
    return len(json.dumps(visible, ensure_ascii=False)) // 3 + (500 if body.get("tools") else 50)
