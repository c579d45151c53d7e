"""Keeps what a paid call gave, so that the same one is not paid for twice within the cache's time.

Searches are kept by the router. Here are the calls that have a door of their own: Brave's LLM Context and Firecrawl's pages,
searches and maps. What was kept costs nothing and says so; failures are never kept. Whether a call is allowed is the
tool's to judge before it asks here, since that depends on the conversation.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ipy_websearch.http.cache import Cache
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.text import fold
from ipy_websearch.tools.base import Passage, ToolOutput
from ipy_websearch.usage import Charge

if TYPE_CHECKING:
    from pydantic import BaseModel

_KIND = "tool-1"  # the number goes up whenever an output is stored in another form, or made differently of the same answer
_FIELDS = ("summary", "text", "panel_title", "panel_kind", "panel_data")
_FOLDED = ("query", "search")


@dataclass(frozen=True, slots=True)
class Keeper:
    """Keeps the outputs of one engine's tools in `cache` for `ttl_s()` seconds.

    `address` is where the engine is, so that a test server's answers are not taken for the real one's. `fresh` asks again
    even if there is an answer.
    """

    cache: Cache
    ttl_s: Callable[[], float]
    address: str
    fresh: bool = False

    async def output(
        self, tool: str, given: BaseModel, bounds: SearchRequest, make: Callable[[], Awaitable[ToolOutput]]
    ) -> ToolOutput:
        """Return the kept output of the same call, or what `make` gives; `bounds` is what the user set for the call."""
        key = self._key(tool, given, bounds)
        if not self.fresh and (kept := self._read(key)) is not None:
            return kept
        output = await make()
        if not output.is_error and self.ttl_s() > 0:
            self.cache.put(_KIND, key, _to_json(output))
        return output

    def _key(self, tool: str, given: BaseModel, bounds: SearchRequest) -> str:
        values = given.model_dump(mode="json")
        values.update({name: fold(values[name]) for name in _FOLDED if isinstance(values.get(name), str)})
        left_out = sorted(set(values) - given.model_fields_set)
        limits = (bounds.country, bounds.language, bounds.safe_search, bounds.freshness, bounds.goggles)
        domains = (sorted(bounds.allowed_domains), sorted(bounds.blocked_domains))
        return json.dumps([tool, self.address, values, left_out, limits, domains], sort_keys=True)

    def _read(self, key: str) -> ToolOutput | None:
        found = self.cache.get(_KIND, key, self.ttl_s())
        return _from_json(found[0]) if found is not None else None


def _to_json(output: ToolOutput) -> dict[str, Any]:
    values = {name: getattr(output, name) for name in _FIELDS}
    if isinstance(output.panel_data, bytes):
        values["panel_data"] = json.loads(output.panel_data)
    values["urls"], values["notices"] = list(output.urls), list(output.notices)
    values["passages"] = [
        [p.url, p.title, list(p.paragraphs), p.published_date and p.published_date.isoformat()] for p in output.passages
    ]
    values["charges"] = [[c.provider, c.kind, str(c.units), c.unit] for c in output.charges]
    return values


def _from_json(value: Any) -> ToolOutput | None:
    """Return a kept output, None for anything else (an entry of another version)."""
    try:
        output = ToolOutput(**{name: value[name] for name in _FIELDS})
        return replace(
            output,
            summary=f"{output.summary} (cached)",
            urls=tuple(value["urls"]),
            notices=tuple(value["notices"]),
            passages=tuple(
                Passage(url, title, tuple(paragraphs), date and datetime.fromisoformat(date))
                for url, title, paragraphs, date in value["passages"]
            ),
            charges=tuple(
                Charge(provider, kind, Decimal(units), unit, cached=True) for provider, kind, units, unit in value["charges"]
            ),
        )
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return None
