"""Cache breakpoints: the caller's stay where they were set, and the newest results get one where a place is left. Pure.

A request may have four, and none that lasts an hour behind one that lasts less (platform.claude.com/docs, "Prompt caching",
read 2026-11). A result that is sent back stands further behind than the caller had it: behind all that its reply wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.requests import CACHE_CONTROL

MAX_BREAKPOINTS = 4

Block = Mapping[str, Any]


def of_block(block: Block) -> dict[str, Any]:
    """Return the breakpoint of a block as a field for the block that stands for it; nothing where there is none."""
    return {"cache_control": mark} if (mark := block.get("cache_control")) else {}


def in_order(results: Sequence[dict[str, Any]], turn: Iterable[Block]) -> list[dict[str, Any]]:
    """Return the results of a turn's calls; an hour's breakpoint is a short one where the turn has a short one already."""
    if any(_lasts_less(block) for block in turn):
        return [{**b, "cache_control": CACHE_CONTROL} if b.get("cache_control") else b for b in results]
    return list(results)


def on_newest_results(messages: list[dict[str, Any]], body: Block, platform: Platform) -> list[dict[str, Any]]:
    """Return the history with a breakpoint on its last block, if the caller caches in `body` and a place is left.

    Where the whole request is marked, the API sets that one itself, and refuses another of a different lifetime there.
    """
    if body.get("cache_control"):
        return messages
    last = messages[-1]
    if not platform.caching or isinstance(last["content"], str) or not 0 < _count(body) < MAX_BREAKPOINTS:
        return messages
    content = [*last["content"][:-1], {**last["content"][-1], "cache_control": CACHE_CONTROL}]
    return [*messages[:-1], {**last, "content": content}]


def _count(body: Block) -> int:
    """Return how many breakpoints a request has."""
    return sum(isinstance(place, Mapping) and bool(place.get("cache_control")) for place in _places(body))


def _places(body: Block) -> Iterator[Any]:
    yield body
    yield from _listed(body.get("system"))
    yield from _listed(body.get("tools"))
    for message in body.get("messages") or ():
        for block in _listed(message.get("content")):
            yield block
            yield from _listed(block.get("content") if isinstance(block, Mapping) else None)


def _lasts_less(block: Block) -> bool:
    mark = block.get("cache_control")
    return bool(mark) and not (isinstance(mark, Mapping) and mark.get("ttl") == "1h")


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
