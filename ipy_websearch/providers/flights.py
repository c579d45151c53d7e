"""Work that is under way once, however many wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Flight(Generic[T]):
    task: asyncio.Task[T]
    waiters: int = 0
    claimed: bool = False


class Flights(Generic[T]):
    """Shares equal pieces of work within one event loop while they run.

    Cancelling one who waits does not disturb the others; when nobody waits any more, the work itself is cancelled. An
    error goes to everybody who waits.
    """

    def __init__(self) -> None:
        self._flights: dict[tuple[asyncio.AbstractEventLoop, str], _Flight[T]] = {}

    async def share(self, key: str, start: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, bool]:
        """Return what `start` (or the equal work already under way) gives, and True for exactly one of those who
        waited for it: the one whose search it was, as far as money goes."""
        loop = asyncio.get_running_loop()
        place = (loop, key)
        flight = self._flights.get(place)
        if flight is None:
            flight = self._flights[place] = _Flight(loop.create_task(start()))
            flight.task.add_done_callback(lambda task: self._landed(place, task))
        flight.waiters += 1
        try:
            result = await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters and not flight.task.done():
                self._flights.pop(place, None)
                flight.task.cancel()
        first, flight.claimed = not flight.claimed, True
        return result, first

    def _landed(self, place: tuple[asyncio.AbstractEventLoop, str], task: asyncio.Task[T]) -> None:
        if (flight := self._flights.get(place)) is not None and flight.task is task:
            del self._flights[place]
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain when everybody had left
