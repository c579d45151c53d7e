"""Tokens and provider calls in the units they are billed in, and the limits of a question. Values only, no prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from math import inf
from typing import Any, Literal, NamedTuple

# Why an answer was cut short; None in its place means that it was not.
LimitName = Literal["max_searches", "max_steps", "budget", "timeout", "interrupted"]


class Terms(NamedTuple):
    """Terms that raise the price of a request's tokens: the fast mode, and inference that stays in the US."""

    fast: bool = False
    us_only: bool = False

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Terms:
        """Return the terms of a request, or of a reply's usage: both use the same field names.

        >>> Terms.of({"model": "claude-opus-5", "speed": "fast"})
        Terms(fast=True, us_only=False)
        """
        fast, us_only = fields.get("speed") == "fast", fields.get("inference_geo") == "us"
        return cls(fast, us_only) if fast or us_only else USUAL

    def __or__(self, other: Terms) -> Terms:
        return self if self is other else Terms(self.fast or other.fast, self.us_only or other.us_only)


USUAL = Terms()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and server tool uses of one model request, or the sum of several. All counts, none overlapping.

    `input_tokens` are those billed at the full input price: cache reads and writes are counted apart, as in the
    Messages API's `usage` object (platform.claude.com/docs, "Prompt caching", read 2026-11). `terms` are those that the
    request was billed at; a sum, which is no request and has no price, has those of any part.

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
    terms: Terms = USUAL

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_5m_tokens + other.cache_write_5m_tokens,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            self.server_searches + other.server_searches,
            self.server_fetches + other.server_fetches,
            self.terms | other.terms,
        )

    @property
    def total_input_tokens(self) -> int:
        """Everything that the model read: uncached input, cache reads and cache writes."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @classmethod
    def from_api(cls, usage: Mapping[str, Any] | None) -> Usage:
        """Return the usage of a Messages API `usage` object; anything that is not a count is 0.

        Without the `cache_creation` split, all cache writes count as five-minute ones, the API's default. Compactions are
        billed but missing from the top level, so they are added; the model's other iterations are in it already
        (anthropic 2.12 `types/beta/beta_usage.py`, read 2026-11). `reported` tells a missing count from a 0.
        """
        usage = _mapping(usage)
        total = cls._level(usage)
        iterations = usage.get("iterations")
        for part in iterations if isinstance(iterations, list | tuple) else ():
            if isinstance(part, Mapping) and part.get("type") == "compaction":
                total += cls._level(part)
        return total

    @classmethod
    def _level(cls, usage: Mapping[str, Any]) -> Usage:
        """Return the counts of one level of a `usage` object."""
        split = _mapping(usage.get("cache_creation"))
        written = _count(usage.get("cache_creation_input_tokens"))
        long_lived = _count(split.get("ephemeral_1h_input_tokens"))
        short_lived = _count(split.get("ephemeral_5m_input_tokens")) if split else written
        server = _mapping(usage.get("server_tool_use"))
        return cls(
            input_tokens=_count(usage.get("input_tokens")),
            output_tokens=_count(usage.get("output_tokens")),
            cache_read_tokens=_count(usage.get("cache_read_input_tokens")),
            cache_write_5m_tokens=max(short_lived, written - long_lived),
            cache_write_1h_tokens=long_lived,
            server_searches=_count(server.get("web_search_requests")),
            server_fetches=_count(server.get("web_fetch_requests")),
            terms=Terms.of(usage),
        )


def reported(usage: Mapping[str, Any] | None, name: str) -> bool:
    """Return whether a Messages API `usage` object holds a believable count of that name (0 is one)."""
    value = _mapping(usage).get(name)
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_COUNTED


# The largest count that is believed; sums of larger ones would not fit into the ledger's integers.
MOST_COUNTED = 2**53


def _count(value: Any) -> int:
    """Return a count as an int, also one written as 100.0; 0 for anything else."""
    return int(min(value, MOST_COUNTED)) if type(value) in (int, float) and 0 <= value < inf else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Charge:
    """One call to a provider, paid or free, in the unit it bills by.

    `units` counts `unit`s ("request", "credit", "page", …); `usd` is the cost that the provider reports (None: the price table
    decides). `cached` calls cost nothing and are booked all the same. `lost` calls were sent without a
    usable answer: they count as billed, at the expected price.
    """

    provider: str
    kind: Literal["search", "fetch", "context", "map"] = "search"
    units: Decimal = Decimal(1)
    unit: str = "request"
    usd: Decimal | None = None
    cached: bool = False
    lost: bool = False


def lost(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """Return the charges of calls that were sent and got no usable answer; those from the cache are left out."""
    return tuple(replace(charge, lost=True) for charge in charges if not charge.cached)


@dataclass(frozen=True, slots=True)
class Limits:
    """How far one question may go.

    `max_searches` counts calls of search tools, `max_steps` model requests before the one that answers, `budget_usd` US dollars
    for model and providers together (None: no budget of its own), `timeout_s` wall-clock seconds from question to answer.
    """

    max_searches: int = 5
    max_steps: int = 8
    budget_usd: Decimal | None = None
    timeout_s: float = 120.0
