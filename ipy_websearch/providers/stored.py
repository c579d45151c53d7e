"""Search results as JSON for the cache, and back without loss: dates, tuples, money and the engine's raw answer."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.text import fold
from ipy_websearch.usage import Charge

_OPERATORS = ("OR", "AND", "NOT")


def request_key(request: SearchRequest) -> tuple[Any, ...]:
    """Return what makes two requests the same: the folded query and every filter, domains in any order."""
    query = " ".join(word if word in _OPERATORS else fold(word) for word in request.query.split())
    return (
        query,
        request.count,
        request.freshness,
        request.country.lower(),
        request.language.lower(),
        request.safe_search,
        *(tuple(sorted(set(domains))) for domains in (request.allowed_domains, request.blocked_domains)),
        request.goggles,
        *((request.place.city, request.place.region, request.place.timezone) if request.place else ()),
    )


def to_json(results: SearchResults) -> dict[str, Any]:
    """Return the results as JSON; what belongs to one call alone (attempts, cost, cached) is left out."""
    # The engine's answer is kept as the text that it came as: to write it anew would take longer than all the rest.
    text = _text(results.body)
    answer = {"raw": results.raw} if text is None else {"body": text}
    return {
        "query": results.query,
        "provider": results.provider,
        "results": [
            [r.title, r.url, r.description, r.published_date and r.published_date.isoformat(), r.extra_snippets, r.score]
            for r in results
        ],
        "charges": [[c.provider, c.kind, str(c.units), c.unit, None if c.usd is None else str(c.usd)] for c in results.charges],
        "notices": results.notices,
        "extra": dict(results.extra),
        **answer,
    }


def _text(body: Any) -> str | None:
    try:
        return body.decode() if isinstance(body, bytes) else None
    except UnicodeDecodeError:
        return None


def from_json(value: Any) -> SearchResults | None:
    """Return results that `to_json` made, None for anything else (an entry of another version)."""
    try:
        body = value["body"].encode() if "body" in value else value["raw"]
        return SearchResults(
            results=tuple(
                SearchResult(title, url, words, date and datetime.fromisoformat(date), tuple(more), score)
                for title, url, words, date, more, score in value["results"]
            ),
            query=value["query"],
            provider=value["provider"],
            extra=value["extra"],
            charges=tuple(
                Charge(provider, kind, Decimal(units), unit, None if usd is None else Decimal(usd))
                for provider, kind, units, unit, usd in value["charges"]
            ),
            notices=tuple(value["notices"]),
            body=body,
        )
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return None
