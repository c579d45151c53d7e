"""A model's client for many rows at once: when the API says that it is too much, fewer requests run and the others wait.

What is overloaded is asked again for as long as the API answers anybody at all; every other failure is the loop's to judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ipy_websearch.enrichment.schedule import Gate
from ipy_websearch.enrichment.sender import MAX_OVERLOADS, PATIENCE_S, backoff_s, is_overload
from ipy_websearch.errors import ModelError
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.retry import retry_wait_s


class PacedClient(ModelClient):
    """Sends through `client`, past a gate that all rows share."""

    def __init__(self, client: ModelClient, gate: Gate) -> None:
        self._inner = client
        self._gate = gate
        self.offline = client.offline

    @property
    def platform(self) -> Platform:
        """What the platform in force can take."""
        return self._inner.platform

    @property
    def request_id(self) -> str | None:
        """The API's name for the newest request of the running task."""
        return self._inner.request_id

    async def pieces(self, body: Mapping[str, Any]) -> AsyncIterator[list[dict[str, Any]]]:
        """Send a request and yield its events; see `ModelClient.pieces`."""
        overloads = 0
        while True:
            ticket = await self._gate.enter(again=overloads > 0)
            begun = False
            try:
                async for events in self._inner.pieces(body):
                    begun = True
                    yield events
            except ModelError as exc:
                if not is_overload(exc):
                    self._gate.leave(ticket)
                    raise
                self._gate.refused(ticket, exc.retry_after)
                overloads += 1
                if begun or not self._may_repeat(exc, overloads):
                    raise
                if exc.retry_after is None:
                    await asyncio.sleep(backoff_s(overloads))
                continue
            except BaseException:
                self._gate.leave(ticket)
                raise
            self._gate.succeeded(ticket)
            return

    def _may_repeat(self, error: ModelError, overloads: int) -> bool:
        return retry_wait_s(error, 1) is not None and self._gate.starved_s < PATIENCE_S and overloads < MAX_OVERLOADS
