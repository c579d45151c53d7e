"""Which tools there are and which a question gets: one table of names, their engines and their makers.

A set shrinks to what can be used, and a notice says what was left out. A tool that was asked for by its own name must be there:
without its key it is an error that names every way to set one. Nothing is imported or opened before a tool is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.keys import Keys
from ipy_websearch.providers.base import SearchRequest, provider_info
from ipy_websearch.providers.router import SearchRouter
from ipy_websearch.results import SearchResults
from ipy_websearch.settings import did_you_mean

if TYPE_CHECKING:
    from ipy_websearch.extract.reader import PageReader
    from ipy_websearch.tools.base import Tool

TOOL_SETS: dict[str, tuple[str, ...]] = {
    "standard": ("web_search", "web_fetch"),
    "tiers": ("brave_search", "brave_llm_context", "firecrawl_scrape", "firecrawl_search", "firecrawl_map"),
    "pair": ("web_search_brave", "web_search_google", "web_fetch"),
}
"""The sets that `--tools` understands besides the names of single tools."""


@dataclass(frozen=True, slots=True)
class ToolFactory:
    """Makes the tools of one question.

    `defaults` is a request with the user's settings: domains, country, language, filter. `provider` is the engine that
    `web_search` goes to (None: the chain). `reader` opens the reader of pages; `research` makes the tool for the user's own
    research files (None: no root is set). Under a budget (`bounded`), a search is priced as by the dearest engine of the chain.
    `read_pages` results of each search are read, `exact` as a cassette needs it (see `web_search.PageReading`).
    """

    router: SearchRouter
    reader: Callable[[], PageReader]
    defaults: SearchRequest
    provider: str | None = None
    fresh: bool = False
    research: Callable[[], Tool] | None = None
    bounded: bool = False
    read_pages: int = 0
    exact: bool = False

    def search_options(self, provider: str | None) -> dict[str, Any]:
        """Return what a tool that searches is made with: `search`, `defaults` and `price`."""

        async def search(request: SearchRequest) -> SearchResults:
            return await self.router.search(request, provider=provider, fresh=self.fresh)

        price = self.router.expected_charges(provider, self.defaults.count, worst=self.bounded)
        return {"search": search, "defaults": self.defaults, "price": price}


def _web_search(factory: ToolFactory, name: str) -> Tool:
    from ipy_websearch.tools.web_search import PageReading, web_search_tool

    pages = PageReading(factory.reader, factory.read_pages, factory.fresh, factory.exact) if factory.read_pages else None
    return web_search_tool(**factory.search_options(factory.provider), pages=pages)


def _web_fetch(factory: ToolFactory, name: str) -> Tool:
    from ipy_websearch.tools.web_fetch import web_fetch_tool

    allowed, blocked = factory.defaults.allowed_domains, factory.defaults.blocked_domains
    return web_fetch_tool(factory.reader(), fresh=factory.fresh, allowed_domains=allowed, blocked_domains=blocked)


def _pair(factory: ToolFactory, name: str) -> Tool:
    from ipy_websearch.tools.web_search import pair_tool

    return pair_tool(name, **factory.search_options(_TOOLS[name][0]))


def _brave(factory: ToolFactory, name: str) -> Tool:
    from ipy_websearch.tools import brave

    if name == "brave_search":
        return brave.brave_search_tool(**factory.search_options("brave"))
    engine: Any = factory.router.provider("brave")
    return brave.brave_llm_context_tool(engine, factory.defaults)


def _firecrawl(factory: ToolFactory, name: str) -> Tool:
    from ipy_websearch.tools import firecrawl

    engine: Any = factory.router.provider("firecrawl")
    make: Callable[..., Tool] = getattr(firecrawl, f"{name}_tool")
    return make(engine, factory.defaults)


def _research(factory: ToolFactory, name: str) -> Tool:
    if factory.research is None:
        raise ConfigError(
            "read_research has nothing to read: set WebSearch.research_root (%config) to a folder or github:owner/repo/path"
        )
    return factory.research()


_TOOLS: dict[str, tuple[str, Callable[[ToolFactory, str], Tool]]] = {
    "web_search": ("", _web_search),
    "web_fetch": ("", _web_fetch),
    "brave_search": ("brave", _brave),
    "brave_llm_context": ("brave", _brave),
    "firecrawl_scrape": ("firecrawl", _firecrawl),
    "firecrawl_search": ("firecrawl", _firecrawl),
    "firecrawl_map": ("firecrawl", _firecrawl),
    "web_search_brave": ("brave", _pair),
    "web_search_google": ("google", _pair),
    "read_research": ("", _research),
}
"""Each tool with the engine that it cannot do without ("": none), and its maker."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that a question gets, and notices of those that it does not get."""

    tools: tuple[Tool, ...]
    notices: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools."""
        return tuple(tool.name for tool in self.tools)


def build_tools(wanted: str | Sequence[str], factory: ToolFactory, keys: Keys, *, native: bool = False) -> Offer:
    """Return the tools that `wanted` means, each once, in order; `native` says that the API's own tools come beside them.

    `wanted` is a list, or one string with commas or "+" between names of tools and sets; "none" is no tool at all. With any
    other tool, `read_research` comes too when there is something to read.

    Raises:
        ConfigError: a name is neither a tool nor a set.
        MissingKeyError: a tool was asked for by its own name and its engine has no key.
    """
    names = _wanted(wanted)
    if factory.research is not None and (names or native):
        names.setdefault("read_research", False)
    tools: list[Tool] = []
    missing: dict[str, list[str]] = {}
    for name, by_name in names.items():
        engine, make = _TOOLS[name]
        if why := _hindrance(engine, keys, by_name):
            missing.setdefault(why, []).append(name)
        else:
            tools.append(make(factory, name))
    notices = (f"{_listed(names)} not offered to the model: {why}" for why, names in missing.items())
    return Offer(tuple(tools), tuple(notices))


def _wanted(wanted: str | Sequence[str]) -> dict[str, bool]:
    """Return each wanted tool with whether it was asked for by its own name."""
    parts = wanted.replace("+", ",").split(",") if isinstance(wanted, str) else wanted
    names: dict[str, bool] = {}
    for part in (part.strip() for part in parts):
        if part in TOOL_SETS:
            names |= {name: names.get(name, False) for name in TOOL_SETS[part]}
        elif part in _TOOLS:
            names[part] = True
        elif part not in ("", "none"):
            choices = [*TOOL_SETS, *_TOOLS]
            raise ConfigError(
                f"there is no tool or tool set {part!r}{did_you_mean(part, choices)} (there are {', '.join(choices)})"
            )
    return names


def _hindrance(engine: str, keys: Keys, by_name: bool) -> str:
    """Return why a tool of an engine cannot be offered, "" when it can; for one asked for by its name that is an error."""
    if not engine:
        return ""
    info = provider_info(engine)
    for key in info.keys if by_name else ():
        keys.require(key)
    why = info.hindrance(keys)
    return f"{why} (%websearch key {info.name})" if why else ""


def _listed(names: Sequence[str]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are"
