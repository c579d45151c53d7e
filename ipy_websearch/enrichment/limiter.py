"""How many requests run at once: additive increase, multiplicative decrease, and one deadline for everybody.

- Each refusal for load (429, 529) lowers the limit by one, so after a burst it is the number of requests that were taken. Below
  the number that is known to work, each success raises the limit by one, so it doubles every round; above it, it is raised by
  a fixed step, and less often each time that proves too much.
- `retry-after` is a deadline for all requests. A server that goes on to refuse everything gets a later one of ours.

Everything belongs to one event loop, and `clock` is its time.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

# A longer `retry-after` is an error at once.
LONGEST_S = 60.0

MAX_BACKOFF_S = 8.0
# How many steps there are from 0 to the most.
STEPS = 20

# A probe above the known limit costs a `retry-after`; two probes are this many times as long apart.
CAREFUL = 10.0

MIN_RAISE_S, MAX_RAISE_S = 1.0, 60.0
# A timer may be early by so much.
EARLY_S = 0.001


class ConcurrencyLimiter:
    """Lets at most `most` requests run at once, fewer when the server refuses some.

    The server may refuse all of them for `patience_s` seconds, or `start_s` while it has neither taken any nor named a time.
    `on_hold` is called with the seconds of each deadline.
    """

    def __init__(
        self,
        most: int,
        *,
        patience_s: float = 60.0,
        start_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        on_hold: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.most = self.limit = self._known_good = most
        self.in_flight = 0
        self._patience_s, self._gives_up_after_s = patience_s, start_s
        self._clock, self._on_hold = clock, on_hold
        self._raise_every_s, self._raise_at = MIN_RAISE_S, 0.0
        self._deadline = 0.0
        self._burst = 0  # bursts that ended with refusals
        self._refused_since = math.inf  # the first refusal since the last success
        self._given_up: BaseException | None = None
        self._changed = asyncio.Event()

    @property
    def seconds_to_wait(self) -> float:
        """Seconds until the deadline in force."""
        return max(self._deadline - self._clock(), 0.0)

    async def run(self, send: Callable[[], Awaitable[T]], overload_s: Callable[[Exception], float | None]) -> T:
        """Return what `send` returns, after waiting for a free place; a refusal for load is sent again.

        `overload_s` gives the seconds that a refusal asks to wait (0.0: it does not say), and None for all other errors, which
        are raised. So is a refusal when the server names more than `LONGEST_S` seconds, or has refused all requests for too
        long; then waiting requests fail as well.
        """
        refusals = 0
        while True:
            burst = await self._acquire()
            try:
                result = await send()
                self._succeeded(burst)
                return result
            except Exception as exc:
                wait_s = overload_s(exc)
                if wait_s is None:
                    raise
                self._refused(burst, wait_s)
                if wait_s > LONGEST_S or self._clock() - self._refused_since > self._gives_up_after_s:
                    self._given_up = exc
                    raise
            finally:
                self.in_flight -= 1
                self._wake()
            refusals += 1
            if not self.seconds_to_wait:
                await asyncio.sleep(backoff_s(refusals))

    def resize(self, most: int) -> None:
        """Change the most requests that may run at once; a limit that refusals have lowered is not raised."""
        if self.limit == self.most:
            self.limit = self._known_good = most
        self.most, self.limit, self._known_good = most, min(self.limit, most), min(self._known_good, most)
        self._wake()

    def hold(self, seconds: float) -> None:
        """Send nothing for so many seconds."""
        until = self._clock() + seconds
        if until > self._deadline:
            self._deadline = until
            asyncio.get_running_loop().call_later(until - self._clock() + EARLY_S, self._wake)

    async def _acquire(self) -> int:
        """Wait for a free place; return the number of the burst that the request belongs to.

        After the limiter has given up, every request fails with the same error until the deadline has passed.
        """
        while self.in_flight >= self.limit or self.seconds_to_wait:
            if self._given_up is not None and self.seconds_to_wait:
                raise self._given_up
            await self._changed.wait()
        self.in_flight += 1
        return self._burst

    def _wake(self) -> None:
        """Let waiting requests check again for a free place."""
        self._changed.set()
        self._changed.clear()

    def _succeeded(self, burst: int) -> None:
        """Raise the limit: the request was taken."""
        now = self._clock()
        if burst == self._burst - 1:  # taken while others of its burst were refused: so many fit
            self._known_good = self.limit
        if burst == self._burst and self.limit < self._known_good:
            self.limit += 1
        elif self.limit <= self.in_flight < self.most and now >= self._raise_at:  # try more than is known to work
            self.limit = self._known_good = min(self.limit + max(self.most // STEPS, 1), self.most)
            self._raise_at = now + self._raise_every_s
            self._raise_every_s = max(self._raise_every_s / 2, MIN_RAISE_S)
        self._refused_since, self._given_up, self._gives_up_after_s = math.inf, None, self._patience_s

    def _refused(self, burst: int, retry_after_s: float) -> None:
        """Lower the limit: the server has too many requests, and asks to wait so long (0: it does not say).

        Where it takes none, all wait for as long again as it has refused them.
        """
        now = self._clock()
        self._refused_since = min(self._refused_since, now)
        if retry_after_s:  # a quarter more, since a time in whole seconds may be too short
            self._gives_up_after_s = max(self._gives_up_after_s, self._patience_s, 1.25 * retry_after_s)
        if burst == self._burst:
            self._burst += 1
            least_s = min(CAREFUL * retry_after_s, MAX_RAISE_S / 4)
            self._raise_every_s = min(max(4 * self._raise_every_s, least_s), MAX_RAISE_S)
            self._raise_at = now + self._raise_every_s
        self.limit = max(self.limit - 1, 1)
        seconds = max(retry_after_s, min(now - self._refused_since, MAX_BACKOFF_S))
        self.hold(seconds)
        self._on_hold(seconds)


def backoff_s(failures: int) -> float:
    """Return the seconds to wait after so many failures: half a second, doubled, at most eight, up to a quarter less."""
    return float(min(0.5 * 2 ** min(failures - 1, 9), MAX_BACKOFF_S) * (1 - 0.25 * random.random()))
