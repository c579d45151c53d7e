"""The loop in the background: what waits for it can be interrupted at any moment, and nothing is left running."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError

import pytest

from ipy_websearch import background

STARTING = """
import os, signal, sys, threading, time
from ipy_websearch import background
import anyio.from_thread

def interrupt():
    time.sleep(float(sys.argv[1]))
    os.kill(os.getpid(), signal.SIGINT)

async def work():
    return 1

threading.Thread(target=interrupt, daemon=True).start()
try:
    time.sleep(0.01)
    background.run(work)
    time.sleep(0.5)
except KeyboardInterrupt:
    print("interrupted", background.run(work))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to a process")
@pytest.mark.parametrize("seconds", [0.0101, 0.0105, 0.011, 0.012, 0.013])
def test_an_interrupt_while_the_loop_begins_hangs_nothing(seconds: float) -> None:
    """The wait ends, the loop begins all the same, and the next call has it."""
    done = subprocess.run([sys.executable, "-c", STARTING, str(seconds)], capture_output=True, text=True, timeout=20)
    assert done.stdout.strip() == "interrupted 1"


def test_work_that_is_stopped_has_ended_when_the_wait_for_it_has() -> None:
    """What it does at its end is done, money is counted, and only then the caller goes on."""
    ended = []

    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.05)
            ended.append(True)

    work = background.Work(slow).begin()
    time.sleep(0.05)
    work.stop()
    assert ended == [True]
    with pytest.raises(CancelledError):
        work.future.result(0)


def test_work_that_is_stopped_before_it_begins_never_does() -> None:
    """An interrupt may come between the two."""
    begun = []

    async def never() -> None:
        begun.append(True)

    background.portal()
    work = background.Work(never)
    work.stop()
    with pytest.raises(CancelledError):
        work.future.result(1)
    assert not begun


def test_many_threads_begin_one_loop() -> None:
    """Whoever comes first; the others wait for the same one."""
    code = """
import threading
from ipy_websearch import background
found = []
threads = [threading.Thread(target=lambda: found.append(id(background.portal()))) for _ in range(20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
names = [thread.name for thread in threading.enumerate()]
print(len(set(found)), names.count("ipy_websearch"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert done.stdout.split() == ["1", "1"] and done.stderr == ""


def test_an_interrupt_stops_the_work_and_waits_for_its_end() -> None:
    """As Ctrl-C does in a script."""
    ended = []

    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(True)

    timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        background.run(slow)
    assert ended == [True]
