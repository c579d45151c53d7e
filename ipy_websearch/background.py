"""The event loop in the background, and the ways to have it do something for a thread that must wait.

One thread runs one loop for the process (an anyio portal), so what is awaited works in a plain script and under the notebook's
running loop alike. Ctrl-C and the stop button reach the thread that waits; the work is then cancelled, and given a second to
put things in order. A forked process starts a loop of its own: the thread of this one stays with the parent.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

T = TypeVar("T")

GRACE_S = 1.0
"""Seconds that cancelled work has to end in before the caller stops waiting for it."""

POLL_S = 0.25
"""Seconds of waiting at a time: a bare wait cannot be interrupted on Windows."""

_lock, _starting = threading.Lock(), threading.Lock()
_portal: BlockingPortal | None = None
_loop: asyncio.AbstractEventLoop | None = None
_begun: Future[None] | None = None
_ending = ExitStack()
_endings: list[Callable[[], None]] = []


def portal() -> BlockingPortal:
    """Return the portal to the loop; started at first use, stopped when Python exits.

    A thread of its own starts it: an interrupt ends the wait for that, and nothing else.
    """
    global _begun
    if _portal is None:
        with _lock:
            if _begun is None or (_begun.done() and _portal is None):
                begun = Future[None]()
                _thread.start_new_thread(_begin, (begun,))
                _begun = begun
        result(_begun)
    assert _portal is not None
    return _portal


def _begin(begun: Future[None]) -> None:
    global _portal, _loop, _ending
    try:
        with _starting:
            if _portal is None:
                from anyio.from_thread import start_blocking_portal

                ending = ExitStack()
                started = ending.enter_context(start_blocking_portal("asyncio", name="ipy_websearch"))
                _loop = started.call(asyncio.get_running_loop)
                ending.callback(_end)
                atexit.register(_stop)
                _portal, _ending = started, ending
    except BaseException as exc:
        begun.set_exception(exc)
    else:
        begun.set_result(None)


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


class Work(Generic[T]):
    """A coroutine function for the loop, known before it begins, so that an interrupt can stop it whenever it comes.

    `future` has its outcome; it is never cancelled, so that who stops the work can wait for its end.
    """

    def __init__(self, function: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.future: Future[T] = Future()
        self._function = function
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> Work[T]:
        """Hand it over to the loop."""
        portal()
        assert _loop is not None
        _loop.call_soon_threadsafe(self._start)
        return self

    def stop(self) -> None:
        """Cancel it, and give it a moment to end."""
        if _loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and all work with it
                _loop.call_soon_threadsafe(self._cancel)
                wait([self.future], GRACE_S)

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._function())
        self._task.add_done_callback(self._ended)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif not self.future.done():
            self.future.set_exception(CancelledError())

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.set_exception(CancelledError())
        elif (exc := task.exception()) is not None:
            self.future.set_exception(exc)
        else:
            self.future.set_result(task.result())


def run(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function and return its result; an interrupt cancels it."""
    work = Work(function)
    try:
        return result(work.begin().future)
    except KeyboardInterrupt:
        work.stop()
        raise


def result(future: Future[T]) -> T:
    """Wait for what was begun, and return its result."""
    while True:
        try:
            return future.result(POLL_S)
        except FutureTimeout:
            if future.done():
                raise


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
