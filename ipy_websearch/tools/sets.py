"""Which tools a question gets: names and sets of names become `Tool`s."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ipy_websearch.config import did_you_mean
from ipy_websearch.errors import ConfigError
from ipy_websearch.tools.base import Tool

TOOL_SETS: dict[str, tuple[str, ...]] = {"standard": ("web_search", "web_fetch")}
"""The sets that `--tools` understands besides the names of single tools."""


def tool_names(wanted: str | Sequence[str], known: Mapping[str, object]) -> list[str]:
    """Return the names of the tools that `wanted` means, each once, in order.

    `wanted` is a list, or one string with commas or "+" between names of tools and sets; "none" is no tool at all.

    Raises:
        ConfigError: a name is neither a tool nor a set.
    """
    parts = wanted.replace("+", ",").split(",") if isinstance(wanted, str) else wanted
    names: dict[str, None] = {}
    for part in (part.strip() for part in parts):
        if part in TOOL_SETS:
            names.update(dict.fromkeys(TOOL_SETS[part]))
        elif part in known:
            names[part] = None
        elif part not in ("", "none"):
            choices = [*TOOL_SETS, *known]
            raise ConfigError(
                f"there is no tool or tool set {part!r}{did_you_mean(part, choices)} (there are {', '.join(choices)})"
            )
    return list(names)


def build_tools(wanted: str | Sequence[str], makers: Mapping[str, Callable[[], Tool]]) -> tuple[Tool, ...]:
    """Return the tools that `wanted` means; `makers` build them by name."""
    return tuple(makers[name]() for name in tool_names(wanted, makers))
