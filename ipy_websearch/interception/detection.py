"""Tells the web tools in a request from the caller's own, and puts a custom tool in their place. Pure.

Seed 004's table, with every future version (`web_search_2026…`): types that begin with `web_search_` or `web_fetch_`, and the
names below. What becomes of the fields of a native tool (platform.claude.com/docs, "Web search tool", "Web fetch tool" and
"Server tools", read 2026-11); one that is not of its form is refused, an unknown one is not looked at:

    held        max_uses, user_location, citations; allowed_domains and blocked_domains (paths for the search alone: one in
                a fetch's list fits no page, as in the API); max_content_tokens (pages are cut there), use_cache
                (false: no page out of the cache), url_sources; cache_control (on the last of our tools, with its ttl)
    no effect   allowed_callers: the model itself calls our tools, code never does; response_inclusion: it is about calls
                from code, those of the model are always given; strict: every input is checked here; defer_loading: our
                tools are not deferred, since a tool search would know them by another name than the caller
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ipy_websearch.interception.definition import Bounds, Kind, bounds_of, breakpoint_of
from ipy_websearch.model.platforms import Platform

__all__ = ["Bounds", "Kind", "Wanted", "capped", "kind_of", "runs_natively", "wanted_tools"]

SEARCH_NAME, FETCH_NAME = "ipy_web_search", "ipy_web_fetch"
UPSTREAM_NAMES: dict[str, Kind] = {SEARCH_NAME: "search", FETCH_NAME: "fetch"}
"""What our tools are called in the requests to the model: names that no platform has a meaning of its own for."""

NATIVE_NAMES: dict[Kind, str] = {"search": "web_search", "fetch": "web_fetch"}
"""What they are called in the replies to the caller."""

_NAMES: dict[str, Kind] = {
    **UPSTREAM_NAMES,
    "litellm_web_search": "search",
    "litellm_web_fetch": "fetch",
    "web_search": "search",
    "web_fetch": "fetch",
}
_WITHOUT_SCHEMA: dict[str, Kind] = {"WebSearch": "search", "WebFetch": "fetch"}
_VERTEX_TYPE = "web_search_20250305"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The web tools that a request wants run: their bounds, the caller's names for them, and the tools that are left.

    `cached` is the cache breakpoint for the last of them, None when the caller set none.
    """

    bounds: Mapping[Kind, Bounds]
    names: Mapping[str, Kind]
    others: tuple[Mapping[str, Any], ...]
    cached: Mapping[str, Any] | None = None


def kind_of(tool: Any) -> Kind | None:
    """Return whether a tool is a web search or a web fetch to run for the caller; None for any other tool."""
    if not isinstance(tool, Mapping):
        return None
    kind = str(tool.get("type") or "")
    if kind.startswith("web_search_") or kind == "web_search":
        return "search"
    if kind.startswith("web_fetch_") or kind == "web_fetch":
        return "fetch"
    if kind not in ("", "custom"):
        return None
    name = str(tool.get("name") or "")
    if name in _WITHOUT_SCHEMA and not tool.get("input_schema"):
        return _WITHOUT_SCHEMA[name]
    return _NAMES.get(name)


def runs_natively(tool: Mapping[str, Any], platform: Platform) -> bool:
    """Say whether a web tool can stay as it is: the platform runs it, or the caller runs it under a schema of its own.

    Our own names are asked for by people who want us to run them: no platform does.
    """
    if not platform.server_tools:
        return False
    kind, name = str(tool.get("type") or ""), str(tool.get("name") or "")
    if kind.startswith(("web_search_", "web_fetch_")):
        return platform.name != "vertex" or kind == _VERTEX_TYPE
    return bool(tool.get("input_schema")) and name in ("web_search", "web_fetch")


def wanted_tools(tools: Sequence[Mapping[str, Any]], platform: Platform, *, forced: bool) -> Wanted | None:
    """Return the web tools of a request that are to be run here, None when there are none.

    `forced` runs those too that the platform could run itself.

    Raises:
        ConfigError: a tool has both lists of domains, or a bound that is not of its form.
    """
    kinds = [kind if (kind := kind_of(tool)) and (forced or not runs_natively(tool, platform)) else None for tool in tools]
    if not any(kinds):
        return None
    bounds: dict[Kind, Bounds] = {}
    names: dict[str, Kind] = {}
    marks: list[Mapping[str, Any] | None] = []
    for tool, kind in zip(tools, kinds, strict=True):
        if kind is not None:
            names[str(tool.get("name") or NATIVE_NAMES[kind])] = kind
            bounds.setdefault(kind, bounds_of(tool, kind, lambda: _declared(tools)))
            marks.append(breakpoint_of(tool))
    if "search" in bounds and "fetch" in bounds:  # what a search finds may be read, or not: the fetch says so
        bounds["search"] = replace(bounds["search"], sources=bounds["fetch"].sources)
    others = tuple(tool for tool, kind in zip(tools, kinds, strict=True) if kind is None)
    return Wanted(bounds, names, others, _breakpoint(marks, others))


def _declared(tools: Sequence[Any]) -> dict[str, str]:
    """Return the names of a request's tools, and what each is called in a reply."""
    named = [tool for tool in tools if isinstance(tool, Mapping) and isinstance(tool.get("name"), str)]
    return {tool["name"]: NATIVE_NAMES[kind] if (kind := kind_of(tool)) else tool["name"] for tool in named}


def _breakpoint(marks: Sequence[Mapping[str, Any] | None], others: Sequence[Any]) -> Mapping[str, Any] | None:
    """Return the breakpoint for the last of our tools, which stand behind all others: of two the one that lasts longer.

    None that lasts an hour may stand behind a shorter one (platform.claude.com/docs, "Prompt caching", read 2026-11).
    """
    if not any(marks):
        return None
    given = sorted((mark for mark in marks if mark), key=lambda mark: mark.get("ttl") == "1h")
    before = [mark for tool in others if isinstance(tool, Mapping) and (mark := tool.get("cache_control"))]
    shorter = any(not isinstance(mark, Mapping) or mark.get("ttl") != "1h" for mark in before)
    return {"type": "ephemeral"} if shorter else given[-1]


def capped(bounds: Bounds, max_uses: int | None) -> Bounds:
    """Return bounds with at most `max_uses` uses (None: as they are)."""
    if max_uses is None:
        return bounds
    return replace(bounds, max_uses=max_uses if bounds.max_uses is None else min(max_uses, bounds.max_uses))
