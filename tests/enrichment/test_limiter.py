"""The limiter, on an event loop whose time passes while it waits: nothing here takes time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

import pytest

from ipy_websearch.enrichment.limiter import ConcurrencyLimiter


class QuickSelector(selectors.SelectSelector):
    """Waits for nothing: `now` is the time at which the loop's next timer is due."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


def quickly(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on a loop with a time of its own."""
    selector = QuickSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)


class Server:
    """A server that takes `cap` requests at once and refuses the others with a `retry-after`."""

    def __init__(self, most: int, cap: int, retry_after: float = 1.0, **options: Any) -> None:
        self.cap, self.retry_after, self.now = cap, retry_after, asyncio.get_running_loop().time
        self.limiter = ConcurrencyLimiter(most, clock=self.now, **options)
        self.active = self.done = self.refused = self.early = 0
        self.closed_until = 0.0

    async def request(self) -> None:
        self.early += self.now() < self.closed_until
        if self.active >= self.cap:
            self.refused += 1
            await asyncio.sleep(0.01)
            self.closed_until = self.now() + self.retry_after
            raise ConnectionError
        self.active += 1
        await asyncio.sleep(0.2)
        self.active -= 1
        self.done += 1

    async def run(self, rows: int) -> float:
        """Return the seconds that it takes to send so many requests."""
        sent = (self.limiter.run(self.request, lambda exc: self.retry_after) for _ in range(rows))
        began = self.now()
        await asyncio.gather(*sent, return_exceptions=True)
        return self.now() - began


def test_the_limit_settles_at_what_the_server_takes_and_tries_more_now_and_then() -> None:
    async def main() -> None:
        server = Server(most=100, cap=20)
        assert await server.run(4000) < 1.3 * 4000 * 0.2 / 20
        assert server.done == 4000 and 80 < server.refused < 200 and server.limiter.limit <= 25

    quickly(main())


@pytest.mark.parametrize(("taken", "named_s", "least_s", "most_s"), [(1, 0, 20, 39), (0, 0, 4, 10), (0, 1, 20, 39)])
def test_after_its_patience_nobody_waits_for_a_server_that_takes_nothing(
    taken: int, named_s: float, least_s: float, most_s: float
) -> None:
    """It is shorter where nothing was taken and no time named, and requests that come later do not wait that long again."""

    async def main() -> None:
        server = Server(most=4, cap=1, retry_after=named_s, patience_s=30, start_s=5)
        await server.run(taken)
        server.cap = 0
        assert least_s < await server.run(40) < most_s and server.refused < 45

    quickly(main())


@pytest.mark.parametrize("named_s", [2.0, 5.0, 15.0])
def test_a_server_that_names_a_time_is_waited_for_from_the_start(named_s: float) -> None:
    async def main() -> None:
        server = Server(most=16, cap=0, retry_after=named_s, start_s=5)
        asyncio.get_running_loop().call_later(29, setattr, server, "cap", 16)
        assert 29 < await server.run(40) < 29 + named_s + 10 and server.done == 40 and server.early == 0

    quickly(main())


@pytest.mark.parametrize("wait_s", [3600.0, None])
def test_a_far_retry_after_and_other_errors_are_raised_at_once(wait_s: float | None) -> None:
    async def refuse() -> None:
        raise ConnectionError

    limiter = ConcurrencyLimiter(4)
    with pytest.raises(ConnectionError):
        asyncio.run(limiter.run(refuse, lambda exc: wait_s))
    assert limiter.in_flight == 0
