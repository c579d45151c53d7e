"""The blocking door: the same functions as `Session`'s coroutines, for scripts, cells and magics.

They work in a plain script and under the notebook's running loop alike (see `background`). Ctrl-C and the stop button reach
the calling thread; the work is then cancelled, and given a second to put things in order.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from ipy_websearch import background
from ipy_websearch.ask_run import AskRun
from ipy_websearch.events import Event
from ipy_websearch.results import Answer, Page, SearchResults
from ipy_websearch.session import Session
from ipy_websearch.settings import WebSearch, settings_in_force

if TYPE_CHECKING:
    import pandas as pd

_lock = threading.Lock()
_session: Session | None = None


@background.at_end
def end_session() -> None:
    """End the shared session and close what it has open; the next call makes a new one. The ledger stays."""
    global _session
    ended, _session = _session, None
    if ended is not None:
        ended.stop_tape()
        background.settle(ended.aclose)


def stop_tape() -> None:
    """Stop the cassette that the shared session records or replays, if there is one."""
    if _session is not None:
        _session.stop_tape()


def session() -> Session:
    """Return the session that the module's functions and the magics share; made at first use."""
    global _session
    with _lock:
        if _session is None:
            _session = Session(settings_in_force())
        return _session


def use_session(made: Session | None) -> Session | None:
    """Make this the shared session (None: a new one is made when it is needed); return the one before, which stays open."""
    global _session
    before, _session = _session, made
    return before


def take_settings(settings: WebSearch) -> None:
    """Let the shared session, if there is one, go by these settings."""
    if _session is not None:
        _session.settings = settings


class EventStream:
    """The events of a question, for a thread that is not the background loop's: iterate over it.

    On an interrupt, call `interrupt()`: it stops the run and returns the answer so far.
    """

    def __init__(self, ask_run: AskRun) -> None:
        self.run = ask_run
        self._events: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._future = background.start(self._pump)

    async def _pump(self) -> None:
        try:
            async for event in self.run:
                self._events.put(event)
        except BaseException as exc:
            self._events.put(exc)
            if not isinstance(exc, Exception):
                raise
        else:
            self._events.put(None)
        finally:
            self._ended.set()

    def __iter__(self) -> Iterator[Event]:
        while True:
            try:
                item = self._events.get(timeout=background.POLL_S)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def interrupt(self) -> Answer:
        """Stop the run and return the answer so far, with what it cost booked."""
        self._future.cancel()
        self._ended.wait(background.GRACE_S)
        return self.run.interrupted()


def search(
    query: str,
    *,
    count: int | None = None,
    provider: str | None = None,
    freshness: str | None = None,
    country: str | None = None,
    language: str | None = None,
    safe_search: Literal["off", "moderate", "strict"] | None = None,
    allowed_domains: Sequence[str] = (),
    blocked_domains: Sequence[str] = (),
    goggles: str | Sequence[str] | None = None,
    fresh: bool = False,
) -> SearchResults:
    """Return the results of a web search, best first.

    `query` has 2 characters or more; `count` results at most (None: the setting, 5). `provider` names one engine (None: the
    chain of those with a key, then Wikipedia, then the local index). `freshness` is pd, pw, pm, py (past day, week,
    month, year) or "2026-01-01to2026-06-30". Only one of the domain lists may be given. `goggles` are Brave goggles, by
    address or as inline rules. `fresh` skips the cache. What it cost is in `.cost_usd` and in the ledger.

    >>> search("moons of Mars", provider="local")[0].title
    'Mars'

    Raises:
        ConfigError: an argument is wrong; nothing was sent. MissingKeyError: the engine asked for has no key.
        ProviderError: no engine answered. BudgetExceededError: it would pass the session's ceiling.
    """
    return background.run(
        lambda: session().search(
            query,
            count=count,
            provider=provider,
            freshness=freshness,
            country=country,
            language=language,
            safe_search=safe_search,
            allowed_domains=allowed_domains,
            blocked_domains=blocked_domains,
            goggles=goggles,
            fresh=fresh,
        )
    )


def fetch(url: str, *, offset: int = 1, limit: int | None = None, fresh: bool = False) -> Page:
    """Return a page as Markdown.

    `offset` is the first line of the Markdown to return, counted from 1; `limit` the most lines (None: all). Past the end
    the content is empty and `lines_read` 0. Only public http and https addresses are fetched, and the local index's own.

    >>> fetch("corpus://planets/mars").title
    'Mars'

    Raises:
        BlockedAddressError: the address is not the public web. FetchError: the page could not be had. Nothing is billed.
    """
    return background.run(lambda: session().fetch(url, offset=offset, limit=limit, fresh=fresh))


def ask(
    question: str,
    *,
    model: str | None = None,
    tools: str | Sequence[str] | None = None,
    provider: str | None = None,
    max_searches: int | None = None,
    max_steps: int | None = None,
    budget_usd: Decimal | float | str | None = None,
    timeout_s: float | None = None,
    allowed_domains: Sequence[str] = (),
    blocked_domains: Sequence[str] = (),
    columns: str | Mapping[str, type] | Sequence[str] | None = None,
    system: str | None = None,
    follow: bool = False,
    fresh: bool = False,
) -> Answer:
    """Return an answer from the web, with its sources.

    `model` None is the setting (without a key: the built-in offline model, which the answer says). `tools` are names of
    tools or sets. The limits (None: the settings, 5 searches, 8 steps, no budget, 120 seconds) end in an answer from what
    was found, with `limit` set. `budget_usd` is US dollars over model and searches together. `columns`
    ("name, price: float", or names with types) asks for a table, which `.to_frame()` gives. `system` adds instructions of
    your own. `follow` continues the last conversation.

    >>> ask("How many moons does Mars have?", model="offline", provider="local").sources.url[0]
    'corpus://planets/mars'

    Raises:
        ConfigError: an argument is wrong; nothing was sent. MissingKeyError: a model or engine was named without a key.
        ModelError: the API refused or broke; `.partial` has the text so far, the ledger what it cost.
        BudgetExceededError: not even a short answer fits into the ceiling; nothing was sent.
    """
    return background.run(
        lambda: session().ask(
            question,
            model=model,
            tools=tools,
            provider=provider,
            max_searches=max_searches,
            max_steps=max_steps,
            budget_usd=budget_usd,
            timeout_s=timeout_s,
            allowed_domains=allowed_domains,
            blocked_domains=blocked_domains,
            columns=columns,
            system=system,
            follow=follow,
            fresh=fresh,
        )
    )


def cost(*, by: str | None = None, everything: bool = False, since: str | date | timedelta | None = None) -> pd.DataFrame:
    """Return what the session spent: one row for each model request and paid call, or sums.

    `by` is None or one of question, model, engine (or provider), kind, day, notebook, session; every grouping sums up to
    the same total. `everything` is all sessions in the ledger. `since` is only what came later: "7d", "24h", "30m" ago, a date,
    or a moment (without a zone: UTC); of all sessions, when that is before this one began. Column `usd` is US dollars; an
    unknown price is NaN, never 0. The frame's `summary` has the exact total as a Decimal.

    >>> list(cost().columns[:4])
    ['time', 'question', 'kind', 'name']

    Raises:
        ConfigError: there is no such grouping, or `since` is no moment.
    """
    return session().cost(by=by, everything=everything, since=since)
