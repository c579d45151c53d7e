"""Reading a page: judged, downloaded, turned into Markdown, kept for a while, and cut to the lines that were asked for.

Invariant: an address is judged before the cache is looked at, so what may not be fetched is not served from an earlier time
either. Files are never opened: corpus:// and file:// addresses go to the local index, which knows what it holds. Reads of the
same address that overlap share one download; it is given up when the last of them is cancelled.

A page is hostile input for large parsers, some of them in C, so they never run in the user's kernel, but in a process that can
be killed. It is started at the first page, reused, limited in memory, and ended when a page takes too long, when it has been
idle, or when its parent goes; a second one reads the pages that a slow one holds up. It holds no keys and can write no file.
A page that defeats it is read once more by a new process, words alone, with a note that says so. A request is one line of JSON
and the body behind it, an answer one line of JSON. Nothing is ever unpickled.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ipy_websearch.background import SingleFlight
from ipy_websearch.errors import BlockedAddressError, FetchError
from ipy_websearch.results import Page
from ipy_websearch.text import plain, visible

if TYPE_CHECKING:
    from ipy_websearch.http.client import Cache
    from ipy_websearch.http.download import Download

# Title, Markdown and date of a page in the local index.
LocalPage = tuple[str, str, datetime | None]

_CACHE_KIND = "page-12"  # the number goes up whenever extraction gives something else for the same page
_START_S = 30.0  # for loading the parsers, and for the words of a page, which take linear time
_PATIENCE_S = 1.0  # for its turn: a page that waits longer stands behind a slow one
_DATES = ("published_date", "fetched_at")
_DEFEATED = "it took too long or too much memory"
# Paths go behind the standard library's, so that no file of the user's can stand in for one of its modules.
_BOOT = (
    "import sys, json; at = next((n for n, p in enumerate(sys.path) if 'site-packages' in p), len(sys.path));"
    "sys.path[at:at] = json.loads(sys.argv[1]); from ipy_websearch.extract.reader import serve;"
    "serve(*map(float, sys.argv[2:]))"
)
_KEPT_VARIABLES = ("PATH", "SYSTEMROOT", "WINDIR", "TEMP", "TMP", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH")


class PageReader:
    """Reads pages as Markdown.

    `cache` keeps pages for `cache_ttl_s` seconds (0: nothing is kept). `local` gives a page of the local index, None when it
    has none under that address. `download` gets the bytes. Private addresses are read that IPY_WEBSEARCH_FETCH_ALLOW names at
    the time of each read.
    """

    def __init__(
        self,
        *,
        cache: Cache,
        user_agent: str,
        cache_ttl_s: float,
        local: Callable[[str], LocalPage | None],
        download: Callable[..., Awaitable[Download]],
    ) -> None:
        from ipy_websearch.http import download as http  # loads httpx, which the extraction process does not need

        self._http = http
        self.worker = ExtractionWorker(relief=ExtractionWorker())
        self._cache = cache
        self._cache_ttl_s = cache_ttl_s
        self._local = local
        self._download = partial(download, user_agent=user_agent)
        self._robots = http.RobotsFiles(user_agent=user_agent, cache=self._cache, download=download)
        self._flights: SingleFlight[Page] = SingleFlight()

    async def read(
        self,
        url: str,
        *,
        offset: int = 1,
        limit: int | None = None,
        fresh: bool = False,
        robots: bool = False,
        timeout_s: float = 30.0,
    ) -> Page:
        """Return the page, or `limit` lines of its Markdown from line `offset` (from 1) on.

        Past the end the content is "" and `lines_read` 0; a limit beyond the end gives all that is left; None means all.
        `fresh` skips the cache. `robots` is for programs that read many pages: each host's robots.txt has to allow it.
        `timeout_s` bounds the download.

        Raises:
            BlockedAddressError: the address is not the public web.
            FetchError: the page could not be had, or not be read ("Failed to parse HTML: …").
        """
        url = url.strip()
        if url.lower().startswith(("corpus:", "file:")):
            return window(self._from_index(url), offset, limit)
        allow = self._http.allow_from_environment()
        target = self._http.check_url(url, allow=allow).url
        page = None if fresh else self._cached(target)
        if page is None:
            load = partial(self._load, target, robots, allow=allow, timeout_s=timeout_s)
            page, _ = await self._flights.share(f"{target} {robots} {timeout_s}", load)
        return window(replace(page, url=url), offset, limit)

    def _cached(self, url: str) -> Page | None:
        """Return the page of a cache entry, None when there is none, or one that was damaged in the file."""
        kept = self._cache.get(_CACHE_KIND, url, self._cache_ttl_s)
        with suppress(KeyError, TypeError, ValueError):
            return replace(from_json(kept[0]), cached=True) if kept else None
        return None

    def _from_index(self, url: str) -> Page:
        found = self._local(url)
        if found is None:
            raise BlockedAddressError(
                f"{self._http.shown(url)} is not in the local index; only its own pages are read under corpus:// and file://"
            )
        title, markdown, date = found
        return Page(url, url, plain(title), visible(markdown).strip("\n"), 0, 0, date, "text/markdown")

    async def _load(self, url: str, robots: bool, **options: Any) -> Page:
        """Download a page, extract it and keep it."""
        self.worker.warm()
        admit = partial(self._robots.admit, allow=options["allow"]) if robots else None
        async with self._robots.turn(urlsplit(url).netloc) if robots else nullcontext():
            got = await self._download(url, admit=admit, **options)
        try:
            page = await self.worker.extract(
                got.body, url=got.final_url, content_type=f"{got.content_type}; charset={got.charset}"
            )
        except FetchError as exc:
            raise FetchError(f"Failed to parse HTML: {exc}") from exc
        page = replace(page, url=url, content_type=got.content_type, fetched_at=datetime.now(UTC))
        if self._cache_ttl_s > 0:
            self._cache.put(_CACHE_KIND, url, to_json(page))
        return page


def window(page: Page, offset: int, limit: int | None) -> Page:
    """Return the page with the lines from `offset` on, at most `limit` of them; `page` holds the whole content."""
    lines = page.content.split("\n") if page.content else []
    part = lines[offset - 1 : None if limit is None else offset - 1 + limit]
    return replace(page, content="\n".join(part), lines_read=len(part), total_lines=len(lines))


# --- extraction in a process of its own ---------------------------------------------------------------------------------


class ExtractionWorker:
    """Turns fetched bodies into Markdown, one at a time; calls from any loop or thread queue up, and those that wait for more
    than a second go to `relief` (None: they wait).

    `timeout_s` is the time that one page may take, `memory_mb` what the process may allocate on top of its libraries (where the
    platform limits address space: Linux). The process ends itself after `idle_s` without a page.
    """

    def __init__(
        self, *, timeout_s: float = 10.0, memory_mb: int = 512, idle_s: float = 60.0, relief: ExtractionWorker | None = None
    ) -> None:
        self._limits = (timeout_s, memory_mb, idle_s)
        self._relief = relief
        self._thread = ThreadPoolExecutor(1, "ipy_websearch-extract")
        self._end: Callable[[], None] = lambda: None
        self.process: subprocess.Popen[bytes] | None = None

    async def extract(self, body: bytes, *, url: str, content_type: str = "") -> Page:
        """Return the page as Markdown, or as plain text with a note when it defeated the extractor.

        Raises:
            FetchError: the body is not text (an image, an archive, …), or no process could read it.
        """
        job = self._thread.submit(self._extract, body, {"url": url, "content_type": content_type, "size": len(body)})
        page = asyncio.wrap_future(job)
        try:
            await asyncio.wait([page], timeout=_PATIENCE_S)
            if self._relief and job.cancel():  # its turn has not come
                return await self._relief.extract(body, url=url, content_type=content_type)
            return await page
        except asyncio.CancelledError:
            page.cancel()
            if job.running():  # nobody waits for the page: let it not hold up the next one
                self.close()
            raise

    def warm(self) -> None:
        """Start the process, without waiting for it: a page that is being fetched will not have to."""
        self._thread.submit(self._running)

    def close(self) -> None:
        """End the process; a later call to `extract` starts a new one."""
        self.process = None
        self._end()

    def _extract(self, body: bytes, request: dict[str, Any]) -> Page:
        answer = self._ask(request, body) or self._ask({**request, "plain": _DEFEATED}, body)
        if "page" not in answer:
            raise FetchError(answer.get("refused", f"{request['url']} cannot be read: {_DEFEATED}"))
        return from_json(answer["page"])

    def _ask(self, request: dict[str, Any], body: bytes) -> dict[str, Any]:
        """Return the process's answer, {} when it gave none: the process is gone then."""
        try:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps(request).encode() + b"\n" + body)
            process.stdin.flush()
            return dict(json.loads(process.stdout.readline()))
        except (OSError, ValueError):
            self.close()
            return {}

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None or self.process.poll() is not None:
            self.close()
            self.process = _start(*self._limits)
            self._end = weakref.finalize(self, _stop, self.process)
        return self.process


