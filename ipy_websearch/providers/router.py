"""The register of providers, and the router: a search goes to one provider, or down the chain until one answers.

A provider's module is imported when the provider is first asked. A plug-in that is broken is passed over with a warning.

The chain is: providers whose keys are set (in the register's order), plug-ins, SearXNG if addressed, Wikipedia, the index.
`plan` resolves the provider and looks into the cache once; `run` asks. What holds:

- A failing provider hands on to the next one of the web. The search fails when none of them gives a hit: no stand-in's empty
  answer hides a provider's failure. No hits from a provider that works are an answer, and no other provider is paid for it.
- The chain asks the local index only where no provider has a key or an address of the user's, and Wikipedia is out of reach;
  for those who take its answer for the web's (`local_stands_in` False), never.
- A failure is remembered for a while (`OUTAGES_S`), and the chain passes the provider over without sending anything. A provider
  asked for by name is always asked.
- A paid search that went out and came back unusable, or not at all, counts at the price expected, as `lost`; a refusal (4xx,
  5xx) and what never left cost nothing. Where another provider stands in, its answer carries both.
- Cache and sharing of equal searches in flight work per provider, address and options.
"""

from __future__ import annotations

import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pkgutil import resolve_name
from typing import Any, cast

from ipy_websearch.background import SingleFlight
from ipy_websearch.errors import LONG_WAIT_S, ConfigError, ProviderError, WebSearchError
from ipy_websearch.http.client import Cache
from ipy_websearch.money.prices import charges_cost
from ipy_websearch.providers.base import Engine, Provider, ProviderContext, ProviderInfo, SearchRequest, permitted
from ipy_websearch.results import Attempt, Charge, SearchResult, SearchResults, lost
from ipy_websearch.settings import did_you_mean
from ipy_websearch.text import fold, plain, shorten

# --- which providers there are ------------------------------------------------------------------------------------------

_HERE = "ipy_websearch.providers"
# The built-in providers by name, in the order in which they are asked; those of other packages come before the keyless ones.
PROVIDERS = {
    info.name: info
    for info in (
        ProviderInfo(
            "brave",
            "Brave Search",
            f"{_HERE}.brave:BraveProvider",
            ("BRAVE_API_KEY",),
            "BRAVE_BASE_URL",
            "https://api.search.brave.com",
        ),
        ProviderInfo(
            "google",
            "Google Custom Search",
            f"{_HERE}.google:GoogleProvider",
            ("GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_ENGINE_ID"),
            "GOOGLE_SEARCH_BASE_URL",
            "https://www.googleapis.com",
            "closed to new customers, ends on 2027-01-01",
        ),
        ProviderInfo(
            "firecrawl",
            "Firecrawl",
            f"{_HERE}.firecrawl:FirecrawlProvider",
            ("FIRECRAWL_API_KEY",),
            "FIRECRAWL_BASE_URL",
            "https://api.firecrawl.dev",
        ),
        ProviderInfo(
            "tavily",
            "Tavily",
            f"{_HERE}.tavily:TavilyProvider",
            ("TAVILY_API_KEY",),
            "TAVILY_BASE_URL",
            "https://api.tavily.com",
        ),
        ProviderInfo(
            "perplexity",
            "Perplexity Search",
            f"{_HERE}.perplexity:PerplexityProvider",
            ("PERPLEXITY_API_KEY",),
            "PERPLEXITY_BASE_URL",
            "https://api.perplexity.ai",
        ),
        ProviderInfo("exa", "Exa", f"{_HERE}.exa:ExaProvider", ("EXA_API_KEY",), "EXA_BASE_URL", "https://api.exa.ai"),
        ProviderInfo(
            "searxng",
            "SearXNG",
            f"{_HERE}.searxng:SearxngProvider",
            base_variable="SEARXNG_BASE_URL",
            note="a server of your own",
        ),
        ProviderInfo(
            "wikipedia",
            "Wikipedia",
            f"{_HERE}.wikipedia:WikipediaProvider",
            base_variable="WIKIPEDIA_BASE_URL",
            base_default="https://{lang}.wikipedia.org",
            note="encyclopaedia articles only, free",
        ),
        ProviderInfo(
            "local",
            "built-in index",
            f"{_HERE}.local:LocalProvider",
            note="a small built-in collection, works without a network",
        ),
    )
}


def provider_infos() -> dict[str, ProviderInfo]:
    """Return every provider by name in the order they are asked: with keys, then plug-ins, then the keyless ones."""
    return {name: info for name, info in PROVIDERS.items() if info.keys} | plugins() | PROVIDERS


