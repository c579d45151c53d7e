"""Closing what belongs to several event loops. Goes when the model's client has one loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from ipy_websearch.background import elsewhere
from ipy_websearch.http.loops import PerLoop

CLOSING_S = 1.0
"""Seconds that connections of a loop that does not run have to close in."""


class _Closable(Protocol):
    """What is closed in its loop: with a wait, or without one."""

    async def aclose(self) -> None: ...
    def discard(self) -> None: ...


def close_dropped(pools: PerLoop[Any]) -> None:
    """Close what every loop has, when what owned it is dropped."""
    close_all(pools.drain())


def close_all(pools: Sequence[tuple[asyncio.AbstractEventLoop, _Closable]]) -> None:
    """Close pools from wherever this runs; used when a client is dropped, and when Python ends."""
    for loop, pool in pools:
        if loop.is_closed() or loop is _running_loop():
            pool.discard()
        elif loop.is_running():
            with contextlib.suppress(RuntimeError):  # it has just been closed
                loop.call_soon_threadsafe(pool.discard)
        elif _running_loop() is None:
            _close_in(loop, pool)
        else:  # a thread runs one loop at a time
            elsewhere(partial(_close_in, loop, pool), CLOSING_S)


def _close_in(loop: asyncio.AbstractEventLoop, pool: _Closable) -> None:
    """Close a pool by letting its loop run, which closing takes."""

    async def within_time() -> None:
        async with asyncio.timeout(CLOSING_S):
            await pool.aclose()

    closing = within_time()
    with contextlib.suppress(Exception):
        loop.run_until_complete(closing)
    closing.close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
