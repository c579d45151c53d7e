"""Where every tool is made: `Kit.makers` has a maker for each name; nothing is imported or opened before one is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ipy_websearch.http.cache import Cache
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.router import SearchRouter
from ipy_websearch.results import SearchResults
from ipy_websearch.tools.base import Tool
from ipy_websearch.usage import Charge

if TYPE_CHECKING:
    from ipy_websearch.extract.reader import PageReader
    from ipy_websearch.tools.kept import Keeper

_INCLUDED_RESULTS = 10
# For so many results beyond ten, a provider bills once more what it bills for the first ten (or less): Exa 0.001 USD for each
# (exa.ai/pricing), Firecrawl 2 credits for ten (docs.firecrawl.dev/billing), both read 2026-11.
_MORE_RESULTS = {"exa": 7, "firecrawl": 10}

PAIR_ENGINES = {"web_search_brave": "brave", "web_search_google": "google"}


@dataclass(frozen=True, slots=True)
class Kit:
    """What the tools of one question are made of.

    `defaults` is a request with what the user set: domains, country, language, filter. `provider` is the engine that
    `web_search` goes to (None: the chain). `reader` opens the reader of pages; `research` makes the tool for the user's own
    research files (None: no root is set). Under a budget (`bounded`), a search is priced as the dearest provider of the chain.
    """

    router: SearchRouter
    reader: Callable[[], PageReader]
    cache: Cache
    cache_ttl_s: Callable[[], float]
    defaults: SearchRequest
    provider: str | None = None
    fresh: bool = False
    research: Callable[[], Tool] | None = None
    bounded: bool = False

    def makers(self) -> dict[str, Callable[[], Tool]]:
        """Return the maker of each tool by its name."""
        return {
            "web_search": self._web_search,
            "web_fetch": self._web_fetch,
            "brave_search": self._brave_search,
            "brave_llm_context": self._brave_llm_context,
            "firecrawl_scrape": lambda: self._firecrawl("firecrawl_scrape_tool"),
            "firecrawl_search": lambda: self._firecrawl("firecrawl_search_tool"),
            "firecrawl_map": lambda: self._firecrawl("firecrawl_map_tool"),
            **({"read_research": self.research} if self.research else {}),
            **{name: lambda name=name: self._pair(name) for name in PAIR_ENGINES},  # type: ignore[misc]
        }

    def _web_search(self) -> Tool:
        from ipy_websearch.tools.web_search import web_search_tool

        price = search_price(self.router, self.provider, self.defaults.count, worst=self.bounded)
        return web_search_tool(self._search(self.provider), self.defaults, price=price)

    def _web_fetch(self) -> Tool:
        from ipy_websearch.tools.web_fetch import web_fetch_tool

        allowed, blocked = self.defaults.allowed_domains, self.defaults.blocked_domains
        return web_fetch_tool(self.reader(), fresh=self.fresh, allowed_domains=allowed, blocked_domains=blocked)

    def _pair(self, name: str) -> Tool:
        from ipy_websearch.tools.pair import pair_tool

        engine = PAIR_ENGINES[name]
        return pair_tool(name, self._search(engine), self.defaults, price=self.router.expected_charges(engine))

    def _brave_search(self) -> Tool:
        from ipy_websearch.tools.brave import brave_search_tool

        return brave_search_tool(self._search("brave"), self.defaults, price=self.router.expected_charges("brave"))

    def _brave_llm_context(self) -> Tool:
        from ipy_websearch.providers.brave import BraveProvider
        from ipy_websearch.tools.brave import brave_llm_context_tool

        engine = self.router.provider("brave")
        assert isinstance(engine, BraveProvider)
        return brave_llm_context_tool(engine, self.defaults, self._keeper(engine.info.address(engine.context.keys)))

    def _firecrawl(self, maker: str) -> Tool:
        from ipy_websearch.providers.firecrawl import FirecrawlProvider
        from ipy_websearch.tools import firecrawl

        engine = self.router.provider("firecrawl")
        assert isinstance(engine, FirecrawlProvider)
        tool: Tool = getattr(firecrawl, maker)(engine, self.defaults, self._keeper(engine.info.address(engine.context.keys)))
        return replace(tool, price=tuple(_for_results(charge, self.defaults.count) for charge in tool.price))

    def _keeper(self, address: str) -> Keeper:
        from ipy_websearch.tools.kept import Keeper

        return Keeper(self.cache, self.cache_ttl_s, address, self.fresh)

    def _search(self, provider: str | None) -> Any:
        async def search(request: SearchRequest) -> SearchResults:
            return await self.router.search(request, provider=provider, fresh=self.fresh)

        return search


def search_price(router: SearchRouter, provider: str | None, count: int, *, worst: bool) -> tuple[Charge, ...]:
    """Return what a search for `count` results is expected to be billed.

    Without a `provider` that is the price of the provider asked first; `worst`, the highest of those that may stand in for it.

    Raises:
        ConfigError: there is no such provider, or it cannot be used.
    """
    return router.expected_charges(provider, count, worst=worst)


def _for_results(charge: Charge, count: int) -> Charge:
    step = _MORE_RESULTS.get(charge.provider)
    if step is None or charge.kind != "search" or count <= _INCLUDED_RESULTS or charge.usd is not None:
        return charge
    return replace(charge, units=charge.units * (1 + -(-(count - _INCLUDED_RESULTS) // step)))