def provider_info(name: str) -> ProviderInfo:
    """Return what is known about a provider (its name in any case).

    Raises:
        ConfigError: there is no provider of that name; the message lists those there are.
    """
    wanted = name.strip().lower()
    known = PROVIDERS if wanted in PROVIDERS else provider_infos()
    if wanted in known:
        return known[wanted]
    raise ConfigError(f"there is no search engine {name!r}{did_you_mean(wanted, known)}; there are: {', '.join(known)}")


def create(name: str, context: ProviderContext) -> Provider:
    """Return the provider of that name, ready to be asked; its code is imported here.

    Raises:
        ConfigError: there is no such provider, or its code cannot be loaded.
    """
    info = provider_info(name)
    try:
        return cast(Provider, resolve_name(info.load)(replace(context, info=info)))
    except (ImportError, AttributeError, ValueError, TypeError) as exc:  # the last two: `load` is not of its form
        raise ConfigError(f"the search engine {info.name!r} cannot be loaded from {info.load}: {exc}") from exc


@cache
def plugins() -> dict[str, ProviderInfo]:
    """Return the providers of other packages; one that cannot be used is a Python warning."""
    from importlib.metadata import entry_points

    found: dict[str, ProviderInfo] = {}
    for point in entry_points(group="ipy_websearch.providers"):
        try:
            info: ProviderInfo = point.load()
            if info.name in PROVIDERS:
                raise ValueError(f"the name {info.name!r} is taken")
            found[info.name] = info
        except Exception as exc:  # somebody else's code: whatever it raises, searching goes on
            warnings.warn(
                f"the search engine plug-in {point.value} cannot be loaded: {type(exc).__name__}: {exc}", stacklevel=2
            )
    return found


# --- the chain --------------------------------------------------------------------------------------------------------

# Seconds for which a failure is remembered, by its reason; until the time that the provider names, but at most an hour.
OUTAGES_S = {"key": 300.0, "credit": 300.0, "quota": 300.0, "unreachable": 60.0, "server": 30.0}

LOCAL = "local"  # not cached: it is quicker than the cache, and its folders may have changed since
_KIND = "search-2"
_encode = json.JSONEncoder(default=str).encode

