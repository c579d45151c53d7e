"""The events of a reply that is coming in, whatever form it comes in: as many at once as have come."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ipy_websearch.model.stream import FrameReader, excerpt, message_events, parse_body

Event = dict[str, Any]


def message_in(data: bytes) -> dict[str, Any]:
    """Return the message of a reply that came whole.

    Raises:
        ValueError: it is none; some server in between may have answered.
    """
    try:
        message = parse_body(data)
    except ValueError:
        message = None
    if isinstance(message, dict) and isinstance(message.get("content"), list):
        return message
    raise ValueError(f"the model's API answered with something that is no message: {excerpt(data, 200)!r}")


def _kind(response: Any) -> str:
    """Return how a reply comes: whole (some servers answer JSON although a stream was asked for), as text, or in frames."""
    content_type = response.headers.get("content-type", "")
    return "whole" if "json" in content_type else "frames" if "vnd.amazon.eventstream" in content_type else "text"


def arriving(response: Any) -> Iterator[list[Event]]:
    """Yield the events of a reply, as many at once as have come."""
    http, kind = response.http_response, _kind(response)
    if kind == "whole":
        yield message_events(message_in(http.read()))
    elif kind == "frames":  # only the SDK can read them
        for event in response._client._make_sse_decoder().iter_bytes(http.iter_bytes()):
            yield [json.loads(event.data)] if event.data else []
    else:
        reader = FrameReader()
        for piece in http.iter_bytes():
            yield reader.feed(piece)
        yield reader.end()


async def arriving_async(response: Any) -> AsyncIterator[list[Event]]:
    """The same for async clients."""
    http, kind = response.http_response, _kind(response)
    if kind == "whole":
        yield message_events(message_in(await http.aread()))
    elif kind == "frames":
        async for event in response._client._make_sse_decoder().aiter_bytes(http.aiter_bytes()):
            yield [json.loads(event.data)] if event.data else []
    else:
        reader = FrameReader()
        async for piece in http.aiter_bytes():
            yield reader.feed(piece)
        yield reader.end()
