"""So many at once, of a number that may change meanwhile: a semaphore whose size another process can have a say in.

The invariant: nobody enters while as many are inside as there are places. Who waits is let in in turn; when the number is
lowered, those inside stay until they leave.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Places:
    """Takes one place for each `async with`. Everything belongs to one event loop."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def sought(self) -> int:
        """How many places could be used now: those taken, and those waited for."""
        return self.taken + sum(not future.done() for future in self._waiting)

    def resize(self, number: int) -> None:
        """Have another number of places."""
        self.number = number
        self._wake()

    async def __aenter__(self) -> None:
        if self.taken < self.number and not self._waiting:
            self.taken += 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._leave()
            elif future in self._waiting:
                self._waiting.remove(future)
            raise

    async def __aexit__(self, *exc: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self.taken -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self.taken < self.number:
            future = self._waiting.popleft()
            if not future.done():
                self.taken += 1
                future.set_result(None)