NamedTools = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Target:
    """A provider as it is asked: under its own name, or as a named search tool with options."""

    name: str
    info: ProviderInfo
    options: Mapping[str, Any]
    provider: Provider

    def price(self, count: int) -> tuple[Charge, ...]:
        """Return what a search for `count` results is expected to be billed."""
        if isinstance(self.provider, Engine):
            return self.provider.price_for(count)
        return tuple(getattr(self.provider, "price", (Charge(self.info.name),)))


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A search with its provider resolved; `SearchRouter.run` sends it.

    `expected_charges` are those of the provider asked first, () when its answer is in the cache (`cached`). `named` ones have
    no stand-in; `passed_over` are providers of the chain that are known to be out of order. With `local_stands_in`, the local
    index may answer for Wikipedia.
    """

    request: SearchRequest
    target: Target | None
    named: bool
    fresh: bool
    cached: SearchResults | None = None
    passed_over: tuple[Attempt, ...] = ()
    local_stands_in: bool = True

    @property
    def provider(self) -> str:
        """The name of the provider that is asked first, "" when none can be."""
        return self.target.name if self.target else ""

    @property
    def expected_charges(self) -> tuple[Charge, ...]:
        """What the search is expected to be billed, to be reserved before it is sent."""
        return () if self.cached is not None or self.target is None else self.target.price(self.request.count)


class SearchRouter:
    """Searches through the providers of a session.

    `cache` keeps answers for `cache_ttl_s` seconds (None: nothing is kept). `search_tools` gives the named providers with
    options, `{"my-tavily": {"provider": "tavily", "search_depth": "advanced"}}`. `clock` is monotonic, in seconds.
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
        self._targets: dict[tuple[str, ProviderInfo, str], Target] = {}
        self._outages: dict[int, tuple[float, Attempt]] = {}
        self._flights: SingleFlight[SearchResults | ProviderError] = SingleFlight()

    async def search(self, request: SearchRequest, *, provider: str | None = None, fresh: bool = False) -> SearchResults:
        """Return the results of one search: `run(plan(…))`, with the errors of both."""
        return await self.run(self.plan(request, provider, fresh=fresh))

    def plan(
        self, request: SearchRequest, provider: str | None = None, *, fresh: bool = False, local_stands_in: bool = True
    ) -> SearchPlan:
        """Return the search with the provider that is asked first, its price and its cached answer; nothing is sent.

        `provider` names one or a search tool (None or "": the chain). `fresh` asks again even if the cache has an answer;
        without `local_stands_in`, the local index answers only where it is named.

        Raises:
            MissingKeyError: the provider asked for by name has no key.
            ConfigError: there is no such provider, or it has no address, a wrong one, or no such option.
        """
        passed_over: list[Attempt] = []
        usable = self._usable(passed_over, local_stands_in=local_stands_in)
        target = self._named(provider) if provider else next(usable, None)
        cached = None if fresh else self._read(target, request)
        return SearchPlan(request, target, bool(provider), fresh, cached, tuple(passed_over), local_stands_in)

    async def run(self, plan: SearchPlan, *, hand_on_rate_limit: bool = True) -> SearchResults:
        """Return the results of a planned search. `hand_on_rate_limit` False: a 429 of the first one is raised at once, for
        a caller that waits and asks again.

        Raises:
            ProviderError: the provider asked for by name failed, or one of the chain did and no other found anything; its
                `charges` are those that may be billed all the same. Nothing else was spent.
        """
        if plan.target is None:
            raise _all_failed(plan.passed_over, ())
        if plan.named:
            return await self._answer(plan.target, plan)
        attempts, charges = list(plan.passed_over), list[Charge]()
        for target in itertools.chain([plan.target], self._usable(attempts, plan.provider, plan.local_stands_in)):
            try:
                results = await self._answer(target, plan)
            except ProviderError as exc:
                if exc.reason == "rate" and target is plan.target and not hand_on_rate_limit:
                    raise
                attempts.append(self._outage(target.info) or Attempt(target.name, str(exc), exc.status, exc.reason))
                charges += exc.charges
                continue
            if not attempts:
                return results
            charges += results.charges
            if results:
                said = (*(stood_in(attempt, results.provider) for attempt in attempts), *results.notices)
                cost = charges_cost(charges)
                return replace(results, attempts=tuple(attempts), notices=said, charges=tuple(charges), cost_usd=cost)
            attempts.append(Attempt(target.name, f"{target.name} found nothing"))
        raise _all_failed(attempts, charges)

    def chain(self) -> list[tuple[str, bool, str]]:
        """Return (name, whether it can be used, why) for every provider in the order of the chain."""
        rows = []
        for name, info in provider_infos().items():
            why = info.hindrance(self._context.keys)
            outage = None if why else self._outage(info)
            said = "; ".join(filter(None, ("key set" if info.keys else "no key needed", info.note)))
            rows.append((name, not why, why or (outage.error if outage else said)))
        return rows

    def first(self, provider: str | None = None) -> Target | None:
        """Return the provider that is asked first, the named one or the chain's (None: none can be); nothing is sent.

        Raises:
            MissingKeyError, ConfigError: as for `plan`.
        """
        return self._named(provider) if provider else next(self._usable([]), None)

    def provider(self, name: str) -> Provider:
        """Return the provider of that name, whether or not its key is set.

        Raises:
            ConfigError: there is no such provider.
        """
        return self._target(provider_info(name).name, provider_info(name), {}).provider

    def expected_charges(self, provider: str | None = None, count: int = 5, *, worst: bool = False) -> tuple[Charge, ...]:
        """Return what a search is expected to be billed before its query is known; `worst`: by the dearest of those that may
        stand in.

        Raises:
            MissingKeyError, ConfigError: as for `plan`.
        """
        targets = self._usable([]) if worst and not provider else filter(None, [self.first(provider)])
        return max((target.price(count) for target in targets), key=_worst_cost, default=())

    # --- which provider -----------------------------------------------------------------------------------------------

    def _named(self, name: str) -> Target:
        """Return the provider of that name, or the named search tool; see `plan` for the errors."""
        tool = self._search_tools().get(name)
        options = dict(tool) if isinstance(tool, Mapping) else {}
        provider = options.pop("provider", None) if tool is not None else name
        if not isinstance(provider, str):
            raise ConfigError(f"search_tools: {name!r} is {tool!r}; write it as {{{name!r}: {{'provider': 'brave'}}}}")
        info = provider_info(provider)
        if why := info.hindrance(self._context.keys):
            for key in info.keys:
                self._context.keys.require(key)
            raise ConfigError(f"{info.label} cannot be used: {why}")
        return self._target(info.name if tool is None else name, info, options)

    def _usable(self, passed_over: list[Attempt], after: str = "", local_stands_in: bool = True) -> Iterator[Target]:
        """Yield the providers that can be used, those of the chain behind `after`; one that is out of order is added to
        `passed_over` instead. They are looked up one by one: looking for a key takes its time."""
        infos = list(provider_infos().values())
        names = [info.name for info in infos]
        for info in infos[names.index(after) + 1 if after in names else 0 :]:
            try:
                if info.lacks(self._context.keys):
                    continue
                fault = self._outage(info)
            except ConfigError as exc:  # whoever set the key or the address believes that this provider answers
                fault = Attempt(info.name, str(exc), reason="key")
                if not passed_over:
                    info.address(self._context.keys)  # raises: nothing was sent, and no failure is lost
            if fault is not None:
                if fault.error not in [attempt.error for attempt in passed_over]:  # one file that cannot be read, for all keys
                    passed_over.append(fault)
                continue
            # The local index answers for Wikipedia alone, where there is no network.
            no_network = all((attempt.provider, attempt.reason) == ("wikipedia", "unreachable") for attempt in passed_over)
            if info.name != LOCAL or (local_stands_in and no_network):
                yield self._target(info.name, info, {})

    def _target(self, name: str, info: ProviderInfo, options: Mapping[str, Any]) -> Target:
        """Return a provider, made once for the same options."""
        key = (name, info, _encode(options))
        if key not in self._targets:
            provider = create(info.name, replace(self._context, options=options))
            self._targets[key] = Target(name, info, options, provider)
        return self._targets[key]

    # --- failures ---------------------------------------------------------------------------------------------------

    def forget_outages(self) -> None:
        """Let providers that failed a moment ago be asked again."""
        self._outages.clear()

    def _outage(self, info: ProviderInfo) -> Attempt | None:
        """Return the failure that a provider is passed over for, None when it may be asked."""
        until, attempt = self._outages.get(self._state(info), (0.0, None))
        return attempt if until > self._clock() else None

    def _state(self, info: ProviderInfo) -> int:
        """Return what an outage belongs to: with another key or address, a provider is asked again."""
        return hash((info.name, info.address(self._context.keys), *map(self._context.keys.get, info.keys)))

    def _remember(self, target: Target, failure: ProviderError) -> None:
        """Note an outage. Its text, always the same, says once when the provider may be asked again: by itself, or by us."""
        if failure.reason in OUTAGES_S:
            wait_s, said = failure.retry_after or 0.0, str(failure)
            seconds = min(wait_s, 3_600.0) or OUTAGES_S[failure.reason]
            if wait_s <= LONG_WAIT_S:
                said += f"; not asked again before {datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S} UTC"
            attempt = Attempt(target.info.name, said, failure.status, failure.reason)
            self._outages[self._state(target.info)] = (self._clock() + seconds, attempt)

    # --- asking -----------------------------------------------------------------------------------------------------

    async def _answer(self, target: Target, plan: SearchPlan) -> SearchResults:
        """Return one provider's answer: from the cache, else shared with whoever asks the same meanwhile; one of them pays, for
        a lost answer too."""
        cached = plan.cached if target is plan.target or plan.fresh else self._read(target, plan.request)
        if cached is not None:
            return cached
        key = self._key(target, plan.request)
        results, paid = await self._flights.share(key, lambda: self._send(target, plan.request, key))
        if isinstance(results, ProviderError):
            error = type(results).__new__(type(results), *results.args)  # a plug-in's may be made of other arguments
            vars(error).update(vars(results), charges=results.charges if paid else ())
            raise error from results.__cause__
        return results if paid else _as_cached(results)

    async def _send(self, target: Target, request: SearchRequest, key: str) -> SearchResults | ProviderError:
        try:
            results = await target.provider.search(request)
        except ProviderError as exc:
            self._remember(target, exc)
            if exc.lost:
                exc.charges = lost(target.price(request.count))
            return exc
        except WebSearchError:
            raise
        except Exception as exc:  # whatever a provider raises, the chain goes on
            text = f"{target.name} failed: {type(exc).__name__}: {shorten(plain(str(exc)), 200)}"
            raise ProviderError(text, provider=target.name, reason="server") from exc
        if self._outages:  # telling whose they are takes another look for the key
            self._outages.pop(self._state(target.info), None)
        # A provider of another package may not have kept to the domain lists; in the local index folders are sites.
        kept = results.results if target.info.name == LOCAL else tuple(permitted(results, request))
        results = replace(results, results=kept, cost_usd=charges_cost(results.charges))
        if self._cache is not None and self._ttl_s() > 0 and target.info.name != LOCAL:
            self._cache.put(_KIND, key, to_json(results))
        return results

    def _key(self, target: Target, request: SearchRequest) -> str:
        """Return what the cache keeps a provider's answer under."""
        return _encode([target.name, target.info.address(self._context.keys), target.options, request_key(request)])

    def _read(self, target: Target | None, request: SearchRequest) -> SearchResults | None:
        """Return a provider's answer from the cache, None when it has none."""
        if self._cache is None or target is None or target.info.name == LOCAL:
            return None
        value, age_s = self._cache.get(_KIND, self._key(target, request), self._ttl_s()) or (None, 0.0)
        stored = from_json(value)
        return None if stored is None else _as_cached(replace(stored, extra={**stored.extra, "cache_age_s": age_s}))


