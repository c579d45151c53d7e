"""Which tools a question gets: names and sets of names become `Tool`s, as far as their engines have keys.

A set shrinks to what can be used, and a notice says what was left out. A tool that was asked for by its own name must be
there: without its key it is an error that names every way to set one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ipy_websearch.errors import ConfigError
from ipy_websearch.keys import Keys
from ipy_websearch.providers.base import provider_info
from ipy_websearch.settings import did_you_mean
from ipy_websearch.tools.base import Tool

TOOL_SETS: dict[str, tuple[str, ...]] = {
    "standard": ("web_search", "web_fetch"),
    "tiers": ("brave_search", "brave_llm_context", "firecrawl_scrape", "firecrawl_search", "firecrawl_map"),
    "pair": ("web_search_brave", "web_search_google", "web_fetch"),
}
"""The sets that `--tools` understands besides the names of single tools."""

TOOL_ENGINES = {
    **{name: name.partition("_")[0] for name in TOOL_SETS["tiers"]},
    "web_search_brave": "brave",
    "web_search_google": "google",
}
"""The engine that a tool cannot do without."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that a question gets, and what the reader should know of those that it does not get."""

    tools: tuple[Tool, ...]
    notices: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools."""
        return tuple(tool.name for tool in self.tools)


def tool_names(wanted: str | Sequence[str], known: Mapping[str, object]) -> list[str]:
    """Return the names of the tools that `wanted` means, each once, in order.

    `wanted` is a list, or one string with commas or "+" between names of tools and sets; "none" is no tool at all.

    Raises:
        ConfigError: a name is neither a tool nor a set.
    """
    return list(_wanted(wanted, known))


def build_tools(wanted: str | Sequence[str], makers: Mapping[str, Callable[[], Tool]], keys: Keys) -> Offer:
    """Return the tools that `wanted` means; `makers` build them by name.

    Raises:
        ConfigError: a name is neither a tool nor a set.
        MissingKeyError: a tool was asked for by its own name and its engine has no key.
    """
    tools: list[Tool] = []
    missing: dict[str, list[str]] = {}
    for name, by_name in _wanted(wanted, makers).items():
        why = _hindrance(name, keys, by_name)
        if why:
            missing.setdefault(why, []).append(name)
        else:
            tools.append(makers[name]())
    notices = (f"{_listed(names)} not offered to the model: {why}" for why, names in missing.items())
    return Offer(tuple(tools), tuple(notices))


def _wanted(wanted: str | Sequence[str], known: Mapping[str, object]) -> dict[str, bool]:
    """Return each wanted tool with whether it was asked for by its own name."""
    parts = wanted.replace("+", ",").split(",") if isinstance(wanted, str) else wanted
    names: dict[str, bool] = {}
    for part in (part.strip() for part in parts):
        if part in TOOL_SETS:
            for name in TOOL_SETS[part]:
                names.setdefault(name, False)
        elif part in known:
            names[part] = True
        elif part == "read_research":
            raise ConfigError(
                "read_research has nothing to read: set WebSearch.research_root (%config) to a folder or github:owner/repo/path"
            )
        elif part not in ("", "none"):
            choices = [*TOOL_SETS, *known]
            raise ConfigError(
                f"there is no tool or tool set {part!r}{did_you_mean(part, choices)} (there are {', '.join(choices)})"
            )
    return names


def _hindrance(name: str, keys: Keys, by_name: bool) -> str:
    """Return why a tool cannot be offered, "" when it can; for one asked for by its name that is an error."""
    if name not in TOOL_ENGINES:
        return ""
    info = provider_info(TOOL_ENGINES[name])
    if by_name:
        for key in info.keys:
            keys.require(key)
    why = info.hindrance(keys)
    return f"{why} (%websearch key {info.name})" if why else ""


def _listed(names: Sequence[str]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are"
