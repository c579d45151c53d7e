"""The searches of an enrichment: one engine for all rows, at the pace that the engine bears.

A single question rather goes to another engine than wait. A thousand rows should all be answered from the same one, and none of
them be taken for "not found" because the engine was busy: so a 429 is waited out here, for all rows together, and fails the row
when waiting does not help. An engine that breaks or cannot be reached hands on to the next, as ever.
"""

from __future__ import annotations

from dataclasses import replace

from ipy_websearch.enrichment.legacy.schedule import Gate
from ipy_websearch.errors import ProviderError, RateLimitedError
from ipy_websearch.extract.reader import PageReader
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.router import SearchRouter, also_charged
from ipy_websearch.results import SearchResults
from ipy_websearch.tools.base import Tool
from ipy_websearch.tools.web_fetch import web_fetch_tool
from ipy_websearch.tools.web_search import web_search_tool

PATIENCE_S = 60.0
"""Seconds of nothing but refusals after which a search fails."""

PAUSE_S = 1.0
TOOL_TIMEOUT_S = 600.0
WIKIPEDIA = "wikipedia"
UNGATED = ("", "local")


def polite_fetch(reader: PageReader) -> Tool:
    """Return `web_fetch` for the model, held to each host's robots.txt; pages of one host wait for their turn."""
    return replace(web_fetch_tool(reader, robots=True), timeout_s=TOOL_TIMEOUT_S)


class PoliteSearch:
    """Searches for many rows; `provider` names one engine (None: the chain, its first engine before all)."""

    def __init__(self, router: SearchRouter, provider: str | None, most: int) -> None:
        self._router = router
        self._provider = provider
        self._first = provider or router.first()
        self._gate: Gate | None = None
        self._most = most

    def tool(self, defaults: SearchRequest) -> Tool:
        """Return `web_search` for the model; `defaults` gives all but the query."""
        tool = web_search_tool(self.search, defaults, price=self._router.expected_charges(self._provider))
        return replace(tool, timeout_s=TOOL_TIMEOUT_S)

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search; see `SearchRouter.search` for the errors."""
        if self._first in UNGATED:
            return await self._router.search(request, provider=self._provider)
        gate = self._gate = self._gate or Gate(self._most)
        again = False
        while True:
            ticket = await gate.enter(again=again)
            again = True
            try:
                results = await self._router.search(request, provider=self._first)
            except RateLimitedError as exc:
                if exc.permanent:  # a used-up quota is not waited for
                    gate.leave(ticket)
                    return await self._elsewhere(request, exc)
                gate.refused(ticket, exc.retry_after or PAUSE_S)
                if gate.starved_s > PATIENCE_S:
                    raise
            except ProviderError as exc:
                gate.leave(ticket)
                return await self._elsewhere(request, exc)
            except BaseException:
                gate.leave(ticket)
                raise
            else:
                gate.succeeded(ticket)
                return results

    async def _elsewhere(self, request: SearchRequest, error: ProviderError) -> SearchResults:
        """Ask the rest of the chain, unless one engine was asked for by name; later searches begin with who can be reached."""
        if self._provider:
            raise error
        try:
            results = await self._router.search(request)
        except ProviderError as exc:
            exc.charges = (*error.charges, *exc.charges)
            raise
        self._first = self._router.first()
        return also_charged(results, error.charges)
