"""Builds Messages API requests: the body, tool results in the form the platform takes, cache breakpoints, server tools. Pure.

Rules (platform.claude.com/docs/en/build-with-claude/{search-results,prompt-caching}, agents-and-tools/tool-use, read 2026-11):
all blocks of a tool result are `search_result`s or none is; each text block inside is what a citation points to, so pages come
in paragraphs; no `citations` array may stand on a user's text block (API version 2026-10-21); at most four cache breakpoints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.model.platforms import Platform, thinking_fields
from ipy_websearch.options import as_tuple
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.text import shorten
from ipy_websearch.tools.base import Passage, ToolOutput

CACHE_CONTROL = {"type": "ephemeral"}
MESSAGE_BREAKPOINTS = 2
PLAIN_WIDTH = 200
"""Characters of a hit's description in plain text (seed 000's form)."""

NATIVE = "native"
NEWEST = "20260318"
FIRST_SEARCH, FIRST_FETCH = "20250305", "20250910"
_OLDER = re.compile(r"claude-(3|opus-4-[015]|sonnet-4-[05]|opus-4(-2025|$)|sonnet-4(-2025|$)|haiku-4-5)")


def build_request(
    *,
    model: str,
    system: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    max_tokens: int,
    platform: Platform,
    tool_choice: Mapping[str, Any] | None = None,
    effort: str | None = None,
) -> dict[str, Any]:
    """Return the body of a request (without `stream`); `messages` and `tools` are shared with it, and left untouched.

    `effort` is "low", "medium" or "high" (None: as the model does by itself), sent where the model takes it.
    """
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens,
        "system": [{"type": "text", "text": system}],
        "messages": list(messages),
        **thinking_fields(model, effort),
    }
    if tools and (platform.tool_choice or tool_choice is None):
        body["tools"] = tools
        if tool_choice is not None:
            body["tool_choice"] = dict(tool_choice)
    if platform.caching:
        body["system"][0]["cache_control"] = CACHE_CONTROL
        _mark_newest(body["messages"])
    return body


def _mark_newest(messages: list[dict[str, Any]]) -> None:
    """Put cache breakpoints on the last block of the newest user messages; the older one is where the next request, whose
    prefix it shares, finds the cache again even when more than 20 blocks were added since."""
    marked = 0
    for n in range(len(messages) - 1, -1, -1):
        message = messages[n]
        if message["role"] != "user" or isinstance(message["content"], str) or not message["content"]:
            continue
        *blocks, newest = message["content"]
        messages[n] = {**message, "content": [*blocks, {**newest, "cache_control": CACHE_CONTROL}]}
        marked += 1
        if marked == MESSAGE_BREAKPOINTS:
            return


def without_marks(value: Any) -> Any:
    """Return a part of a request without cache breakpoints, which move from request to request."""
    if isinstance(value, Mapping):
        return {name: without_marks(inner) for name, inner in value.items() if name != "cache_control"}
    return [without_marks(inner) for inner in value] if isinstance(value, list | tuple) else value


def tool_result(call_id: str, output: ToolOutput, platform: Platform, *, cited: bool = True) -> dict[str, Any]:
    """Return the `tool_result` block for a call's output; with `cited` False its results cannot be cited."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    if output.passages and not output.is_error and platform.search_results:
        found = [_search_result(passage, cited) for passage in output.passages if any(map(str.strip, passage.paragraphs))]
        block["content"] = found or [{"type": "text", "text": "No results."}]
    else:
        text = output.text or plain_results(output.passages) or "No results."
        block["content"] = [{"type": "text", "text": text}]
    if output.is_error and platform.is_error:
        block["is_error"] = True
    return block


def _search_result(passage: Passage, cited: bool) -> dict[str, Any]:
    return {
        "type": "search_result",
        "source": passage.url,
        "title": passage.title or passage.url,
        "content": [{"type": "text", "text": text} for text in (*passage.paragraphs, passage.note) if text.strip()],
        "citations": {"enabled": cited},
    }


def plain_results(passages: Sequence[Passage]) -> str:
    """Return passages as numbered plain text for platforms without `search_result` blocks (seed 000's form).

    Several sources are search hits, each description cut at a word near 200 characters. One source is a page, given whole, as
    are passages of a page that a search has read.
    """
    if len(passages) == 1:
        page = passages[0]
        return f"{page.title}\n{page.url}\n\n" + "\n\n".join(page.paragraphs)
    hits = [f"{n}. {p.title}\n   {p.url}\n{_plain_text(p)}" for n, p in enumerate(passages, 1)]
    return "Search Results:\n\n" + "\n\n".join(hits) if hits else ""


def _plain_text(passage: Passage) -> str:
    if passage.read == "page":
        return "\n\n".join(passage.paragraphs)
    return f"   {shorten(' '.join(passage.paragraphs), PLAIN_WIDTH)}" + (f"\n   {passage.note}" if passage.note else "")


def without_native(tools: str | Sequence[str]) -> tuple[list[str], bool]:
    """Return the wanted tools without the set "native", and whether it was among them.

    The API's tools have the names of ours, and a name may stand once in a request: next to the native set, `standard` and its
    tools are left out.
    """
    given = tools.replace("+", ",").split(",") if isinstance(tools, str) else as_tuple(tools, "tools")
    names = [part.strip() for part in given]
    if NATIVE not in names:
        return names, False
    return [name for name in names if name not in (NATIVE, "standard", "web_search", "web_fetch")], True


def server_tools(model: str, platform: Platform, max_uses: int, request: SearchRequest) -> tuple[dict[str, Any], ...]:
    """Return the API's own `web_search` and `web_fetch`, in the newest version that a model takes, each for `max_uses` uses.

    The domains and the country of `request` bind them; only one of the domain lists may be sent. Versions from 2026-02-09 on
    filter results with code and need a model that can call tools from code (platform.claude.com/docs/en/agents-and-tools/
    tool-use/web-search-tool and web-fetch-tool, read 2026-11).

    Raises:
        ConfigError: the platform runs no tools.
    """
    if not platform.server_tools:
        raise ConfigError(f"{platform.name} has no web tools of its own; use --tools standard, which works everywhere")
    old = bool(_OLDER.search(model)) or platform.name == "vertex"
    bounds: dict[str, Any] = {"max_uses": max_uses}
    if request.allowed_domains:
        bounds["allowed_domains"] = list(request.allowed_domains)
    elif request.blocked_domains:
        bounds["blocked_domains"] = list(request.blocked_domains)
    search = {"type": f"web_search_{FIRST_SEARCH if old else NEWEST}", "name": "web_search", **bounds}
    if request.country:
        search["user_location"] = {"type": "approximate", "country": request.country.upper()}
    if platform.name == "vertex":
        return (search,)
    fetch = {"type": f"web_fetch_{FIRST_FETCH if old else NEWEST}", "name": "web_fetch", **bounds}
    return search, {**fetch, "citations": {"enabled": True}}
