"""Builds Messages API requests: the body, tool results in the form the platform takes, and the cache breakpoints. Pure.

Rules (platform.claude.com/docs/en/build-with-claude/{search-results,prompt-caching}, agents-and-tools/tool-use, read 2026-11):
all blocks of a tool result are `search_result`s or none is; each text block inside is what a citation points to, so pages
come in paragraphs; no `citations` array may stand on a user's text block (API version 2026-10-21); at most four
cache breakpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from ipy_websearch.model.media import IMAGE_TOKENS, names_more, without_images
from ipy_websearch.model.platforms import Platform
from ipy_websearch.money.prices import context_window
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
    """Return the body of a request (without `stream`); `messages` and `tools` are shared with it, and left untouched."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens,
        "system": [{"type": "text", "text": system}],
        "messages": list(messages),
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
    """Put cache breakpoints on the last block of the newest user messages; the older one is where the next request,
    whose prefix it shares, finds the cache again even when more than 20 blocks were added since."""
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
    """Return a part of a request without cache breakpoints, which move from request to request and say nothing to the model."""
    if isinstance(value, Mapping):
        return {name: without_marks(inner) for name, inner in value.items() if name != "cache_control"}
    return [without_marks(inner) for inner in value] if isinstance(value, list | tuple) else value


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
    """Return the most input tokens that a request is to be expected to be billed for.

    Where the API itself searches, it reads the prompt again after each use: that is counted for all uses that the request
    allows (see `native_tokens`). What the request only names counts as all that the model can read, and what is compacted
    is read once more for that.
    """
    tokens = prompt_tokens(body)
    if names_more(body):
        tokens = max(tokens, context_window(str(body.get("model"))))
    total = _with_native(tokens, body)
    return 2 * total if total >= compacts_from(body) else total


def billed_tokens(body: Mapping[str, Any]) -> int:
    """Return `estimate_tokens` without what the request only names: for booking, where the most is not the likely."""
    return _with_native(prompt_tokens(body), body)


def _with_native(tokens: int, body: Mapping[str, Any]) -> int:
    if (body.get("tool_choice") or {}).get("type") == "none":
        return tokens
    return tokens + native_tokens(tokens, body.get("tools") or ())


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """Return the most tokens that what a request sends is to be expected to have, by the kinds of its characters.

    A ceiling needs a figure that the API does not pass: every kind of character counts what its dearest common use takes,
    and the prompts that the API adds count too. An image counts as the largest there is. What the request only names (a
    document by its address, a file) does not count: see `names_more`.
    """
    import json

    visible = {name: body[name] for name in ("system", "messages", "tools") if name in body}
    images = 0
    if "messages" in visible:
        visible["messages"], images = without_images(visible["messages"])
    text = json.dumps(visible, ensure_ascii=False)
    tokens = text_tokens(text) + images * IMAGE_TOKENS + (_TOOL_PROMPT if body.get("tools") else _PLAIN_PROMPT)
    return tokens + (_CITING_PROMPT if '"citations"' in text else 0)


