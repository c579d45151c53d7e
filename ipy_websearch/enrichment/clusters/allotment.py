"""How a few places are shared by the tasks of a cluster: Wikipedia's three, whichever engine the run began with. Pure.

The invariant: what all tasks together go by is never more than there is. So a place is given to another task only when the one
that had it has said that it goes by less, and those of a lost task stay empty for as long as a request of its may last. When
more tasks want a place than there are places, they take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

TURN_S = 4.0
"""Seconds that a task may keep a place which another one waits for, when there are not enough for all."""

FROZEN_S = 15.0
"""Seconds for which a lost task's places stay empty: longer than a request to Wikipedia may take."""

HEARD_S = 10.0
"""Seconds after which a task that was not heard from is not waited for any more; what it has stays its own."""


@dataclass(slots=True)
class _Share:
    held: int = 0
    sought: int = 0
    since: float = 0.0  # when it got its first place
    waits: float = float("inf")  # since when it has none and wants one
    heard: float = 0.0


class Allotment:
    """Says how many of `places` each task may use. `clock` is monotonic, in seconds."""

    def __init__(self, places: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._places = places
        self._clock = clock
        self._shares: dict[str, _Share] = {}
        self._frozen: list[tuple[float, int]] = []

    def lost(self, name: str) -> None:
        """Take note that a task is gone, and that its requests may still be under way."""
        if (share := self._shares.pop(name, None)) and share.held:
            self._frozen.append((self._clock() + FROZEN_S, share.held))

    def ended(self, name: str) -> None:
        """Take note that a task has nothing under way, and asks no more."""
        self._shares.pop(name, None)

    def ask(self, name: str, held: int, sought: int, tasks: int) -> int:
        """Return how many places a task may use from now on, which goes by `held` and could use `sought`.

        `tasks` is how many tasks are at work.
        """
        now = self._clock()
        share = self._shares.setdefault(name, _Share())
        share.held, share.sought, share.heard = held, sought, now
        share.waits = min(share.waits, now) if sought and not held else float("inf")
        others = [other for other in self._shares.values() if other is not share and now - other.heard < HEARD_S]
        fair = self._fair(1 + sum(other.sought > 0 for other in others) if sought else tasks)
        spare = self._places - self._empty(now) - sum(each.held for each in self._shares.values())
        line = [other.waits for other in others if other.sought and not other.held]
        if held:
            given = self._kept(share, others, fair, spare, len(line))
        else:
            given = max(min(fair, spare - sum(waits <= share.waits for waits in line)), 0)
            share.since = now
        share.held = max(held, given)
        return given

    def _kept(self, share: _Share, others: list[_Share], fair: int, spare: int, waiting: int) -> int:
        """Return what a task has that has places: less when others are short of them, more when nobody is."""
        if waiting > spare and share.held <= fair and self._is_over(share, others, waiting - spare):
            return 0
        if any(other.sought > other.held and other.held < fair for other in others):
            return min(share.held + max(spare - waiting, 0), fair, share.sought)
        return share.held + max(min(share.sought - share.held, spare), 0)

    def _is_over(self, share: _Share, others: list[_Share], short: int) -> bool:
        """Return whether a task has had its turn, and is among the first of which so many have to go."""
        before = sum(other.held > 0 and other.since < share.since for other in others)
        return before < short and self._clock() - share.since >= TURN_S

    def _fair(self, tasks: int) -> int:
        return max(-(-self._places // max(tasks, 1)), 1)

    def _empty(self, now: float) -> int:
        self._frozen = [(until, number) for until, number in self._frozen if until > now]
        return sum(number for _, number in self._frozen)
