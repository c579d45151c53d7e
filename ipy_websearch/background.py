"""The event loop in the background, and the ways to have it do something for a thread that must wait.

One thread runs one loop for the process (an anyio portal), so what is awaited works in a plain script and under the notebook's
running loop alike. Ctrl-C and the stop button reach the thread that waits; the work is then cancelled, and given a second to
put things in order. A forked process starts a loop of its own: the thread of this one stays with the parent.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ipy_websearch import forking

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

T = TypeVar("T")

GRACE_S = 1.0
"""Seconds that cancelled work has to end in before the caller stops waiting for it."""

POLL_S = 0.25
"""Seconds of waiting at a time: a bare wait cannot be interrupted on Windows."""

_lock = forking.lock()
_portal: BlockingPortal | None = None
_loop: asyncio.AbstractEventLoop | None = None
_ending = ExitStack()
_endings: list[Callable[[], None]] = []


def portal() -> BlockingPortal:
    """Return the portal to the loop; started at first use, stopped when Python exits."""
    global _portal, _loop, _ending
    with _lock:
        if _portal is None:
            from anyio.from_thread import start_blocking_portal

            _ending = ExitStack()
            _portal = _ending.enter_context(start_blocking_portal("asyncio", name="ipy_websearch"))
            _loop = _portal.call(asyncio.get_running_loop)
            _ending.callback(_end)
            atexit.register(_stop)
        return _portal


@forking.in_child
def _forget() -> None:
    """Leave the parent's loop to it: whoever waits for it here waits for ever."""
    global _portal, _loop, _ending
    forking.keep(_portal, _loop, _ending)
    _portal, _loop, _ending = None, None, ExitStack()


def _stop() -> None:
    _ending.close()


def _end() -> None:
    for ending in _endings:
        ending()


def at_end(ending: Callable[[], None]) -> Callable[[], None]:
    """Have a function called before the loop stops; it is returned."""
    _endings.append(ending)
    return ending


def start(function: Callable[[], Awaitable[T]]) -> Future[T]:
    """Begin a coroutine function on the loop."""
    return portal().start_task_soon(function)


def start_light(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Begin a coroutine; it takes half of what the portal's own way does, for what is done thousands of times."""
    portal()
    assert _loop is not None
    return asyncio.run_coroutine_threadsafe(work, _loop)


def run(function: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function and return its result; an interrupt cancels it."""
    future = start(function)
    try:
        return result(future)
    except KeyboardInterrupt:
        stop(future)
        raise


def result(future: Future[T]) -> T:
    """Wait for what was begun, and return its result."""
    while True:
        try:
            return future.result(POLL_S)
        except FutureTimeout:
            if future.done():
                raise


def stop(future: Future[Any]) -> None:
    """Cancel what was begun and give it a moment to end."""
    future.cancel()
    with suppress(CancelledError, FutureTimeout, Exception):
        future.result(GRACE_S)


def elsewhere(function: Callable[[], object], wait_s: float) -> None:
    """Call a function in a thread of its own, and wait a moment for it.

    For finalizers, which may run anywhere: this thread may hold a lock that the function needs, or run a loop beside which it
    can run no other, so it must not wait for long; and `threading`'s own threads need a lock of their own to begin.
    """
    done = _thread.allocate_lock()
    done.acquire()

    def run() -> None:
        try:
            function()
        finally:
            done.release()

    with suppress(RuntimeError):  # no thread begins any more when Python ends
        _thread.start_new_thread(run, ())
        done.acquire(timeout=wait_s)


def settle(function: Callable[[], Awaitable[Any]]) -> None:
    """Let a coroutine function end something, if the loop was ever begun; whatever goes wrong with it is nobody's concern."""
    if _portal is not None:
        with suppress(Exception):
            _portal.start_task_soon(function).result(GRACE_S)
