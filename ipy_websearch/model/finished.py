"""A message that was put together here, as the SDK's response to a caller who does not stream.

Nothing is written as text and read again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any

import anthropic
import httpx2
from anthropic import _response

from ipy_websearch.model.built import built
from ipy_websearch.model.frames import encode


class WholeResponse(httpx2.Response):
    """A response that is a message; it becomes JSON text only for somebody who wants the text, as often as that is."""

    def __init__(self, status: int, headers: Any, request: Any, message: dict[str, Any]) -> None:
        super().__init__(status, headers=headers, request=request, stream=_Text(message))
        self.is_closed = self.is_stream_consumed = True
        self._message = message

    @cached_property
    def _content(self) -> bytes:  # type: ignore[override]
        return _text(self._message)

    def iter_raw(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Yield the text."""
        return self.iter_bytes(chunk_size)

    def aiter_raw(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        """The same for async clients."""
        return self.aiter_bytes(chunk_size)


class _Text(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    def __init__(self, message: dict[str, Any]) -> None:
        self._message = message

    def __iter__(self) -> Iterator[bytes]:
        yield _text(self._message)

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        yield _text(self._message)


def _text(message: Mapping[str, Any]) -> bytes:
    return encode(message).encode("utf-8", "replace")


def parse_now(response: Any, message: Mapping[str, Any]) -> None:
    """Let a response of the SDK hold its parsed message, so that `parse()` does not read it as text first.

    What this needs of the SDK's inside is looked for: where it is not there, `parse()` reads the text. So it does where the
    message is not what the caller asked for: whoever calls `parse()` hears of it, and middleware and raw responses get the
    message all the same.
    """
    kept, ids = getattr(response, "_parsed_by_type", None), getattr(_response, "add_response_ids", None)
    if kept is None or ids is None:
        return
    try:
        parsed = built(response._cast_to, _apart(message)) or response._parse()
        if callable(after := response._options.post_parser):
            parsed = after(parsed)
    except Exception:  # of a strict client, or of the caller's own model for the answer
        return
    if isinstance(parsed, anthropic.BaseModel):
        ids(parsed, request_id=response.request_id, workspace_id=response.workspace_id)
    kept[response._cast_to] = parsed


def _apart(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message whose model is the caller's to change: the SDK takes what is in a call's input as it is."""
    blocks = [{**block, "input": deepcopy(block["input"])} if _is_deep(block) else block for block in message["content"]]
    return {**message, "content": blocks}


def _is_deep(block: Mapping[str, Any]) -> bool:
    given = block.get("input")
    return isinstance(given, dict) and any(isinstance(value, dict | list) for value in given.values())
