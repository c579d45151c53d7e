"""Reading a page: judged, downloaded, turned into Markdown, kept for a while, and cut to the lines that were asked for.

Invariant: an address is judged before the cache is looked at, so what may not be fetched is not served from an earlier time
either. Files are never opened: corpus:// and file:// addresses go to the local index, which knows what it holds. Reads of the
same address that overlap share one download; it is given up when the last of them is cancelled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ipy_websearch.background import SingleFlight
from ipy_websearch.errors import BlockedAddressError, ConfigError, FetchError
from ipy_websearch.extract.worker import ExtractionWorker, from_json, to_json
from ipy_websearch.http.address import allow_from_environment, check_url, shown
from ipy_websearch.http.cache import Cache
from ipy_websearch.results import Page
from ipy_websearch.text import plain, visible

if TYPE_CHECKING:
    from ipy_websearch.http.download import Download, RobotsFiles

# Title, Markdown and date of a page in the local index.
LocalPage = tuple[str, str, datetime | None]

_CACHE_KIND = "page-7"  # the number goes up whenever extraction gives something else for the same page


class PageReader:
    """Reads pages as Markdown.

    `cache` keeps pages for `cache_ttl_s` seconds (0: nothing is kept). `local` gives a page of the local index, None when it
    has none under that address. `download` gets the bytes (None: `http.download.download`). Private addresses are read that
    IPY_WEBSEARCH_FETCH_ALLOW names at the time of each read.
    """

    def __init__(
        self,
        *,
        cache: Cache | None = None,
        user_agent: str = "ipy_websearch",
        cache_ttl_s: float = 900,
        local: Callable[[str], LocalPage | None] = lambda url: None,
        worker: ExtractionWorker | None = None,
        download: Callable[..., Awaitable[Download]] | None = None,
    ) -> None:
        self.worker = worker or ExtractionWorker()
        self._cache = cache or Cache(None)
        self._user_agent = user_agent
        self._cache_ttl_s = cache_ttl_s
        self._local = local
        self._download = download
        self._robots: RobotsFiles | None = None
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
            ConfigError: `offset` or `limit` is below 1.
            BlockedAddressError: the address is not the public web.
            FetchError: the page could not be had, or not be read ("Failed to parse HTML: …").
        """
        if offset < 1 or (limit is not None and limit < 1):
            raise ConfigError(f"offset is {offset} and limit is {limit}; lines are counted from 1 and a limit is 1 or more")
        url = url.strip()
        if url.lower().startswith(("corpus:", "file:")):
            return window(self._from_index(url), offset, limit)
        allow = allow_from_environment()
        target = check_url(url, allow=allow).url
        page = None if fresh else self._cached(target)
        if page is None:
            load = partial(self._load, target, robots, allow=allow, timeout_s=timeout_s)
            page, _ = await self._flights.share(f"{target} {robots} {timeout_s}", load)
        return window(replace(page, url=url), offset, limit)

    def _from_index(self, url: str) -> Page:
        found = self._local(url)
        if found is None:
            raise BlockedAddressError(
                f"{shown(url)} is not in the local index; only its own pages are read under corpus:// and file://"
            )
        title, markdown, date = found
        return Page(url, url, plain(title), visible(markdown).strip("\n"), 0, 0, date, "text/markdown")

    async def _load(self, url: str, robots: bool, **options: Any) -> Page:
        """Download a page, extract it and keep it."""
        # httpx takes a while to import, and a session that only searches locally never needs it
        from ipy_websearch.http.download import RobotsFiles, download

        self.worker.warm()
        get = partial(self._download or download, url, user_agent=self._user_agent, **options)
        if robots:
            files = self._robots = self._robots or RobotsFiles(
                user_agent=self._user_agent, cache=self._cache, download=self._download
            )
            async with files.turn(urlsplit(url).netloc):
                got = await get(admit=lambda target: files.admit(target, options["allow"]))
        else:
            got = await get()
        try:
            content_type = f"{got.content_type}; charset={got.charset}"
            page = await self.worker.extract(got.body, url=got.final_url, content_type=content_type)
        except FetchError as exc:
            raise FetchError(f"Failed to parse HTML: {exc}") from exc
        page = replace(page, url=url, content_type=got.content_type)
        if self._cache_ttl_s > 0:
            self._cache.put(_CACHE_KIND, url, to_json(page))
        return replace(page, fetched_at=datetime.now(UTC))

    def _cached(self, url: str) -> Page | None:
        """Return the page of a cache entry, None when there is none that can be read."""
        entry, age_s = self._cache.get(_CACHE_KIND, url, self._cache_ttl_s) or ({}, 0.0)
        try:
            return replace(from_json(entry), cached=True, fetched_at=datetime.now(UTC) - timedelta(seconds=age_s))
        except (KeyError, TypeError, ValueError):
            return None


def window(page: Page, offset: int, limit: int | None) -> Page:
    """Return the page with the lines from `offset` on, at most `limit` of them; `page` holds the whole content."""
    lines = page.content.split("\n") if page.content else []
    part = lines[offset - 1 : None if limit is None else offset - 1 + limit]
    return replace(page, content="\n".join(part), lines_read=len(part), total_lines=len(lines))
