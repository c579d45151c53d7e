"""Reads the bodies of the API's answers: whole messages, and streams as they come in. Bytes that are no UTF-8 are replaced.

What is no answer of the Messages API at all (a login page, some other service's JSON) is told apart from an answer that broke
off: the one is the same when it is asked for again, the other may not be.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import ModelError
from ipy_websearch.text import plain, shorten, sound

if TYPE_CHECKING:
    import httpx2

NO_MESSAGE = "no_message"
"""The kind of the error for what is no answer of the Messages API."""

_EXCERPT_BYTES, _EXCERPT_CHARS = 400, 80
_ODD = re.compile(rb"\\u[dD][89a-fA-F]|NaN|Infinity")  # what may stand for half a character, or for no number
_FIELDS = (b"event:", b"data:", b"id:", b"retry:", b":")  # what a line of a stream begins with


def parsed(content: bytes) -> Any:
    """Return a body as JSON that can be sent back: see `sound`.

    Raises:
        ValueError: it is none, or nested too deeply to be meant.
    """
    try:
        value = json.loads(content.decode("utf-8-sig", "replace"))
        return sound(value) if _ODD.search(content) else value
    except RecursionError:
        raise ValueError("nested too deeply") from None


def excerpt(content: bytes, width: int, redact: Callable[[str], str] = str) -> str:
    """Return how a body begins, as one line of plain text; `redact` takes keys out of it."""
    return shorten(redact(plain(content[:_EXCERPT_BYTES].decode("utf-8", "replace"))), width)


def parsed_message(content: bytes, redact: Callable[[str], str]) -> dict[str, Any]:
    """Return the message (or the API's error object) that a body holds; `redact` takes keys out of error texts.

    Raises:
        ModelError: it is neither; of the kind `NO_MESSAGE` when asking again is of no use.
    """
    try:
        value = parsed(content)
    except ValueError:
        value = None
        text = content.strip()
        if not text or (text.startswith(b"{") and not text.endswith(b"}")):
            raise _too_soon() from None
    if not isinstance(value, dict) or not (isinstance(value.get("content"), list) or value.get("type") == "error"):
        raise _no_message(content, redact)
    return value


async def stream_pieces(response: httpx2.Response, redact: Callable[[str], str]) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield the events of a streamed response, as many at once as have come.

    Raises:
        ModelError: the body has ended without a single event of the Messages API, and is no stream that broke off.
    """
    from ipy_websearch.model.frames import FrameReader

    reader, start, held = FrameReader(), b"", [b""]
    seen = typed = False
    async for piece in response.aiter_bytes():
        start = start or piece[:_EXCERPT_BYTES]
        held.append(piece)
        if b"\n" not in piece and b"\r" not in piece:
            continue  # no event ends here; one that is long would be looked through again with each piece
        events, held = reader.feed(b"".join(held)), [b""]
        if events:
            seen, typed = True, typed or _is_typed(events)
            yield events
    events = reader.feed(b"".join(held)) + reader.end()
    if events:
        typed = typed or _is_typed(events)
        yield events
    if not typed and (events or seen or not _is_stream(start)):
        raise _no_message(start, redact)


def _is_typed(events: list[dict[str, Any]]) -> bool:
    """Say whether events are the Messages API's; those of other services have no `type`, or it is no text."""
    return any(isinstance(event.get("type"), str) for event in events)


def _is_stream(start: bytes) -> bool:
    """Say whether a body that held no event may be the beginning of a stream."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    return not text or text.startswith(_FIELDS) or any(field.startswith(text) for field in _FIELDS)


def _too_soon() -> ModelError:
    return ModelError("the model's answer ended too soon", status=200, kind="truncated")


def _no_message(content: bytes, redact: Callable[[str], str]) -> ModelError:
    began = excerpt(content, _EXCERPT_CHARS, redact) or "a page without text"
    return ModelError(
        f"what came is no message of the Messages API ({began}); is ANTHROPIC_BASE_URL right, and no login page in between?",
        status=200,
        kind=NO_MESSAGE,
    )
