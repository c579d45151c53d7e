"""Who is waiting for a query, and whether the user wants it stopped.

DuckDB calls a Python function from threads of its own, several times in one query (while planning it, too), and swallows what
the function raises while planning. It looks at Ctrl-C only between two pieces of work of the thread that asked, so a query that
waits for the web in another thread would not be stopped at all. Hence two things here: a `Place`, which tells whether the
query is still the same one, and a `Watch`, which hears of Ctrl-C in any thread.
"""

from __future__ import annotations

import atexit
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

KEPT_S = 5.0
"""Seconds after which a place is given up, so that its frame, with the caller's variables, is not kept alive for long."""

_DEPTH = 60
_NOT_THE_USER = (__package__.partition(".")[0], "duckdb", "IPython", "ipykernel")


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The Python line that waits inside DuckDB: its thread, frame and instruction."""

    thread: int
    frame: FrameType
    instruction: int
    since: float

    @classmethod
    def below(cls, frame: FrameType | None) -> Place | None:
        """Return the place from which DuckDB was called in this thread; None for a thread that is DuckDB's own."""
        return None if frame is None else cls(threading.get_ident(), frame, frame.f_lasti, time.monotonic())

    @classmethod
    def of_main_thread(cls) -> Place | None:
        """Return the user's line that the main thread is at: a notebook shows a query by running it, and when that fails,
        by running it again, all of it from one line."""
        main = threading.main_thread().ident or 0
        top = frame = sys._current_frames().get(main)
        while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USER:
            frame = frame.f_back
        line = frame or top
        return None if line is None else cls(main, line, line.f_lasti, time.monotonic())

    def is_waiting(self) -> bool:
        """Say whether that line still waits for the same call."""
        if time.monotonic() - self.since > KEPT_S:
            return False
        frame = sys._current_frames().get(self.thread)
        for _ in range(_DEPTH):
            if frame is None:
                return False
            if frame is self.frame:
                return frame.f_lasti == self.instruction
            frame = frame.f_back
        return False


class Watch:
    """Hears of Ctrl-C through the byte that Python writes for each signal, whatever the main thread is busy with.

    `arm` works in the main thread only, and leaves everything alone where somebody else reads those bytes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heard = 0
        self._ends: tuple[socket.socket, socket.socket] | None = None

    def arm(self) -> None:
        """Begin to listen; a second call changes nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        if self._ends is None:
            self._ends = socket.socketpair()
            for end in self._ends:
                end.setblocking(False)
            atexit.register(self._close, *self._ends)
        ours = self._ends[1].fileno()
        try:
            before = signal.set_wakeup_fd(ours, warn_on_full_buffer=False)
            if before not in (-1, ours):
                signal.set_wakeup_fd(before)
        except ValueError:  # a subinterpreter, or a descriptor that is gone: then only the main thread hears of it
            return

    def _close(self, *ends: socket.socket) -> None:
        with self._lock:
            self._ends = None
            _stop_listening(ends[1])
        for end in ends:
            end.close()

    def heard(self) -> int:
        """Return how many times Ctrl-C was pressed so far."""
        with self._lock:
            try:
                while self._ends is not None and (signals := self._ends[0].recv(4096)):
                    self._heard += signals.count(signal.SIGINT)
            except BlockingIOError:
                pass
            return self._heard


def _stop_listening(end: socket.socket) -> None:
    with suppress(ValueError):  # not in the main thread
        if (fd := signal.set_wakeup_fd(-1)) not in (-1, end.fileno()):
            signal.set_wakeup_fd(fd)


WATCH = Watch()
"""The one of this process."""
