"""A model's client for many rows at once: when the API says that it is too much, fewer requests run and the others wait.

What is overloaded is asked again for as long as the API answers anybody at all; every other failure is the loop's to judge.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from ipy_websearch.enrichment.schedule import Gate
from ipy_websearch.enrichment.sender import Overloads, is_overload
from ipy_websearch.errors import ModelError
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.platforms import Platform


class PacedClient(ModelClient):
    """Sends through `client`, past a gate that all rows share. `held_back` is True while a request waits there."""

    def __init__(self, client: ModelClient, gate: Gate) -> None:
        self._inner = client
        self._gate = gate
        self.offline = client.offline
        self.held_back = False

    @property
    def platform(self) -> Platform:
        """What the platform in force can take."""
        return self._inner.platform

    @property
    def request_id(self) -> str | None:
        """The API's name for the newest request of the running task."""
        return self._inner.request_id

    async def events(self, body: Mapping[str, Any]) -> AsyncIterator[list[dict[str, Any]]]:
        """Send a request and yield its events; see `ModelClient.events`."""
        overloads = Overloads(self._gate)
        while True:
            self.held_back = True
            ticket = await self._gate.enter(again=overloads.count > 0)
            self.held_back = begun = False
            try:
                async for events in self._inner.events(body):
                    begun = True
                    yield events
            except ModelError as exc:
                if not is_overload(exc):
                    self._gate.leave(ticket)
                    raise
                self._gate.refused(ticket, exc.retry_after)
                wait = overloads.wait_s(exc)
                if begun or wait is None:
                    raise
                self.held_back = True
                await self._gate.pause(wait)
                continue
            except BaseException:
                self._gate.leave(ticket)
                raise
            self._gate.succeeded(ticket)
            return
