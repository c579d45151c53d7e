"""What a caller's definition of a web tool allows. Pure.

A field that is not of its form is refused in one line that names it, before anything is sent, as the API would refuse it.
Fields: anthropic 2.11 `types/web_{search,fetch}_tool_*_param.py`; forms of domains: platform.claude.com/docs, "Server tools"
(read 2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NoReturn

from ipy_websearch.errors import ConfigError
from ipy_websearch.interception.url_sources import EVERYWHERE, UrlSources, url_sources
from ipy_websearch.providers.base import NOWHERE, Place
from ipy_websearch.text import plain, shorten

Kind = Literal["search", "fetch"]

_LOCATION_CHARACTERS = 255
_SHOWN_CHARACTERS = 100
_DOMAIN = re.compile(r"[^\s/*:]+(:\d+)?(/\S*)?")
_USUAL = {"type", "name", "max_uses"}  # most definitions say no more
_TTLS = (None, "5m", "1h")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a caller's tool definition allows: uses (None: not said), domains, where the user is, cited pages.

    `max_content_tokens` is how much of a page is read at once (None: as much as ever), `fresh` that no page comes out of the
    cache, `sources` where addresses that may be read come from.
    """

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    country: str = ""
    place: Place = NOWHERE
    citations: bool = True
    max_content_tokens: int | None = None
    fresh: bool = False
    sources: UrlSources = EVERYWHERE


def bounds_of(tool: Mapping[str, Any], kind: Kind, declared: Callable[[], Mapping[str, str]]) -> Bounds:
    """Return the bounds of a tool; `declared` gives the names of the request's tools, and what each is in a reply.

    Raises:
        ConfigError: the definition has both lists of domains, or a field that is not of its form.
    """
    if tool.keys() <= _USUAL:
        return Bounds(max_uses=_count(tool, "max_uses"), citations=kind == "search")
    allowed, blocked = _domains(tool, "allowed_domains"), _domains(tool, "blocked_domains")
    if allowed and blocked:
        raise ConfigError(f"{tool.get('name')!r} has allowed_domains and blocked_domains; give one of the two")
    country, place = _location(tool)
    _one_of(tool, "response_inclusion", ("full", "excluded"))
    _names(tool, "allowed_callers")
    for field in ("defer_loading", "strict"):
        _yes_or_no(tool, field)
    fetches = kind == "fetch"
    return Bounds(
        max_uses=_count(tool, "max_uses"),
        allowed_domains=allowed,
        blocked_domains=blocked,
        country=country,
        place=place,
        citations=not fetches or _cited(tool),
        max_content_tokens=_count(tool, "max_content_tokens") if fetches else None,
        fresh=fetches and _yes_or_no(tool, "use_cache") is False,
        sources=url_sources(tool, declared()) if fetches else EVERYWHERE,
    )


def both(first: Bounds, second: Bounds, tool: Mapping[str, Any]) -> Bounds:
    """Return the bounds that hold where a request defines a tool twice (`tool` is the second): what either of them demands.

    Raises:
        ConfigError: they demand different things.
    """
    most = [bounds.max_uses for bounds in (first, second) if bounds.max_uses is not None]
    merged: dict[str, Any] = {"max_uses": min(most, default=None)}
    for field in fields(Bounds):
        one, other = getattr(first, field.name), getattr(second, field.name)
        if field.name != "max_uses" and one != other:
            if field.default not in (one, other):
                name = plain(repr(tool.get("name")))
                raise ConfigError(f"{name} is defined twice, with a different {field.name}; leave one of the definitions")
            merged[field.name] = other if one == field.default else one
    made = replace(first, **merged)
    if made.allowed_domains and made.blocked_domains:
        raise ConfigError(
            f"{plain(repr(tool.get('name')))} is defined twice, with allowed_domains and blocked_domains; give one"
        )
    return made


def breakpoint_of(tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the cache breakpoint of a tool, None when it has none.

    Raises:
        ConfigError: it is not of its form.
    """
    value = tool.get("cache_control")
    if value is None:
        return None
    if not isinstance(value, Mapping) or value.get("type") != "ephemeral" or value.get("ttl") not in _TTLS:
        _refuse(tool, "cache_control", """{"type": "ephemeral"}, with a ttl of "5m" or "1h" if any""")
    return dict(value)


def _count(tool: Mapping[str, Any], field: str) -> int | None:
    value = tool.get(field)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    _refuse(tool, field, "a whole number, 1 or more")


def _yes_or_no(tool: Mapping[str, Any], field: str) -> bool | None:
    value = tool.get(field)
    return value if value is None or isinstance(value, bool) else _refuse(tool, field, "true or false")


def _one_of(tool: Mapping[str, Any], field: str, known: tuple[str, ...]) -> None:
    value = tool.get(field)
    if value is not None and not (isinstance(value, str) and value in known):
        _refuse(tool, field, " or ".join(map(repr, known)))


def _names(tool: Mapping[str, Any], field: str) -> None:
    value = tool.get(field)
    if value is not None and not (_is_list(value) and all(isinstance(name, str) for name in value)):
        _refuse(tool, field, "a list of names")


def _cited(tool: Mapping[str, Any]) -> bool:
    value = tool.get("citations")
    if value is None:
        return False
    enabled = value.get("enabled") if isinstance(value, Mapping) else value
    if not isinstance(value, Mapping) or not isinstance(enabled, bool | None):
        _refuse(tool, "citations", """{"enabled": true} or {"enabled": false}""")
    return bool(enabled)


def _location(tool: Mapping[str, Any]) -> tuple[str, Place]:
    """Return country and place of `user_location`, which the API takes as {"type": "approximate", "city": …}."""
    value = tool.get("user_location")
    if value is None:
        return "", NOWHERE
    if not isinstance(value, Mapping) or value.get("type", "approximate") != "approximate":
        _refuse(tool, "user_location", "an object of type 'approximate'")
    parts = [value.get(name) or "" for name in ("country", "city", "region", "timezone")]
    if not all(isinstance(part, str) and len(part) <= _LOCATION_CHARACTERS for part in parts):
        most = f"texts of at most {_LOCATION_CHARACTERS} characters"
        raise ConfigError(f"user_location of {tool.get('name')!r} must have country, city, region and timezone as {most}")
    country, *rest = (" ".join(part.split()) for part in parts)
    return country.lower(), Place(*rest)


def _domains(tool: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = tool.get(field) or ()
    if not _is_list(value) or not all(isinstance(domain, str) for domain in value):
        _refuse(tool, field, "a list of domains")
    return tuple(_domain(tool, field, domain) for domain in value)


def _domain(tool: Mapping[str, Any], field: str, domain: str) -> str:
    """Return a domain with its path; what "example.com/*" and "example.com/" mean is the whole of it."""
    if not _DOMAIN.fullmatch(domain.strip()):
        form = "names such as 'example.com' or 'example.com/blog', without a scheme, and with * in the path alone"
        _refuse({**tool, field: domain}, field, form)
    return re.sub(r"(/\*?)+$", "", domain.strip())


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset)


def _refuse(tool: Mapping[str, Any], field: str, form: str) -> NoReturn:
    shown = shorten(plain(repr(tool.get(field))), _SHOWN_CHARACTERS)
    raise ConfigError(f"{field} of {shorten(plain(repr(tool.get('name'))), _SHOWN_CHARACTERS)} is {shown}; it must be {form}")
