"""Which engines there are: ours in the order they are tried in, then those that other packages bring.

Adding an engine of ours is one entry in `_BUILT_IN`. Another package adds one through an entry point of the group
`ipy_websearch.providers` that resolves to a `ProviderInfo`; a broken one is passed over and named in `plugin_warnings`.
Nothing of an engine is imported before it is created.
"""

from __future__ import annotations

import importlib
from functools import cache

from ipy_websearch.errors import ConfigError
from ipy_websearch.keys import Keys
from ipy_websearch.providers.base import Provider, ProviderContext, ProviderInfo
from ipy_websearch.settings import did_you_mean

ENTRY_POINT_GROUP = "ipy_websearch.providers"

_HERE = "ipy_websearch.providers"

_BUILT_IN = (
    ProviderInfo(
        name="brave",
        label="Brave Search",
        load=f"{_HERE}.brave:BraveProvider",
        keys=("BRAVE_API_KEY",),
        base_variable="BRAVE_BASE_URL",
        base_default="https://api.search.brave.com",
    ),
    ProviderInfo(
        name="google",
        label="Google Custom Search",
        load=f"{_HERE}.google:GoogleProvider",
        keys=("GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_ENGINE_ID"),
        base_variable="GOOGLE_SEARCH_BASE_URL",
        base_default="https://www.googleapis.com",
        note="closed to new customers, ends on 2027-01-01",
    ),
    ProviderInfo(
        name="firecrawl",
        label="Firecrawl",
        load=f"{_HERE}.firecrawl:FirecrawlProvider",
        keys=("FIRECRAWL_API_KEY",),
        base_variable="FIRECRAWL_BASE_URL",
        base_default="https://api.firecrawl.dev",
    ),
    ProviderInfo(
        name="tavily",
        label="Tavily",
        load=f"{_HERE}.tavily:TavilyProvider",
        keys=("TAVILY_API_KEY",),
        base_variable="TAVILY_BASE_URL",
        base_default="https://api.tavily.com",
    ),
    ProviderInfo(
        name="perplexity",
        label="Perplexity Search",
        load=f"{_HERE}.perplexity:PerplexityProvider",
        keys=("PERPLEXITY_API_KEY",),
        base_variable="PERPLEXITY_BASE_URL",
        base_default="https://api.perplexity.ai",
    ),
    ProviderInfo(
        name="exa",
        label="Exa",
        load=f"{_HERE}.exa:ExaProvider",
        keys=("EXA_API_KEY",),
        base_variable="EXA_BASE_URL",
        base_default="https://api.exa.ai",
    ),
    ProviderInfo(
        name="searxng",
        label="SearXNG",
        load=f"{_HERE}.searxng:SearxngProvider",
        base_variable="SEARXNG_BASE_URL",
        note="a server of your own",
    ),
    ProviderInfo(
        name="wikipedia",
        label="Wikipedia",
        load=f"{_HERE}.wikipedia:WikipediaProvider",
        base_variable="WIKIPEDIA_BASE_URL",
        base_default="https://{lang}.wikipedia.org",
        note="encyclopaedia articles only, free",
    ),
    ProviderInfo(
        name="local",
        label="built-in index",
        load=f"{_HERE}.local:LocalProvider",
        note="a small built-in collection, works without a network",
    ),
)

PROVIDERS: dict[str, ProviderInfo] = {info.name: info for info in _BUILT_IN}
"""The built-in engines by name, in the order in which they are tried."""

_LAST = ("searxng", "wikipedia", "local")


def provider_infos() -> dict[str, ProviderInfo]:
    """Return every engine by name in the order they are tried: with keys, then plug-ins, then the keyless ones."""
    first = {name: info for name, info in PROVIDERS.items() if name not in _LAST}
    last = {name: info for name, info in PROVIDERS.items() if name in _LAST}
    return first | _plugins()[0] | last


def plugin_warnings() -> tuple[str, ...]:
    """Return one line for each entry point that could not be used."""
    return _plugins()[1]


def provider_info(name: str) -> ProviderInfo:
    """Return what is known about an engine (its name in any case).

    Raises:
        ConfigError: there is no engine of that name; the message lists those there are.
    """
    wanted = name.strip().lower()
    if wanted in PROVIDERS:
        return PROVIDERS[wanted]
    known = provider_infos()
    if wanted in known:
        return known[wanted]
    raise ConfigError(f"there is no search engine {name!r}{did_you_mean(wanted, known)}; there are: {', '.join(known)}")


def availability(info: ProviderInfo, keys: Keys) -> tuple[bool, str]:
    """Say whether an engine can be used, and why, or why not; nothing is sent."""
    try:
        missing = [key for key in info.keys if not keys.get(key)]
        if missing:
            return False, f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not set"
        if not info.addressed(keys):
            return False, f"{info.base_variable} is not set: it needs the address of a server"
    except ConfigError as exc:
        return False, str(exc)
    return True, "; ".join(filter(None, ("key set" if info.keys else "no key needed", info.note)))


def create(name: str, context: ProviderContext) -> Provider:
    """Return the engine of that name, ready to be asked; its code is imported here.

    Raises:
        ConfigError: there is no such engine, or its code cannot be loaded.
    """
    info = provider_info(name)
    module, _, attribute = info.load.partition(":")
    try:
        provider: Provider = getattr(importlib.import_module(module), attribute)(context)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"the search engine {info.name!r} cannot be loaded from {info.load}: {exc}") from exc
    return provider


@cache
def _plugins() -> tuple[dict[str, ProviderInfo], tuple[str, ...]]:
    """Return the engines of other packages, and a warning for each that cannot be used; looked up once."""
    from importlib.metadata import entry_points

    found: dict[str, ProviderInfo] = {}
    warnings: list[str] = []
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            info = point.load()
        except Exception as exc:  # somebody else's code: whatever it raises, searching goes on
            warnings.append(f"the search engine plug-in {point.value} cannot be loaded: {type(exc).__name__}: {exc}")
            continue
        if not isinstance(info, ProviderInfo):
            warnings.append(f"the search engine plug-in {point.value} gives no ProviderInfo")
        elif info.name in PROVIDERS or info.name in found:
            warnings.append(f"the search engine plug-in {point.value} is called {info.name!r}, which is taken")
        else:
            found[info.name] = info
    return found, tuple(warnings)
