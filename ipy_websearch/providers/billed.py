"""What a search is billed: expected beforehand, and by its answer or the price expected where that was lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from ipy_websearch.money.prices import charges_cost
from ipy_websearch.providers.base import Provider
from ipy_websearch.results import SearchResults
from ipy_websearch.usage import Charge


def price_of(engine: Provider) -> tuple[Charge, ...]:
    """Return what a search with an engine is expected to be billed."""
    price: tuple[Charge, ...] = getattr(engine, "price", (Charge(engine.name),))
    return price


def free(results: SearchResults) -> SearchResults:
    """Return results that somebody else has paid for."""
    return replace(
        results,
        cached=True,
        cost_usd=Decimal(0),
        charges=tuple(replace(charge, cached=True) for charge in results.charges),
    )


def also_charged(results: SearchResults, charges: Sequence[Charge]) -> SearchResults:
    """Return results that cost what other searches cost as well, whose answers were lost."""
    if not charges:
        return results
    results = replace(results, charges=(*charges, *results.charges))
    return replace(results, cost_usd=charges_cost(results.charges))
