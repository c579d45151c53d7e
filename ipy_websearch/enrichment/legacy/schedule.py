"""How many requests are under way at once: as many as the caller allows, fewer when the other side says that it is too much.

Additive up, multiplicative down, as TCP does it: every refusal (429, 529) lowers the limit to what was not refused, by half at
most for requests sent before the cut was known; successes raise it again, quickly below half of where it was cut, then slowly.

A `retry-after` is a floor for all rows. While it lasts, at most one request is sent as a scout, and only in place of one that
has just succeeded: when that one is taken, the refusal was about how many run at once, and each success may be followed by
one further request; when it is refused, nothing is sent before the time is over.

Answers that come together are taken one after the other (`Turns`), so that each frees its slot at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

MAX_FLOOR_S = 600.0
RARE = 0.1
"""The share of requests refused, without a `retry-after`, up to which that is bad luck and not our doing."""

GROWTH = 0.1
"""What a success adds to the limit above half of where it was cut: a tenth of it for each round of requests."""

STRIKES = 3
"""Refusals in a row, during a floor, of requests that follow on successes, after which that is given up."""

IN_A_ROUND = 8
"""Answers dealt with in one round of the event loop: fewer cost more processor time, more let slots wait."""


@dataclass(slots=True)
class Ticket:
    """One admission. `floor`: the number of the floor during which it was let in, in place of a request that had succeeded;
    0 when there was none."""

    epoch: int
    floor: int
    scout: bool


class Gate:
    """Lets at most `most` requests in at once. All methods belong to one event loop."""

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = float(most)
        self.in_flight = 0
        self.refusals = 0
        self._most = most
        self._clock = clock
        self._threshold = 0.0
        self._share = 0.0  # of refusals among the last fifty or so requests
        self._epoch = 0
        self._lowest = 1.0
        self._new_success = True
        self._waiting: deque[asyncio.Future[Ticket]] = deque()
        self._again: deque[asyncio.Future[Ticket]] = deque()
        self._pausing: set[asyncio.Future[None]] = set()
        self._floor_until = 0.0
        self._floor = 1
        self._credits = 0
        self._held = 0
        self._nature: Literal["unknown", "scouting", "crowd", "rate"] = "unknown"
        self._strikes = 0
        self._alive_at = clock()

    @property
    def starved_s(self) -> float:
        """Seconds since a request last succeeded (or since the start)."""
        return self._clock() - self._alive_at

    @property
    def floor_s(self) -> float:
        """Seconds for which a `retry-after` still holds."""
        return max(self._floor_until - self._clock(), 0.0)

    def resize(self, most: int) -> None:
        """Let another number of requests in at once; a limit that refusals have lowered is not raised by it."""
        if most > self._most and self.limit >= self._most:
            self.limit = float(most)
        self._most = most
        self.limit = min(self.limit, float(most))
        self._wake()

    def hold(self, seconds: float) -> None:
        """Obey a `retry-after` that another process was given."""
        if seconds > self.floor_s:
            self._raise_floor(min(seconds, MAX_FLOOR_S))

    async def enter(self, *, again: bool = False) -> Ticket:
        """Wait for admission, in order; requests that are sent again go before those that were never sent."""
        if not self._again and (again or not self._waiting) and self._open():
            return self._admit()
        future: asyncio.Future[Ticket] = asyncio.get_running_loop().create_future()
        (self._again if again else self._waiting).append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.leave(future.result())
            raise

    async def pause(self, seconds: float) -> None:
        """Wait so long before asking for admission again; when nobody gets through, not longer than until somebody does."""
        if self.starved_s < 1:
            await asyncio.sleep(seconds)
            return
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pausing.add(answered)
        try:
            await asyncio.wait((answered,), timeout=seconds)
        finally:
            self._pausing.discard(answered)

    def leave(self, ticket: Ticket) -> None:
        """Say that a request ended in a way that says nothing about the load (it was cancelled, or was faulty)."""
        self.in_flight -= 1
        if ticket.scout:
            self._nature = "unknown"
        self._wake()

    def succeeded(self, ticket: Ticket) -> None:
        """Say that a request was answered."""
        full = self.in_flight >= int(self.limit)
        self.in_flight -= 1
        self._alive_at = self._clock()
        self._new_success = True
        for pausing in self._pausing:
            if not pausing.done():
                pausing.set_result(None)
        self._share -= self._share / 50
        if ticket.floor:
            self._strikes = 0
        if ticket.scout:
            self._nature = "crowd"
            self._credits, self._held = self._credits + self._held, 0
        if self._alive_at < self._floor_until:
            self._earn()
        elif full:
            step = 1.0 if self.limit < self._threshold else max(1 / self.limit, GROWTH)
            self.limit = min(self._most, self.limit + step)
        self._wake()

    def refused(self, ticket: Ticket, retry_after_s: float | None) -> None:
        """Say that the other side is overloaded; `retry_after_s` is the floor it set (None or 0: none)."""
        self.in_flight -= 1
        self.refusals += 1
        self._share += (1 - self._share) / 50
        if not retry_after_s and self._share < RARE:
            self._wake()
            return
        self._cut(ticket)
        if retry_after_s:
            self._raise_floor(min(retry_after_s, MAX_FLOOR_S))
        if ticket.floor == self._floor:  # after the floor's end others were sent too, and may have taken its place
            self._strikes += 1
            if ticket.scout or self._strikes >= STRIKES:
                self._nature, self._credits, self._held = "rate", 0, 0
        self._wake()

    def _cut(self, ticket: Ticket) -> None:
        """Lower the limit to what is under way, by half at most for all that was sent before the first refusal."""
        if ticket.epoch == self._epoch:
            if self._new_success:
                self._threshold = self.limit / 2
            self._epoch += 1
            self._lowest = max(1.0, self.limit / 2)
            self._new_success = False
        self.limit = max(self._lowest, min(self.limit, float(self.in_flight)))

    def _earn(self) -> None:
        """Take note of a success during a floor: it earns the right to one further request, once the scout is back."""
        if self._nature == "crowd":
            self._credits += 1
        elif self._nature == "unknown":
            self._nature, self._credits = "scouting", 1
        elif self._nature == "scouting":
            self._held += 1

    def _raise_floor(self, seconds: float) -> None:
        until = self._clock() + seconds
        if until > self._floor_until:
            self._floor_until = until
            asyncio.get_running_loop().call_later(seconds, self._floor_ended)

    def _floor_ended(self) -> None:
        if self._clock() < self._floor_until - 0.001:
            return  # it was raised meanwhile
        self._floor_until = 0.0
        self._floor += 1
        if self._nature == "crowd":  # what ran side by side during the floor is what can; more is tried one by one
            self.limit = max(1.0, min(self.limit, float(self.in_flight + self._credits)))
        else:
            self._nature = "unknown"
        self._credits = self._held = self._strikes = 0
        self._wake()

    def _open(self) -> bool:
        if self.in_flight >= max(1, int(self.limit)):
            return False
        return self._credits > 0 or self._floor_until == 0.0

    def _admit(self) -> Ticket:
        replacing = self._floor_until > 0.0
        ticket = Ticket(self._epoch, self._floor if replacing else 0, replacing and self._nature == "scouting")
        if replacing:
            self._credits -= 1
        self.in_flight += 1
        return ticket

    def _wake(self) -> None:
        while (self._again or self._waiting) and self._open():
            future = (self._again or self._waiting).popleft()
            if not future.done():
                future.set_result(self._admit())


class Turns:
    """Lets the tasks of one event loop work one after the other, `most` of them in each of its rounds.

    An event loop works on everything that is ready side by side: of fifty answers that come together, the first one's slot
    would send again only when all fifty are dealt with. In turn, it sends in the round after its own.
    """

    def __init__(self, most: int = IN_A_ROUND) -> None:
        self._most = most
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = 0

    async def take(self) -> None:
        """Wait for the next turn. A task that is cancelled meanwhile goes on at once, and is cancelled where it waits next:
        what it has come back with is not lost."""
        loop = asyncio.get_running_loop()
        if self._taken < self._most and not self._waiting:
            if not self._taken:
                loop.call_soon(self._next)
            self._taken += 1
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    def _next(self) -> None:
        self._taken = 0
        while self._waiting and self._taken < self._most:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._taken += 1
        if self._taken:
            asyncio.get_running_loop().call_soon(self._next)
