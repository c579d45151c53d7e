"""What a request used, where the API does not say: counted from the texts that went there and came back. Pure.

Some servers report nothing, or something that is no count; a request that was cut off before its reply began is billed for what
it read all the same. Such a request is never taken for free: what is missing is estimated, and the booking says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ipy_websearch.model.requests import billed_tokens, prompt_tokens
from ipy_websearch.usage import USUAL, Terms, Usage, reported

CHARS_PER_TOKEN = 4
_TERMS = ("speed", "inference_geo")


def counted(fields: Any, body: Mapping[str, Any], content: Any) -> tuple[Usage, bool]:
    """Return what a request used by the reply's `usage` object, and whether any of it had to be estimated.

    `body` is the request, `content` the blocks of its reply. Terms of which the reply says nothing are those asked for.

    >>> counted({"input_tokens": 9, "output_tokens": None}, {"messages": []}, [{"type": "text", "text": "Matz wrote Ruby."}])
    (Usage(input_tokens=9, output_tokens=4, ...), True)
    """
    usage = Usage.from_api(fields)
    read, written = reported(fields, "input_tokens"), reported(fields, "output_tokens")
    if not read:
        cached = replace(usage, input_tokens=0).total_input_tokens
        # What the API's own tools may add is counted where they were used: cut off before that, the prompt alone was read.
        sent = billed_tokens(body) if _searched(content) else prompt_tokens(body)
        usage = replace(usage, input_tokens=max(0, sent - cached))
    if not written:
        usage = replace(usage, output_tokens=written_tokens(content))
    if Terms.of(body) is not USUAL:
        told = fields if isinstance(fields, Mapping) else {}
        usage = replace(usage, terms=Terms.of({**body, **{name: told[name] for name in _TERMS if told.get(name)}}))
    return usage, not (read and written)


def written_tokens(content: Any) -> int:
    """Return about how many tokens the blocks of a reply have: one for four characters."""
    chars = sum(len(str(b.get("text") or b.get("thinking") or b.get("input") or "")) for b in _blocks(content))
    return chars // CHARS_PER_TOKEN


def _searched(content: Any) -> bool:
    return any(block.get("type") == "server_tool_use" for block in _blocks(content))


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list | tuple) else []
