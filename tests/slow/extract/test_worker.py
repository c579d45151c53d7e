"""The extraction process: started when needed, killed when a page is too much for it, never left behind."""

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.errors import FetchError
from ipy_websearch.extract.page import extract
from ipy_websearch.extract.reader import ExtractionWorker
from ipy_websearch.results import Page

URL = "https://example.org/a/page.html"
PAGE = (
    "<html lang=en><title>T</title><main><h1>Rows</h1><p>Some <a href='b.html'>rows</a> — and naïve more.</p></main>".encode()
)
LONG = ("<ul>" + "<li>item</li>" * 29_000 + "</ul>").encode()
# Each paragraph is quoted anew at each of 250 levels: minutes of work on any machine, and not much to read as words.
ENDLESS = ("<blockquote>" * 250 + "<p>item of text\n" * 29_000).encode()
UTF8 = "text/html; charset=utf-8"
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.fixture(autouse=True)
def forked_extraction() -> None:
    """Processes are started as users start them."""


def read(worker: ExtractionWorker, body: bytes = PAGE, content_type: str = UTF8) -> Page:
    """Return what the worker makes of `body`, from a loop of its own."""
    return asyncio.run(worker.extract(body, url=URL, content_type=content_type))


def running(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return False


def soon(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Return whether `condition` becomes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_a_worker_keeps_its_process_and_takes_it_with_it(tmp_path: Path, monkeypatch: Any) -> None:
    """The process knows no key, can write no file, and runs no json.py that lies beside the notebook."""
    for name in ("json.py", "lxml.py", "trafilatura.py", "sitecustomize.py", "ipy_websearch.py"):
        (tmp_path / name).write_text("open('was_run', 'a').write(__name__)\nraise SystemExit('shadowed')\n")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    worker = ExtractionWorker()
    assert worker.process is None and read(worker) == extract(PAGE, url=URL, content_type=UTF8) and worker.process is not None
    pid = worker.process.pid
    with pytest.raises(FetchError, match="is image/png, 5,008 bytes; only text"):
        read(worker, b"\x89PNG\r\n\x1a\n" + bytes(5000), "text/html")
    assert worker.process.pid == pid and not (tmp_path / "was_run").exists()
    if sys.platform.startswith("linux"):
        assert b"secret" not in Path(f"/proc/{pid}/environ").read_bytes()
        assert "Max file size             0                    0" in Path(f"/proc/{pid}/limits").read_text()
        del worker  # the refusal's traceback holds it too, until the collector has run after the worker's thread let go
        assert soon(lambda: gc.collect() >= 0 and not running(pid))


@pytest.mark.parametrize(
    ("limits", "body"), [({"timeout_s": 5}, ENDLESS), pytest.param({"memory_mb": 25, "timeout_s": 300}, LONG, marks=linux)]
)
def test_a_page_that_takes_too_much_gives_its_words_and_the_next_page_works(limits: dict[str, float], body: bytes) -> None:
    worker = ExtractionWorker(**limits)  # type: ignore[arg-type]
    with closing(worker):
        got = read(worker, body)
        assert got.note == "plain text only: it took too long or too much memory" and got.content.count("item") == 29_000
        assert read(worker).content.startswith("# Rows")


def test_a_slow_or_cancelled_page_holds_nobody_up_and_harms_no_other() -> None:
    """A page that waits is read by a second worker, or dropped from the queue; a page at work that is cancelled is killed."""

    async def one_behind_another() -> None:
        slow, waiting = (asyncio.ensure_future(worker.extract(body, url=URL, content_type=UTF8)) for body in (ENDLESS, PAGE))
        await asyncio.sleep(0.05)
        waiting.cancel()
        assert (await worker.extract(PAGE, url=URL, content_type=UTF8)).content.startswith("# Rows") and not slow.done()
        slow.cancel()
        ends = await asyncio.gather(slow, waiting, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        assert (await worker.extract(PAGE, url=URL)).note == ""

    with closing(ExtractionWorker(timeout_s=300)) as second, closing(ExtractionWorker(timeout_s=300, relief=second)) as worker:
        asyncio.run(one_behind_another())


@linux
def test_the_process_ends_when_its_parent_is_killed() -> None:
    code = (
        "import asyncio, time; from ipy_websearch.extract.reader import ExtractionWorker; w = ExtractionWorker();"
        "asyncio.run(w.extract(b'<p>x', url='https://e.org')); print(w.process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3], text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert running(pid)
        parent.kill()
    assert soon(lambda: not running(pid))
