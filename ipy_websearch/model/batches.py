"""The Message Batches API: many requests handed in together, answered within a day at half the price of tokens.

Facts (platform.claude.com/docs/en/build-with-claude/batch-processing, read 2026-11): at most 100,000 requests and 256 MB; a
`custom_id` of at most 64 letters, digits, "_" and "-"; results in any order, one JSON line each, kept for 29 days; requests
that were not begun within 24 hours expire; a cancelled batch keeps what was answered by then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import ModelError
from ipy_websearch.model.client import NO_MESSAGE, ModelClient, excerpt

if TYPE_CHECKING:
    import anthropic


async def submit(client: ModelClient, requests: Sequence[Any]) -> str:
    """Hand in requests, each {"custom_id": …, "params": a body}; return the new batch's id.

    Raises:
        ModelError: it was refused, or may have arrived all the same: `may_be_billed` tells.
    """
    with _opened(client) as sdk:
        return (await sdk.messages.batches.create(requests=requests)).id


async def results(client: ModelClient, batch: str) -> dict[str, Mapping[str, Any]] | None:
    """Return the results of a batch by custom_id, None as long as it has not ended; `result["type"]` is succeeded (with a
    "message"), errored (with an "error"), canceled or expired.

    A line that cannot be read is left out: the SDK's own reader would stop there, each time, and all of the batch is paid for.

    Raises:
        ModelError: `status` 404: this key knows no such batch; otherwise the API failed, also in the middle.
    """
    found: dict[str, Mapping[str, Any]] = {}
    with _opened(client) as sdk:
        if (await sdk.messages.batches.retrieve(batch)).processing_status != "ended":
            return None
        async with sdk.messages.batches.with_streaming_response.results(batch) as response:
            content = await response.read()
        for line in content.splitlines():
            with suppress(ValueError, LookupError, TypeError, RecursionError):
                entry = json.loads(line)
                found[str(entry["custom_id"])] = dict(entry["result"])
        if not found:  # a page of somebody between
            raise ValueError(content[:100].decode(errors="replace"))
    return found


@contextmanager
def _opened(client: ModelClient) -> Iterator[anthropic.AsyncAnthropic]:
    """Give the SDK's client, whose answers of another form than the API's, which it does not check, become errors.

    Raises:
        ModelError: whatever goes wrong inside; of the kind "truncated" when what was asked for may have been done all the same.
    """
    try:
        with client.opened() as sdk:
            yield sdk
    except (ValueError, TypeError, AttributeError, RecursionError) as exc:
        raise ModelError(
            f"the answer is not of the Message Batches API ({excerpt(str(exc).encode(), 80)}); is ANTHROPIC_BASE_URL right?",
            status=200,
            kind="truncated" if isinstance(exc, ValueError) else NO_MESSAGE,
        ) from exc
