"""What of a request has no size that its characters tell: images, and what is only named (by an address or an id). Pure.

Only the blocks that the API reads so are looked into: what a model wrote as a tool's input is text, whatever it says it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

IMAGE_TOKENS = 5_000
"""The most that an image has: larger ones are made smaller, to 4,784 tokens for the models that see the most
(platform.claude.com/docs/en/build-with-claude/vision, read 2026-11)."""

_HERE = ("base64", "text", "content")  # documents that are in the request themselves


def without_images(content: Any) -> tuple[Any, int]:
    """Return messages, or blocks, without the data of their images, and how many images there are.

    >>> without_images([{"type": "image", "source": {"type": "base64", "data": "iVBO"}}])
    ([{'type': 'image', 'source': 'base64'}], 1)
    """
    images = sum(block.get("type") == "image" for block in _sourced(content))
    return (_stripped(content), images) if images else (content, 0)


def names_more(body: Mapping[str, Any]) -> bool:
    """Say whether the model reads more than what is in a request: documents elsewhere, or turns that the server keeps."""
    thread = body.get("thread")
    if isinstance(thread, Mapping) and thread.get("previous_message_id"):
        return True
    documents = (block for block in _sourced(body.get("messages")) if block.get("type") != "image")
    return any(block["source"].get("type") not in _HERE for block in documents)


def _sourced(content: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the images and documents in messages or blocks, also those inside of results and of other documents."""
    if isinstance(content, list | tuple):
        for part in content:
            yield from _sourced(part)
    elif isinstance(content, Mapping):
        source = content.get("source")
        if isinstance(source, Mapping) and content.get("type") in ("image", "document"):
            yield content
            yield from _sourced(source.get("content"))
        yield from _sourced(content.get("content"))


def _stripped(content: Any) -> Any:
    if isinstance(content, list | tuple):
        return [_stripped(part) for part in content]
    if not isinstance(content, Mapping):
        return content
    source, kind = content.get("source"), content.get("type")
    if isinstance(source, Mapping) and kind == "image":
        return {**content, "source": source.get("type")}
    if isinstance(source, Mapping) and kind == "document" and "content" in source:
        content = {**content, "source": {**source, "content": _stripped(source["content"])}}
    return {**content, "content": _stripped(content["content"])} if "content" in content else content
