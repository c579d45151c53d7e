"""The web tools that the API itself runs (seed 001's search), in the newest version that a model takes. Pure.

Versions and fields: platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool and web-fetch-tool, read 2026-11.
Versions from 2026-02-09 on filter results with code and need a model that can call tools from code; older models get the
first version, which every platform with server tools knows. Only one of the two domain lists may be sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.model.platforms import Platform
from ipy_websearch.options import as_tuple
from ipy_websearch.providers.base import SearchRequest

NEWEST = "20260318"
NATIVE = "native"
_SAME_NAMES = ("standard", "web_search", "web_fetch")
FIRST_SEARCH, FIRST_FETCH = "20250305", "20250910"
_OLDER = re.compile(r"claude-(3|opus-4-[015]|sonnet-4-[05]|opus-4(-2025|$)|sonnet-4(-2025|$)|haiku-4-5)")


def without_native(tools: str | Sequence[str]) -> tuple[list[str], bool]:
    """Return the wanted tools without the set "native", and whether it was among them.

    The API's tools have the names of ours, and a name may stand once in a request: next to the native set, `standard` and its
    tools are left out.
    """
    names = [
        part.strip() for part in (tools.replace("+", ",").split(",") if isinstance(tools, str) else as_tuple(tools, "tools"))
    ]
    if NATIVE not in names:
        return names, False
    return [name for name in names if name not in (NATIVE, *_SAME_NAMES)], True


def server_tools(model: str, platform: Platform, max_uses: int, request: SearchRequest) -> tuple[dict[str, Any], ...]:
    """Return `web_search` and `web_fetch` for a model on a platform, each for at most `max_uses` uses.

    The domains and the country of `request` bind them.

    Raises:
        ConfigError: the platform runs no tools.
    """
    if not platform.server_tools:
        raise ConfigError(f"{platform.name} has no web tools of its own; use --tools standard, which works everywhere")
    old = bool(_OLDER.search(model)) or platform.name == "vertex"
    bounds: dict[str, Any] = {"max_uses": max_uses}
    if request.allowed_domains:
        bounds["allowed_domains"] = list(request.allowed_domains)
    elif request.blocked_domains:
        bounds["blocked_domains"] = list(request.blocked_domains)
    search = {"type": f"web_search_{FIRST_SEARCH if old else NEWEST}", "name": "web_search", **bounds}
    if request.country:
        search["user_location"] = {"type": "approximate", "country": request.country.upper()}
    if platform.name == "vertex":
        return (search,)
    fetch = {"type": f"web_fetch_{FIRST_FETCH if old else NEWEST}", "name": "web_fetch", **bounds}
    return search, {**fetch, "citations": {"enabled": True}}
