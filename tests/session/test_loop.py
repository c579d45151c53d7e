"""All work runs on one event loop in the background, whichever way it is asked for, and every way of leaving it is clean."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
import trio

import ipy_websearch
from ipy_websearch import Session, background
from tests.fakes.replies import slow
from tests.fakes.warm import python

LOCAL: dict[str, Any] = {"model": "offline", "provider": "local"}
MOONS = "How many moons does Mars have?"


LOOPS = pytest.mark.parametrize("run", [lambda function: asyncio.run(function()), trio.run], ids=["asyncio", "trio"])


@LOOPS
def test_every_coroutine_of_a_session_works_on_any_event_loop(run: Any) -> None:
    session = Session()

    async def everything() -> tuple[Any, ...]:
        results = await session.search("moons of Mars", provider="local")
        page = await session.fetch("corpus://planets/mars")
        answer = await session.ask(MOONS, **LOCAL)
        frame = pd.DataFrame({"planet": ["Mars"]})
        filled = await session.enrich(frame, {"moons": ("How many moons does {planet} have?", int)}, progress=False, **LOCAL)
        await session.aclose()
        return results[0].title, page.title, answer.sources.url[0], filled.moons.tolist()

    assert run(everything) == ("Mars", "Mars", "corpus://planets/mars", [2])


def test_a_blocking_call_by_work_in_the_background_is_an_error_and_hangs_nothing() -> None:
    async def work() -> None:
        ipy_websearch.search("moons of Mars", provider="local")

    with pytest.raises(RuntimeError, match="await the session's coroutine"):
        background.run(work)


def script(code: str, command: Sequence[str] = (sys.executable,)) -> subprocess.CompletedProcess[str]:
    """Run a script with this process's paths and the test's own home."""
    return subprocess.run([*command, "-c", code], capture_output=True, text=True, timeout=180)


def test_closing_a_session_closes_its_files_and_it_can_be_used_again(tmp_path: Any) -> None:
    session = Session()

    async def search() -> str:
        return (await session.search("moons of Mars", provider="local"))[0].title

    assert asyncio.run(search()) == "Mars" and len(session.cost()) == 1
    asyncio.run(session.aclose())
    data = tmp_path / "websearch"
    for path in data.rglob("*.sqlite"):
        assert not path.with_name(path.name + "-wal").exists(), path  # SQLite removes it when the last connection closes
    assert asyncio.run(search()) == "Mars" and len(session.cost()) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_gets_a_session_and_a_loop_of_its_own() -> None:
    code = """
import os, warnings
warnings.simplefilter("ignore")
import ipy_websearch
from ipy_websearch import api
ipy_websearch.search("moons of Mars", provider="local")
mine = api.session()
if (child := os.fork()) == 0:
    results = ipy_websearch.search("moons of Saturn", provider="local")
    os._exit(0 if results and api.session() is not mine else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), api.session() is mine, len(ipy_websearch.cost()))
"""
    done = script(code, python())
    assert done.stdout.split() == ["0", "True", "1"], done.stderr


def test_a_script_ends_cleanly_whatever_is_still_open(messages_api: Any) -> None:
    """Nothing is printed about unclosed sessions, pending tasks or ignored generators."""
    messages_api.replies("Because.", ["Because " * 400, slow(0.05)])
    code = """
import asyncio, ipy_websearch
from ipy_websearch import Session
print(asyncio.run(Session().ask("why?")).text)
async def left():
    async for event in Session().start("why?"):
        if type(event).__name__ == "TextDelta":
            break
asyncio.run(left())
"""
    done = script(code, python())
    assert done.stdout.strip() == "Because." and done.stderr == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_an_interrupt_in_the_first_milliseconds_stops_the_work_and_leaves_the_loop_usable() -> None:
    """Each of sixty processes is interrupted at another moment while its loop and its first work begin."""
    code = """
import asyncio, os, signal, time
from ipy_websearch import background

ended = []

async def work(seconds):
    began = time.perf_counter()
    while time.perf_counter() - began < 0.003:  # as imports do, which hold the interpreter's lock
        pass
    await asyncio.sleep(seconds)
    ended.append(seconds)

def interrupted(after_s):
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, after_s)
        background.run(lambda: work(1.5))
    except (KeyboardInterrupt, RuntimeError):  # CPython's own locks may have been interrupted
        time.sleep(1.7)
        background.run(lambda: work(0))
        os._exit(ended != [0])

children = []
for n in range(60):
    if (child := os.fork()) == 0:
        interrupted(0.0001 + n * 0.0001)
    children.append(child)
print({os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children})
"""
    assert script(code, python()).stdout.strip() == "{0}"