def _start(*limits: float) -> subprocess.Popen[bytes]:
    home, here = str(Path(__file__).resolve().parents[2]), os.path.realpath(os.curdir)
    paths = [p for p in sys.path if os.path.isabs(p) and os.path.isdir(p) and os.path.realpath(p) != here and p != home]
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _BOOT, json.dumps([home, *paths]), *map(str, limits)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parent,
        env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
        start_new_session=sys.platform != "win32",  # a Ctrl-C in the terminal is the session's affair
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()  # waits for its end and closes the pipes


def to_json(page: Page) -> dict[str, Any]:
    """Return a page as a JSON object, for a pipe or the cache."""
    return asdict(page) | {name: value.isoformat() for name in _DATES if (value := getattr(page, name))}


def from_json(found: dict[str, Any]) -> Page:
    """Return the page of such a JSON object."""
    dates = {name: datetime.fromisoformat(found[name]) for name in _DATES if found[name]}
    return Page(**found | dates | {"links": tuple(found["links"])})


def serve(timeout_s: float, memory_mb: float, idle_s: float) -> None:
    """Answer requests on the standard streams until the parent goes: the extraction process itself."""
    import faulthandler
    import gc

    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    void = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # so that no print of a library can break in
        os.dup2(void, descriptor)

    # The thread of faulthandler lives in C: it ends the process even while a parser loops and the parent is gone.
    end_after = partial(faulthandler.dump_traceback_later, exit=True, file=void)
    end_after(_START_S)
    _answer({"url": "http://localhost/", "content_type": ""}, b"<title>t</title><p>A sentence, to be judged.</p>")  # loads them
    gc.freeze()
    gc.disable()  # a page's garbage goes when its answer is out: looking for it meanwhile takes a quarter of the time
    _limit_memory(int(memory_mb * 1024 * 1024))
    end_after(idle_s)
    while line := source.readline():
        request = json.loads(line)
        end_after(_START_S if "plain" in request else timeout_s)
        sink.write(_answer(request, source.read(request["size"])))
        sink.flush()
        end_after(idle_s)
        gc.collect()


def _answer(request: dict[str, Any], body: bytes) -> bytes:
    """Return the answer to a request; any other error ends the process."""
    from ipy_websearch.extract.page import extract

    try:
        page = extract(body, url=request["url"], content_type=request["content_type"], plain=request.get("plain", ""))
        return json.dumps({"page": to_json(page)}).encode() + b"\n"
    except FetchError as error:
        return json.dumps({"refused": str(error)}).encode() + b"\n"


def _limit_memory(more: int) -> None:
    """Allow `more` bytes where the platform can; the process may write no file and dump no core."""
    with suppress(ImportError, OSError):
        import resource

        mapped = int(Path("/proc/self/statm").read_bytes().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        for kind, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_AS, mapped + more)):
            resource.setrlimit(kind, (value, value))
