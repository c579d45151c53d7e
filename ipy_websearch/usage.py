"""What a call used, in the units it is billed in, and the limits a question runs under. Pure values, no prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

LimitName = Literal["max_searches", "max_steps", "budget", "timeout", "interrupted"]
"""Why an answer was cut short; None in its place means that it was not."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and server tool uses of one model request, or the sum of several. All counts, none overlapping.

    `input_tokens` are those billed at the full input price: cache reads and writes are counted apart, as in the
    Messages API's `usage` object (platform.claude.com/docs, "Prompt caching", read 2026-11).

    >>> (Usage(input_tokens=20, cache_read_tokens=1_000) + Usage(input_tokens=5)).total_input_tokens
    1025
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    server_searches: int = 0
    server_fetches: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_5m_tokens + other.cache_write_5m_tokens,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            self.server_searches + other.server_searches,
            self.server_fetches + other.server_fetches,
        )

    @property
    def total_input_tokens(self) -> int:
        """Everything that the model read: uncached input, cache reads and cache writes."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @classmethod
    def from_api(cls, usage: Mapping[str, Any] | None) -> Usage:
        """Return the usage of a Messages API `usage` object; absent or null counts are 0, old forms are understood.

        Without the `cache_creation` split, all cache writes count as five-minute ones, the API's default.
        """
        usage = usage or {}
        split = usage.get("cache_creation") or {}
        written = _count(usage.get("cache_creation_input_tokens"))
        long_lived = _count(split.get("ephemeral_1h_input_tokens"))
        short_lived = _count(split.get("ephemeral_5m_input_tokens")) if split else written
        server = usage.get("server_tool_use") or {}
        return cls(
            input_tokens=_count(usage.get("input_tokens")),
            output_tokens=_count(usage.get("output_tokens")),
            cache_read_tokens=_count(usage.get("cache_read_input_tokens")),
            cache_write_5m_tokens=max(short_lived, written - long_lived),
            cache_write_1h_tokens=long_lived,
            server_searches=_count(server.get("web_search_requests")),
            server_fetches=_count(server.get("web_fetch_requests")),
        )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


@dataclass(frozen=True, slots=True)
class Charge:
    """One paid (or free) call to an engine, in the unit it bills by.

    `units` counts `unit`s ("request", "credit", "page", …); `usd` is what the engine's own answer reported, None when
    it reports nothing: the price table then decides. `cached` calls cost nothing and are booked all the same.
    """

    provider: str
    kind: Literal["search", "fetch", "context", "map"] = "search"
    units: Decimal = Decimal(1)
    unit: str = "request"
    usd: Decimal | None = None
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """How far one question may go.

    `max_searches` counts calls of search tools, `max_steps` model requests, `budget_usd` US dollars over model and
    engines together (None: no ceiling of its own), `timeout_s` wall-clock seconds from the question to the answer.
    """

    max_searches: int = 5
    max_steps: int = 8
    budget_usd: Decimal | None = None
    timeout_s: float = 120.0
