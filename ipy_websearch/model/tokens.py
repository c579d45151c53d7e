"""How many tokens a request may have, before it is sent, and had, where the API does not say. Pure.

A budget needs a figure that the API does not pass: each kind of character counts what its dearest common use takes (about 1.5
times what English prose has), and the prompts that the API adds for tools and citations count too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ipy_websearch.model.platforms import context_window
from ipy_websearch.usage import USUAL, Terms, Usage, reported

CHARS_PER_TOKEN = 4
IMAGE_TOKENS = 5_000
"""The most that an image has: larger ones are made smaller (platform.claude.com/docs, "Vision", read 2026-11)."""

SEARCH_RESULT_TOKENS = 12_000
"""What the results of one of the API's own searches may have; about 7,800 were recorded."""

_API_USES = 10  # how often the API uses a tool in one request before it pauses, when no bound is set
_PAGE_TOKENS = 50_000

# 286 to 496 tokens are documented for tools (platform.claude.com/docs, "Tool use", read 2026-11); for results that can be cited
# about 500 are in the recordings.
_PLAIN_PROMPT, _TOOL_PROMPT, _CITING_PROMPT = 50, 600, 700
_LETTER = 40


def _leads(first: int, last: int) -> bytes:
    return bytes(range(first, last + 1))


# Hundredths of a token for each byte of a kind. Non-ASCII characters count by their first UTF-8 byte, so one weight stands for
# a whole character: Latin, Greek, Cyrillic 1 token; Chinese, Japanese, Korean and symbols 2; the other scripts and emoji, which
# tokenizers cut down to single bytes, as many as they have bytes.
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WEIGHTS = (
    (_LETTERS, _LETTER),
    (b"0123456789", 100),
    (b" \t\n\r", 25),
    (bytes(set(range(33, 128)) - set(_LETTERS + b"0123456789")), 75),
    (_leads(0x00, 0x1F).translate(None, b"\t\n\r"), 100),
    (_leads(0xC0, 0xD3), 100),
    (_leads(0xD4, 0xDF) + _leads(0xE2, 0xED), 200),
    (_leads(0xE0, 0xE1) + _leads(0xEE, 0xEF), 300),
    (_leads(0xF0, 0xF7), 400),
)
_RUN = 32  # bytes without a break, looked for at every 32nd byte: longer than words are
_WORDS = bytes(b if chr(b).isascii() and (chr(b).isalnum() or chr(b) in "+/=") else 32 for b in range(256))


def text_tokens(text: str) -> int:
    """Return the most tokens that a text is to be expected to have."""
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
    return -(-(hundredths + unbroken * _RUN * _LETTER) // 100)


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """Return the most tokens that the system prompt, messages and tools of a request are to be expected to have."""
    shown, images = _without_images({name: body[name] for name in ("system", "messages", "tools") if name in body})
    text = json.dumps(shown, ensure_ascii=False)
    tokens = text_tokens(text) + images * IMAGE_TOKENS + (_TOOL_PROMPT if body.get("tools") else _PLAIN_PROMPT)
    return tokens + (_CITING_PROMPT if '"citations"' in text else 0)


def estimate_tokens(body: Mapping[str, Any]) -> int:
    """Return the most input tokens that a request is to be expected to be billed for.

    Where the API itself searches, it reads the prompt again after each use: that is counted for all uses that the request
    allows. A request that names documents elsewhere counts as all that the model can read.
    """
    tokens = prompt_tokens(body)
    if any(
        block["source"].get("type") in ("url", "file") for block in _sourced(body.get("messages")) if block["type"] != "image"
    ):
        tokens = max(tokens, context_window(str(body.get("model"))))
    return tokens + _native(tokens, body)


def _native(tokens: int, body: Mapping[str, Any]) -> int:
    return 0 if (body.get("tool_choice") or {}).get("type") == "none" else native_tokens(tokens, body.get("tools") or ())


def caches_for_an_hour(part: Any) -> bool:
    """Say whether a request writes to the prompt cache for longer than five minutes, which costs more."""
    if isinstance(part, list | tuple):
        return any(map(caches_for_an_hour, part))
    if not isinstance(part, Mapping):
        return False
    mark = part.get("cache_control")
    long = isinstance(mark, Mapping) and mark.get("ttl") not in (None, "5m")
    return long or any(map(caches_for_an_hour, part.values()))


def native_tokens(tokens: int, tools: Sequence[Mapping[str, Any]]) -> int:
    """Return what the API's own tools may add to the input of one request, when each is used as often as it may be.

    After each use the model reads all of the prompt again, and the API bills every reading. Recorded in 2026: ten searches
    made 2,479 tokens into 404,500.
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
    return sum(int(t.get("max_uses") or _API_USES) for t in tools if str(t.get("type", "")).startswith("web_search_"))


def counted(fields: Any, body: Mapping[str, Any], content: Any) -> tuple[Usage, bool]:
    """Return what a request used by its reply's `usage` object, and whether any of it had to be estimated.

    Some servers report nothing, and a request that was cut off before its reply began is billed for what it read all the same:
    it is never taken for free. `body` is the request, `content` the blocks of the reply.

    >>> counted({"input_tokens": 9, "output_tokens": None}, {"messages": []}, [{"type": "text", "text": "Matz wrote Ruby."}])
    (Usage(input_tokens=9, output_tokens=4, ...), True)
    """
    usage = Usage.from_api(fields)
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list | tuple) else []
    read, written = reported(fields, "input_tokens"), reported(fields, "output_tokens")
    if not read:
        sent = prompt_tokens(body)
        if any(block.get("type") == "server_tool_use" for block in blocks):
            sent += _native(sent, body)
        usage = replace(usage, input_tokens=max(0, sent - replace(usage, input_tokens=0).total_input_tokens))
    if not written:
        usage = replace(usage, output_tokens=written_tokens(blocks))
    if Terms.of(body) is not USUAL:  # terms of which the reply says nothing are those asked for
        told = {name: fields[name] for name in ("speed", "inference_geo") if isinstance(fields, Mapping) and fields.get(name)}
        usage = replace(usage, terms=Terms.of({**body, **told}))
    return usage, not (read and written)


def written_tokens(blocks: Sequence[Mapping[str, Any]]) -> int:
    """Return about how many tokens the blocks of a reply have."""
    return sum(len(str(b.get("text") or b.get("thinking") or b.get("input") or "")) for b in blocks) // CHARS_PER_TOKEN


def _sourced(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the images and documents in messages or blocks, also those inside of results."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _sourced(part)
    elif isinstance(value, Mapping):
        if value.get("type") in ("image", "document") and isinstance(value.get("source"), Mapping):
            yield value
        yield from _sourced(value.get("content"))


def _without_images(value: Any) -> tuple[Any, int]:
    """Return a part of a request without the data of its images, and how many there are."""
    if isinstance(value, list | tuple):
        parts = [_without_images(part) for part in value]
        return [part for part, _ in parts], sum(count for _, count in parts)
    if not isinstance(value, Mapping):
        return value, 0
    if value.get("type") in ("tool_use", "server_tool_use"):
        return value, 0  # what a model wrote as a tool's input is text, whatever it looks like
    if value.get("type") == "image" and isinstance(value.get("source"), Mapping):
        return {"type": "image"}, 1
    pairs = {name: _without_images(part) for name, part in value.items()}
    return {name: part for name, (part, _) in pairs.items()}, sum(count for _, count in pairs.values())