def provider_to_ask(asked: str | None, configured: str, search_tools: NamedTools) -> str | None:
    """Return the name of the provider or named search tool to ask (None: the chain): the one that was typed for this call, else
    the setting's, else the first of `search_tools` (seed 004, "Search Provider Selection")."""
    return asked or configured or next(iter(search_tools), None)


# --- what failed, and what it costs -----------------------------------------------------------------------------------


def stood_in(attempt: Attempt, provider: str) -> str:
    """Return the notice that `provider` was asked instead of a provider that did not answer."""
    return f"{attempt.error}; {provider} was asked instead"


def _all_failed(attempts: Sequence[Attempt], charges: Sequence[Charge]) -> ProviderError:
    """Return the error for a chain in which nothing was found: the first provider's failure, then what the others said."""
    first = attempts[0] if attempts else Attempt("", "no search engine can be used")
    error = ProviderError(
        f"the search failed: {'; '.join(attempt.error for attempt in attempts or [first])}",
        provider=first.provider,
        status=first.status,
        reason=first.reason or "unreachable",
    )
    error.others_may_answer = any(attempt.reason not in ("key", "credit", "quota") for attempt in attempts)
    error.charges = tuple(charges)
    return error


def _worst_cost(charges: Sequence[Charge]) -> Decimal:
    """Return the sum, an unknown price as more than any known one: it must not be overlooked."""
    cost = charges_cost(charges)
    return Decimal("Infinity") if cost is None else cost


