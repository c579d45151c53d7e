"""The limiter, with a clock of its own: nothing here takes time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from ipy_websearch.enrichment.limiter import ConcurrencyLimiter


class Clock:
    """Time that passes when `advance` says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self._serial = itertools.count()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.now + seconds, next(self._serial), function))

    async def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, _, function = heapq.heappop(self._timers)
            function()
            await settled()
        self.now = end


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Server:
    """A server that takes `cap` requests at once and refuses the others with a `retry-after`."""

    def __init__(self, most: int, cap: int, retry_after: float = 1.0, **options: Any) -> None:
        self.clock, self.cap, self.retry_after = Clock(), cap, retry_after
        self.limiter = ConcurrencyLimiter(most, clock=self.clock, call_later=self.clock.call_later, **options)
        self.active = self.done = self.refused = self.early = 0
        self.closed_until = 0.0

    async def request(self) -> None:
        self.early += self.clock.now < self.closed_until
        if self.active >= self.cap:
            self.refused += 1
            await self._passes(0.01)
            self.closed_until = self.clock.now + self.retry_after
            raise ConnectionError
        self.active += 1
        await self._passes(0.2)
        self.active -= 1
        self.done += 1

    async def _passes(self, seconds: float) -> None:
        over = asyncio.get_running_loop().create_future()
        self.clock.call_later(seconds, lambda: over.done() or over.set_result(None))
        await over

    async def run(self, rows: int, at_most_s: float) -> float:
        """Return the seconds that it takes to send so many requests."""
        tasks = [asyncio.create_task(self.limiter.run(self.request, lambda exc: self.retry_after)) for _ in range(rows)]
        began = self.clock.now
        await settled()
        while not all(task.done() for task in tasks) and self.clock.now - began < at_most_s:
            await self.clock.advance(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self.clock.now - began


def test_the_limit_settles_at_what_the_server_takes_and_tries_more_now_and_then() -> None:
    server = Server(most=100, cap=20)
    seconds = asyncio.run(server.run(4000, 100))
    assert server.done == 4000 and seconds < 1.3 * 4000 * 0.2 / 20
    assert 80 < server.refused < 200 and server.limiter.limit <= 25


def test_a_retry_after_holds_for_everybody() -> None:
    server = Server(most=10, cap=3, retry_after=5.0)
    asyncio.run(server.run(60, 60))
    assert server.done == 60 and server.early == 0


def test_after_an_outage_the_limit_doubles_with_every_round() -> None:
    async def main() -> tuple[list[int], float]:
        server = Server(most=64, cap=0)
        server.clock.call_later(3.5, lambda: setattr(server, "cap", 1000))
        limits: list[int] = []
        for n in range(1, 20):
            server.clock.call_later(n * 0.5, lambda: limits.append(server.limiter.limit))
        seconds = await server.run(640, 60)
        assert server.done == 640
        return limits, seconds

    limits, seconds = asyncio.run(main())
    assert limits[2] == 1 and limits[-1] == 64 and seconds < 4 + 2.5 + 10 * 0.2


def test_after_its_patience_nobody_waits_for_a_server_that_takes_nothing() -> None:
    """Requests that come later do not wait that long again."""

    async def main() -> None:
        server = Server(most=4, cap=0, patience_s=10)
        assert await server.run(40, 100) < 12 and server.refused < 30

    asyncio.run(main())


@pytest.mark.parametrize("wait_s", [3600.0, None])
def test_a_far_retry_after_and_other_errors_are_raised_at_once(wait_s: float | None) -> None:
    async def refuse() -> None:
        raise ConnectionError

    limiter = ConcurrencyLimiter(4)
    with pytest.raises(ConnectionError):
        asyncio.run(limiter.run(refuse, lambda exc: wait_s))
    assert limiter.in_flight == 0


def test_a_request_that_is_cancelled_while_it_waits_leaves_its_place_to_others() -> None:
    async def main() -> None:
        limiter, over = ConcurrencyLimiter(1), asyncio.Event()
        first, *waiting = [asyncio.create_task(limiter.run(over.wait, lambda exc: None)) for _ in range(3)]
        await settled()
        waiting[0].cancel()
        over.set()
        await asyncio.wait([first, *waiting])
        assert waiting[1].result() and waiting[0].cancelled() and limiter.in_flight == 0

    asyncio.run(main())
