"""robots.txt for bulk reading: fetched once a host through the guarded door, kept for a day, asked before each request.

A person who opens one page is not a robot; only programs that read many pages are held to it. Invariant: nothing is
requested from a host whose file has not been read, and the file is requested like a page: judged, pinned and bounded.

RFC 9309, section 2.3.1 (read 2026-11): with 4xx, or too many redirects, everything may be read; while the server fails, or
cannot be reached, nothing may. 429 counts as a failing server, as it does for Google. `Crawl-delay` is not in the RFC;
instead, at most `AT_ONCE` pages of a host are read at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from ipy_websearch.errors import BlockedAddressError, FetchError
from ipy_websearch.http.address import SafeUrl, shown
from ipy_websearch.http.cache import Cache

if TYPE_CHECKING:
    from protego import Protego

    from ipy_websearch.http.download import Download

KEPT_S = 86_400.0
"""Seconds that a file is kept; RFC 9309, section 2.4, allows no more."""
FAILURE_KEPT_S = 600.0
"""Seconds after which a server that failed is asked again."""
MAX_BYTES = 64_000
"""Bytes of a file that are read. Protego turns rules into regular expressions, and a stranger writes them."""
AT_ONCE = 2

_TIMEOUT_S = 15.0
_FILES, _FAILURES = "robots-2", "robots-failure-2"


class RobotsFiles:
    """The files of the hosts that one reader has met. `user_agent` introduces us; its first word is our name in the files."""

    def __init__(
        self, *, user_agent: str, cache: Cache | None = None, download: Callable[..., Awaitable[Download]] | None = None
    ) -> None:
        self._user_agent = user_agent
        self._token = user_agent.partition("/")[0].partition(" ")[0]
        self._cache = cache or Cache(None)
        self._download = download
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def admit(self, target: SafeUrl, allow: frozenset[str] = frozenset()) -> None:
        """Return when the host's robots.txt lets us read the address; `allow` opens private addresses, as for a page.

        Raises:
            FetchError: it does not, or it could not be had.
            BlockedAddressError: the host is not the public web.
        """
        origin = f"{target.scheme}://{urlsplit(target.url).netloc}"
        async with self._locks.setdefault(origin, asyncio.Lock()):  # one request for the file, however many pages wait
            text, failure = await self._file(origin, allow)
        if failure:
            raise FetchError(f"{shown(target.url)} is not read in bulk, since its robots.txt could not be: {failure}")
        if not _rules(text).can_fetch(target.url, self._token):
            raise FetchError(f"{shown(target.url)} is not read in bulk: {origin}/robots.txt forbids it")

    def turn(self, host: str) -> asyncio.Semaphore:
        """Return what to hold while a page of the host is read: at most `AT_ONCE` readers have it."""
        return self._turns.setdefault(host, asyncio.Semaphore(AT_ONCE))

    async def _file(self, origin: str, allow: frozenset[str]) -> tuple[str, str]:
        """Return the text of a host's file, and why nothing of the host may be read ("" when the file could be had)."""
        for kind, kept_s in ((_FILES, KEPT_S), (_FAILURES, FAILURE_KEPT_S)):
            if (kept := self._cache.get(kind, origin, kept_s)) is not None:
                return ("", str(kept[0])) if kind == _FAILURES else (str(kept[0]), "")
        text, failure = await self._fetch(origin, allow)
        self._cache.put(_FAILURES if failure else _FILES, origin, failure or text)
        return text, failure

    async def _fetch(self, origin: str, allow: frozenset[str]) -> tuple[str, str]:
        from ipy_websearch.http.download import download

        options: dict[str, Any] = {"allow": allow, "user_agent": self._user_agent, "timeout_s": _TIMEOUT_S}
        try:
            got = await (self._download or download)(f"{origin}/robots.txt", max_bytes=MAX_BYTES, cut=True, **options)
        except BlockedAddressError:
            raise
        except FetchError as exc:
            is_missing = exc.status is not None and exc.status < 500 and exc.status != 429
            return "", "" if is_missing else str(exc)
        body = got.body if len(got.body) < MAX_BYTES else got.body[: got.body.rfind(b"\n") + 1]
        return body.decode("utf-8-sig", "replace"), ""


@lru_cache(256)
def _rules(text: str) -> Protego:
    from protego import Protego

    return Protego.parse(text)
