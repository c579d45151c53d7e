"""The SDK's clients: the newest is used; one that was replaced is closed when its last request has ended.

Invariant: no client is dropped without being closed, whoever asks for one at the same time; opening is one step without a
wait, so two callers never open the same client twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import anthropic


class SdkClients:
    """Clients by the settings (platform, key, address) that they were opened for; only the newest settings count."""

    def __init__(self) -> None:
        self._settings: tuple[Any, ...] = ()
        self._newest: anthropic.AsyncAnthropic | None = None
        self._replaced: list[anthropic.AsyncAnthropic] = []
        self._users: Counter[int] = Counter()

    def newest(self, settings: tuple[Any, ...], open_one: Callable[[], anthropic.AsyncAnthropic]) -> anthropic.AsyncAnthropic:
        """Return the client for these settings, opened by `open_one` when there is none; it replaces the one before."""
        if self._newest is None or settings != self._settings:
            opened = open_one()
            self._replaced += [] if self._newest is None else [self._newest]
            self._settings, self._newest = settings, opened
        return self._newest

    @asynccontextmanager
    async def in_use(self, client: anthropic.AsyncAnthropic) -> AsyncIterator[None]:
        """Keep a client open while a request runs on it; then close those that were replaced and are idle."""
        self._users[id(client)] += 1
        try:
            await self._close_idle()
            yield
        finally:
            self._users[id(client)] -= 1
            await self._close_idle()

    async def _close_idle(self) -> None:
        idle = [client for client in self._replaced if not self._users[id(client)]]
        if idle:
            self._replaced = [client for client in self._replaced if client not in idle]
            for client in idle:
                del self._users[id(client)]
                await client.close()

    async def aclose(self) -> None:
        """Close all of them."""
        for client in self._drained():
            await client.close()

    def _drained(self) -> list[anthropic.AsyncAnthropic]:
        clients = [*self._replaced, *([] if self._newest is None else [self._newest])]
        self._newest, self._replaced, self._users = None, [], Counter()
        return clients
