"""The tools of one question; under a budget, Anthropic's own are bounded to the uses that the money buys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from ipy_websearch.keys import Keys
from ipy_websearch.loop.prompts import STANDARD
from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.requests import server_tools, without_native
from ipy_websearch.model.tokens import SEARCH_RESULT_TOKENS, native_tokens, server_searches
from ipy_websearch.money.budget import MIN_ANSWER_TOKENS
from ipy_websearch.money.prices import worst_case
from ipy_websearch.tools.base import Tool
from ipy_websearch.tools.registry import ToolFactory, build_tools
from ipy_websearch.usage import Limits

NATIVE_PAGE_TOKENS = 12_000
"""The most of a page that Anthropic's own web_fetch may read under a budget; without one there is no bound."""

_PROMPT_TOKENS = 4_000
Definition = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Offered:
    """The tools of one question: ours, Anthropic's own, the names of all, and what the reader should know of them."""

    tools: tuple[Tool, ...]
    server_tools: tuple[Definition, ...]
    names: tuple[str, ...]
    notices: tuple[str, ...] = ()


def offered(
    factory: ToolFactory,
    tools: str | Sequence[str],
    keys: Keys,
    platform: Platform,
    model: str,
    limits: Limits,
    room: Decimal | None,
) -> Offered:
    """Return the tools of one question; where `room` USD is left, Anthropic's own with uses that can be held to it.

    Raises:
        ConfigError: there is no such tool, or the platform runs none of its own. MissingKeyError: a tool lacks its key.
    """
    names, native = without_native(tools)
    ours = build_tools(names, factory, keys, native=native)
    server: tuple[Definition, ...] = ()
    if native:
        server = server_tools(model, platform, limits.max_searches, factory.defaults)
    offer = Offered(ours.tools, server, (*ours.names, *(STANDARD if native else ())), ours.notices)
    if room is None:
        return offer
    server, notices = affordable_native(server, model, room)
    return replace(offer, server_tools=server, notices=(*ours.notices, *notices))


def affordable_native(tools: Sequence[Definition], model: str, room: Decimal) -> tuple[tuple[Definition, ...], list[str]]:
    """Return Anthropic's own tools with as many uses as `room` USD buys at worst, and a notice when these are fewer.

    Pages are cut at `NATIVE_PAGE_TOKENS`. When not one use fits, there are no tools.
    """
    wanted = max((int(tool["max_uses"]) for tool in tools), default=0)
    for uses in range(wanted, 0, -1):
        bounded = tuple(_bounded(tool, uses) for tool in tools)
        searches = server_searches(bounded)
        tokens = _PROMPT_TOKENS + native_tokens(_PROMPT_TOKENS, bounded)
        cost = worst_case(model, tokens, MIN_ANSWER_TOKENS, server_searches=searches)
        after = worst_case(model, tokens // (uses + 1) + SEARCH_RESULT_TOKENS, MIN_ANSWER_TOKENS)
        if cost is None or after is None or cost + after <= room:
            return bounded, [] if uses == wanted else [f"the budget is enough for {uses} of {wanted} native searches"]
    return (), ["the budget is not enough for a native search, whose results may be long; it was left out"] if wanted else []


def _bounded(tool: Definition, uses: int) -> Definition:
    limits: dict[str, Any] = {"max_uses": uses}
    if str(tool["type"]).startswith("web_fetch_"):
        limits["max_content_tokens"] = NATIVE_PAGE_TOKENS
    return {**tool, **limits}
