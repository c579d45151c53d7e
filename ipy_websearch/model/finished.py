"""A message that was put together here, as the SDK's response to a caller who does not stream.

Nothing is written as text and read again, and the models are built in one go: the SDK's own way, field by field, takes six
times as long for a message with search results, more than sending the request does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, get_args

import anthropic
import httpx2
import pydantic
from anthropic import _response

from ipy_websearch.model.frames import encode


class WholeResponse(httpx2.Response):
    """A response that is a message; it becomes JSON text only for somebody who wants the text."""

    def __init__(self, message: dict[str, Any], status: int, headers: Any, request: Any) -> None:
        super().__init__(status, headers=headers, request=request, stream=httpx2.ByteStream(b""))
        self.is_closed = self.is_stream_consumed = True
        self._message = message

    @cached_property
    def _content(self) -> bytes:  # type: ignore[override]
        return encode(self._message).encode("utf-8", "replace")

    def json(self, **options: Any) -> Any:
        """Return the message."""
        return super().json(**options) if options else self._message


def parse_now(response: Any, message: Mapping[str, Any]) -> None:
    """Let a response of the SDK hold its parsed message, so that `parse()` does not read it as text first.

    What this needs of the SDK's inside is looked for: where it is not there, `parse()` reads the text.
    """
    kept, ids = getattr(response, "_parsed_by_type", None), getattr(_response, "add_response_ids", None)
    if kept is None or ids is None:
        return
    parsed = _built(response._cast_to, message) or response._parse()
    if callable(after := response._options.post_parser):
        parsed = after(parsed)
    if isinstance(parsed, anthropic.BaseModel):
        ids(parsed, request_id=response.request_id, workspace_id=response.workspace_id)
    kept[response._cast_to] = parsed


def _built(kind: Any, message: Mapping[str, Any]) -> anthropic.BaseModel | None:
    """Return a message as the SDK's model of it, None where the SDK has to see for itself: it takes what is not of its form."""
    try:
        blocks = _blocks(kind)
        content = [blocks[block["type"]].model_validate(block) for block in message["content"]]
        built: anthropic.BaseModel = kind.model_validate({**message, "content": []})
    except (pydantic.ValidationError, AttributeError, KeyError, TypeError, IndexError):
        return None
    built.content = content  # type: ignore[attr-defined]
    return built


@cache
def _blocks(kind: Any) -> Mapping[str, type[pydantic.BaseModel]]:
    """Return the models of a message's blocks by their `type`: of `Message`, and of the beta's.

    A union of them all would try each of them on every block.
    """
    listed = kind.model_fields["content"].annotation  # list[Annotated[Union[...], ...]]
    union = get_args(get_args(listed)[0])[0]
    return {get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(union)}