def _as_cached(results: SearchResults) -> SearchResults:
    """Return results that have been paid for already."""
    charges = tuple(replace(charge, cached=True) for charge in results.charges)
    return replace(results, cached=True, cost_usd=Decimal(0), charges=charges)


# --- cache entries ---------------------------------------------------------------------------------------------------------


def request_key(request: SearchRequest) -> tuple[Any, ...]:
    """Return what makes two requests the same: the folded query and every filter, domains in any order."""
    query = " ".join(word if word in ("OR", "AND", "NOT") else fold(word) for word in request.query.split())
    return (
        *(query, request.count, request.freshness, request.country.lower(), request.language.lower(), request.safe_search),
        *(sorted(set(domains)) for domains in (request.allowed_domains, request.blocked_domains)),
        *(request.goggles, tuple(request.place)),
    )


def to_json(results: SearchResults) -> dict[str, Any]:
    """Return the results as JSON for the cache; what belongs to one call alone (attempts, cost, cached) is left out."""
    return {
        "query": results.query,
        "provider": results.provider,
        "results": [
            [r.title, r.url, r.description, r.published_date and r.published_date.isoformat(), r.extra_snippets, r.score]
            for r in results
        ],
        "charges": [[c.provider, c.kind, str(c.units), c.unit, None if c.usd is None else str(c.usd)] for c in results.charges],
        "notices": results.notices,
        "extra": dict(results.extra),
        "raw": results.raw,
    }


def from_json(value: Any) -> SearchResults | None:
    """Return results that `to_json` made, None for anything else (an entry of another version)."""
    try:
        return SearchResults(
            results=tuple(
                SearchResult(title, url, words, date and datetime.fromisoformat(date), tuple(more), score)
                for title, url, words, date, more, score in value["results"]
            ),
            query=value["query"],
            provider=value["provider"],
            extra=value["extra"],
            charges=tuple(
                Charge(provider, kind, Decimal(units), unit, None if usd is None else Decimal(usd))
                for provider, kind, units, unit, usd in value["charges"]
            ),
            notices=tuple(value["notices"]),
            body=value["raw"],
        )
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return None
