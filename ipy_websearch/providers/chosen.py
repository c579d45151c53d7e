"""Which engine a search goes to when nobody names one in the call: the configured one, if it exists. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.providers.registry import provider_info


def engine_to_ask(
    asked: str | None, configured: str, search_tools: Mapping[str, Mapping[str, Any]]
) -> tuple[str | None, tuple[str, ...]]:
    """Return the name of the engine or named search tool to ask (None: the chain), and what the reader should know.

    `asked` was typed for this call and is returned as it is: if it does not exist, asking it is an error. `configured` is
    the setting: if nothing is called that, the first available engine is asked, and a notice says so (seed 004, "Search
    Provider Selection").
    """
    if asked or not configured:
        return asked or None, ()
    tool = search_tools.get(configured)
    try:
        provider_info(configured if tool is None else engine_of(configured, tool))
    except ConfigError as exc:
        return None, (f"WebSearch.provider is {configured!r}, but {exc}; the first available engine was asked instead",)
    return configured, ()


def engine_of(name: str, tool: Any) -> str:
    """Return the name of the engine that a named search tool asks.

    Raises:
        ConfigError: the tool is no table, or names no engine.
    """
    engine = tool.get("provider") if isinstance(tool, Mapping) else None
    if not isinstance(engine, str) or not engine.strip():
        said = "names no engine" if isinstance(tool, Mapping) else f"is {tool!r}"
        raise ConfigError(f"search_tools: {name!r} {said}; write it as {{'{name}': {{'provider': 'brave'}}}}")
    return engine
