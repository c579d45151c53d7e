"""Tells the web tools in a request from the caller's own, and puts a custom tool in their place. Pure.

Seed 004's table, with every future version (`web_search_2026…`): types that begin with `web_search_` or `web_fetch_`, and the
names below. Fields of the native tools: platform.claude.com/docs, "Web search tool" and "Web fetch tool", read 2026-11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ipy_websearch.errors import ConfigError
from ipy_websearch.model.platforms import Platform
from ipy_websearch.providers.place import NOWHERE, Place

Kind = Literal["search", "fetch"]

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
_LOCATION_CHARACTERS = 255


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a caller's tool definition allows: uses (None: not said), domains, where the user is, cited pages."""

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    country: str = ""
    place: Place = NOWHERE
    citations: bool = True


@dataclass(frozen=True, slots=True)
class Wanted:
    """The web tools that a request wants run: their bounds, the caller's names for them, and the tools that are left."""

    bounds: Mapping[Kind, Bounds]
    names: Mapping[str, Kind]
    others: tuple[Mapping[str, Any], ...]
    cached: bool = False


def kind_of(tool: Mapping[str, Any]) -> Kind | None:
    """Return whether a tool is a web search or a web fetch to run for the caller; None for any other tool."""
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
    bounds: dict[Kind, Bounds] = {}
    names: dict[str, Kind] = {}
    others: list[Mapping[str, Any]] = []
    cached = False
    for tool in tools:
        kind = kind_of(tool)
        if kind is None or (not forced and runs_natively(tool, platform)):
            others.append(tool)
            continue
        names[str(tool.get("name") or NATIVE_NAMES[kind])] = kind
        bounds.setdefault(kind, _bounds(tool, kind))
        cached = cached or bool(tool.get("cache_control"))
    return Wanted(bounds, names, tuple(others), cached) if bounds else None


def capped(bounds: Bounds, max_uses: int | None) -> Bounds:
    """Return bounds with at most `max_uses` uses (None: as they are)."""
    if max_uses is None:
        return bounds
    return replace(bounds, max_uses=max_uses if bounds.max_uses is None else min(max_uses, bounds.max_uses))


def _bounds(tool: Mapping[str, Any], kind: Kind) -> Bounds:
    uses = tool.get("max_uses")
    if uses is not None and (not isinstance(uses, int) or isinstance(uses, bool) or uses < 1):
        raise ConfigError(f"max_uses of {tool.get('name')!r} is {uses!r}; it must be a whole number, 1 or more")
    allowed, blocked = _domains(tool, "allowed_domains"), _domains(tool, "blocked_domains")
    if allowed and blocked:
        raise ConfigError(f"{tool.get('name')!r} has allowed_domains and blocked_domains; give one of the two")
    country, place = _location(tool)
    cited = tool.get("citations")
    citations = kind == "search" or (isinstance(cited, Mapping) and bool(cited.get("enabled")))
    return Bounds(uses, allowed, blocked, country, place, citations)


def _location(tool: Mapping[str, Any]) -> tuple[str, Place]:
    """Return country and place of `user_location`, which the API takes as {"type": "approximate", "city": …}."""
    value = tool.get("user_location")
    if value is None:
        return "", NOWHERE
    if not isinstance(value, Mapping) or value.get("type", "approximate") != "approximate":
        raise ConfigError(f"user_location of {tool.get('name')!r} is {value!r}; it must be an object of type 'approximate'")
    parts = [value.get(name) or "" for name in ("country", "city", "region", "timezone")]
    if not all(isinstance(part, str) and len(part) <= _LOCATION_CHARACTERS for part in parts):
        most = f"texts of at most {_LOCATION_CHARACTERS} characters"
        raise ConfigError(f"user_location of {tool.get('name')!r} must have country, city, region and timezone as {most}")
    country, *rest = (" ".join(part.split()) for part in parts)
    return country.lower(), Place(*rest)


def _domains(tool: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = tool.get(field) or ()
    if isinstance(value, str) or not all(isinstance(domain, str) for domain in value):
        raise ConfigError(f"{field} of {tool.get('name')!r} is {value!r}; it must be a list of domains")
    return tuple(value)
