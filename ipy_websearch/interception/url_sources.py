"""Which addresses a conversation gives to `web_fetch`: `url_sources` of its definition says whose count. Pure.

`user_input` is all or none; `client_tool_results` and `server_tool_results` are all, none, only the named tools' or all
except theirs (anthropic 2.11 `types/web_fetch_url_sources_param.py`, read 2026-11). Left out, everything counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.text import plain, shorten
from ipy_websearch.tools.addresses import addresses_in, addresses_of

_FIELDS = ("client_tool_results", "server_tool_results", "user_input")
_NATIVE_RESULTS = {"web_search_tool_result": "web_search", "web_fetch_tool_result": "web_fetch"}


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """Whose results count: those of the named tools, or with `others` those of all but the named ones."""

    others: bool = True
    names: frozenset[str] = frozenset()

    def takes(self, name: str) -> bool:
        """Say whether the results of a tool count."""
        return (name in self.names) != self.others


@dataclass(frozen=True, slots=True)
class UrlSources:
    """Where addresses that may be read come from; server tools go by their names in replies ("web_search")."""

    user: bool = True
    client: ToolFilter = ToolFilter()
    server: ToolFilter = ToolFilter()


EVERYWHERE = UrlSources()


def url_sources(tool: Mapping[str, Any], declared: Mapping[str, str]) -> UrlSources:
    """Return what the definition of a `web_fetch` says; `declared` has the request's tools and their names in replies.

    Raises:
        ConfigError: it is not of its form, or names a tool that is not there.
    """
    given = tool.get("url_sources")
    if given is None:
        return EVERYWHERE
    if not isinstance(given, Mapping) or not set(given) <= set(_FIELDS):
        raise _wrong(tool, "url_sources", given, f"an object with {', '.join(_FIELDS)}")
    client, server, user = (_filter(tool, field, given.get(field), declared) for field in _FIELDS)
    if user.names:
        raise _wrong(tool, "url_sources.user_input", given.get("user_input"), """{"type": "all"} or {"type": "none"}""")
    return UrlSources(user.others, client, server)


def _filter(tool: Mapping[str, Any], field: str, given: Any, declared: Mapping[str, str]) -> ToolFilter:
    kind = given.get("type") if isinstance(given, Mapping) else "all" if given is None else None
    if kind in ("all", "none"):
        return ToolFilter(others=kind == "all")
    tools = given.get("tools") if kind in ("only", "except") else None
    if not isinstance(tools, list | tuple):
        raise _wrong(tool, f"url_sources.{field}", given, "of type all or none, or only or except with a list of tools")
    names = [entry.get("name") if isinstance(entry, Mapping) else None for entry in tools]
    for name in names:
        if not isinstance(name, str) or name not in declared:
            raise _wrong(tool, f"url_sources.{field}", name, f"the name of one of the request's tools: {', '.join(declared)}")
    return ToolFilter(kind == "except", frozenset(declared[str(name)] for name in names))


def _wrong(tool: Mapping[str, Any], field: str, value: Any, form: str) -> ConfigError:
    return ConfigError(f"{field} of {plain(repr(tool.get('name')))} is {shorten(plain(repr(value)), 100)}; it must be {form}")


def known_addresses(messages: Sequence[Mapping[str, Any]], sources: UrlSources, ours: Mapping[str, str]) -> set[str]:
    """Return the addresses that a history gives: in the user's words, in results, in pages already read.

    `messages` are as the model gets them; `ours` has the names of our tools there, and in replies.
    """
    called: dict[str, str] = {}
    found: set[str] = set()
    for message in messages:
        content = message.get("content")
        if message.get("role") != "user":
            blocks = content if isinstance(content, list) else []
            for block in blocks:
                called |= _called(block)
            found |= found_natively(blocks, sources)
        elif isinstance(content, str):
            found |= addresses_in(content) if sources.user else set()
        else:
            for block in content or ():
                if isinstance(block, Mapping) and _counts(block, called, sources, ours):
                    found |= _addresses(block)
    return found


def found_natively(content: Sequence[Any], sources: UrlSources) -> set[str]:
    """Return the addresses that a platform's own tools found in one turn, as far as its results are there."""
    return {url for block in content for url in _native_hits(block, sources.server)}


def _called(block: Any) -> dict[str, str]:
    """Return the id and the tool of a call."""
    is_call = isinstance(block, Mapping) and block.get("type") == "tool_use"
    return {str(block.get("id")): str(block.get("name"))} if is_call else {}


def _counts(block: Mapping[str, Any], called: Mapping[str, str], sources: UrlSources, ours: Mapping[str, str]) -> bool:
    if block.get("type") != "tool_result":
        return sources.user
    name = called.get(str(block.get("tool_use_id")), "")
    return sources.server.takes(ours[name]) if name in ours else sources.client.takes(name)


def _native_hits(block: Any, server: ToolFilter) -> Iterator[str]:
    """Yield the addresses that a platform's own tool found, where the history still has its results."""
    name = _NATIVE_RESULTS.get(str(block.get("type"))) if isinstance(block, Mapping) else None
    if name is None or not server.takes(name):
        return
    content = block.get("content")
    for hit in content if isinstance(content, list) else [content]:
        if isinstance(hit, Mapping) and isinstance(hit.get("url"), str):
            yield hit["url"]


def _addresses(block: Mapping[str, Any]) -> set[str]:
    found = addresses_of({"role": "user", "content": [block]})
    inner = block.get("content")
    for text in [inner] if isinstance(inner, str) else [_text(part) for part in inner or ()]:
        found |= addresses_in(text)
    return found


def _text(part: Any) -> str:
    if not isinstance(part, Mapping):
        return ""
    inner = part.get("content")
    parts = inner if isinstance(inner, list) else ()
    return " ".join([str(part.get("text") or ""), *map(_text, parts)])
