"""The public API as a type checker sees it: this file is checked, never run. `python -m tests` does so under "types"."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, assert_type

import anthropic

import ipy_websearch as web
from ipy_websearch.results import Answer, Citation, Page, SearchResult, SearchResults

if TYPE_CHECKING:
    from collections.abc import Mapping


def searching() -> None:
    """Results are a sequence of results; money is exact or unknown."""
    results = web.search("duckdb 2.0", count=3, allowed_domains=["duckdb.org"], freshness="pw")
    assert_type(results, SearchResults)
    assert_type(results[0], SearchResult)
    assert_type(results[:2], tuple[SearchResult, ...])
    assert_type(results.cost_usd, Decimal | None)
    assert_type(web.fetch("https://example.org/", offset=10, limit=20), Page)


def asking() -> None:
    """Limits are keywords; what comes back says which one ended it."""
    answer = web.ask("How many moons has Mars?", max_searches=2, budget_usd="0.05", columns={"name": str})
    assert_type(answer, Answer)
    assert_type(answer.citations, tuple[Citation, ...])
    assert_type(answer.cost_usd, Decimal | None)
    web.ask("why?", max_serches=2)  # type: ignore[call-arg]
    web.ask("why?", max_searches="2")  # type: ignore[arg-type]
    messages: Mapping[str, Any] = answer.messages[0]
    print(messages)


def intercepting() -> None:
    """A client keeps its class."""
    assert_type(web.intercept(anthropic.Anthropic(), provider="brave"), anthropic.Anthropic)
    assert_type(web.intercept(anthropic.AsyncAnthropic()), anthropic.AsyncAnthropic)
