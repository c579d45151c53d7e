"""Sends a search to the engine asked for, or down the chain of engines until one answers.

The chain is: engines whose keys are set (in the registry's order), SearXNG if addressed, Wikipedia, the local index. A
failing engine hands on to the next and is named in `attempts` and `notices`; one that could not be reached at all is left
out for five minutes. No hits are an answer: a dead end is not tried again with ever more engines. The one exception is
Wikipedia, an encyclopaedia only, behind which the local index is tried.

What is billed: a paid search that went out and came back unusable, or not at all (a time-out, a lost connection), counts at the
price expected, as `lost`; a refusal (4xx, 5xx) and what never left cost nothing. Where another engine stands in, its answer
carries both.

The cache, and the sharing of equal searches in flight, work per engine: an answer that came from a stand-in is never given
out as that of the engine that failed, and a search by name is served by what the chain has already paid for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ipy_websearch.errors import ConfigError, ProviderError, WebSearchError
from ipy_websearch.http.cache import Cache
from ipy_websearch.money.prices import charges_cost
from ipy_websearch.providers.attempts import all_failed, with_attempts
from ipy_websearch.providers.base import Provider, ProviderContext, ProviderInfo, SearchRequest
from ipy_websearch.providers.billed import free, price_of
from ipy_websearch.providers.chosen import engine_of
from ipy_websearch.providers.engine import permitted
from ipy_websearch.providers.flights import Flights
from ipy_websearch.providers.registry import (
    PROVIDERS,
    availability,
    create,
    plugin_warnings,
    provider_info,
    provider_infos,
)
from ipy_websearch.providers.stored import from_json, request_key, to_json
from ipy_websearch.results import Attempt, SearchResults
from ipy_websearch.usage import Charge, lost

DOWN_S = 300.0
"""Seconds for which an engine that could not be reached is left out of the chain."""

_DOWN = "it could not be reached"
_KIND = "search"
_LOCAL = "local"  # not cached: it is quicker than the cache, and its folders may have changed since
_encode = json.JSONEncoder(default=str).encode
NamedTools = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Asked:
    """An engine as it is asked: under its own name, or as a named search tool with parameters."""

    name: str
    info: ProviderInfo
    options: Mapping[str, Any]


class SearchRouter:
    """Searches through the engines of a session.

    `cache` keeps answers for `cache_ttl_s` seconds (None: nothing is kept). `search_tools` gives the named engines with
    parameters, `{"my-tavily": {"provider": "tavily", "search_depth": "advanced"}}`. `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        context: ProviderContext,
        *,
        cache: Cache | None,
        cache_ttl_s: int | Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        search_tools: Callable[[], NamedTools] = dict,
    ) -> None:
        self._context = context
        self._cache = cache
        self._ttl_s = cache_ttl_s if callable(cache_ttl_s) else lambda: cache_ttl_s
        self._clock = clock
        self._search_tools = search_tools
        self._engines: dict[str, Provider] = {}
        self._made_for: dict[str, _Asked] = {}
        self._down_until: dict[str, float] = {}
        self._back_at: dict[str, str] = {}
        self._flights: Flights[SearchResults] = Flights()

    async def search(
        self, request: SearchRequest, *, provider: str | None = None, fresh: bool = False, held: bool = False
    ) -> SearchResults:
        """Return the results of one search.

        `provider` names one engine (None or "": the chain). `fresh` asks again even if the cache has an answer. With `held`,
        the answer may wait a moment before it is written to the cache's file (see `Cache.hold`).

        Raises:
            MissingKeyError: the engine asked for by name has no key.
            ConfigError: there is no such engine, or it has no address, or the request is faulty.
            ProviderError: the engine asked for by name failed, or every engine of the chain did; its `charges` are those
                that may be billed all the same.
        """
        if provider:
            return await self._ask(self._by_name(provider), request, fresh, held)
        attempts: list[Attempt] = []
        charges: list[Charge] = []
        empty: SearchResults | None = None
        for engine in self._available():
            if not self._is_up(engine):
                attempts.append(
                    Attempt(engine.name, f"{engine.name} is not asked again before {self._back(engine.name)}: {_DOWN}")
                )
                continue
            try:
                results = await self._ask(engine, request, fresh, held)
            except ProviderError as exc:
                attempts.append(Attempt(engine.name, str(exc), exc.status))
                charges += exc.charges
                continue
            if not results and engine.name == "wikipedia":
                empty = results
                continue
            if results and empty is not None:
                results = replace(results, notices=(f"{empty.provider} found nothing", *results.notices))
            return with_attempts(results if results or empty is None else empty, attempts, charges)
        if empty is None:
            raise all_failed(attempts, charges)
        return with_attempts(empty, attempts, charges)

    def chain(self) -> list[tuple[str, bool, str]]:
        """Return (name, whether it can be used, why) for every engine in the order of the chain."""
        rows = []
        for name, info in provider_infos().items():
            available, why = availability(info, self._context.keys)
            if available and self._down_for(name) > 0:
                why = f"could not be reached; not asked again before {self._back(name)}"
            rows.append((name, available, why))
        return rows + [(warning, False, "broken plug-in") for warning in plugin_warnings()]

    def check(self, provider: str | None) -> None:
        """Check that an engine can be asked, with its options and at its address; nothing is sent. None: the chain's first.

        Raises:
            MissingKeyError: it has no key.
            ConfigError: there is no such engine, or it has no address, a wrong one, or no such option.
        """
        engine = self._by_name(provider) if provider else next(filter(self._is_up, self._available()), None)
        if engine is not None:
            engine.info.address(self._context.keys)
            self._engine(engine)

    def first(self) -> str:
        """Return the name of the engine that a search goes to first, "" when none can be used."""
        down = ""
        for engine in self._available():
            if self._is_up(engine):
                return engine.name
            down = down or engine.name
        return down

    def provider(self, name: str) -> Provider:
        """Return the engine of that name, whether or not its key is set.

        Raises:
            ConfigError: there is no such engine.
        """
        return self._engine(_Asked(provider_info(name).name, provider_info(name), {}))

    def expected_charges(self, provider: str | None = None) -> tuple[Charge, ...]:
        """Return what a search is expected to be billed, for a ceiling to be checked before it is sent.

        Raises:
            ConfigError: there is no such engine, or it cannot be used.
        """
        engine = self._by_name(provider) if provider else None
        name = engine.info.name if engine else self.first()
        if not name:
            return ()
        return price_of(self._engine(engine) if engine else self.provider(name))

    def has(self, request: SearchRequest, provider: str | None = None) -> bool:
        """Say whether the engine that would be asked first has its answer in the cache, where it costs nothing."""
        engine = self._by_name(provider) if provider else next(self._available(), None)
        return engine is not None and self._read(self._key(engine, request)) is not None

    def forget_failures(self) -> None:
        """Ask engines again that could not be reached, without waiting."""
        self._down_until.clear()

    def _available(self) -> Iterator[_Asked]:
        """Yield the engines that can be used, one by one: looking for a key that is nowhere takes its time."""
        for info in provider_infos().values():
            if availability(info, self._context.keys)[0]:
                yield _Asked(info.name, info, {})

    def _by_name(self, provider: str) -> _Asked:
        """Return the engine of that name, or the named search tool."""
        tool = self._search_tools().get(provider)
        if tool is None:
            info = provider_info(provider)
            engine = _Asked(info.name, info, {})
        else:
            info = provider_info(engine_of(provider, tool))
            engine = _Asked(provider, info, {name: value for name, value in tool.items() if name != "provider"})
        available, why = availability(engine.info, self._context.keys)
        if not available:
            for key in engine.info.keys:
                self._context.keys.require(key)
            raise ConfigError(f"{engine.info.label} cannot be used: {why}")
        return engine

    async def _ask(self, engine: _Asked, request: SearchRequest, fresh: bool, held: bool) -> SearchResults:
        """Return one engine's answer: from the cache, from the same search in flight, or by asking."""
        key = self._key(engine, request)
        if not fresh and engine.info.name != _LOCAL and (stored := self._read(key)) is not None:
            return stored
        try:
            results, paid = await self._flights.share(key, lambda: self._send(engine, request, key, held))
        except ProviderError as exc:
            if not exc.charges:
                raise
            # One error goes to all who waited for it, and one of them bears the cost.
            own = ProviderError(str(exc), provider=exc.provider, status=exc.status, retry_after=exc.retry_after, lost=True)
            own.charges, exc.charges = exc.charges, ()
            raise own from exc.__cause__
        return results if paid else free(results)

    async def _send(self, engine: _Asked, request: SearchRequest, key: str, held: bool) -> SearchResults:
        try:
            results = await self._engine(engine).search(request)
        except ProviderError as exc:
            if exc.status is None and engine.info.base_variable:
                self._down_until[engine.name] = self._clock() + DOWN_S
                self._back_at[engine.name] = f"{datetime.now() + timedelta(seconds=DOWN_S):%H:%M:%S}"
            if exc.lost:
                exc.charges = lost(price_of(self._engine(engine)))
            raise
        except Exception as exc:
            if isinstance(exc, WebSearchError) or engine.info.name in PROVIDERS:
                raise
            raise ProviderError(f"{engine.name} failed: {type(exc).__name__}: {exc}", provider=engine.name) from exc
        self._down_until.pop(engine.name, None)
        if engine.info.name not in PROVIDERS:  # an engine of another package may not have kept to the domain lists
            results = replace(results, results=tuple(permitted(results, request)))
        if self._cache is not None and self._ttl_s() > 0 and engine.info.name != _LOCAL:
            self._cache.put(_KIND, key, to_json(results))
        return replace(results, cost_usd=charges_cost(results.charges))

    def _engine(self, engine: _Asked) -> Provider:
        """Return an engine, made once for the same options.

        Raises:
            ConfigError: its code cannot be loaded, or it has no such option.
        """
        if engine.name not in self._engines or self._made_for.get(engine.name, engine) != engine:
            made = create(engine.info.name, replace(self._context, options=engine.options))
            if engine.options and (checked := getattr(made, "chosen_options", None)):  # engines of others may not have it
                checked()
            self._engines[engine.name], self._made_for[engine.name] = made, engine
        return self._engines[engine.name]

    def _read(self, key: str) -> SearchResults | None:
        found = self._cache.get(_KIND, key, self._ttl_s()) if self._cache is not None else None
        stored = from_json(found[0]) if found is not None else None
        if found is None or stored is None:
            return None
        return free(replace(stored, extra={**stored.extra, "cache_age_s": found[1]}))

    def _is_up(self, engine: _Asked) -> bool:
        return self._down_for(engine.name) <= 0

    def _down_for(self, name: str) -> float:
        """Return for how many more seconds an engine is left out (0 or less: it is not)."""
        return self._down_until.get(name, self._clock()) - self._clock()

    def _key(self, engine: _Asked, request: SearchRequest) -> str:
        """Return what an engine's answer is kept under."""
        return _encode([engine.name, engine.info.address(self._context.keys), engine.options, request_key(request)])

    def _back(self, name: str) -> str:
        """Return the time of day until which an engine is left out; the same text each time, so that it is said once."""
        return self._back_at.get(name, "")
