"""Replies that nobody watches: one request, one whole message, through the same SDK client as streams.

A row of an enrichment needs no text as it is written, and a whole message costs half the processor time of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipy_websearch.errors import ModelError
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.frames import FrameReader
from ipy_websearch.model.reply import Reply


async def whole_message(client: ModelClient, body: Mapping[str, Any]) -> dict[str, Any]:
    """Send a Messages API request and return the message as a plain dict, with `stop_reason`, `content` and `usage`.

    Raises:
        ModelError: the API refused it, could not be reached, or answered with something that is no message.
    """
    response = await client.response(body)
    streamed = "event-stream" in response.headers.get("content-type", "")
    return _from_stream(client, response.content) if streamed else client.message_in(response.content)


def _from_stream(client: ModelClient, content: bytes) -> dict[str, Any]:
    """Return the message of a stream, which some servers send whether or not one was asked for."""
    reply, reader = Reply(), FrameReader()
    try:
        events = [*reader.feed(content), *reader.end()]
    except (ValueError, RecursionError):
        raise ModelError("the model's answer cannot be read: an event is not JSON", status=200, kind="truncated") from None
    for event in events:
        if event.get("type") == "error":
            raise client.stream_error(event)
        reply.apply(event)
    if not reply.complete:
        raise ModelError("the model's answer ended too soon", status=200, kind="truncated")
    facts = {"stop_reason": reply.stop_reason, "stop_details": reply.stop_details, "usage": reply.usage_fields}
    return {"model": reply.model, "content": reply.content, **facts}
