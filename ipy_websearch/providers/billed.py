"""What a search is booked at: what its engine's answer says, or the price expected where the answer was lost. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from ipy_websearch.pricing import charge_cost
from ipy_websearch.providers.base import Provider
from ipy_websearch.results import SearchResults
from ipy_websearch.usage import Charge


def price_of(engine: Provider) -> tuple[Charge, ...]:
    """Return what a search with an engine is expected to be billed."""
    price: tuple[Charge, ...] = getattr(engine, "price", (Charge(engine.name),))
    return price


def cost_of(results: SearchResults) -> Decimal | None:
    """Return what the charges cost together, None when one of them has no known price."""
    costs = [charge_cost(charge) for charge in results.charges]
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if len(known) == len(costs) else None


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
    return replace(results, cost_usd=cost_of(results))
