"""Which robots.txt holds for a host: fetched once through the guarded door, kept for a day, asked before each request.

Only programs that read many pages are held to it; a person who opens one page is not a robot. Invariant: nothing is requested
from a host whose file has not been read, and the file is requested like a page: judged, pinned and bounded (`download`).

RFC 9309, section 2.3.1 (read 2026-11): with an answer of 4xx, or after too many redirects, everything may be read; while the
server fails, or cannot be reached, nothing may. 429 counts as a failing server, as it does for Google. `Crawl-delay` is not
in the RFC; what holds instead is that at most `AT_ONCE` pages of a host are read at the same time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from ipy_websearch.errors import BlockedAddressError, FetchError
from ipy_websearch.http.address import SafeUrl, shown
from ipy_websearch.http.loops import PerLoop
from ipy_websearch.http.robots import MAX_BYTES, Rule, product_token, refusing_rule, rules_for
from ipy_websearch.text import shorten

if TYPE_CHECKING:
    from ipy_websearch.http.cache import Cache
    from ipy_websearch.http.download import Download

KEPT_S = 86_400.0
"""Seconds that a file is kept; RFC 9309, section 2.4, allows no more."""
FAILURE_KEPT_S = 600.0
"""Seconds after which a server that failed is asked again."""
AT_ONCE = 2

_TIMEOUT_S = 15.0
_CACHE_KIND = "robots-1"
_MOST_HOSTS = 1_000


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a host says to us: its rules, or why nothing of it may be read ("" when its file could be had)."""

    rules: tuple[Rule, ...] = ()
    closed: str = ""

    def is_current(self, age_s: float) -> bool:
        return age_s < (FAILURE_KEPT_S if self.closed else KEPT_S)


class RobotsFiles:
    """The files of all hosts that one reader has met; `user_agent` introduces us, and its first word is our name in them."""

    def __init__(
        self, *, user_agent: str, cache: Cache | None = None, download: Callable[..., Awaitable[Download]] | None = None
    ) -> None:
        self._user_agent = user_agent
        self._token = product_token(user_agent)
        self._cache = cache
        self._download = download
        self._known: dict[str, tuple[_Verdict, float]] = {}
        self._flights: PerLoop[dict[str, asyncio.Task[_Verdict]]] = PerLoop(dict)
        self._turns: PerLoop[WeakValueDictionary[str, asyncio.Semaphore]] = PerLoop(WeakValueDictionary)

    async def admit(self, target: SafeUrl, allow: frozenset[str] = frozenset()) -> None:
        """Return when the host's robots.txt lets us read the address; `allow` opens private addresses, as for a page.

        Raises:
            FetchError: it does not, or it could not be had; the message names the rule.
            BlockedAddressError: the host is not the public web.
        """
        origin = f"{target.scheme}://{urlsplit(target.url).netloc}"
        verdict = await self._verdict(origin, allow)
        if verdict.closed:
            raise FetchError(f"{shown(target.url)} is not read in bulk, since its robots.txt could not be: {verdict.closed}")
        rule = refusing_rule(verdict.rules, target.url.removeprefix(origin))
        if rule is not None:
            said = shorten(str(rule), 120)  # the words in it stand in the address too, or the rule would not be about it
            raise FetchError(f'{shown(target.url)} is not read in bulk: {origin}/robots.txt says "{said}"')

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncIterator[None]:
        """Wait until fewer than `AT_ONCE` pages of the host are being read."""
        turn = self._turns.get().setdefault(host, asyncio.Semaphore(AT_ONCE))
        async with turn:
            yield

    async def _verdict(self, origin: str, allow: frozenset[str]) -> _Verdict:
        found = self._kept(origin)
        if found is not None:
            return found
        flights = self._flights.get()
        flight = flights.get(origin)
        if flight is None:
            flight = flights[origin] = asyncio.create_task(self._fetch(origin, allow))
        return await asyncio.shield(flight)  # one page that is given up must not cost the others the file

    def _kept(self, origin: str) -> _Verdict | None:
        verdict, since = self._known.get(origin, (None, 0.0))
        if verdict is not None and verdict.is_current(time.monotonic() - since):
            return verdict
        found = self._cache.get(_CACHE_KIND, f"{self._token} {origin}", KEPT_S) if self._cache is not None else None
        verdict = _from_json(found[0]) if found is not None else None
        if found is None or verdict is None or not verdict.is_current(found[1]):
            return None
        self._remember(origin, verdict, time.monotonic() - found[1])
        return verdict

    def _remember(self, origin: str, verdict: _Verdict, since: float) -> None:
        while len(self._known) >= _MOST_HOSTS:
            del self._known[next(iter(self._known))]
        self._known[origin] = (verdict, since)

    async def _fetch(self, origin: str, allow: frozenset[str]) -> _Verdict:
        try:
            verdict = await self._ask(origin, allow)
        finally:
            del self._flights.get()[origin]
        self._remember(origin, verdict, time.monotonic())
        if self._cache is not None:
            self._cache.put(_CACHE_KIND, f"{self._token} {origin}", _to_json(verdict))
        return verdict

    async def _ask(self, origin: str, allow: frozenset[str]) -> _Verdict:
        from ipy_websearch.http.download import download

        options: dict[str, Any] = {"allow": allow, "user_agent": self._user_agent, "timeout_s": _TIMEOUT_S}
        try:
            got = await (self._download or download)(f"{origin}/robots.txt", max_bytes=MAX_BYTES, cut=True, **options)
        except BlockedAddressError:
            raise
        except FetchError as exc:
            unavailable = exc.status is not None and exc.status < 500 and exc.status != 429
            return _Verdict() if unavailable else _Verdict(closed=str(exc))
        body = got.body if len(got.body) < MAX_BYTES else got.body[: got.body.rfind(b"\n") + 1]
        return _Verdict(rules_for(body.decode("utf-8", "replace"), self._token))


def _to_json(verdict: _Verdict) -> dict[str, Any]:
    return {"closed": verdict.closed, "rules": [[rule.allows, rule.pattern] for rule in verdict.rules]}


def _from_json(value: Any) -> _Verdict | None:
    """Return a kept verdict, None when the entry is not one of ours."""
    try:
        rules = tuple(Rule(bool(allows), str(pattern)) for allows, pattern in value["rules"])
        return _Verdict(rules, str(value["closed"]))
    except (KeyError, TypeError, ValueError):
        return None
