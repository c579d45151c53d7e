"""The extraction process: started when needed, killed when a page is too much for it, never left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipy_websearch.errors import FetchError
from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.html import extract
from ipy_websearch.extract.worker import ExtractionWorker

URL = "https://example.org/a/page.html"
PAGE = "<html lang=en><title>T</title><main><h1>Rows</h1><p>Some <a href='b.html'>rows</a> — and naïve € more.</p></main>"
LONG = "<ul>" + "<li>item</li>" * 100_000 + "</ul>"
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.fixture
def worker() -> Iterator[ExtractionWorker]:
    """Give a worker and close it."""
    worker = ExtractionWorker()
    yield worker
    worker.close()


def read(worker: ExtractionWorker, body: bytes | str = PAGE, content_type: str = "text/html") -> Extracted:
    """Return what the worker makes of `body`, from a loop of its own."""
    return asyncio.run(worker.extract(body, url=URL, content_type=content_type))


def running(pid: int) -> bool:
    """Return whether a process exists, as a zombie too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def soon(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Return whether `condition` becomes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_a_worker_gives_what_extract_gives_and_keeps_its_process(worker: ExtractionWorker) -> None:
    """Nothing is lost on the way there and back, and the second page finds the process warm."""
    assert worker.pid is None
    assert read(worker) == extract(PAGE, url=URL, content_type="text/html")
    pid = worker.pid
    assert read(worker, PAGE.encode("cp1252"), "text/html; charset=windows-1252").markdown == read(worker).markdown
    assert worker.pid == pid and pid != os.getpid()


def test_a_page_that_takes_too_long_gives_its_words_and_the_next_page_works() -> None:
    """The process is killed at the limit, the page is stripped here, a new process takes the next one."""
    worker = ExtractionWorker(timeout_s=0.3)
    try:
        start = time.monotonic()
        got = read(worker, LONG)
        assert got.note == "plain text only: it took longer than 0.3 s"
        assert got.markdown.count("item") == 100_000
        assert time.monotonic() - start < 5
        assert worker.pid is None
        assert not read(worker, "<p>short and quick").note
    finally:
        worker.close()


def test_a_page_that_takes_too_much_memory_gives_its_words() -> None:
    """Memory is bounded by the platform's limit and by looking at it."""
    worker = ExtractionWorker(memory_mb=110)
    try:
        got = read(worker, LONG)
        assert "memory" in got.note and got.note.startswith("plain text only: ")
        assert got.markdown.count("item") == 100_000
        assert read(worker).markdown.startswith("# Rows")
    finally:
        worker.close()


def test_a_crash_costs_one_page_its_structure_and_no_more(worker: ExtractionWorker) -> None:
    """A process that dies at work is replaced; one that died in between is replaced unnoticed."""
    read(worker)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    assert read(worker).note == ""

    async def crash() -> Extracted:
        task = asyncio.ensure_future(worker.extract("<table>" + "<tr><td>x</td><td>y</td></tr>" * 30_000, url=URL))
        await asyncio.sleep(0.1)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        return await task

    got = asyncio.run(crash())
    assert got.note == "" or "crashed" in got.note
    assert got.markdown.count("x") == 30_000


def test_what_is_no_text_is_refused_through_the_worker_too(worker: ExtractionWorker) -> None:
    """The error is ours and says what the body is."""
    with pytest.raises(FetchError, match="is image/png, 5 kB; only text"):
        read(worker, b"\x89PNG\r\n\x1a\n" + bytes(5000), "text/html")


def test_two_loops_and_many_calls_share_one_process(worker: ExtractionWorker) -> None:
    """Calls queue up, whichever loop or thread they come from."""
    results: list[list[Extracted]] = []

    async def several(name: str) -> list[Extracted]:
        return await asyncio.gather(*(worker.extract(f"<p>{name} page {i} here", url=URL) for i in range(10)))

    threads = [threading.Thread(target=lambda n=n: results.append(asyncio.run(several(n)))) for n in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    texts = sorted(page.markdown for pages in results for page in pages)
    assert texts == sorted(f"{name} page {i} here\n" for name in ("first", "second") for i in range(10))
    assert worker.pid is not None


def test_a_cancelled_call_returns_at_once_and_holds_nobody_up(worker: ExtractionWorker) -> None:
    """What nobody waits for is given a second at most."""

    async def cancelled() -> float:
        await worker.extract(PAGE, url=URL)
        task = asyncio.ensure_future(worker.extract(LONG, url=URL))
        await asyncio.sleep(0.05)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - start < 0.5
        await worker.extract(PAGE, url=URL)
        return time.monotonic() - start

    assert asyncio.run(cancelled()) < 5


def test_an_idle_worker_ends_its_process_and_leaves_no_zombie() -> None:
    """After `idle_s` without work the process and the thread are gone; the next page starts new ones."""
    worker = ExtractionWorker(idle_s=0.1)
    try:
        read(worker)
        pid = worker.pid
        assert pid is not None and soon(lambda: worker.pid is None and not running(pid))
        assert read(worker).markdown.startswith("# Rows")
    finally:
        worker.close()


def test_a_forgotten_worker_takes_its_process_with_it() -> None:
    """No warning, no process and no thread stay behind when nobody called `close`."""
    worker = ExtractionWorker()
    read(worker)
    pid = worker.pid
    assert pid is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del worker
        gc.collect()
    assert soon(lambda: not running(pid))
    assert soon(lambda: not any("ipy_websearch-extract" in t.name for t in threading.enumerate()))


def test_warming_up_starts_the_process_without_waiting(worker: ExtractionWorker) -> None:
    """A fetch under way hides the cost of the start."""
    start = time.monotonic()
    worker.warm()
    assert time.monotonic() - start < 0.1
    assert soon(lambda: worker.pid is not None, 10)
    assert read(worker).markdown.startswith("# Rows")


def test_the_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    """The pipe closes, and that is the end of it."""
    code = (
        "import asyncio, sys, time; from ipy_websearch.extract.worker import ExtractionWorker; w = ExtractionWorker();"
        "asyncio.run(w.extract('<p>x', url='https://e.org')); print(w.pid, flush=True); time.sleep(60)"
    )
    root = str(Path(__file__).parents[1])
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=root, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert running(pid)
        parent.kill()
    assert soon(lambda: not running(pid))


def test_files_in_the_working_folder_are_neither_run_nor_in_the_way(worker: ExtractionWorker, tmp_path: Path) -> None:
    """A notebook beside a json.py of the user's own is nothing special."""
    for name in ("json.py", "lxml.py", "trafilatura.py", "sitecustomize.py", "struct.py", "ipy_websearch.py"):
        (tmp_path / name).write_text("open('was_run', 'a').write(__name__)\nraise SystemExit('shadowed')\n")
    assert Path.cwd() == tmp_path
    sys.path.insert(0, "")
    sys.path.insert(0, str(tmp_path))
    try:
        assert read(worker).markdown.startswith("# Rows")
    finally:
        sys.path.remove(str(tmp_path))
        sys.path.remove("")
    assert not (tmp_path / "was_run").exists()


@linux
def test_the_process_knows_no_keys_and_can_write_no_file(worker: ExtractionWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What parses hostile pages holds nothing worth stealing."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    read(worker)
    assert worker.pid is not None
    assert b"secret" not in Path(f"/proc/{worker.pid}/environ").read_bytes()
    limits = Path(f"/proc/{worker.pid}/limits").read_text()
    assert "Max file size             0                    0" in limits
    assert os.readlink(f"/proc/{worker.pid}/fd/0") == os.devnull


def test_a_session_without_an_interpreter_still_gets_words(worker: ExtractionWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no process can be started, the page is stripped here and the note says so."""
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    got = read(worker)
    assert "cannot be started" in got.note and "naïve € more" in got.markdown
