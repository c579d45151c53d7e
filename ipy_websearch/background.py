"""The event loop in the background, where all work of the package runs, and the ways to wait for it.

One daemon thread runs one asyncio loop, so the same work can be waited for by a plain script, by a cell under the notebook's
running loop, and by any asyncio or trio task. An interrupt or a cancellation reaches the caller that waits; the work is then
cancelled and has a second to put things in order.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Seconds that cancelled work has to end in before the caller stops waiting for it.
GRACE_S = 1.0

# Seconds of waiting at a time: a bare wait cannot be interrupted on Windows.
POLL_S = 0.25

_lock = threading.RLock()  # a finalizer may run while it is held
_ready: Future[asyncio.AbstractEventLoop] = Future()
_runner: threading.Thread | None = None
_closers: list[weakref.finalize[Any, Any]] = []
_closing: list[Task[None]] = []


def loop() -> asyncio.AbstractEventLoop:
    """Return the loop; its thread starts at first use (in a forked process too, where the parent's does not run)."""
    global _ready, _runner
    with _lock:
        if not is_running():
            _ready = Future()
            _runner = threading.Thread(target=_serve, args=(_ready,), name="ipy_websearch", daemon=True)
            _runner.start()
    return _ready.result()


def _serve(ready: Future[asyncio.AbstractEventLoop]) -> None:
    loop = asyncio.new_event_loop()  # here, since an interrupt of the main thread could break it off there
    ready.set_result(loop)
    loop.run_forever()
    loop.close()


def is_running() -> bool:
    """Return whether the loop has been started."""
    return _runner is not None and _runner.is_alive()


def _is_here() -> bool:
    # `threading` has locks that a finalizer may meet held; a forked process may give the number of the parent's loop anew.
    return _runner is not None and _runner.ident == _thread.get_ident() and _runner.is_alive()


class Task(Generic[T]):
    """A coroutine function that runs on the loop; `future` has its outcome once it has ended.

    Without `start`, `begin` starts it: a caller that an interrupt may reach at any moment holds the task by then.
    """

    def __init__(self, function: Callable[[], Coroutine[Any, Any, T]], *, start: bool = True) -> None:
        self.future: Future[T] = Future()
        self._function = function
        self._task: asyncio.Task[None] | None = None
        self._has_ended = False
        self._running = _thread.allocate_lock()  # bare: an interrupt can leave `threading`'s and a future's own locks held
        self._running.acquire()
        if start:
            self.begin()

    def begin(self) -> None:
        """Start it."""
        loop().call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            if self.future.set_running_or_notify_cancel():  # else it was cancelled before it began
                self.future.set_result(await self._function())
        except asyncio.CancelledError:
            self.future.set_exception(CancelledError())
        except BaseException as exc:
            self.future.set_exception(exc)
        finally:
            self._has_ended = True
            self._running.release()

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end, `timeout_s` seconds at most (on the loop itself: not at all); return whether it has ended."""
        if not self._has_ended and not _is_here() and self._running.acquire(timeout=timeout_s):
            self._running.release()  # an interrupt just before leaves it held, so `_has_ended` is the answer
        return self._has_ended

    def cancel(self) -> bool:
        """Cancel it and wait until it has ended, a second at most; return whether it has."""
        if not self.future.done() and not self.future.cancel() and self._task is not None:
            loop().call_soon_threadsafe(self._task.cancel)
            self.wait(GRACE_S)
        return self.future.done()


def run(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on the loop and return its result; an interrupt cancels it.

    Raises:
        RuntimeError: it is called on the loop, which would wait for itself.
    """
    if _is_here():
        raise RuntimeError("a blocking function was called by work in the background; await the session's coroutine there")
    task = Task(function, start=False)
    try:
        task.begin()
        while not task.wait(POLL_S):
            pass
        return task.future.result()
    finally:  # an interrupt, as what may leave `threading`'s own locks for a RuntimeError, ends the work
        task.cancel()


async def awaited(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on the loop and return its result, from a task of any event loop; cancelling reaches it."""
    if _is_here():
        return await function()
    task = Task(function, start=False)
    waiting: Awaitable[T]
    try:
        waiting = asyncio.wrap_future(task.future, loop=asyncio.get_running_loop())
    except RuntimeError:  # the event loop is trio's
        from anyio import to_thread

        waiting = to_thread.run_sync(task.future.result, abandon_on_cancel=True)
    try:
        task.begin()
        return await waiting
    finally:
        task.cancel()


def on_the_loop(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Have a coroutine function run on the loop, whichever event loop awaits it."""

    @wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await awaited(partial(method, *args, **kwargs))

    return call


def close_with(owner: object, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Have `close` run on the loop when `owner` is dropped or Python exits."""
    _closers.append(weakref.finalize(owner, _close, close))
    _closers[-1].atexit = False  # `_stop` calls it, while the loop still runs


def _close(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    if is_running():
        _closing.append(Task(close))


@atexit.register
def _stop() -> None:
    if _runner is not None and is_running():
        wait([task.future for task in _closing], GRACE_S)
        wait([Task(_cancel_all).future], GRACE_S)
        for closer in _closers:
            if still_there := closer.detach():  # to call it does nothing any more while Python ends
                _close(*still_there[2])
        wait([task.future for task in _closing], GRACE_S)
        loop().call_soon_threadsafe(loop().stop)
        _runner.join(GRACE_S)


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True, eq=False)
class _Flight(Generic[T]):
    task: asyncio.Task[T]
    waiters: int = 0
    claimed: bool = False


class SingleFlight(Generic[T]):
    """Shares equal pieces of work on the loop while they run.

    Cancelling one who waits does not disturb the others; when nobody waits any more, the work itself is cancelled. An error
    goes to everybody who waits.
    """

    def __init__(self) -> None:
        self._flights: dict[str, _Flight[T]] = {}

    async def share(self, key: str, start: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, bool]:
        """Return the result of `start` (or of the equal work under way), and True for exactly one of those who waited for
        it: the one who is charged."""
        flight = self._flights.get(key)
        if flight is None or flight.task.done():
            flight = self._flights[key] = _Flight(asyncio.ensure_future(start()))
        flight.waiters += 1
        try:
            result = await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters and self._flights.get(key) is flight:
                del self._flights[key]
                flight.task.cancel()  # nothing happens to one that is done
        first, flight.claimed = not flight.claimed, True
        return result, first
