"""Extraction in a process of its own, which can be killed: `ExtractionWorker`.

A page is hostile input for three large parsers, two of them in C or Rust. They never run in the user's kernel: one process
is started at the first page, reused, killed when a page takes too long or too much memory, and ended when it has been idle.
Whatever happens to it, the caller gets a page: where extraction was defeated, the words alone, and a note that says so.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ipy_websearch.errors import FetchError
from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.html import Mode
from ipy_websearch.extract.process import Defeated, Process

_ABANDONED_S = 1.0


class ExtractionWorker:
    """Turns fetched bodies into Markdown, one at a time, in a process that is started when first needed.

    One worker may be used from several event loops and threads; calls queue up. `timeout_s` is the time one page may
    take, `memory_mb` the memory, `idle_s` how long the process waits for the next page before it ends.
    """

    def __init__(self, *, timeout_s: float = 10.0, memory_mb: int = 512, idle_s: float = 60.0) -> None:
        self._desk = _Desk(timeout_s, memory_mb, idle_s)
        weakref.finalize(self, self._desk.close)

    async def extract(self, body: bytes | str, *, url: str, content_type: str = "", mode: Mode = "main") -> Extracted:
        """Return the page as Markdown, or as plain text with a note when it defeated the extractor.

        Raises:
            FetchError: the body is not text (an image, an archive, …); the message says what it is.
        """
        if isinstance(body, str):
            body, content_type = body.encode("utf-8", "replace"), f"{content_type.partition(';')[0]}; charset=utf-8"
        job = _Job({"url": url, "content_type": content_type, "mode": mode}, body)
        self._desk.submit(job)
        try:
            return await asyncio.wrap_future(job.done)
        except asyncio.CancelledError:
            self._desk.abandon(job)
            raise

    def warm(self) -> None:
        """Start the process now, without waiting for it: a page that is being fetched will not have to."""
        self._desk.submit(None)

    @property
    def pid(self) -> int | None:
        """The process's id while one is running, else None."""
        process = self._desk.process
        return process.pid if process is not None else None

    def close(self) -> None:
        """End the process. A later call to `extract` starts a new one."""
        self._desk.close()


@dataclass(slots=True, eq=False)
class _Job:
    header: dict[str, Any]
    body: bytes
    done: Future[Extracted] = field(default_factory=Future)


class _Desk:
    """The queue before the process, and the thread that serves it; the thread ends with the process."""

    def __init__(self, timeout_s: float, memory_mb: int, idle_s: float) -> None:
        self._limits: dict[str, Any] = {"timeout_s": timeout_s, "memory_mb": memory_mb, "idle_s": 1.5 * idle_s}
        self._idle_s = idle_s
        self._fresh()

    def _fresh(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None | str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.process: Process | None = None
        self._current: _Job | None = None

    def submit(self, job: _Job | None | str) -> None:
        with self._lock:
            self._jobs.put(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="ipy_websearch-extract", daemon=True)
                self._thread.start()

    def abandon(self, job: _Job) -> None:
        """Nobody waits for `job` any longer: let it not hold up the next one."""
        process = self.process
        if self._current is job and process is not None:
            process.hurry(_ABANDONED_S)

    def close(self) -> None:
        with self._lock:
            thread, process = self._thread, self.process
            if thread is not None:
                self._jobs.put("close")
        if process is not None:
            process.kill("the session was closed")
        if thread is not None and thread is not threading.current_thread():
            thread.join(5.0)

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._idle_s)
            except queue.Empty:
                job = "idle"
            if isinstance(job, str):
                if self._leave(job):
                    return
                continue
            if job is None:
                with suppress(Defeated):
                    self._running()
            elif job.done.set_running_or_notify_cancel():
                self._settle(job)
            job = None

    def _leave(self, why: str) -> bool:
        """End the process; return whether the thread may end too, which it may not while jobs are waiting."""
        if self.process is not None:
            self.process.close()
            self.process = None
        with self._lock:
            if not self._jobs.empty():
                return False
            self._thread = None
            return True

    def _settle(self, job: _Job) -> None:
        self._current = job
        try:
            job.done.set_result(self._page(job))
        except BaseException as error:
            job.done.set_exception(error)
        finally:
            self._current = None

    def _page(self, job: _Job) -> Extracted:
        try:
            header, body = self._ask(job)
        except Defeated as error:
            return _fallback(job, str(error))
        if "refused" in header:
            raise FetchError(header["refused"])
        if "page" not in header:
            return _fallback(job, header.get("defeated", "the extractor gave no answer"))
        page = header["page"]
        date = datetime.fromisoformat(page["date"]) if page["date"] else None
        links = tuple(page["links"])
        return Extracted(body.decode("utf-8"), page["title"], date, page["language"], links, page["note"])

    def _ask(self, job: _Job) -> tuple[dict[str, Any], bytes]:
        process = self._running()
        try:
            return process.ask(job.header, job.body)
        except Defeated:
            self.process = None
            # A process that had answered before may have ended between two pages: that is not this page's doing.
            if not process.answered or process.killed:
                raise
        return self._running().ask(job.header, job.body)

    def _running(self) -> Process:
        if self.process is not None and not self.process.alive:
            self.process.close()
            self.process = None
        if self.process is None:
            self.process = Process(**self._limits)
        return self.process


def _fallback(job: _Job, why: str) -> Extracted:
    from ipy_websearch.extract.charset import decode
    from ipy_websearch.extract.formats import kind_of
    from ipy_websearch.extract.plaintext import plain_text

    if kind_of(job.body, job.header["content_type"]) == "application/pdf":
        raise FetchError(f"{job.header['url']} is a PDF that cannot be read: {why}")
    return plain_text(decode(job.body, job.header["content_type"]), why)
