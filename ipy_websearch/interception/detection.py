"""Tells the web tools in a request from the caller's own, and puts a custom tool in their place. Pure.

Seed 004's table, with every future version (`web_search_2026…`): types that begin with `web_search_` or `web_fetch_`, and the
names below. What becomes of the fields of a native tool (platform.claude.com/docs, "Web search tool", "Web fetch tool" and
"Server tools", read 2026-11); one that is not of its form is refused, an unknown one is not looked at:

    held        max_uses, user_location, citations; allowed_domains and blocked_domains (paths for the search alone: one in
                a fetch's list fits no page, as in the API); max_content_tokens (pages are cut there), use_cache
                (false: no page out of the cache), url_sources; cache_control (on the last of our tools, with its ttl)
    no effect   allowed_callers: the model itself calls our tools, code never does; response_inclusion: it is about calls
                from code, those of the model are always given; strict: every input is checked here

`defer_loading` is held too: a tool search finds our tools under our names, and references to them are renamed both ways
(`references`). Where the API would refuse it (with `cache_control`, or with no tool left that is loaded), it is without effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ipy_websearch.interception.definition import Bounds, Kind, both, bounds_of, breakpoint_of
from ipy_websearch.interception.references import renamed
from ipy_websearch.model.platforms import Platform

__all__ = ["Bounds", "Kind", "Wanted", "capped", "kind_of", "runs_natively", "wanted_tools"]

SEARCH_NAME, FETCH_NAME = "ipy_web_search", "ipy_web_fetch"
UPSTREAM_NAMES: dict[str, Kind] = {SEARCH_NAME: "search", FETCH_NAME: "fetch"}
"""What our tools are called in the requests to the model: names that no platform has a meaning of its own for."""

NATIVE_NAMES: dict[Kind, str] = {"search": "web_search", "fetch": "web_fetch"}
"""What they are called in the replies to the caller."""

_OURS = {kind: name for name, kind in UPSTREAM_NAMES.items()}

_NAMES: dict[str, Kind] = {
    **UPSTREAM_NAMES,
    "litellm_web_search": "search",
    "litellm_web_fetch": "fetch",
    "web_search": "search",
    "web_fetch": "fetch",
}
_WITHOUT_SCHEMA: dict[str, Kind] = {"WebSearch": "search", "WebFetch": "fetch"}
_VERTEX_TYPE = "web_search_20250305"

EVERY_NAME = _NAMES | _WITHOUT_SCHEMA
"""What a call of one of our tools may be named in a reply, whatever it was defined as (seed 004, "Response Detection")."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The web tools that a request wants run: their bounds, the caller's names for them, and the tools that are left.

    `cached` is the cache breakpoint for the last of them, None when the caller set none; `deferred` are those that the model
    gets only when a tool search finds them.
    """

    bounds: Mapping[Kind, Bounds]
    names: Mapping[str, Kind]
    others: tuple[Mapping[str, Any], ...]
    cached: Mapping[str, Any] | None = None
    deferred: frozenset[Kind] = frozenset()

    @property
    def upstream(self) -> dict[str, str]:
        """The names by which a caller refers to the tools that are run here, and ours for each."""
        taken = [tool.get("name") for tool in self.others if isinstance(tool, Mapping)]
        native = {name: kind for kind in self.bounds if (name := NATIVE_NAMES[kind]) not in taken}
        return {name: _OURS[kind] for name, kind in {**native, **self.names}.items()}

    def for_caller(self, block: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a block of a reply with the caller's names where it refers to our tools: the first that the caller gave."""
        if block.get("type") in ("text", "thinking", "tool_use"):
            return block  # nearly all blocks are of these
        names = {_OURS[kind]: NATIVE_NAMES[kind] for kind in self.bounds}
        names |= {_OURS[kind]: name for name, kind in reversed([*self.names.items()])}
        return renamed(block, names)

    def defined(self, definitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the definitions of our tools as the model gets them, deferred and with the breakpoint."""
        made = [dict(definition) for definition in definitions]
        for tool in made:
            if UPSTREAM_NAMES.get(tool["name"]) in self.deferred:
                tool["defer_loading"] = True
        loaded = [tool for tool in made if "defer_loading" not in tool]
        if self.cached and loaded:
            loaded[-1]["cache_control"] = self.cached
        return made


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
            made = bounds_of(tool, kind, lambda: _declared(tools))
            bounds[kind] = both(bounds[kind], made, tool) if kind in bounds else made
            marks.append(breakpoint_of(tool))
    if "search" in bounds and "fetch" in bounds:  # what a search finds may be read, or not: the fetch says so
        bounds["search"] = replace(bounds["search"], sources=bounds["fetch"].sources)
    others = tuple(tool for tool, kind in zip(tools, kinds, strict=True) if kind is None)
    return Wanted(bounds, names, others, _breakpoint(marks, others), _deferred(tools, kinds))


def _deferred(tools: Sequence[Mapping[str, Any]], kinds: Sequence[Kind | None]) -> frozenset[Kind]:
    """Return which of our tools are deferred: not one with a breakpoint, and not all tools of a request."""
    loaded = {kind for tool, kind in zip(tools, kinds, strict=True) if _is_loaded(tool)}
    return frozenset(kind for kind in kinds if kind is not None and kind not in loaded) if loaded else frozenset()


def _is_loaded(tool: Any) -> bool:
    """Say whether the model gets a tool without a search for it; a set of tools is taken for deferred."""
    if not isinstance(tool, Mapping) or tool.get("type") == "mcp_toolset":
        return False
    return not tool.get("defer_loading") or bool(tool.get("cache_control"))


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
