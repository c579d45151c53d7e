"""Reading a page: judged, downloaded, turned into Markdown, kept for a while, and cut to the lines that were asked for.

Invariant: an address is judged before the cache is looked at, so what may not be fetched is not served from an earlier
time either. Files are never opened: corpus:// and file:// addresses go to the local index, which knows what it holds.
Reads of the same address that overlap share one download; it is given up when the last of them is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from ipy_websearch.errors import BlockedAddressError, ConfigError, FetchError
from ipy_websearch.http.address import allow_from_environment, check_url, shown
from ipy_websearch.results import Page
from ipy_websearch.text import plain, shorten, visible

if TYPE_CHECKING:
    from ipy_websearch.extract.html import Mode
    from ipy_websearch.extract.worker import ExtractionWorker
    from ipy_websearch.http.cache import Cache
    from ipy_websearch.http.download import Download
    from ipy_websearch.http.robots import RobotsFiles

LocalPage = tuple[str, str, datetime | None]
"""Title, Markdown and date of a page in the local index."""

_LOCAL_SCHEMES = ("corpus:", "file:")
_CACHE_KIND = "page-1"  # the number goes up whenever extraction gives something else for the same page
_FIELDS = ("final_url", "title", "content", "language", "content_type", "note")


_Key: TypeAlias = "tuple[str, Mode]"
_FlightKey: TypeAlias = "tuple[str, Mode, bool]"


@dataclass(slots=True)
class _Flight:
    """A download under way, and how many are waiting for it."""

    task: asyncio.Task[Page]
    waiters: int = 0


class PageReader:
    """Reads pages as Markdown.

    `cache` keeps pages for `cache_ttl_s` seconds (None: nothing is kept). `local` gives a page of the local index, None
    when it has none under that address. `worker` extracts (None: one is started at the first page). `allow` are the
    private addresses that may be read (None: those in IPY_WEBSEARCH_FETCH_ALLOW at the time of each read). `download` gets
    the bytes (None: `http.download.download`).
    """

    def __init__(
        self,
        *,
        cache: Cache | None = None,
        user_agent: str = "",
        cache_ttl_s: float = 900,
        local: Callable[[str], LocalPage | None] | None = None,
        worker: ExtractionWorker | None = None,
        allow: frozenset[str] | None = None,
        timeout_s: float = 30.0,
        max_bytes: int = 5_000_000,
        download: Callable[..., Awaitable[Download]] | None = None,
    ) -> None:
        self._download = download
        self._cache = cache
        self._user_agent = user_agent
        self._cache_ttl_s = cache_ttl_s
        self._local = local
        self._worker = worker
        self._allow = allow
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._robots: RobotsFiles | None = None
        self._flights: dict[_FlightKey, _Flight] = {}

    async def read(
        self,
        url: str,
        *,
        offset: int = 1,
        limit: int | None = None,
        fresh: bool = False,
        mode: Mode = "main",
        bulk: bool = False,
    ) -> Page:
        """Return the page, or `limit` lines of its Markdown from line `offset` (from 1) on.

        Past the end the content is "" and `lines_read` 0; a limit beyond the end gives all that is left; None means all.
        `fresh` skips the cache. `mode` is extraction's: "main" keeps what the page is about, "page" all that is visible.
        `bulk` is for programs that read many pages: what they request, each host's robots.txt has to allow.

        Raises:
            ConfigError: `offset` or `limit` is below 1.
            BlockedAddressError: the address is not the public web.
            FetchError: the page could not be had, or not be read ("Failed to parse HTML: …").
        """
        if offset < 1 or (limit is not None and limit < 1):
            raise ConfigError(f"offset is {offset} and limit is {limit}; lines are counted from 1 and a limit is 1 or more")
        if isinstance(url, str) and url.strip().lower().startswith(_LOCAL_SCHEMES):
            return window(self._from_local(url.strip()), offset, limit)
        allow = self._allow if self._allow is not None else allow_from_environment()
        target = check_url(url, allow=allow)
        key = (target.url, mode)
        page = None if fresh else self._cached(key)
        if page is None:
            page = await self._shared((*key, bulk), lambda: self._load(key, allow, bulk))
        return window(replace(page, url=url.strip()), offset, limit)

    def _from_local(self, url: str) -> Page:
        found = self._local(url) if self._local is not None else None
        if found is None:
            raise BlockedAddressError(
                f"{shown(url)} is not in the local index; only its own pages are read under corpus:// and file://"
            )
        title, markdown, date = found
        text = _clean(markdown)
        return Page(url, url, plain(title), text, 0, 0, published_date=date, content_type="text/markdown")

    async def _shared(self, key: _FlightKey, load: Callable[[], Coroutine[Any, Any, Page]]) -> Page:
        """Return what one `load` gives to all who wait for the same key."""
        flights = self._flights
        flight = flights.get(key)
        if flight is None:
            flight = flights[key] = _Flight(asyncio.create_task(load()))
            flight.task.add_done_callback(_look_at)
        flight.waiters += 1
        try:
            await asyncio.wait([flight.task])  # not awaited itself: one reader who is cancelled must not stop the others
            return flight.task.result()
        finally:
            flight.waiters -= 1
            if flight.task.done() or flight.waiters == 0:
                flight.task.cancel()
                if flights.get(key) is flight:
                    del flights[key]

    async def _load(self, key: _Key, allow: frozenset[str], bulk: bool) -> Page:
        url, mode = key
        worker = self._extraction()
        worker.warm()
        got = await (self._get_in_bulk(url, allow) if bulk else self._get(url, allow))
        content_type = f"{got.content_type}; charset={got.charset}" if got.charset else got.content_type
        try:
            extracted = await worker.extract(got.body, url=got.final_url, content_type=content_type, mode=mode)
        except FetchError as exc:
            raise FetchError(f"Failed to parse HTML: {exc}") from exc
        page = Page(
            url=url,
            final_url=got.final_url,
            title=shorten(plain(extracted.title), 300),
            content=_clean(extracted.markdown),
            lines_read=0,
            total_lines=0,
            published_date=extracted.published_date,
            language=extracted.language,
            content_type=got.content_type,
            note=extracted.note,
            links=tuple(extracted.links),
            fetched_at=datetime.now(UTC),
        )
        if self._cache is not None and self._cache_ttl_s > 0:
            self._cache.put(_CACHE_KIND, f"{mode} {url}", _to_json(page))
        return page

    async def _get(self, url: str, allow: frozenset[str], **more: Any) -> Download:
        # httpx takes a while to import, and a session that only searches locally never needs it
        from ipy_websearch.http.download import USER_AGENT, download

        agent = self._user_agent or USER_AGENT
        options = {"allow": allow, "user_agent": agent, "timeout_s": self._timeout_s, "max_bytes": self._max_bytes, **more}
        return await (self._download or download)(url, **options)

    async def _get_in_bulk(self, url: str, allow: frozenset[str]) -> Download:
        if self._robots is None:
            from ipy_websearch.http.download import USER_AGENT
            from ipy_websearch.http.robots import RobotsFiles

            agent = self._user_agent or USER_AGENT
            self._robots = RobotsFiles(user_agent=agent, cache=self._cache, download=self._download)
        robots = self._robots
        async with robots.turn(urlsplit(url).netloc):
            return await self._get(url, allow, admit=lambda target: robots.admit(target, allow))

    def _extraction(self) -> ExtractionWorker:
        if self._worker is None:
            from ipy_websearch.extract.worker import ExtractionWorker

            self._worker = ExtractionWorker()
        return self._worker

    def _cached(self, key: _Key) -> Page | None:
        url, mode = key
        found = self._cache.get(_CACHE_KIND, f"{mode} {url}", self._cache_ttl_s) if self._cache is not None else None
        return _from_json(url, *found) if found is not None else None


def window(page: Page, offset: int, limit: int | None) -> Page:
    """Return the page with the lines from `offset` on, at most `limit` of them; `page` holds the whole content."""
    lines = page.content.split("\n") if page.content else []
    part = lines[offset - 1 : None if limit is None else offset - 1 + limit]
    return replace(page, content="\n".join(part), lines_read=len(part), total_lines=len(lines))


def _look_at(task: asyncio.Task[Page]) -> None:
    """Take note of a failure that nobody waits for any more, so that asyncio does not report it as forgotten."""
    if not task.cancelled():
        task.exception()


def _clean(markdown: str) -> str:
    return visible(markdown).strip("\n")


def _to_json(page: Page) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(page, name) for name in _FIELDS}
    values["links"] = list(page.links)
    values["published_date"] = page.published_date.isoformat() if page.published_date else None
    return values


def _from_json(url: str, value: Any, age_s: float) -> Page | None:
    """Return the page of a cache entry, None when the entry is not one of ours."""
    try:
        texts = {name: value[name] for name in _FIELDS}
        date = datetime.fromisoformat(value["published_date"]) if value["published_date"] else None
        links = tuple(value["links"])
    except (KeyError, TypeError, ValueError):
        return None
    if not all(isinstance(text, str) for text in (*texts.values(), *links)):
        return None
    fetched_at = datetime.now(UTC) - timedelta(seconds=age_s)
    return Page(
        url=url, lines_read=0, total_lines=0, published_date=date, links=links, cached=True, fetched_at=fetched_at, **texts
    )