def text_tokens(text: str) -> int:
    """Return the most tokens that a text is to be expected to have, about 1.5 times what English prose has."""
    data = text.encode("utf-8", "surrogatepass")
    rest, hundredths = data, 0
    for members, weight in _WEIGHTS:
        left = rest.translate(None, members)
        hundredths += (len(rest) - len(left)) * weight
        if not (rest := left):
            break
    # Keys, hashes and base64 have hardly a word in them: twice as many tokens as letters otherwise have.
    words = data.translate(_WORDS)
    unbroken = sum([b" " not in words[at : at + _RUN] for at in range(0, len(words) - _RUN + 1, _RUN)])
    hundredths += unbroken * _RUN * _LETTER
    return -(-hundredths // 100)


def compacts_from(body: Mapping[str, Any]) -> float:
    """Return the input tokens from which on the API compacts the history of a request; infinite where it never does."""
    management = body.get("context_management")
    edits = management.get("edits") if isinstance(management, Mapping) else None
    for edit in edits if isinstance(edits, list | tuple) else ():
        if isinstance(edit, Mapping) and str(edit.get("type")).startswith("compact_"):
            trigger = edit.get("trigger")
            value = trigger.get("value") if isinstance(trigger, Mapping) else None
            return value if isinstance(value, int) else _COMPACTED_FROM
    return inf


def caches_for_an_hour(body: Mapping[str, Any]) -> bool:
    """Say whether a request writes to the prompt cache for longer than five minutes, which costs more."""
    places: list[Any] = [body]
    while places:
        place = places.pop()
        if isinstance(place, Mapping):
            mark = place.get("cache_control")
            if isinstance(mark, Mapping) and mark.get("ttl") not in (None, "5m"):
                return True
            places += place.values()
        elif isinstance(place, list | tuple):
            places += place
    return False


def native_tokens(tokens: int, tools: Sequence[Mapping[str, Any]]) -> int:
    """Return what the API's own tools may add to the input of one request, when each is used as often as it may be.

    After each use the model reads all of the prompt again, and the API bills every reading. Recorded in 2026: ten searches
    made 2,479 tokens into 404,500, about 7,800 for each search's results.
    """
    sizes = []
    for tool in tools:
        kind = str(tool.get("type", ""))
        if kind.startswith("web_search_"):
            sizes += [SEARCH_RESULT_TOKENS] * int(tool.get("max_uses") or _API_USES)
        elif kind.startswith("web_fetch_"):
            sizes += [int(tool.get("max_content_tokens") or _PAGE_TOKENS)] * int(tool.get("max_uses") or _API_USES)
    total = read = 0
    for size in sorted(sizes, reverse=True):
        read += size
        total += tokens + read
    return total


def server_searches(tools: Sequence[Mapping[str, Any]]) -> int:
    """Return how many searches the API itself may make in one request with these tools."""
    native = [tool for tool in tools if str(tool.get("type", "")).startswith("web_search_")]
    return sum(int(tool.get("max_uses") or _API_USES) for tool in native)


SEARCH_RESULT_TOKENS = 12_000
"""What the results of one of the API's own searches may have; about 7,800 were recorded."""

USUAL_NATIVE_TOKENS = 7_800
"""What the results of one of the API's own searches usually have."""

_COMPACTED_FROM = 150_000  # the default (anthropic 2.12 `types/beta/beta_compact_20260112_edit_param.py`, read 2026-11)
_API_USES = 10  # how often the API uses a tool in one request before it pauses, when no bound is set
_PAGE_TOKENS = 50_000

# The prompts that the API adds: for tools 286 to 496 tokens are documented (platform.claude.com/docs, "Tool use", read
# 2026-11); for results that can be cited about 500 are in the recordings.
_PLAIN_PROMPT, _TOOL_PROMPT, _CITING_PROMPT = 50, 600, 700

_LETTER = 40


def _leads(first: int, last: int) -> bytes:
    return bytes(range(first, last + 1))


# Hundredths of a token for each byte of a kind. Non-ASCII characters count by their first UTF-8 byte, so one weight stands
# for a whole character: Latin, Greek, Cyrillic 1 token; Chinese, Japanese, Korean and symbols 2; the other scripts (Thai,
# Devanagari, …) and emoji, which tokenizers cut down to single bytes, as many as they have bytes.
_WEIGHTS = (
    (b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTER),
    (b"0123456789", 100),
    (b" \t\n\r", 25),
    (bytes(set(range(33, 128)) - set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")), 75),
    (_leads(0x00, 0x1F).translate(None, b"\t\n\r"), 100),
    (_leads(0xC0, 0xD3), 100),
    (_leads(0xD4, 0xDF) + _leads(0xE2, 0xED), 200),
    (_leads(0xE0, 0xE1) + _leads(0xEE, 0xEF), 300),
    (_leads(0xF0, 0xF7), 400),
)
_RUN = 32  # bytes without a break, looked for at every 32nd byte: longer than words are
_WORDS = bytes(b if chr(b).isascii() and (chr(b).isalnum() or chr(b) in "+/=") else 32 for b in range(256))
