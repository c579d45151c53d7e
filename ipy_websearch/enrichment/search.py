"""The searches of a run: one provider for all rows, at the rate that it bears.

A single question rather goes to another provider than wait. Of a thousand rows, all should be answered by the same one: a 429
is waited out for all rows together. Every other failure follows the router: the next web provider of the chain stands in, and
nothing stands in for a provider asked for by name.
"""

from __future__ import annotations

from ipy_websearch.enrichment.limiter import ConcurrencyLimiter
from ipy_websearch.errors import ProviderError
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.router import SearchPlan, SearchRouter
from ipy_websearch.results import SearchResults
from ipy_websearch.usage import Charge

PATIENCE_S = 30.0
"""Seconds of nothing but 429s after which a search fails, or goes to the next provider."""

PAUSE_S = 1.0


class Searches:
    """Searches for many rows; `provider` names one (None: the chain). `charges` is what one search is expected to cost."""

    def __init__(self, router: SearchRouter, provider: str | None, concurrency: int, charges: tuple[Charge, ...]) -> None:
        self.charges = charges
        self._router = router
        self._provider = provider
        self._limiter = ConcurrencyLimiter(concurrency, patience_s=PATIENCE_S)
        self._refusal: ProviderError | None = None

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search.

        Raises:
            ProviderError: as `SearchRouter.run`; after a permanent one nothing more is sent.
        """
        if (refusal := self._refusal) is not None:
            raise ProviderError(str(refusal), provider=refusal.provider, status=refusal.status, reason=refusal.reason)
        plan = self._router.plan(request, self._provider)
        if plan.cached is not None or plan.provider in ("", "local"):
            return await self._router.run(plan)
        try:
            return await self._limited(plan)
        except ProviderError as exc:
            if exc.permanent:
                self._refusal = exc
            raise

    async def _limited(self, plan: SearchPlan) -> SearchResults:
        try:
            return await self._limiter.run(lambda: self._router.run(plan, hand_on_rate_limit=False), rate_limit_s)
        except ProviderError as exc:
            if self._provider or exc.reason != "rate":
                raise
            return await self._router.run(plan)


def rate_limit_s(error: Exception) -> float | None:
    """Return the seconds that a provider's 429 asks to wait, None for any other error."""
    rate_limited = isinstance(error, ProviderError) and error.reason == "rate"
    return (error.retry_after or PAUSE_S) if rate_limited else None  # type: ignore[attr-defined]
