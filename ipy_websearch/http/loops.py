"""One value for each running event loop: connections and semaphores belong to the loop that they were made in.

The package runs its own loop in a background thread and is awaited in the notebook's loop as well. Weak keys would not
do, since such values hold their loop: instead, what belongs to closed loops is discarded whenever a new loop turns up. In a
forked process, everything is its parent's: it is forgotten there, and not discarded.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Makes a value by `make` the first time a loop asks for it; `discard` gets the values of loops that were closed."""

    def __init__(self, make: Callable[[], T], discard: Callable[[T], None] | None = None) -> None:
        self._make = make
        self._discard = discard
        self._values: dict[asyncio.AbstractEventLoop, T] = {}
        self._lock = threading.Lock()

    def get(self) -> T:
        """Return the value of the running loop."""
        loop = asyncio.get_running_loop()
        value = self._values.get(loop)
        if value is None:
            with self._lock:
                self._forget_closed()
                value = self._values.setdefault(loop, self._make())
        return value

    def drain(self) -> list[tuple[asyncio.AbstractEventLoop, T]]:
        """Return every loop with its value, and forget them all."""
        with self._lock:
            values, self._values = self._values, {}
        return list(values.items())

    def _forget_closed(self) -> None:
        for loop in [known for known in self._values if known.is_closed()]:
            value = self._values.pop(loop)
            if self._discard is not None:
                self._discard(value)
