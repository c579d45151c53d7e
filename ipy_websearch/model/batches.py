"""The Message Batches API: many requests handed in together, answered within a day at half the price of tokens.

Facts (platform.claude.com/docs/en/build-with-claude/batch-processing, read 2026-11): at most 100,000 requests and 256 MB; a
`custom_id` of at most 64 letters, digits, "_" and "-"; results in any order, one JSON line each, kept for 29 days; requests
that were not begun within 24 hours expire; a cancelled batch keeps what was answered by then.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from ipy_websearch.errors import ConfigError, ModelError
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.stream import NO_MESSAGE, excerpt

if TYPE_CHECKING:
    from anthropic.types.messages import MessageBatch

_PAGE = 100  # batches in one page of the list, the most that the API gives
_AS_IT_COMES = {"X-Stainless-Raw-Response": "stream"}  # tells the SDK not to read the whole answer first


def check(client: ModelClient) -> None:
    """Refuse a platform that has no batches.

    Raises:
        ConfigError: the message says what to do.
    """
    if client.platform.name != "anthropic":
        what = "the built-in offline model" if client.offline else client.platform.name
        raise ConfigError(f"{what} has no Message Batches; leave mode='batch' out, or ask a model of the Anthropic API")


async def submit(client: ModelClient, requests: Sequence[Any]) -> MessageBatch:
    """Hand in requests, each {"custom_id": …, "params": a body}; return the new batch.

    Raises:
        ModelError: it was refused, or may or may not have arrived (`status` is None then, or 5xx).
    """
    with client.opened() as sdk:
        return _checked(await sdk.messages.batches.create(requests=requests))


async def look_up(client: ModelClient, batch: str) -> MessageBatch:
    """Return a batch as it stands.

    Raises:
        ModelError: `status` 404: this key knows no such batch; otherwise the API failed.
    """
    with client.opened() as sdk:
        return _checked(await sdk.messages.batches.retrieve(batch))


async def cancel(client: ModelClient, batch: str) -> None:
    """Ask for a batch to be ended; what is answered by then is kept and paid.

    Raises:
        ModelError: as with `look_up`.
    """
    with client.opened() as sdk:
        _checked(await sdk.messages.batches.cancel(batch))


async def recent(client: ModelClient, since: datetime) -> list[MessageBatch]:
    """Return the batches that were created at `since` or later, newest first.

    Raises:
        ModelError: the API failed.
    """
    found = []
    with client.opened() as sdk:
        try:
            async for batch in sdk.messages.batches.list(limit=_PAGE):
                if _checked(batch).created_at < since:
                    break
                found.append(batch)
        except AttributeError as exc:  # what the SDK raises where the answer is no list at all
            _checked(exc)
    return found


def size(batch: MessageBatch) -> int:
    """Return how many requests a batch has."""
    return sum(int(str(count)) for count in batch.request_counts.to_dict(exclude_none=True).values())


async def results(client: ModelClient, batch: str) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
    """Yield (custom_id, result) of an ended batch as the lines arrive; `result["type"]` is succeeded (then with a "message"),
    errored (with an "error"), canceled or expired.

    A line that cannot be read is left out; the SDK's own reader would stop there.

    Raises:
        ModelError: the API failed, also in the middle; what was yielded before is good.
    """
    with client.opened() as sdk:
        import httpx2

        options: Any = {"headers": _AS_IT_COMES}
        response: Any = await sdk.get(f"/v1/messages/batches/{batch}/results", cast_to=httpx2.Response, options=options)
        try:
            async for line in response.aiter_lines():
                if (entry := _entry(line)) is not None:
                    yield entry
        finally:
            await response.aclose()


def _entry(line: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return (custom_id, result) of a line, None when it is broken."""
    try:
        entry = json.loads(line)
        custom_id, result = entry["custom_id"], entry["result"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (str(custom_id), result) if isinstance(result, dict) else None


def _checked(batch: Any) -> MessageBatch:
    """Return what the SDK made of an answer, which it does not check itself.

    Raises:
        ModelError: it is no batch.
    """
    if isinstance(getattr(batch, "created_at", None), datetime) and getattr(batch, "request_counts", None):
        return cast("MessageBatch", batch)
    what = excerpt(str(batch).encode(), 60)
    text = f"the answer is no batch of the Message Batches API ({what!r}); is ANTHROPIC_BASE_URL right?"
    raise ModelError(text, status=200, kind=NO_MESSAGE)
